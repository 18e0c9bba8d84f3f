"""The index of one data file, open: which rows a leaf of a predicate is TRUE for, and what it costs to find out.

Takes an index file's footer and a leaf; gives an `IndexAnswer`. The rules: the kinds see non-NULL values alone, NULL and NOT are
decided here, by the bitmap of the NULL rows; an index that turns out bad is not used again, and that is counted once; and
an index of another data file counts as none.
"""

from __future__ import annotations

import copy
import struct
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from pyroaring import BitMap

from twostage.errors import TwoStageError
from twostage.indexes import bitmaps
from twostage.indexes.answer import ROWS_OF_A_PAGE, IndexAnswer, LookupCost
from twostage.indexes.file_stamp import is_replaced
from twostage.indexes.kinds.registered import KINDS
from twostage.indexes.kinds.values import ValuesReader
from twostage.indexes.place import warn
from twostage.indexes.puffin import TAIL_BYTES, BadIndexError, BlobReader
from twostage.indexes.wanted import wanted_of
from twostage.predicates.predicate import Compare, CompareLength, HasElement, In, IsNull, StringMatch
from twostage.schema import Primitive, parse_type
from twostage.storage import files
from twostage.storage.location import parse_location
from twostage.storage.ranged_object import RangedObject

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from twostage.indexes.kind import Found, KindReader
    from twostage.indexes.puffin import PuffinFooter
    from twostage.indexes.wanted import Range, Wanted
    from twostage.metrics import Metrics
    from twostage.task import Storage

    IndexLeaf = Compare | CompareLength | HasElement | In | IsNull | Range | StringMatch

Result = TypeVar("Result")
Kind = TypeVar("Kind", bound="KindReader")
NULLS = "nulls"
"""The kind of the blobs that every indexed column has."""
BYTES_OF_A_PAGE = 32 * 2**10
"""About how many are read to check a row that a kind is not sure of."""
MAX_EXACT_BYTES_RATIO = 4
"""An exact kind is preferred if it reads at most this many times the bytes of another kind, whose rows would have to be checked."""


@dataclass(frozen=True, slots=True, eq=False)
class ValueCounts:
    """How often a column has each value, deleted rows included.

    Attributes:
        values: Distinct non-NULL values, in Spark's order; one zero, one NaN.
        counts: Rows of each, int64.
        nulls: Rows without a value.
    """

    values: pa.Array
    counts: NDArray[np.int64]
    nulls: int


@dataclass(slots=True, eq=False)
class _Column:
    """One column, opened: `kinds` by name, in the order in which to try them."""

    type: Primitive
    num_nulls: int
    kinds: dict[str, KindReader]
    null: BitMap | None = None


@dataclass(slots=True, eq=False)
class _Known:
    """What is known by now about an index file: its `columns` by field id."""

    columns: dict[int, _Column] = field(default_factory=dict)
    is_bad: bool = False


