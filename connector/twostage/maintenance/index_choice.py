"""Which kinds of indexes a column should have, if any (``--kind auto``), and whether it can have those named.

Takes a sample of the columns' values; returns for each column its kinds, or the reason why none would pay.
The rules, from measurements (docs/indexes.md, "Where auto stops"): columns with few values get bitmaps, for
counts and groups, and so do columns where a few of many values make up most rows, up to `MAX_BYTES_PER_ROW`;
of other scattered values, strings get postings and numbers sorted rows; columns with many values also go into
the table-wide index, unless every file has them all; sorted or clustered columns get nothing, because bounds
of files and pages tell as much; and all indexes together stay below `MAX_SHARE_OF_TABLE` of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.data_files.data_file import descend
from twostage.data_files.open_data_file import open_data_file
from twostage.errors import OptionError, UnsupportedFeatureError, nearest
from twostage.indexes.answer import ROWS_OF_A_PAGE
from twostage.indexes.file_keys import FILES
from twostage.indexes.keys import hash_values, indexed_type, key_class
from twostage.indexes.kind import Profile
from twostage.indexes.kinds.elements import Elements, non_null_elements
from twostage.indexes.kinds.registered import KINDS
from twostage.maintenance.index_arguments import AUTO
from twostage.maintenance.index_files import is_stored
from twostage.maintenance.value_frequencies import estimate
from twostage.metrics import Metrics
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from twostage.indexes.kind import CountedValues
    from twostage.schema import Field
    from twostage.task import ScanContext, ScanTask

MAX_SHARE_OF_TABLE = 0.15
"""Of the table's bytes, which all indexes together may take."""
MAX_VALUES_FOR_BITMAPS = 1_000
"""Distinct values per data file up to which each gets a bitmap, whatever that takes."""
MAX_BYTES_PER_ROW = 4.0
"""That bitmaps may take of a data file with more distinct values."""
MIN_FREQUENT_SHARE = 0.5
"""Of the rows: if this many have values that are in every page, postings save no page, but a bitmap saves
them all."""
MAX_SHARE_IN_OTHER_FILES = 0.9
"""Of a file's values: if other files have more of them, an index of files excludes no file."""
_CLUSTERED_RUN = 64
"""Mean rows per run of equal values above which a column counts as clustered."""
_PARTS = 16
"""Of the sampled rows, like pages: if a column is ordered, their bounds separate its values."""
_MAX_OVERLAP = 2.0
"""Mean number of parts whose bounds contain a value, up to which a column is ordered; one if it is sorted."""
_SAMPLE_FILES = 4
_SAMPLE_ROWS = 131_072
_KEY_BYTES = 3.2
"""Per pair in the table-wide index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexChoice:
    """The kinds that a column should have; if none, `reason` says why."""

    field_id: int
    kinds: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnEstimate:
    """What a sample of data files tells about a column.

    Attributes:
        profile: The column's profile in a mean data file.
        is_ordered: Values mostly ascend, or mostly descend, and do not start over again and again.
        num_files: Data files of the table.
        is_nested: The values are elements of lists or keys of maps.
        frequent: The share of the rows whose value is in nearly every page.
        in_other_files: The share of a sampled file's values that other sampled files have.
    """

    profile: Profile
    is_ordered: bool
    num_files: int
    is_nested: bool = False
    frequent: float = 0.0
    in_other_files: float = 0.0


def profile_columns(
    context: ScanContext,
    tasks: Sequence[ScanTask],
    field_ids: Sequence[int],
    counted: Mapping[int, CountedValues] = MappingProxyType({}),
) -> Mapping[int, ColumnEstimate]:
    """Profile columns from the first rows of a few data files; columns that these lack are left out.

    Args:
        context: A scan of the table.
        tasks: Its data files.
        field_ids: The columns.
        counted: What is known about their distinct values.
    """
    step = max(1, len(tasks) // _SAMPLE_FILES)
    found: dict[int, list[pa.Array]] = {field_id: [] for field_id in field_ids}
    for task in tasks[::step][:_SAMPLE_FILES]:
        with open_data_file(context, task, Metrics()) as data_file:
            row_group = next((one for one in data_file.row_groups() if one.num_rows), None)
            if row_group is None:
                continue
            for field_id, arrays in found.items():
                if is_stored(data_file, field_id):
                    target, depth = data_file.leaf_target(field_id)
                    (array,) = next(data_file.stream(row_group, [target], _SAMPLE_ROWS))
                    arrays.append(descend(array, depth))
    rows = sum(task.record_count for task in tasks) // max(1, len(tasks))
    samples = {}
    for field_id, arrays in found.items():
        kind, known = context.schema.field(field_id).type, counted.get(field_id)
        if arrays and isinstance(kind, Primitive):
            samples[field_id] = _sample(kind, arrays, rows, len(tasks), known)
        elif arrays and (inner := indexed_type(kind)) is not None:
            elements = [non_null_elements(array)[1] for array in arrays]
            share = sum(map(len, elements)) / max(1, sum(map(len, arrays)))
            sample = _sample(inner, elements, round(rows * share), len(tasks), known)
            samples[field_id] = replace(sample, is_nested=True)
    return samples


def _sample(
    kind: Primitive,
    arrays: Sequence[pa.Array],
    rows: int,
    num_files: int,
    counted: CountedValues | None = None,
) -> ColumnEstimate:
    """Return what a mean data file of `rows` rows has, extrapolated from the first rows of some."""
    each = [_measure(array) for array in arrays]
    nulls, runs, ascents, nbytes = (float(np.mean([one.shares[place] for one in each])) for place in range(4))
    overlap = float(np.mean([one.overlap for one in each]))
    num_nulls = int(nulls * rows)
    distinct = None if counted is None else counted.among(rows - num_nulls)
    frequencies = estimate([one.counts for one in each], rows - num_nulls, distinct)
    profile = Profile(
        type=kind,
        num_rows=rows,
        num_distinct=max(1, round(frequencies.num_distinct)),
        num_nulls=num_nulls,
        value_bytes=nbytes,
        num_runs=max(1, int(runs * rows)),
        column_bytes=int(nbytes * rows),
        frequencies=frequencies.classes,
    )
    return ColumnEstimate(
        profile=profile,
        is_ordered=(ascents > 0.98 or ascents < 0.02) and overlap <= _MAX_OVERLAP,
        num_files=num_files,
        frequent=frequencies.share_from(max(2.0, rows / ROWS_OF_A_PAGE)),
        in_other_files=_in_others([one.values for one in each]),
    )


class _Measured(NamedTuple):
    """Measurements of the sampled rows of a data file.

    Attributes:
        shares: Per row: NULLs, runs, ascending changes (per change), and bytes.
        overlap: The mean number of `_PARTS` equal parts of the rows whose bounds contain a value.
        values: The distinct values.
        counts: How often each occurs; shape (values,).
    """

    shares: tuple[float, float, float, float]
    overlap: float
    values: pa.Array
    counts: NDArray[np.int64]


def _measure(array: pa.Array) -> _Measured:
    present, rows = array.drop_null(), max(1, len(array))
    nulls, nbytes = array.null_count / rows, array.nbytes / rows
    if len(present) < 2:
        ascending = 1.0 / rows
        counts = np.ones(len(present), np.int64)
        return _Measured((nulls, len(present) / rows, ascending, nbytes), 1.0, present, counts)
    codes = present.dictionary_encode()
    order = pc.sort_indices(codes.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    indices = codes.indices.to_numpy()
    ranked = ranks[indices]
    steps = np.diff(ranked)
    changes = int(np.count_nonzero(steps))
    ascending = int(np.count_nonzero(steps > 0)) / max(1, changes)
    spans = [int(part.max() - part.min()) for part in np.array_split(ranked, min(_PARTS, len(ranked)))]
    overlap = sum(spans) / max(1, len(order) - 1)
    shares = (nulls, (changes + 1) / rows, ascending, nbytes)
    return _Measured(shares, overlap, codes.dictionary, np.bincount(indices, minlength=len(order)))


def _in_others(values: Sequence[pa.Array]) -> float:
    """Return the average share of a file's distinct values that other files have; 0 for a single file."""
    num_values = sum(map(len, values))
    if len(values) < 2 or not num_values:
        return 0.0
    union = len(np.unique(np.concatenate([hash_values(array) for array in values if len(array)])))
    # As if each of two files had a share of the other's values: the part of all that occurs more than once.
    return (num_values - union) / (num_values * (1.0 - 1.0 / len(values)))


