"""What compiling deletes would read, beside what it does read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from compiled_tables import make
from tables import Table
from twostage.advisor import collect as collect_module
from twostage.advisor.collect import collect
from twostage.advisor.column_metadata import parse_metadata
from twostage.advisor.compile_cost import CompileCost
from twostage.maintenance.compile_deletes import compile_files, plan_compiling
from twostage.options import parse_options
from twostage.table.manifest_entry import ContentFile

pytestmark = pytest.mark.usefixtures("small_sets_are_compiled")


@pytest.fixture
def sizes_in_manifests(monkeypatch):
    """Let manifests say what columns take, as footers do: the tests' own writer does not note it."""
    real = collect_module.stream_data_manifests

    def with_sizes(*arguments, **more):
        for entry in real(*arguments, **more):
            group = parquet.read_metadata(entry.path).row_group(0)
            columns = map(group.column, range(group.num_columns))
            sizes = {number: column.total_compressed_size for number, column in enumerate(columns, start=1)}
            yield replace(entry, column_sizes=sizes)

    monkeypatch.setattr(collect_module, "stream_data_manifests", with_sizes)


def append(table, first, rows):
    table.append([{"id": first + row, "k": row % 20, "s": f"s{row % 7}"} for row in range(rows)])


@pytest.mark.usefixtures("sizes_in_manifests")
def test_as_much_as_compiling_does_read(tmp_path):
    """The delete files, and the column that they compare of the data files that they apply to; not of the one written last."""
    table = Table(tmp_path / "t", {"id": "long", "k": "long", "s": "string"})
    append(table, 0, 3_000)
    append(table, 3_000, 3_000)
    for key in range(3):
        table.delete_equal(["k"], [{"k": key}, {"k": key + 10}])
    table.delete_equal(["id", "k"], [{"id": 5, "k": 5}])  # may be in the first file alone
    append(table, 6_000, 3_000)
    table.write()
    options = parse_options({"path": str(table.folder), "deletes.compiled-dir": str(tmp_path / "kept")})
    metadata = collect(options, {})
    items = plan_compiling(options, {})
    deletes = {delete.path: delete.file_size for _, task in items for delete in task.deletes}
    assert len(items) == 2
    assert len(deletes) == 4
    read = sum(metrics.counters["bytes.read"] for metrics in compile_files(items))
    assert read > 2 * 3_000
    assert metadata.compile_bytes == read + sum(deletes.values())
    assert sum(deletes.values()) == sum(Path(path).stat().st_size for path in deletes)
    assert parse_metadata(metadata.json()).compile_bytes == metadata.compile_bytes


def test_positions_are_not_compiled(tmp_path):
    table = Table(tmp_path / "t", {"id": "long"})
    file = table.append([{"id": i} for i in range(50)])
    table.delete_positions({file: [3, 4, 5]})
    table.write()
    assert collect(parse_options({"path": str(table.folder)}), {}).compile_bytes == 0


def test_a_file_of_unknown_column_sizes_counts_whole(tmp_path):
    table = make(tmp_path / "t")
    table.write()
    options = parse_options({"path": str(table.folder), "deletes.compiled-dir": str(tmp_path / "kept")})
    (_, task), (_, other) = plan_compiling(options, {})
    deletes = sum(delete.file_size for delete in task.deletes)
    key = task.deletes[0].equality_ids[0]
    entry = ContentFile(
        status=1, snapshot_id=1, sequence_number=1, file_sequence_number=1, spec_id=0, content=0, path=task.written_path,
        format="parquet", partition={}, record_count=60, file_size=task.file_size,
    )  # fmt: skip
    for sizes, expected in (({}, task.file_size), ({key: 7, 99: 50}, 7), ({99: 50}, 0)):
        cost = CompileCost([task, other])
        cost.add(replace(entry, column_sizes=sizes))
        cost.add(replace(entry, path="of no task"))
        assert cost.nbytes == deletes + expected
