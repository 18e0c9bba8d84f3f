"""The named cases on tables that PyIceberg writes: appends, deletes by copy on write, evolved schemas and specs.

It writes format versions 1 and 2, Parquet only, and no delete files. What a table holds is read by
`brute_force`, which shares no code with either.
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, EqualTo, In as OneOf, IsNull as Null
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import DoubleType, LongType, StringType

import oracle
from brute_force import RealTable
from check import Columns
from core_scan import open_table, scan
from random_queries import random_query
from twostage.predicates.predicate import (
    COMPARISONS,
    TRUE,
    Compare,
    CompareColumns,
    In,
    IsNull,
    Not,
    Predicate,
    StringMatch,
)
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.table import Table

pytestmark = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
EPOCH = datetime.datetime(2024, 1, 1)
TEXTS = ["a", "ab", "\uffff", "\U0001f600", "x" * 16 + "a", "x" * 16 + "\U0010ffff", "ä", ""]
FLOATS = [0.0, -0.0, math.nan, math.inf, 1.5, -1.5, 0.1]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("e", pa.decimal128(9, 2)),
        ("ts", pa.timestamp("us")),
        ("st", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ]
)


def rows(first: int, last: int) -> pa.Table:
    """Return rows with these ids; every other column is NULL now and then."""

    def row(i: int) -> dict[str, Any]:
        return {
            "id": i,
            "k": None if i % 7 == 3 else i % 5,
            "f": None if i % 9 == 4 else FLOATS[i % len(FLOATS)],
            "d": None if i % 8 == 5 else FLOATS[i * 3 % len(FLOATS)],
            "s": None if i % 6 == 2 else TEXTS[i % len(TEXTS)],
            "e": None if i % 11 == 6 else Decimal(i).scaleb(-2),
            "ts": None if i % 10 == 7 else EPOCH + datetime.timedelta(hours=7 * i),
            "st": None if i % 13 == 8 else {"a": i % 4, "b": "xy"[i % 2]},
        }

    return pa.Table.from_pylist([row(i) for i in range(first, last)], schema=SCHEMA)


@pytest.fixture
def make(tmp_path: Path, version: int) -> Iterator[Callable[..., Table]]:
    """Return a function that makes a table with small row groups."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")

    def made(schema: pa.Schema = SCHEMA) -> Table:
        properties = {"format-version": str(version), "write.parquet.row-group-limit": "20"}
        return catalog.create_table("db.t", schema=schema, properties=properties)

    yield made
    catalog.engine.dispose()


class Read:
    """A table as the product and the oracle see it."""

    def __init__(self, table: Table) -> None:
        path = Path(table.metadata_location.removeprefix("file://"))
        self.opened = open_table(path)
        self.schema = self.opened.table.schema
        self.live = oracle.live_rows(RealTable(path).content())

    def check(
        self, ids: Iterable[int] | None = None, where: Callable[[Columns], Predicate] | None = None
    ) -> None:
        """Assert that the rows are the oracle's, and have these ids if given."""
        predicate = where(Columns(self.schema)) if where else TRUE
        kept = [row for row in self.live if oracle.evaluate(predicate, row) is True]
        if ids is not None:
            (id_field,) = (field.id for field in self.schema.fields if field.name == "id")
            assert sorted(row[id_field] for row in kept) == sorted(ids), "the oracle disagrees with the test"
        expected = [oracle.project(row, self.schema.fields) for row in kept]
        problem = oracle.difference(scan(self.opened, predicate=predicate).rows, expected)
        assert not problem, f"WHERE {predicate}: {problem}"

    def ask_at_random(self) -> None:
        """Assert that the rows of ten random queries are the oracle's."""
        pools = {
            field_id: [row[field_id] for row in self.live if row.get(field_id) is not None]
            for field_id in (self.live[0] if self.live else ())
            if field_id in self.schema and isinstance(self.schema.field(field_id).type, Primitive)
        }
        for seed in range(10):
            query = random_query(seed, self.schema, pools, self.live)
            kept = [row for row in self.live if oracle.evaluate(query.predicate, row) is True]
            expected = [oracle.project(row, query.projection) for row in kept]
            problem = oracle.difference(scan(self.opened, query.projection, query.predicate).rows, expected)
            assert not problem, f"seed {seed}: WHERE {query.predicate}: {problem}"


def check(
    table: Table, ids: Iterable[int] | None = None, where: Callable[[Columns], Predicate] | None = None
) -> None:
    """Check the table's rows; all of them, with random queries, if no predicate is given."""
    read = Read(table)
    read.check(ids, where)
    if where is None:
        read.ask_at_random()


def test_appends(make: Callable[..., Table]) -> None:
    table = make()
    for first in (0, 40, 80):
        table.append(rows(first, first + 40))
    check(table, range(120))


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        (EqualTo("id", 0), range(1, 60)),
        (EqualTo("id", 59), range(59)),
        (OneOf("id", set(range(20, 40))), [*range(20), *range(40, 60)]),
        (And(Null("k"), Null("s")), [i for i in range(60) if not (i % 7 == 3 and i % 6 == 2)]),
    ],
    ids=["first", "last", "row group", "nulls"],
)
def test_rows_deleted_by_rewriting(make: Callable[..., Table], gone: Any, left: Iterable[int]) -> None:
    table = make()
    table.append(rows(0, 60))
    table.delete(gone)
    check(table, left)


