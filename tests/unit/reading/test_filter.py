"""ANDs and ORs that go on with the undecided rows alone, in any order, against the interpreter."""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from check import check, ids
from random_predicates import POOLS, answer, build, random_predicate
from tables import Table
from twostage.metrics import Metrics
from twostage.predicates import evaluate as evaluating
from twostage.predicates.costs import Costs
from twostage.predicates.evaluate import evaluate
from twostage.predicates.predicate import And, Column, Compare, In, Not, Or, StringMatch, leaves
from twostage.predicates.row_columns import RowColumns
from twostage.reading.aligned_columns import MIN_ROWS_PER_ROW_READ_ALONE, LiveColumns
from twostage.reading.filter import DECIDED, MIN_ROWS_TO_GIVE_UP, RowFilter, filter_rows
from twostage.reading.scan_predicate import Conjunct
from twostage.schema import Primitive
from twostage.selection import Selection

INT = [Column(i, (f"c{i}",), Primitive("int")) for i in range(4)]


def tristate(truth) -> list[bool | None]:
    null = truth.null if truth.null is not None else [False] * len(truth.true)
    return [None if n else bool(t) for t, n in zip(truth.true, null, strict=True)]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("always_cut", [False, True])
def test_random_predicates(seed, always_cut, monkeypatch):
    """With the thresholds as they are, and with a cut wherever one row is decided."""
    if always_cut:
        monkeypatch.setattr(evaluating, "MIN_ROWS_PER_UNDECIDED", 1)
        monkeypatch.setattr(evaluating, "MIN_ROWS_PER_UNDECIDED_NUMBER", 1)
    rng = random.Random(seed)
    cuts = Counter()
    cut = RowColumns.take
    monkeypatch.setattr(RowColumns, "take", lambda self, places: (cuts.update([1]), cut(self, places))[1])
    for _ in range(60):
        kinds = [rng.choice(list(POOLS)) for _ in range(rng.randint(1, 3))]
        num_rows = rng.choice([0, 1, 30, 200])
        null_share = rng.choice([0, 0.2, 1])
        lists = [
            [None if rng.random() < null_share else rng.choice(POOLS[kind]) for _ in range(num_rows)]
            for kind in kinds
        ]
        columns = {i: build(rng, some, kind) for i, (some, kind) in enumerate(zip(lists, kinds, strict=True))}
        rows = list(zip(*lists, strict=True))
        predicate = random_predicate(rng, kinds, depth=4)
        expected = [answer(predicate, row) for row in rows]
        costs = Costs()
        for measured in (None, costs, costs, costs):
            found = tristate(evaluate(predicate, columns, num_rows, costs=measured))
            assert found == expected, f"seed {seed}: {predicate}\n{columns}"
            for part in [predicate, *leaves(predicate)]:  # whatever the order that this leads to
                costs.of(part).add(1, rng.randint(0, 9), rng.randint(0, 9))
    assert cuts[1] > (50 if always_cut else 10), cuts


class Reads:
    """Columns of INT that note which rows of them were read."""

    def __init__(self, columns: dict[int, pa.Array]) -> None:
        self.columns = columns
        self.read: dict[int, list[int]] = {}

    def __call__(self, field_id: int, rows: Selection) -> pa.Array:
        self.read.setdefault(field_id, []).append(rows.count)
        return self.columns[field_id].take(pa.array(rows.indices()))


def filtered(predicate, reads: Reads, num_rows: int, *, reorder=True, reads_parts=True) -> list[int]:
    """Return the rows for which a predicate is true."""
    parts = predicate.children if isinstance(predicate, And) else (predicate,)
    uses = Counter(leaf.column.field_id for leaf in leaves(predicate))
    row_filter = RowFilter(
        [Conjunct(part, str(part), tuple(leaf.column.field_id for leaf in leaves(part))) for part in parts],
        reorder=reorder,
        shared=frozenset(i for i, count in uses.items() if count > 1),
    )
    columns = LiveColumns(Selection.all(num_rows), reads, reads_parts=reads_parts)
    filter_rows(row_filter, columns, Metrics())
    return columns.selection().indices().tolist()


@pytest.mark.parametrize("reads_parts", [True, False])
def test_columns_are_read_where_rows_are_undecided(reads_parts):
    """(c0 = 7 AND c1 = 1) OR (c2 = 5 AND c3 = 1): c1 for the rows where c0 is 7; c3 for none, as no c2 is 5."""
    num_rows = 5 * MIN_ROWS_PER_ROW_READ_ALONE
    numbers = pa.array([n % 11 for n in range(num_rows)], pa.int32())
    rare = pa.array([7 if n in (10, 4_000) else 0 for n in range(num_rows)], pa.int32())
    ones = pa.array([n % 2 for n in range(num_rows)], pa.int32())
    without_five = pa.array([6 if n % 3 else None for n in range(num_rows)], pa.int32())
    predicate = Or(
        (
            And((Compare("=", INT[0], 7), Compare("=", INT[1], 0))),
            And((Compare("=", INT[2], 5), In(INT[3], tuple(range(20, 40))))),
        )
    )
    reads = Reads({0: rare, 1: ones, 2: without_five, 3: numbers})
    assert filtered(predicate, reads, num_rows, reads_parts=reads_parts) == [10, 4_000]
    assert reads.read[0] == reads.read[2] == [num_rows]
    assert reads.read[1] == [2 if reads_parts else num_rows]
    # NULL AND c3 … may still be FALSE or NULL: of those rows c3 is asked, as a third is too many to read apart.
    assert reads.read[3] == [num_rows]


