"""Names of conditions: hashes of everything that determines which rows meet a condition.

Takes conjuncts, an open data file and the scan's context; returns hex digests. The rule: two conditions whose
rows could differ have different names, so that a cached answer is never stale. The name covers

- the file: path, size and version (ETag of a remote file; mtime, ctime and inode of a local one), the table
  and the store;
- the condition in canonical form: field ids, operators, literals, casts; not the columns' names, and not the order of
  conjuncts, of an OR's branches or of a list's values;
- each of its columns: type, initial default, whether it is required, constants of the file's partition, and which of the
  file's columns it is read from;
- the settings that a user who doubts an answer may change, such as ``filter.kernels``.

A name reveals neither a path nor a literal.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import twostage_native
from twostage.data_files.computed_columns import COMPUTED
from twostage.deletes.cache import fingerprint
from twostage.predicates import predicate as tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.data_files.data_file import DataFile
    from twostage.predicates.predicate import Column, Predicate
    from twostage.task import ScanContext

_KEYS_OF_JOINS = (tree.InBloom, tree.InKeys, tree.InTuples)
FORMAT = 1
"""Increment it when evaluation or the stored form changes."""


def canonical(predicate: Predicate) -> tuple[Any, ...]:
    """Return a predicate as plain values, equal for predicates that differ only in the order of their parts.

    >>> from twostage.predicates.predicate import Column, Compare
    >>> from twostage.schema import Primitive
    >>> canonical(Compare("=", Column(3, ("a", "b"), Primitive("int")), 5))
    ('Compare', '=', (3, None), 5)
    """
    kind = type(predicate).__name__
    match predicate:
        case tree.And(children) | tree.Or(children):
            return (kind, *sorted((canonical(child) for child in children), key=repr))
        case tree.Not(child):
            return (kind, canonical(child))
        case tree.In(column, values, has_null):
            return (kind, _column(column), has_null, *sorted(values, key=repr))
        case tree.Compare(op, column, value) | tree.CompareLength(op, column, value):
            return (kind, op, _column(column), value)
        case tree.StringMatch(match_kind, column, text):
            return (kind, match_kind, _column(column), text)
        case tree.CompareColumns(op, left, right):
            return (kind, op, _column(left), _column(right))
        case tree.HasElement(column, element, value):
            return (kind, _column(column), _column(element), value)
        case tree.IsNull(column):
            return (kind, _column(column))
    return (kind, str(predicate))


def _column(column: Column) -> tuple[Any, ...]:
    return column.field_id, None if column.cast is None else repr(column.cast)


def may_be_kept(predicate: Predicate) -> bool:
    """Tell whether a data file's bytes alone decide a predicate's rows.

    False for computed columns: positions cost nothing, and `_deleted` depends on deletes. False for join
    keys, which are used once, and whose text does not identify a key set.
    """
    columns = tree.columns(predicate)
    return (
        bool(columns)
        and tree.is_exact(predicate)
        and not any(isinstance(leaf, _KEYS_OF_JOINS) for leaf in tree.leaves(predicate))
        and not any(column.field_id in COMPUTED for column in columns)
    )


def of_reading(context: ScanContext) -> str:
    """Name the table, its location, and the settings under which its files are filtered."""
    settings = context.settings
    return fingerprint.digest(
        FORMAT,
        fingerprint.of_reading(context),
        settings.encoded_filters,
        settings.prune_pages,
        settings.dictionary_filter,
        settings.bloom_filter,
        settings.index,
    )


def of_predicate(predicate: Predicate) -> str:
    """Name a predicate; equivalent predicates in different forms may have different names."""
    return fingerprint.digest(canonical(predicate))


def of_condition(
    reading: str,
    data_file: DataFile,
    version: tuple[Any, ...],
    predicates: Iterable[str],
    field_ids: Iterable[int],
) -> str:
    """Name the rows of a data file for which every one of some predicates is true.

    Args:
        reading: What `of_reading` returned.
        data_file: The open file.
        version: Its version, from `DataFile.identity`.
        predicates: What `of_predicate` returned for each, in any order.
        field_ids: The columns that they read.
    """
    file = (fingerprint.without_password(data_file.task.path), data_file.task.format, version)
    origins = [data_file.origin_of(field_id) for field_id in sorted(set(field_ids))]
    return fingerprint.digest(reading, file, sorted(predicates), origins)


@functools.cache
def of_engine() -> str:
    """Name the evaluating code, for answers that outlive a process: versions, and the sources' sizes and times."""
    packages = Path(__file__).parents[2], Path(twostage_native.__file__).parent
    sources = sorted(
        (path.name, path.stat().st_size, path.stat().st_mtime_ns)
        for package in packages
        for path in package.rglob("*.py")
    )
    return fingerprint.digest(FORMAT, np.__version__, pa.__version__, sources)
