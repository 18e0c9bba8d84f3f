"""Where the keys of a set are in a column: all keys are covered, and nothing is sorted that cannot pay."""

from __future__ import annotations

import random

import numpy as np
import pytest

from declared.types import Column
from scan_values import context_of, task_of, write_keys
from twostage.deletes.anti_join import host_key_sets
from twostage.deletes.anti_join.load_key_sets import load_equality
from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.direct_table import DirectTable
from twostage.deletes.keys.encoding import KeyRows
from twostage.deletes.keys.key_domains import (
    MAX_KEYS_PER_ROW_TO_SORT,
    MAX_SLOTS_PER_ROW_TO_SCAN,
    KeyDomains,
)
from twostage.deletes.keys.key_set import KeySet
from twostage.deletes.keys.record_table import RecordTable
from twostage.deletes.keys.word_table import WordTable
from twostage.metrics import Metrics


def test_keys_of_a_hash_table_are_sorted_once_enough_rows_were_asked(tmp_path):
    columns = [Column(1, "k", "long")]
    delete = write_keys(tmp_path / "d.parquet", columns, [{1: n * 10**12} for n in range(100)], [1])
    found = load_equality(context_of(tmp_path, columns), task_of(delete), Metrics())
    (key_set,) = found._applicable[0].key_sets
    looked_at = []

    def helps(some):
        looked_at.append(set(some.lowers.tolist()))
        return len(looked_at) > 1

    # Keys that are in every page, as some of them tell, prove nothing however many rows are asked.
    assert key_set.domain(0, [1], 10**6, helps) is None
    assert looked_at[0] and looked_at[0] <= {n * 10**12 for n in range(100)}
    assert key_set.domain(0, [1], 20, helps) is None
    domain = key_set.domain(0, [1], 20, helps)
    assert len(domain.lowers) == 100
    assert key_set.domain(0, [1], 0, lambda some: False) is domain


def test_a_dense_table_is_looked_through_for_enough_rows_only(tmp_path):
    columns = [Column(1, "k", "long")]
    delete = write_keys(tmp_path / "d.parquet", columns, [{1: n * 10} for n in range(1000)], [1])
    found = load_equality(context_of(tmp_path, columns), task_of(delete), Metrics())
    (key_set,) = found._applicable[0].key_sets
    assert key_set.is_direct
    assert key_set.domain(0, [1], 5, lambda some: True) is None
    assert len(key_set.domain(0, [1], 40, lambda some: True).lowers) == 1000


