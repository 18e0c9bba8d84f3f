"""The forms of a scan's predicate, row by row against the interpreter: none drops a row that another keeps."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from random_predicates import POOLS, answer, random_predicate
from scan_values import context_of
from twostage.data_files.computed_columns import COMPUTED, POSITION
from twostage.predicates.predicate import (
    TRUE,
    And,
    Column,
    Compare,
    IsNull,
    Not,
    Or,
    Predicate,
    columns,
    leaves,
)
from twostage.reading.scan_predicate import ScanPredicate
from twostage.schema import Primitive

A, B, C = (Column(i, (name,), Primitive("int")) for i, name in enumerate("abc"))
PLACE = Column(POSITION, ("_pos",), Primitive("long"))


def prepare(predicate: Predicate, hint: Predicate = TRUE, normalize: str = "none") -> ScanPredicate:
    context = context_of(Path("/lake"), settings={"normalize": normalize}, predicate=predicate, hint=hint)
    return ScanPredicate.of(context)


def test_keys_of_a_join_are_optional() -> None:
    """The join drops what they drop; the report names them, and counts their rows apart."""
    keys, other = Compare("<", A, 5), Compare("<", B, 5)
    context = context_of(Path("/lake"), predicate=And((keys, other)), keys=(keys,))
    first, second = ScanPredicate.of(context).conjuncts
    assert (first.text, first.is_optional, first.counter) == ("a < 5 (join)", True, "rows.unjoined")
    assert (second.text, second.is_optional, second.counter) == ("b < 5", False, "rows.filtered")


@pytest.mark.parametrize("normalize", ["none", "cnf", "dnf"])
@pytest.mark.parametrize("seed", range(8))
def test_every_form_is_true_for_the_rows_that_it_should_be(seed: int, normalize: str) -> None:
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    for _ in range(40):
        kinds = [rng.choice(list(POOLS)) for _ in range(rng.randint(1, 3))]
        predicate, hint = (random_predicate(rng, kinds) for _ in range(2))
        if rng.random() < 0.3:
            predicate = rng.choice([And, Or])((predicate, Compare("<", PLACE, 5)))
        if rng.random() < 0.5:
            hint = TRUE
        found = prepare(predicate, hint, normalize)
        for place in range(20):
            row: dict[int, Any] = {
                i: None if rng.random() < 0.2 else rng.choice(POOLS[kind]) for i, kind in enumerate(kinds)
            }
            row[POSITION] = place
            exact = answer(predicate, row) is True
            prunable = exact and answer(hint, row) is True
            message = f"seed {seed}: {predicate}; {hint}; {row}"
            assert (answer(found.exact, row) is True) == exact, message
            assert all(answer(one.predicate, row) is True for one in found.conjuncts) == exact, message
            assert (answer(found.prunable, row) is True) == prunable, message
            stored = answer(found.stored, row) is True
            assert stored or not prunable, message
            assert all(answer(one, row) is True for one in found.stored_conjuncts) == stored, message
            seen.update(exact=exact, prunable=prunable, stored=stored, rows=1)
    assert 0 < seen["prunable"] < seen["exact"] < seen["rows"]
    assert seen["prunable"] < seen["stored"] < seen["rows"]


def test_without_a_predicate_there_is_nothing_to_test() -> None:
    found = prepare(TRUE)
    assert (found.exact, found.prunable, found.stored) == (TRUE, TRUE, TRUE)
    assert (found.conjuncts, found.stored_conjuncts, found.shared) == ((), (), frozenset())


def test_the_hint_prunes_and_drops_no_row() -> None:
    """Spark evaluates later what the hint is implied by."""
    found = prepare(Compare("=", A, 1), hint=IsNull(B))
    assert [one.text for one in found.conjuncts] == ["a = 1"]
    assert found.stored_conjuncts == (Compare("=", A, 1), IsNull(B))


def test_what_files_do_not_hold_is_not_tested_with_their_pages() -> None:
    found = prepare(And((Compare("=", A, 1), Compare("<", PLACE, 5), Or((IsNull(B), IsNull(PLACE))))))
    assert found.stored_conjuncts == (Compare("=", A, 1),)
    assert not {column.field_id for column in columns(found.stored)} & COMPUTED
    assert len(found.conjuncts) == 3


def test_a_conjunct_s_name_columns_and_counter() -> None:
    both = prepare(And((Compare("=", A, 1), Or((IsNull(B), Not(Compare("<", C, 2))))))).conjuncts
    assert [one.text for one in both] == ["a = 1", "b IS NULL OR c >= 2"]
    assert [one.field_ids for one in both] == [(0,), (1, 2)]
    assert {one.counter for one in both} == {"rows.filtered"}


def test_a_factor_that_all_alternatives_have_is_a_conjunct_of_its_own() -> None:
    """So that it filters before the alternatives are evaluated, whatever ``filter.normalize`` says."""
    alternatives = Or(tuple(And((Compare("=", A, 1), Compare("=", B, n))) for n in (2, 3)))
    assert [one.text for one in prepare(alternatives).conjuncts][0] == "a = 1"


def test_columns_of_several_leaves_are_shared() -> None:
    found = prepare(And((Or((Compare("<", A, 1), Compare(">", A, 7))), Compare("=", B, 1))))
    assert found.shared == {0}
    uses = Counter(column.field_id for one in found.conjuncts for leaf in leaves(one.predicate) for column in columns(leaf))  # fmt: skip
    assert uses == {0: 2, 1: 1}
