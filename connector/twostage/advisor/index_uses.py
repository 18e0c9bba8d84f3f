"""How often logged scans used the indexes of columns.

Takes query logs; returns counts by column. A log says that indexes answered a part of a scan's filter, not
which part: a use is counted for each column that the filter names. For aggregates answered by indexes, the
aggregated and grouping columns count.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.advisor.table_name import logged_name

_USED = ("indexes.used", "files.pruned.index", "files.answered.index")
"""Counters, any of which says that indexes were used."""

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.advisor.query_log import QueryLog


@dataclass(slots=True)
class IndexUses:
    """Scans of one table, by the columns that their filters name.

    Attributes:
        filtered: Scans whose filter names the column, top-n scans ordered by it, and scans whose aggregates
            of it indexes answered.
        used: Of these, scans that indexes answered in part.
    """

    filtered: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)


def index_uses(logs: Iterable[QueryLog], table: str) -> IndexUses:
    """Return how often a table's columns were filtered on, and how often indexes were used then.

    Args:
        logs: twostage's own.
        table: Its name in them.

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
