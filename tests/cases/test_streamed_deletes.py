"""Equality deletes that are pruned, streamed past the rows that are left, or read in parts: rows stay the same."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import pytest
from key_values import OF_TYPE
from settings import Setting, each_of

from check import Columns, check, ids
from core_scan import open_table, scan
from tables import FileOptions, Table
from twostage.deletes.anti_join import host_key_sets, stream_or_load
from twostage.deletes.cache.memory import CACHE
from twostage.errors import ResourceLimitError
from twostage.predicates.predicate import Column, Compare, In, IsNull, Not, Or
from twostage.predicates.top import TopRows
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = each_of(Setting(2, "parquet", "parquet"), Setting(2, "orc", "avro"), Setting(3, "avro", "orc"))
MODES = ("auto", "always", "never")


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    CACHE.clear()
    stream_or_load._streamed.clear()
    stream_or_load._too_large.clear()
    stream_or_load._absent.clear()
    yield
    CACHE.clear()


def check_all(table: Table, expected: Any, where: Any = None, **options: str) -> dict[str, Any]:
    """Check the rows in every mode, and without pruning; return what each mode counted."""
    found = {}
    for mode in MODES:
        for prune in ("true", "false"):
            for stages in ("true", "false"):
                CACHE.clear()
                more = {
                    "deletes.cache": "worker",
                    "deletes.stream": mode,
                    "prune.deletes": prune,
                    "two-stage": stages,
                    **options,
                }
                result = check(table, expected, where, **more)
                if prune == "true" and stages == "true":
                    found[mode] = result.metrics.counters
    return found


@pytest.mark.parametrize("kind", OF_TYPE)
def test_keys_of_every_type(tmp_path: Path, kind: str) -> None:
    values = [*OF_TYPE[kind], None]
    table = Table(tmp_path, {"id": "long", "k": kind, "n": "int"})
    table.append(ids(2 * len(values), k=[*values, *values], n=lambda i: i // len(values)))
    table.delete_equal(["k", "n"], [{"k": value, "n": 1} for value in values])
    table.delete_equal(["k"], [{"k": None}])
    counted = check_all(table, range(len(values) - 1))
    assert counted["always"]["delete_keys.streamed"] > 0 == counted["always"]["delete_keys.loaded"]
    assert counted["never"]["delete_keys.loaded"] > 0 == counted["never"]["delete_keys.streamed"]


def test_a_delete_file_that_the_predicate_excludes_is_not_opened(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "k": "int", "n": "int"})
    table.append(ids(40, k=lambda i: i, n=lambda i: i % 4))
    table.delete_equal(["k"], [{"k": k} for k in range(10)])
    table.delete_equal(["k", "n"], [{"k": k, "n": 1} for k in range(20, 40)])
    counted = check_all(table, range(10, 15), lambda c: Compare("<", c("k"), 15))
    for one in counted.values():
        assert one["delete_files.skipped.predicate"] == one["delete_files.opened"] == 1
    # n = 1 in every fourth row: 21, 25 …
    check_all(table, [20], lambda c: In(c("k"), (3, 20, 21)))


def test_a_delete_is_kept_wherever_spark_returns_its_rows(tmp_path: Path) -> None:
    """Spark's comparisons decide, not the bounds: 0.0 = -0.0, and NaN is the greatest."""
    table = Table(tmp_path, {"id": "long", "k": "double"})
    table.append(ids(6, k=[0.0, -0.0, math.nan, math.inf, None, 7.0]))
    table.delete_equal(["k"], [{"k": 0.0}])
    check_all(table, [1], lambda c: Compare("=", c("k"), -0.0))
    check_all(table, [1], lambda c: Compare("<=", c("k"), -0.0))
    table.delete_equal(["k"], [{"k": math.nan}])
    check_all(table, [3, 5], lambda c: Compare(">", c("k"), 5.0))
    check_all(table, [], lambda c: Compare("=", c("k"), math.nan))
    table.delete_equal(["k"], [{"k": None}])
    check_all(table, [], lambda c: IsNull(c("k")))
    check_all(table, [1], lambda c: In(c("k"), (0.0, math.nan)))
    check_all(table, [1, 3, 5], lambda c: Or((Not(IsNull(c("k"))), Compare("=", c("k"), 1.0))))


