"""Key sets against a dict of keys and sequence numbers: NULLs, kinds of table, restored sets, threads."""

from __future__ import annotations

import json
import random
import threading

import numpy as np
import pyarrow as pa
import pytest

from kept_sets import K, S, ask, files_of, stored
from scan_values import schema_of
from twostage.deletes.cache.host import HostCache
from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.direct_table import DirectTable
from twostage.deletes.keys.encoding import KeyRows, encode_column, group_by_nulls
from twostage.deletes.keys.key_set import KeySet
from twostage.errors import ResourceLimitError
from twostage.metrics import Metrics
from twostage.schema import Primitive

KINDS = {"long": pa.int64(), "int": pa.int32(), "double": pa.float64(), "string": pa.string()}


def rows_of(kinds, rows):
    """Return the keys of rows, tuples of values, by which of their columns are NULL."""
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    arrays = [pa.array(column, KINDS[kind]) for kind, column in zip(kinds, columns, strict=True)]
    encoded = [encode_column(array, Primitive(kind)) for array, kind in zip(arrays, kinds, strict=True)]
    return list(group_by_nulls(encoded, len(rows)))


def set_of(limit=10**8, *, kernels=False, dense=True):
    """Return an empty set whose budget counts what it takes."""
    made = []
    budget = Budget(limit, lambda: sum(one.nbytes for one in made))
    made.append(KeySet(budget, kernels=kernels, dense=dense))
    return made[0]


def random_key(rng, kinds):
    pools = {
        "long": [0, -1, 7, 2**62, -(2**63)],
        "int": list(range(-3, 40)),
        "double": [0.5, -0.0, float("inf")],
        "string": ["", "a", "ab", "a" * 20],
    }
    return tuple(None if rng.random() < 0.2 else rng.choice(pools[kind]) for kind in kinds)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_it_answers_as_a_dict_does(seed, kernels, dense):
    """Composite keys with NULLs, sequence numbers in any order, taken apart and restored on the way."""
    rng = random.Random(seed)
    kinds = [rng.choice(list(KINDS)) for _ in range(rng.randint(1, 3))]
    key_set, known = set_of(kernels=kernels, dense=dense), {}
    assert key_set.is_empty
    for _ in range(rng.choice([2, 6])):
        sequence = rng.randrange(1, 20)
        rows = [random_key(rng, kinds) for _ in range(rng.choice([0, 1, 30, 200]))]
        key_set.insert(rows_of(kinds, rows), sequence, rng.choice([0, 1000]))
        for row in rows:
            known[row] = max(sequence, known.get(row, -1))
        if rng.random() < 0.3:
            plain, arrays = key_set.take_apart()
            key_set = KeySet.restored(plain, arrays, Budget(10**8, lambda: 0), kernels=kernels, dense=dense)
            assert key_set.nbytes == 0
    assert (key_set.count, key_set.is_empty) == (len(known), not known)
    probed = [random_key(rng, kinds) for _ in range(300)] + list(known)
    for sequence in (0, 5, 10, 19):
        right = [known.get(row, -1) > sequence for row in probed]
        assert key_set.probe(rows_of(kinds, probed), len(probed), sequence).tolist() == right, f"seed {seed}"


def test_null_equals_null_in_its_own_column_only():
    kinds = ("long", "string")
    key_set = set_of()
    key_set.insert(rows_of(kinds, [(None, "a"), (None, None)]), 5, 2)
    probed = [(None, "a"), (None, "b"), (1, "a"), (1, None), (None, None)]
    assert key_set.probe(rows_of(kinds, probed), 5, 4).tolist() == [True, False, False, False, True]
    assert not key_set.probe(rows_of(kinds, probed), 5, 5).any()
    assert key_set.count == 2


def test_numbers_that_lie_close_are_direct_and_others_are_not():
    for kinds, rows, dense, is_direct in (
        (("long",), [(1,), (2,)], True, True),
        (("long",), [(1,), (2,)], False, False),
        (("long",), [(1,), (2**60,)], True, False),
        (("long",), [(None,)], True, True),  # no table at all
        (("long", "long"), [(1, 1)], True, False),
        (("string",), [("a",)], True, False),
        (("long", "long"), [(1, None)], True, True),
        (("long", "long"), [(1, None), (1, 2)], True, False),
    ):
        key_set = set_of(dense=dense)
        key_set.insert(rows_of(kinds, rows), 5, len(rows))
        assert key_set.is_direct is is_direct, (kinds, rows)