def choose_kinds(
    samples: Mapping[int, ColumnEstimate], field_ids: Sequence[int], table_bytes: int, taken: int = 0
) -> list[IndexChoice]:
    """Return the choice for each column, in order; all indexes take at most `MAX_SHARE_OF_TABLE` of the table.

    Args:
        samples: Estimates by column.
        field_ids: The columns.
        table_bytes: Bytes of the data files.
        taken: Bytes of the table's existing indexes.
    """
    left = MAX_SHARE_OF_TABLE * table_bytes - taken
    choices = []
    for field_id in field_ids:
        sample = samples.get(field_id)
        if sample is None:
            choices.append(
                IndexChoice(field_id=field_id, kinds=(), reason="not indexed: no data file has it")
            )
            continue
        kinds, reason = _fitting(sample)
        size = sum(_estimate(kind, sample) for kind in kinds)
        if kinds and size > left:
            reason = (
                f"not indexed: {', '.join(kinds)} would take about {size:,.0f} bytes, "
                f"indexes may take {max(0.0, left):,.0f}{' more' if taken else ''} ({MAX_SHARE_OF_TABLE:.0%} of the table)"
            )
            kinds = ()
        elif kinds:
            left -= size
            reason = f"{', '.join(kinds)}: {reason}, about {size:,.0f} bytes"
        choices.append(IndexChoice(field_id=field_id, kinds=kinds, reason=reason))
    return choices


