"""Pages of key columns that prove what equality deletes do to their rows: never a row more or less than brute force."""

from __future__ import annotations

import math
import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from declared.types import Column
from equality_keys import canonical, random_row
from scan_values import context_of, task_of, write_keys
from twostage.data_files.row_group import PageBounds, RowGroup
from twostage.deletes.anti_join.choose import TaskDeletes
from twostage.deletes.anti_join.load_key_sets import load_equality
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.keys import intervals
from twostage.deletes.keys.intervals import DeleteKeyRange, KeyDomain, intervals_in, intervals_of
from twostage.deletes.pruning import page_proofs
from twostage.metrics import Metrics
from twostage.predicates.bounds import Bounds
from twostage.schema import Primitive
from twostage.selection import Selection

LOWEST, HIGHEST = -(2**63), 2**63 - 1
# Few values of each type, so that pages of one value and keys in them are frequent.
VALUES = {
    "int": [0, 1, 2, 3, -5, 2**31 - 1, -(2**31)],
    "long": [0, 1, 2, 3, 7, LOWEST, HIGHEST],
    "date": [0, 1, 2, -1, 19_000],
    "timestamp": [0, 1, 2, 1_600_000_000_000_000],
    "double": [0.0, -0.0, math.nan, 1.5, -1.5, math.inf],
    "float": [0.0, -0.0, math.nan, 1.5],
    "string": ["", "a", "ab", "b", "b" * 30, "b" * 29 + "c", "é"],
    "binary": [b"", b"a", b"a\xff", b"\xff\xff"],
    "boolean": [True, False],
    "decimal(9,2)": [0, 1, 5],
}


@pytest.fixture(autouse=True)
def _empty_cache():
    CACHE.clear()
    yield
    CACHE.clear()


# ---- where keys lie


@pytest.mark.parametrize("seed", range(60))
def test_intervals_hold_all_numbers_and_little_else(seed, monkeypatch):
    rng = random.Random(seed)
    most = rng.choice([1, 2, 5, 100])
    monkeypatch.setattr(intervals, "MAX_INTERVALS", most)
    near = rng.choice([0, LOWEST + 50, HIGHEST - 50])
    numbers = [
        max(LOWEST, min(HIGHEST, near + rng.randint(-60, 60)))
        if rng.random() < 0.9
        else rng.choice([LOWEST, HIGHEST])
        for _ in range(rng.randint(1, 40))
    ]
    lowers, uppers = intervals_of(np.array(numbers, np.int64))
    assert 1 <= len(lowers) == len(uppers) <= most
    pairs = list(zip(lowers.tolist(), uppers.tolist(), strict=True))
    assert all(low <= high for low, high in pairs) and pairs == sorted(pairs)
    assert all(any(low <= number <= high for low, high in pairs) for number in numbers)
    assert {low for low, _ in pairs} | {high for _, high in pairs} <= set(numbers)
    if most == 100:
        held = {n for low, high in pairs if high - low < 200 for n in range(low, high + 1)}
        assert held <= set(numbers)


@pytest.mark.parametrize("step", [1, 16])
@pytest.mark.parametrize("seed", range(4))
def test_the_widest_gaps_of_many_numbers_are_kept(seed, step, monkeypatch):
    """Whatever a sample says of them: with every 16th gap a wide one, too, or none of those in the sample."""
    monkeypatch.setattr(intervals, "MAX_INTERVALS", 8)
    rng = np.random.default_rng(seed)
    gaps = rng.integers(1, 50, 4000)
    wide = rng.permutation(np.arange(seed % 2, 4000, step))[:20]
    gaps[wide] = 1000 + rng.permutation(20)
    numbers = np.append(0, np.cumsum(gaps))
    lowers, uppers = intervals_of(rng.permutation(numbers))
    assert lowers[0] == 0 and uppers[-1] == numbers[-1]
    assert sorted((lowers[1:] - uppers[:-1]).tolist()) == list(range(1013, 1020))


