"""What indexes offer a logged scan: what an answer would read, and whether the reader would use it.

Takes a leaf of a logged filter and the kinds of index that its column has; returns estimates for one data
file. The rule: an index is used if `reading.index_answers` and `planning.index_pruning` would use it, by
their constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from twostage.advisor.logged_predicate import RANGE
from twostage.advisor.selectivity import HAS_ELEMENT
from twostage.indexes.answer import ROWS_OF_A_PAGE
from twostage.indexes.file_keys import FILES
from twostage.indexes.kinds.bins import BINS
from twostage.indexes.kinds.bit_slices import MAX_INTERVALS
from twostage.indexes.kinds.sorted_rows import MAX_SHARE_FOUND
from twostage.indexes.sorted_pairs import PAIRS_PER_BLOCK
from twostage.planning.index_pruning import MIN_FILES_TO_LOOK_UP
from twostage.reading.index_answers import MIN_GAIN
from twostage.storage.ranges import LOCAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
    from twostage.advisor.logged_predicate import LoggedPredicate

_ROWS_OF_A_CONTAINER, _CONTAINER_BYTES = 65_536, 8_192
"""Rows and bytes of a bitmap's container; two bytes per set row if that is less."""
_VALUES_OF_A_BLOCK, _BYTES_OF_A_VALUE = 512, 16
"""Of the kind ``values``: a value with the place of its bitmap, compressed."""
_POSTINGS_BYTES_PER_KEY = 6_000
"""Read for one key from the kinds ``postings`` and ``sorted``: one block, occasionally two."""
_BYTES_OF_A_ROW = 3.5
"""In these kinds."""
_ROWS_TO_CHECK = 1 / 32
"""Expected per end of a range: keys have five bits more than it takes to distinguish the rows."""
_FILES_BYTES_PER_KEY = 10_000
"""Read for one key from the kind ``files``, for the whole table."""
_POINTS = frozenset({"=", "<=>", "in"})
_LISTED = frozenset({"=", "<=>", "in", "<>", "not in", "not <=>"})
_RANGES = frozenset({"<", "<=", ">", ">=", RANGE})
_NULLS = frozenset({"is null", "not is null"})


class Scanned(Protocol):
    """What offers are computed from: a scan and its table, see `byte_model.Emulation`."""

    @property
    def metadata(self) -> TableColumns:
        """The table's metadata."""

    @property
    def files(self) -> int:
        """Data files that the scan read."""

    @property
    def groups(self) -> int:
        """Their row groups."""

    @property
    def rows(self) -> float:
        """Rows of a row group."""

    def share(self, part: LoggedPredicate) -> float:
        """Return the share of rows for which a predicate is true."""

    def reached(self, leaf: LoggedPredicate) -> float:
        """Return the share of the data files read whose bounds do not exclude a leaf."""

    def column(self, name: str) -> ColumnMetadata | None:
        """Return what is known about a column."""

    def bytes_of(self, name: str, rows: float) -> float:
        """Return the bytes read for `rows` rows of a row group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An index's estimated answer for one leaf, in one data file.

    Attributes:
        cost: The bytes that the reader expects to read, requests included.
        nbytes: The bytes that it does read.
        to_check: Rows whose values remain to be checked, as the reader expects.
        unsure: The share of rows that are checked but do not match.
        is_exact: No rows remain to be checked.
        left: Rows that do remain to be checked; None: all rows found.
        reached: The share of the data files with any such row; for the others the index reads nothing.
    """

    cost: float
    nbytes: float
    to_check: float
    unsure: float
    is_exact: bool
    left: float | None = None
    reached: float = 1.0


