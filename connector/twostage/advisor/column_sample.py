"""A sample of a table's columns: what a Spark task of ``advise collect`` reads from some data files.

Takes a unit of work (data files, columns); returns a `ColumnSample` per column, which can be merged with
others and stored as JSON. The rule: only the first row group of each file is read, one column after another,
and only counts and a sketch are kept.
"""

from __future__ import annotations

import base64
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import datasketches
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.data_files.data_file import descend
from twostage.data_files.open_data_file import open_data_file
from twostage.errors import TwoStageError
from twostage.indexes.keys import hash_values
from twostage.indexes.kinds.elements import non_null_elements
from twostage.metrics import Metrics
from twostage.schema import element_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.task import ScanContext, ScanTask

SKETCH_LG_K = 12
"""Binary logarithm of the number of hashes in a theta sketch: up to that many distinct values are counted
exactly, more with a standard error of 1.6 %. A sketch takes 32 KiB at most."""
MAX_ROW_GROUPS = 256
"""Row groups whose counts are kept; the oldest are dropped first, as only the average matters."""
_COUNTS = (
    *("rows", "nulls", "entries", "nbytes", "dictionary_bytes"),
    *("chunks", "dictionaries", "blooms", "pages", "bounded"),
)


@dataclass(slots=True)
class ColumnSample:
    """What was read from a column.

    Attributes:
        rows: Rows that were read.
        nulls: Of these, NULL.
        entries: Values; for lists and maps their elements or keys, without NULL.
        nbytes: Compressed bytes of the column chunks.
        dictionary_bytes: Of these, dictionaries.
        chunks: Column chunks that were read.
        dictionaries: Of these, dictionary-encoded throughout.
        blooms: Of these, with a Bloom filter.
        pages: Data pages.
        bounded: Chunks of three pages or more, all with bounds.
        page_overlaps: The sum over these of `overlap_of` their bounds.
        row_groups: For each, the number of entries and of distinct ones.
        sketch: A compact theta sketch of the distinct values' hashes, serialized; empty without any.
    """

    rows: int = 0
    nulls: int = 0
    entries: int = 0
    nbytes: int = 0
    dictionary_bytes: int = 0
    chunks: int = 0
    dictionaries: int = 0
    blooms: int = 0
    pages: int = 0
    bounded: int = 0
    page_overlaps: float = 0.0
    row_groups: list[tuple[int, int]] = field(default_factory=list)
    sketch: bytes = b""

    def merge(self, other: ColumnSample) -> None:
        """Add what was read from other row groups."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.page_overlaps += other.page_overlaps
        self.row_groups = [*self.row_groups, *other.row_groups][-MAX_ROW_GROUPS:]
        if self.sketch and other.sketch:
            union = datasketches.theta_union(SKETCH_LG_K)
            for one in (self.sketch, other.sketch):
                union.update(datasketches.compact_theta_sketch.deserialize(one))
            self.sketch = union.get_result().serialize()
        else:
            self.sketch = self.sketch or other.sketch

    @property
    def distinct(self) -> tuple[float, bool]:
        """How many distinct values there are among the entries, and whether they were counted, not estimated."""
        if not self.sketch:
            return 0.0, True
        found = datasketches.compact_theta_sketch.deserialize(self.sketch)
        return float(found.get_estimate()), not found.is_estimation_mode()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        counts: dict[str, float] = {name: getattr(self, name) for name in _COUNTS}
        sketch = base64.b64encode(self.sketch).decode("ascii")
        counts["page_overlaps"] = self.page_overlaps
        return {**counts, "row_groups": [list(one) for one in self.row_groups], "sketch": sketch}

    @staticmethod
    def of_dict(raw: Mapping[str, Any]) -> ColumnSample:
        """Parse the output of `as_dict`.

        Raises:
            ValueError: It is something else.
        """
        try:
            found = ColumnSample()
            for name in _COUNTS:
                setattr(found, name, int(raw[name]))
            found.page_overlaps = float(raw["page_overlaps"])
            found.row_groups = [(int(entries), int(distinct)) for entries, distinct in raw["row_groups"]]
            found.sketch = base64.b64decode(raw["sketch"], validate=True)
            if found.sketch:
                datasketches.compact_theta_sketch.deserialize(found.sketch)
        except (KeyError, TypeError, ValueError, RuntimeError, IndexError) as error:
            raise ValueError(f"no sample of a column: {error}") from None
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleWork:
    """What one Spark task reads.

    Attributes:
        tasks: Whole data files.
        field_ids: The columns, see `collect.columns_of`.
    """

    context: ScanContext
    tasks: tuple[ScanTask, ...]
    field_ids: tuple[int, ...]


def sample_files(work: SampleWork) -> dict[int, ColumnSample]:
    """Run one unit of work; return what was read from each column, by field id.

    Raises:
        StorageError: A data file could not be read.
        CorruptFileError: A data file is damaged.
    """
    found: dict[int, ColumnSample] = {}
    for task in work.tasks:
        with open_data_file(work.context, task, Metrics()) as data_file:
            row_group = next(iter(data_file.row_groups()), None)
            if row_group is None or not row_group.num_rows:
                continue
            for field_id in work.field_ids:
                try:
                    sample = _read_column(data_file, row_group, field_id)
                except (TwoStageError, pa.ArrowNotImplementedError):
                    continue  # a type that cannot be read or compared cannot have an index either
                if field_id in found:
                    found[field_id].merge(sample)
                else:
                    found[field_id] = sample
    return found


def _read_column(data_file: DataFile, row_group: RowGroup, field_id: int) -> ColumnSample:
    values, entries, leaf_id = _values(data_file, row_group, field_id)
    distinct = pc.unique(entries).drop_null()
    pages = data_file.page_bounds(row_group, leaf_id)
    known = () if pages is None else pages.bounds
    bounds = [(one.lower, one.upper) for one in known if one.lower is not None and one.upper is not None]
    overlap = overlap_of(bounds) if len(bounds) == len(known) else None
    facts = data_file.chunk_facts(row_group, leaf_id)
    return ColumnSample(
        rows=row_group.num_rows,
        nulls=values.null_count,
        entries=len(entries),
        nbytes=data_file.stored_bytes(row_group, {leaf_id}),
        dictionary_bytes=facts.dictionary_bytes,
        chunks=1,
        blooms=int(facts.has_bloom_filter),
        dictionaries=int(facts.is_dictionary_encoded),
        pages=0 if pages is None else len(pages.first_rows),
        bounded=int(overlap is not None),
        page_overlaps=overlap or 0.0,
        row_groups=[(len(entries), len(distinct))],
        sketch=_sketch(distinct),
    )


def overlap_of(bounds: Sequence[tuple[Any, Any]]) -> float | None:
    """Return the mean share of files or pages whose bounds contain the least value of one; None below three."""
    if len(bounds) < 3:
        return None
    lows, highs = sorted(low for low, _ in bounds), sorted(high for _, high in bounds)
    overlaps = sum(bisect_right(lows, value) - bisect_left(highs, value) for value in lows)
    return overlaps / len(bounds) ** 2


def _values(data_file: DataFile, row_group: RowGroup, field_id: int) -> tuple[pa.Array, pa.Array, int]:
    """Return a column of a row group, its entries, and their field id: a list's elements, a map's keys."""
    element = element_of(data_file.context.schema.field(field_id).type)
    if element is None:
        values = data_file.read_leaf(row_group, field_id)
        return values, values, field_id
    target, depth = data_file.leaf_target(field_id)
    parts = [
        descend(array, depth)
        for (array,) in data_file.stream(row_group, [target], max(1, row_group.num_rows))
    ]
    values = pa.concat_arrays(parts)
    return values, non_null_elements(values)[1], element.id


def _sketch(distinct: pa.Array) -> bytes:
    """Return a serialized theta sketch of the hashes of values (no NULL), which NumPy computes at once."""
    if not len(distinct):
        return b""
    if pa.types.is_boolean(distinct.type):
        distinct = distinct.cast(pa.int8())
    sketch = datasketches.update_theta_sketch(SKETCH_LG_K)
    for one in hash_values(distinct).view(np.int64).tolist():  # 50 ns each
        sketch.update(one)
    compact: bytes = sketch.compact().serialize()
    return compact
