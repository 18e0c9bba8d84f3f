"""Literals of a predicate converted to the representation of the lane they are compared with.

Takes literals in internal form; returns machine numbers, 128-bit words or bytes. Conversion is exact: a literal that
the lane cannot represent (out of range, more fraction digits than its scale) becomes a comparison with the
nearest one that it can represent, or TRUE or FALSE; it never overflows and is never rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from decimal import Decimal

    from numpy.typing import NDArray

_MAX_POWER_OF_TEN = 60  # 128 bits hold 39 digits: any larger power of ten is out of range as well
_MAX_LITERALS_KEPT = 1_000_000  # about 20 MB as integers, with the hash table and bitmap of `members`
_prepared: dict[tuple[int, Any], tuple[Any, Any]] = {}


def as_whole(op: str, value: int | Decimal, scale: int, bits: int) -> tuple[str, int] | bool:
    """Rewrite ``x op value`` as a comparison of integers, where x is a signed `bits`-bit integer / 10^`scale`.

    Returns:
        The operator and an integer within range to compare x's integer with; or the constant result.

    >>> from decimal import Decimal
    >>> as_whole("<", Decimal("1.255"), 2, 128)
    ('<=', 125)
    >>> as_whole("=", 3000000000, 0, 32)
    False
    """
    whole, exact = scaled(value, scale)
    if not exact:
        if op in ("=", "<=>", "<>"):
            return op == "<>"
        op = "<=" if op in ("<", "<=") else ">"
    if -(1 << bits - 1) <= whole < 1 << bits - 1:
        return op, whole
    return op == "<>" or op in (("<", "<=") if whole > 0 else (">", ">="))


def as_integers(values: Iterable[int | Decimal]) -> NDArray[np.int64]:
    """Return the values that are 64-bit integers, distinct and ascending."""
    whole = (scaled(value, 0) for value in values)
    kept = [number for number, exact in whole if exact and -(1 << 63) <= number < 1 << 63]
    return _frozen(np.unique(np.array(kept, np.int64)))


def as_words(values: Iterable[int | Decimal], scale: int) -> NDArray[np.int64]:
    """Return the values that a 128-bit decimal of this scale can hold, distinct: int64 (n, 2), low word first."""
    whole = (scaled(value, scale) for value in values)
    kept = {number for number, exact in whole if exact and -(1 << 127) <= number < 1 << 127}
    raw = b"".join(number.to_bytes(16, "little", signed=True) for number in sorted(kept))
    return _frozen(np.frombuffer(raw, np.int64).reshape(-1, 2))


def as_float(value: float, dtype: np.dtype[Any]) -> Any:
    """Return a scalar that compares exactly with floats of `dtype`: float64 if float32 would round it."""
    wide = np.float64(value)
    if dtype != np.float32:
        return wide
    with np.errstate(over="ignore"):
        narrow = np.float32(value)
    return narrow if narrow == wide or np.isnan(wide) else wide


def as_text(value: str | bytes) -> NDArray[np.uint8]:
    """Return a string's UTF-8 bytes, or the given bytes, as uint8."""
    return _frozen(np.frombuffer(_encoded(value), np.uint8))


def as_texts(values: Iterable[str | bytes]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return distinct strings or byte strings in Arrow's layout: int64 offsets (n + 1,) and uint8 data."""
    encoded = list(dict.fromkeys(_encoded(value) for value in values))
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return _frozen(offsets), _frozen(np.frombuffer(b"".join(encoded), np.uint8))


def prepare_once(values: tuple[Any, ...], kind: Any, make: Callable[[], Any]) -> Any:
    """Return `make()`, cached by the identity of the tuple of literals and `kind`.

    Converting 10,000 literals takes 3 ms, and a scan evaluates its IN lists once per batch.
    """
    key = (id(values), kind)
    found = _prepared.get(key)
    if found is not None and found[0] is values:  # the cache references it, so its id is not reused
        return found[1]
    made = make()
    num_literals = len(values) + sum(len(others) for others, _ in list(_prepared.values()))
    if num_literals > _MAX_LITERALS_KEPT:
        _prepared.clear()
    if len(values) <= _MAX_LITERALS_KEPT:
        _prepared[key] = (values, made)
    return made


def scaled(value: int | Decimal, scale: int) -> tuple[int, bool]:
    """Return floor(value · 10^`scale`), and whether that is exact."""
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
        return coefficient * 10 ** min(exponent, _MAX_POWER_OF_TEN), True
    dropped = min(-exponent, len(digits) + 1)  # dropping more than all digits changes nothing
    whole, rest = divmod(coefficient, 10**dropped)
    return whole, rest == 0


def _encoded(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only: numba would compile each kernel again for writeable arrays."""
    values.flags.writeable = False
    return values
