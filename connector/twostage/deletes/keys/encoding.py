"""Key columns as words and bytes, the form in which equality deletes compare them.

Takes Arrow arrays of key columns (of a delete file or of data rows) and their Iceberg types; returns key rows
(`KeyRows`) grouped by which of their columns are NULL. The rule: two keys are equal in Iceberg if and only if
they are in the same group with the same words and the same bytes. NULL equals NULL and NaN equals NaN,
whatever its bits; -0.0 and 0.0 differ, as they do for Iceberg-Java (``Comparators.forType`` gives float and
double their natural order, which is ``Double.compare``; ``StructLikeWrapper`` hashes with
``Double.hashCode``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from twostage.schema import Primitive

TEXT = frozenset({"string", "binary", "fixed"})
LONG_DIGITS = 18
"""Maximum precision of decimals that fit in 64 bits."""
_PER_MICRO = {"s": 1_000_000, "ms": 1_000, "us": 1}
_PER_NANO = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_MICROS = 86_400_000_000
_NO_OFFSETS = np.zeros(0, np.int64)
_NO_BYTES = np.zeros(0, np.uint8)
_BITS_OF_A_WORD = 64
_HEX = np.full(256, 255, np.uint8)
for _digit in range(16):
    _HEX[ord(f"{_digit:x}")] = _HEX[ord(f"{_digit:X}")] = _digit
_DASHES = np.array([8, 13, 18, 23])
_DIGITS = np.delete(np.arange(36), _DASHES)


@dataclass(frozen=True, slots=True, eq=False)
class KeyColumn:
    """One key column.

    Attributes:
        words: Fixed-width values, shape (rows, words): no word for text, else one or two.
        text: Text and binary values; None for other types.
        valid: A bool for each row: whether it is not NULL; None if no row is NULL.
    """

    words: NDArray[np.uint64]
    text: pa.LargeBinaryArray | None
    valid: NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """Keys that have values in the same columns.

    Attributes:
        pattern: Bit i is set where column i is NULL.
        rows: Their row numbers, ascending; None for all rows.
        words: Shape (rows, words), read-only.
        offsets: Where each key's bytes begin in `data`, shape (rows + 1,); empty if keys have no bytes.
        data: The bytes of all keys.
    """

    pattern: int
    rows: NDArray[np.int64] | None
    words: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]

    @property
    def is_word(self) -> bool:
        """Whether each key is a single 64-bit word."""
        return self.words.shape[1] == 1 and not len(self.offsets)


def words_of(kind: Primitive) -> int:
    """Return how many words a key column of a type takes."""
    if kind.name in TEXT:
        return 0
    return 2 if kind.name == "uuid" or (kind.name == "decimal" and kind.precision > LONG_DIGITS) else 1


def encode_column(array: pa.Array, kind: Primitive) -> KeyColumn:
    """Return a key column's comparable form; the array may have an older, narrower type than `kind`.

    Raises:
        ValueError: The array's type cannot be read as `kind`.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    valid = None if array.null_count == 0 else np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
    if kind.name == "unknown" or pa.types.is_null(array.type):
        return KeyColumn(np.zeros((len(array), 1), np.uint64), None, np.zeros(len(array), np.bool_))
    if kind.name in TEXT:
        return KeyColumn(np.zeros((len(array), 0), np.uint64), _as_bytes(array, kind), valid)
    if kind.name == "uuid":
        return KeyColumn(_uuid_words(array, kind), None, valid)
    if kind.name == "decimal":
        return KeyColumn(_decimal_words(array, kind), None, valid)
    words = _single_words(array, kind).view(np.uint64).reshape(-1, 1)
    return KeyColumn(words, None, valid)


def _refuse(array: pa.Array, kind: Primitive) -> ValueError:
    return ValueError(f"a column of type {array.type} cannot be read as {kind}")


def _values(array: pa.Array, dtype: Any) -> NDArray[Any]:
    """Return a fixed-width array's values without copying; values under NULL are left as they are."""
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, count=array.offset + len(array))[array.offset :]


