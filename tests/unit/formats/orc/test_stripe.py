"""Columns of stripes: what pyarrow reads of the same file, at every depth, and damage that ends in an error."""

from __future__ import annotations

import datetime as dt
import io
import random
import uuid
import zlib
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from twostage.errors import ResourceLimitError, TwoStageError, UnsupportedFeatureError
from twostage.formats.file_schema import FileField, identify
from twostage.formats.orc import stripe
from twostage.formats.orc.schema import arrow_schema
from twostage.formats.orc.stripe import StripeReader
from twostage.formats.orc.tail import OrcType, Tail, read_stripe_footer, read_tail

LIMIT = 2**24
DAMAGED = (
    ValueError,
    LookupError,
    OSError,
    EOFError,
    OverflowError,
    zlib.error,
    pa.ArrowException,
    TwoStageError,
)
"""What `storage.files.translate_errors` takes for damage."""


class Opened:
    """A file that pyarrow wrote, with its tail."""

    def __init__(self, table: pa.Table, **options: Any) -> None:
        out = io.BytesIO()
        orc.write_table(table, out, **options)
        self.open(out.getvalue())

    def open(self, data: bytes) -> None:
        self.data = data
        self.file = pa.BufferReader(data)
        self.tail: Tail = read_tail(self.file, len(data))
        self.fields: tuple[FileField, ...] = identify(arrow_schema(self.tail.schema), None)

    def change(self, **changed: Any) -> None:
        """Change the type of the only column, as if the file declared another."""
        column: OrcType = replace(self.tail.schema.children[0], **changed)
        self.tail = replace(self.tail, schema=replace(self.tail.schema, children=(column,)))

    def reader(self, number: int, limit: int = LIMIT, meanings: dict[int, str] | None = None) -> StripeReader:
        place = self.tail.stripes[number]
        footer = read_stripe_footer(self.file, self.tail, place)
        return StripeReader(self.file, self.tail, place, footer, meanings=meanings or {}, limit=limit)

    def read(self, wanted: set[int] | None = None, **options: Any) -> list[pa.Array]:
        """Return the columns of the whole file."""
        leaves = set(range(self.fields[-1].end_leaf)) if wanted is None else wanted
        stripes = []
        for index in range(len(self.tail.stripes)):
            arrays = self.reader(index, **options).read(self.fields, leaves)
            for array in arrays:
                array.validate(full=True)
                assert len(array) == self.tail.stripes[index].num_rows
            stripes.append(arrays)
        return [pa.concat_arrays(parts) for parts in zip(*stripes, strict=True)]


def maybe(pick: random.Random, values: list[Any]) -> list[Any]:
    return [None if pick.random() < 0.2 else one for one in values]


def drawn(pick: random.Random, count: int) -> pa.Table:
    """Return a table of every type, with NULLs at every depth."""
    numbers = [pick.choice([pick.randint(-3, 3), pick.randint(-(2**63), 2**63 - 1)]) for _ in range(count)]
    words = [pick.choice(["", "a", "word", "é" * 50, str(number)]) for number in numbers]

    def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
        return pa.array(maybe(pick, values), kind)

    inner = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    structs = [
        {"x": pick.choice([None, n % 9]), "y": pick.choice([None, [], [w, None]])}
        for n, w in zip(numbers, words, strict=True)
    ]
    return pa.table(
        {
            "boolean": column(pa.bool_(), [number > 0 for number in numbers]),
            "byte": column(pa.int8(), [number % 256 - 128 for number in numbers]),
            "short": column(pa.int16(), [number % 2**16 - 2**15 for number in numbers]),
            "int": column(pa.int32(), [number % 2**32 - 2**31 for number in numbers]),
            "long": column(pa.int64(), numbers),
            "required": pa.array(numbers, pa.int64()),
            "float": column(pa.float32(), [number % 2**20 / 4 for number in numbers]),
            "double": column(pa.float64(), [number / 7 for number in numbers]),
            "date": column(
                pa.date32(),
                [dt.date(1970, 1, 1) + dt.timedelta(number % 10**5 - 10**4) for number in numbers],
            ),
            "decimal": column(pa.decimal128(38, 3), [Decimal(number) for number in numbers]),
            "string": column(pa.string(), words),
            "binary": column(pa.binary(), [word.encode() for word in words]),
            "random": column(pa.binary(), [pick.randbytes(100) for _ in numbers]),
            "instant": column(pa.timestamp("us", tz="UTC"), [number % 10**16 for number in numbers]),
            "local": column(pa.timestamp("us"), [number % 10**16 for number in numbers]),
            "list": column(
                pa.list_(pa.int64()), [maybe(pick, [number] * (number % 4)) for number in numbers]
            ),
            "struct": column(inner, structs),
            "map": column(
                pa.map_(pa.string(), inner),
                [[(w, s)] * (len(w) % 3) for w, s in zip(words, structs, strict=True)],
            ),
            "lists": column(pa.list_(pa.list_(inner)), [maybe(pick, [[one], []]) for one in structs]),
        }
    )


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("dictionary", [0.0, 1.0])
def test_columns_are_those_that_were_written(codec: str, dictionary: float) -> None:
    pick = random.Random(f"{codec} {dictionary}")
    table = drawn(pick, 1_500)
    opened = Opened(
        table, compression=codec, stripe_size=1, batch_size=400, dictionary_key_size_threshold=dictionary
    )
    assert len(opened.tail.stripes) > 1
    for name, array, column in zip(table.column_names, opened.read(), table.columns, strict=True):
        written = column.combine_chunks()
        assert array.cast(written.type).equals(written), name


