"""A table whose indexes are created and inspected by ``python -m twostage index``, as by its owner."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

from tables import Table
from twostage.__main__ import main
from twostage.catalog.load_table import load_table
from twostage.indexes.place import index_place, list_indexes
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, Column

ROWS = 400


def make_events(folder: Path, data_files: int = 4, **more) -> Table:
    """Write a table of several data files."""
    drawn = random.Random(1)
    table = Table(
        folder,
        {"id": "long", "key": "long", "country": "string", "price": "decimal(9,2)", "s": {"x": "int"}},
        **more,
    )
    for number in range(data_files):
        append_events(table, number, drawn)
    table.write()
    return table


def append_events(table: Table, number: int, drawn: random.Random) -> None:
    table.append(
        [
            {
                "id": number * ROWS + row,
                "key": drawn.randrange(3_000),
                "country": drawn.choice(["de", "fr", None]),
                "price": Decimal(drawn.randrange(10**5)).scaleb(-2),
                "s": {"x": drawn.randrange(9)},
            }
            for row in range(ROWS)
        ],
        row_group_size=150,
    )


def run_index(verb: str, table: Table, *more: str) -> int:
    return main(["index", verb, str(table.folder), *more])


def opened_indexes(table: Table):
    """Return a scan of the table, its data files, and the place and list of its indexes."""
    options = parse_options({"path": str(table.folder)})
    pinned = load_table(options)
    plan = plan_scan(
        pinned, options, projection=(), predicate=TRUE, hint=TRUE, limit=None, parallelism=2, scan_id="x"
    )
    place = index_place(pinned.storage, options.settings, pinned.metadata.table_uuid)
    tasks = [task for group in plan.groups for task in group.tasks]
    return plan.context, tasks, place, list_indexes(place, Metrics())


def column_of(context, name: str) -> Column:
    found = context.schema.find(tuple(name.split(".")))
    return Column(found.id, context.schema.path(found.id), found.type)
