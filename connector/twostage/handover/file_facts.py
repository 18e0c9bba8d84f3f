"""What the footers of data files say that decides whether another reader reads them right.

Takes located Parquet files; gives `FileFacts`, small plain values, kept per process under the file's path and
time of change. The rule: facts are about every row group of the file, and a column that is nested, repeated
or named twice has none, so that nobody relies on it.
"""

from __future__ import annotations

import concurrent.futures
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cachetools

from twostage.formats.parquet.footer import CODECS, read_footer
from twostage.formats.parquet.statistics import row_group_bounds
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from twostage.formats.parquet.footer import Footer, SchemaNode
    from twostage.formats.parquet.schema_tree import LogicalType
    from twostage.schema import Primitive
    from twostage.task import Storage

MAX_KEPT = 10_000
"""Files whose facts are kept: about 400 bytes a column each."""
_AT_ONCE = 8
"""Footers requested together."""
_LEGACY_CALENDAR = "org.apache.spark.legacyDateTime"
_SPARK_VERSION = "org.apache.spark.version"
_ROW_INDEX = "_tmp_metadata_row_index"
_INEXACT = ("float", "double")
"""Statistics do not tell 0.0 from -0.0, and NaN not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """A top-level column of a file, one value a row. `physical` is Parquet's name, such as ``INT64``."""

    physical: str
    logical: LogicalType | None
    is_required: bool
    codecs: frozenset[str]
    encodings: frozenset[int]
    num_bytes: int
    """Compressed, in all row groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """A Parquet file."""

    file_size: int
    num_rows: int
    columns: Mapping[int, ColumnFacts | None]
    """The top-level columns by field id; None for one without facts."""
    has_all_ids: bool
    """Every top-level column has a field id, and none is given twice at any depth."""
    has_legacy_calendar: bool
    """Spark says of this file of its own that dates before 1582 are Julian."""
    has_row_index: bool
    """A column has the name under which Spark's reader gives the places of rows."""
    singles: Mapping[int, Any]
    """Columns of one value in all rows, as far as it was asked and statistics prove it: the value, or None."""


_kept: cachetools.LRUCache[Any, FileFacts] = cachetools.LRUCache(MAX_KEPT)
_lock = threading.Lock()


def unread(paths: Sequence[str], constants: Mapping[int, Primitive]) -> int:
    """Return how many of these files would have to be opened for their facts."""
    with _lock:
        return sum(_key(path, constants) not in _kept for path in paths)


def file_facts(source: Storage, paths: Sequence[str], constants: Mapping[int, Primitive]) -> list[FileFacts]:
    """Return the facts of Parquet files, in order.

    Args:
        source: The scan's storage.
        paths: Located files.
        constants: Columns of which it is asked whether all their rows are alike, with their types.

    Raises:
        TwoStageError: A footer is not there, damaged, encrypted, or of an unknown codec.
    """
    if len(paths) < 2:
        return [_of_file(source, path, constants) for path in paths]
    with concurrent.futures.ThreadPoolExecutor(min(_AT_ONCE, len(paths))) as threads:
        return list(threads.map(lambda path: _of_file(source, path, constants), paths))


def _key(path: str, constants: Mapping[int, Primitive]) -> Any:
    return path, files.modified(path), frozenset(constants.items())


def _of_file(source: Storage, path: str, constants: Mapping[int, Primitive]) -> FileFacts:
    key = _key(path, constants)
    with _lock:
        found = _kept.get(key)
    if found is None:
        with (
            files.translate_errors(path, "plan", storage=source),
            files.open_file(source, path) as file,
        ):
            found = facts_of(read_footer(file, file.size(), path), constants)
        with _lock:
            _kept[key] = found
    return found


def facts_of(footer: Footer, constants: Mapping[int, Primitive]) -> FileFacts:
    """Return the facts that a footer states."""
    top = footer.schema.children
    ids = [node.field_id for node in _walk(top) if node.field_id is not None]
    version = footer.key_values.get(_SPARK_VERSION)
    return FileFacts(
        file_size=footer.file_size,
        num_rows=footer.num_rows,
        columns={node.field_id: _column(footer, node) for node in top if node.field_id is not None},
        has_all_ids=all(node.field_id is not None for node in top) and len(set(ids)) == len(ids),
        # As Spark decides it: its versions compare as text.
        has_legacy_calendar=_LEGACY_CALENDAR in footer.key_values
        or (version is not None and version < "3.0.0"),
        has_row_index=any(node.name.casefold() == _ROW_INDEX for node in top),
        singles=dict(_singles(footer, constants)),
    )


def _walk(nodes: Sequence[SchemaNode]) -> Iterator[SchemaNode]:
    for node in nodes:
        yield node
        yield from _walk(node.children)


def _column(footer: Footer, node: SchemaNode) -> ColumnFacts | None:
    leaf = node.leaf
    if leaf is None or leaf.max_repetition:
        return None
    chunks = [group.columns[leaf.index] for group in footer.row_groups]
    return ColumnFacts(
        physical=leaf.physical_name,
        logical=leaf.logical,
        is_required=leaf.max_definition == 0,
        codecs=frozenset(CODECS[chunk.codec] for chunk in chunks),
        encodings=frozenset(encoding for chunk in chunks for encoding in chunk.encodings),
        num_bytes=sum(chunk.compressed_size for chunk in chunks),
    )


def _singles(footer: Footer, constants: Mapping[int, Primitive]) -> Iterator[tuple[int, Any]]:
    """Yield the columns that statistics prove to have one value in all rows, and that value."""
    for field_id, kind in constants.items():
        leaf = footer.leaf_of(field_id)
        if leaf is None or kind.name in _INEXACT:
            continue
        values: set[Any] = set()
        for group in footer.row_groups:
            known = row_group_bounds(footer, group, leaf, kind)
            if known.null_count == group.num_rows:
                values.add(None)
            elif known.null_count == 0 and known.lower is not None and known.lower == known.upper:
                values.add(known.lower if known.exact_lower and known.exact_upper else ...)
            else:
                values.add(...)
        if len(values) == 1 and ... not in values:
            yield field_id, values.pop()