def test_each_delete_file_is_opened_once_for_all_files_and_row_groups(tmp_path: Path, setting: Any) -> None:
    """Of ORC and Avro, whose readers keep what they unpacked, for all row groups of a file."""
    table = Table(tmp_path, {"id": "long", "k": "int"})
    for first in range(0, 90, 30):
        rows = [{"id": i, "k": i * 7 % 90} for i in range(first, first + 30)]
        table.append(rows, row_group_size=5)
    for first in range(4):
        table.delete_equal(["k"], [{"k": k} for k in range(first, 90, 9)])
    left = [i for i in range(90) if i * 7 % 90 % 9 > 3]
    table.write()
    opened = open_table(table.folder, **{"deletes.stream": "always", "parallelism": "1"})
    result = scan(opened, parallelism=1)
    assert result.metrics.counters["delete_files.opened"] == (4 if setting.data == "parquet" else 12)
    (field,) = (f for f in opened.table.schema.fields if f.name == "id")
    found = [
        dict(zip([f.id for f in opened.table.schema.fields], row, strict=True))[field.id]
        for row in result.rows
    ]
    assert [value[1] if isinstance(value, tuple) else value for value in found] == left  # in file order
    assert check_all(table, left)["always"]["rows.deleted.equality"] == 40


def test_delete_files_that_miss_the_survivors_are_not_opened(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "k": "int", "s": "string"})
    table.append(ids(100, k=lambda i: i, s=lambda i: f"row {i * 7 % 100:02d}"), row_group_size=1000)
    for first in range(0, 100, 10):
        table.delete_equal(["k"], [{"k": k} for k in range(first, first + 10, 2)])
    wanted = [f"row {i * 7 % 100:02d}" for i in (33, 34)]
    counted = check_all(table, [33], lambda c: In(c("s"), tuple(wanted)))
    assert counted["always"]["delete_files.skipped.survivors"] == 9
    assert (counted["always"]["delete_files.opened"], counted["never"]["delete_files.opened"]) == (1, 10)


def test_row_groups_that_the_keys_miss_or_cover(tmp_path: Path, setting: Any) -> None:
    """One row group holds keys that are all deleted, one a single deleted value; to two no key comes near."""
    table = Table(tmp_path, {"id": "long", "k": "int", "n": "int"})
    groups = [range(100), [200] * 100, range(300, 400), range(500, 600)]
    rows = [{"id": 100 * g + i, "k": k, "n": 5} for g, keys in enumerate(groups) for i, k in enumerate(keys)]
    table.append(rows, row_group_size=100)
    table.delete_equal(["k"], [{"k": 200}])
    table.delete_equal(["k", "n"], [{"k": k, "n": 5} for k in range(110)])
    counted = check_all(table, range(200, 400))
    if setting.data == "parquet":  # ORC's stripes are larger, Avro has no bounds
        assert counted["never"]["row_groups.pruned.deletes"] == 2
        assert counted["never"]["row_groups.untouched"] == 2


def test_keys_in_constant_partitions_and_columns_that_are_null(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "p": "string", "k": "int"}, partition=["p"])
    files = []
    for number, partition in enumerate(("a", "b", None)):
        rows = [{"id": 10 * number + i, "p": partition, "k": None if i > 4 else i} for i in range(10)]
        files += table.append_all(rows)
    # A key of another partition's value deletes nothing.
    keys = [{"p": "a", "k": 1}, {"p": "a", "k": None}, {"p": "b", "k": 2}, {"p": None, "k": 3}]
    table.delete_equal(["p", "k"], keys, like=files[0])
    table.delete_equal(["p"], [{"p": None}], like=files[2])
    table.delete_equal(["p"], [{"p": "a"}], like=files[1])
    check_all(table, [0, 2, 3, 4, *range(10, 20)])


@pytest.mark.parametrize("limit", [1, 7, 40, 1000])
@pytest.mark.parametrize("mode", MODES)
def test_a_limit(tmp_path: Path, limit: int, mode: str) -> None:
    table = Table(tmp_path, {"id": "long", "k": "int"})
    for first in (0, 50):
        table.append([{"id": i, "k": i % 10} for i in range(first, first + 50)], row_group_size=10)
    table.delete_equal(["k"], [{"k": 3}, {"k": 4}])
    table.write()
    opened = open_table(table.folder, **{"deletes.stream": mode})
    result = scan(opened, predicate=Compare(">", Columns(opened.table.schema)("k"), 1), limit=limit)
    assert len(result.rows) >= min(limit, 60)