def test_a_stripe_of_one_row() -> None:
    table = drawn(random.Random(1), 1)
    for array, column in zip(Opened(table).read(), table.columns, strict=True):
        assert array.cast(column.type).equals(column.chunk(0))


def test_only_wanted_columns_are_read() -> None:
    """Structs are cut to the wanted leaves; of the file only their streams are read."""
    opened = Opened(drawn(random.Random(2), 1_000), compression="uncompressed")
    struct = opened.fields[opened.tail.schema.names.index("struct")]
    (one,) = opened.read({struct.first_leaf})
    whole = opened.read()[opened.tail.schema.names.index("struct")]
    assert one.to_pylist() == [None if row is None else {"x": row["x"]} for row in whole.to_pylist()]
    few, all_of_it = opened.reader(0), opened.reader(0)
    few.read(opened.fields, {4})
    all_of_it.read(opened.fields, set(range(opened.fields[-1].end_leaf)))
    assert 6_000 < few.num_bytes < 0.2 * all_of_it.num_bytes
    assert opened.reader(0).read(opened.fields, set()) == []


def test_a_map_without_its_values() -> None:
    opened = Opened(pa.table({"m": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64()))}))
    (found,) = opened.read({0})
    assert found.to_pylist() == [[("a", None)], None, []]


@pytest.mark.parametrize("dictionary", [0.0, 1.0])
def test_the_spaces_that_pad_a_char_are_not_its_text(dictionary: float) -> None:
    words = ["ab   ", "abcde", "     ", None, " x\t  ", "ab   "]
    opened = Opened(pa.table({"a": words}), dictionary_key_size_threshold=dictionary)
    opened.change(kind="char")
    assert opened.read()[0].to_pylist() == ["ab", "abcde", "", None, " x\t", "ab"]
    opened.change(kind="varchar")
    assert opened.read()[0].to_pylist() == words


def test_meanings() -> None:
    """What a column's ORC type does not tell: see `StripeReader`."""
    ids = [uuid.UUID(int=i * 2**90 + i).bytes for i in range(3)]
    (found,) = Opened(pa.table({"a": pa.array([*ids, None])})).read(meanings={1: "uuid"})
    assert (found.type, found.to_pylist()) == (pa.binary(16), [*ids, None])
    micros = pa.table({"a": pa.array([0, 86_400_000_000 - 1, None])})
    (found,) = Opened(micros).read(meanings={1: "time"})
    assert found.equals(micros.column(0).combine_chunks().view(pa.time64("us")))
    (found,) = Opened(micros).read(meanings={1: "micros"})
    assert found.equals(micros.column(0).combine_chunks().view(pa.timestamp("us")))
    local = pa.table({"a": pa.array([-(10**9), 10**15, None], pa.timestamp("us"))})
    assert Opened(local).read()[0].type == pa.timestamp("us")
    (found,) = Opened(local).read(meanings={1: "instant"})  # the writer's zone is GMT
    assert found.equals(local.column(0).combine_chunks().cast(pa.timestamp("us", tz="UTC")))


@pytest.mark.parametrize("number", [-1, 86_400_000_000])
def test_a_time_outside_of_the_day_is_an_error(number: int) -> None:
    with pytest.raises(ValueError, match="outside of the day"):
        Opened(pa.table({"a": [number]})).read(meanings={1: "time"})


def test_bytes_that_are_no_uuid_are_an_error() -> None:
    with pytest.raises(pa.ArrowInvalid):
        Opened(pa.table({"a": [b"fifteen bytes.."]})).read(meanings={1: "uuid"})


@pytest.mark.parametrize(("kind", "limit"), [("short", 2**15), ("int", 2**31), ("date", 2**31)])
def test_numbers_too_large_for_their_type_are_an_error(kind: str, limit: int) -> None:
    """All are stored as a long is, so a stream may hold more than the type does."""
    for number in (limit, -limit - 1):
        opened = Opened(pa.table({"a": [number]}))
        opened.change(kind=kind)
        with pytest.raises(ValueError, match="too large for its type"):
            opened.read()
    opened = Opened(pa.table({"a": [limit - 1, -limit]}))
    opened.change(kind=kind)
    (found,) = opened.read()
    assert found.view(pa.int16() if kind == "short" else pa.int32()).to_pylist() == [limit - 1, -limit]


