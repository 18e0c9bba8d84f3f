"""Every Iceberg table of the folder ``TWOSTAGE_TABLES``, read in place: right, or refused by a typed error.

The folder's ``tables.json`` lists tables of other projects. Where a project states the answer, it stands in
`STATED` below; everywhere the rows must be those of `brute_force`, with random queries on top. Only the
tables in `REFUSED` may fail, each with its code; anything else is a bug.
"""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from table_copies import OTHER_FOLDERS, ROOT, TABLES, folders

import oracle
from brute_force import RealTable
from check import Columns
from core_scan import Opened, Result, open_table, scan, with_options
from random_queries import random_query
from twostage.errors import TwoStageError
from twostage.predicates.predicate import TRUE, Compare, In, Predicate
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable

    from declared.content import Content

pytestmark = pytest.mark.skipif(not TABLES, reason="TWOSTAGE_TABLES is not set")
if not TABLES:
    TABLES = [{"table": "none", "metadata": "none"}]

REFUSED = {
    "dremio/dac/metastore_table": "MISSING_FILE",  # its manifest list was never copied
    "trino/materialized_view_expired_snapshots/source_table": "MISSING_FILE",  # neither were its manifests
    "dremio/internal_metadata_inconsistent_partitions": "NO_FIELD_IDS",  # nor is there a name mapping
}


def cells(result: Result, opened: Opened, *names: str) -> list[tuple[Any, ...]]:
    """Return the values of these columns, sorted; structs stay in the oracle's form."""
    places = [[f.name for f in opened.table.schema.fields].index(name) for name in names]
    return sorted((tuple(_bare(row[place]) for place in places) for row in result.rows), key=repr)


def _bare(value: Any) -> Any:
    if value is None or value[0] in ("struct", "map"):
        return value
    if value[0] == "list":
        return [_bare(item) for item in value[1]]
    return struct.unpack("<d", value[1])[0] if value[0] == "float" else value[1]


def singles(*values: Any) -> list[tuple[Any, ...]]:
    """Return one-column rows, sorted as `cells` does."""
    return sorted(((value,) for value in values), key=repr)


LAKE = "pg_lake/iceberg/sample_tables_v3/public/"
COUNTS = {
    "dremio/table_with_delete": 594,
    "dremio/v2/multi_rowgroup_orders_with_deletes": 7225,
    "dremio/v2/products_with_eq_deletes": 450,
    "iceberg-cxx/tables/dangling_deletes": 10,
    "iceberg-cxx/tables/granular_deletes": 10,
    "iceberg-cxx/tables/partition_evolution": 7,
    "iceberg-cxx/tables/prod/db/refdeletes3": 10,
    "pg_lake/iceberg/sample_tables/public/spark_generated_iceberg_test": 110,
    LAKE + "v3_branches_tags": 3,
    LAKE + "v3_minimal": 0,
    LAKE + "v3_nested_basic": 2,
    LAKE + "v3_nested_evolution": 3,
    LAKE + "v3_partitioned_identity": 4,
    LAKE + "v3_partitioned_multi": 8,
    LAKE + "v3_partitioned_temporal": 4,
    LAKE + "v3_partitioned_truncate": 6,
    LAKE + "v3_primitives": 3,
    LAKE + "v3_props_compressed": 50,
    LAKE + "v3_row_lineage_appends": 26,
    LAKE + "v3_sorted_multi": 5,
    LAKE + "v3_sorted_single": 4,
    "trino/conflict_truncate": 2,
    "unitycatalog/marksheet_uniform": 15,
}
STATED: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = {
    "gluten/default/db/test_upsert_query": (
        ("id", "name"),
        [(1, "Bill1"), (2, "Jane2"), (3, "Bill3"), (4, "Bill4")],
    ),
    "iceberg-cxx/tables/deletion_vectors": (("c1",), singles(2, 5, 8, 9, 11, 12, 14, 15)),
    "iceberg-cxx/warehouse/deletion_vectors": (("c1",), singles(2, 5, 8, 9, 11, 12, 14, 15)),
    "pg_lake/iceberg/sample_tables/public/spark_generated_iceberg_test_2": (
        ("id",),
        singles(1, 2, 3, 5, 6, 7),
    ),
    LAKE + "v3_evolution_full": (
        ("id", "amount", "extra"),
        [(i, 10 * i, {8: Decimal("1.23000"), 9: Decimal("4.56000")}.get(i)) for i in range(1, 10)],
    ),
    LAKE + "v3_partitioned_bucket": (("id",), singles(*range(16))),
    LAKE + "v3_pos_dv": (("id",), singles(*({*range(50)} - {5, 12, 21, 33, 47}))),
    LAKE + "v3_row_lineage_appends": (
        ("id", "payload"),
        [*zip(range(1, 7), "abcdef"), *((i + 6, str(i)) for i in range(20))],
    ),
    "polars/iceberg-table": (
        ("id", "str", "ts"),
        [(1, "1", 1677694500000000), (2, "2", 1677698700000000), (3, "3", 1677794400000000)],
    ),
    "trino/delta_uniform/databricks133/uniform_iceberg_v1": (("a", "b"), [(1, "test data")]),
    "trino/delta_uniform/databricks143/uniform_iceberg_v2": (("a", "b"), [(1, "test data")]),
    "trino/invalid_compression_codec/none_avro": (("a",), [("Hello World!",)]),
    "trino/invalid_compression_codec/none_parquet": (("a",), [("Hello World!",)]),
    "trino/invalid_compression_codec/orc_gzip": (("a",), [("Hello World!",)]),
    "trino/timetravel": (("data",), singles(1, 2, 3)),
}


