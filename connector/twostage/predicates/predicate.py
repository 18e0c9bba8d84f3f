"""The predicate tree: what a scan filters by, in Spark's three-valued logic.

Takes the JSON that the planner (or `sql_filter`) writes and a schema; gives a tree of plain values whose
columns are field ids. Whatever cannot be evaluated exactly as Spark does becomes `Unknown`: a predicate
that holds one is handed back to Spark, and only what it implies (`weaken`) may prune. A node that is not
`Unknown` means exactly what Spark means by it: NaN equals itself and is greater than everything,
-0.0 = 0.0, strings compare as unsigned UTF-8 bytes, NULL spreads as in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from twostage.predicates.shown import show
from twostage.schema import Primitive, Type  # noqa: TC001 - the examples below need them

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column or a field inside structs. `cast` is the Iceberg type it is widened to first, if any."""

    field_id: int
    path: tuple[str, ...]
    type: Type
    cast: Primitive | None = None

    @property
    def value_type(self) -> Type:
        """The type after the cast."""
        return self.cast or self.type

    def __str__(self) -> str:
        name = ".".join(f"`{part}`" if not part.isidentifier() else part for part in self.path)
        return f"cast({name} as {self.cast})" if self.cast else name


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL (None)."""

    value: bool | None

    def __str__(self) -> str:
        return "NULL" if self.value is None else str(self.value).upper()


@dataclass(frozen=True, slots=True)
class Compare:
    """Column against a literal that is not NULL, in the internal form of the column's value type."""

    op: str
    column: Column
    value: Any

    def __str__(self) -> str:
        return f"{self.column} {self.op} {show(self.value, self.column.value_type)}"


@dataclass(frozen=True, slots=True)
class CompareColumns:
    """Two columns of one value type."""

    op: str
    left: Column
    right: Column

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class In:
    """Column among literals (none of them NULL). `has_null`: NULL was listed too, so a miss is NULL."""

    column: Column
    values: tuple[Any, ...]
    has_null: bool = False

    def __str__(self) -> str:
        shown = [show(value, self.column.value_type) for value in self.values[:8]]
        if len(self.values) > 8:
            shown.append(f"… {len(self.values)} values")
        if self.has_null:
            shown.append("NULL")
        return f"{self.column} IN ({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class IsNull:
    """Column IS NULL; the column may be of any type, nested ones included."""

    column: Column

    def __str__(self) -> str:
        return f"{self.column} IS NULL"


@dataclass(frozen=True, slots=True)
class StringMatch:
    """`kind` is ``prefix``, ``suffix`` or ``contains``; the column is a string."""

    kind: str
    column: Column
    value: str

    def __str__(self) -> str:
        pattern = {"prefix": "{}%", "suffix": "%{}", "contains": "%{}%"}[self.kind]
        return f"{self.column} LIKE {show(pattern.format(self.value), self.column.value_type)}"


@dataclass(frozen=True, slots=True)
class CompareLength:
    """A string column's number of characters against a number: what ``LIKE 'a%b'`` asks as well."""

    op: str
    column: Column
    value: int

    def __str__(self) -> str:
        return f"length({self.column}) {self.op} {self.value}"


@dataclass(frozen=True, slots=True)
class And:
    """All of `children`."""

    children: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({c})" if isinstance(c, Or) else str(c) for c in self.children)


@dataclass(frozen=True, slots=True)
class Or:
    """Any of `children`."""

    children: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({c})" if isinstance(c, And) else str(c) for c in self.children)


@dataclass(frozen=True, slots=True)
class Not:
    """NOT `child`: true where the child is false, NULL where it is NULL."""

    child: Predicate

    def __str__(self) -> str:
        if isinstance(self.child, IsNull):
            return f"{self.child.column} IS NOT NULL"
        return f"NOT ({self.child})"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that we do not evaluate exactly as Spark does; `name` says what."""

    name: str

    def __str__(self) -> str:
        return f"<{self.name}>"


Leaf = Constant | Compare | CompareColumns | CompareLength | In | IsNull | StringMatch | Unknown
Predicate = Leaf | And | Or | Not
TRUE, FALSE = Constant(True), Constant(False)


def both(*predicates: Predicate) -> Predicate:
    """Return the conjunction, flattened and without TRUE.

    >>> str(both(TRUE, IsNull(Column(1, ("a",), Primitive("int")))))
    'a IS NULL'
    """
    return _join(And, TRUE, FALSE, predicates)


def either(*predicates: Predicate) -> Predicate:
    """Return the disjunction, flattened and without FALSE."""
    return _join(Or, FALSE, TRUE, predicates)


def _join(
    kind: type[And | Or], empty: Constant, absorbing: Constant, parts: tuple[Predicate, ...]
) -> Predicate:
    flat: list[Predicate] = []
    for part in parts:
        flat.extend(part.children if isinstance(part, kind) else (part,))
    kept = [part for part in dict.fromkeys(flat) if part != empty]
    if absorbing in kept:
        return absorbing
    if len(kept) < 2:
        return kept[0] if kept else empty
    return kind(tuple(kept))


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return the parts that must all hold; none for TRUE."""
    if predicate == TRUE:
        return ()
    return predicate.children if isinstance(predicate, And) else (predicate,)


