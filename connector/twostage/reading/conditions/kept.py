"""The storage of the condition cache: the worker's memory and, optionally, the host's files.

Takes `ConditionAnswer`s under a name (`names`); returns them to scans that look up the same name, until their
space is needed. Memory keeps the answers that save the most bytes of reading per byte held and are used most:
an answer's worth is its uses times that ratio, and ages as others are dropped (GreedyDual-Size-Frequency,
Cherkasova 1998). The rules: an answer is exact for the rows that it decides; the bytes held are bounded; a
failure of the host's files never fails the scan.
"""

from __future__ import annotations

import heapq
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twostage.deletes.cache.directory import first_usable
from twostage.deletes.cache.host import SUFFIX, HostCache, Purpose
from twostage.reading.conditions.compact_rows import CompactRows
from twostage.reading.conditions.names import of_engine

if TYPE_CHECKING:
    from twostage.metrics import Metrics
    from twostage.options import ReadSettings
    from twostage.selection import Selection

MEMORY_BYTES = 32 * 2**20
"""In a worker's memory; at most an eighth of ``task-memory``."""
KEPT_BUDGET_DIVISOR = 8
ENTRY_BYTES = 512
"""Overhead of an entry beyond its rows: two arrays, a name, a place in two tables."""
MIN_BYTES_SAVED_FOR_A_FILE = 64 * 2**10
"""Reading fewer takes no longer than reading a file of the host's cache: 0.1 ms, and 0.2 ms to write it."""
KIND = "condition"
CONDITIONS = Purpose("condition_cache", "conditions", "filter.cache-size")


@dataclass(frozen=True, slots=True, eq=False)
class ConditionAnswer:
    """Which rows of a row group meet a condition.

    Attributes:
        matching: The rows that do.
        undecided: The rows for which it is not known, such as those that were deleted when the condition was
            evaluated.
        saved: Bytes of the columns that need not be read.
    """

    matching: CompactRows
    undecided: CompactRows
    saved: int

    @property
    def held(self) -> int:
        """The bytes that it takes."""
        return ENTRY_BYTES + self.matching.nbytes + self.undecided.nbytes

    @property
    def is_worth_keeping(self) -> bool:
        """Whether it takes no more bytes than it saves."""
        return self.held <= self.saved

    def of(self, rows: Selection) -> Selection | None:
        """Return which of the rows meet the condition; None if some of them are undecided."""
        undecided = self.undecided.selection()
        if undecided.count and (rows & undecided).count:
            return None
        return rows & self.matching.selection()

    def joined(self, other: ConditionAnswer) -> ConditionAnswer:
        """Return the combination of two answers for one condition."""
        undecided = self.undecided.selection() & other.undecided.selection()
        matching = self.matching.selection() | other.matching.selection()
        return ConditionAnswer(
            CompactRows.of(matching), CompactRows.of(undecided), max(self.saved, other.saved)
        )


class KeptAnswers:
    """Answers in memory, bounded by bytes; those that save least per byte held are dropped first."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._lock = threading.Lock()
        self._answers: dict[str, ConditionAnswer] = {}
        self._worth: dict[str, tuple[float, int]] = {}
        """By name: its current worth, and its uses."""
        self._least: list[tuple[float, str]] = []
        """A heap; an entry is valid only if its worth is the one in `_worth`."""
        self._age = 0.0

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, name: str) -> ConditionAnswer | None:
        """Return an answer, or None, and count a use of it."""
        with self._lock:
            answer = self._answers.get(name)
            if answer is not None:
                self._weigh(name, answer, self._worth[name][1] + 1)
            return answer

    def put(self, name: str, answer: ConditionAnswer, *, limit: int) -> None:
        """Keep an answer, replacing any under its name; drop others until all fit in `limit` bytes."""
        with self._lock:
            _, uses = self._worth.get(name, (0.0, 1))
            self._drop(name)
            if answer.held > limit:
                return
            self._answers[name] = answer
            self.nbytes += answer.held
            self._weigh(name, answer, uses)
            while self.nbytes > limit:
                worth, least = heapq.heappop(self._least)
                if self._worth.get(least, (None, 0))[0] == worth:
                    self._age = worth
                    self._drop(least)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._answers.clear()
            self._worth.clear()
            self._least.clear()
            self.nbytes, self._age = 0, 0.0

    def _weigh(self, name: str, answer: ConditionAnswer, uses: int) -> None:
        worth = self._age + uses * answer.saved / answer.held
        self._worth[name] = (worth, uses)
        heapq.heappush(self._least, (worth, name))
        if len(self._least) > 8 * len(self._answers) + 64:
            self._least = [(known, other) for other, (known, _) in self._worth.items()]
            heapq.heapify(self._least)

    def _drop(self, name: str) -> None:
        answer = self._answers.pop(name, None)
        if answer is not None:
            del self._worth[name]
            self.nbytes -= answer.held


KEPT = KeptAnswers()
"""The worker process's answers."""


