"""Whole plans over tables whose manifests are written here; planning opens no data file."""

from __future__ import annotations

import pickle
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from avro_manifests import LIST_SCHEMA, entry, entry_schema, field, listed, optional, write
from twostage.errors import CorruptFileError, MissingFileError, UnsupportedFeatureError
from twostage.options import ReadOptions, ReadSettings
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import FALSE, TRUE, Column, Compare, In, IsNull, Not, Or, Unknown
from twostage.schema import Primitive
from twostage.table.metadata import parse_metadata
from twostage.table.pinned import PinnedTable
from twostage.task import Storage

MIB = 2**20
KEY = Column(1, ("k",), Primitive("long"))
DAY = Column(2, ("day",), Primitive("date"))
SCHEMAS = [
    {"schema-id": 0, "fields": [
        {"id": 1, "name": "k", "type": "long"}, {"id": 3, "name": "old", "type": "string"},
        {"id": 5, "name": "many", "type": {"type": "list", "element-id": 6, "element": "int"}},
    ]},
    {"schema-id": 1, "fields": [
        {"id": 1, "name": "k", "type": "long"}, {"id": 2, "name": "day", "type": "date"},
        {"id": 4, "name": "payload", "type": "string"},
        {"id": 5, "name": "many", "type": {"type": "list", "element-id": 6, "element": "int"}},
    ]},
]  # fmt: skip


def long(value: int) -> bytes:
    return struct.pack("<q", value)


class Lake:
    """A table's folder: manifests by call, metadata at the end."""

    def __init__(self, folder: Path, transform: str = "identity") -> None:
        self.folder = folder
        self.transform = transform
        self.manifests: list[dict[str, Any]] = []

    def add(
        self, *entries: dict[str, Any], deletes: bool = False, sequence: int = 1, days: tuple[int, ...] = ()
    ) -> str:
        path = str(self.folder / f"m{len(self.manifests)}.avro")
        schema = entry_schema([field("p", 1000, optional("int"))])
        for item in entries:
            item["data_file"]["partition"] = item["data_file"]["partition"] or {"p": None}
        Path(path).write_bytes(write(schema, list(entries), format_version="2"))
        low, high = (struct.pack("<i", day) for day in (min(days, default=0), max(days, default=0)))
        summary = {"contains_null": not days, "contains_nan": False, "lower_bound": low, "upper_bound": high}
        self.manifests.append(
            listed(path, content=int(deletes), sequence_number=sequence, partitions=[summary] if days else None,
                   added_files_count=len(entries))
        )  # fmt: skip
        return path

    def table(self, **properties: str) -> PinnedTable:
        path = str(self.folder / "list.avro")
        Path(path).write_bytes(write(LIST_SCHEMA, self.manifests))
        spec = {"source-id": 2, "field-id": 1000, "name": "p", "transform": self.transform}
        metadata = parse_metadata(
            {
                "format-version": 2, "location": str(self.folder), "schemas": SCHEMAS, "current-schema-id": 1,
                "partition-specs": [{"spec-id": 0, "fields": [spec]}], "default-spec-id": 0, "current-snapshot-id": 9,
                "snapshots": [{"snapshot-id": 9, "timestamp-ms": 1, "manifest-list": path}], "properties": properties,
            },
            location=str(self.folder / "v1.metadata.json"),
        )  # fmt: skip
        storage = Storage(root=str(self.folder))
        return PinnedTable(
            name="t",
            metadata=metadata,
            snapshot=metadata.current_snapshot,
            schema=metadata.schema,
            storage=storage,
        )

    def data(
        self, name: str, day: int | None = 0, low: int | None = None, high: int | None = None, **file: Any
    ) -> dict[str, Any]:
        """Return a data file's entry: a day, and bounds of ``k``."""
        if low is not None:
            bounds = {"lower_bounds": {1: long(low)}, "upper_bounds": {1: long(high)}}
            file = {**bounds, "null_value_counts": {1: 0}, "value_counts": {1: 10}, **file}
        return entry(str(self.folder / name), partition={"p": day}, **file)

    def delete(self, name: str, content: int, day: int | None = 0, **file: Any) -> dict[str, Any]:
        return entry(str(self.folder / name), content=content, partition={"p": day}, **file)


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def plan(
    table: PinnedTable,
    predicate: Any = TRUE,
    *,
    hint: Any = TRUE,
    limit: int | None = None,
    parallelism: int = 2,
    **options: Any,
):
    return plan_scan(
        table, ReadOptions(**options), projection=table.schema.fields, predicate=predicate, hint=hint, limit=limit,
        parallelism=parallelism, scan_id="scan",
    )  # fmt: skip


