"""Random Iceberg tables: types, nulls, layouts, partitions, evolution and every kind of delete.

Takes a seed; returns a `Table` with its history. The same seed makes the same table.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import random_values
from declared.content import DataFile, PositionDelete, VectorDelete
from declared.types import Column, Struct, decimal_of, walk
from oracle import live_rows
from tables import FileOptions, Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FORMATS = ("parquet", "parquet", "orc", "avro")
_WIDER = {"int": "long", "float": "double"}
_TRUNCATED = ("int", "long", "string", "binary")
_DATED = ("date", "timestamp", "timestamptz")
_BLOOM = ("int", "long", "string", "binary", "date", "timestamp", "double", "float")


class Maker:
    """Makes one random table; `pools` are the values that each primitive field was drawn from.

    Args:
        seed: The same seed makes the same table.
        folder: Where it is.
        plain: Only what Spark's own Parquet reader can read: Parquet files of its types, no deletes, few
            nested columns.
    """

    def __init__(self, seed: int, folder: Path, *, plain: bool = False) -> None:
        self.random = random.Random(seed)
        self.plain = plain
        self.primitives = random_values.PLAIN if plain else random_values.PRIMITIVES
        self.formats = random.Random(f"formats of {seed}")
        self.pools: dict[int, list[Any]] = {}
        chance = self.random.random()
        version = 1 if chance < 0.08 else 2 if chance < 0.54 else 3
        columns: dict[str, Any] = {"id": "long"}
        # Mostly a different type for each column, so that a table gets more kinds of predicate.
        kinds = self.random.sample(self.primitives, 8)
        for index in range(self.random.randint(3, 7)):
            same = self.random.random() < 0.2
            columns[f"c{index}"] = self.random.choice(self.primitives) if same else kinds[index]
        if self.random.random() < (0.2 if plain else 0.5):
            columns["s"] = self._struct_type()
        rarely = 0.2 if plain else 1.0
        if self.random.random() < 0.25 * rarely:
            columns["list"] = [self.random.choice(("int", "string", "double"))]
        if self.random.random() < 0.2 * rarely:
            columns["map"] = ("map", "string", self.random.choice(("long", "decimal(9,2)")))
        if self.random.random() < 0.15 * rarely:
            columns["structs"] = [{"x": "int", "y": "string"}]
        self.mapped = self.random.random() < 0.2
        self.table = Table(
            folder,
            columns,
            version=version,
            name_mapping=self.mapped,
            scheme=self.random.choice(("", "file://", "file:")),
        )
        self.counter = 0
        self.files: list[DataFile] = []

    def _struct_type(self) -> dict[str, Any]:
        pick = self.random.choice
        inner: dict[str, Any] = {"a": pick(self.primitives), "b": pick(self.primitives)}
        if self.random.random() < 0.4:
            inner["m"] = {"z": pick(self.primitives)}
        return inner

    def make(self) -> Table:
        """Return the finished table."""
        if self.random.random() < 0.5:
            self._partition()
        self._append()
        for _ in range(self.random.randint(2, 9)):
            step = self.random.choices(
                (
                    self._append,
                    self._evolve,
                    self._delete,
                    self._upsert,
                    self._partition,
                    self._remove,
                    self._upgrade,
                ),
                weights=(4, 3, 0, 0, 0.6, 0.4, 0.3) if self.plain else (4, 3, 7, 1, 0.6, 0.4, 0.3),
            )[0]
            step()
        self.table.write()
        return self.table

    # ---- rows

    def _append(self) -> None:
        table, pick = self.table, self.random
        count = pick.choice((1, 5, 20, 40, 80))
        local = {
            column.id: pick.sample(values, max(1, len(values) // pick.choice((1, 1, 3))))
            for column, _ in walk(table.columns)
            if (values := self._pool(column))
        }
        nulls = pick.choice((0.0, 0.1, 0.5)) if pick.random() < 0.9 else 1.0
        rows = [{c.name: self._value(c, local, nulls) for c in table.columns} for _ in range(count)]
        if pick.random() < 0.6:
            name = pick.choice([c.name for c in table.columns])
            rows.sort(key=lambda row: repr(row[name]))
            if all(isinstance(row[name], int) for row in rows):
                rows.sort(key=lambda row: row[name])
        self.files += table.append_all(rows, self._layout())

    def _pool(self, column: Column) -> list[Any]:
        if not isinstance(column.type, str):
            return []
        if column.id not in self.pools:
            self.pools[column.id] = random_values.pool(
                self.random, column.type, self.random.choice((2, 8, 20))
            )
        return self.pools[column.id]

    def _value(self, column: Column, local: dict[int, list[Any]], nulls: float) -> Any:
        pick = self.random
        if column.name == "id":
            self.counter += 1
            return self.counter
        if not column.required and pick.random() < nulls:
            return None
        kind = column.type
        if isinstance(kind, Struct):
            return {field.name: self._value(field, local, nulls) for field in kind.fields}
        if isinstance(kind, str):
            return pick.choice(local[column.id])
        size = pick.randint(0, 3)
        if hasattr(kind, "element"):
            return [self._value(kind.element, local, nulls) for _ in range(size)]
        keys = dict.fromkeys(self._value(kind.key, local, 0) for _ in range(size))
        return [(key, self._value(kind.value, local, nulls)) for key in keys]

    def _layout(self) -> FileOptions:
        pick, table = self.random, self.table
        spec = table.current_spec
        sources = {part.source for part in spec}
        identity = {part.source for part in spec if part.transform == "identity"}
        absent = [
            c.name
            for c in table.columns[1:]
            if not c.required and (c.id in identity or not (sources & {f.id for f, _ in walk((c,))}))
        ]
        blooms = [c.name for c in table.columns if c.type in _BLOOM]
        return FileOptions(
            row_group_size=pick.choice((3, 10, 30, 1_000_000)),
            page_size=pick.choice((16, 64)),  # below 16, pyarrow writes lists that it cannot read
            compression=pick.choice(("zstd", "snappy", "gzip", "none")),
            dictionary=pick.random() < 0.7,
            statistics=pick.random() < 0.8,
            page_checksums=pick.random() < 0.3,
            page_version=pick.choice(("1.0", "1.0", "2.0")),
            page_index=pick.random() < 0.6,
            field_ids=not (self.mapped and pick.random() < 0.5),
            bloom=tuple(pick.sample(blooms, min(2, len(blooms)))) if pick.random() < 0.3 else (),
            absent=tuple(pick.sample(absent, 1)) if absent and pick.random() < 0.2 else (),
            metrics=pick.choices(("full", "counts", "bounds", "none"), weights=(7, 1, 1, 1))[0],
            unmeasured=tuple(c.name for c in table.columns if pick.random() < 0.05),
            integer_decimals=pick.random() < 0.5,
            format="parquet"
            if self.plain
            else self.formats.choice(("parquet", "parquet", "parquet", "orc", "avro")),
            mixed=True,
        )

    # ---- deletes

    def _live_files(self) -> list[DataFile]:
        return list(self.table.content().data)

    def _delete(self) -> None:
        files = self._live_files()
        if self.table.version == 1 or not files:
            return
        kind = self.random.choice(("rows", "rows", "rows", "equality", "equality"))
        if kind == "equality":
            self._delete_equal(files)
            return
        chosen = self.random.sample(files, min(len(files), self.random.randint(1, 3)))
        wanted = {file: self._positions(len(file.rows)) for file in chosen}
        if self.table.version == 3:
            self._delete_vectors(wanted)
        else:
            self.table.delete_positions(
                wanted,
                self.random.choice(FORMATS),
                bounds=self.random.random() < 0.7,
                referenced=len(wanted) == 1 and self.random.random() < 0.4,
                in_order=self.random.random() < 0.9,
            )

    def _upsert(self) -> None:
        """Append, and in the same commit delete some new rows by position and older rows by key."""
        if self.table.version == 1:
            return
        with self.table.transaction():
            before = len(self.files)
            self._append()
            added = [file for file in self.files[before:] if file.rows]
            if added and self.random.random() < 0.7:
                wanted = {file: self._positions(len(file.rows)) for file in added[:2]}
                if self.table.version == 3:
                    self.table.delete_vectors(wanted)
                else:
                    self.table.delete_positions(wanted, self.random.choice(FORMATS))
            if added:
                self._delete_equal(added)

    def _positions(self, count: int) -> list[int]:
        pick = self.random
        if pick.random() < 0.1:
            return list(range(count))
        if pick.random() < 0.4:
            start = pick.randrange(count + 1)
            return list(range(start, min(count, start + pick.randint(1, 30)))) or [0]
        return sorted(pick.sample(range(count), max(1, min(count, pick.randint(1, 6)))))

    def _delete_vectors(self, wanted: dict[DataFile, list[int]]) -> None:
        whole = {file: set(positions) for file, positions in wanted.items()}
        for delete in self.table.content().deletes:
            for file, positions in whole.items():
                if isinstance(delete, VectorDelete) and delete.data_file == file.path:
                    positions.update(delete.positions)
                elif isinstance(delete, PositionDelete):
                    positions.update(position for path, position in delete.positions if path == file.path)
        self.table.delete_vectors({file: sorted(positions) for file, positions in whole.items()})

    def _delete_equal(self, files: Sequence[DataFile]) -> None:
        pick, table = self.random, self.table
        keys = self._key_columns()
        chosen = dict(pick.sample(keys, min(len(keys), pick.choices((1, 2, 3), weights=(5, 3, 1))[0])))
        like = None if pick.random() < 0.5 else pick.choice(files)
        live = live_rows(table.content())
        rows = []
        for _ in range(pick.choice((1, 1, 3, 8))):
            row: dict[str, Any] = {}
            source = pick.choice(live) if live and pick.random() < 0.7 else None
            for path, column in chosen.items():
                if source is not None:
                    value = source.get(column.id)
                elif pick.random() < 0.1:
                    value = None
                else:
                    value = pick.choice(self._pool(column))
                _put(row, path.split("."), value)
            rows.append(row)
        table.delete_equal(
            list(chosen),
            rows,
            pick.choice(FORMATS),
            like=like,
            metrics=pick.choice(("full", "full", "none", "bounds")),
            extra=["id"] if pick.random() < 0.1 and "id" not in chosen else (),
        )

    def _key_columns(self) -> list[tuple[str, Column]]:
        """Return the primitive fields outside lists and maps, by dotted path."""
        return [
            (".".join(path), column)
            for column, path in walk(self.table.columns)
            if isinstance(column.type, str) and not {"element", "key", "value"} & set(path)
        ]

    # ---- evolution

    def _partition(self) -> None:
        pick = self.random
        choices = []
        for path, column in self._key_columns():
            kind = column.type
            if path == "id" or column.default is not None:
                continue
            transforms = ["void", f"bucket[{pick.randint(1, 4)}]", *["identity"] * 3]
            if kind in ("boolean", "float", "double"):
                transforms = ["identity", "void"]
            if kind in _TRUNCATED or decimal_of(kind):
                transforms.append(f"truncate[{pick.choice((1, 3, 10))}]")
            if kind in _DATED:
                transforms += ["year", "month", "day"] + (["hour"] if kind != "date" else [])
            choices.append(f"{pick.choice(transforms)}({path})")
        count = pick.choices((0, 1, 2), weights=(1, 5, 2))[0]
        self.table.partition_by(pick.sample(choices, min(count, len(choices))))

    def _sources(self) -> set[int]:
        return {part.source for spec in self.table.specs for part in spec}

    def _evolve(self) -> None:
        pick, table = self.random, self.table
        fixed = self._sources()
        columns = self._key_columns()
        free = [(path, c) for path, c in columns if c.id not in fixed and path != "id"]
        match pick.choice(("add", "add", "drop", "rename", "widen", "order")):
            case "add":
                self._add_column()
            case "drop" if free and len(table.columns) > 3 and not self.mapped:
                path, column = pick.choice(free)
                parents = [
                    c for c, names in walk(table.columns) if ".".join(names) == path.rpartition(".")[0]
                ]
                if not parents or len(parents[0].type.fields) > 1:  # type: ignore[union-attr]
                    table.drop_column(path)
                    if "." not in path and pick.random() < 0.3:
                        table.add_column(path, pick.choice(self.primitives))  # the same name again
            case "rename":
                path, column = pick.choice(columns)
                if path != "id":
                    table.rename_column(path, f"r{column.id}_{len(table.snapshots)}")
            case "widen":
                wide = [(p, c) for p, c in columns if c.type in _WIDER or decimal_of(c.type)]
                if wide:
                    self._widen(*pick.choice(wide))
            case "order":
                names = [c.name for c in table.columns[1:]]
                pick.shuffle(names)
                table.order_columns(["id", *names])

    def _add_column(self) -> None:
        pick, table = self.random, self.table
        kind = pick.choice(self.primitives)
        structs = [c.name for c in table.columns if isinstance(c.type, Struct)]
        name = f"n{len(self.pools)}_{len(table.columns)}_{pick.randint(0, 999)}"
        path = f"{pick.choice(structs)}.{name}" if structs and pick.random() < 0.4 else name
        default = None
        if table.version == 3 and pick.random() < 0.6 and kind not in ("float", "double", "string"):
            default = random_values.draw(pick, kind)
        table.add_column(path, kind, default=default)

    def _widen(self, path: str, column: Column) -> None:
        if column.default is not None:
            return
        if spec := decimal_of(column.type):
            self.table.widen_column(path, f"decimal({min(38, spec[0] + 4)},{spec[1]})")
        else:
            self.table.widen_column(path, _WIDER[str(column.type)])

    def _remove(self) -> None:
        files = self._live_files()
        if len(files) > 1:
            self.table.remove(self.random.choice(files))

    def _upgrade(self) -> None:
        if self.table.version == 2:
            self.table.version = 3


def _put(row: dict[str, Any], path: list[str], value: Any) -> None:
    """Put a key into a row, also inside structs."""
    *parents, name = path
    for parent in parents:
        row = row.setdefault(parent, {})
    row[name] = value


def random_table(seed: int, folder: Path, *, plain: bool = False) -> tuple[Table, dict[int, list[Any]]]:
    """Return the table of this seed, written, and the pools of values by field id; `plain` as in `Maker`."""
    maker = Maker(seed, folder, plain=plain)
    table = maker.make()
    return table, maker.pools
