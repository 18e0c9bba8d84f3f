"""Chooses the K columns whose indexes satisfy the most votes.

Takes votes; returns for each K the best set of columns, and the K at which one more column gains too little.
Up to `MAX_COLUMNS_TO_ENUMERATE` columns all sets are tried, as bit masks: every vote is a sum of terms that
count if a mask is a subset, and one pass per column sums the terms of all subsets for all 2**n sets at once.
Beyond that, branch and bound. The rule: of a vote's alternatives one counts, the best contained in the set.
Source: "Parser-based Estimation", C, in the design document of Apache Pinot's index tuner.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from twostage.advisor.votes import Vote

MAX_COLUMNS_TO_ENUMERATE = 20
MIN_GAIN = 0.02
"""G0: one more column must save at least this share of all entries that are scanned without any index."""
_MAX_COLUMNS = 62
"""Columns that branch and bound considers, as bits of a mask: those that could save the most."""
_LOOK_AHEAD = 3
"""Columns that may gain only together: an OR needs an index for each of its children."""
MAX_NODES = 10_000
"""Sets that branch and bound visits for one K; then it takes the best so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A set of columns.

    Attributes:
        columns: Their names.
        saved: The entries that it saves.
        is_best: No other set of this size saves more; False if the search was cut short.
    """

    columns: frozenset[str]
    saved: float
    is_best: bool = True


def choose_columns(
    votes: Iterable[Vote], total_entries: float, *, min_gain: float = MIN_GAIN, max_columns: int | None = None
) -> list[Choice]:
    """Return the best sets of 1, 2, … K columns, K grown until one more column gains too little; none if no index pays.

    Args:
        votes: The votes of all queries.
        total_entries: Entries that all queries scan without any index.
        min_gain: G0.
        max_columns: The largest K.
    """
    merged = _merge(votes)
    columns = sorted({column for masks in merged for one in masks for column in one})
    limit = len(columns) if max_columns is None else min(max_columns, len(columns))
    if not columns:
        return []
    search = (
        _Enumeration(columns, merged)
        if len(columns) <= MAX_COLUMNS_TO_ENUMERATE
        else _Branches(columns, merged)
    )
    chosen: list[Choice] = []
    while len(chosen) < limit:
        saved = chosen[-1].saved if chosen else 0.0
        for step in range(1, min(_LOOK_AHEAD, limit - len(chosen)) + 1):
            best = search.best(len(chosen) + step)
            if best.saved > saved and best.saved - saved >= step * min_gain * total_entries:
                chosen += [search.best(len(chosen) + number) for number in range(1, step)] + [best]
                break
        else:
            break
    return chosen


Merged = dict[tuple[frozenset[str], ...], list[float]]
"""What alternatives save, by their columns, the best alternative first."""


def _merge(votes: Iterable[Vote]) -> Merged:
    """Sum votes with the same alternatives in the same order: any set has the same best one for all of them."""
    merged: Merged = {}
    for vote in votes:
        kept = [one for one in vote.alternatives if one.saved > 0 and one.columns]
        kept.sort(key=lambda one: (-one.saved, sorted(one.columns)))
        if not kept:
            continue
        sums = merged.setdefault(tuple(one.columns for one in kept), [0.0] * len(kept))
        for place, one in enumerate(kept):
            sums[place] += one.saved
    return merged


class _Enumeration:
    """What every set of columns saves, in an array by bit mask."""

    def __init__(self, columns: Sequence[str], merged: Merged) -> None:
        self._columns = columns
        bits = {column: 1 << place for place, column in enumerate(columns)}
        saved = np.zeros(1 << len(columns))
        for alternatives, sums in merged.items():
            masks = [sum(bits[column] for column in one) for one in alternatives]
            for place, gain in enumerate(sums):
                # The best contained alternative = a sum over "one of the first i is", by inclusion-exclusion.
                step = gain - (sums[place + 1] if place + 1 < len(sums) else 0.0)
                for count in range(1, place + 2):
                    for chosen in itertools.combinations(masks[: place + 1], count):
                        union = 0
                        for mask in chosen:
                            union |= mask
                        saved[union] += step if count % 2 else -step
        for place in range(len(columns)):
            pairs = saved.reshape(-1, 2, 1 << place)
            pairs[:, 1] += pairs[:, 0]
        self._saved = saved
        self._sizes = np.array([0], np.uint8)
        for _ in columns:
            self._sizes = np.concatenate((self._sizes, self._sizes + np.uint8(1)))

    def best(self, size: int) -> Choice:
        """Return the best set of `size` columns; of equal ones the first by name."""
        masks = np.flatnonzero(self._sizes == size)
        mask = int(masks[np.argmax(self._saved[masks])])
        names = frozenset(name for place, name in enumerate(self._columns) if mask >> place & 1)
        return Choice(columns=names, saved=float(self._saved[mask]))


class _Branches:
    """Branch and bound over the columns, those that could save the most first.

    The bound: each column adds to a set at most the sum of the best alternatives that name it.
    """

    def __init__(self, columns: Sequence[str], merged: Merged) -> None:
        potential = dict.fromkeys(columns, 0.0)
        for alternatives, sums in merged.items():
            for column in frozenset().union(*alternatives):
                potential[column] += max(
                    gain for one, gain in zip(alternatives, sums, strict=True) if column in one
                )
        ordered = sorted(columns, key=lambda name: (-potential[name], name))
        self._columns = ordered[:_MAX_COLUMNS]
        self._is_whole = len(ordered) <= _MAX_COLUMNS
        self._potential = [potential[name] for name in self._columns]
        bits = {column: 1 << place for place, column in enumerate(self._columns)}
        kept = [
            [
                (sum(bits[column] for column in one), gain)
                for one, gain in zip(alternatives, sums, strict=True)
            ]
            for alternatives, sums in merged.items()
            if all(column in bits for one in alternatives for column in one)
        ]
        most = max((len(one) for one in kept), default=1)
        self._masks = np.zeros((len(kept), most), np.int64)
        self._gains = np.zeros((len(kept), most))
        for row, vote in enumerate(kept):
            for place, (mask, gain) in enumerate(vote):
                self._masks[row, place], self._gains[row, place] = mask, gain
        self._steps = [int(mask) for mask in np.unique(self._masks) if mask]
        self._known: dict[int, Choice] = {}

    def _saved(self, mask: int) -> float:
        holds = (self._masks & mask) == self._masks
        return float(np.where(holds, self._gains, 0.0).max(axis=1, initial=0.0).sum())

    def best(self, size: int) -> Choice:
        """Return the best set of `size` columns that was found."""
        if size not in self._known:
            self._known[size] = self._search(size)
        return self._known[size]

    def _search(self, size: int) -> Choice:
        best_mask = self._greedy(size)
        best = self._saved(best_mask)
        nodes, is_best = 0, self._is_whole
        stack = [(0, 0, 0)]
        while stack:
            mask, place, count = stack.pop()
            nodes += 1
            if nodes > MAX_NODES:
                is_best = False
                break
            saved = self._saved(mask)
            if count == size:
                if saved > best:
                    best, best_mask = saved, mask
                continue
            rest = size - count
            if (
                len(self._columns) - place < rest
                or saved + sum(self._potential[place : place + rest]) <= best
            ):
                continue
            stack.append((mask, place + 1, count))
            stack.append((mask | 1 << place, place + 1, count + 1))
        names = frozenset(name for place, name in enumerate(self._columns) if best_mask >> place & 1)
        return Choice(columns=names, saved=best, is_best=is_best)

    def _greedy(self, size: int) -> int:
        """Return a good initial set: whole alternatives are added, by savings per column, while they fit."""
        mask = 0
        while mask.bit_count() < size:
            now = self._saved(mask)
            found: tuple[float, int] = (0.0, 0)
            for needed in self._steps:
                more = (needed & ~mask).bit_count()
                if more and mask.bit_count() + more <= size:
                    found = max(found, ((self._saved(mask | needed) - now) / more, mask | needed))
            if not found[1]:
                break
            mask = found[1]
        for place in range(len(self._columns)):
            if mask.bit_count() < size:
                mask |= 1 << place
        return mask
