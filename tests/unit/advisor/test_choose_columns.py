"""The K columns that satisfy the most votes: against brute force over all sets, and how K grows."""

from __future__ import annotations

import random

import pytest

from twostage.advisor import choose_columns as module
from twostage.advisor.choose_columns import choose_columns
from twostage.advisor.votes import Alternative, Vote


def vote(*alternatives):
    return Vote(
        alternatives=tuple(
            Alternative(columns=frozenset(names), saved=saved) for names, saved in alternatives
        )
    )


def saved_by(votes, columns):
    """Any one alternative of a vote counts, and only one."""
    return sum(one.saved_by(frozenset(columns)) for one in votes)


def test_k_grows_while_a_column_gains_enough():
    """Of 1,000 entries a saves 600, b 300, c 15: the last is less than 2 %."""
    votes = [vote(("a", 600)), vote(("b", 300)), vote(("c", 15))]
    found = choose_columns(votes, 1000)
    assert [("".join(sorted(one.columns)), one.saved) for one in found] == [("a", 600), ("ab", 900)]
    assert len(choose_columns(votes, 1000, min_gain=0.01)) == 3
    assert len(choose_columns(votes, 1000, max_columns=1)) == 1
    assert choose_columns(votes, 100_000) == []
    assert choose_columns([], 1000) == []


def test_one_of_several_alternatives_counts():
    votes = [vote(("a", 100), ("b", 80))] * 3 + [vote(("b", 50))]
    (first, second) = choose_columns(votes, 350)
    assert (first.columns, first.saved) == ({"a"}, 300)
    assert (second.columns, second.saved) == ({"a", "b"}, 350)


def test_columns_that_only_pay_together():
    (first, second) = choose_columns([vote(("ab", 500))], 1000)
    assert (second.columns, second.saved, first.saved) == ({"a", "b"}, 500, 0)


def random_votes(rng, names):
    votes = []
    for _ in range(rng.randint(1, 25)):
        sets = {
            frozenset(rng.sample(names, rng.randint(1, min(3, len(names))))) for _ in range(rng.randint(1, 4))
        }
        votes.append(vote(*sorted(((one, rng.randint(0, 100)) for one in sets), key=lambda pair: -pair[1])))
    return votes


def brute_force(votes, names):
    """Return by number of columns what the best set of so many saves: all sets are tried."""
    bits = {name: 1 << place for place, name in enumerate(names)}
    masked = [
        [(sum(bits[name] for name in one.columns), one.saved) for one in vote.alternatives] for vote in votes
    ]
    best = [0.0] * (len(names) + 1)
    for chosen in range(1 << len(names)):
        saved = sum(max([gain for mask, gain in one if mask & chosen == mask], default=0) for one in masked)
        best[chosen.bit_count()] = max(best[chosen.bit_count()], saved)
    return best


@pytest.mark.parametrize("limit", [20, 0], ids=["enumeration", "branch and bound"])
@pytest.mark.parametrize("seed", range(8))
def test_brute_force_over_all_sets(seed, limit, monkeypatch):
    monkeypatch.setattr(module, "MAX_COLUMNS_TO_ENUMERATE", limit)
    rng = random.Random(seed)
    for count in (12, *(rng.randint(1, 11) for _ in range(4))):
        names = [f"c{number:02}" for number in range(count)]
        votes = random_votes(rng, names)
        best_of_size = brute_force(votes, names)
        for best in choose_columns(votes, 1, min_gain=1e-9):
            size = len(best.columns)
            expected = best_of_size[size]
            assert best.is_best
            assert best.saved == pytest.approx(expected), f"seed {seed}: {size} of {votes}"
            assert best.saved == pytest.approx(saved_by(votes, best.columns))


def test_adding_a_query_lowers_nothing():
    rng = random.Random(5)
    votes = random_votes(rng, list("abcdefgh"))
    before = {len(one.columns): one.saved for one in choose_columns(votes, 1, min_gain=1e-9)}
    after = {
        len(one.columns): one.saved for one in choose_columns([*votes, vote(("a", 7))], 1, min_gain=1e-9)
    }
    assert all(after[size] >= saved for size, saved in before.items() if size in after)


def test_many_columns_are_searched_within_a_limit(monkeypatch):
    monkeypatch.setattr(module, "MAX_NODES", 200)
    rng = random.Random(3)
    names = [f"c{number}" for number in range(40)]
    votes = [
        vote(*((frozenset(rng.sample(names, 2)), rng.randint(1, 100)) for _ in range(2))) for _ in range(300)
    ]
    found = choose_columns(votes, 100, max_columns=4)
    assert len(found) == 4
    assert not all(one.is_best for one in found)
    for one in found:
        assert one.saved == pytest.approx(saved_by(votes, one.columns))
