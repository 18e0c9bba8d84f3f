"""Filters: each operator against NULL, NaN, missing metrics, truncated bounds, Unicode and partitions.

The same rows lie in several layouts (one value a row group, sorted, with dictionaries, with Bloom filters,
without statistics or metrics, partitioned by every transform); every predicate must give the same in each.
"""

from __future__ import annotations

import json
import math
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from settings import FILTERS, each_of

import oracle
from check import Columns, check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.predicates.predicate import (
    COMPARISONS,
    And,
    Column,
    Compare,
    CompareColumns,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StringMatch,
)
from twostage.schema import Primitive

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = each_of(*FILTERS)

VALUES: dict[str, list[Any]] = {
    "boolean": [False, True],
    "int": [-(2**31), -1, 0, 1, 7, 2**31 - 1],
    "long": [-(2**63), -1, 0, 2**53, 2**53 + 1, 2**63 - 1],
    "float": [-math.inf, -0.0, 0.0, 0.1, 1.5, math.inf, math.nan],
    "double": [-math.inf, -0.0, 0.0, 5e-324, 1.5, math.inf, math.nan],
    "decimal(9,2)": [Decimal("-9999999.99"), Decimal("0.00"), Decimal("1.10"), Decimal("9999999.99")],
    "decimal(10,2)": [Decimal("-9999999.99"), Decimal("-0.01"), Decimal("1.10"), Decimal("99999999.99")],
    "decimal(38,10)": [
        Decimal("-1.1"),
        Decimal(0),
        Decimal("1.1"),
        Decimal("9999999999999999999999999999.9999999999"),
    ],
    "date": [-719162, -1, 0, 19000, 2932896],
    "timestamp": [-62135596800000000, -1, 0, 1_700_000_000_000_001, 253402300799999999],
    "timestamptz": [-62135596800000000, -1, 0, 1_700_000_000_000_001, 253402300799999999],
    "string": [
        "",
        "a",
        "a\x00",
        "ab",
        "\x7f",
        "ä",
        "\ud7ff",
        "\uffff",
        "\U0001f600",
        "x" * 16,
        "x" * 17,
        "x" * 16 + "\U0010ffff",
    ],
    "uuid": [f"{first}000000-0000-0000-0000-000000000000" for first in ("00", "7f", "80", "ff")],
    "fixed[2]": [b"\x00\x00", b"\x7f\x00", b"\x80\x00", b"\xff\xff"],
    "binary": [b"", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff" * 20],
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "one row a group": {"row_group_size": 1},
    "no dictionary": {"row_group_size": 3, "dictionary": False},
    "bloom": {"row_group_size": 3, "bloom": ("k",), "statistics": False},
    "no statistics": {"row_group_size": 3, "statistics": False, "metrics": "none"},
    "bounds only": {"metrics": "bounds"},
    "counts only": {"metrics": "counts", "page_version": "2.0"},
}


def rows_of(kind: str) -> list[dict[str, Any]]:
    """Return one row per value, then two NULLs, then the values again (each in a row group of its own kind)."""
    values = [*VALUES[kind], None, None, *VALUES[kind]]
    return ids(len(values), k=values)


def drawn(predicates: list[Predicate], count: int, table: Table, *of: str) -> list[Predicate]:
    """Return some of the predicates, in each setting others."""
    seed = " ".join((*of, str(table.version), table.data_format))
    return random.Random(seed).sample(predicates, count)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", VALUES)
def test_every_operator_on_every_type_and_layout(tmp_path: Path, kind: str, layout: str) -> None:
    options = LAYOUTS[layout]
    if kind in ("boolean", "fixed[2]", "uuid") or kind.startswith("decimal"):
        options = {**options, "bloom": ()}
    table = Table(tmp_path, {"id": "long", "k": kind})
    rows = rows_of(kind)
    table.append(rows, **options)
    table.write()
    opened = open_table(tmp_path)
    column = Columns(opened.table.schema)("k")
    live = oracle.live_rows(table.content())
    predicates = [Compare(op, column, value) for op in COMPARISONS for value in rounded(kind)]
    predicates += [In(column, tuple(rounded(kind)[:2]), has_null=has_null) for has_null in (False, True)]
    predicates += [IsNull(column), Constant(None)]
    predicates += [Not(predicate) for predicate in predicates]
    for predicate in drawn(predicates, 10, table, kind, layout):
        expected = [
            oracle.project(row, opened.table.schema.fields) for row in live if oracle.evaluate(predicate, row)
        ]
        problem = oracle.difference(scan(opened, predicate=predicate).rows, expected)
        assert not problem, f"{predicate}: {problem}"


def rounded(kind: str) -> list[Any]:
    """Return the literals of a type."""
    from declared.types import plain

    return [plain(kind, value) for value in VALUES[kind]]


PARTITIONED = [
    *[(kind, "identity") for kind in VALUES],
    *[(kind, "bucket[3]") for kind in VALUES if kind not in ("boolean", "float", "double")],
    *[(kind, "void") for kind in ("int", "string")],
    *[
        (kind, f"truncate[{width}]")
        for kind in ("int", "long", "decimal(10,2)", "string", "binary")
        for width in (1, 3, 10)
    ],
    *[(kind, unit) for kind in ("date", "timestamp", "timestamptz") for unit in ("year", "month", "day")],
    *[(kind, "hour") for kind in ("timestamp", "timestamptz")],
]


@pytest.mark.parametrize(("kind", "transform"), PARTITIONED)
def test_every_partition_transform(tmp_path: Path, kind: str, transform: str) -> None:
    table = Table(tmp_path, {"id": "long", "k": kind}, partition=[f"{transform}(k)"])
    table.append_all(rows_of(kind), absent=("k",) if transform == "identity" else (), metrics="none")
    table.write()
    opened = open_table(tmp_path)
    column = Columns(opened.table.schema)("k")
    live = oracle.live_rows(table.content())
    predicates = [Compare(op, column, value) for op in COMPARISONS for value in rounded(kind)]
    predicates += [In(column, tuple(rounded(kind)[:2])), IsNull(column)]
    if kind == "string":
        predicates += [StringMatch("prefix", column, text) for text in ("", "a", "x" * 16, "\uffff")]
    predicates += [Not(predicate) for predicate in predicates]
    pruned = 0
    for predicate in drawn(predicates, 10, table, kind, transform):
        expected = [
            oracle.project(row, opened.table.schema.fields) for row in live if oracle.evaluate(predicate, row)
        ]
        result = scan(opened, predicate=predicate)
        problem = oracle.difference(result.rows, expected)
        assert not problem, f"{predicate}: {problem}"
        pruned += result.count("files.pruned.partition")
    assert (pruned > 0) == (transform != "void")


@pytest.fixture
def strings(tmp_path: Path) -> Table:
    table = Table(tmp_path, {"id": "long", "k": "string", "n": "int"})
    table.append(
        ids(
            8,
            k=["apple", "apply", None, "%a_", "ä", "x" * 30, "\U0001f600!", ""],
            n=[1, 2, 3, None, 5, 6, 7, 8],
        ),
        row_group_size=2,
    )
    return table


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("prefix", "appl", [0, 1]),
        ("prefix", "%", [3]),
        ("prefix", "", [0, 1, 3, 4, 5, 6, 7]),
        ("prefix", "x" * 30, [5]),
        ("prefix", "x" * 31, []),
        ("prefix", "\U0001f600", [6]),
        ("suffix", "y", [1]),
        ("suffix", "_", [3]),
        ("suffix", "!", [6]),
        ("contains", "a", [0, 1, 3]),
        ("contains", "pp", [0, 1]),
        ("contains", "ä", [4]),
        ("contains", "", [0, 1, 3, 4, 5, 6, 7]),
    ],
)
def test_like(strings: Table, kind: str, text: str, expected: list[int]) -> None:
    check(strings, expected, lambda c: StringMatch(kind, c("k"), text))
    others = [i for i in range(8) if i not in expected and i != 2]
    check(strings, others, lambda c: Not(StringMatch(kind, c("k"), text)))


