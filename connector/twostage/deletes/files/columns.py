"""Columns of delete files, in Parquet, ORC or Avro, as Arrow arrays.

Takes a `DeleteFile` and the wanted fields; yields batches of arrays as the file stores them (callers widen
narrower types), None for a field that the file lacks. The rules: fields are found by id, and by name only if
the file has no ids; every row that the file declares is returned, or a typed error is raised.
Source: Iceberg table spec, "Delete Formats".
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from twostage.deletes.files.contents import MAX_WHOLE_FILE_BYTES
from twostage.deletes.files.wanted_fields import (
    STAGE,
    WantedField,
    corrupt,
    leaf_arrays,
    resolve,
)
from twostage.errors import TwoStageError, mask
from twostage.formats import file_schema
from twostage.formats.parquet.filters import prune_by_bloom
from twostage.formats.parquet.footer import read_footer
from twostage.formats.parquet.statistics import row_group_bounds
from twostage.predicates.predicate import TRUE, columns as columns_of
from twostage.predicates.prune import Match, match
from twostage.schema import Primitive
from twostage.storage import files
from twostage.storage.location import parse_location
from twostage.storage.ranges import cost_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    import pyarrow.parquet as pq

    from twostage.deletes.files.contents import DeleteContents
    from twostage.formats.parquet.file_metadata import Footer, RowGroupMetadata
    from twostage.formats.parquet.schema_tree import Leaf
    from twostage.metrics import Metrics
    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate
    from twostage.task import DeleteFile, TableContext

BATCH_ROWS = 65_536
Columns = list["pa.Array | None"]


def read_columns(
    context: TableContext,
    delete: DeleteFile,
    wanted: Sequence[WantedField],
    metrics: Metrics,
    *,
    may_hold: Callable[[Bounds], bool] | None = None,
    predicate: Predicate | None = None,
    content: bytes | memoryview | None = None,
    first: int | None = None,
    may_match: Callable[[pa.Array], bool] | None = None,
) -> Iterator[tuple[int, Columns]]:
    """Yield batches: the number of rows, and an array (or None) for each wanted field.

    Args:
        context: Storage, name mapping and settings.
        delete: The file.
        wanted: The wanted fields, at least one.
        metrics: Gains ``delete_files.opened``.
        may_hold: Takes a Parquet row group's bounds of the first wanted field, a string; False skips the row
            group.
        predicate: TRUE for every row that the caller needs; its columns are among the wanted fields. A
            Parquet row group whose statistics or Bloom filters prove that it holds no such row is skipped.
        content: The file's bytes, if they were fetched ahead.
        first: The index of the wanted field that is read first from each Parquet row group, for `may_match`.
        may_match: Takes a batch of values of that field; if it is False for all batches, the row group is
            skipped.

    Yields:
        Rows of the batch, and one array for each wanted field.

    Raises:
        CorruptFileError: The bytes are wrong, or a field appears twice.
        MissingFileError: The file is not in storage.
        StorageError: The transport failed.
    """
    metrics.add("delete_files.opened")
    with _errors_of(context, delete), _opened(context, delete, content) as (file, size):
        match delete.format.lower():
            case "parquet":
                early = None if first is None or may_match is None else (first, may_match)
                yield from _read_parquet(file, size, context, delete, wanted, may_hold, predicate, early)
            case "orc":
                yield from _read_orc(file, size, context, delete, wanted)
            case "avro":
                from twostage.deletes.files.avro import read_avro  # noqa: PLC0415 - 12 ms, rarely needed

                yield from read_avro(file, size, context, delete, wanted, BATCH_ROWS)
            case other:
                raise corrupt(delete, f"Delete file has a format that cannot hold its content: {other}")


def are_remote(deletes: Sequence[DeleteFile]) -> bool:
    """Tell whether these files are in an object store, where each request has a high latency."""
    return any(not parse_location(delete.path).is_local for delete in deletes[:1])


def fetch_ahead(
    context: TableContext,
    deletes: Sequence[DeleteFile],
    contents: DeleteContents | None = None,
    *,
    are_loaded: bool = False,
) -> Generator[tuple[DeleteFile, bytes | memoryview | None], None, None]:
    """Yield delete files in order, small remote ones with their content, fetched by many concurrent requests.

    For a small file, an object store's latency exceeds the transfer time, and there may be thousands of
    files. `contents` reads them, if the task schedules its own reads. With `are_loaded`, all of their keys
    are read: then it also fetches larger files.
    """
    if contents is not None:
        yield from contents.in_order(deletes, are_loaded=are_loaded)
        return
    cost = cost_of(None, context.settings.parallel_requests, is_remote=True)
    if not are_remote(deletes) or len(deletes) < 2 or cost.parallel < 2:
        for delete in deletes:
            yield delete, None
        return

    def fetch(delete: DeleteFile) -> bytes | None:
        if not 0 < delete.file_size <= MAX_WHOLE_FILE_BYTES:
            return None
        with _errors_of(context, delete):
            return files.read_all(context.storage, delete.path, limit=2 * MAX_WHOLE_FILE_BYTES)

    waiting: deque[tuple[DeleteFile, Future[bytes | None]]] = deque()
    pool = ThreadPoolExecutor(min(cost.parallel, len(deletes)), "twostage-deletes")
    try:
        for delete in deletes:
            waiting.append((delete, pool.submit(fetch, delete)))
            if len(waiting) > cost.parallel:
                first, fetched = waiting.popleft()
                yield first, fetched.result()
        while waiting:
            first, fetched = waiting.popleft()
            yield first, fetched.result()
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _opened(
    context: TableContext, delete: DeleteFile, content: bytes | memoryview | None
) -> Iterator[tuple[pa.NativeFile, int]]:
    if content is not None:
        yield pa.BufferReader(pa.py_buffer(content)), len(content)
        return
    with files.open_file(context.storage, delete.path) as opened:
        size = opened.size()
        yield (pa.BufferReader(opened.read_at(size, 0)) if 0 < size <= MAX_WHOLE_FILE_BYTES else opened), size


@contextmanager
def _errors_of(context: TableContext, delete: DeleteFile) -> Iterator[None]:
    """Set the stage of deletes, and the file's path, on each error that leaves the block."""
    try:
        with files.translate_errors(delete.path, STAGE, storage=context.storage):
            yield
    except TwoStageError as error:
        if error.path is None or error.stage not in ("storage", STAGE):
            # The decoders are shared with planning and data files, and the ORC decoder does not know which
            # file it reads.
            error.path = error.path or mask(delete.path)
            error.stage = error.stage if error.stage == "storage" else STAGE
            error.args = (str(error),)
        raise