def _single_words(array: pa.Array, kind: Primitive) -> NDArray[Any]:
    """Return one 64-bit value per row; values are equal if Iceberg's are."""
    types, given, name = pa.types, array.type, kind.name
    if name in ("float", "double"):
        if types.is_float32(given):
            values = _values(array, np.float32)
        elif types.is_float64(given) and name == "double":
            values = _values(array, np.float64)
        else:
            raise _refuse(array, kind)
        values = values.astype(np.float64)  # float32 widens without loss, so both types share one form
        values[np.isnan(values)] = np.nan
        return values
    if name == "boolean" and types.is_boolean(given):
        return _values(array.cast(pa.uint8()), np.uint8).astype(np.int64)
    if types.is_integer(given) and types.is_signed_integer(given) and name != "boolean":
        return _values(array, given.to_pandas_dtype()).astype(np.int64, copy=False)
    if types.is_date32(given) and name in ("date", "timestamp", "timestamp_ns"):
        days = _values(array, np.int32).astype(np.int64)
        return days * {"date": 1, "timestamp": _DAY_MICROS, "timestamp_ns": _DAY_MICROS * 1000}[name]
    if types.is_time(given) and name == "time":
        values = _values(array, np.int32 if types.is_time32(given) else np.int64).astype(np.int64, copy=False)
        return _in_micros(values, given.unit)
    if types.is_timestamp(given) and name in ("timestamp", "timestamptz"):
        return _in_micros(_values(array, np.int64), given.unit)
    if types.is_timestamp(given) and name in ("timestamp_ns", "timestamptz_ns"):
        return _values(array, np.int64) * np.int64(_PER_NANO[given.unit])
    raise _refuse(array, kind)


def _in_micros(values: NDArray[np.int64], unit: str) -> NDArray[np.int64]:
    return values // 1000 if unit == "ns" else values * np.int64(_PER_MICRO[unit])


def _decimal_words(array: pa.Array, kind: Primitive) -> NDArray[np.uint64]:
    """Return a decimal's unscaled value: one word up to 18 digits, else the two of a decimal128."""
    given = array.type
    if not pa.types.is_decimal(given) or given.scale != kind.scale or given.precision > kind.precision:
        raise _refuse(array, kind)
    if not pa.types.is_decimal128(given):
        array = array.cast(pa.decimal128(given.precision, given.scale))
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        pairs = np.zeros((len(array), 2), np.uint64)
    else:
        count = 2 * (array.offset + len(array))
        pairs = np.frombuffer(buffer, np.uint64, count=count).reshape(-1, 2)[array.offset :]
    return pairs[:, :1] if kind.precision <= LONG_DIGITS else pairs


def _as_bytes(array: pa.Array, kind: Primitive) -> pa.LargeBinaryArray:
    given = array.type
    types = pa.types
    if types.is_fixed_size_binary(given):
        array = array.cast(pa.binary())
    elif types.is_string_view(given):
        array = array.cast(pa.large_string())
    elif not (
        types.is_string(given)
        or types.is_large_string(given)
        or types.is_binary(given)
        or types.is_large_binary(given)
        or types.is_binary_view(given)
    ):
        raise _refuse(array, kind)
    return array.cast(pa.large_binary())


def _uuid_words(array: pa.Array, kind: Primitive) -> NDArray[np.uint64]:
    """Return the 16 bytes of a uuid, stored as bytes or text, as two words."""
    if pa.types.is_fixed_size_binary(array.type) and array.type.byte_width != 16:
        raise _refuse(array, kind)
    text = _as_bytes(array, kind)
    is_text = any(
        check(array.type) for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )
    width = 36 if is_text else 16
    if text.null_count:
        text = pc.fill_null(
            text, pa.scalar(b"00000000-0000-0000-0000-000000000000"[:width], pa.large_binary())
        )
    offsets, data = _text_buffers(text)
    if not (np.diff(offsets) == width).all():
        raise ValueError(f"a uuid does not have {width} bytes")
    raw: NDArray[np.uint8] = data[offsets[0] : offsets[-1]].reshape(-1, width)
    if is_text:
        digits = _HEX[raw[:, _DIGITS]]
        if (digits > 15).any() or (raw[:, _DASHES] != ord("-")).any():
            raise ValueError("a uuid's text is malformed")
        raw = (digits[:, 0::2] << 4 | digits[:, 1::2]).astype(np.uint8)
    return np.ascontiguousarray(raw).view(np.uint64).reshape(-1, 2)


def _text_buffers(text: pa.LargeBinaryArray) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    _, places, content = text.buffers()
    if places is None or len(text) == 0:
        return np.zeros(len(text) + 1, np.int64), _NO_BYTES
    offsets = np.frombuffer(places, np.int64, count=text.offset + len(text) + 1)[text.offset :]
    data = _NO_BYTES if content is None else np.frombuffer(content, np.uint8)
    return offsets, data