def test_an_or_reads_nothing_more_once_every_row_is_true():
    num_rows = 100
    numbers = pa.array(range(num_rows), pa.int32())
    reads = Reads({0: numbers, 1: numbers})
    predicate = Or((Compare(">=", INT[0], 0), Compare("=", INT[1], 3)))
    assert filtered(predicate, reads, num_rows, reorder=False) == list(range(num_rows))
    assert list(reads.read) == [0]


def test_a_column_of_several_leaves_is_read_once():
    num_rows = 10 * MIN_ROWS_PER_ROW_READ_ALONE
    numbers = pa.array(range(num_rows), pa.int32())
    reads = Reads({0: numbers, 1: numbers})
    predicate = Or(tuple(And((Compare("=", INT[0], n), Compare("=", INT[1], n))) for n in (3, 5, 7_000)))
    assert filtered(predicate, reads, num_rows) == [3, 5, 7_000]
    assert reads.read == {0: [num_rows], 1: [num_rows]}


def test_the_order_follows_what_was_measured():
    cheap, dear = Compare("=", INT[0], 1), Compare("=", INT[1], 1)
    costs = Costs()
    assert costs.order((dear, cheap), "OR") == [dear, cheap]
    for _ in range(2):
        costs.of(dear).add(1_000, 10, 5_000)
        costs.of(cheap).add(1_000, 10, 1_000)
    assert costs.order((dear, cheap), "OR") == [cheap, dear]
    assert costs.changes == ["OR reordered by cost: c0 = 1 goes first"]
    for _ in range(6):  # what was measured first fades
        costs.of(cheap).add(1_000, 0, 1_000)
    assert costs.order((dear, cheap), "OR") == [dear, cheap]


def test_the_report_says_that_filters_changed_places():
    num_rows = 2_000
    common, rare = (
        Not(Compare("=", INT[0], -1)),
        StringMatch("contains", Column(9, ("t",), Primitive("string")), "x"),
    )
    row_filter = RowFilter([Conjunct(part, str(part), ()) for part in (rare, common)])
    arrays = {0: pa.array([-1] * num_rows, pa.int32()), 9: pa.array(["x" * 500] * num_rows)}
    metrics = Metrics()
    for _ in range(4):
        columns = LiveColumns(
            Selection.all(num_rows), lambda i, rows: arrays[i].take(pa.array(rows.indices()))
        )
        filter_rows(row_filter, columns, metrics)
        assert columns.live.count == 0
    assert dict(metrics.choices) == {"Filters reordered by cost: NOT (c0 = -1) goes first": 1}
    assert metrics.predicates[str(rare)].rows_in < metrics.predicates[str(common)].rows_in


