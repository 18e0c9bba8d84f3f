"""Reads a table by several ways and says what came: rows, or the error. The rule: all ways say the same of bad bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from check import Columns
from core_scan import open_table, scan
from twostage.data_files import orc_file, parquet_footers
from twostage.deletes.cache.memory import CACHE
from twostage.errors import TwoStageError
from twostage.predicates.predicate import TRUE, Compare

if TYPE_CHECKING:
    from pathlib import Path

WAYS: dict[str, dict[str, str]] = {
    "two stages": {},
    "one stage": {"two-stage": "false"},
    "page by page": {"read.pages": "always", "read.few-rows": "always"},
    "no pruning": {
        f"prune.{what}": "false" for what in ("files", "row-groups", "dictionary", "bloom", "deletes")
    },
}


@dataclass
class Came:
    """What a read came to: rows, or the error."""

    rows: list[tuple[Any, ...]]
    error: TwoStageError | None = None


def read_everything(path: Path, *, filtered: bool, **options: str) -> Came:
    """Read all columns, of all rows or of those with ``text >= ''``, which are the same."""
    CACHE.clear()
    parquet_footers._footers.clear()
    orc_file._tails.clear()
    try:
        opened = open_table(path, **options)
        schema = opened.table.schema
        predicate = Compare(">=", Columns(schema)("text"), "") if filtered else TRUE
        return Came(scan(opened, schema.fields, predicate).rows)
    except TwoStageError as error:
        return Came([], error)
