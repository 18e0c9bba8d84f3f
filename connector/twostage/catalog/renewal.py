"""New credentials for a table that was loaded a while ago.

Takes a pinned table with short-lived credentials that a REST catalog vended, and the options and confs that
it was loaded with; returns the same table, at the same snapshot, with credentials that are valid for longer.
The rule: only how files are opened changes, and if the catalog offers nothing better, the table stays as it
is: the store then reports that the credentials have expired. Credentials that expire while files are read are
renewed by the processes that read them: `storage.vended_credentials`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from twostage.catalog.load_table import load_table
from twostage.catalog.table_name import is_path
from twostage.errors import TwoStageError
from twostage.storage.expiry import RENEWED_BEFORE_MS, expires_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.options import ReadOptions
    from twostage.table.pinned import PinnedTable


def ends_soon(table: PinnedTable) -> bool:
    """Return whether the table's credentials are known to expire in less than five minutes."""
    until = expires_at(table.storage.properties)
    return until is not None and until - time.time() * 1000 < RENEWED_BEFORE_MS


def renewed(table: PinnedTable, options: ReadOptions, confs: Mapping[str, str]) -> PinnedTable:
    """Return the table with new credentials of its catalog; the same one if there are none.

    Args:
        table: A table whose credentials end soon.
        options: The options that it was loaded with.
        confs: The session's confs at that time.
    """
    if is_path((options.path or "").strip()):
        return table
    try:
        found = load_table(options, confs)
    except TwoStageError:
        return table
    is_same = (found.metadata.table_uuid, found.storage.root) == (
        table.metadata.table_uuid,
        table.storage.root,
    )
    later, before = expires_at(found.storage.properties), expires_at(table.storage.properties)
    if not is_same or (later is not None and before is not None and later <= before):
        return table
    opened = replace(table.storage, properties=found.storage.properties, renewal=found.storage.renewal)
    return replace(table, storage=opened)
