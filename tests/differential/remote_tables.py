"""A random table in an object store, with what is kept of it there: indexes and compiled deletes, some lacking or damaged.

Takes a seed and a store; gives the table as the product opens it, at one snapshot or two, and every row of each with its
metadata columns, by brute force.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from random_indexes import damage, leaves

from core_scan import Opened
from late_store import BUCKET
from marked_rows import DELETED, marked_rows, metadata_of
from random_tables import Maker
from twostage.catalog.load_table import load_table
from twostage.indexes.file_keys import FILES
from twostage.indexes.keys import key_class
from twostage.indexes.kinds.registered import KINDS
from twostage.maintenance.compile_deletes import compile_files, plan_compiling
from twostage.maintenance.index_files import index_files
from twostage.maintenance.table_indexes import OwnedIndexes
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.schema import Schema, Struct
from twostage.table.metadata_columns import scan_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from late_store import LateStore

INDEX_STATES = ("whole", "whole", "part", "damaged", "none")
COMPILED_STATES = ("whole", "part", "damaged", "none", "none")
"""Of what is kept in the bucket before the first query: all that the command makes, half of it, half of it damaged, nothing."""


class View:
    """The table at a snapshot.

    Args:
        given: The reader's options that choose it.
        rows: All of its rows, deleted ones too.
        with_metadata: Whether queries may name metadata columns.
    """

    def __init__(self, given: Mapping[str, str], rows: list[dict[int, Any]], *, with_metadata: bool) -> None:
        self.given = given
        self.rows = rows
        self.live = [row for row in rows if not row[DELETED]]
        self.table = load_table(parse_options(given))
        fields = scan_schema(self.table).fields if with_metadata else self.table.schema.fields
        self.schema = Schema(schema_id=0, fields=tuple(field for field in fields if field.type != Struct(())))

    def opened(self, options: Mapping[str, str]) -> Opened:
        """Return it with other options."""
        return Opened(self.table, parse_options({**self.given, **options}))

    def compile_deletes(self, kept: Mapping[str, str]) -> Metrics:
        """Compile what is not compiled yet, by the command; return what was counted."""
        total = Metrics()
        for metrics in compile_files(plan_compiling(self.opened(kept).options, {})):
            total.merge(metrics)
        return total


class RemoteTable:
    """The table of a seed.

    Args:
        seed: The same seed makes the same table, and keeps the same of it.
        store: Serves the folder in which it is written.
        folder: A local one for what the host keeps.

    Attributes:
        views: The newest snapshot, and perhaps another one.
        kept: The options that say where something is kept.
        states: Of the indexes and of compiled deletes.
    """

    def __init__(self, seed: int, store: LateStore, folder: Path) -> None:
        self.name = f"t{seed}"
        self.pick = random.Random(f"remote {seed}")
        self._store = store
        place = store.root / self.name
        maker = Maker(seed, place)
        is_moved = self.pick.random() < 0.3
        if not is_moved:
            maker.table.location = f"s3://{BUCKET}/{self.name}"
        table, self.pools = maker.make(), maker.pools
        given = {"path": f"s3://{BUCKET}/{self.name}", **store.options}
        if is_moved:
            given["allow-moved-paths"] = "true"
        newest = max(
            place.glob("metadata/v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0])
        )
        metadata, root = metadata_of(newest), {} if is_moved else {"root": store.root}
        with_metadata = self.pick.random() < 0.6
        rows = marked_rows(table.content(), metadata, **root)
        self.views = [View(given, rows, with_metadata=with_metadata)]
        if self.pick.random() < 0.5:
            content = table.content(self.pick.choice(table.snapshots[-4:]).id)
            content = replace(content, columns=content.snapshot_columns)
            given = {**given, "snapshot-id": str(content.snapshot_id)}
            rows = marked_rows(content, metadata, **root)
            self.views.append(View(given, rows, with_metadata=with_metadata))
        self.kept = {
            "index.location": f"s3://{BUCKET}/indexes",
            "deletes.compiled-dir": f"s3://{BUCKET}/compiled-{self.name}",
            "deletes.cache-dir": str(folder / "deletes"),
            "footers.cache-dir": str(folder / "footers"),
            "filter.cache-dir": str(folder / "conditions"),
        }
        if self.pick.random() < 0.5:
            del self.kept["index.location"]  # beside the table, in the bucket's `_twostage_indexes`
        index_state, compiled_state = self.pick.choice(INDEX_STATES), self.pick.choice(COMPILED_STATES)
        if index_state != "none":
            self._index(self.pick.choice(self.views), index_state)
        if compiled_state != "none":
            self.pick.choice(self.views).compile_deletes(self.kept)
            self._spoil((store.root / f"compiled-{self.name}").glob("positions-*"), compiled_state)
        self.states = index_state, compiled_state

    def remove(self) -> None:
        """Remove the table and what the bucket keeps of it."""
        for name in (self.name, f"compiled-{self.name}", "indexes", "_twostage_indexes"):
            shutil.rmtree(self._store.root / name, ignore_errors=True)

    def _index(self, view: View, state: str) -> None:
        """Index most columns, those nested in structs too, each by some kinds."""
        owned = OwnedIndexes(
            view.opened(self.kept).options, {}, lambda work: map(index_files, work), lambda _: None
        )
        by_kinds: dict[str, list[str]] = {}
        for path, field in leaves(view.table.schema.fields):
            if key_class(field.type) is not None and self.pick.random() < 0.8:
                fitting = [name for name, kind in KINDS.items() if kind.refuses(field.type) is None]
                kinds = self.pick.sample(fitting, self.pick.randint(1, len(fitting)))
                kinds += [FILES] * (self.pick.random() < 0.5)
                by_kinds.setdefault(",".join(kinds), []).append(path)
        for kinds, paths in by_kinds.items():
            owned.create(paths, kinds)
        folder = self.kept.get("index.location", f"s3://{BUCKET}/_twostage_indexes").rpartition("/")[2]
        self._spoil((self._store.root / folder).rglob("*.puffin"), state)

    def _spoil(self, paths: Iterable[Path], state: str) -> None:
        """Remove or damage half of some files."""
        found = sorted(paths)
        for path in self.pick.sample(found, -(-len(found) // 2)):
            if state == "part":
                path.unlink()
            elif state == "damaged":
                damage(path, self.pick)