def push_not_down(predicate: Predicate, *, negate: bool = False) -> Predicate:
    """Return the same predicate in negation normal form: NOT only around single leaves.

    Exact in three-valued logic. NOT stays around IN, IS NULL, <=> and LIKE leaves; comparisons flip,
    which holds for NaN too because Spark orders it totally.
    """
    match predicate:
        case Not(child):
            return push_not_down(child, negate=not negate)
        case And(children) | Or(children):
            is_and = isinstance(predicate, And) != negate
            parts = tuple(push_not_down(child, negate=negate) for child in children)
            return both(*parts) if is_and else either(*parts)
        case Constant(value) if negate:
            return Constant(None if value is None else not value)
        case Compare(op, column, value) if negate and op in _NEGATED:
            return Compare(_NEGATED[op], column, value)
        case CompareColumns(op, left, right) if negate and op in _NEGATED:
            return CompareColumns(_NEGATED[op], left, right)
        case CompareLength(op, column, value) if negate and op in _NEGATED:
            return CompareLength(_NEGATED[op], column, value)
    return Not(predicate) if negate else predicate


def weaken(predicate: Predicate) -> Predicate:
    """Return a predicate without `Unknown` that holds wherever `predicate` is true.

    >>> a = IsNull(Column(1, ("a",), Primitive("int")))
    >>> str(weaken(And((a, Unknown("upper")))))
    'a IS NULL'
    >>> str(weaken(Or((a, Unknown("upper")))))
    'TRUE'
    """
    return _weaken(push_not_down(predicate))


def _weaken(predicate: Predicate) -> Predicate:
    match predicate:
        case Unknown() | Not(Unknown()):
            return TRUE
        case And(children):
            return both(*(_weaken(child) for child in children))
        case Or(children):
            return either(*(_weaken(child) for child in children))
    return predicate


def without_implied(predicate: Predicate) -> Predicate:
    """Return the conjunction without ``IS NOT NULL`` tests that another conjunct implies.

    Spark adds them to every comparison. The result is true for the same rows; where it is not true it may
    be NULL instead of false, so this is for a whole filter only.

    >>> a = Column(1, ("a",), Primitive("int"))
    >>> str(without_implied(And((Not(IsNull(a)), Compare("=", a, 5)))))
    'a = 5'
    """
    parts = conjuncts(predicate)
    rejecting = {column.field_id for part in parts for column in _never_true_for_null(part)}
    kept = [
        part
        for part in parts
        if not (isinstance(part, Not) and isinstance(part.child, IsNull))
        or part.child.column.field_id not in rejecting
    ]
    return both(*kept)


def _never_true_for_null(predicate: Predicate) -> tuple[Column, ...]:
    """Return the columns whose NULL keeps this leaf from being true."""
    match predicate:
        case Compare(_, column, _) | CompareLength(_, column, _) | In(column) | StringMatch(_, column, _):
            return (column,)
        case Not(In(column) | StringMatch(_, column, _)):
            return (column,)
        case CompareColumns(op, left, right) if op != "<=>":
            return (left, right)
    return ()


def is_exact(predicate: Predicate) -> bool:
    """Tell whether we evaluate all of the predicate exactly as Spark does."""
    return not any(isinstance(leaf, Unknown) for leaf in leaves(predicate))


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """Yield the leaves, left to right."""
    match predicate:
        case And(children) | Or(children):
            for child in children:
                yield from leaves(child)
        case Not(child):
            yield from leaves(child)
        case _:
            yield predicate


def columns(predicate: Predicate) -> tuple[Column, ...]:
    """Return the columns that evaluating needs, each field id once (casts dropped), in order of use."""
    found: dict[int, Column] = {}
    for leaf in leaves(predicate):
        if isinstance(leaf, CompareColumns):
            parts: tuple[Column, ...] = (leaf.left, leaf.right)
        elif isinstance(leaf, Constant | Unknown):
            parts = ()
        else:
            parts = (leaf.column,)
        for column in parts:
            found.setdefault(column.field_id, replace(column, cast=None))
    return tuple(found.values())


def mirrored(op: str) -> str:
    """Return the comparison that holds with its sides swapped."""
    return _MIRRORED[op]
