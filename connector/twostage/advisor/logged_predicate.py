"""A predicate as it is logged: plain values that any program can read back, with the cost of evaluating it.

Takes a bound predicate and the measured costs of its parts by their text; returns a tree of
`LoggedPredicate`, and its JSON. The rules: NOT is in the leaves' operators, so that only AND and OR have
children; and if literals are left out, neither values nor texts contain any.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from twostage.advisor.log_values import literal, text, texts, whole_number, whole_number_or_none
from twostage.predicates import predicate as tree
from twostage.predicates.normalize import pull_common_factors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from twostage.metrics import PredicateCost
    from twostage.predicates.predicate import Predicate

MAX_VALUES = 100
"""Literals of one IN that are logged; `LoggedPredicate.count` counts all. A join may have thousands of
keys."""
_MAX_DEPTH = 50
_MAX_NODES = 10_000
"""Of one predicate read from a log: it may not exhaust this process."""
RANGE = "range"
"""The operator of two comparisons that limit a column from both sides."""
_MEASURED = frozenset({"in", "out", "ns", "bytes"})
_LOWS, _HIGHS = frozenset({">", ">="}), frozenset({"<", "<="})
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedPredicate:
    """A node of a logged predicate.

    Attributes:
        op: ``and``, ``or``; for leaves ``=``, ``<>``, ``<``, ``<=``, ``>``, ``>=``, ``<=>``, ``in``, ``is null``,
            ``prefix``, ``suffix``, ``contains``, ``length``, all but the comparisons also with ``not`` in
            front; ``constant``, or ``unknown`` for an expression that is none of these.
        columns: The leaf's columns; nested ones with dots. Two for a comparison of columns.
        values: The literals, in Iceberg's JSON form where JSON has none of its own (decimals and bytes as text); at most
            `MAX_VALUES`; None if they were left out or are not known.
        count: The number of literals.
        type: The type that the literals have; empty if not known.
        text: The predicate as SQL; with ``?`` for each literal that was left out.
        rows_in: Rows that it was evaluated for; None if not measured.
        rows_out: Of these, the rows for which it was true.
        nanoseconds: The time to evaluate it, including reading its columns.
        nbytes: The bytes then read from its columns; none from a column already read for another part.
        children: Of ``and`` and ``or``.
    """

    op: str
    columns: tuple[str, ...] = ()
    values: tuple[Any, ...] | None = None
    count: int = 0
    type: str = ""
    text: str = ""
    rows_in: int | None = None
    rows_out: int | None = None
    nanoseconds: int | None = None
    nbytes: int | None = None
    children: tuple[LoggedPredicate, ...] = field(default=())

    def leaves(self) -> Iterator[LoggedPredicate]:
        """Yield the leaves, left to right."""
        if self.op in ("and", "or"):
            for child in self.children:
                yield from child.leaves()
        else:
            yield self

    @property
    def conjuncts(self) -> tuple[LoggedPredicate, ...]:
        """The parts that must all be true; the predicate itself if it is not an AND."""
        return self.children if self.op == "and" else (self,)

    @property
    def share(self) -> float | None:
        """The measured share of rows for which it was true, from 0 to 1; None if no row was evaluated."""
        if not self.rows_in or self.rows_out is None:
            return None
        return min(1.0, self.rows_out / self.rows_in)

    def as_dict(self) -> dict[str, Any]:
        """Return the node as plain values that JSON can hold; what is empty or not known is left out."""
        plain: dict[str, Any] = {
            "op": self.op,
            "columns": list(self.columns),
            "values": None if self.values is None else list(self.values),
            "count": self.count,
            "type": self.type,
            "text": self.text,
            "in": self.rows_in,
            "out": self.rows_out,
            "ns": self.nanoseconds,
            "bytes": self.nbytes,
            "children": [child.as_dict() for child in self.children],
        }
        return {
            key: value
            for key, value in plain.items()
            if value is not None and (value not in ([], "", 0) or key in _MEASURED)
        }


def with_ranges(part: LoggedPredicate) -> LoggedPredicate:
    """Return a predicate with an AND's two comparisons that bound a column on both sides as one ``range`` leaf.

    The reader looks up both in an index at once; each alone may match half of all rows. Unmeasured ones stay
    separate.
    """
    if not part.children:
        return part
    children = list(map(with_ranges, part.children))
    if part.op == "and":
        sides = [one for one in children if len(one.columns) == 1 and one.share is not None]
        lows = {one.columns: one for one in sides if one.op in _LOWS}
        highs = {one.columns: one for one in sides if one.op in _HIGHS}
        for columns in lows.keys() & highs.keys():
            pair = sorted((lows[columns], highs[columns]), key=lambda one: -(one.rows_in or 0))
            place = children.index(pair[0])
            children[place] = _range(*pair)
            children.remove(pair[1])
    if len(children) == 1:
        return children[0]
    return replace(part, children=tuple(children))


def _range(first: LoggedPredicate, second: LoggedPredicate) -> LoggedPredicate:
    """Return the range of two comparisons, in the order in which they were evaluated."""
    rows_out = round((first.rows_in or 0) * (first.share or 0.0) * (second.share or 0.0))
    values = None
    if first.values is not None and second.values is not None:
        values = (*first.values, *second.values)
    return replace(
        first,
        op=RANGE,
        values=values,
        count=first.count + second.count,
        text=f"{first.text} AND {second.text}",
        rows_out=rows_out,
        nanoseconds=(first.nanoseconds or 0) + (second.nanoseconds or 0) or None,
        nbytes=None if first.nbytes is None or second.nbytes is None else first.nbytes + second.nbytes,
    )


def without_implied(parts: Sequence[LoggedPredicate], text: str = "") -> LoggedPredicate | None:
    """Return the conjunction of parts without the ``IS NOT NULL`` that another part implies; None for none.

    Spark adds them to every comparison, and no index over them would save anything.
    """
    others = {
        column
        for part in parts
        if not part.children and part.op not in ("is null", "not is null", "<=>", "not <=>")
        for column in part.columns
    }
    kept = [part for part in parts if part.op != "not is null" or not others.issuperset(part.columns)]
    if len(kept) < 2:
        return kept[0] if kept else None
    return LoggedPredicate(op="and", children=tuple(kept), text=text)


def log_predicate(
    predicate: Predicate, costs: Mapping[str, PredicateCost], *, literals: bool = True
) -> LoggedPredicate | None:
    """Return a bound predicate as it is logged; None for TRUE.

    Args:
        predicate: The tree.
        costs: The costs of evaluating its conjuncts and leaves, by their text.
        literals: Keep literals.
    """
    normal = pull_common_factors(tree.push_not_down(predicate))
    return None if normal == tree.TRUE else _log(normal, costs, literals=literals)


def _log(part: Predicate, costs: Mapping[str, PredicateCost], *, literals: bool) -> LoggedPredicate:
    cost = costs.get(str(part))
    measured: dict[str, Any] = {}
    if cost is not None:
        measured = {
            "rows_in": cost.rows_in,
            "rows_out": cost.rows_out,
            "nanoseconds": cost.nanoseconds,
            "nbytes": cost.column_bytes,
        }
    if isinstance(part, tree.And | tree.Or):
        children = tuple(_log(child, costs, literals=literals) for child in part.children)
        op = "and" if isinstance(part, tree.And) else "or"
        return LoggedPredicate(op=op, children=children, text=_joined(op, children), **measured)
    negated = isinstance(part, tree.Not)
    leaf = part.child if isinstance(part, tree.Not) else part
    op, columns, values = _parts(leaf)
    if negated:
        op = _NEGATED.get(op, f"not {op}")
    kind = str(columns[0].value_type) if columns and values else ""
    text = str(part)
    if values and not literals:
        text = _without_literals(op, str(columns[0]), len(values))
    return LoggedPredicate(
        op=op,
        columns=tuple(".".join(column.path) for column in columns),
        values=tuple(map(_plain, values[:MAX_VALUES])) if values and literals else None,
        count=len(values),
        type=kind,
        text=text,
        **measured,
    )


def _parts(leaf: Predicate) -> tuple[str, tuple[tree.Column, ...], tuple[Any, ...]]:
    """Return a leaf's operator, columns and literals."""
    match leaf:
        case tree.Compare(op, column, value):
            return op, (column,), (value,)
        case tree.CompareColumns(op, left, right):
            return op, (left, right), ()
        case tree.CompareLength(_, column, value):
            return "length", (column,), (value,)
        case tree.In(column, values, has_null):
            return "in", (column,), (*((None,) if has_null else ()), *values)
        case tree.HasElement(column, _, value):
            return "has element", (column,), (value,)
        case tree.IsNull(column):
            return "is null", (column,), ()
        case tree.StringMatch(kind, column, value):
            return kind, (column,), (value,)
        case tree.Constant():
            return "constant", (), ()
    return "unknown", (), ()