def test_three_valued_logic(strings: Table) -> None:
    unknown = Constant(None)
    check(strings, [], lambda c: And((IsNull(c("k")), unknown)))
    check(strings, [2], lambda c: Or((IsNull(c("k")), unknown)))
    check(strings, [], lambda _: Not(unknown))
    check(strings, [2], lambda c: Not(Or((Not(IsNull(c("k"))), Constant(False)))))  # noqa: FBT003
    check(
        strings,
        [0, 1, 4, 5, 6, 7],
        lambda c: (
            Not(Or((Compare("=", c("n"), 3), Constant(False))))
            and And((Compare("<>", c("n"), 3), Not(IsNull(c("k")))))
        ),
    )  # noqa: FBT003


def test_an_or_of_different_columns_with_nulls(strings: Table) -> None:
    check(strings, [0, 2], lambda c: Or((Compare("=", c("k"), "apple"), Compare("=", c("n"), 3))))
    check(
        strings, [4, 5, 6, 7, 1], lambda c: Not(Or((Compare("=", c("k"), "apple"), Compare("=", c("n"), 3))))
    )


def test_in_with_thousands_of_values(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "k": "long", "s": "string"})
    table.append(ids(5000, k=lambda i: i * 3, s=str), row_group_size=500)
    check(table, [i for i in range(5000) if i * 3 % 2 == 0], lambda c: In(c("k"), tuple(range(0, 15000, 2))))
    check(table, range(0, 5000, 2), lambda c: In(c("s"), tuple(map(str, range(0, 9000, 2)))))
    check(table, range(1, 5000, 2), lambda c: Not(In(c("s"), tuple(map(str, range(0, 9000, 2))))))


