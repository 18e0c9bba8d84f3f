"""Key columns as words and bytes: equal where Iceberg says that delete keys are equal, and nowhere else."""

from __future__ import annotations

import datetime
import itertools
import math
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oracle
from twostage.deletes.keys.encoding import encode_column, group_by_nulls, take_columns, take_rows, words_of
from twostage.schema import parse_type

DAY, LATER = datetime.date(1969, 12, 31), datetime.date(2024, 5, 1)
NOON = datetime.datetime(1969, 12, 31, 12, 0, 0, 1)
ONE, OTHER = uuid.UUID(int=7), uuid.UUID(int=2**127 + 7)
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False, True]),
    "int": (pa.int32(), [1, -1, 2**31 - 1, -(2**31), 1]),
    "long": (pa.int64(), [1, -1, 2**63 - 1, -(2**63), 1]),
    "float": (pa.float32(), [0.0, -0.0, math.nan, -math.nan, 0.1, math.inf]),
    "double": (pa.float64(), [0.0, -0.0, math.nan, -math.nan, 0.1, math.inf]),
    "decimal(9,2)": (pa.decimal128(9, 2), [Decimal("1.20"), Decimal("-1.20"), Decimal("1.20")]),
    "decimal(38,2)": (pa.decimal128(38, 2), [Decimal(10**30), Decimal(-(10**30)), Decimal(10**30)]),
    "date": (pa.date32(), [DAY, LATER, DAY]),
    "time": (pa.time64("us"), [datetime.time(1, 2, 3), datetime.time(0), datetime.time(0)]),
    "timestamp": (pa.timestamp("us"), [NOON, NOON + datetime.timedelta(days=1), NOON]),
    "timestamptz": (pa.timestamp("us", "UTC"), [NOON, NOON + datetime.timedelta(microseconds=1)]),
    "timestamp_ns": (pa.timestamp("ns"), [1, 2, 1]),
    "string": (pa.string(), ["a", "", "ab", "a", "é"]),
    "uuid": (pa.binary(16), [ONE.bytes, OTHER.bytes, ONE.bytes]),
    "fixed[2]": (pa.binary(2), [b"ab", b"cd", b"ab"]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", b"\0"]),
}


def keys(columns: list[tuple[pa.Array, str]]) -> list[Any]:
    """Return what a key table would tell rows apart by, one for each row."""
    num_rows = len(columns[0][0])
    encoded = [encode_column(array, parse_type(kind)) for array, kind in columns]
    found: list[Any] = [None] * num_rows
    for group in group_by_nulls(encoded, num_rows):
        rows = range(num_rows) if group.rows is None else group.rows.tolist()
        for place, row in enumerate(rows):
            text = (
                b"" if not len(group.offsets) else group.data[group.offsets[place] : group.offsets[place + 1]]
            )
            found[row] = (group.pattern, tuple(group.words[place].tolist()), bytes(text))
    return found


def same(one: Any, other: Any) -> bool:
    """By the spec: NULL equals NULL, NaN equals NaN, and -0.0 is not 0.0."""
    return bool(oracle.exact(one) == oracle.exact(other))


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("start", [0, 1, 2])
def test_keys_are_equal_where_values_are(kind: str, start: int) -> None:
    given, values = COLUMNS[kind]
    values = [*values, None, None]
    array = pa.array(values, given)[start:]
    found, values = keys([(array, kind)]), values[start:]
    for one, other in itertools.product(range(len(values)), repeat=2):
        assert (found[one] == found[other]) == same(values[one], values[other]), (values[one], values[other])
    dictionary = array.dictionary_encode() if kind != "timestamp_ns" else array
    assert keys([(dictionary, kind)]) == found


@pytest.mark.parametrize(
    ("narrow", "values", "wide", "kind"),
    [
        (pa.int32(), [1, -1, None], pa.int64(), "long"),
        (pa.int16(), [1, -1, None], pa.int32(), "int"),
        (pa.float32(), [0.5, -0.0, None], pa.float64(), "double"),
        (pa.decimal128(9, 2), [Decimal("1.20"), None], pa.decimal128(20, 2), "decimal(20,2)"),
        (pa.decimal256(9, 2), [Decimal("1.20"), None], pa.decimal128(9, 2), "decimal(9,2)"),
        (pa.timestamp("ms"), [5, -5, None], pa.timestamp("us"), "timestamp"),
        (pa.timestamp("us"), [5, -5, None], pa.timestamp("ns"), "timestamp_ns"),
        (pa.time32("ms"), [5, None], pa.time64("us"), "time"),
        (pa.large_string(), ["a", None], pa.string(), "string"),
        (pa.string_view(), ["a", None], pa.string(), "string"),
        (pa.binary_view(), [b"a", None], pa.binary(), "binary"),
    ],
)  # fmt: skip
def test_an_older_narrower_type_gives_the_same_keys(
    narrow: pa.DataType, values: list[Any], wide: pa.DataType, kind: str
) -> None:
    before = pa.array(values, narrow)
    assert keys([(before, kind)]) == keys([(before.cast(wide), kind)])