def _read_parquet(
    file: pa.NativeFile,
    size: int,
    context: TableContext,
    delete: DeleteFile,
    wanted: Sequence[WantedField],
    may_hold: Callable[[Bounds], bool] | None,
    predicate: Predicate | None,
    early: tuple[int, Callable[[pa.Array], bool]] | None,
) -> Iterator[tuple[int, Columns]]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - 20 ms that other formats need not pay

    from twostage.formats.parquet.arrow_footer import arrow_footer  # noqa: PLC0415

    # Checked before pyarrow sees the file: some bad footers make it abort the process.
    footer, metadata = arrow_footer(read_footer(file, size, delete.path), delete.path)
    present = {leaf.path for leaf in footer.leaves}
    parquet = pq.ParquetFile(
        file,
        metadata=metadata,
        coerce_int96_timestamp_unit="us",
        read_dictionary=[field.names[0] for field in wanted if field.dictionary and field.names in present],
        arrow_extensions_enabled=False,
        page_checksum_verification=context.settings.verify_checksums,
    )
    sources = resolve(parquet.schema_arrow, context, delete, wanted)
    leaves = sorted({source.first_leaf for source in sources if source is not None})
    if leaves and leaves[-1] >= len(footer.leaves):
        raise corrupt(delete, "Delete file's columns do not match its footer")
    for group in footer.row_groups:
        if not leaves:
            yield group.num_rows, [None] * len(wanted)
            continue
        if may_hold is not None and sources[0] is not None:
            leaf = footer.leaves[sources[0].first_leaf]
            if not may_hold(row_group_bounds(footer, group, leaf, Primitive("string"))):
                continue
        if predicate is not None and predicate != TRUE:
            found = {
                field.field_id: footer.leaves[source.first_leaf]
                for field, source in zip(wanted, sources, strict=True)
                if source is not None
            }
            if _cannot_hold(file, footer, group, predicate, found, delete):
                continue
        if early is not None and (source := sources[early[0]]) is not None:
            place = source.first_leaf
            if not any(early[1](arrays[place]) for _, arrays in _decode(parquet, group, [place], delete)):
                continue
        for rows, arrays in _decode(parquet, group, leaves, delete):
            yield rows, [source and arrays[source.first_leaf] for source in sources]


