"""Select columns of the live rows: batches' sizes and order, and columns of stage one that are not read again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from check import Columns, check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.predicates.predicate import Compare, In, StringMatch
from twostage.reading.stage_two import joined


def batches(*sizes: int) -> list[pa.RecordBatch]:
    numbers = iter(range(sum(sizes)))
    return [pa.record_batch({"a": [next(numbers) for _ in range(size)]}) for size in sizes]


@pytest.mark.parametrize(
    ("sizes", "most", "expected"),
    [
        ((), 10, []),
        ((4,), 10, [4]),
        ((4, 4, 4), 10, [8, 4]),
        ((10, 1, 10), 10, [10, 1, 10]),
        ((1,) * 25, 10, [10, 10, 5]),
    ],
)
def test_small_batches_are_joined_in_order(sizes: tuple[int, ...], most: int, expected: list[int]) -> None:
    given = batches(*sizes)
    found = list(joined(iter(given), most))
    assert [batch.num_rows for batch in found] == expected
    assert [n for batch in found for n in batch.column(0).to_pylist()] == list(range(sum(sizes)))


def test_a_batch_alone_is_not_copied() -> None:
    (given,) = batches(3)
    (found,) = joined(iter([given]), 10)
    assert found is given


@pytest.mark.parametrize("batch_size", [1, 7, 64, 1000])
@pytest.mark.parametrize("select", [[], ["k"], ["s", "k"], ["st"]])
def test_rows_of_every_batch_size(tmp_path: Path, batch_size: int, select: list[str]) -> None:
    table = Table(
        tmp_path / "t", {"id": "long", "k": "int", "s": "string", "st": {"a": "int", "b": "string"}}
    )
    rows = ids(300, k=lambda i: i % 10, s=lambda i: f"text {i % 3}", st=lambda i: {"a": i, "b": "x"})
    table.append(rows, row_group_size=100)
    wanted = [i for i in range(300) if i % 10 in (3, 4)]
    result = check(table, wanted, lambda c: In(c("k"), (3, 4)), select=select, batch_size=str(batch_size))
    assert max(result.batch_sizes) <= batch_size
    assert result.count("rows.fetched") == 60
    check(table, range(0, 300, 3), lambda c: Compare("=", c("s"), "text 0"), select=select)


def test_filter_columns_are_not_read_again(tmp_path: Path) -> None:
    """The scan selects what it filters by alone: stage two has nothing to read."""
    table = Table(tmp_path / "t", {"id": "long", "s": "string"})
    table.append(ids(1000, s=lambda i: f"text {i % 50}"), row_group_size=250, metrics="none")
    only_filter = check(table, [7], lambda c: Compare("=", c("id"), 7), select=[])
    both = check(table, [7], lambda c: Compare("=", c("id"), 7))
    assert only_filter.count("bytes.fetch") == 0 < both.count("bytes.fetch")
    codes = check(table, range(7, 1000, 50), lambda c: StringMatch("suffix", c("s"), " 7"))
    assert codes.count("rows.fetched") == 20


@pytest.mark.parametrize("select", [["id", "s"], ["s"]])
def test_no_more_rows_are_fetched_than_a_limit_wants(tmp_path: Path, select: list[str]) -> None:
    """The first live rows of a row group, and of each column the pages that hold them."""
    table = Table(tmp_path / "t", {"id": "long", "k": "int", "s": "string"})
    rows = ids(4000, k=lambda i: i % 2, s=lambda i: f"{i:0100}")
    file = table.append(rows, row_group_size=4000, page_size=1000, page_index=True, dictionary=False)
    table.delete_positions({file: [1, 3]})
    table.write()
    opened = open_table(table.folder, **{"io.merge-gap": "1"})
    fields = [field for field in opened.table.schema.fields if field.name in select]
    odd = Compare("=", Columns(opened.table.schema)("k"), 1)
    found = {
        limit: scan(opened, tuple(fields), odd, limit=limit, parallelism=1) for limit in (1, 7, 1998, None)
    }
    live = [row["s"] for row in rows if row["k"] == 1 and row["id"] > 3]
    for limit, result in found.items():
        assert [row[-1][1] for row in result.rows] == live[:limit]
    read = [found[limit].count("bytes.fetch") for limit in (7, 1998, None)]
    assert read[0] * 3 < read[1] == read[2]


def test_text_looked_up_by_code_that_would_pass_the_reach_of_its_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twostage.reading.stage_two.MAX_TEXT_BYTES", 30)
    table = Table(tmp_path / "t", {"id": "long", "s": "string"})
    table.append(ids(100, s=lambda i: f"text {i % 2}"))
    check(table, range(1, 100, 2), lambda c: Compare("=", c("s"), "text 1"))
