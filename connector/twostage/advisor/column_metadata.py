"""What is known of a table's columns: values for the formulas of the advisor, packed into one JSON file.

Takes and gives plain values and their JSON; `collect.py` makes them of a table. The rule: what is not known is missing.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from twostage.advisor.selectivity import Cardinalities
from twostage.errors import CorruptFileError
from twostage.indexes.answer import ROWS_OF_A_PAGE
from twostage.indexes.file_keys import FILES
from twostage.indexes.kind import Profile
from twostage.indexes.kinds.registered import KINDS
from twostage.schema import Primitive, parse_type

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
BYTES_PER_ROW = {"values": 2.0, "postings": 3.5, "sorted": 3.5, "bins": 1.0, "elements": 3.5}
"""Of an index of a kind, for each row, of `elements` for each element; of `values` at most: rows that are neighbours take less,
but more values than `MAX_DISTINCT_FOR_VALUES` something for each."""
MAX_DISTINCT_FOR_VALUES = 1_000
"""Different values of a data file up to which a column gets the index kind ``values``, as ``index create --kind auto`` decides."""
MAX_BYTES_OF_A_ROW = 4.0
"""That ``values`` of more may take."""
_BYTES_OF_A_VALUE = 16.0
"""In an index, where it is not known."""
BYTES_PER_KEY = 3.0
"""Of a `files` index, for each distinct value of each data file."""
_BITS = {"int": 32, "date": 32}
"""Of values of a type, where it is not known how many there are; of any other type 64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMetadata:
    """What is known of one column.

    Attributes:
        type: Iceberg's type, as text.
        rows: Rows that have a place for it, NULL or not.
        nulls: NULL rows; None if not known.
        distinct: Distinct values of the table, of lists and maps distinct elements or keys; estimated, see `is_exact`.
        distinct_per_file: Distinct values of a data file, on average.
        is_exact: `distinct` was counted over all rows, not estimated.
        entries_per_row: Values per row, NULL elements left out; 1 for a column that is no list or map.
        bytes: Compressed bytes of its column chunks; 0 if not known.
        dictionary_bytes: Of these, dictionaries.
        pages: Data pages of its column chunks; 0 if not known.
        dictionary_share: Share of the sampled column chunks that are dictionary-encoded throughout, 0 to 1.
        bloom_share: Share of them with a Bloom filter, as their footers say.
        writes_bloom: The table's properties tell writers to give it Bloom filters.
        overlap: How clustered it is: the share of data files whose bounds hold a value, on average; 1 / files where each value
            is in one file, 1 where bounds exclude nothing. None without bounds.
        page_overlap: The same of the pages of a column chunk, on average of the sampled ones: a value that is looked for is in so
            many of them. None without bounds of pages, or with fewer than three pages.
        span_days: Of dates and timestamps, the days from the least to the greatest, as the bounds in manifests have them; None
            for other types, or without bounds.
        indexed: The kinds of the index that it has already.
    """

    type: str = ""
    rows: int = 0
    nulls: int | None = None
    distinct: float | None = None
    distinct_per_file: float | None = None
    is_exact: bool = False
    entries_per_row: float = 1.0
    bytes: int = 0
    dictionary_bytes: int = 0
    pages: int = 0
    dictionary_share: float = 0.0
    bloom_share: float = 0.0
    writes_bloom: bool = False
    overlap: float | None = None
    page_overlap: float | None = None
    span_days: float | None = None
    indexed: tuple[str, ...] = ()

    @property
    def has_elements(self) -> bool:
        """Whether it is a list or a map."""
        return self.type.startswith(("list<", "map<"))

    @property
    def slices(self) -> int:
        """How many bitmaps an index of the kind ``slices`` would have, as if a data file's values lay closely together."""
        if self.distinct_per_file is None:
            return _BITS.get(self.type, 64)
        return min(64, max(1, math.ceil(self.distinct_per_file)).bit_length())

    def has_bitmaps(self, files: int) -> bool:
        """Whether the kind ``values`` fits a column of a table of so many files.

        It has few values, or each is in about every page, so that row positions of one save no page, and that many bitmaps fit.
        How many rows the frequent values have is not known: all are taken to be about equally frequent.
        """
        distinct = self.distinct_per_file
        if distinct is None:
            return False
        size = self.index_bytes("values", files)
        fits = size is not None and size <= MAX_BYTES_OF_A_ROW * self.rows
        return distinct <= MAX_DISTINCT_FOR_VALUES or (distinct < ROWS_OF_A_PAGE and fits)

    @property
    def possible_kinds(self) -> tuple[str, ...]:
        """The kinds of index that a column of this type can have."""
        if self.has_elements:
            return ("elements",)
        try:
            kind = parse_type(self.type)
        except CorruptFileError:
            return ()  # written by hand, without a type
        return (*(name for name, one in KINDS.items() if one.refuses(kind) is None), FILES)

    def index_sizes(self, files: int) -> dict[str, int]:
        """Return the estimated bytes of an index, by each kind that the column can have and of which that is known."""
        sizes = {kind: self.index_bytes(kind, files) for kind in self.possible_kinds}
        return {kind: round(size) for kind, size in sizes.items() if size is not None}

    def index_bytes(self, kind: str, files: int) -> float | None:
        """Return the estimated bytes of an index of a kind; None if that is not known, or the kind is not."""
        if kind == "files":
            return None if self.distinct_per_file is None else BYTES_PER_KEY * self.distinct_per_file * files
        if kind == "slices":
            return self.slices * self.rows / 8
        if kind not in BYTES_PER_ROW:
            return None
        if kind == "values" and (self.distinct_per_file or 0.0) > MAX_DISTINCT_FOR_VALUES:
            return self._bytes_of_many_bitmaps(files)
        return BYTES_PER_ROW[kind] * self.rows * (self.entries_per_row if kind == "elements" else 1.0)

    def _bytes_of_many_bitmaps(self, files: int) -> float:
        each = max(1, round(self.rows / max(1, files)))
        profile = Profile(
            type=Primitive("long"),
            num_rows=each,
            num_distinct=min(each, round(self.distinct_per_file or 1.0)),
            num_nulls=round((self.nulls or 0) / max(1, files)),
            value_bytes=_BYTES_OF_A_VALUE,
            num_runs=each,
            column_bytes=0,
        )
        return float(KINDS["values"].estimate(profile) * files)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """What is known of a table at a snapshot: its size, where it is, its layout, its columns by name.

    `location` is its folder; empty if not known. `compile_bytes` is what compiling its equality deletes would read, 0 where it
    has none; None if not known.
    """

    table: str
    snapshot: int | None
    rows: int
    files: int
    bytes: int
    location: str = ""
    compile_bytes: int | None = None
    partitioning: tuple[str, ...] = ()
    sort_order: tuple[str, ...] = ()
    columns: Mapping[str, ColumnMetadata] = field(default_factory=dict)

    @property
    def cardinalities(self) -> Cardinalities:
        """What the formulas take of it."""
        return Cardinalities(
            distinct={name: one.distinct for name, one in self.columns.items() if one.distinct is not None},
            entries_per_row={name: one.entries_per_row for name, one in self.columns.items()},
        )

    @property
    def bytes_per_row(self) -> dict[str, float]:
        """What a row of each column takes in data files, compressed; without columns of which that is not known."""
        return {name: one.bytes / one.rows for name, one in self.columns.items() if one.bytes and one.rows}

    def json(self) -> str:
        """Return it as JSON; with it, of each column, the estimated size of an index of each kind, as ``index_bytes``."""
        plain = asdict(self)
        for name, one in self.columns.items():
            plain["columns"][name]["index_bytes"] = one.index_sizes(self.files)
        return json.dumps({"v": VERSION, **plain}, indent=1)


def parse_metadata(text: str) -> TableColumns:
    """Return what `TableColumns.json` gave.

    Raises:
        ValueError: It is no such JSON.
    """
    raw = json.loads(text)
    if not isinstance(raw, dict) or raw.pop("v", None) != VERSION or not isinstance(raw.get("columns"), dict):
        raise ValueError("no column metadata, or of another version")
    try:
        columns = {
            str(name): ColumnMetadata(
                **{**_known(ColumnMetadata, one), "indexed": tuple(one.get("indexed", ()))}
            )
            for name, one in raw.pop("columns").items()
        }
        layout: dict[str, Any] = {name: tuple(raw.pop(name, ())) for name in ("partitioning", "sort_order")}
        return TableColumns(**_known(TableColumns, raw), **layout, columns=columns)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"no column metadata: {error}") from None


def _known(kind: type, raw: Mapping[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in raw.items() if name in names}