def test_delete_then_insert_again(make: Callable[..., Table]) -> None:
    table = make()
    table.append(rows(0, 30))
    table.delete(OneOf("id", {3, 4, 5}))
    table.append(rows(4, 5))
    check(table, {*range(30)} - {3, 5})
    table.delete("id < 100")
    check(table, [])


def test_every_operator(make: Callable[..., Table]) -> None:
    """On NULL, NaN, -0.0, truncated bounds and Unicode's edges; a file of NULLs alone, and one without metrics."""
    table = make()
    table.append(rows(0, 60))
    empty = pa.Table.from_pylist([{"id": i} for i in range(100, 110)], schema=SCHEMA)
    table.append(empty)
    table.transaction().set_properties({"write.metadata.metrics.default": "none"}).commit_transaction()
    table.append(rows(200, 230))
    read = Read(table)
    values = {"k": 3, "f": 1.5, "d": -0.0, "s": "x" * 16 + "a", "e": Decimal("0.10"), "st.a": 2}
    column = Columns(read.schema)
    asked: list[Predicate] = []
    for name, value in values.items():
        asked += [Compare(operator, column(name), value) for operator in COMPARISONS]
        asked += [IsNull(column(name)), In(column(name), (value,), has_null=True)]
    asked += [
        Compare(operator, column("d"), value) for operator in COMPARISONS for value in (math.nan, math.inf)
    ]
    for text in TEXTS:
        asked += [StringMatch(kind, column("s"), text) for kind in ("prefix", "suffix", "contains")]
        asked.append(Compare(">=", column("s"), text))
    for predicate in asked:
        read.check(where=lambda _: predicate)  # noqa: B023
        read.check(where=lambda _: Not(predicate))  # noqa: B023


def test_evolved_schema(make: Callable[..., Table]) -> None:
    """Renamed, promoted, dropped, added, and a name used again; files of before and after."""
    table = make()
    table.append(rows(0, 30))
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("s", "text")
        update.update_column("k", LongType())
        update.update_column("f", DoubleType())
        update.delete_column("e")
    with table.update_schema() as update:
        update.add_column("s", StringType())
        update.add_column(("st", "more"), LongType())
        update.move_first("text")
    check(table, range(30))
    check(table, range(30), lambda c: IsNull(c("s")))
    later = [{"id": 100, "k": 2**40, "f": 0.1, "text": "t", "s": "s", "st": {"a": 1, "b": "x", "more": 5}}]
    table.append(pa.Table.from_pylist(later, schema=table.schema().as_arrow()))
    check(table)
    check(table, [100], lambda c: Compare(">", c("k"), 2**31))
    check(table, [100], lambda c: Compare("=", c("f"), 0.1))
    check(table, [100], lambda c: Compare("=", c("st.more"), 5))
    table.delete(EqualTo("text", "t"))
    check(table, range(30))


@pytest.mark.parametrize("column", ["k", "s", "e", "ts"])
def test_identity_partitions(make: Callable[..., Table], column: str) -> None:
    """Its other transforms need a package of compiled code that the tests do without."""
    table = make()
    with table.update_spec() as update:
        update.add_field(column, IdentityTransform(), "part")
    table.append(rows(0, 40))
    table.delete(EqualTo("id", 7))
    check(table, {*range(40)} - {7})


def test_two_columns_compared(make: Callable[..., Table]) -> None:
    table = make()
    table.append(rows(0, 60))
    for operator in COMPARISONS:
        check(table, where=lambda c: CompareColumns(operator, c("k"), c("st.a")))  # noqa: B023
        check(table, where=lambda c: Not(CompareColumns(operator, c("st.a"), c("k"))))  # noqa: B023
    check(
        table,
        [i for i in range(60) if i % 7 != 3 and i % 13 != 8 and i % 5 == i % 4],
        lambda c: CompareColumns("=", c("k"), c("st.a")),
    )


def test_a_void_partition(make: Callable[..., Table]) -> None:
    table = make()
    with table.update_spec() as update:
        update.add_field("k", VoidTransform(), "part")
    table.append(rows(0, 40))
    check(table, range(40))
    check(table, [i for i in range(40) if i % 5 == 2 and i % 7 != 3], lambda c: Compare("=", c("k"), 2))


def test_specs_that_changed(make: Callable[..., Table], version: int) -> None:
    """In version 1 a dropped field turns void."""
    table = make()
    table.append(rows(0, 20))
    with table.update_spec() as update:
        update.add_field("k", IdentityTransform(), "k_part")
    table.append(rows(20, 40))
    with table.update_spec() as update:
        update.remove_field("k_part")
        update.add_field("s", IdentityTransform(), "s_part")
    if version == 1:
        assert any(isinstance(field.transform, VoidTransform) for field in table.spec().fields)
    table.append(rows(40, 60))
    check(table, range(60))
    table.delete(EqualTo("k", 2))
    check(table, [i for i in range(60) if i % 7 == 3 or i % 5 != 2])