@pytest.mark.parametrize("mapped", [False, True])
def test_the_numbers_of_keys_of_several_columns(tmp_path, mapped):
    """Of each column, by null patterns, with text between them; in a table of the host's, too."""
    columns = [
        Column(1, "a", "long"),
        Column(2, "s", "string"),
        Column(3, "u", "uuid"),
        Column(4, "b", "int"),
    ]
    uuid = "f79c3e09-677c-4bbd-a479-512f87f77b4e"
    rows = [{1: n * 1000, 2: "x" * (n % 40), 3: uuid, 4: -n} for n in range(50)]
    rows += [{1: None, 2: None, 3: None, 4: 700}, {1: -5, 2: "t", 3: None, 4: None}]
    delete = write_keys(tmp_path / "d.parquet", columns, rows, [1, 2, 3, 4], scope="global")
    settings = {"delete_cache": "host" if mapped else "worker", "delete_cache_dir": str(tmp_path / "cache")}
    context = context_of(tmp_path, columns, settings=settings, equality_deletes=(delete,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_key_sets, "MIN_KEYS_TO_SHARE", 1)
        found = load_equality(context, task_of(delete), Metrics())
    (applied,) = found._applicable
    widths = [1, 0, 2, 1]
    for place, numbers in ((0, [-5, *(n * 1000 for n in range(50))]), (3, [*range(-49, 1), 700])):
        domain = applied.key_sets[0].domain(place, widths, 10**6, lambda some: True)
        held = [
            n
            for low, high in zip(domain.lowers.tolist(), domain.uppers.tolist(), strict=True)
            for n in range(low, high + 1)
        ]
        assert held == numbers
        assert domain.may_null


@pytest.mark.parametrize("step", [1, 2**40])
@pytest.mark.parametrize("width", [1, 2])
def test_where_keys_lie_is_told_anew_once_there_are_more(width, step):
    def keys(numbers):
        words = np.repeat(np.array(numbers, np.uint64).reshape(-1, 1) * np.uint64(step), width, axis=1)
        return KeyRows(0, None, words, np.zeros(0, np.int64), np.zeros(0, np.uint8))

    key_set = KeySet(Budget(10**8, lambda: 0), kernels=True)
    for number in (1, 3):
        key_set.insert([keys([number])], number, 1)
        domain = key_set.domain(0, [1] * width, 10**6, lambda some: True)
        assert domain is not None
        assert domain.uppers[-1] == number * step


AMPLE = Budget(2**30, lambda: 0)
SEQUENCES = np.array([-1, 5])


def rows_of(numbers, width=1) -> KeyRows:
    """Return keys whose words are `numbers`, and for more columns the numbers plus 1000, plus 2000 …"""
    words = np.array([[n + 1000 * place for place in range(width)] for n in numbers], np.int64)
    words = words.reshape(-1, width).view(np.uint64)
    return KeyRows(0, None, words, np.zeros(0, np.int64), np.zeros(0, np.uint8))


def table_of(kind, numbers, width=1):
    keys = rows_of(numbers, width)
    if kind == "dense":
        table = DirectTable(AMPLE)
        assert table.reserve(keys, 1, len(numbers))
    elif kind == "words":
        table = WordTable(len(numbers), AMPLE, kernels=False)
    else:
        table = RecordTable(len(numbers), keys, AMPLE, kernels=False)
    table.insert(keys, 1, SEQUENCES)
    return table


def find(
    tables,
    *,
    nulls=(),
    budget=AMPLE,
    column=0,
    widths=(1,),
    num_rows=10**6,
    helps=lambda _: True,
    domains=None,
):
    domains = KeyDomains() if domains is None else domains
    return domains.find(tables, nulls, budget, column, widths, num_rows, helps)


def numbers_in(domain):
    """Return the numbers in a domain's intervals."""
    pairs = zip(domain.lowers.tolist(), domain.uppers.tolist(), strict=True)
    return [number for low, high in pairs for number in range(low, high + 1)]


@pytest.mark.parametrize("kind", ["dense", "words", "records"])
@pytest.mark.parametrize("seed", range(5))
def test_it_holds_all_keys_and_no_other_number(kind, seed):
    """As long as there are fewer intervals than may be kept: negative numbers too."""
    rng = random.Random(seed)
    numbers = {rng.randrange(-500, 500) for _ in range(rng.choice([1, 20, 300]))}
    width = 2 if kind == "records" else 1
    for column in range(width):
        found = find({0: table_of(kind, sorted(numbers), width)}, column=column, widths=(1,) * width)
        assert numbers_in(found) == sorted(number + 1000 * column for number in numbers)
        assert (found.may_null, found.may_nan) == (False, False)


def test_keys_of_all_patterns_that_have_a_value_there():
    """Of (a, b): both, only b, only a, neither; a's word is left out where a is NULL."""
    tables = {0: table_of("records", [1, 2], 2), 1: table_of("words", [7]), 2: table_of("words", [30])}
    for column, numbers in ((0, [1, 2, 30]), (1, [7, 1001, 1002])):
        found = find(tables, column=column, widths=(1, 1))
        assert (numbers_in(found), found.may_null) == (numbers, True)
    without = {0: tables[0]}
    assert not find(without, widths=(1, 1)).may_null
    assert find(without, nulls=[3], widths=(1, 1)).may_null
    assert [find({0: tables[0], 1: tables[1]}, column=i, widths=(1, 1)).may_null for i in (0, 1)] == [
        True,
        False,
    ]


def test_words_of_the_columns_before_it_are_passed_over():
    """A text takes none, a uuid two."""
    table = table_of("records", [5, 9], 4)
    for widths, column, word in (((1, 0, 2, 1), 3, 3), ((0, 2, 1, 1), 2, 2), ((1, 1, 2), 1, 1)):
        found = find({0: table}, column=column, widths=widths)
        assert numbers_in(found) == [5 + 1000 * word, 9 + 1000 * word]


def test_a_column_that_is_always_null_has_no_value():
    for tables in ({}, {1: table_of("words", [7])}):
        found = find(tables, nulls=[3], widths=(1, 1))
        assert (len(found.lowers), len(found.uppers), found.may_null) == (0, 0, True)


def test_a_hash_table_is_sorted_for_enough_rows_of_all_calls_together():
    table = table_of("words", [n * 2**40 for n in range(100)])
    domains, enough = KeyDomains(), 100 // MAX_KEYS_PER_ROW_TO_SORT
    assert find({0: table}, num_rows=enough - 1, domains=domains) is None
    assert find({0: table}, num_rows=1, domains=domains) is not None
    # Rows for which a sample has shown that nothing could be proven do not count.
    domains = KeyDomains()
    assert find({0: table}, num_rows=10**6, helps=lambda _: False, domains=domains) is None
    assert find({0: table}, num_rows=enough - 1, domains=domains) is None


def test_a_direct_table_is_scanned_for_fewer_rows_and_without_a_sample():
    table = table_of("dense", range(0, 10_000, 3))
    slots = len(table.arrays()[0])
    enough = -(-slots // MAX_SLOTS_PER_ROW_TO_SCAN)
    never = lambda _: pytest.fail("a sample was taken")
    domains = KeyDomains()
    assert find({0: table}, num_rows=enough - 1, helps=never, domains=domains) is None
    assert find({0: table}, num_rows=1, helps=never, domains=domains) is not None


def test_sorting_stays_within_the_budget():
    table = table_of("words", [n * 2**40 for n in range(100)])
    assert find({0: table}, budget=Budget(32 * 100 - 1, lambda: 0)) is None
    assert find({0: table}, budget=Budget(32 * 100, lambda: 0)) is not None


def test_each_column_is_found_once_until_keys_are_added():
    table = table_of("records", [5, 9], 2)
    domains = KeyDomains()
    ask = lambda column: find({0: table}, column=column, widths=(1, 1), domains=domains)
    first, second = ask(0), ask(1)
    assert numbers_in(second) == [1005, 1009]
    assert ask(0) is first
    assert find({0: table}, widths=(1, 1), num_rows=0, helps=lambda _: False, domains=domains) is first
    domains.clear()
    assert ask(0) is not first