@pytest.mark.parametrize("seed", range(60))
def test_intervals_of_a_dense_table(seed, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr(intervals, "MAX_INTERVALS", rng.choice([1, 3, 1000]))
    codes = np.array([rng.choice([0, 0, 0, 1, 9]) for _ in range(rng.randint(0, 50))], np.uint8)
    low = rng.choice([0, LOWEST, HIGHEST - max(0, len(codes) - 1), -7])
    lowers, uppers = intervals_in(low, codes)
    pairs = list(zip(lowers.tolist(), uppers.tolist(), strict=True))
    assert all(low <= first <= last <= low + len(codes) - 1 for first, last in pairs)
    places = [low + place for place in np.flatnonzero(codes).tolist()]
    assert all(any(first <= place <= last for first, last in pairs) for place in places)
    if intervals.MAX_INTERVALS == 1000:
        assert sum(last - first + 1 for first, last in pairs) == len(places)


def test_what_misses_a_domain():
    kind = Primitive("long")
    rows = lambda low, high, nulls=0: DeleteKeyRange(
        kind, Bounds(lower=low, upper=high, null_count=nulls, value_count=9), 9
    )
    domain = KeyDomain(False, False, [1, 10, 20], [5, 10, 30])
    for low, high, missed in ((6, 9, True), (5, 9, False), (6, 10, False), (11, 19, True), (31, 99, True),
                              (-9, 0, True), (-9, 99, False), (None, 0, True), (31, None, True), (None, None, False),
                              (30, 30, False), (9, 6, False)):  # fmt: skip
        assert domain.is_disjoint(rows(low, high)) is missed, (low, high)
    assert domain.is_disjoint(rows(6, 9, nulls=3))
    assert not KeyDomain(True, False, [1], [5]).is_disjoint(rows(6, 9, nulls=3))
    assert not KeyDomain(True, False, [1], [5]).is_disjoint(rows(6, 9, nulls=None))
    assert KeyDomain(False, False, [1], [5]).is_disjoint(rows(None, None, nulls=9))
    assert not KeyDomain(False, False, (), None).is_disjoint(rows(6, 9))
    assert KeyDomain(False, False, (), ()).is_disjoint(rows(None, None))


# ---- proofs of pages whose bounds say less than they could


def weakened(rng, kind, values):
    """Bounds that are true of the values, and often say less: cut texts, no counts, no bounds."""
    present = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
    nulls = sum(v is None for v in values)
    lower, upper = (min(present), max(present)) if present and kind != "boolean" else (None, None)
    exact_lower = exact_upper = kind not in ("string", "binary") or rng.random() < 0.5
    if kind == "string" and lower is not None and rng.random() < 0.3:
        lower, upper, exact_lower, exact_upper = lower[:1], upper[:1] + "\U0010ffff", False, False
    if isinstance(lower, int) and rng.random() < 0.2:
        lower, upper = max(LOWEST, lower - rng.randint(0, 2)), min(HIGHEST, upper + rng.randint(0, 2))
    if isinstance(lower, float) and lower == 0 and rng.random() < 0.5:
        lower = 0.0  # as some writers do where there is a -0.0
    return Bounds(
        lower=lower if rng.random() < 0.9 else None,
        upper=upper if rng.random() < 0.9 else None,
        null_count=nulls if rng.random() < 0.9 else None,
        value_count=len(values) if rng.random() < 0.95 else None,
        exact_lower=exact_lower,
        exact_upper=exact_upper,
    )


class FakeFile:
    """The pages of some columns, of which others have none."""

    def __init__(self, rng, columns, rows, options):
        self.pages, self.whole = {}, {}
        for column in columns:
            values = [row[column.id] for row in rows]
            self.whole[column.id] = weakened(rng, column.type, values)
            if rng.random() < 0.85:
                firsts = sorted({0, *(rng.randrange(len(rows)) for _ in range(rng.choice([0, 3, 12])))})
                bounds = [
                    weakened(rng, column.type, values[start:end])
                    for start, end in zip(firsts, [*firsts[1:], len(rows)], strict=True)
                ]
                self.pages[column.id] = PageBounds(np.array(firsts, np.int64), bounds)

    def page_bounds(self, _, field_id):
        return self.pages.get(field_id)

    def bounds(self, _, field_id):
        return self.whole[field_id]


@pytest.fixture(scope="module")
def proven():
    """What all seeds proved: it must not be nothing."""
    found = Counter()
    yield found
    if found["seeds"] >= 300:
        assert found["untouched by bounds"] > 50, found
        assert found["untouched by tables"] > found["untouched by bounds"], found
        assert found["looked up: none"] > 50, found
        assert found["looked up: every"] > 50, found


@pytest.mark.parametrize("seed", range(300))
def test_proofs_hold_for_every_row(tmp_path, seed, proven, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr(page_proofs, "VALUES_TRIED_FIRST", 1 + seed % 3)
    kinds = [kind for kind in VALUES if "decimal" not in kind]
    columns = [Column(i + 1, f"c{i}", kind) for i, kind in enumerate(rng.sample(kinds, rng.randint(1, 3)))]
    rows = [random_row(rng, columns, VALUES) for _ in range(60)]
    if rng.random() < 0.7:
        rows.sort(key=lambda row: repr(row[1]))
    deletes, keys = [], []
    for number in range(rng.randint(1, 3)):
        ids = sorted(rng.sample([c.id for c in columns], rng.randint(1, len(columns))))
        gone = [random_row(rng, columns, VALUES) for _ in range(rng.choice([0, 1, 3, 8]))]
        known = {}
        for column in columns:
            if column.id in ids and rng.random() < 0.8 and gone:
                bounds = weakened(rng, column.type, [row[column.id] for row in gone])
                known[column.id] = Bounds(
                    lower=bounds.lower, upper=bounds.upper, null_count=bounds.null_count and 1
                )
        written = [column for column in columns if column.id in ids]
        scope = rng.choice(["global", "(1, ('x',))"])
        deletes.append(
            write_keys(tmp_path / f"d{number}.parquet", written, gone, ids, scope=scope, keys=known)
        )
        keys.append((ids, {tuple(canonical(row[i]) for i in ids) for row in gone}))
    deleted = np.array(
        [any(tuple(canonical(row[i]) for i in ids) in gone for ids, gone in keys) for row in rows]
    )
    constants = {}
    if rng.random() < 0.2:
        constants = {columns[0].id: rows[0][columns[0].id]}
        rows = [row | constants for row in rows]
        deleted = np.array(
            [any(tuple(canonical(row[i]) for i in ids) in gone for ids, gone in keys) for row in rows]
        )
    settings = {
        "dense_keys": rng.random() < 0.6,
        "delete_cache": "worker",
        "simplify_keys": rng.random() < 0.8,
    }
    context, metrics = context_of(tmp_path, columns, settings=settings), Metrics()
    task = task_of(*deletes, record_count=len(rows), constants=constants)
    file = FakeFile(rng, [c for c in columns if c.id not in constants], rows, None)
    group = RowGroup(index=0, first_row=0, num_rows=len(rows), num_bytes=1)
    asker = TaskDeletes(context, task, metrics)
    pages = asker.key_pages(file, group, asker.files)
    if pages is None:
        return
    run_of = np.repeat(np.arange(len(pages.lengths)), pages.lengths)
    assert len(run_of) == len(rows)

    def check(runs, is_deleted, what):
        proven[what] += int(runs.sum())
        wrong = [row for row in range(len(rows)) if runs[run_of[row]] and deleted[row] != is_deleted]
        assert not wrong, f"seed {seed}: {what}, row {rows[wrong[0]]}"

    known = asker.runs_outside_bounds(pages, asker.files)
    check(np.logical_and.reduce(list(known.values())), False, "untouched by bounds")
    equality = load_equality(context, task, metrics)
    check(equality.runs_without_keys(pages, known, 10**6), False, "untouched by tables")
    none, every = pages.decide_by_lookup(
        equality.field_ids, equality.deleted, pages.lengths, rng.choice([1, 4])
    )
    check(none, False, "looked up: none")
    check(every, True, "looked up: every")
    alive = Selection.of(np.array([rng.random() < 0.5 for _ in rows]))
    counts = pages.counts(alive)
    assert counts.tolist() == np.bincount(run_of[alive.indices()], minlength=len(counts)).tolist()
    assert pages.rows(counts > 0).indices().tolist() == np.flatnonzero((counts > 0)[run_of]).tolist()
    proven["seeds"] += 1


def test_nan_in_both_is_no_miss():
    kind = Primitive("double")
    ranges = lambda value, nans: DeleteKeyRange(
        kind, Bounds(lower=value, upper=value, null_count=0, nan_count=nans, value_count=9), 9
    )
    for rows_nan, keys_nan, missed in ((None, None, False), (None, 0, True), (0, 2, True), (3, 2, False)):
        assert KeyDomain.of_files([ranges(1.0, keys_nan)]).is_disjoint(ranges(7.0, rows_nan)) is missed
    assert not KeyDomain.of_files([ranges(-0.0, 0)]).is_disjoint(ranges(0.0, 0))


def test_two_columns_with_several_values_each_are_not_looked_up(tmp_path):
    """(1, 1) and (2, 2) are deleted: that says nothing of (1, 2)."""
    columns = [Column(1, "a", "long"), Column(2, "b", "long")]
    gone = [{1: 1, 2: 1}, {1: 2, 2: 2}, *({1: 3, 2: n} for n in (5, 6))]
    delete = write_keys(tmp_path / "d.parquet", columns, gone, [1, 2])
    context, metrics = context_of(tmp_path, columns), Metrics()
    task = task_of(delete, record_count=32)
    bounds = lambda *pairs: PageBounds(
        np.arange(0, 16 * len(pairs), 16),
        [Bounds(lower=low, upper=high, null_count=0, value_count=16) for low, high in pairs],
    )
    file = SimpleNamespace(pages={1: bounds((1, 2), (3, 3), (4, 4)), 2: bounds((1, 2), (5, 6), (7, 7))})
    file.page_bounds = lambda _, field_id: file.pages[field_id]
    asker = TaskDeletes(context, task, metrics)
    pages = asker.key_pages(file, RowGroup(index=0, first_row=0, num_rows=48, num_bytes=1), asker.files)
    equality = load_equality(context, task, metrics)
    none, every = pages.decide_by_lookup(equality.field_ids, equality.deleted, pages.lengths, 4)
    assert (none.tolist(), every.tolist()) == ([False, False, True], [False, True, False])
