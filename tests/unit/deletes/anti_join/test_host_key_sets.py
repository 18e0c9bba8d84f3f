"""Key sets of the host's cache: which stored set serves which scan, and from which one a new set begins."""

from __future__ import annotations

import os
import random
import stat
from dataclasses import replace

import pyarrow as pa
import pytest

from declared.types import Column
from equality_keys import VALUES, data_columns, expected, random_row
from kept_sets import K, S, ask, files_of, right, stored
from scan_values import context_of, delete_of, task_of, write_keys
from twostage.deletes.anti_join import host_key_sets
from twostage.deletes.anti_join.host_key_sets import HostKeySetRequest, find_host_key_set, planned_deletes
from twostage.deletes.anti_join.load_key_sets import load_equality
from twostage.deletes.cache import build_lock, fingerprint, host
from twostage.deletes.cache.directory import private_directory
from twostage.deletes.cache.host import HostCache
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.encoding import encode_column, group_by_nulls
from twostage.deletes.keys.key_set import KeySet
from twostage.errors import CorruptFileError
from twostage.metrics import Metrics
from twostage.schema import Primitive

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))

pytestmark = pytest.mark.usefixtures("small_sets_are_kept")


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("columns", [(K,), (S,), (K, S)], ids=["long", "string", "both"])
def test_a_second_process_opens_no_delete_file(tmp_path, columns, kernels):
    deletes = files_of(tmp_path, 4, columns=columns)
    settings = {"kernels": kernels}
    first, counted = ask(tmp_path, deletes, columns=columns, settings=settings)
    assert counted.counters["delete_cache.built"] == counted.counters["delete_cache.written"] == 1
    for sequence in (0, 2, 3, 4, 6):
        again, counted = ask(tmp_path, deletes, columns=columns, sequence=sequence, settings=settings)
        assert counted.counters["delete_cache.hits"] == 1
        assert counted.counters["delete_files.opened"] == 0
        assert again == right(tmp_path, deletes, columns=columns, sequence=sequence)
    assert first == right(tmp_path, deletes, columns=columns)
    assert any(first)
    assert stat.S_IMODE(stored(tmp_path)[0].stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


@pytest.mark.parametrize("size", [20, 700])  # copied as it is, and into a larger table
@pytest.mark.parametrize("columns", [(K,), (S,), (K, S)], ids=["long", "string", "both"])
def test_a_new_snapshot_merges_only_the_new_files(tmp_path, columns, size):
    deletes = files_of(tmp_path, 6, columns=columns, size=size)
    ask(tmp_path, deletes[:2], columns=columns, snapshot_id=1)
    ask(tmp_path, deletes[:4], columns=columns, snapshot_id=2)
    found, counted = ask(tmp_path, deletes, columns=columns, snapshot_id=3)
    assert counted.counters["delete_cache.merged"] == 1
    assert counted.counters["delete_files.opened"] == 2  # the largest subset was begun with
    assert found == right(tmp_path, deletes, columns=columns)
    assert ask(tmp_path, deletes, columns=columns, snapshot_id=3)[1].counters["delete_files.opened"] == 0


@pytest.fixture(scope="module")
def merges():
    """How often a set was begun with an older one, by seed."""
    found = []
    yield found
    assert len(found) < 40 or sum(found) > 20


@pytest.mark.parametrize("seed", range(SEED, SEED + 40))
def test_random_keys_of_growing_snapshots(tmp_path, seed, merges):
    """Composite keys of every type, merged snapshot by snapshot, in any order: always what brute force says."""
    rng = random.Random(seed)
    kinds = rng.sample(list(VALUES), rng.randint(1, 3))
    columns = [Column(i + 1, f"c{i}", kind) for i, kind in enumerate(kinds)]
    ids = [column.id for column in columns]
    rows = [random_row(rng, columns, VALUES) for _ in range(100)]
    arrays = data_columns(columns, rows)
    settings = {"delete_cache_dir": str(tmp_path / "cache"), "kernels": rng.random() < 0.5}
    files, written, merged = [], [], 0
    for snapshot in range(1, 6):
        for _ in range(rng.randint(1, 3)):
            gone = [rng.choice(rows) if rng.random() < 0.3 else random_row(rng, columns, VALUES)
                    for _ in range(rng.randint(1, 9))]  # fmt: skip
            sequence = snapshot + 1
            path = tmp_path / f"d{len(files)}.parquet"
            files.append(write_keys(path, columns, gone, ids, sequence_number=sequence, scope="global"))
            written.append((ids, sequence, gone))
        if rng.random() < 0.3:
            continue  # nobody reads this snapshot
        chosen = snapshot if rng.random() < 0.7 else rng.randint(1, snapshot)
        held = [n for n, (_, sequence, _) in enumerate(written) if sequence <= chosen + 1]
        planned = [files[n] for n in held]
        for after in (0, rng.randint(0, 6)):
            CACHE.clear()
            metrics = Metrics()
            context = context_of(tmp_path, columns, settings=settings, snapshot_id=chosen,
                                 equality_deletes=tuple(planned))  # fmt: skip
            applied = [delete for delete in planned if delete.sequence_number > after]
            found = load_equality(context, task_of(*applied, sequence_number=after), metrics)
            keys = {i: arrays[i] for i in found.field_ids}
            right = expected(rows, [written[n] for n in held], after)
            assert found.deleted(keys, len(rows)).tolist() == right, f"seed {seed}"
            merged += metrics.counters["delete_cache.merged"]
    merges.append(merged)


def test_a_set_of_another_snapshot_never_gives_more(tmp_path):
    """What a later snapshot deletes, or an earlier one that was rolled back, is not deleted in this one."""
    deletes = files_of(tmp_path, 4)
    everything, _ = ask(tmp_path, deletes, snapshot_id=2)
    found, counted = ask(tmp_path, deletes[:3], snapshot_id=1)
    assert found == right(tmp_path, deletes[:3]) != everything
    assert counted.counters["delete_files.opened"] == 3
    # In the same snapshot, pruning leaves out what cannot matter: the larger set serves.
    found, counted = ask(tmp_path, deletes[:2], snapshot_id=2, sequence=1)
    assert counted.counters["delete_files.opened"] == 0


def test_a_task_of_few_builds_for_itself_and_one_of_many_for_all(tmp_path):
    deletes = files_of(tmp_path, 10)
    _, counted = ask(tmp_path, deletes[:1], planned=deletes)
    assert (counted.counters["delete_files.opened"], counted.counters["delete_cache.built"]) == (1, 0)
    _, counted = ask(tmp_path, deletes[1:3], planned=deletes, clear=False)  # three of ten by now
    assert (counted.counters["delete_files.opened"], counted.counters["delete_cache.built"]) == (10, 1)
    found, counted = ask(tmp_path, deletes[:1], planned=deletes)
    assert (counted.counters["delete_files.opened"], counted.counters["delete_cache.hits"]) == (0, 1)


@pytest.mark.parametrize("change", ["table", "root", "type", "mapping", "checksums", "scope", "file"])
def test_whatever_a_set_depends_on_is_in_its_name(tmp_path, change):
    deletes = files_of(tmp_path, 2)
    ask(tmp_path, deletes)
    changes = {}
    columns = [K]
    if change == "table":
        changes["table_uuid"] = "another"
    elif change == "root":
        from twostage.task import Storage

        changes["storage"] = Storage(root=str(tmp_path) + "/")
    elif change == "type":
        columns = [Column(1, "k", "int")]
    elif change == "mapping":
        changes["name_mapping"] = ({"field-id": 1, "names": ["k"]},)
    elif change == "checksums":
        changes["settings"] = {"verify_checksums": False}
    elif change == "scope":
        deletes = [replace(delete, scope="p=1") for delete in deletes]
    else:
        os.utime(deletes[0].path, (1, 1))
    data = {"columns": columns, **changes}
    if change == "type":
        metrics = Metrics()
        CACHE.clear()
        context = context_of(tmp_path, columns, settings={"delete_cache_dir": str(tmp_path / "cache")},
                             equality_deletes=tuple(deletes))  # fmt: skip
        load_equality(context, task_of(*deletes), metrics)
        assert metrics.counters["delete_files.opened"] == 2
        return
    _, counted = ask(tmp_path, deletes, **data)
    assert counted.counters["delete_files.opened"] == 2
    assert counted.counters["delete_cache.hits"] == 0


@pytest.mark.parametrize(
    ("columns", "words", "has_text"), [((K,), 1, False), ((S,), 0, True), ((K, S), 1, True)]
)
def test_who_waits_gets_ready_meanwhile(tmp_path, monkeypatch, columns, words, has_text):
    deletes = files_of(tmp_path, 3, columns=columns)
    private_directory(tmp_path / "cache")
    cache = HostCache(tmp_path / "cache", 2**30, Metrics())
    monkeypatch.setattr(host, "_LOCK_FILES", 1)
    monkeypatch.setattr(HostCache.exclusive.__wrapped__, "__defaults__", (0.1, None))
    called = []
    monkeypatch.setattr(host_key_sets, "get_ready", lambda *given, **named: called.append((given, named)))
    answer = right(tmp_path, deletes, columns=columns)
    with cache.exclusive("keys-x"):
        assert ask(tmp_path, deletes, columns=columns)[0] == answer
    assert called == [((words,), {"has_text": has_text, "count": 60, "kernels": True})]


def request_of(folder, deletes, *, needed=None, add=None, **changes):
    """Return a request of a set of `deletes`, whose keys come from nowhere: 0 … 99 for each file."""
    settings = {"delete_cache_dir": str(folder / "cache")}
    context = context_of(folder, [K], settings=settings, **changes.pop("context", {}))
    added = []

    def add_numbers(key_set, files):
        for delete in files:
            added.append(delete.path)
            column = encode_column(pa.array(range(100)), Primitive("long"))
            key_set.insert(group_by_nulls([column], 100), delete.sequence_number, 100)

    values = {
        "context": context,
        "shape": ("shape",),
        "needed": deletes if needed is None else needed,
        "planned": deletes,
        "budget": Budget(10**8, lambda: 0),
        "add": add or add_numbers,
        "adopt": lambda key_set: None,
        "kinds": [Primitive("long")],
    }
    return HostKeySetRequest(**{**values, **changes}), added


def names_of(folder, count, records=100):
    """Return delete files that nobody opens."""
    return [
        delete_of(folder / f"{n}.parquet", "equality", equality_ids=(1,), sequence_number=n + 2, record_count=records)
        for n in range(count)
    ]  # fmt: skip


def probe(found, value, sequence):
    column = encode_column(pa.array([value]), Primitive("long"))
    return found.key_set.probe(group_by_nulls([column], 1), 1, sequence).tolist() == [True]


def test_a_set_is_built_once_and_mapped_from_then_on(tmp_path):
    deletes, metrics, adopted = names_of(tmp_path, 3), Metrics(), []
    request, added = request_of(tmp_path, deletes, adopt=adopted.append)
    built = find_host_key_set(request, metrics)
    assert added == [delete.path for delete in deletes]
    assert len(adopted) == 1
    again, added = request_of(tmp_path, deletes[::-1])
    found = find_host_key_set(again, metrics)
    assert added == []
    for one in (built, found):
        assert one.members == {fingerprint.of_delete(delete) for delete in deletes}
        assert one.key_set.nbytes == 0  # mapped, by who has built it too
        assert [probe(one, 99, 3), probe(one, 99, 4), probe(one, 100, 0)] == [True, False, False]
    assert [metrics.counters[f"delete_cache.{name}"] for name in ("built", "hits")] == [1, 1]


def test_few_keys_are_not_worth_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(host_key_sets, "MIN_KEYS_TO_SHARE", 300)
    for count, is_built in ((2, False), (3, True)):
        request, added = request_of(tmp_path, names_of(tmp_path, count))
        assert (find_host_key_set(request, Metrics()) is not None) is is_built
        assert bool(added) is is_built


@pytest.mark.parametrize(
    ("needed", "is_built"), [(1, False), (2, True)]
)  # of eight: less than a quarter, or not
def test_a_task_that_needs_few_of_the_keys_does_not_build_all(tmp_path, needed, is_built):
    deletes = names_of(tmp_path, 8)
    request, _ = request_of(tmp_path, deletes, needed=deletes[:needed])
    assert (find_host_key_set(request, Metrics()) is not None) is is_built


def test_without_leave_to_build_only_what_is_there_is_given(tmp_path):
    deletes = names_of(tmp_path, 2)
    request, added = request_of(tmp_path, deletes, may_build=False)
    assert find_host_key_set(request, Metrics()) is None
    find_host_key_set(request_of(tmp_path, deletes)[0], Metrics())
    assert find_host_key_set(request, Metrics()) is not None
    assert added == []


@pytest.mark.parametrize(
    ("context", "serves"),
    [({"snapshot_id": 1}, True), ({"snapshot_id": 2}, False), ({"snapshot_id": None}, False)],
)
def test_a_larger_set_serves_its_own_snapshot_alone(tmp_path, context, serves):
    """Another snapshot's keys could delete rows that are live in this one."""
    deletes = names_of(tmp_path, 3)
    find_host_key_set(request_of(tmp_path, deletes)[0], Metrics())
    request, added = request_of(tmp_path, deletes[:2], context=context)
    found = find_host_key_set(request, Metrics())
    assert len(found.members) == (3 if serves else 2)
    assert len(added) == (0 if serves else 2)


def test_scans_of_no_snapshot_share_no_larger_set(tmp_path):
    """A table without one is not the same table at another time."""
    deletes, context = names_of(tmp_path, 3), {"snapshot_id": None}
    find_host_key_set(request_of(tmp_path, deletes, context=context)[0], Metrics())
    request, _ = request_of(tmp_path, deletes[:2], context=context)
    assert len(find_host_key_set(request, Metrics()).members) == 2


def test_a_damaged_delete_file_leaves_each_task_to_its_own(tmp_path):
    def fail(key_set, files):
        raise CorruptFileError("CORRUPT_DELETE_FILE", "bad", path="/d", stage="deletes")

    request, _ = request_of(tmp_path, names_of(tmp_path, 3), add=fail)
    assert find_host_key_set(request, Metrics()) is None
    assert stored(tmp_path) == []


def test_a_set_that_cannot_be_stored_is_used_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(HostCache, "save", lambda *_: False)
    found = find_host_key_set(request_of(tmp_path, names_of(tmp_path, 3))[0], Metrics())
    assert found.key_set.nbytes > 0
    assert probe(found, 5, 0)


def test_a_stored_set_that_does_not_fit_its_description_is_dropped(tmp_path, monkeypatch):
    """Who has written it uses what it has built; the next one builds anew."""
    deletes, metrics = names_of(tmp_path, 3), Metrics()
    with monkeypatch.context() as patch:
        patch.setattr(KeySet, "take_apart", lambda self: ({"tables": [{"kind": "?"}], "all_null": []}, []))
        found = find_host_key_set(request_of(tmp_path, deletes)[0], metrics)
    assert found.key_set.nbytes > 0
    assert probe(found, 5, 0)
    assert (metrics.counters["delete_cache.ignored"], stored(tmp_path)) == (1, [])
    request, added = request_of(tmp_path, deletes)
    monkeypatch.setattr(build_lock, "_FAILED_SECONDS", 0.0)
    assert probe(find_host_key_set(request, Metrics()), 5, 0)
    assert len(added) == 3


def test_the_plan_s_files_of_one_scope_and_one_set_of_ids(tmp_path):
    first, second, other, unscoped = (
        replace(delete, scope=scope, equality_ids=ids)
        for delete, scope, ids in zip(
            names_of(tmp_path, 4), ("p=1", "p=1", "p=2", None), ((1, 2), (2, 1), (1, 2), (1, 2)), strict=True
        )
    )
    fewer = replace(first, path="/lake/fewer", equality_ids=(1,))
    planned, ids = [first, second, other, unscoped, fewer], {1: "a", 2: "b"}
    assert planned_deletes(planned, [second], "p=1", ids) == [first, second]
    another = replace(unscoped, path="/lake/another")
    assert planned_deletes([*planned, another], [unscoped], None, ids) == [unscoped]  # scopes are not known
    needed = replace(first, path="/lake/not-planned")
    assert planned_deletes(planned, [needed, first], "p=1", ids) == [first, second, needed]