def names(made) -> list[str]:
    return [Path(task.path).name for group in made.groups for task in group.tasks]


def tasks(made) -> dict[str, Any]:
    return {Path(task.path).name: task for group in made.groups for task in group.tasks}


def test_manifests_then_partitions_then_bounds_prune(lake):
    lake.add(lake.data("a", 1, 0, 9), lake.data("b", 1, 20, 29), lake.data("c", 2, 0, 9), days=(1, 2))
    lake.add(lake.data("d", 5, 0, 9), lake.data("e", 6, 0, 9), days=(5, 6))
    made = plan(lake.table(), In(DAY, (1,)), hint=Compare("<", KEY, 15))
    assert names(made) == ["a"]
    counters = {name: count for name, count in made.counters.items() if not name.startswith("time.")}
    assert counters == {
        "manifests.considered": 2, "manifests.pruned": 1, "files.considered": 5, "files.pruned.partition": 3,
        "files.pruned.bounds": 1, "bytes.considered": 3000, "rows.considered": 20, "rows.pruned": 20,
        "delete_files.considered": 0, "delete_files.skipped": 0, "delete_files.skipped.predicate": 0,
    }  # fmt: skip
    assert made.counters["time.planning"] > 0
    assert tasks(made)["a"].all_match  # the hint is not ours to apply
    assert tasks(made)["a"].constants == {2: 1}
    assert pickle.loads(pickle.dumps(made)) == made


def test_the_scan_context(lake):
    lake.add(lake.data("a", low=0, high=9))
    predicate, hint = Compare(">", KEY, 3), Not(IsNull(KEY))
    table = lake.table(**{"schema.name-mapping.default": '[{"field-id": 1, "names": ["k"]}]'})
    made = plan(table, predicate, hint=hint, limit=4)
    context = made.context
    assert (context.predicate, context.hint, context.limit, context.snapshot_id) == (predicate, hint, 4, 9)
    assert context.name_mapping == ({"field-id": 1, "names": ["k"]},)
    assert made.groups[0].context == context
    assert not tasks(made)["a"].all_match
    with pytest.raises(CorruptFileError, match="is not a name mapping"):
        plan(lake.table(**{"schema.name-mapping.default": "{"}))


def test_without_pruning_every_file_is_read_and_filtered(lake):
    lake.add(lake.data("a", 1, 0, 9), days=(1,))
    predicate = Compare("=", DAY, 2)
    assert names(plan(lake.table(), predicate)) == []
    made = plan(lake.table(), predicate, settings=ReadSettings(prune_files=False))
    assert names(made) == ["a"]
    assert not tasks(made)["a"].all_match


def test_what_we_do_not_evaluate_proves_nothing(lake):
    lake.add(lake.data("a", 1, 0, 9))
    made = plan(lake.table(), Or((Compare("=", DAY, 1), Unknown("upper"))))
    assert not tasks(made)["a"].all_match
    assert names(plan(lake.table(), FALSE)) == []


def test_deletes_are_attached_and_those_of_pruned_partitions_not_read(lake):
    lake.add(lake.data("a", 1), lake.data("b", 2), days=(1, 2))
    positions = lake.delete(
        "p1", 1, 1, lower_bounds={}, record_count=3, referenced_data_file=str(lake.folder / "a")
    )
    lake.add(positions, lake.delete("e1", 2, 1, equality_ids=[1]), deletes=True, sequence=2, days=(1,))
    broken = lake.add(lake.delete("e2", 2, 2, equality_ids=[1]), deletes=True, sequence=2, days=(2,))
    Path(broken).write_bytes(b"not read")
    made = plan(lake.table(), Compare("=", DAY, 1))
    assert names(made) == ["a"]
    found = tasks(made)["a"].deletes
    assert [(Path(delete.path).name, delete.content) for delete in found] == [
        ("p1", "position"),
        ("e1", "equality"),
    ]
    assert made.estimated_rows == 7
    with pytest.raises(CorruptFileError, match="m2.avro"):
        plan(lake.table(), Compare("=", DAY, 2))
    with pytest.raises(CorruptFileError):
        plan(lake.table(), Compare("=", DAY, 1), settings=ReadSettings(prune_files=False))


