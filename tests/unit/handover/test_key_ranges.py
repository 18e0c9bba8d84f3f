"""Which columns files are clustered by, and the ranges in which Spark looks up keys; what is unknown or wide is read."""

from __future__ import annotations

import pytest

from twostage.handover import key_ranges as module
from twostage.handover.file_facts import FileFacts
from twostage.handover.key_ranges import key_columns, ranges_of, rows_a_key
from twostage.handover.protocol import KeyRange
from twostage.schema import Field, Primitive

DAYS = Field(id=1, name="day", type=Primitive("int"), required=False)
ITEM = Field(id=2, name="item", type=Primitive("long"), required=False)
TEXT = Field(id=3, name="text", type=Primitive("string"), required=False)


def facts(num_rows: int = 1, /, **ranges: tuple[int, int]) -> FileFacts:
    ids = {field.name: field.id for field in (DAYS, ITEM, TEXT)}
    return FileFacts(
        file_size=1, num_rows=num_rows, columns={}, has_all_ids=True, has_legacy_calendar=False, has_row_index=False, has_ordered_chunks=True,
        single_values={}, ranges={ids[name]: both for name, both in ranges.items()},
    )  # fmt: skip


def test_files_are_clustered_by_a_column_if_each_has_a_part_of_its_values():
    files = [facts(day=(200 * n, 200 * n + 199), item=(1, 18_000 - n)) for n in range(10)]
    assert key_columns(files, [ITEM, DAYS, TEXT]) == ("day",)
    assert key_columns(files[:1], [DAYS]) == ()
    assert key_columns([], [DAYS]) == ()
    assert ranges_of(files[1], [DAYS, ITEM]) == (KeyRange(column="day", lower=200, upper=399),)


def test_a_file_without_a_range_counts_as_one_of_all_values():
    known, unknown = [facts(day=(n, n)) for n in range(4)], [facts() for _ in range(4)]
    assert key_columns([*known, *unknown[:1]], [DAYS]) == ("day",)
    assert key_columns([*known, *unknown], [DAYS]) == ()
    assert ranges_of(unknown[0], [DAYS]) == ()


def test_the_most_clustered_columns_come_first(monkeypatch):
    files = [facts(day=(n, n + 3), item=(n, n)) for n in range(10)]
    assert key_columns(files, [DAYS, ITEM]) == ("item", "day")
    monkeypatch.setattr(module, "MAX_KEY_COLUMNS", 1)
    assert key_columns(files, [DAYS, ITEM]) == ("item",)


@pytest.mark.parametrize(("limit", "value"), [("MAX_VALUES_PER_FILE", 99), ("MAX_VALUES_LOOKED_UP", 999)])
def test_no_more_values_are_looked_up_than_that(monkeypatch, limit, value):
    files = [facts(day=(100 * n, 100 * n + 99)) for n in range(10)]
    assert key_columns(files, [DAYS]) == ("day",)
    monkeypatch.setattr(module, limit, value)
    assert key_columns(files, [DAYS]) == ()


def test_rows_of_a_key_are_those_of_all_whole_numbers_between_the_bounds():
    files = [facts(600, day=(1, 10), item=(1, 60)), facts(600, day=(11, 20), item=(5, 64))]
    assert rows_a_key(files, DAYS) == 1200 / 20
    assert rows_a_key(files, ITEM) == 1200 / 64
    assert rows_a_key([facts(5, item=(1, 60))], ITEM) == 1
    assert rows_a_key([*files, facts(10**6)], DAYS) == 1, "a file whose range is not known may have any value"
    assert rows_a_key(files, TEXT) == rows_a_key([], DAYS) == 1