def test_gaps_between_numbers_are_known_of_direct_tables():
    key_set = set_of()
    assert key_set.none_between(-(2**63), 2**63 - 1)  # it is empty
    key_set.insert(rows_of(("long",), [(10,), (20,)]), 5, 2)
    assert [key_set.none_between(*gap) for gap in ((11, 19), (0, 9), (21, 99))] == [True] * 3
    assert [key_set.none_between(*gap) for gap in ((10, 10), (15, 20), (0, 99))] == [False] * 3
    hashed = set_of(dense=False)
    hashed.insert(rows_of(("long",), [(10,), (20,)]), 5, 2)
    assert not hashed.none_between(11, 19)  # not known


def test_a_direct_table_becomes_a_hash_table_with_all_its_keys():
    key_set = set_of()
    for sequence in (3, 9, 6):
        key_set.insert(rows_of(("long",), [(n,) for n in range(sequence, 300)]), sequence, 300)
    assert isinstance(key_set._tables[0], DirectTable)
    key_set.insert(rows_of(("long",), [(2**61,)]), 7, 1)
    assert not key_set.is_direct
    probed = rows_of(("long",), [(n,) for n in (2, 3, 8, 9, 299, 300, 2**61)])
    assert key_set.probe(probed, 7, 2).tolist() == [False, True, True, True, True, False, True]
    assert key_set.probe(probed, 7, 6).tolist() == [False, False, False, True, True, False, True]
    assert key_set.probe(probed, 7, 7).tolist() == [False, False, False, True, True, False, False]


def test_what_is_taken_apart_is_plain_values_for_json():
    key_set = set_of()
    key_set.insert(rows_of(("long", "string"), [(1, "a"), (None, "b"), (2, None), (None, None)]), 5, 4)
    plain, arrays = key_set.take_apart()
    again = KeySet.restored(json.loads(json.dumps(plain)), arrays, Budget(10**8, lambda: 0), kernels=False)
    assert (again.count, again.is_empty, again.nbytes) == (4, False, 0)
    assert sorted(table["kind"] for table in plain["tables"]) == ["dense", "records", "records"]


@pytest.mark.parametrize(
    "change",
    [
        lambda plain, arrays: plain.pop("tables"),
        lambda plain, arrays: plain.pop("all_null"),
        lambda plain, arrays: plain["tables"][0].update(kind="another"),
        lambda plain, arrays: plain["tables"][0].pop("count"),
        lambda plain, arrays: arrays.pop(),
        lambda plain, arrays: plain["tables"][0].update(count="many"),
        lambda plain, arrays: plain["all_null"].append(7),
    ],
)
def test_what_does_not_fit_is_an_error_that_the_cache_knows(change):
    key_set = set_of()
    key_set.insert(rows_of(("string",), [("a",), (None,)]), 5, 2)
    plain, arrays = key_set.take_apart()
    change(plain, arrays)
    with pytest.raises((ValueError, KeyError, TypeError)):
        KeySet.restored(plain, arrays, Budget(10**8, lambda: 0), kernels=False)


def test_a_new_budget_is_every_table_s():
    """A set serves several tasks: each has its own memory."""
    key_set = set_of()
    key_set.insert(rows_of(("long", "string"), [(1, "a"), (None, "b"), (2, None)]), 5, 3)
    key_set.budget = Budget(100, lambda: 0)
    rows = {
        "records": [(n, f"text {n}") for n in range(5000)],
        "text": [(None, f"text {n}") for n in range(5000)],
        "numbers": [(n * 2**40, None) for n in range(5000)],
    }
    for some in rows.values():
        with pytest.raises(ResourceLimitError, match="100 bytes"):
            key_set.insert(rows_of(("long", "string"), some), 6, 5000)
    assert key_set.count == 3
    key_set.budget = Budget(10**8, lambda: 0)
    for some in rows.values():
        key_set.insert(rows_of(("long", "string"), some), 6, 5000)
    assert key_set.count == 3 + 5000 + 5000 + 5000