def test_a_predicate_prunes_a_delete_whose_keys_it_excludes(lake):
    """The keys 100..200 are of no row with ``k < 10``; NULL keys, of rows that ``k <=> NULL`` or NOT may return."""
    lake.add(lake.data("a", 1), days=(1,))
    keys = {"lower_bounds": {1: long(100)}, "upper_bounds": {1: long(200)}, "null_value_counts": {1: 0}}
    lake.add(lake.delete("e", 2, 1, equality_ids=[1], **keys), deletes=True, sequence=2, days=(1,))
    for predicate, left in (
        (Compare("<", KEY, 10), 0),
        (Compare("<", KEY, 101), 1),
        (IsNull(KEY), 0),
        (Or((IsNull(KEY), Compare("=", DAY, 1))), 1),
        (Not(Compare("<", KEY, 10)), 1),
        (Not(Compare(">", KEY, 10)), 0),
    ):
        made = plan(lake.table(), predicate)
        assert len(tasks(made)["a"].deletes) == left, str(predicate)
        assert made.counters["delete_files.skipped.predicate"] == 1 - left
        kept = plan(lake.table(), predicate, settings=ReadSettings(prune_deletes=False))
        assert len(tasks(kept)["a"].deletes) == 1
    lake.add(lake.delete("n", 2, 1, equality_ids=[1]), deletes=True, sequence=3, days=(1,))  # of unknown keys
    assert len(tasks(plan(lake.table(), Compare("<", KEY, 10)))["a"].deletes) == 1


def test_delete_bounds_can_be_switched_off(lake):
    lake.add(lake.data("a", 1, 0, 9))
    keys = {"lower_bounds": {1: long(100)}, "upper_bounds": {1: long(200)}, "null_value_counts": {1: 0}}
    lake.add(lake.delete("e", 2, 1, equality_ids=[1], **keys), deletes=True, sequence=2)
    made = plan(lake.table())
    assert (tasks(made)["a"].deletes, made.counters["delete_files.skipped"]) == ((), 1)
    made = plan(lake.table(), settings=ReadSettings(prune_deletes=False))
    assert (len(tasks(made)["a"].deletes), made.counters["delete_files.skipped"]) == (1, 0)


def test_keys_of_dropped_columns_come_from_older_schemas(lake):
    lake.add(lake.data("a", 1))
    lake.add(lake.delete("e", 2, 1, equality_ids=[1, 3]), deletes=True, sequence=2)
    fields = plan(lake.table()).context.key_fields
    assert {number: found.name for number, found in fields.items()} == {3: "old"}


@pytest.mark.parametrize("field_id", [6, 77])
def test_keys_that_are_no_column(lake, field_id):
    lake.add(lake.data("a", 1))
    lake.add(lake.delete("e", 2, 1, equality_ids=[field_id]), deletes=True, sequence=2)
    with pytest.raises(CorruptFileError, match=f"list or map: {field_id}"):
        plan(lake.table())


@pytest.mark.parametrize("name", ["lance", "Vortex"])
def test_other_formats_are_refused_only_where_they_would_be_read(lake, name):
    lake.add(lake.data("a", 1), lake.data("b", 2, file_format=name))
    assert names(plan(lake.table(), Compare("=", DAY, 1))) == ["a"]
    with pytest.raises(UnsupportedFeatureError, match=rf"UNSUPPORTED_FILE_FORMAT.*{name.lower()}.*/b"):
        plan(lake.table(), Compare("=", DAY, 2))


def test_missing_manifests_and_lists_are_named(lake):
    path = Path(lake.add(lake.data("a", 1)))
    table = lake.table()
    path.unlink()
    with pytest.raises(MissingFileError, match="m0.avro"):
        plan(table)
    (lake.folder / "list.avro").unlink()
    with pytest.raises(MissingFileError, match="list.avro"):
        plan(table)


