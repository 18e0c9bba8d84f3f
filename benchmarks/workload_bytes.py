"""The bytes that queries read with every set of indexes, for `advisor_workload.py`.

Takes queries on a table whose columns are all indexed; returns for each query the bytes with each subset of
its columns' indexes, and from their sums what any set of indexes saves, and the best of all sets. Three rules
make that affordable without changing a number: indexes of columns that a filter does not name do not matter
to it; an index that was not read might as well not exist, so that a read counts for each subset between the
indexes offered and those used; and returned columns are read, but not decoded, as their bytes do not depend
on their values.
"""

from __future__ import annotations

import contextlib
import itertools
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa

from twostage.data_files.parquet_file import ParquetDataFile
from twostage.formats.parquet import few_rows
from twostage.formats.parquet.page_reader import PageReader
from twostage.indexes import of_scan
from twostage.indexes.data_file_index import DataFileIndex
from twostage.metrics import Metrics
from twostage.planning import index_pruning, plan as planning
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.reading.pipeline import read_group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from twostage.options import ReadOptions
    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field
    from twostage.table.pinned import PinnedTable
    from twostage.task import ScanPlan


def planned(
    table: PinnedTable, options: ReadOptions, predicate: Predicate, projection: tuple[Field, ...]
) -> ScanPlan:
    """Plan a query."""
    return plan_scan(
        table, options, projection=projection, predicate=predicate, hint=TRUE, limit=None, parallelism=1,
        scan_id=uuid.uuid4().hex,
    )  # fmt: skip


class ByteClock:
    """A clock advanced by filter columns' bytes, so that the reader orders conjuncts the same way on each read."""

    def __init__(self) -> None:
        self.metrics: Metrics | None = None

    def __call__(self) -> int:
        """Return the time: a nanosecond for each byte."""
        return 0 if self.metrics is None else self.metrics.filter_bytes()


def read(plan: ScanPlan, *, timed: bool = True) -> Metrics:
    """Read a planned scan; return the counters.

    Args:
        plan: The scan's plan.
        timed: Order parts of the filter by the time that they take, as usual; otherwise by their bytes.
    """
    metrics = Metrics()
    if not timed:
        metrics.clock = clock = ByteClock()
        clock.metrics = metrics
    metrics.counters.update(plan.counters)
    for group in plan.groups:
        for _ in read_group(group, metrics):
            pass
    return metrics


@contextlib.contextmanager
def undecoded() -> Iterator[None]:
    """Have stage two's columns read and counted, but not decoded: columns that are only returned become NULL.

    Filter columns are decoded as usual. That more than halves the time.
    """
    is_fetching = False
    select, take = ParquetDataFile.select, few_rows.take_rows
    decode, iterate = PageReader._decode, ParquetDataFile._iterate  # noqa: SLF001

    def select_only(self: ParquetDataFile, *given: Any) -> Iterator[list[pa.Array]]:
        nonlocal is_fetching
        steps = select(self, *given)
        while True:
            is_fetching = True
            try:
                arrays = next(steps, None)
            finally:
                is_fetching = False
            if arrays is None:
                return
            yield arrays

    def decode_none(self: PageReader, columns: Any, choice: Any, *given: Any, **named: Any) -> Any:
        if not is_fetching:
            return decode(self, columns, choice, *given, **named)
        types = self.schema.arrow_types()
        return {one.leaf.index: pa.nulls(len(choice.rows), types[one.leaf.index]) for one in columns}

    def iterate_none(self: ParquetDataFile, row_group: Any, wanted: Any, batch_size: int) -> Iterator[Any]:
        if not is_fetching:
            yield from iterate(self, row_group, wanted, batch_size)
            return
        self._count_bytes(row_group, wanted, "fetch")
        for start in range(0, row_group.num_rows, batch_size):
            rows = min(batch_size, row_group.num_rows - start)
            yield [pa.nulls(rows, kind) for _, kind, _ in self._columns(wanted)]

    def take_none(*given: Any, **named: Any) -> Any:
        return None if is_fetching else take(*given, **named)

    with (
        mock.patch.object(ParquetDataFile, "select", select_only),
        mock.patch.object(PageReader, "_decode", decode_none),
        mock.patch.object(ParquetDataFile, "_iterate", iterate_none),
        mock.patch.object(few_rows, "take_rows", take_none),
    ):
        yield


