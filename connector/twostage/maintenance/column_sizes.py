"""The bytes of columns in a table's data files, as its manifests state them.

Takes a pinned table; returns bytes by column. The rule: what a writer did not record is not guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.schema import leaves
from twostage.table.manifest import read_manifest_list, stream_manifests
from twostage.table.manifest_cache import stream_data_manifests

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from twostage.table.pinned import PinnedTable


def column_sizes(table: PinnedTable, field_ids: Collection[int], *, keep: bool = True) -> dict[int, int]:
    """Return the bytes of columns in the live data files, except dropped columns and those not known for every file.

    Args:
        table: Pinned to the snapshot to look at.
        field_ids: The columns'; for a list or a map, elements, keys and values count together.
        keep: Use cached manifests, and cache those that are read.

    Raises:
        CorruptFileError: A manifest is malformed.
        MissingFileError: A manifest does not exist.
    """
    schema = table.schema
    stored = {i: [leaf.id for leaf in leaves(schema.field(i))] for i in field_ids if i in schema}
    sizes: dict[int, int | None] = dict.fromkeys(stored, 0)
    if table.snapshot is None or not stored:
        return dict.fromkeys(stored, 0)
    manifests = [one for one in read_manifest_list(table.storage, table.snapshot) if not one.is_deletes]
    stream = stream_data_manifests if keep else stream_manifests
    for file in stream(table.storage, manifests, table.metadata.specs, read_ahead=len(manifests)):
        for field_id, own in stored.items():
            known = [file.column_sizes[i] for i in own if i in file.column_sizes]
            total = sizes[field_id]
            sizes[field_id] = None if total is None or len(known) < len(own) else total + sum(known)
    return {field_id: size for field_id, size in sizes.items() if size is not None}


def total_size(sizes: Mapping[int, int], field_ids: Collection[int]) -> int | None:
    """Return the total bytes of some columns, or None if one column's are not known."""
    return sum(sizes[i] for i in field_ids) if sizes.keys() >= set(field_ids) else None