def test_a_table_without_snapshot_has_no_groups(lake):
    lake.add(lake.data("a", 1))
    table = replace(lake.table(), snapshot=None)
    made = plan(table)
    assert (made.groups, made.estimated_rows, made.estimated_bytes) == ((), 0, 0)
    assert made.context.snapshot_id is None


class TestLimit:
    """A limit ends planning once clean files hold enough rows."""

    def test_clean_files_suffice(self, lake):
        for number in range(40):
            lake.add(lake.data(f"f{number}", 1))
        Path(lake.manifests[-1]["manifest_path"]).write_bytes(b"not read")
        made = plan(lake.table(), limit=15)
        assert names(made) == ["f0", "f1"]
        assert len(made.groups) == 1
        assert made.estimated_rows == 15

    def test_files_with_deletes_do_not_count(self, lake):
        lake.add(lake.data("a", 1), lake.data("b", 2), lake.data("c", 2))
        lake.add(lake.delete("e", 2, 1, equality_ids=[1]), deletes=True, sequence=2)
        assert names(plan(lake.table(), limit=15)) == ["b", "c"]
        assert names(plan(lake.table(), limit=25)) == ["a", "b", "c"]

    def test_files_that_a_predicate_may_thin_out_do_not_count(self, lake):
        lake.add(lake.data("a", 1, 0, 9), lake.data("b", 1, 5, 9), lake.data("c", 1, 5, 9))
        assert names(plan(lake.table(), Compare(">=", KEY, 5), limit=10)) == ["b"]
        assert names(plan(lake.table(), Compare(">=", KEY, 6), limit=10)) == ["a", "b", "c"]

    def test_a_hint_keeps_every_file(self, lake):
        """Rows that Spark drops later do not count towards a limit."""
        lake.add(lake.data("a", 1), lake.data("b", 1))
        assert names(plan(lake.table(), hint=Compare("=", KEY, 5), limit=10)) == ["a", "b"]

    def test_limit_zero_reads_nothing(self, lake):
        lake.add(lake.data("a", 1))
        assert plan(lake.table(), limit=0).groups == ()

    def test_a_large_limit_is_read_in_parallel(self, lake):
        files = [lake.data(f"f{n}", 1, record_count=10**6, file_size_in_bytes=64 * MIB) for n in range(20)]
        lake.add(*files)
        assert len(plan(lake.table(), limit=10**7).groups) > 1
        assert len(plan(lake.table(), limit=10**3).groups) == 1


class TestGroups:
    """Groups follow what stage one is expected to read."""

    def sized(self, lake, number: int = 12, **file: Any) -> PinnedTable:
        sizes = {1: 4 * MIB, 2: MIB, 4: 59 * MIB}
        lake.add(
            *[
                lake.data(f"f{n}", 1, 0, 9, file_size_in_bytes=64 * MIB, column_sizes=sizes, **file)
                for n in range(number)
            ]
        )
        return lake.table()

    def test_about_two_groups_per_core(self, lake):
        table = self.sized(lake)
        assert len(plan(table, Compare("=", KEY, 5)).groups) == 4
        assert len(plan(table, Compare("=", KEY, 5), parallelism=3).groups) == 6
        assert len(plan(table, parallelism=3).groups) == 6

    def test_the_option_parallelism_decides(self, lake):
        table = self.sized(lake)
        assert len(plan(table, parallelism=1).groups) == 2
        made = plan_scan(
            table, ReadOptions(parallelism=3), projection=(), predicate=Compare("=", KEY, 5), hint=TRUE, limit=None,
            parallelism=1, scan_id="x",
        )  # fmt: skip
        assert len(made.groups) == 3  # the 51 MiB of ``k`` are worth 4; a fourth would run alone

    def test_a_count_needs_one_group(self, lake):
        table = self.sized(lake)
        made = plan_scan(
            table,
            ReadOptions(),
            projection=(),
            predicate=TRUE,
            hint=TRUE,
            limit=None,
            parallelism=4,
            scan_id="x",
        )
        assert len(made.groups) == 1

    def test_split_size(self, lake):
        assert len(plan(self.sized(lake), split_size=2**40).groups) == 1

    def test_estimates(self, lake):
        made = plan(self.sized(lake, 3))
        assert made.estimated_rows == 30
        assert made.estimated_bytes == 30 * (8 + 8 + 4 + 20 + 4)
        assert any("3 files" in choice for choice in made.choices)
