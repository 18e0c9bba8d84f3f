"""Literals of a predicate as the values that lanes hold.

Takes literals in internal form; gives machine numbers, 128-bit words or bytes. The rule: by value, exactly.
A literal that the lane cannot hold (out of range, more digits than the scale) turns into the comparison
with the nearest one that it can, or into TRUE or FALSE; it never overflows and is never rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from decimal import Decimal

    from numpy.typing import NDArray

_MOST_DIGITS = 60  # 128 bits hold 39; beyond these the exact digits no longer matter
_REMEMBERED = 1_000_000  # literals: some 20 MB as integers, with table and bit map
_remembered: dict[tuple[int, Any], tuple[Any, Any]] = {}


def as_whole(op: str, value: int | Decimal, scale: int, bits: int) -> tuple[str, int] | bool:
    """Restate ``x op value``, where x is a signed integer of `bits` bits over ten to the `scale`.

    Returns:
        The comparison of that integer with an integer in its range; or its constant answer.

    >>> from decimal import Decimal
    >>> as_whole("<", Decimal("1.255"), 2, 128)
    ('<=', 125)
    >>> as_whole("=", 3000000000, 0, 32)
    False
    """
    whole, exact = _scaled(value, scale)
    if not exact:
        if op in ("=", "<=>", "<>"):
            return op == "<>"
        op = "<=" if op in ("<", "<=") else ">"
    if -(1 << bits - 1) <= whole < 1 << bits - 1:
        return op, whole
    return op == "<>" or op in (("<", "<=") if whole > 0 else (">", ">="))


def as_integers(values: Iterable[int | Decimal]) -> NDArray[np.int64]:
    """Return the values that are 64-bit integers, each once, ascending."""
    whole = (_scaled(value, 0) for value in values)
    kept = [number for number, exact in whole if exact and -(1 << 63) <= number < 1 << 63]
    return _frozen(np.unique(np.array(kept, np.int64)))


def as_words(values: Iterable[int | Decimal], scale: int) -> NDArray[np.int64]:
    """Return the values that are 128-bit integers over ten to the `scale`, as words, each once."""
    whole = (_scaled(value, scale) for value in values)
    kept = {number for number, exact in whole if exact and -(1 << 127) <= number < 1 << 127}
    raw = b"".join(number.to_bytes(16, "little", signed=True) for number in sorted(kept))
    return _frozen(np.frombuffer(raw, np.int64).reshape(-1, 2))


def as_float(value: float, dtype: np.dtype[Any]) -> Any:
    """Return a float that compares with floats of `dtype` by value: float64 where it needs to be."""
    wide = np.float64(value)
    if dtype != np.float32:
        return wide
    with np.errstate(over="ignore"):
        narrow = np.float32(value)
    return narrow if narrow == wide or np.isnan(wide) else wide


def as_text(value: str | bytes) -> NDArray[np.uint8]:
    """Return a string's UTF-8 bytes, or the bytes themselves."""
    return _frozen(np.frombuffer(_encoded(value), np.uint8))


def as_texts(values: Iterable[str | bytes]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return strings or byte strings, each once, as Arrow lays them out: offsets and data."""
    encoded = list(dict.fromkeys(_encoded(value) for value in values))
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return _frozen(offsets), _frozen(np.frombuffer(b"".join(encoded), np.uint8))


def remember(values: tuple[Any, ...], kind: Any, make: Callable[[], Any]) -> Any:
    """Return `make()` of a tuple of literals, kept for the next batch that asks with the same tuple.

    Turning 10,000 literals into an array takes 3 ms; a scan asks once for each batch.
    """
    key = (id(values), kind)
    found = _remembered.get(key)
    if found is not None and found[0] is values:  # held here, so its id is nobody else's
        return found[1]
    made = make()
    num_literals = len(values) + sum(len(others) for others, _ in list(_remembered.values()))
    if num_literals > _REMEMBERED:
        _remembered.clear()
    if len(values) <= _REMEMBERED:
        _remembered[key] = (values, made)
    return made


def _scaled(value: int | Decimal, scale: int) -> tuple[int, bool]:
    """Return floor(value times ten to the `scale`), and whether that is all of it."""
    if isinstance(value, int):
        return value * 10**scale, True
    if not value.is_finite():
        raise InternalError("BAD_PREDICATE", f"Not a number to compare with: {value}", stage="filter")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    coefficient = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    exponent += scale
    if coefficient == 0 or exponent == 0:
        return coefficient, True
    if exponent > 0:
        return coefficient * 10 ** min(exponent, _MOST_DIGITS), True
    dropped = min(-exponent, len(digits) + 1)  # dropping more digits than there are changes nothing
    whole, rest = divmod(coefficient, 10**dropped)
    return whole, rest == 0


def _encoded(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only, so that a kernel is compiled once and not once for each."""
    values.flags.writeable = False
    return values
