"""How often logged scans used the indexes of columns.

Takes query logs; gives numbers by column. A log says of a scan that indexes answered a part of its filter, not which: a use is
counted for each of the columns that the filter names. Of aggregates that indexes answered, their columns and groups count.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.advisor.table_name import logged_name

_USED = ("indexes.used", "files.pruned.index", "files.answered.index")
"""Counters of which one says that indexes were used."""

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.advisor.query_log import QueryLog


@dataclass(slots=True)
class IndexUses:
    """Scans of one table, by the columns that their filters name.

    Attributes:
        filtered: Scans whose filter names the column, or that are sorted by it for their first rows, or whose aggregates of it
            indexes answered.
        used: Of these, scans that indexes answered a part of.
    """

    filtered: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)


def index_uses(logs: Iterable[QueryLog], table: str) -> IndexUses:
    """Return how often a table's columns were filtered on, and indexes used then.

    Args:
        logs: Our own.
        table: As they call it.

    Raises:
        NotFoundError: There is no such log.
    """
    found, table = IndexUses(), logged_name(table)
    for log in logs:
        for scan in log:
            if scan.table != table:
                continue
            whole = scan.filter
            named = set() if whole is None else {name for leaf in whole.leaves() for name in leaf.columns}
            named.update(scan.answered_columns)
            if scan.order_column is not None:
                named.add(scan.order_column)
            found.filtered.update(named)
            if any(scan.count(name) for name in _USED):
                found.used.update(named)
    return found
