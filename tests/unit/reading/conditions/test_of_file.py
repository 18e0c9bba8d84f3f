"""What one scan has found out is right for every later one, whatever happened to the table; each time the rows are brute force's.

`check` compares the rows with the ids that the test states and with the oracle's.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from check import Columns, check, ids
from core_scan import Result, open_table, scan
from tables import Table
from twostage.columns import project_names
from twostage.predicates.predicate import And, Compare, In, IsNull, Or, StringMatch, both
from twostage.predicates.sql_filter import parse_filter
from twostage.predicates.top import TopRows
from twostage.reading.conditions.kept import KEPT
from twostage.table.metadata_columns import scan_schema

ROWS = 1000
CACHES = ["memory", "host"]
NONE_PRUNED = {"prune.dictionary": "false", "prune.pages": "false"}


class Kept:
    """Scans of a table that keep what they find out in one place."""

    def __init__(self, table: Table, cache: str, folder: Path, file: Any = None) -> None:
        self.table = table
        self.file = file
        self.options = {"filter.cache": cache, "filter.cache-dir": str(folder)}

    def __call__(self, wanted: Any, where: Any, *, known: int, **options: str) -> Result:
        """Check a scan, and that so many of its row groups were known."""
        if self.options["filter.cache"] == "host":
            KEPT.clear()  # as for another worker
        result = check(self.table, wanted, where, **{**self.options, **options})
        assert result.metrics.counters["conditions.known"] == known, dict(result.metrics.counters)
        assert result.count("condition_cache.ignored") == result.count("condition_cache.failed") == 0
        return result


@pytest.fixture(params=CACHES)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    """A file of ten row groups: `k` from 0 to 99, over and over."""
    table = Table(tmp_path / "t", {"id": "long", "k": "int", "s": "string"})
    given = {"k": lambda i: i % 100, "s": lambda i: f"text {i % 7}"}
    file = table.append(ids(ROWS, **given), row_group_size=100, metrics="none")
    return Kept(table, request.param, tmp_path / "cache", file)


def k_is(value: int) -> Any:
    return lambda c: Compare("=", c("k"), value)


def places(*values: int, rows: int = ROWS) -> list[int]:
    return [i for i in range(rows) if i % 100 in values]


def test_a_filter_is_evaluated_once(kept):
    first = kept(places(7), k_is(7), known=0)
    again = kept(places(7), k_is(7), known=10)
    assert first.count("conditions.kept") == 10
    assert again.count("conditions.kept") == again.count("bytes.filter") == 0
    assert again.count("rows.filtered") == first.count("rows.filtered") == 990
    assert list(again.metrics.predicates) == ["known: k = 7"]
    kept(places(8), k_is(8), known=0)


def test_off_keeps_nothing(kept):
    kept.options["filter.cache"] = "off"
    for _ in range(2):
        result = kept(places(7), k_is(7), known=0)
        assert result.count("conditions.asked") == result.count("conditions.kept") == 0


def test_row_groups_without_a_match_are_skipped_unread(kept):
    def where(c):
        return And((Compare("=", c("k"), 7), StringMatch("suffix", c("s"), "3")))

    wanted = [i for i in places(7) if i % 7 == 3]
    kept(wanted, where, known=0)
    again = kept(wanted, where, known=10)
    assert again.count("row_groups.pruned.filter") == 10 - len({i // 100 for i in wanted})
    assert again.count("row_groups.read") == len({i // 100 for i in wanted})


def test_what_dictionaries_rule_out_is_not_asked_again(kept):
    def where(c):
        return And((Compare("=", c("k"), 7), Compare("=", c("s"), "text 33")))

    first = kept([], where, known=0)
    assert first.count("row_groups.pruned.dictionary") == 10
    assert first.count("conditions.kept") == 10
    again = kept([], where, known=10)
    assert again.count("row_groups.pruned.dictionary") == again.count("bytes.read") == 0


def test_conjuncts_are_known_alone(kept):
    def both_of(c):
        return And((Compare("=", c("k"), 7), StringMatch("suffix", c("s"), "3")))

    kept(places(7), k_is(7), known=0)
    part = kept([i for i in places(7) if i % 7 == 3], both_of, known=0)
    assert part.count("conditions.known_in_part") == 10
    assert list(part.metrics.predicates) == ["known: k = 7", "s LIKE '%3'"]
    whole = kept([i for i in places(7) if i % 7 == 3], both_of, known=10)
    assert whole.count("bytes.filter") == 0


def test_the_first_of_several_conjuncts_is_kept_alone(kept):
    def where(c):
        return And((Compare("=", c("k"), 7), StringMatch("suffix", c("s"), "3")))

    wanted = [i for i in places(7) if i % 7 == 3]
    kept(wanted, where, known=0, **NONE_PRUNED, **{"filter.reorder": "false"})
    kept(places(7), k_is(7), known=10, **NONE_PRUNED)


def test_conjuncts_in_another_order_and_columns_that_are_selected(kept):
    def where(c):
        return And((In(c("k"), (7, 8)), StringMatch("suffix", c("s"), "3")))

    def turned(c):
        return And((StringMatch("suffix", c("s"), "3"), In(c("k"), (8, 7))))

    wanted = [i for i in places(7, 8) if i % 7 == 3]
    kept(wanted, where, known=0)
    kept(wanted, turned, known=10)


def test_appends_are_read(kept):
    kept(places(7), k_is(7), known=0)
    kept.table.append(
        [{"id": i, "k": i % 100, "s": "x"} for i in range(ROWS, ROWS + 500)],
        row_group_size=100,
        metrics="none",
    )
    kept(places(7, rows=1500), k_is(7), known=10)
    kept(places(7, rows=1500), k_is(7), known=15)


def test_overwrites_are_read(kept):
    kept(places(7), k_is(7), known=0)
    with kept.table.transaction():
        kept.table.remove(kept.file)
        kept.table.append(ids(ROWS, k=lambda i: (i + 1) % 100), row_group_size=100, metrics="none")
    kept(places(6), k_is(7), known=0)
    kept(places(6), k_is(7), known=10)


@pytest.mark.parametrize("kind", ["positions", "vectors", "equality"])
def test_deletes_are_applied_afterwards(tmp_path, kind):
    """And what was evaluated without the deleted rows serves no snapshot that still has them."""
    table = Table(tmp_path / "t", {"id": "long", "k": "int"}, version=3 if kind == "vectors" else 2)
    file = table.append(ids(ROWS, k=lambda i: i % 100), row_group_size=100, metrics="none")
    kept = Kept(table, "memory", tmp_path / "cache")
    before = table.snapshots[-1].id

    def delete(gone):
        if kind == "equality":
            table.delete_equal(["id"], [{"id": i} for i in gone])
        else:
            (table.delete_positions if kind == "positions" else table.delete_vectors)({file: gone})

    delete([107, 207, 208])
    alive = [i for i in places(7) if i not in (107, 207)]
    kept(alive, k_is(7), known=0)
    kept(alive, k_is(7), known=10)
    delete([107, 207, 208, 307] if kind == "vectors" else [307])  # a file has one vector
    kept([i for i in alive if i != 307], k_is(7), known=10)
    opened = open_table(table.folder, snapshot_id=str(before), **{"filter.cache": "memory"})
    predicate = k_is(7)(Columns(opened.table.schema))
    for known in (
        (10, 10) if kind == "equality" else (8, 10)
    ):  # of two row groups some rows were not evaluated
        result = scan(opened, predicate=predicate)
        assert sorted(row[0][1] for row in result.rows) == places(7)
        assert result.metrics.counters["conditions.known"] == known
    kept([i for i in alive if i != 307], k_is(7), known=10)


def test_a_renamed_column_is_the_same(kept):
    kept(places(7), k_is(7), known=0)
    kept.table.rename_column("k", "other")
    kept(places(7), lambda c: Compare("=", c("other"), 7), known=10)
    kept.table.rename_column("s", "k")
    kept([i for i in range(ROWS) if i % 7 == 3], lambda c: Compare("=", c("k"), "text 3"), known=0)
    kept(places(7), lambda c: Compare("=", c("other"), 7), known=10)


def test_a_promoted_column_is_another(kept):
    kept(places(7), k_is(7), known=0)
    kept.table.widen_column("k", "long")
    kept(places(7), k_is(7), known=0)
    kept(places(7), k_is(7), known=10)


def test_a_new_column_of_the_same_name_is_another(kept):
    kept(places(7), k_is(7), known=0)
    kept(places(), lambda c: IsNull(c("k")), known=0)
    kept.table.drop_column("k")
    kept.table.add_column("k", "int")
    kept([], k_is(7), known=0)
    now = kept(
        range(ROWS), lambda c: IsNull(c("k")), known=0
    )  # one of three scans: two row groups each are filtered
    kept(range(ROWS), lambda c: IsNull(c("k")), known=3 * now.count("conditions.kept"))


def test_initial_defaults_count(tmp_path):
    results = []
    for default in (7, 8):
        folder = tmp_path / f"{default}"
        table = Table(folder, {"id": "long", "s": "string"}, version=3)
        table.append(ids(100, s=lambda i: f"{i % 7}"), metrics="none")
        table.add_column("k", "int", default=default)
        kept = Kept(table, "memory", tmp_path / "cache")

        def where(c):
            return Or((Compare("=", c("k"), 7), StringMatch("suffix", c("s"), "3")))

        wanted = range(100) if default == 7 else [i for i in range(100) if i % 7 == 3]
        results.append(kept(wanted, where, known=0))
        kept(wanted, where, known=results[-1].count("conditions.kept"))


@pytest.mark.parametrize("keeps_times", [False, True])
@pytest.mark.parametrize("cache", CACHES)
def test_a_file_replaced_at_its_path_is_another(tmp_path, cache, keeps_times):
    tables = []
    for first in (0, 50):
        tables.append(Table(tmp_path / f"{first}", {"id": "long", "k": "int"}))
        given = ids(ROWS, k=lambda i, first=first: (i + first) % 100)
        plain = {"dictionary": False, "compression": "none", "statistics": False}
        tables[-1].append(given, row_group_size=100, metrics="none", **plain)
        tables[-1].write()
    path, source = (next(table.folder.rglob("*.parquet")) for table in tables)
    kept = Kept(tables[0], cache, tmp_path / "cache")
    kept(places(7), k_is(7), known=0)
    kept(places(7), k_is(7), known=10)
    status = path.stat()
    shutil.copy(source, path)
    assert path.stat().st_size == status.st_size, "a replacement of another size would prove less"
    if keeps_times:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    opened = open_table(kept.table.folder, **kept.options)
    result = scan(opened, predicate=k_is(7)(Columns(opened.table.schema)))
    assert sorted(row[0][1] for row in result.rows) == [i for i in range(ROWS) if (i + 50) % 100 == 7]
    assert result.count("conditions.known") == 0


def test_a_file_that_is_replaced_while_it_is_read_is_not_kept(kept, monkeypatch):
    from twostage.data_files.data_file import DataFile

    monkeypatch.setattr(DataFile, "is_in_place", False)
    assert kept(places(7), k_is(7), known=0).count("conditions.kept") == 0
    kept(places(7), k_is(7), known=0)


def test_keys_of_joins_are_not_kept(kept):
    """Neither alone nor together with a filter, which is known alone."""
    kept.table.write()
    opened = open_table(kept.table.folder, **kept.options, **{"filter.reorder": "false"})
    c = Columns(opened.table.schema)
    ends_in_3 = StringMatch("suffix", c("s"), "3")
    for number, value in enumerate((7, 8, 9)):
        keys = In(c("k"), (value, 55))
        predicate = both(ends_in_3, keys)
        result = scan_with_keys(opened, predicate, keys)
        assert sorted(row[0][1] for row in result.rows) == [i for i in places(value, 55) if i % 7 == 3]
        kept_names = result.count("conditions.kept")
        assert kept_names == (10 if number == 0 else 0), number
        assert result.count("conditions.known_in_part") == (10 if number else 0)


def scan_with_keys(opened, predicate, keys):
    import pickle

    import oracle
    from twostage.metrics import Metrics
    from twostage.planning.plan import plan_scan
    from twostage.predicates.predicate import TRUE
    from twostage.reading.pipeline import read_group

    plan = plan_scan(
        opened.table,
        opened.options,
        projection=opened.table.schema.fields,
        predicate=predicate,
        hint=TRUE,
        limit=None,
        parallelism=1,
        scan_id="test",
        keys=(keys,),
    )
    result = Result()
    result.metrics = Metrics()
    for group in plan.groups:
        for batch in read_group(pickle.loads(pickle.dumps(group)), result.metrics):
            result.rows += oracle.batch_rows(batch)
    return result


def test_top_rows_keep_only_what_holds_for_all(kept):
    """A row that is no more among the best was not evaluated, or is dropped for that."""
    kept.table.write()
    opened = open_table(kept.table.folder, **kept.options)
    c = Columns(opened.table.schema)
    top = TopRows(column=c("id"), count=3, descending=True, nulls_first=False)
    where = Compare("<", c("k"), 50)
    best = scan(opened, predicate=where, top=top, parallelism=1)
    assert sorted(row[0][1] for row in best.rows)[-3:] == [947, 948, 949]
    kept(places(*range(50)), lambda c: Compare("<", c("k"), 50), known=best.count("conditions.kept"))
    again = scan(opened, predicate=where, top=top, parallelism=1)
    assert sorted(row[0][1] for row in again.rows)[-3:] == [947, 948, 949]


def test_a_limit_keeps_whole_row_groups(kept):
    kept.table.write()
    opened = open_table(kept.table.folder, **kept.options)
    predicate = k_is(7)(Columns(opened.table.schema))
    result = scan(opened, predicate=predicate, limit=1, parallelism=1)
    assert len(result.rows) == 1
    kept(places(7), k_is(7), known=result.count("conditions.kept"))
    kept(places(7), k_is(7), known=10)


def test_pages_that_a_hint_rules_out_are_not_decided(tmp_path):
    """The hint is of one query: the next one wants the rows of those pages."""
    table = Table(tmp_path / "t", {"id": "long", "k": "int", "s": "string"})
    table.append(
        ids(ROWS, k=lambda i: i % 10, s=lambda i: f"{i}"),
        page_size=200,
        page_index=True,
        dictionary=False,
        metrics="none",
    )
    kept = Kept(table, "memory", tmp_path / "cache")
    table.write()
    opened = open_table(table.folder, **kept.options)
    c = Columns(opened.table.schema)
    hinted = scan(opened, predicate=Compare("=", c("k"), 7), hint=Compare("<", c("id"), 100))
    assert hinted.count("rows.pruned") > 500
    wanted = [i for i in range(ROWS) if i % 10 == 7]
    kept(wanted, k_is(7), known=0)
    kept(wanted, k_is(7), known=1)


def test_pages_that_the_filter_rules_out_are_decided(tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "k": "int", "s": "string"})
    table.append(
        ids(ROWS, k=lambda i: i % 10, s=lambda i: f"{i}"),
        page_size=200,
        page_index=True,
        dictionary=False,
        metrics="none",
    )
    kept = Kept(table, "memory", tmp_path / "cache")

    def where(c):
        return And((Compare("=", c("k"), 7), Compare("<", c("id"), 120)))

    first = kept([7, 17, 27, 37, 47, 57, 67, 77, 87, 97, 107, 117], where, known=0)
    assert first.count("rows.pruned") > 500
    kept([7, 17, 27, 37, 47, 57, 67, 77, 87, 97, 107, 117], where, known=1)
    wanted = [i for i in range(ROWS) if i % 10 == 7]
    kept(wanted, k_is(7), known=0)


def test_windows_are_kept_together(tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "s": "string"})
    table.append(
        ids(20_000, s=lambda i: f"{i % 100} " + "x" * 50),
        page_size=20_000,
        page_index=True,
        dictionary=False,
        metrics="none",
    )
    kept = Kept(table, "memory", tmp_path / "cache")

    def where(c):
        return StringMatch("prefix", c("s"), "7 ")

    small = {"task-memory": "1m", "filter.dictionary": "false"}
    first = kept(places(7, rows=20_000), where, known=0, **small)
    assert any("windows" in choice for choice in first.metrics.choices), first.metrics.choices
    again = kept(places(7, rows=20_000), where, known=1, **small)
    assert again.count("bytes.filter") == 0


@pytest.mark.parametrize("format_", ["orc", "avro"])
def test_other_formats(tmp_path, format_):
    table = Table(tmp_path / "t", {"id": "long", "k": "int", "s": "string"})
    table.append(ids(ROWS, k=lambda i: i % 100), metrics="none", format=format_)
    kept = Kept(table, "memory", tmp_path / "cache")
    row_groups = kept(places(7), k_is(7), known=0).count("conditions.kept")
    assert row_groups > 0
    kept(places(7), k_is(7), known=row_groups)


def test_deleted_rows_that_are_shown(tmp_path):
    """`_deleted` is asked of deletes each time, and a filter on it is not kept."""
    table = Table(tmp_path / "t", {"id": "long", "k": "int"})
    file = table.append(ids(ROWS, k=lambda i: i % 100), row_group_size=100, metrics="none")
    table.delete_positions({file: [7, 107]})
    table.write()
    opened = open_table(table.folder, **{"filter.cache": "memory", "filter.reorder": "false"})
    schema = scan_schema(opened.table)
    for number in range(2):
        predicate = parse_filter("k = 7 AND _deleted", schema)
        result = scan(opened, project_names(schema, ["id", "_deleted"]), predicate)
        assert sorted(row[0][1] for row in result.rows) == [7, 107]
        assert result.metrics.counters["conditions.known_in_part"] == 10 * number
    live = scan(opened, predicate=parse_filter("k = 7", schema))
    assert sorted(row[0][1] for row in live.rows) == [i for i in places(7) if i not in (7, 107)]
