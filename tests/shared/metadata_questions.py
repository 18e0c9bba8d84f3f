"""Requests aggregates from the product's core, by their text: metadata's answer, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twostage.aggregates.metadata_answer import Aggregate, AggregateAnswer, answer
from twostage.predicates.predicate import TRUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core_scan import Opened
    from twostage.predicates.predicate import Predicate


def asked(opened: Opened, *texts: str, by: Sequence[str] = (), predicate: Predicate = TRUE) -> Any:
    """Return the rows, or the reason; `texts` are such as ``count(*)`` and ``min(id)``."""
    fields = {field.name: field for field in opened.table.schema.fields}
    aggregates = []
    for text in texts:
        function, _, name = text.rstrip(")").partition("(")
        aggregates.append(
            Aggregate("rows") if name == "*" else Aggregate(function, fields[name])  # type: ignore[arg-type]
        )
    found = answer(
        opened.table,
        opened.options,
        aggregates=tuple(aggregates),
        groups=tuple(fields[name] for name in by),
        predicate=predicate,
    )
    return sorted(found.rows, key=repr) if isinstance(found, AggregateAnswer) else found
