"""Conjunctive and disjunctive normal form of a predicate.

Takes a predicate and the option ``filter.normalize``; returns a predicate with the same truth value, NULL included,
for every row: distribution, absorption and De Morgan's laws hold in Kleene's three-valued logic too; ``x AND
NOT x`` need not be FALSE there, so that law is not used. If the normal form would have more than `MAX_LEAVES`
leaves, the predicate is returned unchanged.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

from twostage.predicates.predicate import And, In, Not, Or, both, conjuncts, either, push_not_down

if TYPE_CHECKING:
    from twostage.predicates.predicate import Predicate

MAX_LEAVES = 10_000
MAX_CLAUSES_TO_COMPARE = 1_000
"""Maximum number of clauses from which absorbed clauses are dropped, because each pair is compared."""


def normalize(predicate: Predicate, mode: str) -> Predicate:
    """Return the predicate in the form `mode`: ``none`` (unchanged), ``cnf`` or ``dnf``.

    >>> from twostage.predicates.predicate import Column, IsNull
    >>> from twostage.schema import Primitive
    >>> a, b, c = (IsNull(Column(i, (name,), Primitive("int"))) for i, name in enumerate("abc"))
    >>> str(normalize(Or((a, And((b, c)))), "cnf"))
    '(a IS NULL OR b IS NULL) AND (a IS NULL OR c IS NULL)'
    """
    if mode == "none":
        return predicate
    outer, inner = (And, Or) if mode == "cnf" else (Or, And)
    pushed = push_not_down(predicate)
    _, weight = _size(pushed, outer)
    if weight > MAX_LEAVES:
        return predicate
    # Clauses hold numbers of leaves: hashing an IN list of thousands of values once per clause is slow.
    numbers: dict[Predicate, int] = {}
    clauses = _clauses(pushed, outer, inner, numbers)
    leaves = list(numbers)
    join_outer, join_inner = (both, either) if mode == "cnf" else (either, both)
    return join_outer(*(join_inner(*(leaves[leaf] for leaf in clause)) for clause in _minimal(clauses)))


def pull_common_factors(predicate: Predicate) -> Predicate:
    """Rewrite ``(a AND b) OR (a AND c)`` as ``a AND (b OR c)``, at any depth; the truth value is the same.

    A condition common to all branches of an OR can then prune and filter on its own.
    """
    match predicate:
        case And(children):
            return both(*(pull_common_factors(child) for child in children))
        case Or(children):
            branches = [conjuncts(pull_common_factors(child)) for child in children]
            shared = [part for part in branches[0] if all(part in branch for branch in branches[1:])]
            rest = [both(*(part for part in branch if part not in shared)) for branch in branches]
            return both(*shared, either(*rest))
        case Not(child):
            return Not(pull_common_factors(child))
    return predicate


_Kind = type[And] | type[Or]


_Clause = tuple[int, ...]


def _size(predicate: Predicate, outer: _Kind) -> tuple[int, int]:
    """Return upper bounds of the normal form's clauses and leaves; long IN lists count as several leaves."""
    if not isinstance(predicate, And | Or):
        listed = len(predicate.values) if isinstance(predicate, In) else 0
        return 1, 1 + listed // 100
    sizes = [_size(child, outer) for child in predicate.children]
    if isinstance(predicate, outer):
        return sum(clauses for clauses, _ in sizes), sum(weight for _, weight in sizes)
    num_clauses = math.prod(clauses for clauses, _ in sizes)
    # A clause combines one clause of each child, so a child's leaves repeat for each combination of the others.
    return num_clauses, sum(weight * (num_clauses // clauses) for clauses, weight in sizes)


def _clauses(
    predicate: Predicate, outer: _Kind, inner: _Kind, numbers: dict[Predicate, int]
) -> list[_Clause]:
    """Return the clauses of the normal form, each as the numbers of its leaves."""
    if isinstance(predicate, outer):
        children = (_clauses(child, outer, inner, numbers) for child in predicate.children)
        return [clause for clauses in children for clause in clauses]
    if isinstance(predicate, inner):
        choices = product(*(_clauses(child, outer, inner, numbers) for child in predicate.children))
        return [tuple(dict.fromkeys(leaf for clause in choice for leaf in clause)) for choice in choices]
    return [(numbers.setdefault(predicate, len(numbers)),)]


def _minimal(clauses: list[_Clause]) -> list[_Clause]:
    """Drop absorbed clauses, those that contain all leaves of another one: x AND (x OR y) is x."""
    distinct = {frozenset(clause): clause for clause in reversed(clauses)}
    if len(distinct) > MAX_CLAUSES_TO_COMPARE:
        return list(reversed(distinct.values()))
    kept: list[frozenset[int]] = []
    for leaves in sorted(distinct, key=len):
        if not any(other <= leaves for other in kept):
            kept.append(leaves)
    wanted = set(kept)
    return [clause for leaves, clause in reversed(distinct.items()) if leaves in wanted]
