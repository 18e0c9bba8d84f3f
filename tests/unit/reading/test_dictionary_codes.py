"""Filter columns of text that stay dictionary-encoded, against the same columns decoded."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twostage.data_files.parquet_file import ParquetDataFile
from twostage.errors import TwoStageError
from twostage.metrics import Metrics
from twostage.options import ReadSettings
from twostage.predicates.evaluate import evaluate
from twostage.predicates.predicate import (
    And,
    Column,
    Compare,
    CompareColumns,
    CompareLength,
    In,
    IsNull,
    Not,
    Or,
    StringMatch,
)
from twostage.reading.aligned_columns import plain
from twostage.reading.pipeline import read_group
from twostage.schema import Primitive, parse_schema
from twostage.selection import Selection
from twostage.task import ScanContext, ScanTask, Storage, TaskGroup

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 3_000
SCHEMA = parse_schema(
    {
        "schema-id": 0,
        "type": "struct",
        "fields": [
            {"id": 1, "name": "text", "type": "string", "required": False},
            {"id": 2, "name": "bytes", "type": "binary", "required": False},
            {
                "id": 3,
                "name": "outer",
                "required": False,
                "type": {
                    "type": "struct",
                    "fields": [
                        {"id": 4, "name": "inner", "type": "string", "required": False},
                        {"id": 5, "name": "number", "type": "long", "required": False},
                    ],
                },
            },
            {"id": 6, "name": "other", "type": "string", "required": False},
            {"id": 7, "name": "unlike", "type": "string", "required": False},
            {"id": 8, "name": "always", "type": "string", "required": True},
            {"id": 9, "name": "promoted", "type": "binary", "required": False},
        ],
    }
)
WORDS = ["", "a", "ab", "abc", "é", "日本", "x" * 70, "device-000001", "device-000002"]


def values(rng: random.Random, share: float) -> list[str | None]:
    """Return rows of which a share is NULL."""
    return [None if rng.random() < share else rng.choice(WORDS) for _ in range(ROWS)]


def write(path: Path, rng: random.Random, share: float, **options: object) -> None:
    """Write the columns of SCHEMA; `unlike` has too many values for a dictionary."""
    texts, others, inner = (values(rng, share) for _ in range(3))
    columns = {
        "text": pa.array(texts, pa.string()),
        "bytes": pa.array([None if t is None else t.encode() for t in others], pa.binary()),
        "outer": pa.array(
            [None if rng.random() < share else {"inner": t, "number": n} for n, t in enumerate(inner)],
            pa.struct([("inner", pa.string()), ("number", pa.int64())]),
        ),
        "other": pa.array(others, pa.string()),
        "unlike": pa.array([f"{n}-" + "u" * 40 for n in range(ROWS)], pa.string()),
        "always": pa.array([rng.choice(WORDS) for _ in range(ROWS)], pa.string()),
        "promoted": pa.array(texts, pa.string()),
    }
    ids = {"text": 1, "bytes": 2, "outer": 3, "other": 6, "unlike": 7, "always": 8, "promoted": 9}
    fields = []
    for name, array in columns.items():
        kind = array.type
        if name == "outer":
            kind = pa.struct(
                [
                    pa.field(child, kind.field(child).type, metadata={"PARQUET:field_id": str(number)})
                    for child, number in (("inner", 4), ("number", 5))
                ]
            )
        fields.append(
            pa.field(name, kind, nullable=name != "always", metadata={"PARQUET:field_id": str(ids[name])})
        )
    arrays = [array.cast(field.type) for array, field in zip(columns.values(), fields, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    pq.write_table(table, path, **{"row_group_size": 1_700, "dictionary_pagesize_limit": 10_000, **options})


def task_of(path: Path) -> ScanTask:
    """Return the task that reads the file."""
    size = path.stat().st_size
    return ScanTask(
        path=str(path),
        written_path=str(path),
        format="parquet",
        file_size=size,
        record_count=ROWS,
        start=0,
        length=size,
        sequence_number=1,
        spec_id=0,
    )


def opened(path: Path, metrics: Metrics, **settings: object) -> ParquetDataFile:
    """Open the file as the scan does."""
    context = ScanContext(
        scan_id="test",
        table="table",
        snapshot_id=1,
        schema=SCHEMA,
        projection=SCHEMA.fields,
        storage=Storage(),
        settings=ReadSettings(**settings),
    )
    return ParquetDataFile(context, task_of(path), metrics)


def some_rows(num_rows: int) -> list[Selection | None]:
    """Return selections that are read whole, by pages and not at all."""
    clustered, scattered = np.zeros(num_rows, np.bool_), np.zeros(num_rows, np.bool_)
    clustered[200:230] = True
    scattered[::7] = True
    return [None, Selection.all(num_rows), Selection.of(clustered), Selection.of(scattered)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("read_pages", ["never", "always"])
def test_codes_stand_for_the_values(seed: int, version: str, read_pages: str, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path = tmp_path / "file.parquet"
    sizes = {"data_page_size": 300, "write_batch_size": 50, "write_page_index": True}
    write(path, rng, [0, 0.2, 1][seed], data_page_version=version, **sizes)
    metrics = Metrics()
    with opened(path, metrics, read_pages=read_pages) as file:
        for row_group in file.row_groups():
            for field_id, is_encoded in {1: 1, 2: 1, 4: 1, 5: 0, 6: 1, 7: 0, 8: 1, 9: 0}.items():
                for rows in some_rows(row_group.num_rows):
                    array = file.read_filter_column(row_group, field_id, rows)
                    expected = file.read_leaf(row_group, field_id, rows)
                    assert isinstance(array, pa.DictionaryArray) == is_encoded, field_id
                    assert plain(array).equals(expected), (seed, field_id)
                    assert plain(array.slice(3, 20)).equals(expected.slice(3, 20))
    assert metrics.counters["columns.filtered_encoded"] > 0


def test_switched_off(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    write(path, random.Random(1), 0.1)
    with opened(path, Metrics(), encoded_filters=False) as file:
        row_group = next(iter(file.row_groups()))
        assert file.read_filter_column(row_group, 1).type == pa.string()


def test_pages_that_fell_back_to_plain_values_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    write(path, random.Random(1), 0.1, dictionary_pagesize_limit=30, data_page_size=100, write_batch_size=20)
    with opened(path, Metrics()) as file:
        row_group = next(iter(file.row_groups()))
        array = file.read_filter_column(row_group, 1)
        assert array.type == pa.string()
        assert array.equals(file.read_leaf(row_group, 1))


def text(field_id: int, name: str, kind: str = "string") -> Column:
    return Column(field_id, (name,), Primitive(kind))


def predicates() -> list:
    """Return every form of a predicate on text."""
    one, two, raw = text(1, "text"), text(6, "other"), text(2, "bytes", "binary")
    operators = ("=", "<=>", "<>", "<", "<=", ">", ">=")
    return [
        *(Compare(op, one, word) for op in operators for word in ("ab", "nowhere", "")),
        *(Compare(op, raw, b"ab") for op in operators),
        *(CompareColumns(op, one, two) for op in operators),
        *(CompareLength(op, one, 2) for op in operators),
        *(
            StringMatch(kind, one, part)
            for kind in ("prefix", "suffix", "contains")
            for part in ("a", "", "é", "1")
        ),
        In(one, ("ab", "é", "nowhere")),
        In(one, ("ab",), has_null=True),
        In(one, tuple(f"device-{n:06d}" for n in range(2_000))),
        In(one, ()),
        In(raw, (b"", b"a")),
        IsNull(one),
        Not(IsNull(raw)),
        Not(StringMatch("prefix", one, "d")),
        Or((Compare("=", one, "ab"), And((Compare("=", two, "é"), Compare("<>", raw, b""))))),
    ]


@pytest.mark.parametrize("share", [0, 0.3, 1])
def test_every_predicate_answers_alike(share: float, tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    write(path, random.Random(7), share)
    found = 0
    with opened(path, Metrics()) as file:
        for row_group in file.row_groups():
            encoded = {i: file.read_filter_column(row_group, i) for i in (1, 2, 6)}
            decoded = {i: file.read_leaf(row_group, i) for i in (1, 2, 6)}
            for predicate in predicates():
                for start, length in ((0, row_group.num_rows), (5, 3), (11, 400)):
                    answers = [
                        evaluate(predicate, {i: a.slice(start, length) for i, a in some.items()}, length)
                        for some in (encoded, decoded)
                    ]
                    assert answers[0].true.tolist() == answers[1].true.tolist(), str(predicate)
                    assert answers[0].false.tolist() == answers[1].false.tolist(), str(predicate)
                    found += int(answers[0].true.sum())
    assert found > 0


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_a_code_outside_its_dictionary_is_reported(kind: pa.DataType, tmp_path: Path) -> None:
    """pyarrow hands such codes over; looked up, they would show memory that is no text."""
    column = pa.array(["a", "b", "c", "b"] * 50).cast(kind)
    schema = pa.schema([pa.field("text", kind, metadata={"PARQUET:field_id": "1"})])
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table([column], schema=schema), path, compression="none", write_statistics=False)
    data = path.read_bytes()
    packed = bytes([0b01100100]) * 40  # four codes of two bits a byte
    assert data.count(packed) == 1
    path.write_bytes(data.replace(packed, bytes([0b01100111]) + packed[1:]))  # the first one is 3
    for encoded in (True, False):
        with opened(path, Metrics(), encoded_filters=encoded) as file:
            row_group = next(iter(file.row_groups()))
            for read in (file.read_filter_column, file.read_leaf):
                with pytest.raises(TwoStageError) as caught:
                    read(row_group, 1)
                assert caught.value.code.startswith("CORRUPT")


def test_what_few_rows_need_is_read_by_pages(tmp_path: Path) -> None:
    """Of an AND inside an OR, the second column's pages that hold no row of the first's are left out."""
    num_rows = 20_000
    columns = {
        "rare": pa.array(["yes" if n in (7, 15_000) else "no" for n in range(num_rows)]),
        "next": pa.array([f"word-{n % 50}" for n in range(num_rows)]),
        "last": pa.array([f"text-{n % 60}" for n in range(num_rows)]),
    }
    fields = [
        pa.field(name, array.type, metadata={"PARQUET:field_id": str(number)})
        for number, (name, array) in enumerate(columns.items(), 1)
    ]
    path = tmp_path / "file.parquet"
    data = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
    pq.write_table(data, path, data_page_size=500, write_batch_size=100, write_page_index=True)
    schema = parse_schema(
        {
            "schema-id": 0,
            "type": "struct",
            "fields": [
                {"id": number, "name": name, "type": "string", "required": False}
                for number, name in enumerate(columns, 1)
            ],
        }
    )
    rare, following, last = (text(number, name) for number, name in enumerate(columns, 1))
    predicate = Or(
        (
            And((Compare("=", rare, "yes"), Compare("=", following, "word-7"))),
            Compare("=", last, "text-59"),
        )
    )
    expected = [n for n in range(num_rows) if n == 7 or n % 60 == 59]
    read = {}
    for switch in ({}, {"read_pages": "never"}, {"encoded_filters": False}):
        context = ScanContext(
            scan_id="test",
            table="table",
            snapshot_id=1,
            schema=schema,
            projection=schema.fields[2:],
            predicate=predicate,
            storage=Storage(),
            settings=ReadSettings(**switch),
        )
        metrics = Metrics()
        batches = list(read_group(TaskGroup(index=0, context=context, tasks=(task_of(path),)), metrics))
        found = [value for batch in batches for value in batch.column(0).to_pylist()]
        assert found == [f"text-{n % 60}" for n in expected]
        read[str(switch)] = metrics.counters["pages.read"]
    assert 0 < read["{}"] <= 4
