"""Keys that shorter ones make redundant: left out or not, the same rows are deleted."""

from __future__ import annotations

import random

import pytest

from declared.types import Column
from equality_keys import VALUES, canonical, data_columns, random_row
from scan_values import context_of, task_of, write_keys
from twostage.deletes.anti_join import host_key_sets
from twostage.deletes.anti_join.load_key_sets import load_equality
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.keys import subsumed
from twostage.metrics import Metrics

PARTITIONS = ("(1, ('x',))", "(1, ('y',))")
A, B = Column(1, "a", "long"), Column(2, "b", "string")


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch):
    monkeypatch.setattr(host_key_sets, "MIN_KEYS_TO_SHARE", 1)
    CACHE.clear()
    yield
    CACHE.clear()


def keys_of(rows, ids):
    return {tuple(canonical(row[i]) for i in ids) for row in rows}


class Written:
    """Delete files of random shapes, scopes and sequence numbers, and what they hold."""

    def __init__(self, rng, folder, columns, rows, *, count, start=0):
        self.files = []
        for number in range(start, start + count):
            size = rng.choice([1, 1, 2, len(columns)])
            ids = sorted(rng.sample([c.id for c in columns], min(size, len(columns))))
            gone = [
                rng.choice(rows) if rng.random() < 0.6 else random_row(rng, columns, VALUES)
                for _ in range(15)
            ]
            written = [column for column in columns if column.id in ids]
            path = folder / f"d{number}.{rng.choice(['parquet', 'avro'])}"
            sequence, scope = rng.randint(2, 6), rng.choice(["global", *PARTITIONS])
            delete = write_keys(path, written, gone, ids, sequence_number=sequence, scope=scope)
            self.files.append((delete, ids, keys_of(gone, ids)))

    def of(self, scope, sequence):
        return [
            one
            for one in self.files
            if one[0].scope in ("global", scope) and one[0].sequence_number > sequence
        ]