def test_two_columns_compared(tmp_path: Path) -> None:
    nan = math.nan
    table = Table(tmp_path, {"id": "long", "a": "double", "b": "double"})
    table.append(ids(7, a=[1.0, nan, nan, 0.0, None, None, 2.0], b=[2.0, nan, 1.0, -0.0, None, 1.0, 1.0]))
    for op, expected in {
        "=": [1, 3],
        "<=>": [1, 3, 4],
        "<": [0],
        "<=": [0, 1, 3],
        ">": [2, 6],
        ">=": [1, 2, 3, 6],
        "<>": [0, 2, 6],
    }.items():
        check(table, expected, lambda c, op=op: CompareColumns(op, c("a"), c("b")))


def test_a_widened_column_is_compared_as_the_wider_type(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "i": "int", "f": "float"})
    table.append(ids(3, i=[1, 2**31 - 1, None], f=[0.1, 0.5, math.nan]))

    def cast(column: Column, kind: str) -> Column:
        return Column(column.field_id, column.path, column.type, Primitive(kind))

    check(table, [], lambda c: Compare("=", cast(c("f"), "double"), 0.1))
    check(table, [0, 2], lambda c: Compare("<>", cast(c("f"), "double"), 0.5))
    check(table, [0, 1], lambda c: Compare("<", cast(c("i"), "long"), 2**31))
    check(table, [], lambda c: Compare(">", cast(c("i"), "long"), 2**31))
    check(table, [0], lambda c: Compare("<", cast(c("i"), "double"), 1.5))


def test_fields_of_structs(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "s": {"a": "int", "m": {"z": "string"}}})
    table.append(
        ids(4, s=[{"a": 1, "m": {"z": "x"}}, {"a": None, "m": None}, None, {"a": 2, "m": {"z": None}}]),
        row_group_size=1,
    )
    check(table, [0], lambda c: Compare("=", c("s.m.z"), "x"))
    check(table, [1, 2, 3], lambda c: IsNull(c("s.m.z")))
    check(table, [1, 2], lambda c: IsNull(c("s.m")))
    check(table, [2], lambda c: IsNull(c("s")))
    check(table, [1], lambda c: And((IsNull(c("s.a")), Not(IsNull(c("s"))))))


def test_a_column_that_older_files_lack(tmp_path: Path) -> None:
    """There it is NULL, or since version 3 its initial default."""
    for default in (None, 7) if Table.default_version == 3 else (None,):
        table = Table(tmp_path / str(default), {"id": "long"})
        table.append(ids(2))
        table.add_column("k", "int", default=default)
        table.append([{"id": 10, "k": 7}, {"id": 11, "k": None}])
        old = [0, 1] if default == 7 else []
        check(table, [*old, 10], lambda c: Compare("=", c("k"), 7))
        check(table, [], lambda c: Compare("<>", c("k"), 7))
        check(table, [*([0, 1] if default is None else []), 11], lambda c: IsNull(c("k")))