def brute(name: str, metadata: Path) -> RealTable:
    """Return the table as independent code sees it."""
    return RealTable(metadata, [ROOT / OTHER_FOLDERS[name]] if name in OTHER_FOLDERS else [])


def expected_rows(content: Content, opened: Opened, predicate: Predicate = TRUE) -> list[tuple[Any, ...]]:
    """Return the oracle's rows in all columns."""
    rows = [row for row in oracle.live_rows(content) if oracle.evaluate(predicate, row) is True]
    return [oracle.project(row, opened.table.schema.fields) for row in rows]


@pytest.mark.parametrize("entry", TABLES, ids=lambda entry: entry["table"])
def test_the_table_is_right_or_refused(entry: dict[str, Any]) -> None:
    name, metadata = entry["table"], ROOT / entry["metadata"]
    if name in REFUSED:
        with pytest.raises(TwoStageError) as caught:
            scan(open_table(metadata, **folders(name)))
        assert caught.value.code == REFUSED[name]
        return
    opened = open_table(metadata, **folders(name))
    result = scan(opened)
    content = brute(name, metadata).content()
    assert not (problem := oracle.difference(result.rows, expected_rows(content, opened))), problem
    if name in COUNTS:
        assert len(result.rows) == COUNTS[name]
    if name in STATED:
        columns, rows = STATED[name]
        assert cells(result, opened, *columns) == sorted(rows, key=repr)


WAYS: tuple[dict[str, str], ...] = ({}, {"read.pages": "always"}, {"two-stage": "false"})


@pytest.mark.parametrize("entry", [e for e in TABLES if e["table"] not in REFUSED], ids=lambda e: e["table"])
def test_random_queries_on_the_table(entry: dict[str, Any]) -> None:
    name, metadata = entry["table"], ROOT / entry["metadata"]
    opened = open_table(metadata, **folders(name))
    live = oracle.live_rows(brute(name, metadata).content())
    schema = opened.table.schema
    sample = live[:: max(1, len(live) // 40)]
    pools = (
        {
            field_id: [row[field_id] for row in sample if row.get(field_id) is not None]
            for field_id in sample[0]
            if field_id in schema and isinstance(schema.field(field_id).type, Primitive)
        }
        if sample
        else {}
    )
    for seed in range(10 if len(live) < 2000 else 3):
        query = random_query(seed, schema, pools)
        rows = [row for row in live if oracle.evaluate(query.predicate, row) is True]
        expected = [oracle.project(row, query.projection) for row in rows]
        for options in WAYS:
            result = scan(with_options(opened, options), query.projection, query.predicate)
            problem = oracle.difference(result.rows, expected)
            assert not problem, f"seed {seed} {options}: WHERE {query.predicate}: {problem}"


def all_metadata() -> list[tuple[str, str]]:
    """Return (table, metadata file) for every version of every table."""
    return [
        (entry["table"], str(path.relative_to(ROOT)))
        for entry in TABLES
        if entry["table"] not in REFUSED
        for path in sorted((ROOT / entry["metadata"]).parent.glob("*.json"))
        if "format-version" in json.loads(path.read_text())
    ]


@pytest.mark.parametrize(("name", "metadata"), all_metadata(), ids=lambda value: Path(value).name[:24])
def test_every_version_of_the_metadata(name: str, metadata: str) -> None:
    path = ROOT / metadata
    try:
        content = brute(name, path).content()
    except FileNotFoundError:
        with pytest.raises(TwoStageError) as caught:
            scan(open_table(path, **folders(name)))
        assert caught.value.code == "MISSING_FILE"
        return
    opened = open_table(path, **folders(name))
    problem = oracle.difference(scan(opened).rows, expected_rows(content, opened))
    assert not problem, problem


def test_the_count_of_tables() -> None:
    assert len(TABLES) == 78
    assert set(REFUSED) <= {entry["table"] for entry in TABLES}


# ---- time travel, branches, stages


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({"timestampAsOf": "2023-07-01 12:00:00Z"}, [1]),
        ({"timestampAsOf": "2023-07-02 12:00:00Z"}, [1, 2]),
        ({"timestampAsOf": "2023-07-03 12:00:00Z"}, [1, 2, 3]),
        ({"versionAsOf": "583816926071139654"}, [1]),
        ({"snapshot_id": "6153714018221937993"}, [1, 2]),
        ({"as_of_timestamp": "1688360622434"}, [1, 2, 3]),
        ({"as_of_timestamp": "1688360622433"}, [1, 2]),
    ],
)
def test_time_travel(options: dict[str, str], values: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    folder = ROOT / "iceberg/trino/timetravel"
    opened = open_table(folder, allow_moved_paths="true", **options)
    assert [row[0][1] for row in sorted(scan(opened).rows)] == values


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, 3), ({"tag": "v1"}, 1), ({"branch": "audit"}, 2), ({"versionAsOf": "audit"}, 2)],
)
def test_branches_and_tags(options: dict[str, str], count: int) -> None:
    opened = open_table(ROOT / "iceberg" / LAKE / "v3_branches_tags", allow_moved_paths="true", **options)
    assert len(scan(opened).rows) == count