def _fitting(sample: ColumnEstimate) -> tuple[tuple[str, ...], str]:
    profile = sample.profile
    present = profile.num_rows - profile.num_nulls
    if not present:
        return (), "not indexed: it is NULL nearly everywhere"
    if profile.num_distinct == 1:
        return (), "not indexed: it has one value"
    if sample.is_nested:
        return (Elements.name,), f"about {profile.num_distinct:,} values of elements in a data file"
    if sample.is_ordered:
        return (), "not indexed: it is sorted, so bounds of files and pages suffice"
    if profile.num_distinct <= MAX_VALUES_FOR_BITMAPS:
        return ("values",), f"about {profile.num_distinct:,} values in a data file"
    if profile.num_rows / profile.num_runs > _CLUSTERED_RUN:
        return (), "not indexed: equal values are neighbours, so bounds of pages suffice"
    each = KINDS["values"].estimate(profile) / profile.num_rows
    is_frequent = sample.frequent >= MIN_FREQUENT_SHARE
    about = f"about {profile.num_distinct:,} {'' if is_frequent else 'scattered '}values in a data file"
    if is_frequent:
        about += f", {sample.frequent:.0%} of the rows have such as are in every page"
    if is_frequent and each <= MAX_BYTES_PER_ROW:
        kinds = ["values"]
    else:
        kinds = ["postings" if key_class(profile.type) == "text" else "sorted"]
        about += f" (values: {each:.1f} bytes a row, too many)" if is_frequent else ""
    if kinds == ["sorted"]:
        about += _others_beside_sorted(profile)
    if sample.num_files > 1 and sample.in_other_files <= MAX_SHARE_IN_OTHER_FILES:
        kinds.append(FILES)
    elif sample.num_files > 1:
        about += "; not files, every data file has nearly all values"
    return tuple(kinds), about


def _others_beside_sorted(profile: Profile) -> str:
    """Return why other kinds for ranges are not chosen: slices never fit beside sorted rows of this many values."""
    reasons = ["; not bins, which leave rows to check in every page"]
    if KINDS["slices"].refuses(profile.type) is None:
        both = sum(KINDS[kind].estimate(profile) for kind in ("sorted", "slices")) / profile.num_rows
        reasons.append(f", nor slices in addition, together {both:.1f} bytes a row")
    return "".join(reasons)


def _estimate(kind: str, sample: ColumnEstimate) -> float:
    profile = sample.profile
    each = _KEY_BYTES * profile.num_distinct if kind == FILES else KINDS[kind].estimate(profile)
    return each * sample.num_files


def check_kinds(field: Field, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return kinds named for a column, once checked.

    Raises:
        OptionError: There is no such kind, or ``auto`` is among them.
        UnsupportedFeatureError: The column's type has no such index.
    """
    if AUTO in kinds:
        raise OptionError(
            "BAD_OPTION", "'auto' combined with other kinds of index", stage="options",
            hint="Name only auto, or the kinds to build.",
        )  # fmt: skip
    for kind in kinds:
        if kind not in KINDS and kind != FILES:
            raise OptionError(
                "BAD_OPTION", f"No such kind of index: {kind!r}", stage="options",
                hint=nearest(kind, [AUTO, *KINDS, FILES]),
            )  # fmt: skip
        if kind in KINDS:
            reason = KINDS[kind].refuses(field.type)
        else:
            reason = None if key_class(field.type) else "it does not index elements of lists"
        if reason is not None:
            raise UnsupportedFeatureError(
                "NO_INDEX",
                f"Column {field.name!r} cannot have an index of kind {kind}: {reason}",
                stage="index",
            )
    return kinds
