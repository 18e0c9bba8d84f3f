"""Prune data files that a table-wide index proves to hold none of a query's keys.

Takes the chosen data files and the scan's predicate; returns the files that may hold a matching row. The
rule: a file is pruned only if the index covers it and proves that the predicate is true for none of its rows;
leaves that the index cannot answer, and columns that are constant in the file, prove nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.indexes.file_keys import ScannedFiles, file_key, find_files
from twostage.predicates import predicate as tree
from twostage.predicates.key_set import listed_between

if TYPE_CHECKING:
    from collections import Counter

    from twostage.indexes.file_keys import FileAnswer
    from twostage.indexes.of_scan import ScanIndexes
    from twostage.metrics import Metrics
    from twostage.planning.splits import Candidate
    from twostage.predicates.predicate import Leaf, Predicate
    from twostage.task import ScanTask

MIN_FILES_TO_LOOK_UP = 4
"""Opening fewer takes less time than an index lookup, about three requests."""
MAX_KEYS_PER_FILE = 200
"""Keys to look up for each chosen file: looking up more takes longer than opening the file."""


def prune_by_keys(
    chosen: list[Candidate],
    predicate: Predicate,
    indexes: ScanIndexes,
    memory: int,
    counters: Counter[str],
    metrics: Metrics,
) -> list[Candidate]:
    """Return the files that may hold a matching row, in their order.

    Args:
        chosen: The files that partitions and bounds did not prune.
        predicate: What rows must satisfy, including the hint.
        indexes: The scan's indexes.
        memory: Bytes of indexes that this process may cache.
        counters: Gains ``files.pruned.index``, and the rows of these files.
        metrics: Gains the bytes read from indexes, and warnings.
    """
    if len(chosen) < MIN_FILES_TO_LOOK_UP or not indexes.runs:
        return chosen
    keys = {id(candidate.task): file_key(candidate.task) for candidate in chosen}
    scanned = ScannedFiles.at({keys[id(candidate.task)]: candidate.task.path for candidate in chosen})
    proofs = _Proofs(indexes, memory, metrics, keys, scanned)
    normal = tree.push_not_down(predicate)
    kept = []
    for candidate in chosen:
        if proofs.may_match(normal, candidate.task):
            kept.append(candidate)
            continue
        counters["files.pruned.index"] += 1
        counters["rows.considered"] += candidate.task.record_count
        counters["rows.pruned"] += candidate.task.record_count
    return kept


class _Proofs:
    """The index's answers for the predicate's leaves, each looked up once."""

    def __init__(
        self,
        indexes: ScanIndexes,
        memory: int,
        metrics: Metrics,
        keys: dict[int, bytes],
        scanned: ScannedFiles,
    ) -> None:
        self._indexes = indexes
        self._memory = memory
        self._metrics = metrics
        self._keys = keys
        self._scanned = scanned
        self._answers: dict[int, FileAnswer | None] = {}
        self._bad: set[str] = set()

    def may_match(self, predicate: Predicate, task: ScanTask) -> bool:
        """Tell whether a predicate in negation normal form may be true for a row of a file."""
        match predicate:
            case tree.And(children):
                return all(self.may_match(child, task) for child in children)
            case tree.Or(children):
                return any(self.may_match(child, task) for child in children)
            case tree.In(_, values) if len(values) > MAX_KEYS_PER_FILE * len(self._keys):
                return True
            case tree.InKeys(_, among) if among.count > MAX_KEYS_PER_FILE * len(self._keys):
                return True
            case tree.Compare(_, column, _) | tree.In(column) | tree.InKeys(column) if (
                column.field_id not in task.constants
            ):
                answer = self._answer(predicate)
                return answer is None or answer.may_hold_key(self._keys[id(task)])
        return True

    def _answer(self, leaf: Leaf) -> FileAnswer | None:
        if id(leaf) not in self._answers:
            lookup: Leaf | None = leaf
            if isinstance(leaf, tree.InKeys):
                lookup = listed_between(leaf, None, None, leaf.keys.count)
            found = None
            if lookup is not None:
                found = find_files(
                    self._indexes.place,
                    self._indexes.table,
                    lookup,
                    self._metrics,
                    self._memory,
                    self._scanned,
                    self._bad,
                )
            self._answers[id(leaf)] = found
            if found is not None:
                self._metrics.add("indexes.bytes_read", found.cost.nbytes)
                self._metrics.choices[
                    f"index of data files: {len(found.holding):,} of {len(found.covered):,} may hold {leaf}"
                ] += 1
        return self._answers[id(leaf)]
