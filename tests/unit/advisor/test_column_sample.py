"""Samples of columns: what is read of every type, merging, and what is kept of them."""

from __future__ import annotations

import datetime
import pickle
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from tables import Table
from twostage.advisor.collect import _data_files, columns_of
from twostage.advisor.column_sample import MAX_ROW_GROUPS, ColumnSample, SampleWork, _sketch, sample_files
from twostage.catalog.load_table import load_table
from twostage.options import parse_options

KINDS = {
    "i": "int",
    "l": "long",
    "f": "float",
    "d": "double",
    "flag": "boolean",
    "s": "string",
    "b": "binary",
    "day": "date",
    "ts": "timestamp",
    "price": "decimal(9,2)",
}


def work_of(table, at=0):
    options = parse_options({"path": str(table.folder)})
    pinned = load_table(options, {})
    context, tasks, _ = _data_files(pinned, options)
    names = columns_of(pinned.schema)
    return SampleWork(context=context, tasks=tuple(tasks[at:]), field_ids=tuple(names)), names


def rows(count, seed=1):
    rng = random.Random(seed)
    start = datetime.datetime(2026, 1, 1)
    return [
        {
            "i": rng.randrange(50),
            "l": row if row % 4 else None,
            "f": float(row % 3),
            "d": row / 7,
            "flag": row % 2 == 0,
            "s": f"text {row % 11}",
            "b": bytes([row % 5]),
            "day": start.date() + datetime.timedelta(days=row % 9),
            "ts": start + datetime.timedelta(seconds=row),
            "price": Decimal(row % 13) / 4,
        }
        for row in range(count)
    ]


def test_every_type_has_its_distinct_values(tmp_path):
    table, given = Table(tmp_path / "t", KINDS), rows(400)
    table.append(given)
    table.write()
    work, names = work_of(table)
    found = {names[field_id]: one for field_id, one in sample_files(work).items()}
    assert set(found) == set(KINDS)
    for name, sample in found.items():
        values = {row[name] for row in given} - {None}
        assert sample.distinct == (len(values), True), name
        assert (sample.rows, sample.entries) == (400, 400), name
        assert sample.row_groups == [(400, len(values))], name
        assert sample.nbytes > 0, name
    assert found["l"].nulls == 100


def test_samples_of_files_are_those_of_all_of_them_merged(tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "few": "string"})
    for first in (0, 50, 100):
        table.append([{"id": row, "few": f"v{row % 7}"} for row in range(first, first + 100)])
    table.write()
    work, names = work_of(table)
    ids = {name: field_id for field_id, name in names.items()}
    first, *others = pickle.loads(
        pickle.dumps(
            [
                sample_files(SampleWork(context=work.context, tasks=(task,), field_ids=work.field_ids))
                for task in work.tasks
            ]
        )
    )
    for other in others:
        for field_id, one in other.items():
            first[field_id].merge(one)
    for found in (first, sample_files(work)):
        assert found[ids["id"]].distinct == (200, True)
        assert found[ids["few"]].distinct == (7, True)
        assert found[ids["id"]].rows == 300


def test_many_values_are_estimated():
    found = ColumnSample()
    for seed in range(4):
        found.merge(_of_numbers(range(seed * 20_000, seed * 20_000 + 40_000)))
    count, is_counted = found.distinct
    assert count == pytest.approx(100_000, rel=0.06)
    assert not is_counted


def _of_numbers(numbers):
    return ColumnSample(rows=len(numbers), sketch=_sketch(pa.array(numbers, pa.int64())))


def test_what_is_kept_comes_back():
    one = ColumnSample(
        rows=9,
        nulls=1,
        entries=8,
        nbytes=70,
        bounded=2,
        page_overlaps=1.25,
        chunks=3,
        blooms=1,
        row_groups=[(8, 5)],
        sketch=_of_numbers(range(5)).sketch,
    )
    assert ColumnSample.of_dict(one.as_dict()) == one
    assert ColumnSample.of_dict(ColumnSample().as_dict()) == ColumnSample()


@pytest.mark.parametrize(
    "change",
    [
        {"rows": "many"},
        {"rows": None},
        {"sketch": "no base64!"},
        {"sketch": "AAAA"},
        {"sketch": 5},
        {"row_groups": [[1]]},
        {"row_groups": 3},
    ],
)
def test_what_is_no_sample_is_refused(change):
    with pytest.raises(ValueError, match="no sample"):
        ColumnSample.of_dict({**ColumnSample().as_dict(), **change})
    with pytest.raises(ValueError, match="no sample"):
        ColumnSample.of_dict({})


def test_overlaps_are_added_up():
    found = ColumnSample(bounded=1, page_overlaps=0.5, chunks=1, blooms=1)
    found.merge(ColumnSample(bounded=2, page_overlaps=0.25, chunks=3))
    assert (found.bounded, found.page_overlaps, found.chunks, found.blooms) == (3, 0.75, 4, 1)


def test_counts_of_row_groups_are_bounded():
    found = ColumnSample()
    for number in range(MAX_ROW_GROUPS + 9):
        found.merge(ColumnSample(rows=1, row_groups=[(number, 1)]))
    assert len(found.row_groups) == MAX_ROW_GROUPS
    assert found.row_groups[-1] == (MAX_ROW_GROUPS + 8, 1)
    assert found.rows == MAX_ROW_GROUPS + 9
