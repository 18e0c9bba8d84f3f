"""Parquet data files: ranges that share a file read each row once, and layouts of every kind hold the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from check import check, ids
from core_scan import open_table, scan
from tables import FileOptions, Table
from twostage.predicates.predicate import And, Compare, In, IsNull, StringMatch

LAYOUTS = {
    "plain": FileOptions(dictionary=False),
    "codes": FileOptions(),
    "pages": FileOptions(page_index=True, page_size=200, dictionary=False),
    "second version": FileOptions(page_version="2.0", page_size=200, page_index=True),
    "checksums": FileOptions(page_checksums=True, page_size=200),
    "not compressed": FileOptions(compression="none", statistics=False),
    "snappy": FileOptions(compression="snappy", row_group_size=70),
    "gzip": FileOptions(compression="gzip", page_size=200, page_index=True),
    "lz4": FileOptions(compression="lz4", row_group_size=70),
    "brotli": FileOptions(compression="brotli"),
}
KINDS = {"id": "long", "k": "int", "s": "string", "st": {"x": "double", "t": "timestamptz"}, "xs": ["int"]}


def rows_of(count: int) -> list[dict[str, Any]]:
    return ids(
        count,
        k=lambda i: None if i % 11 == 0 else i % 50,
        s=lambda i: None if i % 13 == 0 else f"text {i % 40}",
        st=lambda i: None if i % 7 == 0 else {"x": i / 4, "t": i * 10**6},
        xs=lambda i: None if i % 5 == 0 else [i] * (i % 4),
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("pages", ["auto", "always", "never"])
def test_layouts(tmp_path: Path, layout: str, pages: str) -> None:
    table = Table(tmp_path / "t", KINDS)
    table.append(rows_of(300), LAYOUTS[layout])
    options = {"read.pages": pages, "read.few-rows": pages}
    check(table, range(300), **options)
    check(
        table, [i for i in range(300) if i % 11 and i % 50 == 3], lambda c: Compare("=", c("k"), 3), **options
    )
    wanted = [i for i in range(300) if i % 13 and i % 40 == 17]
    check(table, wanted, lambda c: StringMatch("suffix", c("s"), " 17"), **options)
    check(table, [10], lambda c: And((Compare("=", c("st.x"), 2.5), In(c("s"), ("text 10",)))), **options)
    check(table, range(0, 300, 7), lambda c: IsNull(c("st")), **options)


@pytest.mark.parametrize("offsets", ["stated", "not stated"])
def test_ranges_of_a_file_read_each_row_once(tmp_path: Path, offsets: str) -> None:
    table = Table(tmp_path / "t", {"id": "long", "s": "string"})
    with table.transaction():
        file = table.append(ids(2000, s=lambda i: f"{i:050}"), row_group_size=100)
        if offsets == "not stated":
            file.entry["split_offsets"] = None
    table.write()
    for size in ("1k", "10k", "100m"):
        opened = open_table(table.folder, **{"split-size": size})
        result = scan(opened)
        assert sorted(row[0][1] for row in result.rows) == list(range(2000))


def test_rows_before_and_behind_a_range_are_others(tmp_path: Path) -> None:
    """A row group belongs to the range that its first byte lies in."""
    from dataclasses import replace

    from twostage.metrics import Metrics
    from twostage.reading.pipeline import read_group

    table = Table(tmp_path / "t", {"id": "long"})
    table.append(ids(1000), row_group_size=100, dictionary=False, compression="none")
    table.write()
    result = scan(open_table(table.folder))
    assert result.plan is not None
    (group,) = result.plan.groups
    (task,) = group.tasks
    for edge in range(0, task.file_size, 997):
        found = []
        for start, end in ((0, edge), (edge, task.file_size)):
            part = replace(group, tasks=(replace(task, start=start, length=end - start),))
            found += [n for batch in read_group(part, Metrics()) for n in batch.column(0).to_pylist()]
        assert found == list(range(1000)), edge