def offer_of(leaf: LoggedPredicate, indexed: Mapping[str, tuple[str, ...]], scan: Scanned) -> Offer | None:
    """Return what the index of a leaf's column offers; None if it has none that answers."""
    known = scan.column(leaf.columns[0]) if len(leaf.columns) == 1 else None
    kinds = indexed.get(leaf.columns[0], ()) if known is not None else ()
    if known is None or not kinds:
        return None
    rows = scan.metadata.rows / max(1, scan.metadata.files)
    keys = max(1, leaf.count)
    bitmap = math.ceil(rows / _ROWS_OF_A_CONTAINER) * _CONTAINER_BYTES
    if leaf.op in _NULLS:
        nulls = (
            0 if known.nulls == 0 else min(bitmap, 2 * (known.nulls or rows) / max(1, scan.metadata.files))
        )
        return Offer(cost=nulls + LOCAL.gap, nbytes=nulls, to_check=0, unsure=0, is_exact=True)
    if "elements" in kinds and leaf.op == HAS_ELEMENT:
        found = rows * scan.share(leaf)  # rows, not values: each list found is checked again
        nbytes = 1.125 * _POSTINGS_BYTES_PER_KEY + _BYTES_OF_A_ROW * found
        cost = nbytes + 2.125 * LOCAL.gap
        return Offer(cost=cost, nbytes=nbytes, to_check=max(1.0, found), unsure=0, is_exact=False)
    if "values" in kinds:
        distinct = max(1.0, known.distinct_per_file or 1.0)
        of_a_value = min(bitmap, 2 * rows / distinct) + 16
        blocks = math.ceil(distinct / _VALUES_OF_A_BLOCK)
        block = min(distinct, _VALUES_OF_A_BLOCK) * _BYTES_OF_A_VALUE
        if leaf.op in _LISTED:
            num_blocks, expected = min(blocks, keys), keys * of_a_value
            values = keys * of_a_value
        else:
            num_blocks = max(1, math.ceil(blocks * scan.share(leaf)))
            values = scan.share(leaf) * distinct * of_a_value
            expected = num_blocks / blocks * distinct * of_a_value
        cost = num_blocks * block + expected + 2 * num_blocks * LOCAL.gap
        return Offer(cost=cost, nbytes=num_blocks * block + values, to_check=0, unsure=0, is_exact=True)
    if ("postings" in kinds or "sorted" in kinds) and leaf.op in _POINTS:
        found = rows * scan.share(leaf)
        # Rows of frequent values, which the directory tells.
        frequent_rows = found if found > keys * 2 * PAIRS_PER_BLOCK else 0.0
        nbytes = keys * 1.125 * _POSTINGS_BYTES_PER_KEY + _BYTES_OF_A_ROW * frequent_rows
        cost = nbytes + keys * 2.125 * LOCAL.gap  # a page of the directory for each
        return Offer(cost=cost, nbytes=nbytes, to_check=keys + frequent_rows, unsure=0, is_exact=False)
    if "sorted" in kinds and leaf.op in _RANGES:
        reached = scan.reached(leaf)
        within = min(1.0, scan.share(leaf) / reached)
        if within <= MAX_SHARE_FOUND:
            nbytes = _POSTINGS_BYTES_PER_KEY + _BYTES_OF_A_ROW * rows * within
            cost = nbytes + 2 * LOCAL.gap
            left = (
                2 * _ROWS_TO_CHECK if known.type not in ("string", "binary") else None
            )  # keys are prefixes of strings
            return Offer(
                cost=cost,
                nbytes=nbytes * reached,
                to_check=2,
                unsure=0,
                is_exact=False,
                left=left,
                reached=reached,
            )
        if reached < 1.0:
            unsure = max(0.0, reached - scan.share(leaf))  # all rows of the files that it reaches
            return Offer(cost=LOCAL.gap, nbytes=0, to_check=0, unsure=unsure, is_exact=False, reached=reached)
    if "slices" in kinds and (leaf.op in _RANGES or leaf.op in _LISTED) and keys <= MAX_INTERVALS:
        nbytes = known.slices * rows / 8  # all slices are read for any predicate
        return Offer(cost=nbytes + LOCAL.gap, nbytes=nbytes, to_check=0, unsure=0, is_exact=True)
    if "bins" in kinds and (leaf.op in _RANGES or leaf.op in _LISTED):
        edges = 2 / BINS  # the bins at a range's ends remain to be checked
        return Offer(
            cost=rows + LOCAL.gap, nbytes=rows, to_check=rows * edges, unsure=edges / 2, is_exact=False
        )
    return None


def pays(offer: Offer, column: str, remaining: float | None, scan: Scanned) -> bool:
    """Tell whether the reader would use an index if others leave `remaining` rows of the file; None: all."""
    groups = scan.groups / scan.files
    pages = max(1.0, groups * math.ceil(scan.rows / ROWS_OF_A_PAGE))
    size = groups * scan.bytes_of(column, scan.rows)
    share = 1.0 if remaining is None else min(1.0, remaining / pages)
    checked = min(share, offer.to_check / pages)
    return (offer.cost + size * checked) * MIN_GAIN <= size * share + groups * LOCAL.gap


def holding_files(
    parts: Sequence[LoggedPredicate], indexed: Mapping[str, tuple[str, ...]], scan: Scanned
) -> tuple[float, float]:
    """Return the share of data files that table-wide indexes leave, 0 to 1, and the bytes read from them."""
    if scan.files < MIN_FILES_TO_LOOK_UP:
        return 1.0, 0.0
    total, left = 0.0, 1.0
    for part in parts:
        share, nbytes = _holding(part, indexed, scan)
        total += nbytes
        left *= share
    return left, total


def _holding(
    part: LoggedPredicate, indexed: Mapping[str, tuple[str, ...]], scan: Scanned
) -> tuple[float, float]:
    if part.children:
        found = [_holding(child, indexed, scan) for child in part.children]
        shares = [share for share, _ in found]
        left = math.prod(shares) if part.op == "and" else 1.0 - math.prod(1.0 - share for share in shares)
        return left, sum(nbytes for _, nbytes in found)
    if part.op not in _POINTS or len(part.columns) != 1 or FILES not in indexed.get(part.columns[0], ()):
        return 1.0, 0.0
    rows = scan.share(part) * scan.rows * scan.groups
    return 1.0 - (1.0 - 1.0 / scan.files) ** rows, max(1, part.count) * _FILES_BYTES_PER_KEY