@dataclass(slots=True)
class SubsetReader:
    """Reads queries with the indexes of some columns.

    Args:
        table: The table, whose columns are indexed separately.
        options: Options to read with indexes.
        timed: See `read`.
    """

    table: PinnedTable
    options: ReadOptions
    timed: bool = True
    reads: int = 0
    """How many scans were run."""
    _open: set[int] = field(default_factory=set)
    """Columns whose indexes this process has opened, so that it caches their directories."""

    def bytes_read(
        self, predicate: Predicate, projection: tuple[Field, ...], ids: frozenset[int]
    ) -> tuple[int, frozenset[int]]:
        """Return the bytes that a query reads with the indexes of some columns, and the columns whose indexes it used."""
        used: set[int] = set()
        real, find, find_files = of_scan.indexes_of_scan, DataFileIndex.find, index_pruning.find_files

        def some(*given: Any) -> Any:
            found = real(*given)
            if found is None:
                return None
            groups = tuple(group for group in found.groups if ids.issuperset(group.field_ids))
            runs = tuple(run for run in found.runs if run.field_id in ids)
            table = replace(found.table, runs=runs)
            return replace(found, groups=groups, table=table) if groups or runs else None

        def find_noted(self: DataFileIndex, asked: Any, *given: Any) -> Any:
            used.add(asked.column.field_id)
            return find(self, asked, *given)

        def find_files_noted(place: Any, table: Any, asked: Any, *given: Any) -> Any:
            found = find_files(place, table, asked, *given)
            if found is not None:  # the column has such an index
                used.add(asked.column.field_id)
            return found

        self.reads += 1
        with (
            mock.patch.object(planning, "indexes_of_scan", some),
            mock.patch.object(DataFileIndex, "find", find_noted),
            mock.patch.object(index_pruning, "find_files", find_files_noted),
        ):
            plan = planned(self.table, self.options, predicate, projection)
            counters = read(plan, timed=self.timed).counters
        return counters["bytes.read"] + counters["indexes.bytes_read"], frozenset(used)

    def of_subsets(
        self, predicate: Predicate, projection: tuple[Field, ...], ids: list[int], without: int
    ) -> list[int]:
        """Return the bytes with each subset of some columns' indexes; the bits of a position are its subset.

        Args:
            predicate: The query's predicate.
            projection: The query's projection.
            ids: Field ids of the columns.
            without: The known bytes without indexes.
        """
        if not self._open.issuperset(ids):
            self.bytes_read(predicate, projection, frozenset(ids))
            self._open.update(ids)
        found = [without, *[-1] * ((1 << len(ids)) - 1)]
        for offered in reversed(range(1, len(found))):  # larger ones first
            if found[offered] >= 0:
                continue
            some = frozenset(one for bit, one in enumerate(ids) if offered >> bit & 1)
            nbytes, used_ids = self.bytes_read(predicate, projection, some)
            used = sum(1 << bit for bit, one in enumerate(ids) if one in used_ids)
            for number in range(1, len(found)):
                if number & used == used and number & offered == number and found[number] < 0:
                    found[number] = nbytes
        assert min(found) >= 0, "a subset was not measured"
        return found

    def of_all_subsets(
        self, predicate: Predicate, projection: tuple[Field, ...], ids: list[int]
    ) -> list[int]:
        """Return the same as `of_subsets`, with a separate, decoded read for each; call `of_subsets` first."""
        found = []
        for offered in range(1 << len(ids)):
            some = frozenset(one for bit, one in enumerate(ids) if offered >> bit & 1)
            found.append(self.bytes_read(predicate, projection, some)[0])
        return found


@dataclass(slots=True)
class Measured:
    """Bytes of queries with every subset of the indexes of their columns.

    Args:
        names: The indexed columns.
    """

    names: list[str]
    _queries: list[tuple[tuple[int, ...], NDArray[np.float64], float]] = field(default_factory=list)

    def add(self, columns: list[str], costs: list[int], weight: float = 1.0) -> None:
        """Add a query that counts `weight` times; `costs[n]`: its bytes with the subset of columns in the bits of `n`."""
        places = tuple(self.names.index(name) for name in columns)
        self._queries.append((places, np.array(costs, np.float64), weight))

    def _sums(self) -> dict[tuple[int, ...], NDArray[np.float64]]:
        """Return what each subset saves all queries on the same columns."""
        sums: dict[tuple[int, ...], NDArray[np.float64]] = {}
        for places, costs, weight in self._queries:
            saved = (costs[0] - costs) * weight
            sums[places] = sums[places] + saved if places in sums else saved
        return sums

    def saved(self, sets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bytes that sets of indexes save; the bits of a set are its names."""
        total = np.zeros(len(sets))
        for places, saved in self._sums().items():
            subset = np.zeros(len(sets), np.int64)
            for bit, place in enumerate(places):
                subset |= (sets >> place & 1) << bit
            total += saved[subset]
        return total

    def by_columns(self) -> list[tuple[list[str], list[float]]]:
        """Return the columns that queries filter on, and what each subset of their indexes saves, by its bits."""
        return [
            ([self.names[place] for place in places], list(saved)) for places, saved in self._sums().items()
        ]

    def of(self, names: frozenset[str]) -> float:
        """Return the bytes that one set saves."""
        return float(self.saved(np.array([sum(1 << self.names.index(name) for name in names)]))[0])

    def best(self, count: int) -> tuple[frozenset[str], float]:
        """Return the best of all sets of at most `count` indexes."""
        bits = [1 << place for place in range(len(self.names))]
        sets = np.array([sum(one) for one in itertools.combinations(bits, min(count, len(bits)))], np.int64)
        saved = self.saved(sets)
        place = int(saved.argmax())
        chosen = frozenset(name for bit, name in zip(bits, self.names, strict=True) if sets[place] & bit)
        return chosen, float(saved[place])