@pytest.mark.parametrize("reorder", [True, False])
def test_keys_of_a_join_that_drop_few_rows_are_given_up(reorder):
    """The join drops those rows in any case; what the query itself demands is never given up."""
    few, half = Compare("<", INT[0], 900), Compare("<", INT[1], 500)
    conjuncts = (
        Conjunct(few, "few", (0,), counter="rows.unjoined", is_optional=True),
        Conjunct(half, "half", (1,), counter="rows.unjoined", is_optional=True),
        Conjunct(Compare("<", INT[2], 999), "query", (2,)),
    )
    row_filter, metrics = RowFilter(conjuncts, reorder=reorder), Metrics()
    count = MIN_ROWS_TO_GIVE_UP // 2
    values = pa.array([row % 1000 for row in range(count)], pa.int32())
    reads = Reads({0: values, 1: values, 2: values})
    for kept in (count // 2, count // 2, count // 2):
        columns = LiveColumns(Selection.all(count), reads)
        filter_rows(row_filter, columns, metrics)
        assert columns.live.count == kept
    assert not any("given up: c1" in choice for choice in metrics.choices), metrics.choices
    row_filter, metrics = RowFilter(conjuncts[:1] + conjuncts[2:], reorder=reorder), Metrics()
    kept = []
    for _ in range(4):
        columns = LiveColumns(Selection.all(count), reads)
        filter_rows(row_filter, columns, metrics)
        kept.append(columns.live.count)
    assert kept == [count * 9 // 10] * 2 + [count * 999 // 1000] * 2
    assert metrics.counters["rows.unjoined"] == 2 * (count // 10)
    (choice,) = metrics.choices
    assert choice.startswith("join keys given up: c0 < 900 dropped 10% of the rows")
    row_filter, metrics = RowFilter(conjuncts[:1], reorder=reorder, min_dropped_share=0), Metrics()
    for _ in range(4):
        filter_rows(row_filter, LiveColumns(Selection.all(count), reads), metrics)
    assert metrics.counters["rows.unjoined"] == 4 * (count // 10)
    assert not metrics.choices


def test_bytes_of_a_column_count_for_the_predicate_that_read_it_first():
    metrics = Metrics()
    first, second = Compare("<", INT[0], 5), Compare("<", INT[1], 5)
    either, last = Or((first, second)), Not(Compare("=", INT[1], 9))
    row_filter = RowFilter([Conjunct(either, "either", (0, 1)), Conjunct(last, "last", (1,))])
    metrics.add_read("filter", 1000)  # of another row group, before

    def read(field_id: int, rows: Selection) -> pa.Array:
        other = threading.Thread(target=metrics.add_read, args=("filter", 500))  # another file's turn
        other.start()
        other.join()
        metrics.add_read("fetch", 200)
        metrics.add_read("filter", 30 if field_id == 0 else 4)
        return pa.array([4] * (rows.count // 2) + [9] * (rows.count - rows.count // 2), pa.int32())

    filter_rows(row_filter, LiveColumns(Selection.all(100), read), metrics)
    assert {text: cost.column_bytes for text, cost in metrics.predicates.items()} == {"either": 34, "last": 0}
    assert {text: cost.column_bytes for text, cost in metrics.parts.items()} == {
        str(first): 30,
        str(second): 4,
    }
    assert metrics.counters["bytes.filter"] == 1000 + 2 * 500 + 34
    assert metrics.counters["bytes.read"] == metrics.counters["bytes.filter"] + 2 * 200


def test_what_other_files_do_meanwhile_is_not_a_predicates_cost():
    """A task's files take turns while they wait for bytes: its clock leaves the others' turns out."""
    now = [0]
    metrics = Metrics(clock=lambda: now[0])
    first, second = Compare("<", INT[0], 5), Compare("<", INT[1], 5)
    either = Or((first, second))
    row_filter = RowFilter([Conjunct(either, "either", (0, 1))])

    def read(field_id: int, rows: Selection) -> pa.Array:
        now[0] += 7 if field_id == 0 else 11
        return pa.array([9] * rows.count, pa.int32())

    filter_rows(row_filter, LiveColumns(Selection.all(100), read), metrics)
    assert metrics.predicates["either"].nanoseconds == 18
    assert sorted(cost.nanoseconds for cost in metrics.parts.values()) == [7, 11]


@pytest.mark.parametrize("is_decided", [True, False])
def test_parts_that_statistics_decide_are_not_read(tmp_path: Path, is_decided: bool) -> None:
    """A range of clustered ids covers some row groups as a whole, others not at all, and is evaluated in one."""
    table = Table(tmp_path / "t", {"id": "long", "k": "int", "s": "string"})
    rows = ids(1000, k=lambda i: i * 7 % 100, s=lambda i: f"{i * 37 % 100:02}")
    plain = {"dictionary": False, "compression": "none"}
    table.append(rows, row_group_size=100, metrics="none", **plain)
    options = {} if is_decided else {"prune.row-groups": "false"}

    def evaluated(result: Any) -> dict[str, int]:
        return {text: cost.rows_in for text, cost in result.metrics.predicates.items()}

    both = check(
        table,
        [i for i in range(250, 1000) if i * 7 % 100 == 7],
        lambda c: And((Compare(">=", c("id"), 250), Compare("=", c("k"), 7))),
        **options,
        **{"filter.reorder": "false"},
    )
    assert evaluated(both) == {"id >= 250": 800 if is_decided else 1000, "k = 7": 750}
    assert (both.count("bytes.filter") < 5_000) == is_decided
    assert both.metrics.choices[DECIDED] == (7 if is_decided else 0)
    one = check(
        table,
        [i for i in range(1000) if i < 150 or i * 37 % 100 == 7],
        lambda c: Or((Compare("<", c("id"), 150), Compare("=", c("s"), "07"))),
        **options,
    )
    whole = "id < 150 OR s = '07'"
    assert evaluated(one)[whole] == (900 if is_decided else 1000)
    parts = {text: (cost.rows_in, cost.rows_out) for text, cost in one.metrics.parts.items()}
    if is_decided:  # of the 900 rows of eight such row groups and of one where the text is looked at first
        assert parts == {"s = '07'": (900, 9), "id < 150": (899, 49)}
    unordered = check(
        table,
        [i for i in range(1000) if i < 150 or i * 37 % 100 == 7],
        lambda c: Or((Compare("<", c("id"), 150), Compare("=", c("s"), "07"))),
        **options,
        **{"filter.reorder": "false"},
    )
    assert not unordered.metrics.parts  # all or none: their shares are what the advisor is told
    assert one.metrics.choices[DECIDED] == (8 if is_decided else 0)
    assert (one.count("bytes.filter") < 9_000) == is_decided
    negated = check(
        table,
        [i for i in range(1000) if not (i < 150 or i * 37 % 100 == 7)],
        lambda c: Not(Or((Compare("<", c("id"), 150), Compare("=", c("s"), "07")))),
        **options,
    )
    assert negated.count("row_groups.pruned.statistics") == (1 if is_decided else 0)
