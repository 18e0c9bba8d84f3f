"""Random schema evolution at every depth, with a data file of each format between the steps.

A sequence adds, drops, renames, reorders and widens fields of the top level, of structs, list elements and map
values, and drops names to use them again. What is read is compared with an oracle that follows field ids and
nothing else. ``TWOSTAGE_SEED`` sets the first seed; a failure shows its seed as the test's parameter.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import oracle
from check import Columns
from core_scan import open_table, scan
from declared.types import Column, ListOf, MapOf, Struct, decimal_of, inner, walk
from figures import FULL, record
from tables import DataFile, Table
from twostage.columns import project_names
from twostage.predicates.predicate import Compare, IsNull, Predicate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
TABLES = 300 if FULL else 25
STEPS, ROWS = 9, 7
FORMATS = ("parquet", "orc", "avro")
PRIMITIVES = (
    "int",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "boolean",
    "decimal(7,2)",
)
WIDER = {"int": "long", "float": "double"}
DAY_MICROS = 86_400_000_000


class Sequence:
    """A table that changes step by step. The changes are drawn apart from the rows, which need not be written."""

    def __init__(self, seed: int, folder: Path, *, writes: bool = True) -> None:
        self.pick, self.rows = random.Random(seed), random.Random(-seed)
        self.writes = writes
        self.did: list[tuple[str, str, str]] = []
        """Which changes were made, at which depth, before a file of which format."""
        self.version = self.pick.choice((2, 3))
        declared = {
            "id": "long", "a": "int", "s": {"x": "int", "y": "string", "in": {"z": "float"}},
            "l": [{"p": "int", "q": ["int"]}], "m": ("map", "string", {"v": "int", "w": "decimal(5,2)"}),
            "n": ["int"], "k": ("map", "string", "float"), "d": "date", "deep": [[{"e": "int"}]],
        }  # fmt: skip
        self.table = Table(folder, declared, version=self.version)
        self.counter = 0
        self.changes: list[tuple[str, str]] = []

    def run(self) -> None:
        """Make the steps, each followed by a file."""
        self.append()
        for _ in range(STEPS):
            self.change()
            self.append()

    def append(self) -> None:
        file_format = self.pick.choice(FORMATS)
        self.did += [(*change, file_format) for change in self.changes]
        self.changes.clear()
        if not self.writes:
            return
        rows = []
        for _ in range(ROWS):
            row = {column.name: self.value(column) for column in self.table.columns if column.name != "id"}
            rows.append({**row, "id": self.counter})
            self.counter += 1
        self.table.append(rows, format=file_format, mixed=True, row_group_size=self.rows.choice((3, 100)))

    def value(self, column: Column) -> Any:
        pick, kind = self.rows, column.type
        if not column.required and pick.random() < 0.2:
            return None
        match kind:
            case Struct(fields):
                return {field.name: self.value(field) for field in fields}
            case ListOf(element):
                return [self.value(element) for _ in range(pick.randrange(3))]
            case MapOf(_, value):
                return {f"k{i}": self.value(value) for i in range(pick.randrange(3))}
            case "int" | "long" | "date":
                return pick.randrange(-9, 9)
            case "float" | "double":
                return pick.choice((0.5, -1.25, 3.0))
            case "string":
                return pick.choice(("", "x", "äöü"))
            case "binary":
                return pick.choice((b"", b"\x00\xff"))
            case "boolean":
                return pick.random() < 0.5
            case "timestamp":
                return pick.randrange(-(10**15), 10**15)
        return Decimal(pick.randrange(-9999, 9999)).scaleb(-2)

    def change(self) -> None:
        """Change one thing; the kind of change is drawn first, so that each is as likely."""
        structs = ["", *(".".join(p) for c, p in self.fields() if isinstance(c.type, Struct))]
        leaves = [(c, ".".join(p)) for c, p in self.fields() if self.can_change(c, p)]
        match self.pick.choice(("add", "drop", "rename", "widen", "widen", "order", "again")):
            case "add":
                self.add(self.pick.choice(structs), f"n{self.table._last_id}")
            case "drop" if len(leaves) > 2:
                self.drop(*self.pick.choice(leaves))
            case "again" if len(leaves) > 2:
                column, path = self.pick.choice(leaves)
                if self.drop(column, path):
                    self.add(path.rpartition(".")[0], column.name)
                    self.note("again", path)
            case "rename":
                column, path = self.pick.choice(leaves)
                self.table.rename_column(path, f"r{column.id}_{self.pick.randrange(10**6)}")
                self.note("rename", path)
            case "widen":
                wide = [
                    (c, ".".join(p), to) for c, p in self.fields() if c.name != "id" and (to := self.wider(c))
                ]
                if wide:
                    column, path, to = self.pick.choice(wide)
                    self.table.widen_column(path, to)
                    self.note(f"widen {str(column.type)[:7]}", path)
            case "order":
                self.order(self.pick.choice(structs))

    def fields(self) -> list[tuple[Column, tuple[str, ...]]]:
        return list(walk(self.table.columns))

    def can_change(self, column: Column, path: tuple[str, ...]) -> bool:
        """Whether a field is one of a struct's or of the top level: elements, keys and values have no names."""
        within = next((c for c, p in self.fields() if p == path[:-1]), None)
        return column.name != "id" and (within is None or isinstance(within.type, Struct))

    def wider(self, column: Column) -> str | None:
        kind = str(column.type)
        if column.default is not None:
            return None
        if digits := decimal_of(column.type):
            return f"decimal({digits[0] + 3},{digits[1]})" if digits[0] < 30 else None
        return "timestamp" if kind == "date" and self.version == 3 else WIDER.get(kind)

    def add(self, parent: str, name: str) -> None:
        pick = self.pick
        kind: Any = pick.choice(PRIMITIVES)
        if pick.random() < 0.2:
            kind = pick.choice(
                ({"i": "int"}, ["int"], ("map", "string", "int")) if not parent else ({"i": "int"},)
            )
        path = f"{parent}.{name}" if parent else name
        default = None
        if self.version == 3 and kind in ("int", "long", "string") and pick.random() < 0.5:
            default = 7 if kind != "string" else "filled"
        self.table.add_column(path, kind, default=default)
        self.note("add with default" if default is not None else "add", path)

    def drop(self, column: Column, path: str) -> bool:
        parent = path.rpartition(".")[0]
        siblings = inner(self.table.column(parent).type) if parent else self.table.columns
        if len(siblings) < 2:
            return False
        self.table.drop_column(path)
        self.note("drop", path)
        return True

    def order(self, path: str) -> None:
        fields = inner(self.table.column(path).type) if path else self.table.columns
        names = [field.name for field in fields]
        self.pick.shuffle(names)
        if path:
            self.table.order_fields(path, names)
        else:
            self.table.order_columns(names)
        self.note("order", f"{path}.x" if path else "x")

    def note(self, what: str, path: str) -> None:
        names = path.split(".")
        inside = "element" if "element" in names else "value" if "value" in names else "struct"
        self.changes.append((what, inside if len(names) > 1 else "top"))