def _without_literals(op: str, column: str, count: int) -> str:
    if op.endswith("in"):
        shown = ", ".join("?" * min(count, 8)) + (f", … {count} values" if count > 8 else "")
        return f"{column} {op.upper()} ({shown})"
    for kind in ("prefix", "suffix", "contains"):
        op = op.replace(kind, "like")
    return f"{column} {op.upper()} ?"


def _joined(op: str, children: tuple[LoggedPredicate, ...]) -> str:
    return f" {op.upper()} ".join(f"({one.text})" if one.children else one.text for one in children)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal) or (isinstance(value, float) and value - value != 0):
        return str(value)
    return value


def parse_predicate(raw: Any) -> LoggedPredicate | None:
    """Return the predicate in a log's JSON; None for none.

    Raises:
        ValueError: It is not such a predicate, or is too large.
    """
    return None if raw is None else _parse(raw, 0, [0])


def _parse(raw: Any, depth: int, nodes: list[int]) -> LoggedPredicate:
    nodes[0] += 1
    if not isinstance(raw, dict) or depth > _MAX_DEPTH or nodes[0] > _MAX_NODES:
        raise ValueError("no predicate, or too large a one")
    values = raw.get("values")
    children = raw.get("children", [])
    op = text(raw.get("op"), "op")
    if (
        not isinstance(children, list)
        or not (values is None or isinstance(values, list))
        or (op in ("and", "or")) != bool(children)
    ):
        raise ValueError("no predicate")
    return LoggedPredicate(
        op=op,
        columns=texts(raw.get("columns", []), "columns"),
        values=None if values is None else tuple(map(literal, values)),
        count=whole_number(raw.get("count", 0), "count"),
        type=text(raw.get("type", ""), "type"),
        text=text(raw.get("text", ""), "text"),
        rows_in=whole_number_or_none(raw.get("in"), "in"),
        rows_out=whole_number_or_none(raw.get("out"), "out"),
        nanoseconds=whole_number_or_none(raw.get("ns"), "ns"),
        nbytes=whole_number_or_none(raw.get("bytes"), "bytes"),
        children=tuple(_parse(child, depth + 1, nodes) for child in children),
    )
