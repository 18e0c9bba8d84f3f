"""Proves by Bloom filters and dictionaries that no row of a row group can match.

Takes a predicate and a row group; returns True only where no row can be TRUE. Each branch of an OR may be
disproved by different evidence; both functions also use the statistics. The rule: any doubt is False, which
only means that the row group is read.
"""

from __future__ import annotations

import functools
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twostage.errors import CorruptFileError, InternalError
from twostage.formats.parquet.bloom import MAX_VALUES_PROBED, bloom_may_contain
from twostage.formats.parquet.dictionary import dictionary_lacks, dictionary_values, is_all_dictionary
from twostage.formats.parquet.schema_tree import BYTE_ARRAY
from twostage.formats.parquet.statistics import may_read, row_group_bounds
from twostage.formats.promotion import promote
from twostage.predicates.evaluate import evaluate
from twostage.predicates.key_set import listed_between
from twostage.predicates.predicate import (
    And,
    Column,
    Compare,
    In,
    InKeys,
    Or,
    both,
    columns,
    is_exact,
    push_not_down,
)
from twostage.predicates.prune import Match, match
from twostage.predicates.value_range import order_key, value_range
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable

    from twostage.formats.parquet.file_metadata import Footer, RowGroupMetadata
    from twostage.formats.parquet.schema_tree import Leaf
    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate

    LeafOf = Callable[[int], tuple[Leaf, Primitive] | None]

__all__ = ["bloom_may_contain", "dictionary_values", "prune_by_bloom", "prune_by_dictionary"]

MAX_TEXTS_DECODED = 4096
"""Strings of a dictionary that are decoded, at most, to evaluate a predicate on them: 3 ms."""
MAX_LITERALS_SEARCHED = 64
"""Literals that a dictionary's bytes are searched for, at most: a search takes up to 0.3 ms."""
_SAME_ENCODING = frozenset((("int", "long"), ("float", "double")))
"""Pairs (type of the column, type it is compared as): the column stores values that equal the literal, unchanged."""
_EVALUATED = frozenset(
    "int long float double decimal date time timestamp timestamptz string uuid fixed binary".split()
)


def prune_by_bloom(
    file: pa.NativeFile,
    footer: Footer,
    row_group: RowGroupMetadata,
    predicate: Predicate,
    leaf_of: LeafOf,
    path: str,
) -> bool:
    """Tell whether Bloom filters, with the statistics, prove that no row can be TRUE.

    Args:
        file: The open data file.
        footer: Its footer.
        row_group: The row group in question.
        predicate: What the rows are filtered by.
        leaf_of: Gives the file's leaf and the scan's type of a field id; None if the scan does not read the
            file's own values (missing column, partition constant, nested in a list).
        path: The file, for errors.
    """
    evidence = _Evidence(file, footer, row_group, leaf_of, path)
    if not any(chunk.bloom_filter_offset is not None for chunk in row_group.columns):
        return False
    return evidence.never_true(push_not_down(predicate), evidence.bloom_excludes)


def prune_by_dictionary(
    file: pa.NativeFile,
    footer: Footer,
    row_group: RowGroupMetadata,
    predicate: Predicate,
    leaf_of: LeafOf,
    path: str,
) -> bool:
    """Tell whether dictionaries, with the statistics, prove that no row can be TRUE.

    Conjuncts about one column are evaluated together, so ``a > 3 AND a < 5`` is disproved by a dictionary that
    lacks 4. Arguments are those of `prune_by_bloom`.
    """
    evidence = _Evidence(file, footer, row_group, leaf_of, path)
    return evidence.never_true(push_not_down(predicate), evidence.dictionary_excludes)