class DataFileIndex:
    """The index of one data file. Threads may share it.

    Args:
        storage: How to open the index file.
        path: The index file.
        footer: Its footer.

    Attributes:
        num_rows: Of the data file.
        field_ids: The columns that it has.

    Raises:
        BadIndexError: The footer does not describe an index.
    """

    def __init__(self, storage: Storage, path: str, footer: PuffinFooter) -> None:
        self._file: _Lazy | RangedObject = _Lazy(storage, path)
        self._footer = footer
        self._known = _Known()
        self._lock = threading.Lock()
        try:
            self.num_rows = int(footer.properties["rows"])
            self._etag = footer.properties.get("etag", "")
            self._stamp = bytes.fromhex(footer.properties.get("stamp", ""))
            self.field_ids = tuple(int(one) for one in footer.properties["columns"].split(",") if one)
        except (KeyError, ValueError) as error:
            raise BadIndexError(f"it does not say what it is an index of: {error!r}") from None
        if not 0 <= self.num_rows < 2**32:
            raise BadIndexError(f"an index of {self.num_rows} rows")

    def through(self, file: RangedObject) -> DataFileIndex:
        """Return this index for a task whose threads take turns, read through `file`; both share what either learns of it."""
        own = copy.copy(self)
        own._file = file  # noqa: SLF001 - its own copy
        return own

    @property
    def is_bad(self) -> bool:
        """Whether the file turned out to be damaged."""
        return self._known.is_bad

    @property
    def file_size(self) -> int:
        """Bytes of the index file."""
        return self._footer.size

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it takes before the first look-up."""
        directories = sum(
            blob.length for (*_, part), blob in self._footer.blobs.items() if part == "directory"
        )
        return len(self._footer.tail) + 4 * directories + 2000 + 1000 * len(self._footer.blobs)

    def is_of(self, version: bytes) -> bool:
        """Tell whether it is of the data file that has this ETag now (`files.version_of`); an unknown one matches."""
        return not self._etag or not version or self._etag == version.hex()

    def is_in_place(self, stamp: bytes) -> bool:
        """Tell whether its data file may be the local one that has this stamp now (`file_stamp`)."""
        return not is_replaced(self._stamp, stamp)

    def kinds(self, field_id: int) -> tuple[str, ...]:
        """Return the kinds of indexes that a column has."""
        return tuple(name for name in KINDS if self._has(field_id, name))

    def find(
        self, leaf: IndexLeaf, metrics: Metrics, *, exactly: bool = False, only: str | None = None
    ) -> IndexAnswer | None:
        """Return for which rows a leaf is TRUE; None if no index of its column can tell.

        Exact kinds are tried first, if they do not read much more than others; then those that read least.

        Args:
            leaf: A comparison of an indexed column.
            metrics: Gains a warning if the index turns out bad.
            exactly: Try exact kinds first whatever they read.
            only: Try this kind alone.
        """
        return self._safely(lambda reader: self._find(leaf, reader, exactly=exactly, only=only), metrics)

    def cost(self, leaf: IndexLeaf, metrics: Metrics, *, exactly: bool = False) -> LookupCost | None:
        """Return about what `find` would read; None if it would return None."""
        return self._safely(lambda reader: self._cost(leaf, reader, exactly=exactly), metrics)

    def value_counts(self, field_id: int, metrics: Metrics) -> ValueCounts | None:
        """Return how often a column has each value; None without the kind ``values``. Reads no bitmap."""

        def count(reader: BlobReader) -> ValueCounts | None:
            column = self._column(field_id, reader)
            kind = column.kinds.get("values") if column is not None else None
            if column is None or not isinstance(kind, ValuesReader):
                return None
            arrays, counts = kind.counts(reader)
            if int(counts.sum()) + column.num_nulls != self.num_rows:
                raise BadIndexError("counts that do not add up")
            values = pa.concat_arrays(arrays) if arrays else pa.nulls(0)
            return ValueCounts(values, counts, column.num_nulls)

        return self._safely(count, metrics)

    def of_kind(
        self,
        field_id: int,
        kind: type[Kind],
        ask: Callable[[Kind, BlobReader], Result | None],
        metrics: Metrics,
    ) -> Result | None:
        """Return what `ask` returns for a column's reader of one class; None if the column has no such index."""

        def answer(reader: BlobReader) -> Result | None:
            column = self._column(field_id, reader)
            kinds = () if column is None else column.kinds.values()
            found = next((one for one in kinds if isinstance(one, kind)), None)
            return None if found is None else ask(found, reader)

        return self._safely(answer, metrics)

    def type_of(self, field_id: int, metrics: Metrics) -> Primitive | None:
        """Return the type that a column's values had when it was indexed; None if it is not indexed."""

        def ask(reader: BlobReader) -> Primitive | None:
            column = self._column(field_id, reader)
            return None if column is None else column.type

        return self._safely(ask, metrics)

    def nulls(self, field_id: int, metrics: Metrics) -> BitMap | None:
        """Return the rows in which a column is NULL; None if it is not indexed."""
        return self._safely(lambda reader: self._nulls(field_id, reader), metrics)

    # --- what may find the file bad -------------------------------------------------------------------

    def _safely(self, ask: Callable[[BlobReader], Result | None], metrics: Metrics) -> Result | None:
        if self.is_bad:
            return None
        try:
            if isinstance(self._file, RangedObject):
                # No lock: a thread that waits hands its turn on, perhaps to one with the same look-up. Both learn the same.
                return ask(BlobReader(self._file, self._footer, is_remote=True))
            with self._lock, self._file as file:
                return ask(BlobReader(file, self._footer, is_remote=file.is_remote))
        except (
            ValueError,
            TypeError,  # forged fences of another type
            LookupError,
            ArithmeticError,
            MemoryError,
            struct.error,
            TwoStageError,
        ) as error:
            self._known.is_bad = True
            warn(metrics, "ignored", f"an index was ignored: {error}")
            return None

    def _has(self, field_id: int, kind: str) -> bool:
        return any(one == field_id and name == kind for one, name, _ in self._footer.blobs)

    def _column(self, field_id: int, reader: BlobReader) -> _Column | None:
        """Return a column, its directories read; None if it is not indexed."""
        if field_id not in self._known.columns:
            if field_id not in self.field_ids:
                return None
            blob = reader.blob(field_id, NULLS, "rows")
            try:
                kind = parse_type(blob.properties["type"])
                num_nulls = int(blob.properties["nulls"])
            except (KeyError, ValueError, TwoStageError) as error:
                raise BadIndexError(f"a column without a type: {error!r}") from None
            if not isinstance(kind, Primitive) or not 0 <= num_nulls <= self.num_rows:
                raise BadIndexError("a column of another form")
            readers = {
                name: one.open(field_id, self.num_rows, reader)
                for name, one in KINDS.items()
                if self._has(field_id, name)
            }
            self._known.columns[field_id] = _Column(kind, num_nulls, readers)
        return self._known.columns[field_id]

    def _nulls(self, field_id: int, reader: BlobReader) -> BitMap | None:
        column = self._column(field_id, reader)
        if column is None:
            return None
        if column.null is None:
            found = BitMap()
            if column.num_nulls:
                data = reader.whole(reader.blob(field_id, NULLS, "rows"))
                found = bitmaps.deserialize(data, self.num_rows)
                if len(found) != column.num_nulls:
                    raise BadIndexError("a bitmap of NULLs of another size")
            column.null = found
        return column.null

    def _choices(
        self, leaf: IndexLeaf, reader: BlobReader, *, exactly: bool
    ) -> list[tuple[LookupCost, str, KindReader, Wanted | None]]:
        """Return the kinds that answer a leaf, the best first."""
        column = self._column(leaf.column.field_id, reader)
        of_elements = isinstance(leaf, HasElement)
        if column is None or isinstance(leaf, IsNull):
            return []
        if not of_elements and not isinstance(leaf.column.type, Primitive):
            return []
        wanted = wanted_of(leaf, column.type)
        if wanted is None and not _is_text_test(leaf, column.type):
            return []
        found = []
        for name, kind in column.kinds.items():
            if of_elements != KINDS[name].of_elements:
                continue
            cost = kind.cost(leaf, wanted, reader)
            if cost is not None:
                found.append((cost, name, kind, wanted))
        much = MAX_EXACT_BYTES_RATIO * min((cost.nbytes for cost, *_ in found), default=0) + TAIL_BYTES

        pages = -(-self.num_rows // ROWS_OF_A_PAGE)

        def rank(choice: tuple[LookupCost, str, KindReader, Wanted | None]) -> tuple[bool, int]:
            cost, name, *_ = choice
            is_preferred = KINDS[name].certainty == "exact" and (exactly or cost.nbytes <= much)
            return not is_preferred, cost.nbytes + min(cost.unsure, pages) * BYTES_OF_A_PAGE

        return sorted(found, key=rank)

    def _cost(self, leaf: IndexLeaf, reader: BlobReader, *, exactly: bool) -> LookupCost | None:
        column = self._column(leaf.column.field_id, reader)
        if column is None:
            return None
        cost = LookupCost()
        if column.num_nulls and column.null is None:
            cost = LookupCost(requests=1, nbytes=reader.blob(leaf.column.field_id, NULLS, "rows").length)
        if isinstance(leaf, IsNull):
            return cost
        choices = self._choices(leaf, reader, exactly=exactly)
        return choices[0][0] + cost if choices else None

    def _find(
        self, leaf: IndexLeaf, reader: BlobReader, *, exactly: bool, only: str | None
    ) -> IndexAnswer | None:
        null = self._nulls(leaf.column.field_id, reader)
        if null is None:
            return None
        if isinstance(leaf, IsNull):
            return self._answer(null, null, BitMap(), reader, NULLS)
        for _, name, kind, wanted in self._choices(leaf, reader, exactly=exactly):
            if only not in (None, name):
                continue
            found = kind.find(leaf, wanted, reader)
            if found is not None:
                return self._of_found(leaf, found, null, wanted, reader, name)
        return None

    def _of_found(
        self,
        leaf: IndexLeaf,
        found: Found,
        null: BitMap,
        wanted: Wanted | None,
        reader: BlobReader,
        name: str,
    ) -> IndexAnswer:
        """Return the answer of a leaf whose wanted rows were found, with NULLs treated as in `predicates.evaluate`."""
        possible, certain = found.possible, found.certain
        if null:
            possible, certain = possible - null, certain - null
        if wanted is not None and wanted.is_negated:
            present = bitmaps.whole(self.num_rows) - null
            possible, certain = present - certain, present - possible
        if isinstance(leaf, HasElement):  # a list without the value gives NULL if it has a NULL
            return IndexAnswer(
                num_rows=self.num_rows,
                possible=possible,
                certain=certain,
                possible_not_false=bitmaps.whole(self.num_rows),
                certain_not_false=certain | null,
                cost=reader.cost,
                kinds=(name,),
            )
        if isinstance(leaf, In) and leaf.has_null:  # a value that is not listed gives NULL
            every = bitmaps.whole(self.num_rows)
            return IndexAnswer(
                num_rows=self.num_rows,
                possible=possible,
                certain=certain,
                possible_not_false=every,
                certain_not_false=every,
                cost=reader.cost,
                kinds=(name,),
            )
        is_never_null = (isinstance(leaf, Compare) and leaf.op == "<=>") or (
            isinstance(leaf, CompareLength) and leaf.op == "<=>"
        )
        if is_never_null or (isinstance(leaf, In) and not leaf.values):
            null = BitMap()
        return self._answer(possible, certain, null, reader, name)

    def _answer(
        self, possible: BitMap, certain: BitMap, null: BitMap, reader: BlobReader, name: str
    ) -> IndexAnswer:
        return IndexAnswer.of_leaf(
            self.num_rows, possible=possible, certain=certain, null=null, cost=reader.cost, kinds=(name,)
        )


def _is_text_test(leaf: IndexLeaf, built: Primitive) -> bool:
    """Tell whether a leaf tests the text itself, so that only evaluating it can tell."""
    is_text = isinstance(leaf, StringMatch | CompareLength) and leaf.column.cast is None
    return is_text and built == leaf.column.type == Primitive("string")


class _Lazy:
    """An index file that is opened when it is first read.

    A remote one stays open: opening takes a request, and no connection is kept.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self.is_remote = not parse_location(path).is_local
        self._file: pa.NativeFile | None = None
        self._opening = threading.Lock()

    def __enter__(self) -> _Lazy:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None and not self.is_remote:
            self._file.close()
            self._file = None

    def read_at(self, length: int, place: int) -> bytes:
        """Read some bytes."""
        with files.translate_errors(self._path, "index", storage=self._storage):
            with self._opening:
                if self._file is None:
                    self._file = files.open_file(self._storage, self._path)
            return bytes(self._file.read_at(length, place))