def test_keys_beyond_the_budget_are_streamed_in_parts(tmp_path: Path, setting: Any) -> None:
    if setting.data == "avro":
        pytest.skip("the blocks of the data file exceed such a budget")
    table = Table(tmp_path, {"id": "long", "k": "long", "s": "string"})
    table.append(ids(6000, k=lambda i: i * 3, s=lambda i: f"name {i % 3000}"), row_group_size=6000)
    table.delete_equal(["k"], [{"k": k} for k in range(0, 30_000, 2)])
    table.delete_equal(["k", "s"], [{"k": 3 * i, "s": f"name {i % 3000}"} for i in range(5500, 6000)])
    left = range(1, 5500, 2)
    options = {"task-memory": "100k", "split-size": "1g", "deletes.cache": "worker", "deletes.dense": "false"}
    with pytest.raises(ResourceLimitError, match="DELETE_KEYS_TOO_LARGE"):
        check(table, left, **options, **{"deletes.stream": "never"})
    for mode in ("auto", "always"):
        for stages in ("true", "false"):
            CACHE.clear()
            result = check(table, left, **options, **{"deletes.stream": mode, "two-stage": stages})
            known = result.metrics.choices
            assert any("several passes" in choice or "windows" in choice for choice in known), known
            assert stages == "true" or any("several passes" in choice for choice in known), known


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (0.0, [(300, 0), (300, 0), (0, 300), (0, 0)]),
        (1e9, [(300, 0)] * 4),
    ],
)
def test_few_rows_against_many_keys_are_streamed_until_that_cost_as_much_as_loading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: float, expected: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(stream_or_load, "MIN_KEYS_TO_STREAM", 100)
    monkeypatch.setattr(stream_or_load, "SECONDS_TO_LOAD_NUMBER", cost)
    table = Table(tmp_path, {"id": "long", "k": "long", "s": "string"})
    table.append(ids(600, k=lambda i: i, s=lambda i: f"{i * 7 % 600}"), row_group_size=200)
    table.delete_equal(["k"], [{"k": k} for k in range(0, 600, 2)])
    table.write()
    opened = open_table(table.folder, **{"deletes.cache": "worker"})
    predicate = In(Columns(opened.table.schema)("s"), ("21", "14"))  # rows 3 and 2
    ways = []
    for _ in range(4):
        result = scan(opened, predicate=predicate)
        assert len(result.rows) == 1
        ways.append(
            (result.metrics.counters["delete_keys.streamed"], result.metrics.counters["delete_keys.loaded"])
        )
    assert ways == expected
    assert len(scan(opened).rows) == 300


def test_keys_that_another_worker_built_are_mapped_not_streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_or_load, "MIN_KEYS_TO_STREAM", 100)
    monkeypatch.setattr(host_key_sets, "MIN_KEYS_TO_SHARE", 100)
    table = Table(tmp_path / "table", {"id": "long", "k": "long", "s": "string"})
    table.append(ids(600, k=lambda i: i, s=lambda i: f"{i * 7 % 600}"), row_group_size=200)
    table.delete_equal(["k"], [{"k": k} for k in range(0, 600, 2)])
    table.write()
    opened = open_table(table.folder, **{"deletes.cache-dir": str(tmp_path / "cache")})
    predicate = In(Columns(opened.table.schema)("s"), ("21", "14"))  # rows 3 and 2

    def needle() -> Counter[str]:
        result = scan(opened, predicate=predicate)
        assert len(result.rows) == 1  # id 3
        return result.metrics.counters

    first = needle()
    assert (first["delete_keys.streamed"], first["delete_cache.hits"]) == (300, 0)
    assert len(stream_or_load._absent) == 1
    assert "/data/" not in repr(stream_or_load._absent), "the paths of some thousand files, 256 times"
    CACHE.clear()  # another worker
    assert len(scan(opened).rows) == 300
    CACHE.clear()
    stream_or_load._absent.clear()
    found = needle()
    assert (found["delete_keys.streamed"], found["delete_keys.loaded"], found["delete_files.opened"]) == (
        0,
        0,
        0,
    )
    assert found["delete_cache.hits"] == 1
    CACHE.clear()
    never = open_table(table.folder, **{"deletes.cache": "worker"})
    assert scan(never, predicate=predicate).metrics.counters["delete_cache.hits"] == 0


