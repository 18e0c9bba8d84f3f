"""A table that grew by every kind of commit; its metadata tables as the product reads them, and its JSON and Avro files."""

from __future__ import annotations

import json
import urllib.parse
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa

from core_scan import open_table
from tables import FileOptions, Table
from twostage.columns import project_names
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.reading.pipeline import read_group
from twostage.spark.source import option_filter


def read(folder, name, columns=None, limit=None, **options):
    """The rows of a metadata table as dicts, including maps."""
    opened = open_table(f"{folder}#{name}", **options)
    projection = project_names(opened.table.schema, columns)
    predicate = option_filter(opened.table, opened.options)
    plan = plan_scan(
        opened.table,
        opened.options,
        projection=projection,
        predicate=predicate,
        hint=TRUE,
        limit=limit,
        parallelism=2,
        scan_id="test",
    )
    batches = [batch for group in plan.groups for batch in read_group(group, Metrics())]
    assert plan.estimated_rows == sum(batch.num_rows for batch in batches)
    return [_plain(row, pa.struct(list(batch.schema))) for batch in batches for row in batch.to_pylist()]


def _plain(value, kind):
    if value is None:
        return None
    if pa.types.is_map(kind):
        return dict(value)
    if pa.types.is_struct(kind):
        return {
            kind.field(i).name: _plain(value[kind.field(i).name], kind.field(i).type)
            for i in range(kind.num_fields)
        }
    return value


def micros(moment):
    return int(moment.timestamp() * 1_000_000 + 0.5)


def avro(written):
    with Path(urllib.parse.urlsplit(written).path).open("rb") as file:
        return list(fastavro.reader(file))


COLUMNS = {
    "id": "long",
    "p": "int",
    "name": "string",
    "price": "double",
    "amount": "decimal(9,2)",
    "s": {"x": "int", "y": "date"},
    "tags": ["string"],
}


def grown_table(folder, version):
    table = Table(folder, COLUMNS, version=version, partition=["p"])

    def rows(first, count, p):
        return [
            {
                "id": n,
                "p": p,
                "name": None if n % 4 == 0 else f"n{n}",
                "price": n / 2,
                "amount": Decimal(n).scaleb(-2),
                "s": {"x": n, "y": 19000 + n},
                "tags": ["a", "b"],
            }
            for n in range(first, first + count)
        ]

    first = table.append(rows(0, 6, 1))
    table.append(rows(10, 3, 2))
    table.tag("early")
    gone = table.append(rows(20, 2, 3))
    if version > 1:
        table.delete_equal(["id"], [{"id": 11}], like=first)
        if version == 2:
            table.delete_positions({first: [1, 2]})
        else:
            table.delete_vectors({first: [1, 2]})
    table.partition_by(["bucket[4](id)", "day(s.y)"])
    table.append(rows(30, 1, 4), FileOptions(format="avro", metrics="counts"))
    table.remove(gone)
    table.on("audit")
    table.append(rows(40, 1, 5))
    table.on("main")
    return table, json.loads(table.write().read_text())


def head(raw, snapshot_id=None):
    return next(
        s for s in raw["snapshots"] if s["snapshot-id"] == (snapshot_id or raw["current-snapshot-id"])
    )


def listed(raw, snapshot_id=None):
    return avro(head(raw, snapshot_id)["manifest-list"])


def entries(raw, snapshot_id=None):
    """Entries with inherited values, including deleted ones, and their manifest."""
    found = []
    for manifest in listed(raw, snapshot_id):
        for entry in avro(manifest["manifest_path"]):
            inherited = entry["status"] == 1 and entry.get("sequence_number") is None
            entry["sequence_number"] = (
                manifest.get("sequence_number", 0) if inherited else entry.get("sequence_number") or 0
            )
            found.append((manifest, entry))
    return found
