"""Shredded variants: the tables of the Parquet specification, what contradicts itself, and files of another project.

What is expected is written out by hand; what was read is decoded by `variant_rows`.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import uuid
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from check import Columns
from core_scan import open_table, scan
from shredded_tables import table_of
from twostage.columns import project_names
from twostage.errors import CorruptFileError
from twostage.formats.variant.shredding import reconstruct
from twostage.predicates.predicate import Compare, IsNull
from variant_rows import EMPTY, NULL, decoded, metadata_of, read_table, shredded, small_object, text

ROOT = os.environ.get("TWOSTAGE_TABLES", "")
STRING, LONG = pa.string(), pa.int64()
UTC = datetime.UTC


def check(folder: Path, rows: list[dict[str, Any] | None], kind: pa.DataType, expected: list[Any]) -> None:
    """Compare what is read of rows, repeated over some row groups, in every way of reading pages."""
    column = pa.array(rows * 6, kind)
    wanted = {i: value for i, value in enumerate(expected * 6) if i != 3}
    for pages in ("auto", "always", "never"):
        folder_of = folder / pages
        folder_of.mkdir()
        assert read_table(folder_of, column, **{"read.pages": pages}) == wanted


def test_measurements_of_the_specification(tmp_path: Path) -> None:
    rows = [
        {"metadata": EMPTY, "typed_value": 34},
        {"metadata": EMPTY, "value": NULL},
        {"metadata": EMPTY, "value": text("n/a")},
        {"metadata": EMPTY, "typed_value": 100},
        None,
        {"metadata": EMPTY},  # "readers must return a Variant null"
    ]
    numbers = [(6, n.to_bytes(8, "little")) for n in (34, 100)]
    check(tmp_path, rows, shredded(LONG, metadata=True), [numbers[0], None, "n/a", numbers[1], "NULL", None])


def test_tags_of_the_specification(tmp_path: Path) -> None:
    rows = [
        {"metadata": EMPTY, "typed_value": [{"typed_value": "comedy"}, {"typed_value": "drama"}]},
        {"metadata": EMPTY, "typed_value": [{"typed_value": "horror"}, {"value": NULL}]},
        {"metadata": EMPTY, "value": NULL},
        {"metadata": EMPTY, "typed_value": []},
        {"metadata": EMPTY, "typed_value": [{}, {"typed_value": ""}]},
    ]
    kind = shredded(pa.list_(shredded(STRING)), metadata=True)
    check(tmp_path, rows, kind, [["comedy", "drama"], ["horror", None], None, [], [None, ""]])


def test_events_of_the_specification(tmp_path: Path) -> None:
    own = metadata_of("event_type", "event_ts", "email", "error_msg", "click")
    fields = [pa.field("event_type", shredded(STRING)), pa.field("event_ts", shredded(LONG))]

    def event(value: bytes | None, kind: Any = None, ts: Any = None) -> dict[str, Any]:
        def field(one: Any) -> dict[str, Any]:
            return {"value": one} if isinstance(one, bytes) else {"typed_value": one}

        return {
            "metadata": own,
            "value": value,
            "typed_value": {"event_type": field(kind), "event_ts": field(ts)},
        }

    rows = [
        event(None, "noop", 1),
        event(small_object([2], [text("u@example.com")]), "login", 2),
        event(small_object([3], [text("malformed: …")])),
        {"metadata": own, "value": text("malformed: not an object")},
        event(small_object([4], [text("_button")]), None, 3),
        event(None, NULL, 4),
        event(None, "noop", text("2024-10-24")),
        event(None),
        {"metadata": own, "value": NULL},
        None,
    ]
    one, two, three, four = ((6, n.to_bytes(8, "little")) for n in (1, 2, 3, 4))
    expected = [
        {"event_ts": one, "event_type": "noop"},
        {"email": "u@example.com", "event_ts": two, "event_type": "login"},
        {"error_msg": "malformed: …"},
        "malformed: not an object",
        {"click": "_button", "event_ts": three},
        {"event_ts": four, "event_type": None},
        {"event_ts": "2024-10-24", "event_type": "noop"},
        {},
        None,
        "NULL",
    ]
    check(tmp_path, rows, shredded(pa.struct(fields), metadata=True), expected)


MOMENT = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)
TYPES = [
    (pa.bool_(), True, True),
    (pa.int8(), -2, (3, b"\xfe")),
    (pa.int16(), -2, (4, b"\xfe\xff")),
    (pa.int32(), -2, (5, b"\xfe\xff\xff\xff")),
    (pa.int64(), -2, (6, b"\xfe" + b"\xff" * 7)),
    (pa.float32(), 1.0, (14, b"\x00\x00\x80\x3f")),
    (pa.float64(), -0.0, (7, b"\x00" * 7 + b"\x80")),
    (pa.decimal128(9, 2), Decimal("-0.02"), (8, b"\x02\xfe\xff\xff\xff")),
    (pa.decimal128(18, 0), Decimal(-2), (9, b"\x00\xfe" + b"\xff" * 7)),
    (pa.decimal128(38, 10), Decimal("-2e-10"), (10, b"\x0a\xfe" + b"\xff" * 15)),
    (pa.date32(), datetime.date(1969, 12, 31), (11, b"\xff" * 4)),
    (pa.time64("us"), datetime.time(0, 0, 1), (17, (10**6).to_bytes(8, "little"))),
    (pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=UTC), (12, b"\xff" * 8)),
    (pa.timestamp("us"), MOMENT, (13, b"\xff" * 8)),
    (pa.timestamp("ns", "UTC"), MOMENT.replace(tzinfo=UTC), (18, (-1000).to_bytes(8, "little", signed=True))),
    (pa.timestamp("ns"), MOMENT, (19, (-1000).to_bytes(8, "little", signed=True))),
    (pa.binary(), b"\x00\xff", b"\x00\xff"),
    (pa.string(), "x" * 63, "x" * 63),
    (pa.string(), "ß" * 32, "ß" * 32),
    (pa.binary(16), uuid.UUID(int=5).bytes, (20, b"\x00" * 15 + b"\x05")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "one", "expected"), TYPES, ids=lambda one: str(one)[:20])
def test_every_type(tmp_path: Path, kind: pa.DataType, one: Any, expected: Any) -> None:
    rows = [{"metadata": EMPTY, "typed_value": value} for value in (one, None, one)]
    column = pa.array(
        [{**rows[0]}, {**rows[1], "value": text("other")}, None, *rows], shredded(kind, metadata=True)
    )
    assert read_table(tmp_path, column) == {0: expected, 1: "other", 2: "NULL", 4: None, 5: expected}


def test_parts_may_be_left_out_and_nest(tmp_path: Path) -> None:
    """An object in an array in an object, without `value` anywhere below the top, names that the metadata lacks."""
    point = pa.struct([pa.field("y", shredded(pa.float64(), value=False)), pa.field("é", shredded(None))])
    kind = pa.struct([pa.field("points", shredded(pa.list_(shredded(point, value=False)), value=False))])
    zero = {"typed_value": {"y": {"typed_value": 0.0}, "é": {}}}
    other = {"typed_value": {"y": {}, "é": {"value": text("z")}}}
    rows = [
        {"metadata": metadata_of("y"), "typed_value": {"points": {"typed_value": [zero, other, None]}}},
        {"metadata": EMPTY, "value": NULL, "typed_value": None},
        {"metadata": metadata_of("é"), "typed_value": {"points": {"typed_value": None}}},
        {
            "metadata": EMPTY,
            "value": small_object([], []),
            "typed_value": {"points": {"typed_value": [zero] * 300}},
        },
    ]
    at_zero = {"y": (7, b"\x00" * 8)}
    expected = [{"points": [at_zero, {"é": "z"}, None]}, None, {}, {"points": [at_zero] * 300}]
    check(tmp_path, rows, shredded(kind, metadata=True), expected)


def test_many_and_large_fields(tmp_path: Path) -> None:
    """More than 255 fields and elements, and offsets of two, three and four bytes."""
    names = [f"f{i:03}" for i in range(300)]
    kind = pa.struct([pa.field(name, shredded(STRING)) for name in names])
    rows = [
        {
            "metadata": EMPTY,
            "typed_value": {name: {"typed_value": "x" * size if i % every == 0 else None} for i, name in enumerate(names)},
        }
        for every, size in ((1, 3), (1, 300), (100, 2**23))
    ]  # fmt: skip
    found = read_table(tmp_path, pa.array(rows, shredded(kind, metadata=True)))
    assert found[0] == dict.fromkeys(names, "xxx")
    assert found[1] == dict.fromkeys(names, "x" * 300)
    assert found[2] == dict.fromkeys(names[::100], "x" * 2**23)


@pytest.mark.parametrize(
    ("kind", "row", "what"),
    [
        (LONG, {"value": NULL, "typed_value": 1}, "both a value and a typed value"),
        (pa.list_(shredded(LONG)), {"value": NULL, "typed_value": []}, "both a value and a typed value"),
        (pa.list_(shredded(LONG)), {"typed_value": [{"value": NULL, "typed_value": 1}]}, "both a value"),
        (pa.struct([("a", shredded(LONG))]), {"value": NULL, "typed_value": {"a": {}}}, "its value is none"),
        (
            pa.struct([("a", shredded(LONG))]),
            {"value": small_object([0], [NULL]), "typed_value": {"a": {}}},
            "'a' is in its value, too",
        ),
        (
            pa.struct([("b", shredded(LONG))]),
            {"value": small_object([9], [NULL]), "typed_value": {"b": {}}},
            "name is not in its metadata",
        ),
        (
            pa.struct([("b", shredded(LONG))]),
            {"value": b"\x02\x01\x00\xff\xff\x00", "typed_value": {"b": {}}},
            "end of its bytes|longer than",
        ),
        (pa.struct([("b", shredded(LONG))]), {"value": b"\x02\xff", "typed_value": {"b": {}}}, "longer than"),
        (pa.uint32(), {"typed_value": 1}, "uint32, which is not a type"),
        (pa.binary(4), {"typed_value": b"abcd"}, "which is not a type"),
        (pa.timestamp("ms"), {"value": NULL}, "which is not a type"),
        (pa.list_(LONG), {"typed_value": [1]}, "int64, and not value and typed_value"),
        (pa.struct([("a", LONG)]), {"typed_value": {"a": 1}}, "int64, and not value and typed_value"),
        (LONG, {"metadata": b"", "typed_value": 1}, "no known version"),
        (LONG, {"metadata": b"\x01\x05\x00", "typed_value": 1}, "too short"),
        (LONG, {"metadata": b"\x01\x01\x00\x05a", "typed_value": 1}, "outside of itself"),
        (LONG, {"metadata": None, "typed_value": 1}, "no metadata"),
        (LONG, {"value": b""}, "no bytes"),
    ],
)
def test_what_contradicts_itself_is_a_typed_error(
    tmp_path: Path, kind: pa.DataType, row: dict[str, Any], what: str
) -> None:
    good = {"metadata": EMPTY, "value": NULL}
    column = pa.array(
        [good, {"metadata": metadata_of("a"), **row}, good, good], shredded(kind, metadata=True)
    )
    with pytest.raises(CorruptFileError, match=rf"CORRUPT_VARIANT.*'v'.*({what}).*\.parquet"):
        read_table(tmp_path, column)


def test_filters_and_few_rows(tmp_path: Path) -> None:
    """Only the rows wanted are put together, and NULL is asked without the shredded parts."""
    kind = shredded(pa.struct([("a", shredded(LONG))]), metadata=True)
    bad = {"metadata": metadata_of("a"), "value": NULL, "typed_value": {"a": {}}}
    rows: list[Any] = [
        None if i % 5 == 0 else {"metadata": metadata_of("a"), "typed_value": {"a": {"typed_value": i}}}
        for i in range(200)
    ]
    rows[100] = bad
    file = tmp_path / "some.parquet"
    data = pa.table({"id": pa.array(range(200), LONG), "v": pa.array(rows, kind)})
    pq.write_table(data, file, data_page_size=64, write_page_index=True, write_batch_size=8)
    opened = open_table(table_of(tmp_path / "table", file, 200, {"v": "variant"}))
    wanted = project_names(opened.table.schema, None)
    c = Columns(opened.table.schema)
    (found,) = scan(opened, wanted, predicate=Compare("=", c("id"), 51)).rows
    assert decoded(*[part[1] for part in found[1][1]][::-1]) == {"a": (6, (51).to_bytes(8, "little"))}
    missing = scan(opened, project_names(opened.table.schema, ["id"]), predicate=IsNull(c("v"))).rows
    assert sorted(row[0][1] for row in missing) == [i for i in range(0, 200, 5) if i != 100]
    with pytest.raises(CorruptFileError, match="CORRUPT_VARIANT"):
        scan(opened, wanted)


@pytest.mark.skipif(not ROOT, reason="TWOSTAGE_TABLES is not set")
def test_files_of_another_project(tmp_path: Path) -> None:
    """Each file has its rows beside it as JSON; of numbers and moments that do not say it, only that they are there."""
    files = sorted(path for path in Path(ROOT).rglob("shredded-*.parquet"))
    assert len(files) >= 8
    for path in files:
        schema = pq.read_schema(path)
        rows = json.loads(path.with_suffix(".json").read_text())
        name = schema.names[-1]
        column = pq.ParquetFile(path, arrow_extensions_enabled=False).read([name]).column(0).combine_chunks()
        folder = tmp_path / path.stem
        folder.mkdir()
        found = read_table(folder, column)
        assert [plain(found[i]) for i in sorted(found)] == [
            plain(row[-1]) for i, row in enumerate(rows) if i != 3
        ]


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    is_opaque = isinstance(value, tuple | int) or (isinstance(value, str) and value.startswith("2024-"))
    return "…" if is_opaque and not isinstance(value, bool) else value


def test_damaged_bytes_end_in_values_or_a_typed_error() -> None:
    """Metadata and values of random damage: no foreign exception, whatever the bytes say of their own lengths."""
    seed = int(os.environ.get("TWOSTAGE_SEED", "7"))
    source = random.Random(seed)
    names = metadata_of("a", "b", "c")
    inner = small_object([1, 2], [text("x"), small_object([0], [NULL])])
    kind = shredded(pa.struct([("a", shredded(LONG))]), metadata=True)
    ends = Counter[str]()
    for _ in range(3_000):
        parts = [bytearray(names), bytearray(inner)]
        for _ in range(source.randint(1, 3)):
            part = source.choice(parts)
            part[source.randrange(len(part))] = source.randrange(256)
        if source.random() < 0.2:
            part = source.choice(parts)
            del part[source.randrange(len(part)) :]
        row = {
            "metadata": bytes(parts[0]),
            "value": bytes(parts[1]),
            "typed_value": {"a": {"typed_value": 1}},
        }
        try:
            (value,), _ = (one.to_pylist() for one in reconstruct(pa.array([row], kind)))
            assert value
            ends["value"] += 1
        except ValueError as error:
            assert type(error) is ValueError, (seed, row)
            ends["error"] += 1
    assert min(ends["value"], ends["error"]) > 300, (seed, ends)