@pytest.mark.parametrize("base", [0, -(2**63), 2**63 - 60])
@pytest.mark.parametrize("null", [False, True])
def test_row_groups_between_the_keys_are_not_asked(
    tmp_path: Path, base: int, null: bool, setting: Any
) -> None:  # noqa: FBT001
    """The delete file's own bounds meet all row groups; its keys are in the first and in the last of them."""
    table = Table(tmp_path, {"id": "long", "k": "long"})
    table.append(ids(60, k=lambda i: None if null and i == 25 else base + i), row_group_size=10)
    table.delete_equal(["k"], [{"k": base + k} for k in (0, 1, 19, 50, 59)] + [{"k": None}] * null)
    left = set(range(60)) - {0, 1, 19, 50, 59} - ({25} if null else set())
    found = check_all(table, left)
    if setting.data == "parquet":
        assert found["never"]["row_groups.untouched"] == (2 if null else 3)
        off = check(table, left, **{"deletes.stream": "never", "deletes.dense": "false"})
        assert off.metrics.counters["row_groups.untouched"] == 0


@pytest.mark.parametrize("kinds", [("long", "string"), ("string", "binary"), ("binary", "int"), ("string",)])
@pytest.mark.parametrize("few", [True, False])
def test_few_values_are_looked_for_column_by_column(
    tmp_path: Path, kinds: tuple[str, ...], few: bool
) -> None:
    """Row groups without a value in one column, with one of another key, with the key; NULL as a value."""
    seed, different = len(kinds) + 2 * few, 6 if len(kinds) == 2 else 60
    print(f"seed {seed}")
    rng = random.Random(seed)

    def value(kind: str, most: int) -> Any:
        number = rng.randrange(most)
        plain = {
            "long": number * 2**50,
            "int": number,
            "string": f"v{number}",
            "binary": f"{number}".encode(),
        }
        return None if rng.random() < 0.1 else plain[kind]

    names = [f"k{place}" for place in range(len(kinds))]
    table = Table(tmp_path, {"id": "long", **dict(zip(names, kinds, strict=True))})
    rows = [
        {"id": i, **{name: value(kind, different) for name, kind in zip(names, kinds, strict=True)}}
        for i in range(60)
    ]
    table.append(rows)
    keys = [
        {name: value(kind, 3 * different) for name, kind in zip(names, kinds, strict=True)}
        for _ in range(300)
    ]
    for start in range(0, 300, 100):
        table.delete_equal(names, keys[start : start + 100], options=FileOptions(row_group_size=9))
    most = 9 if few else 60
    gone = {tuple(key.values()) for key in keys}
    left = [row["id"] for row in rows[:most] if tuple(row[name] for name in names) not in gone]
    assert 0 < len(left) < most
    counted = check_all(table, left, lambda c: Compare("<", c("id"), most))
    assert counted["always"]["delete_files.opened"] > 0


@pytest.mark.parametrize("top", [True, False])
def test_few_rows_of_many_combinations_of_null_are_asked_in_whatever_budget(
    tmp_path: Path, setting: Any, top: bool
) -> None:
    """Each of the seven combinations has a table of 10 kB, which even 64 rows cannot do without."""
    if setting.data == "avro":
        pytest.skip("the blocks of the data file exceed such a budget")
    table = Table(tmp_path, {"id": "long", "a": "long", "b": "string", "c": "long"})
    rows = [
        {
            "id": i,
            "a": i if i & 1 else None,
            "b": f"{i}" if i & 2 else None,
            "c": i if i & 4 else None,
        }
        for i in range(200)
    ]
    table.append(rows)
    for names in (["a", "b", "c"], ["a", "b"]):
        table.delete_equal(names, [{name: rows[i][name] for name in names} for i in range(5, 200, 7)])
    gone = {(row["a"], row["b"], row["c"]) for row in rows[5::7]}
    pairs = {(row["a"], row["b"]) for row in rows[5::7]}
    left = [
        row["id"]
        for row in rows
        if (row["a"], row["b"], row["c"]) not in gone and (row["a"], row["b"]) not in pairs
    ]
    table.write()
    opened = open_table(table.folder, **{"task-memory": "30k", "deletes.stream": "always"})
    field = opened.table.schema.fields[0]
    order = TopRows(
        column=Column(field.id, ("id",), Primitive("long")), count=3, descending=True, nulls_first=False
    )
    found = sorted(row[0][1] for row in scan(opened, top=order if top else None).rows)
    assert found[-3:] == left[-3:]
    assert top or found == left
