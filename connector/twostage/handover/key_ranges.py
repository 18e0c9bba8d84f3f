"""How keys of joins prune whole files by the ranges of their values, where Spark's own reader does the scan.

Takes the facts of the scan's files; gives the columns whose keys can prune files, with each file's range of their values,
and how many rows share a key. Once the keys have come, Spark looks up every value of a file's range among them, and does not
read the file if it finds none. The rule: a file whose range is unknown, or too wide to look up, is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.handover.protocol import KeyRange
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twostage.handover.file_facts import FileFacts
    from twostage.schema import Field

TYPES = ("int", "long", "date")
MAX_KEY_COLUMNS = 2
"""For each key column Spark's reader carries two more, and Spark plans the join side that gives its keys once more."""
MAX_VALUES_PER_FILE = 10_000
"""Values of a file's range: 27 years of days. Spark looks up about 10 of them in a microsecond."""
MAX_VALUES_LOOKED_UP = 1_000_000
"""Values of the ranges of all files of a scan: 0.1 s."""
MAX_SHARE_OF_A_FILE = 0.5
"""Share of all files' values that a file's range covers on average; in files that are not clustered by the column, any
join's keys find something."""


def key_columns(facts: Sequence[FileFacts], fields: Sequence[Field]) -> tuple[str, ...]:
    """Return the columns by which the files are clustered, the most clustered first.

    Args:
        facts: Those of the scan's files.
        fields: The columns that Spark would read.
    """
    shares = {field.name: _share(facts, field) for field in fields}
    chosen = sorted((share, name) for name, share in shares.items() if share <= MAX_SHARE_OF_A_FILE)
    return tuple(name for _, name in chosen[:MAX_KEY_COLUMNS])


def ranges_of(known: FileFacts, columns: Sequence[Field]) -> tuple[KeyRange, ...]:
    """Return a file's ranges of these columns, without those that are unknown or too wide."""
    found = ((field.name, known.ranges.get(field.id)) for field in columns)
    return tuple(
        KeyRange(column=name, lower=both[0], upper=both[1])
        for name, both in found
        if both is not None and _width(both) <= MAX_VALUES_PER_FILE
    )


def rows_a_key(facts: Sequence[FileFacts], field: Field) -> float:
    """Return how many rows, on average, share a value of a column at least; 1 where that is not known.

    Every whole number between the least and the greatest value counts as a value.
    """
    if not isinstance(field.type, Primitive) or field.type.name not in TYPES:
        return 1.0
    ranges = [both for known in facts if (both := known.ranges.get(field.id)) is not None]
    if not ranges or len(ranges) < len(facts):
        return 1.0
    every = max(upper for _, upper in ranges) - min(lower for lower, _ in ranges) + 1
    return max(1.0, sum(known.num_rows for known in facts) / every)


def _share(facts: Sequence[FileFacts], field: Field) -> float:
    """Return the share of all files' values that a file's range covers on average; 1 if it is of no use."""
    if not isinstance(field.type, Primitive) or field.type.name not in TYPES:
        return 1.0
    ranges = [known.ranges.get(field.id) for known in facts]
    found = [both for both in ranges if both is not None]
    if len(found) < 2:
        return 1.0
    every = max(upper for _, upper in found) - min(lower for lower, _ in found) + 1
    widths = [
        every if both is None or _width(both) > MAX_VALUES_PER_FILE else _width(both) for both in ranges
    ]
    looked_up = sum(width for width in widths if width <= MAX_VALUES_PER_FILE)
    return 1.0 if looked_up > MAX_VALUES_LOOKED_UP else sum(widths) / (len(widths) * every)


def _width(both: tuple[int, int]) -> int:
    return both[1] - both[0] + 1
