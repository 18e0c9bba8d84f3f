"""What is known about a table's columns: values for the advisor's formulas, in one JSON file.

Converts plain values to and from JSON; `collect.py` collects them from a table. The rule: what is not known
is missing.
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
"""Of an index, by kind; for `elements` per element. For `values` an upper bound: adjacent rows take less, but
with more than `MAX_DISTINCT_FOR_VALUES` values each value takes some."""
MAX_DISTINCT_FOR_VALUES = 1_000
"""Distinct values per data file up to which a column gets the kind ``values``, as by ``index create --kind
auto``."""
MAX_BYTES_PER_ROW = 4.0
"""Bytes that ``values`` may take per row if there are more distinct values."""
_BYTES_OF_A_VALUE = 16.0
"""Of a value in an index, if unknown."""
BYTES_PER_KEY = 3.0
"""Of a `files` index, per distinct value of each data file."""
_BITS = {"int": 32, "date": 32}
"""Per value by type, if the number of distinct values is unknown; 64 for any other type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMetadata:
    """What is known about one column.

    Attributes:
        type: Iceberg's type, as text.
        rows: Rows, including those where it is NULL.
        nulls: NULL rows; None if not known.
        distinct: Distinct values in the table, for lists and maps distinct elements or keys; estimated, see
            `is_exact`.
        distinct_per_file: Distinct values of a data file, on average.
        is_exact: `distinct` was counted over all rows, not estimated.
        entries_per_row: Values per row, NULL elements left out; 1 for a column that is no list or map.
        bytes: Compressed bytes of its column chunks; 0 if not known.
        dictionary_bytes: Of these, dictionaries.
        pages: Data pages of its column chunks; 0 if not known.
        dictionary_share: Share of the sampled column chunks that are dictionary-encoded throughout, 0 to 1.
        bloom_share: Share of them with a Bloom filter, as their footers say.
        writes_bloom: The table's properties tell writers to give it Bloom filters.
        overlap: How clustered it is: the share of data files whose bounds contain a value, on average; 1 /
            files if each value is in one file, 1 if bounds exclude nothing. None without bounds.
        page_overlap: The same for the pages of a column chunk, averaged over the sampled ones: the share that
            may contain a value. None without page bounds, or with fewer than three pages.
        span_days: Days from the least to the greatest date or timestamp, by the bounds in manifests; None for
            other types, or without bounds.
        indexed: The kinds of its existing index.
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
        """How many bitmaps an index of kind ``slices`` would have if a data file's values were contiguous."""
        if self.distinct_per_file is None:
            return _BITS.get(self.type, 64)
        return min(64, max(1, math.ceil(self.distinct_per_file)).bit_length())

    def has_bitmaps(self, files: int) -> bool:
        """Tell whether the kind ``values`` fits the column if the table has `files` files.

        It has few values; or each is in nearly every page, so that its row positions save no page, and that
        many bitmaps fit. All values are assumed to be about equally frequent, because their counts are
        unknown.
        """
        distinct = self.distinct_per_file
        if distinct is None:
            return False
        size = self.index_bytes("values", files)
        fits = size is not None and size <= MAX_BYTES_PER_ROW * self.rows
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
        """Return the estimated bytes of an index, for each possible kind that can be estimated."""
        sizes = {kind: self.index_bytes(kind, files) for kind in self.possible_kinds}
        return {kind: round(size) for kind, size in sizes.items() if size is not None}

    def index_bytes(self, kind: str, files: int) -> float | None:
        """Return the estimated bytes of an index of a kind; None if they, or the kind, are unknown."""
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
    """What is known about a table at a snapshot: its size, location, layout, and columns by name.

    `location` is its folder; empty if not known. `compile_bytes` is what compiling its equality deletes would
    read: 0 if it has none, None if not known.
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
        """The part of it that the formulas use."""
        return Cardinalities(
            distinct={name: one.distinct for name, one in self.columns.items() if one.distinct is not None},
            entries_per_row={name: one.entries_per_row for name, one in self.columns.items()},
        )

    @property
    def bytes_per_row(self) -> dict[str, float]:
        """The compressed bytes per row in data files, for each column whose bytes are known."""
        return {name: one.bytes / one.rows for name, one in self.columns.items() if one.bytes and one.rows}

    def json(self) -> str:
        """Return it as JSON, with each column's estimated index size by kind as ``index_bytes``."""
        plain = asdict(self)
        for name, one in self.columns.items():
            plain["columns"][name]["index_bytes"] = one.index_sizes(self.files)
        return json.dumps({"v": VERSION, **plain}, indent=1)


def parse_metadata(text: str) -> TableColumns:
    """Parse the output of `TableColumns.json`.

    Raises:
        ValueError: It is not such JSON.
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