class ConditionStore:
    """A scan's access to the answers: the worker's memory, and the host's cache if the options say so.

    Args:
        settings: The scan's.
        metrics: Gains ``condition_cache.*``.
    """

    def __init__(self, settings: ReadSettings, metrics: Metrics) -> None:
        self._limit = min(MEMORY_BYTES, settings.memory_budget // KEPT_BUDGET_DIVISOR)
        self._metrics = metrics
        self._host: HostCache | None = None
        if settings.filter_cache == "host":
            directory, reason = first_usable(settings.filter_cache_dir, "conditions")
            if directory is None:
                metrics.add(CONDITIONS.counter("unusable"))
                metrics.choices[f"conditions are not shared by the host's workers: {reason}"] += 1
            else:
                self._host = HostCache(directory, settings.filter_cache_size, metrics, CONDITIONS)

    def find(self, name: str, num_rows: int) -> ConditionAnswer | None:
        """Return the answer under a name for a row group of `num_rows` rows; None if there is none."""
        answer = KEPT.get(name)
        if answer is None and self._host is not None:
            answer = self._read(self._host, name, num_rows)
            if answer is not None:
                self._metrics.add("condition_cache.hits")
                KEPT.put(name, answer, limit=self._limit)
        return answer if answer is None or answer.matching.num_rows == num_rows else None

    def keep(self, name: str, answer: ConditionAnswer) -> bool:
        """Keep an answer, merged with what was known, if it is worth its bytes; tell whether it was kept."""
        known = KEPT.get(name)
        if known is not None and known.matching.num_rows == answer.matching.num_rows:
            answer = known.joined(answer)
        if not answer.is_worth_keeping:
            return False
        KEPT.put(name, answer, limit=self._limit)
        if self._host is not None and answer.saved >= MIN_BYTES_SAVED_FOR_A_FILE:
            values = {
                "rows": answer.matching.num_rows,
                "forms": [answer.matching.form, answer.undecided.form],
                "saved": answer.saved,
            }
            arrays = [answer.matching.data, answer.undecided.data]
            self._host.save(_file_name(name), KIND, values, arrays)
        return True

    def _read(self, host: HostCache, name: str, num_rows: int) -> ConditionAnswer | None:
        file = host.load(_file_name(name), KIND)
        if file is None:
            return None
        try:
            values = file.description.values
            rows, forms, saved = values["rows"], values["forms"], values["saved"]
            if (
                rows != num_rows
                or len(forms) != len(file.arrays)
                or len(forms) != 2
                or type(saved) is not int
            ):
                raise ValueError("a condition of another form")  # noqa: TRY301
            # Copied, because a mapped file for each row group would mean thousands of them.
            matching, undecided = (
                CompactRows.checked(rows, form, np.array(array))
                for form, array in zip(forms, file.arrays, strict=True)
            )
        except (KeyError, TypeError, ValueError) as error:
            host.ignore(_file_name(name), str(error))
            return None
        return ConditionAnswer(matching, undecided, saved)


def _file_name(name: str) -> str:
    return f"{KIND}-{name}-{of_engine()}{SUFFIX}"
