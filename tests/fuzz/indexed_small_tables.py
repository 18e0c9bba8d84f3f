"""Indexes of the small tables: every column by some kinds, so that a damaged index file meets every reader of one.

Takes a small table and its seed; gives its index files by kind (`INDEX_KINDS`).
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

from indexed_tables import place_of
from twostage.indexes.file_keys import FILES
from twostage.indexes.keys import key_class
from twostage.indexes.kinds.registered import KINDS
from twostage.maintenance.index_files import index_files
from twostage.maintenance.table_indexes import OwnedIndexes
from twostage.predicates.predicate import And, Column, Compare, In, Predicate

if TYPE_CHECKING:
    from core_scan import Opened
    from small_tables import SmallTable

INDEX_FILE, INDEX_RUN = "index file", "index run"
INDEX_KINDS = (INDEX_FILE, INDEX_RUN)


def index_small_table(made: SmallTable, opened: Opened, seed: int) -> None:
    """Index the columns of a small table, and note the files."""
    pick = random.Random(f"indexes {seed}")
    owned = OwnedIndexes(opened.options, {}, lambda work: map(index_files, work), lambda text: None)
    for field in opened.table.schema.fields:
        if key_class(field.type) is None:
            continue
        fitting = [name for name, kind in KINDS.items() if kind.refuses(field.type) is None]
        chosen = pick.sample(fitting, pick.randint(1, 2))
        owned.create([field.name], ",".join((*chosen, FILES)))
    folder = Path(place_of(opened).folder)
    made.files[INDEX_FILE] = sorted(folder.glob("columns-*/*.puffin"))
    made.files[INDEX_RUN] = sorted(folder.glob("files-*.puffin"))
    assert made.files[INDEX_FILE]
    assert made.files[INDEX_RUN]


def asks_index(
    pick: random.Random, opened: Opened, made: SmallTable, file: Path, drawn: Predicate
) -> Predicate:
    """Return a predicate that the index in a file is asked for: of its columns, and perhaps of more."""
    name = file.name.removeprefix("files-v2") if file.name.startswith("files-") else file.parent.name
    field = opened.table.schema.field(int(name.split("-")[1].split(".")[0]))
    column = Column(field.id, (field.name,), field.type)
    present = [row[field.id] for row in made.rows if row.get(field.id) is not None] or [None]
    values = tuple({pick.choice(present) for _ in range(pick.randint(1, 3))} - {None})
    one_of = In(column, values) if len(values) != 1 else Compare("=", column, values[0])
    return one_of if pick.random() < 0.5 else And((one_of, drawn))
