"""The predicate tree of a scan, in SQL's three-valued logic.

`bind.py` builds it from the planner's JSON, `sql_filter.py` from SQL text. Columns are identified by Iceberg field id;
literals are in the internal form of `schema.py`. Expressions that we do not evaluate exactly as Spark does are
`Unknown`: a predicate that contains one stays with Spark, and only what it implies (`weaken`) may prune. Every other
node has Spark's semantics: NaN equals NaN and is greater than any other number, -0.0 = 0.0, strings compare as
unsigned UTF-8 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from twostage.predicates.shown import show
from twostage.schema import List, Primitive, Type

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}


@dataclass(frozen=True, slots=True)
class Column:
    """A top-level column or a field nested in structs. `cast` is the type it is widened to before use, if any."""

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
    """Column compared with a non-NULL literal, which is in the internal form of the column's `value_type`."""

    op: str
    column: Column
    value: Any

    def __str__(self) -> str:
        return f"{self.column} {self.op} {show(self.value, self.column.value_type)}"


@dataclass(frozen=True, slots=True)
class CompareColumns:
    """Comparison of two columns with the same `value_type`."""

    op: str
    left: Column
    right: Column

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class In:
    """Column IN non-NULL literals. `has_null`: the list also contained NULL, so an unlisted value gives NULL."""

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
class KeyBloom:
    """A Bloom filter of a join's keys: its bytes, as Spark writes them, and the number of keys."""

    data: bytes
    count: int

    def __repr__(self) -> str:
        return f"KeyBloom({self.count} keys)"


@dataclass(frozen=True, slots=True)
class InBloom:
    """Column possibly IN the join keys of a Bloom filter: true for every key, and for some other values."""

    column: Column
    bloom: KeyBloom

    def __str__(self) -> str:
        return f"{self.column} IN Bloom filter of {self.bloom.count:,} keys"


@dataclass(frozen=True, slots=True)
class JoinKeySet:
    """Keys of a join that are too many for an IN list: bytes that `key_set.py` reads, and the number of keys."""

    data: bytes
    count: int

    def __repr__(self) -> str:
        return f"JoinKeySet({self.count} keys)"


@dataclass(frozen=True, slots=True)
class InKeys:
    """Column IN the keys of a join, which are integers in internal form."""

    column: Column
    keys: JoinKeySet

    def __str__(self) -> str:
        return f"{self.column} IN set of {self.keys.count:,} keys"


@dataclass(frozen=True, slots=True)
class InTuples:
    """Columns whose values may be a tuple of a join's keys, by the tuples' hashes; NULL if one of them is."""

    columns: tuple[Column, ...]
    keys: JoinKeySet

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.columns))}) IN set of {self.keys.count:,} keys"


@dataclass(frozen=True, slots=True)
class IsNull:
    """Column IS NULL; the column may have any type, including nested ones."""

    column: Column

    def __str__(self) -> str:
        return f"{self.column} IS NULL"


@dataclass(frozen=True, slots=True)
class StringMatch:
    """A string column tested for a prefix, suffix or substring: `kind` is ``prefix``, ``suffix`` or ``contains``."""

    kind: str
    column: Column
    value: str

    def __str__(self) -> str:
        pattern = {"prefix": "{}%", "suffix": "%{}", "contains": "%{}%"}[self.kind]
        return f"{self.column} LIKE {show(pattern.format(self.value), self.column.value_type)}"


@dataclass(frozen=True, slots=True)
class CompareLength:
    """``length(column) op value`` for a string column; also part of ``LIKE 'a%b'``."""

    op: str
    column: Column
    value: int

    def __str__(self) -> str:
        return f"length({self.column}) {self.op} {self.value}"


@dataclass(frozen=True, slots=True)
class HasElement:
    """``array_contains(column, value)`` or ``map_contains_key(column, value)``; the value is not NULL.

    NULL if the list is NULL, or if it lacks the value but contains a NULL.

    Attributes:
        column: A list or a map.
        element: Its elements or keys, primitive and without a cast.
        value: In the internal form of `element`.
    """

    column: Column
    element: Column
    value: Any

    def __str__(self) -> str:
        function = "array_contains" if isinstance(self.column.type, List) else "map_contains_key"
        return f"{function}({self.column}, {show(self.value, self.element.value_type)})"


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction of `children`."""

    children: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({c})" if isinstance(c, Or) else str(c) for c in self.children)


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction of `children`."""

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
    """An expression that we do not evaluate exactly as Spark does; `name` describes it."""

    name: str

    def __str__(self) -> str:
        return f"<{self.name}>"


Leaf = (
    Constant
    | Compare
    | CompareColumns
    | CompareLength
    | HasElement
    | In
    | InBloom
    | InKeys
    | InTuples
    | IsNull
    | StringMatch
    | Unknown
)
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
    """Return the conjuncts of a predicate; none for TRUE."""
    if predicate == TRUE:
        return ()
    return predicate.children if isinstance(predicate, And) else (predicate,)


def push_not_down(predicate: Predicate, *, negate: bool = False) -> Predicate:
    """Return the same predicate in negation normal form: NOT only around single leaves.

    Exact in three-valued logic. NOT remains around IN, IS NULL, <=> and LIKE; other comparisons are inverted, which
    is right for NaN too because Spark's order is total.
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
    """Return a predicate without `Unknown` that is true for every row for which `predicate` is.

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
    """Return the conjunction without the ``IS NOT NULL`` tests that another conjunct implies.

    Spark adds them to every comparison. The result is true for the same rows, but may be NULL where the original is
    false, so apply this to a complete filter only.

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
    """Return the columns for which a NULL prevents this leaf from being true."""
    match predicate:
        case (
            Compare(_, column, _)
            | CompareLength(_, column, _)
            | HasElement(column)
            | In(column)
            | InBloom(column)
            | InKeys(column)
        ):
            return (column,)
        case InTuples(columns):
            return columns
        case StringMatch(_, column, _):
            return (column,)
        case Not(In(column) | StringMatch(_, column, _) | HasElement(column)):
            return (column,)
        case CompareColumns(op, left, right) if op != "<=>":
            return (left, right)
    return ()


def is_exact(predicate: Predicate) -> bool:
    """Return whether the predicate contains no `Unknown`."""
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
    """Return the columns that the predicate reads, distinct by field id, without casts, in order of use."""
    found: dict[int, Column] = {}
    for leaf in leaves(predicate):
        if isinstance(leaf, CompareColumns):
            parts: tuple[Column, ...] = (leaf.left, leaf.right)
        elif isinstance(leaf, InTuples):
            parts = leaf.columns
        elif isinstance(leaf, Constant | Unknown):
            parts = ()
        else:
            parts = (leaf.column,)
        for column in parts:
            found.setdefault(column.field_id, replace(column, cast=None))
    return tuple(found.values())


def mirrored(op: str) -> str:
    """Return the operator for swapped operands: ``<`` for ``>``."""
    return _MIRRORED[op]