def test_its_bytes_are_those_of_all_tables():
    key_set = set_of()
    assert key_set.nbytes == 0
    key_set.insert(rows_of(("long", "string"), [(1, "a"), (None, "b"), (2, None)]), 5, 3)
    assert key_set.nbytes == sum(table.nbytes for table in key_set._tables.values()) > 0


def test_more_than_65535_sequence_numbers():
    kind = Primitive("long")
    keys = KeySet(Budget(10**8, lambda: 0), kernels=False)
    for number in range(1, 66_001):
        if number % 1000 == 0 or number == 1:
            keys.insert(group_by_nulls([encode_column(pa.array([number]), kind)], 1), number, 66)
        else:
            keys._code(number)
    rows = pa.array([1, 1000, 65_000, 66_000, 7])
    probe = lambda sequence: keys.probe(group_by_nulls([encode_column(rows, kind)], 5), 5, sequence).tolist()
    assert probe(0) == [True, True, True, True, False]
    assert probe(65_000) == [False, False, False, True, False]


def keys_of(kind, numbers):
    """Return keys that a set keeps in a table of this kind."""
    words = np.asarray(numbers, np.uint64).reshape(-1, 1)
    if kind == "words":
        words = words * np.uint64(2**40)
    elif kind == "records":
        words = np.hstack([words, words])
    return KeyRows(0, None, words, np.zeros(0, np.int64), np.zeros(0, np.uint8))


@pytest.mark.parametrize("kind", ["dense", "words", "records"])
def test_a_set_that_is_asked_does_not_grow_meanwhile(kind):
    """Threads share sets, and adding keys moves the arrays that are being searched."""
    key_set = KeySet(Budget(10**8, lambda: 0), kernels=True)
    key_set.insert([keys_of(kind, range(1_000))], 5, 1_000)
    adder = threading.Thread(
        target=lambda: key_set.insert([keys_of(kind, range(1_000, 50_000))], 6, 49_000), daemon=True
    )
    grew_meanwhile = []

    def asked():
        yield keys_of(kind, range(1_000))
        adder.start()
        adder.join(0.2)
        grew_meanwhile.append(not adder.is_alive())
        yield keys_of(kind, range(1_000, 2_000))

    before = key_set.probe(asked(), 1_000, 1)
    adder.join()
    assert [table.kind for table in key_set._tables.values()] == [kind]
    assert before.all() and grew_meanwhile == [False]
    assert key_set.probe([keys_of(kind, range(50_000))], 50_000, 1).all()


@pytest.mark.usefixtures("small_sets_are_kept")
def test_keys_are_copied_before_more_are_added(tmp_path):
    """Within the budget; what is mapped does not change."""
    deletes = files_of(tmp_path, 3, columns=(K, S))
    ask(tmp_path, deletes, columns=(K, S))
    cache = HostCache(tmp_path / "cache", 2**30, Metrics())
    (name,) = cache.names("keys-")
    good = stored(tmp_path)[0].read_bytes()
    entry = cache.load(name, "keys")
    values = entry.description.values["set"]
    small = KeySet.restored(values, entry.arrays, Budget(1, lambda: 0), kernels=False)
    assert small.nbytes == 0
    kinds = [schema_of([K, S]).field(i).type for i in (1, 2)]
    rows = [encode_column(pa.array([9999]), kinds[0]), encode_column(pa.array(["new"]), kinds[1])]
    with pytest.raises(ResourceLimitError):
        small.insert(group_by_nulls(rows, 1), 99, 1)
    grown = KeySet.restored(values, entry.arrays, Budget(2**20, lambda: 0), kernels=False)
    grown.insert(group_by_nulls(rows, 1), 99, 1)
    assert grown.nbytes > 0
    assert grown.probe(group_by_nulls(rows, 1), 1, 98).tolist() == [True]
    assert stored(tmp_path)[0].read_bytes() == good