def test_a_promoted_column_with_bounds_of_both_widths(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "i": "int", "f": "float", "e": "decimal(4,2)"})
    table.append(ids(2, i=[1, 2], f=[0.1, 0.5], e=[Decimal("1.10"), Decimal("-1.10")]))
    table.widen_column("i", "long")
    table.widen_column("f", "double")
    table.widen_column("e", "decimal(30,2)")
    table.append([{"id": 10, "i": 2**40, "f": 0.1, "e": Decimal("12345678901234567890.00")}])
    check(table, [10], lambda c: Compare(">", c("i"), 2))
    check(table, [0, 1], lambda c: Compare("<=", c("i"), 2))
    check(table, [10], lambda c: Compare("=", c("f"), 0.1))
    check(table, [0, 1], lambda c: Compare(">", c("f"), 0.1))
    check(table, [1], lambda c: Compare("<", c("e"), Decimal(0)))
    check(table, [10], lambda c: Compare(">", c("e"), Decimal("99.99")))


def test_all_null_and_all_nan_columns(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "k": "double"})
    table.append(ids(2, k=[None, None]))
    table.append(ids(2, id=[10, 11], k=[math.nan, math.nan]))
    table.append(ids(2, id=[20, 21], k=[math.nan, None]))
    table.append(ids(2, id=[30, 31], k=[1.0, math.nan]))
    check(table, [10, 11, 20, 31], lambda c: Compare(">", c("k"), math.inf))
    check(table, [10, 11, 20, 31], lambda c: Compare("=", c("k"), math.nan))
    check(table, [30], lambda c: Compare("<", c("k"), math.nan))
    check(table, [0, 1, 21], lambda c: IsNull(c("k")))
    check(table, [10, 11, 20, 30, 31], lambda c: Compare(">=", c("k"), 1.0))


def test_an_evolved_spec_prunes_each_file_by_its_own(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "ts": "timestamp", "k": "int"})
    day = 86_400_000_000
    table.append(ids(4, ts=lambda i: i * day, k=[1, 2, 3, 4]))
    for number, spec in enumerate(
        (["year(ts)"], ["month(ts)"], ["day(ts)", "bucket[4](k)"], ["hour(ts)", "k"], []), 1
    ):
        table.partition_by(spec)
        table.append_all(ids(4, id=lambda i: number * 10 + i, ts=lambda i: i * day, k=[1, 2, 3, 4]))  # noqa: B023
    expected = [number * 10 + i for number in range(6) for i in (1, 2)]
    check(table, expected, lambda c: And((Compare(">=", c("ts"), day), Compare("<", c("ts"), 3 * day))))
    check(
        table,
        [n * 10 + 2 for n in range(6)],
        lambda c: And((Compare(">=", c("ts"), day), Compare("=", c("k"), 3))),
    )


def test_metrics_of_an_imported_column_whose_name_the_mapping_gave_away(tmp_path: Path) -> None:
    """Column 2 had the values of `s`, and the manifest's metrics; by the mapping column 3 has them now."""
    mapping = [{"field-id": i, "names": [name]} for i, name in enumerate(("id", "t", "s"), 1)]
    table = Table(
        tmp_path,
        {"id": "long", "s": "string"},
        properties={"schema.name-mapping.default": json.dumps(mapping)},
    )
    table.append(ids(2, s=["a", "b"]), field_ids=False)
    table.rename_column("s", "t")
    table.add_column("s", "string")
    table.append([{"id": 10, "t": "c", "s": "d"}])
    if table.version > 1:
        table.delete_equal(["t"], [{"t": "a"}])
    table.write()
    opened = open_table(tmp_path)
    columns = Columns(opened.table.schema)
    for predicate, found in (
        (IsNull(columns("t")), [0, 1]),
        (Not(IsNull(columns("t"))), [10]),
        (Compare("=", columns("s"), "a"), [0]),
        (Compare("=", columns("t"), "a"), []),
    ):
        rows = scan(opened, predicate=predicate).rows
        assert sorted(row[0][1] for row in rows) == found, str(predicate)
    if table.version > 1:
        table.delete_equal(["t"], [{"t": None}])
        table.write()
        assert [row[0][1] for row in scan(open_table(tmp_path)).rows] == [10]