@pytest.mark.parametrize("host", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_any_order_of_data_files_and_snapshots(tmp_path, seed, host, monkeypatch):
    """Two snapshots, of which one has more files; partitions; data files of several sequence numbers; one cache."""
    rng = random.Random(seed)
    # A set of which a task needs less is not built for the host.
    monkeypatch.setattr(host_key_sets, "MIN_NEEDED_FRACTION", rng.choice([0.25, 0.6, 0.9]))
    columns = [
        Column(i + 1, f"c{i}", kind) for i, kind in enumerate(rng.sample(list(VALUES), rng.randint(2, 3)))
    ]
    rows = [random_row(rng, columns, VALUES) for _ in range(50)]
    written = Written(rng, tmp_path, columns, rows, count=rng.randint(2, 6))
    more = Written(rng, tmp_path, columns, rows, count=2, start=10)
    both = Written.__new__(Written)
    both.files = written.files + more.files
    arrays = data_columns(columns, rows)
    settings = {"delete_cache": "host" if host else "worker", "delete_cache_dir": str(tmp_path / "cache")}
    asked = [
        (snapshot, scope, sequence, simplify)
        for snapshot in (1, 2)
        for scope in PARTITIONS
        for sequence in (1, 3, 5)
        for simplify in (True, True, False)
    ]
    rng.shuffle(asked)
    for snapshot, scope, sequence, simplify in asked:
        if rng.random() < 0.3:
            CACHE.clear()
        held = written if snapshot == 1 else both
        planned = tuple(delete for delete, _, _ in held.files)
        context = context_of(
            tmp_path,
            columns,
            snapshot_id=snapshot,
            equality_deletes=planned,
            settings={**settings, "simplify_keys": simplify},
        )
        applied = held.of(scope, sequence)
        task = task_of(*(delete for delete, _, _ in applied), sequence_number=sequence)
        metrics = Metrics()
        found = load_equality(context, task, metrics)
        deleted = found.deleted({i: arrays[i] for i in found.field_ids}, len(rows)).tolist()
        wanted = [
            any(tuple(canonical(row[i]) for i in ids) in gone for _, ids, gone in applied) for row in rows
        ]
        assert deleted == wanted, f"seed {seed}: {snapshot} {scope} {sequence} {simplify}"
        if not simplify:
            assert not metrics.counters["delete_keys.redundant"]


def load(folder, *deletes, sequence=1, **settings):
    metrics = Metrics()
    context = context_of(folder, [A, B], settings={"delete_cache": "worker", **settings})
    applied = [delete for delete in deletes if delete.sequence_number > sequence]
    found = load_equality(context, task_of(*applied, sequence_number=sequence), metrics)
    return found, metrics.counters["delete_keys.redundant"]


@pytest.mark.parametrize(
    ("shorter", "longer", "left_out"),
    [
        ((5, "global"), (5, "global"), 3),
        ((6, "global"), (5, "global"), 3),
        ((4, "global"), (5, "global"), 0),  # data files of number 4 are reached by the longer alone
        ((5, "global"), (5, PARTITIONS[0]), 3),
        ((5, PARTITIONS[0]), (5, PARTITIONS[0]), 3),
        ((5, PARTITIONS[0]), (5, "global"), 0),
        ((5, None), (5, "global"), 0),
        ((5, "global"), (5, None), 0),
    ],
)
def test_sequence_numbers_and_scopes_decide(tmp_path, shorter, longer, left_out):
    rows = [{1: 1, 2: "x"}, {1: 1, 2: None}, {1: None, 2: "y"}, {1: 2, 2: "x"}]
    files = [
        write_keys(tmp_path / "ab.parquet", [A, B], rows, [1, 2], sequence_number=longer[0], scope=longer[1]),
        write_keys(
            tmp_path / "a.parquet",
            [A],
            [{1: 1}, {1: None}],
            [1],
            sequence_number=shorter[0],
            scope=shorter[1],
        ),
    ]
    found, counted = load(tmp_path, *files)
    assert counted == left_out
    data = data_columns([A, B], [*rows, {1: 2, 2: "y"}, {1: 1, 2: "z"}])
    assert found.deleted(data, 6).tolist() == [True, True, True, True, False, True]
    CACHE.clear()
    found, counted = load(tmp_path, *files, sequence=4)
    only_longer = shorter[0] == 4
    assert found.deleted({i: data[i] for i in found.field_ids}, 6).tolist() == [
        *[True] * 4,
        False,
        not only_longer,
    ]


def test_nothing_is_read_for_keys_that_are_all_redundant(tmp_path):
    rows = [{1: n, 2: f"b{n}"} for n in range(100)]
    longer = write_keys(tmp_path / "ab.parquet", [A, B], rows, [1, 2], scope="global")
    shorter = write_keys(tmp_path / "a.parquet", [A], rows, [1], scope="global", sequence_number=7)
    found, counted = load(tmp_path, longer, shorter)
    assert (found.field_ids, counted) == ((1,), 100)
    CACHE.clear()
    found, counted = load(tmp_path, longer, shorter, simplify_keys=False)
    assert (sorted(found.field_ids), counted) == ([1, 2], 0)


def test_asking_ends_where_few_are_redundant(tmp_path, monkeypatch):
    monkeypatch.setattr(subsumed, "MIN_KEYS_TO_JUDGE", 50)
    shorter = write_keys(
        tmp_path / "a.parquet", [A], [{1: 0}, {1: 150}], [1], scope="global", sequence_number=9
    )
    files = [
        write_keys(
            tmp_path / f"ab{part}.parquet", [A, B],
            [{1: n, 2: "x"} for n in range(part, part + 50)], [1, 2], scope="global",
        )
        for part in (0, 50, 100, 150)
    ]  # fmt: skip
    _, counted = load(tmp_path, *files, shorter)
    assert counted == 1  # of the first file; that of the last one is not asked about any more


def test_duplicates_merge_across_files(tmp_path):
    rows = [{1: n, 2: "x"} for n in range(50)]
    files = [
        write_keys(tmp_path / f"{n}.parquet", [A, B], rows, [1, 2], scope="global", sequence_number=n + 2)
        for n in range(3)
    ]
    found, _ = load(tmp_path, *files)
    assert [key_set.count for applied in found._applicable for key_set in applied.key_sets] == [50]


def test_a_table_made_anew_in_the_same_place(tmp_path):
    """Shorter keys that are no more there must not have left longer ones out."""
    rows = [{1: n, 2: f"b{n}"} for n in range(20)]
    longer = write_keys(tmp_path / "ab.parquet", [A, B], rows, [1, 2], scope="global")
    shorter = write_keys(tmp_path / "a.parquet", [A], rows, [1], scope="global", sequence_number=7)
    load(tmp_path, longer, shorter)
    (tmp_path / "a.parquet").unlink()
    shorter = write_keys(tmp_path / "a.parquet", [A], rows[:3], [1], scope="global", sequence_number=7)
    found, counted = load(tmp_path, longer, shorter)
    assert counted == 3
    assert found.deleted(data_columns([A, B], rows), 20).all()


class Host:
    """Snapshots that share the cache of a host, each asked about by a new worker process."""

    def __init__(self, folder):
        self.folder = folder
        self.rows = [{1: n, 2: "x"} for n in range(1, 4)]

    def keys(self, name, columns, numbers, sequence):
        rows = [{1: n, 2: "x"} for n in numbers]
        ids = [column.id for column in columns]
        path = self.folder / f"{name}.parquet"
        return write_keys(path, columns, rows, ids, sequence_number=sequence, scope="global")

    def ask(self, snapshot, planned, *tasks):
        """Return which rows each task deletes; the tasks are of one process."""
        CACHE.clear()
        settings = {"delete_cache_dir": str(self.folder / "cache")}
        context = context_of(
            self.folder, [A, B], snapshot_id=snapshot, equality_deletes=tuple(planned), settings=settings
        )
        data = data_columns([A, B], self.rows)
        answers = []
        for applied in tasks:
            found = load_equality(context, task_of(*applied, sequence_number=4), Metrics())
            answers.append(found.deleted({i: data[i] for i in found.field_ids}, 3).tolist())
        return answers


def test_a_hosts_table_is_not_cut_by_keys_that_one_worker_holds(tmp_path):
    host = Host(tmp_path)
    longer = host.keys("ab", [A, B], (1, 2), 5)
    old = host.keys("old", [A], range(100, 200), 3)  # so many that a task without them builds for itself
    first, other = host.keys("a1", [A], [1], 6), host.keys("a3", [A], [50], 6)
    assert host.ask(1, [longer, old, first], [longer, first]) == [[True, True, False]]
    assert host.ask(2, [longer, old, other], [longer, other]) == [[True, True, False]]


def test_a_hosts_table_that_a_worker_has_added_to_cuts_no_other(tmp_path):
    host = Host(tmp_path)
    longer = host.keys("ab", [A, B], (1, 2), 5)
    old = host.keys("old", [A], range(100, 200), 3)
    first, second = host.keys("a1", [A], [1], 6), host.keys("a2", [A], [2], 6)
    assert host.ask(1, [first], [first]) == [[True, False, False]]
    planned = [longer, old, first, second]
    assert host.ask(2, planned, [first], [longer, first, second]) == [
        [True, False, False],
        [True, True, False],
    ]
    assert host.ask(3, [longer, first], [longer, first]) == [[True, True, False]]