@pytest.mark.parametrize(
    ("number", "columns", "rows"),
    [
        ("00001", ("id",), [(1,)]),
        ("00003", ("id", "new_column"), [(1, None), (2, 2)]),
        ("00005", ("id", "payload"), [(1, None), (2, 2), (3, 3)]),
        ("00007", ("id", "payload"), [(1, None), (2, 2), (3, 3), (4, 4)]),
        ("00009", ("payload", "id"), [(None, 1), (2, 2), (3, 3), (4, 4), (4, 5)]),
        ("00010", ("id",), [(1,), (2,), (3,), (4,), (5,)]),
    ],
)
def test_each_stage_of_an_evolving_table(
    number: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]
) -> None:
    folder = ROOT / "iceberg/pg_lake/iceberg/sample_tables/public/spark_generated_iceberg_ddl_test/metadata"
    (path,) = folder.glob(f"{number}-*.json")
    opened = open_table(path, allow_moved_paths="true")
    assert tuple(field.name for field in opened.table.schema.fields) == columns
    assert cells(scan(opened), opened, *columns) == sorted(rows, key=repr)


def test_initial_defaults() -> None:
    folder = ROOT / "iceberg/iceberg-cxx/warehouse/streams/default_value/metadata"
    opened = open_table(folder / "DefaultValues.json", allow_moved_paths="true")
    names = [field.name for field in opened.table.schema.fields]
    defaults = (
        1, True, 17, 9, 3.5, 6.21, Decimal("3.14"), "default", b"\xb5" * 5, 1039, 1351728650051000,
        1510871468123456, ["b", "fwl"],
    )  # fmt: skip
    assert defaults in cells(scan(opened), opened, *names)
    (path,) = folder.glob("00014-*.json")
    opened = open_table(path, allow_moved_paths="true")
    assert (1, *[None] * 12) in cells(scan(opened), opened, *names)


def stated_predicates() -> list[tuple[str, Callable[[Columns], Predicate], int]]:
    """Return (table, predicate, rows) as other projects' tests state them."""
    spark = "pg_lake/iceberg/sample_tables/public/spark_generated_iceberg_test"
    return [
        ("polars/iceberg-table", lambda c: Compare(">", c("ts"), 1677698700000000), 1),
        ("polars/iceberg-table", lambda c: In(c("id"), (1, 3)), 2),
        (spark, lambda c: Compare("=", c("id"), 3), 0),
        *[(spark, lambda c, i=i: Compare("=", c("id"), i), 4) for i in (5, 4, 2, 1)],  # type: ignore[misc]
    ]


@pytest.mark.parametrize(("name", "where", "count"), stated_predicates())
def test_stated_predicates(name: str, where: Callable[[Columns], Predicate], count: int) -> None:
    (entry,) = (entry for entry in TABLES if entry["table"] == name)
    opened = open_table(ROOT / entry["metadata"], allow_moved_paths="true")
    assert len(scan(opened, predicate=where(Columns(opened.table.schema))).rows) == count