# ---- the oracle: field ids, nothing else


def now(column: Column, held: Mapping[int, Column], value: Any) -> Any:
    """Return a file's value as the column has it now; what the file lacks is the default."""
    if value is None:
        return None
    before = held[column.id].type
    match column.type:
        case Struct(fields):
            return {f.id: now(f, held, value.get(f.id)) if f.id in held else f.default for f in fields}
        case ListOf(element):
            return [now(element, held, item) for item in value]
        case MapOf(_, item):
            return [(key, now(item, held, one)) for key, one in value]
        case "timestamp" if before == "date":
            return value * DAY_MICROS
        case "double":
            return float(value)
    return value


def rows_now(columns: Iterable[Column], file: DataFile) -> list[dict[int, Any]]:
    held = {column.id: column for column, _ in walk(file.columns)}
    return [
        {c.id: now(c, held, row.get(c.id)) if c.id in held else c.default for c in columns}
        for row in file.rows
    ]


def value_at(columns: Iterable[Column], row: Mapping[int, Any], field_id: int) -> Any:
    """Return a field's value inside structs; None where one of them is NULL."""
    for column in columns:
        found = row.get(column.id)
        if column.id == field_id:
            return found
        if isinstance(column.type, Struct) and any(c.id == field_id for c, _ in walk(column.type.fields)):
            return None if found is None else value_at(column.type.fields, found, field_id)
    raise AssertionError(field_id)


@pytest.mark.parametrize("seed", range(SEED, SEED + TABLES))
def test_every_file_is_read_as_the_fields_are_now(seed: int, tmp_path: Path) -> None:
    made = Sequence(seed, tmp_path)
    made.run()
    table = made.table
    opened = open_table(table.write())
    rows = [row for file in table.content().data for row in rows_now(table.columns, file)]
    schema = opened.table.schema

    def compare(names: list[str] | None, kept: list[dict[int, Any]], **how: Any) -> None:
        fields = project_names(schema, names)
        expected = [oracle.project(row, fields) for row in kept]
        problem = oracle.difference(scan(opened, fields, **how).rows, expected)
        assert not problem, f"{names} {how}: {problem}"

    compare(None, rows)
    for column, path in walk(table.columns):
        if {"element", "key", "value"} & set(path):
            continue
        quoted = ".".join(path)
        compare([quoted], rows)
        tests: list[Predicate] = [IsNull(Columns(schema)(quoted))]
        if column.type in ("int", "long"):
            tests.append(Compare("<", Columns(schema)(quoted), 3))
        if column.type == "timestamp":
            tests.append(Compare("<", Columns(schema)(quoted), DAY_MICROS))
        for predicate in tests:
            flat = [{**row, column.id: value_at(table.columns, row, column.id)} for row in rows]
            kept = [row for row, one in zip(rows, flat, strict=True) if oracle.evaluate(predicate, one)]
            compare(["id"], kept, predicate=predicate)


def test_the_sequences_hold_every_change_at_every_depth_before_every_format(tmp_path: Path) -> None:
    """Of the default seeds: without this, a change that is never drawn would never be missed."""
    did: Counter[tuple[str, ...]] = Counter()
    for seed in range(1, 41):
        sequence = Sequence(seed, tmp_path, writes=False)
        sequence.run()
        for what, place, file_format in sequence.did:
            did.update([(what, place), (what, file_format)])
    for what in ("add", "drop", "rename", "again", "order"):
        for where in ("top", "struct", "element", "value", *FORMATS):
            assert did[what, where], (what, where)
    for what in ("add with default", "widen int", "widen float", "widen date", "widen decimal"):
        assert any(change == what for change, _ in did), what
    record("R1", evolution_changes=sum(did[what, file] for what, file in did if file in FORMATS))
