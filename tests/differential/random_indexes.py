"""Random indexes of a random table: of every field that can have one, by kinds that are drawn; and their files damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.indexes.file_keys import FILES
from twostage.indexes.keys import key_class
from twostage.indexes.kinds.registered import KINDS
from twostage.maintenance.index_files import index_files
from twostage.maintenance.table_indexes import OwnedIndexes
from twostage.schema import Struct

if TYPE_CHECKING:
    import random
    from collections import Counter
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pairs import Pair

    from twostage.schema import Field


def index_columns(pair: Pair, drawn: random.Random, counted: Counter[str]) -> None:
    """Index every column that can be, and every field nested in structs, each by some kinds."""
    owned = OwnedIndexes(pair.opened.options, {}, lambda work: map(index_files, work), print)
    for path, field in leaves(pair.opened.table.schema.fields):
        if key_class(field.type) is None:
            continue
        fitting = [name for name, kind in KINDS.items() if kind.refuses(field.type) is None]
        # Nearly all columns with an initial default, which older files lack, have keys of data files.
        has_files = drawn.random() < (0.5 if field.initial_default is None else 0.9)
        kinds = [*drawn.sample(fitting, drawn.randint(1, len(fitting))), *([FILES] * has_files)]
        owned.create([path], ",".join(kinds))
        counted["nested fields"] += "." in path


def leaves(fields: Iterable[Field], above: str = "") -> Iterator[tuple[str, Field]]:
    """Yield the fields outside lists and maps that are no structs, each with its name in full."""
    for field in fields:
        if isinstance(field.type, Struct):
            yield from leaves(field.type.fields, f"{above}{field.name}.")
        else:
            yield f"{above}{field.name}", field


def damage(path: Path, drawn: random.Random) -> None:
    """Flip bytes, or cut the file short."""
    data = bytearray(path.read_bytes())
    if drawn.random() < 0.3:
        del data[drawn.randrange(len(data)) :]
    for _ in range(drawn.randint(1, 40)):
        if data:
            data[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)
    path.write_bytes(bytes(data))