def test_days_are_moments_at_midnight() -> None:
    days = pa.array([DAY, LATER, None])
    for unit, kind in (("us", "timestamp"), ("ns", "timestamp_ns")):
        assert keys([(days, kind)]) == keys([(days.cast(pa.timestamp(unit)), kind)])


def test_nanoseconds_read_as_microseconds_are_rounded_down() -> None:
    nanos = pa.array([1999, -1, None], pa.timestamp("ns"))
    assert keys([(nanos, "timestamp")]) == keys([(pa.array([1, -1, None], pa.timestamp("us")), "timestamp")])


def test_a_uuid_and_its_text_are_one_key() -> None:
    raw = keys([(pa.array([ONE.bytes, OTHER.bytes, None], pa.binary(16)), "uuid")])
    extension = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([ONE.bytes, OTHER.bytes, None], pa.binary(16))
    )
    assert raw == keys([(pa.array([str(ONE), str(OTHER).upper(), None]), "uuid")])
    assert raw == keys([(extension, "uuid")])


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1.5]), "long"),
        (pa.array([1], pa.uint32()), "long"),
        (pa.array([1.5]), "float"),
        (pa.array(["a"]), "int"),
        (pa.array([1]), "boolean"),
        (pa.array([1]), "string"),
        (pa.array([b"ab"], pa.binary(2)), "uuid"),
        (pa.array([b"a" * 15]), "uuid"),
        (pa.array(["not a uuid".ljust(36)]), "uuid"),
        (pa.array([str(ONE).replace("-", "0")]), "uuid"),
        (pa.array([1]), "uuid"),
        (pa.array([Decimal("1.2")]), "decimal(9,2)"),
        (pa.array([Decimal("1.20")], pa.decimal128(12, 2)), "decimal(9,2)"),
        (pa.array([1]), "decimal(9,2)"),
        (pa.array([DAY]), "timestamptz"),
        (pa.array([NOON]), "date"),
    ],
    ids=str,
)
def test_a_type_that_holds_no_such_key_is_refused(array: pa.Array, kind: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - its caller names the file
        encode_column(array, parse_type(kind))


def test_texts_of_several_columns_are_kept_apart() -> None:
    pairs = [
        ("a", "bc"),
        ("ab", "c"),
        ("", "abc"),
        ("abc", ""),
        (None, "abc"),
        ("abc", None),
        (None, None),
        ("a", "bc"),
    ]
    columns = [(pa.array([pair[side] for pair in pairs]), "string") for side in (0, 1)]
    numbers = (pa.array([1] * len(pairs), pa.int32()), "int")
    for given in (columns, [columns[0], numbers, columns[1]]):
        found = keys(given)
        assert [found.index(key) for key in found] == [0, 1, 2, 3, 4, 5, 6, 0]


def test_what_no_file_holds_is_null() -> None:
    assert len(set(keys([(pa.nulls(3), "unknown")]))) == 1
    assert keys([(pa.nulls(2), "long")]) == keys([(pa.array([None, None], pa.int64()), "long")])


@pytest.mark.parametrize("kind", COLUMNS)
def test_some_rows_have_the_keys_of_these_rows(kind: str) -> None:
    given, values = COLUMNS[kind]
    column = encode_column(pa.array([*values, None], given), parse_type(kind))
    rows = np.array([len(values), 0, 1])
    (taken,) = take_columns([column], rows)
    assert [tuple(words) for words in taken.words.tolist()] == [
        tuple(column.words[row]) for row in rows.tolist()
    ]
    (whole,) = group_by_nulls([encode_column(pa.array(values, given), parse_type(kind))], len(values))
    part = take_rows(whole, np.array([1, 0]))
    assert part.words.tolist() == whole.words[[1, 0]].tolist()
    texts = [bytes(part.data[a:b]) for a, b in itertools.pairwise(part.offsets.tolist())]
    assert texts == [bytes(whole.data[a:b]) for a, b in itertools.pairwise(whole.offsets.tolist())][:2][::-1]
    assert words_of(parse_type(kind)) == whole.words.shape[1]


@pytest.mark.parametrize("num_columns", [1, 64, 65, 128, 130])
@pytest.mark.parametrize("num_rows", [0, 1, 200])
def test_rows_are_grouped_by_their_nulls_however_many_columns(num_columns, num_rows):
    drawn = np.random.default_rng(num_columns + num_rows)
    is_null = drawn.random((num_rows, num_columns)) < drawn.random((num_rows, 1)) / 20
    is_null[::3] = is_null[:1] if num_rows else False
    values = [pa.array(np.zeros(num_rows, np.int64), mask=is_null[:, place]) for place in range(num_columns)]
    values[0] = pa.array(np.zeros(num_rows, np.int64))
    is_null[:, 0] = False
    encoded = [encode_column(one, parse_type("long")) for one in values]
    found = {}
    for group in group_by_nulls(encoded, num_rows):
        for row in range(num_rows) if group.rows is None else group.rows.tolist():
            assert row not in found
            found[row] = group.pattern
        assert group.words.shape[1] == num_columns - group.pattern.bit_count()
    assert found == {
        row: sum(1 << int(place) for place in np.flatnonzero(is_null[row])) for row in range(num_rows)
    }