@dataclass(slots=True)
class _Evidence:
    """What is known of one row group while one predicate is examined; dictionaries are read once."""

    file: pa.NativeFile
    footer: Footer
    row_group: RowGroupMetadata
    leaf_of: LeafOf
    path: str
    dictionaries: dict[int, pa.Array | None] = field(default_factory=dict)

    def bounds(self, field_id: int) -> Bounds | None:
        found = self.leaf_of(field_id)
        return None if found is None else row_group_bounds(self.footer, self.row_group, *found)

    def never_true(self, predicate: Predicate, excludes: Callable[[Predicate], bool]) -> bool:
        """Walk a predicate in negation normal form; `excludes` judges the parts about a single column."""
        if match(predicate, self.bounds, self.row_group.num_rows) is Match.NONE:
            return True
        if isinstance(predicate, Or):
            return all(self.never_true(child, excludes) for child in predicate.children)
        if not isinstance(predicate, And):
            return len(columns(predicate)) == 1 and excludes(predicate)
        alone: dict[int, list[Predicate]] = {}
        rest: list[Predicate] = []
        for child in predicate.children:
            used = columns(child)
            if len(used) == 1 and is_exact(child):
                alone.setdefault(used[0].field_id, []).append(child)
            else:
                rest.append(child)
        return (
            any(excludes(both(*parts)) for parts in alone.values())
            or any(self.never_true(child, excludes) for children in alone.values() for child in children)
            or any(self.never_true(child, excludes) for child in rest)
        )

    def bloom_excludes(self, predicate: Predicate) -> bool:
        """Tell whether the column's Bloom filter holds none of the literals that it is compared to."""
        values: tuple[Any, ...]
        match predicate:
            case Compare("=" | "<=>", column, value):
                values = (value,)
            case In(column, values) if len(values) > 0:
                pass
            case InKeys(column) if (listed := self._listed(predicate)) is not None:
                values = listed.values
            case _:
                return False
        found = self.leaf_of(column.field_id)
        kind = column.value_type
        if found is None or not isinstance(kind, Primitive):
            return False
        leaf, stored = found
        if kind != stored and (stored.name, kind.name) not in _SAME_ENCODING:
            return False
        chunk = self.row_group.columns[leaf.index]
        if chunk.bloom_filter_offset is None:
            return False
        if len(values) > MAX_VALUES_PROBED:
            values = self._within(column, kind, values)
        if len(values) > MAX_VALUES_PROBED:
            return False
        return not bloom_may_contain(self.file, chunk, leaf, kind, values)

    def _listed(self, leaf: InKeys) -> In | None:
        """Return the join keys within the column's bounds, if they are few enough for a Bloom filter."""
        values = value_range(leaf.column, self.bounds, self.row_group.num_rows)
        return listed_between(leaf, values.lower, values.upper, MAX_VALUES_PROBED)

    def _within(self, column: Column, kind: Primitive, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the values within the column's bounds."""
        known = self.bounds(column.field_id)
        if known is None or kind.name in ("float", "double"):
            return values
        low = None if known.lower is None else order_key(kind, known.lower)
        high = None if known.upper is None else order_key(kind, known.upper)
        if low is None or high is None or low > high:
            return values
        keys, ordered, unknown = _in_order(kind, values)
        return (*ordered[bisect_left(keys, low) : bisect_right(keys, high)], *unknown)

    def dictionary_excludes(self, predicate: Predicate) -> bool:
        """Tell whether the predicate is TRUE for none of the column's distinct values (and NULL)."""
        if not is_exact(predicate):
            return False
        (column,) = columns(predicate)
        if self._lacks(predicate):
            return True
        values = self._dictionary(column)
        if values is None:
            return False
        try:
            return not evaluate(predicate, {column.field_id: values}, len(values), kernels=False).true.any()
        except InternalError:
            return False

    def _lacks(self, predicate: Predicate) -> bool:
        """Tell whether a column of text is compared only with values that its dictionary does not hold."""
        match predicate:
            case Compare("=" | "<=>", column, value) if isinstance(value, str):
                values: tuple[Any, ...] = (value,)
            case In(column, values) if len(values) <= MAX_LITERALS_SEARCHED and isinstance(values[0], str):
                pass
            case _:
                return False
        found = self.leaf_of(column.field_id)
        if found is None or found[0].physical != BYTE_ARRAY or found[0].max_repetition:
            return False
        leaf, kind = found
        if kind.name != "string" or kind != column.value_type or not may_read(leaf, kind):
            return False
        encoded = [value.encode("utf-8", "surrogatepass") for value in values]
        return dictionary_lacks(self.file, self.row_group.columns[leaf.index], encoded)

    def _dictionary(self, column: Column) -> pa.Array | None:
        """Return the distinct values that rows may have, in the scan's type, NULL included; None if not known."""
        if column.field_id not in self.dictionaries:
            self.dictionaries[column.field_id] = self._read_dictionary(column)
        return self.dictionaries[column.field_id]

    def _read_dictionary(self, column: Column) -> pa.Array | None:
        found = self.leaf_of(column.field_id)
        if found is None:
            return None
        leaf, kind = found
        chunk = self.row_group.columns[leaf.index]
        if kind != column.type or kind.name not in _EVALUATED or leaf.max_repetition:
            return None
        if not is_all_dictionary(chunk) or not may_read(leaf, kind):
            return None
        values = dictionary_values(self.file, leaf, chunk, max_texts=MAX_TEXTS_DECODED)
        if values is None:
            return None
        try:
            values = promote(values, kind, self.path, ".".join(column.path))
        except CorruptFileError:  # the reader reports it, if a row holds such a value
            return None
        if row_group_bounds(self.footer, self.row_group, leaf, kind).null_count == 0:
            return values
        return pa.concat_arrays([values, pa.nulls(1, values.type)])


@functools.lru_cache(maxsize=8)
def _in_order(kind: Primitive, values: tuple[Any, ...]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the sort keys of a list's values, the values in that order, and the values without a sort key.

    Cached, because one file after another is tested for a list: 0.25 ms for 1,000 values.
    """
    keyed = [(order_key(kind, value), value) for value in values]
    ordered = sorted((pair for pair in keyed if pair[0] is not None), key=itemgetter(0))
    return (
        [key for key, _ in ordered],
        [value for _, value in ordered],
        [value for key, value in keyed if key is None],
    )