def take_columns(columns: Sequence[KeyColumn], rows: NDArray[np.int64]) -> list[KeyColumn]:
    """Return some rows of key columns."""
    indices = pa.array(rows)
    return [
        KeyColumn(
            column.words[rows],
            None if column.text is None else column.text.take(indices),
            None if column.valid is None else column.valid[rows],
        )
        for column in columns
    ]


def take_rows(keys: KeyRows, rows: NDArray[np.int64]) -> KeyRows:
    """Return some of the keys."""
    offsets, data = keys.offsets, keys.data
    if len(offsets):
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        text = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(keys.words), buffers)
        offsets, data = _text_buffers(text.take(pa.array(rows)))
    return KeyRows(keys.pattern, None, _read_only(keys.words[rows]), _read_only(offsets), _read_only(data))


def group_by_nulls(columns: Sequence[KeyColumn], num_rows: int) -> Iterator[KeyRows]:
    """Yield the rows' keys, grouped by which columns are NULL."""
    if all(column.valid is None for column in columns):
        yield _key_rows(columns, 0, None, num_rows)
        return
    if len(columns) > _BITS_OF_A_WORD:
        yield from _group_by_many_nulls(columns, num_rows)
        return
    patterns = np.zeros(num_rows, np.uint64)
    for bit, column in enumerate(columns):
        if column.valid is not None:
            patterns |= (~column.valid).astype(np.uint64) << np.uint64(bit)
    for pattern in np.unique(patterns).tolist():
        rows = np.flatnonzero(patterns == pattern)
        yield _key_rows(columns, pattern, rows, len(rows))


def _group_by_many_nulls(columns: Sequence[KeyColumn], num_rows: int) -> Iterator[KeyRows]:
    """Do the same for more columns than a word has bits: a pattern is a Python int with a bit per column."""
    of_rows = np.zeros(num_rows, np.int64)
    patterns = [0]
    for first in range(0, len(columns), _BITS_OF_A_WORD):
        word = np.zeros(num_rows, np.uint64)
        for bit, column in enumerate(columns[first : first + _BITS_OF_A_WORD]):
            if column.valid is not None:
                word |= (~column.valid).astype(np.uint64) << np.uint64(bit)
        values, places = np.unique(word, return_inverse=True)
        # Combine each row's pattern so far with this word's, and renumber the combinations that occur.
        pairs, of_rows = np.unique(of_rows * len(values) + places.reshape(-1), return_inverse=True)
        patterns = [
            patterns[pair // len(values)] | int(values[pair % len(values)]) << first
            for pair in pairs.tolist()
        ]
    for number, pattern in enumerate(patterns if num_rows else ()):
        rows = np.flatnonzero(of_rows == number)
        yield _key_rows(columns, pattern, rows, len(rows))


def _key_rows(
    columns: Sequence[KeyColumn], pattern: int, rows: NDArray[np.int64] | None, num_rows: int
) -> KeyRows:
    present = [column for bit, column in enumerate(columns) if not pattern >> bit & 1]
    words = [
        column.words if rows is None else column.words[rows] for column in present if column.words.shape[1]
    ]
    texts = [column.text for column in present if column.text is not None]
    if rows is not None and texts:
        indices = pa.array(rows)
        texts = [text.take(indices) for text in texts]
    # Lengths of all texts but the last keep ('a', 'bc') apart from ('ab', 'c') once they are joined.
    words.extend(np.diff(_text_buffers(text)[0]).astype(np.uint64).reshape(-1, 1) for text in texts[:-1])
    offsets, data = _NO_OFFSETS, _NO_BYTES
    if texts:
        empty = pa.scalar(b"", pa.large_binary())
        joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, empty)
        offsets, data = _text_buffers(joined)
    matrix = np.hstack(words) if len(words) > 1 else words[0] if words else np.zeros((num_rows, 0), np.uint64)
    return KeyRows(pattern, rows, _read_only(matrix), _read_only(offsets), _read_only(data))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only, contiguous view: kernels are compiled once for each array layout."""
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array


INTEGERS = frozenset("int long date timestamp timestamptz timestamp_ns timestamptz_ns".split())
"""Types whose words in key tables are their internal form."""
