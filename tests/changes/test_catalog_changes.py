"""The same with PyIceberg as the other writer: a SQLite catalog, copy-on-write deletes, overwrites, expiry."""

from __future__ import annotations

import os
import random
from collections import Counter

import pyarrow as pa
import pytest
from changing import before_opening, says_what_happened
from interrupted_reads import read
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual
from pyiceberg.types import LongType

import oracle
from core_scan import open_table
from figures import FULL, record
from twostage.errors import MissingFileError
from twostage.predicates.predicate import TRUE

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
LOOPS = 100 if FULL else 6


class Writer:
    """PyIceberg on one table, and a model of its rows: by snapshot and schema, values by field id."""

    def __init__(self, catalog, name, draw):
        self.catalog, self.name, self.draw = catalog, name, draw
        values = pa.schema([("id", pa.int64()), ("k", pa.int64())])
        self.table = catalog.create_table(name, schema=values)
        self.rows: list[dict[int, int]] = []
        self.seen: dict[str, list[dict[int, int]]] = {}
        self.made: list[str] = []
        self.next = 0
        for _ in range(3):
            self.append()

    def note(self, kind):
        self.made.append(kind)
        self.seen[self.table.metadata_location] = [dict(row) for row in self.rows]

    def change(self):
        changes = (self.append, self.delete, self.overwrite, self.expire, self.add, self.rename, self.drop)
        self.draw.choice(changes)()

    def append(self):
        fields = self.table.schema().fields
        made = [
            {field.field_id: number if field.name == "id" else number % 7 for field in fields}
            for number in range(self.next, self.next + self.draw.randint(3, 20))
        ]
        self.next += len(made)
        self.table.append(self.arrow(made))
        self.rows += made
        self.note("append")

    def arrow(self, rows):
        fields = self.table.schema().fields
        names = [field.name for field in fields]
        columns = [pa.array([row.get(field.field_id) for row in rows], pa.int64()) for field in fields]
        return pa.table(columns, names=names)

    def delete(self):
        first = self.draw.randrange(max(1, self.next))
        self.table.delete(GreaterThanOrEqual("id", first) & EqualTo("id", first))
        self.rows = [row for row in self.rows if row[1] != first]
        self.note("delete")

    def overwrite(self):
        """Compact: the live rows in one new file."""
        self.table.overwrite(self.arrow(self.rows))
        self.note("overwrite")

    def expire(self):
        """Expire all snapshots but the current one; remove the files that no snapshot needs any more."""
        current = self.table.metadata.current_snapshot_id
        gone = [one.snapshot_id for one in self.table.metadata.snapshots if one.snapshot_id != current]
        before = self.files()
        if gone:
            self.table.maintenance.expire_snapshots().by_ids(gone).commit()
            self.table.refresh()
        for path in before - self.files():
            os.unlink(path)
        self.note("expire")

    def files(self):
        found = set()
        for snapshot in self.table.metadata.snapshots:
            found.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(self.table.io):
                found.add(manifest.manifest_path)
                found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(self.table.io)}
        return {path.removeprefix("file://") for path in found}

    def add(self):
        with self.table.update_schema() as update:
            update.add_column(f"c{len(self.made)}", LongType())
        self.note("add")

    def rename(self):
        names = [field.name for field in self.table.schema().fields if field.name != "id"]
        if names:
            with self.table.update_schema() as update:
                update.rename_column(self.draw.choice(names), f"r{len(self.made)}")
        self.note("rename")

    def drop(self):
        names = [field.name for field in self.table.schema().fields if field.name != "id"]
        if len(names) > 1:
            with self.table.update_schema() as update:
                update.delete_column(self.draw.choice(names))
        self.note("drop")


@pytest.fixture
def lake(tmp_path, monkeypatch):
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("db")
    yield catalog
    catalog.engine.dispose()


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_every_read_is_of_one_snapshot(lake, tmp_path, monkeypatch):
    outcomes, kinds = Counter(), Counter()
    properties = {"catalog.type": "sql", "catalog.uri": f"sqlite:///{tmp_path}/c.db"}
    for loop in range(LOOPS):
        seed = SEED * 1_000_003 + loop
        draw = random.Random(seed)
        writer = Writer(lake, f"db.t{loop}", draw)
        busy = [False]

        def change(draw=draw, writer=writer, busy=busy):
            if not busy[0] and draw.random() < 0.3 and len(writer.made) < 12:
                busy[0] = True
                writer.change()
                busy[0] = False

        path = f"{tmp_path}/w/db/t{loop}" if draw.random() < 0.3 else f"lake.db.t{loop}"
        opened = open_table(path, **({} if path.startswith("/") else properties))
        pinned = opened.table.metadata.metadata_location.removeprefix("file://")
        with before_opening(monkeypatch, change):
            try:
                rows = read(opened, TRUE, change)
            except MissingFileError as error:
                assert says_what_happened(error, opened.table.snapshot.snapshot_id), f"seed {seed}: {error}"
                assert "expire" in writer.made, f"seed {seed}"
                outcomes["missing"] += 1
            else:
                known = {place.removeprefix("file://"): held for place, held in writer.seen.items()}
                expected = [oracle.project(row, opened.table.schema.fields) for row in known[pinned]]
                assert not (problem := oracle.difference(rows, expected)), f"seed {seed}: {problem}"
                outcomes["older" if pinned not in writer.table.metadata_location else "current"] += 1
        kinds.update(writer.made)
    print(f"{LOOPS} loops from seed {SEED}: {dict(outcomes)}, changes {dict(kinds)}")
    record("R12", catalog_loops=LOOPS, mixed=0, **{f"catalog_{name}": n for name, n in outcomes.items()})
    assert outcomes["older"] >= 1, outcomes