def _decode(
    parquet: pq.ParquetFile, group: RowGroupMetadata, leaves: list[int], delete: DeleteFile
) -> Iterator[tuple[int, dict[int, pa.Array]]]:
    """Yield batches of some leaves of a row group: the number of rows, and the arrays by leaf."""
    rows = 0
    for batch in parquet.reader.iter_batches(BATCH_ROWS, [group.index], leaves, use_threads=False):
        arrays = (leaf for column in batch.columns for leaf in leaf_arrays(column))
        yield batch.num_rows, dict(zip(leaves, arrays, strict=True))
        rows += batch.num_rows
    if rows != group.num_rows:  # pyarrow stops silently if pages hold fewer values than the footer says
        raise corrupt(delete, f"Row group {group.index} holds {group.num_rows} rows, decoded {rows}")


def _cannot_hold(
    file: pa.NativeFile,
    footer: Footer,
    group: RowGroupMetadata,
    predicate: Predicate,
    found: Mapping[int, Leaf],
    delete: DeleteFile,
) -> bool:
    """Tell whether statistics or Bloom filters prove that no row of a row group makes the predicate true."""
    kinds = {column.field_id: column.type for column in columns_of(predicate)}

    def leaf_of(field_id: int) -> tuple[Leaf, Primitive] | None:
        leaf, kind = found.get(field_id), kinds.get(field_id)
        return (leaf, kind) if leaf is not None and isinstance(kind, Primitive) else None

    def bounds_of(field_id: int) -> Bounds | None:
        source = leaf_of(field_id)
        return None if source is None else row_group_bounds(footer, group, *source)

    if match(predicate, bounds_of, group.num_rows) is Match.NONE:
        return True
    return prune_by_bloom(file, footer, group, predicate, leaf_of, delete.path)


def _read_orc(
    file: pa.NativeFile, size: int, context: TableContext, delete: DeleteFile, wanted: Sequence[WantedField]
) -> Iterator[tuple[int, Columns]]:
    from twostage.formats.orc.schema import arrow_schema, meanings  # noqa: PLC0415 - 15 ms, rarely needed
    from twostage.formats.orc.stripe import StripeReader  # noqa: PLC0415
    from twostage.formats.orc.tail import read_stripe_footer, read_tail  # noqa: PLC0415

    tail = read_tail(file, size)
    schema = arrow_schema(tail.schema)
    sources = resolve(schema, context, delete, wanted)
    fields = file_schema.identify(schema, context.name_mapping or (), path=delete.path)
    leaves = {source.first_leaf for source in sources if source is not None}
    for stripe in tail.stripes:
        if not leaves:
            yield stripe.num_rows, [None] * len(wanted)
            continue
        reader = StripeReader(
            file,
            tail,
            stripe,
            read_stripe_footer(file, tail, stripe),
            meanings=dict(meanings(tail.schema.children, fields, context.schema)),
            limit=context.settings.memory_budget,
        )
        columns = reader.read(fields, leaves)
        arrays = dict(zip(sorted(leaves), (leaf for c in columns for leaf in leaf_arrays(c)), strict=True))
        for start in range(0, stripe.num_rows, BATCH_ROWS):
            parts = [source and arrays[source.first_leaf].slice(start, BATCH_ROWS) for source in sources]
            yield min(BATCH_ROWS, stripe.num_rows - start), parts
