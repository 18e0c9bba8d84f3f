"""Rows read by pages equal the rows read whole: every type, nesting, page layout, encoding and codec."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from declared.types import Column
from drawn_columns import Values, columns, rows_of
from opened import open_file, schema_of
from twostage.errors import TwoStageError
from twostage.formats.parquet import dictionary_arrays, page_reader
from twostage.metrics import Metrics
from twostage.selection import Selection

from .small_pages import selections, write_pages


@pytest.mark.parametrize("seed", range(24))
def test_any_rows_by_pages(seed, tmp_path):
    pick = random.Random(seed)
    fields = columns()
    values = Values(seed, nulls=(0.0, 0.1, 0.6, 1.0)[seed % 4])
    rows = [values.row(fields) for _ in range(400)]
    path = tmp_path / "file.parquet"
    layout = write_pages(path, fields, rows, seed)
    schema = schema_of(fields)
    metrics = Metrics()
    with (
        open_file(path, schema, read_pages="never") as whole,
        open_file(path, schema, read_pages="always", metrics=metrics) as paged,
    ):
        for group in whole.row_groups():
            arrays = whole.read(group, schema.fields, "fetch")
            for chosen in selections(group.num_rows, pick):
                mask = np.zeros(group.num_rows, np.bool_)
                mask[list(chosen)] = True
                selection = Selection.of(mask)
                expected = [array.filter(pa.array(mask)) for array in arrays]
                said = f"seed {seed}, {layout}, rows {list(chosen)[:10]}"
                some = pick.sample(range(len(schema.fields)), 5)
                for places in (range(len(schema.fields)), some):
                    targets = [schema.fields[i] for i in places]
                    wanted = rows_of([[expected[i] for i in places]])
                    found = paged.read(group, targets, "fetch", selection)
                    assert rows_of([found]) == wanted, said
                    steps = list(paged.select(group, targets, selection, 7))
                    assert rows_of(steps) == wanted, said
                    assert all(len(arrays_[0]) <= 7 for arrays_ in steps), said
    assert not metrics.counters["page_indexes.ignored"], layout
    assert metrics.counters["pages.read"] > 0


@pytest.mark.parametrize("codes", [range(8), (0, 5, 2, 1, 0, 7, 7, 3)], ids=["within", "some NULL"])
def test_text_of_few_rows_is_looked_up_by_its_codes(codes, tmp_path):
    """Only the codes of the pages are decoded; a page of plain values, or many rows, take the usual way."""
    schema = schema_of([Column(1, "t", "string"), Column(2, "b", "binary")])
    texts = [None if code == 5 and codes != range(8) else f"täxt {code}" for code in codes] * 100
    fields = [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
        for number, (name, kind) in enumerate((("t", pa.string()), ("b", pa.binary())), 1)
    ]
    columns_ = [pa.array(texts), pa.array([None if t is None else t.encode() for t in texts])]
    path = tmp_path / "file.parquet"
    pq.write_table(
        pa.Table.from_arrays(columns_, schema=pa.schema(fields)),
        path,
        data_page_size=100,
        write_batch_size=80,
    )
    for chosen, looked_up in (((0,), 2), ((3, 399, 799), 2), (tuple(range(0, 800, 3)), 0)):
        mask = np.zeros(800, np.bool_)
        mask[list(chosen)] = True
        metrics = Metrics()
        with open_file(path, schema, read_pages="always", metrics=metrics, few_rows="never") as file:
            (group,) = file.row_groups()
            (found,) = file.select(group, schema.fields, Selection.of(mask), 1_000)
        assert [array.type for array in found] == [pa.string(), pa.binary()]
        assert found[0].to_pylist() == [texts[i] for i in chosen]
        assert found[1].to_pylist() == [columns_[1][i].as_py() for i in chosen]
        assert metrics.counters["columns.fetched_as_codes"] == looked_up


def test_a_code_outside_its_dictionary_is_reported_where_it_is_wanted(tmp_path):
    schema = schema_of([Column(1, "t", "string")])
    field = pa.field("t", pa.string(), metadata={"PARQUET:field_id": "1"})
    table = pa.Table.from_arrays([pa.array(["a", "b", "c", "b"] * 50)], schema=pa.schema([field]))
    path = tmp_path / "file.parquet"
    pq.write_table(table, path, compression="none", write_statistics=False)
    data = path.read_bytes()
    packed = bytes([0b01100100]) * 40  # four codes of two bits a byte
    assert data.count(packed) == 1
    path.write_bytes(data.replace(packed, bytes([0b01100111]) + packed[1:]))  # the first one is 3
    with open_file(path, schema, read_pages="always") as file:
        (group,) = file.row_groups()
        with pytest.raises(TwoStageError, match="CORRUPT"):
            list(file.select(group, schema.fields, Selection.of(np.arange(200) == 0), 10))


@pytest.mark.parametrize("index", [True, False])
def test_a_needle_reads_few_bytes(index, tmp_path):
    fields = [Column(1, "id", "long"), Column(2, "t", "string"), Column(3, "u", "string")]
    rows = [{1: i, 2: f"text {i * 7919 % 20_000}" * 5, 3: f"{i}"} for i in range(20_000)]
    path = tmp_path / "file.parquet"
    write_pages(
        path, fields, rows, 0, compression="none", use_dictionary=False, data_page_size=10_000,
        write_batch_size=100, row_group_size=20_000, write_page_index=index,
    )  # fmt: skip
    schema, metrics = schema_of(fields), Metrics()
    with open_file(path, schema, metrics=metrics) as file:
        (group,) = file.row_groups()
        mask = np.zeros(20_000, np.bool_)
        mask[[5, 12_345]] = True
        (found,) = file.select(group, schema.fields, Selection.of(mask), 100)
        assert [array.to_pylist() for array in found] == [
            [rows[i][field.id] for i in (5, 12_345)] for field in fields
        ]
    assert metrics.counters["pages.read"] == 6
    assert metrics.counters["bytes.fetch"] < path.stat().st_size / 20


@pytest.mark.parametrize("limit", [2**31 - 1, 10])
def test_text_of_few_rows_is_looked_up_after_they_are_taken(limit, tmp_path, monkeypatch):
    """Beyond what 32-bit offsets reach (here: 10 bytes), whole chunks are read instead."""
    monkeypatch.setattr(dictionary_arrays, "MAX_TEXT_BYTES", limit)
    fields = [Column(1, "t", "string"), Column(2, "b", "binary"), Column(3, "plain", "string")]
    rows = [
        {1: None if i % 5 == 0 else f"text {i % 70}", 2: bytes([i % 90]) * 9, 3: f"{i}"} for i in range(9_000)
    ]
    path = tmp_path / "file.parquet"
    write_pages(
        path, fields, rows, 0, use_dictionary=["t", "b"], dictionary_pagesize_limit=2**20, data_page_size=500,
        write_batch_size=100, row_group_size=9_000, write_page_index=True,
    )  # fmt: skip
    looked_up = []
    look_up = page_reader.decode_if_small
    monkeypatch.setattr(
        page_reader, "decode_if_small", lambda array: looked_up.append(array.type) or look_up(array)
    )
    schema = schema_of(fields)
    with open_file(path, schema, few_rows="never") as file:
        (group,) = file.row_groups()
        mask = np.zeros(9_000, np.bool_)
        mask[[5, 1_234, 8_999]] = True
        steps = list(file.select(group, schema.fields, Selection.of(mask), 100))
    for place, field in enumerate(fields):
        assert {step[place].type for step in steps} == {pa.binary() if field.id == 2 else pa.string()}
        found = [value for step in steps for value in step[place].to_pylist()]
        assert found == [rows[i][field.id] for i in (5, 1_234, 8_999)]
    kinds = (pa.string(), pa.binary()) if limit > 10 else (pa.string(),)
    assert looked_up == [pa.dictionary(pa.int32(), kind) for kind in kinds]


def test_long_text_of_few_rows_is_read_in_parts(tmp_path):
    """A dictionary makes the chunk small, 40 kB; the rows wanted take 40 MB, and the budget is 16."""
    field = pa.field("t", pa.string(), metadata={"PARQUET:field_id": "1"})
    texts = [letter * 10_000 for letter in "abcd"]
    path = tmp_path / "file.parquet"
    pq.write_table(
        pa.Table.from_arrays([pa.array(texts * 5_000)], schema=pa.schema([field])),
        path,
        row_group_size=20_000,
    )
    schema = schema_of([Column(1, "t", "string")])
    with open_file(path, schema, task_memory=16 * 2**20) as file:
        (group,) = file.row_groups()
        before, most, rows = pa.total_allocated_bytes(), 0, 0
        for (array,) in file.select(group, schema.fields, Selection.of(np.arange(20_000) % 5 == 0), 100):
            most = max(most, pa.total_allocated_bytes() - before)
            assert array.to_pylist() == [texts[5 * row % 4] for row in range(rows, rows + len(array))]
            rows += len(array)
    assert rows == 4_000
    assert most < 16 * 2**20