def test_a_map_with_a_key_that_is_null_is_an_error() -> None:
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.int64())]))
    opened = Opened(pa.table({"a": pa.array([[{"key": None, "value": 1}]], pairs)}))
    (entries,) = opened.tail.schema.children[0].children
    opened.change(kind="map", children=entries.children)
    opened.fields = identify(arrow_schema(opened.tail.schema), None)
    with pytest.raises(ValueError, match="NULL key"):
        opened.read()


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"kind": "union"}, "UNSUPPORTED_ORC_TYPE"),
        ({"kind": "geometry"}, "UNSUPPORTED_ORC_TYPE"),
        ({"kind": "decimal", "precision": 0}, "UNSUPPORTED_ORC_TYPE"),
        ({"kind": "decimal", "precision": 39}, "UNSUPPORTED_ORC_TYPE"),
        ({"kind": "decimal", "precision": 9, "scale": 10}, "UNSUPPORTED_ORC_TYPE"),
    ],
)
def test_types_that_are_not_read(changed: dict[str, Any], code: str) -> None:
    opened = Opened(pa.table({"a": [1]}))
    opened.change(**changed)
    with pytest.raises(UnsupportedFeatureError) as caught:
        opened.read()
    assert caught.value.code == code


@pytest.mark.parametrize(
    "values",
    [[1] * 5_000, [[1] * 5_000], ["word"] * 4_000 + [str(i) for i in range(1_500)]],
    ids=["rows", "elements", "words"],
)
def test_nothing_is_decoded_beyond_the_limit(values: list[Any]) -> None:
    """Run lengths announce millions of values in a few bytes."""
    opened = Opened(pa.table({"a": values}), dictionary_key_size_threshold=1.0)
    assert opened.read(limit=100_000)[0].to_pylist() == values
    with pytest.raises(ResourceLimitError) as caught:
        opened.read(limit=8 * 4_999)
    assert caught.value.code == "STRIPE_TOO_LARGE"


@pytest.mark.parametrize("dictionary", [0.0, 1.0])
def test_what_32_bit_offsets_do_not_reach(dictionary: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text then has offsets of 64 bits; lists have none."""
    words = ["word", None, "word", "é"]
    table = pa.table({"s": words, "b": pa.array([word and word.encode() for word in words])})
    opened = Opened(table, dictionary_key_size_threshold=dictionary)
    lists = Opened(pa.table({"l": [[1, 2], [3] * 9]}))
    assert [array.type for array in opened.read()] == [pa.string(), pa.binary()]
    assert lists.read()[0].to_pylist() == [[1, 2], [3] * 9]
    monkeypatch.setattr(stripe, "MAX_OFFSET", 9)
    found = opened.read()
    assert found[0].equals(table.column("s").combine_chunks().cast(pa.large_string()))
    assert found[1].to_pylist() == table.column("b").to_pylist()
    with pytest.raises(ValueError, match="11 elements"):
        lists.read()


def test_a_stripe_of_more_rows_than_its_streams_is_an_error() -> None:
    for kind in ("long", "string", "double", "boolean", "binary"):
        table = drawn(random.Random(4), 40).select([kind]).filter(pa.compute.field(kind).is_valid())
        opened = Opened(table)
        (place,) = opened.tail.stripes
        opened.tail = replace(opened.tail, stripes=(replace(place, num_rows=place.num_rows + 64),))
        with pytest.raises(ValueError):  # noqa: PT011
            opened.read()


@pytest.mark.parametrize("codec", ["uncompressed", "zlib"])
def test_damaged_bytes_are_columns_or_an_error(codec: str) -> None:
    pick = random.Random(6)
    whole = Opened(drawn(pick, 60), compression=codec, dictionary_key_size_threshold=1.0)
    found = Counter[str]()
    for _ in range(300):
        data = bytearray(whole.data)
        (place,) = whole.tail.stripes
        start = place.offset + place.index_length
        for _ in range(pick.randint(1, 3)):
            data[pick.randrange(start, start + place.data_length)] = pick.randrange(256)
        opened = Opened.__new__(Opened)
        opened.open(bytes(data))
        try:
            arrays = opened.reader(0).read(opened.fields, set(range(opened.fields[-1].end_leaf)))
        except DAMAGED as error:
            found[type(error).__name__] += 1
            continue
        found["read"] += 1
        assert {len(array) for array in arrays} == {60}
        for array in arrays:
            array.validate()
    assert found["read"] > 5
    assert sum(found.values()) - found["read"] > 50
