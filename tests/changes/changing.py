"""A table that another writer changes while it is read, and the rows of every version that was ever current.

Takes a seed; makes a declared table and, each time `change` is called, one commit: append, positional delete,
vector, equality delete, rewrite, expiry (files really removed), add, rename or drop of a column. `versions` keeps what
a reader must see who pinned that metadata file: computed by brute force when it was written.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import oracle
from tables import Table
from twostage.deletes.cache.memory import ByteCache
from twostage.errors import MissingFileError
from twostage.maintenance.index_files import index_files
from twostage.maintenance.table_indexes import OwnedIndexes
from twostage.options import parse_options
from twostage.predicates.predicate import TRUE, Compare, Predicate
from twostage.storage import files
from twostage.table import manifest

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    import pytest

    from declared.content import DataFile
    from twostage.table.pinned import PinnedTable

KINDS = ("append", "position", "vector", "equality", "rewrite", "expire", "add", "rename", "drop")


@dataclass(frozen=True)
class Version:
    """What a metadata file says: its current snapshot and that snapshot's rows by field id."""

    snapshot_id: int | None
    rows: list[dict[int, Any]]


class ChangingTable:
    """A declared table in `folder` whose changes are drawn from `draw`; version 3 has vectors, 2 positional files.

    Its data files have these `metrics` in the manifests: without bounds, only an index tells which of them hold an id.
    """

    def __init__(self, folder: Path, draw: random.Random, metrics: str = "full") -> None:
        self._metrics = metrics
        self.draw = draw
        self.folder = folder
        self.table = Table(folder, {"id": "long", "k": "int", "s": "string"}, version=draw.choice((2, 3)))
        self.versions: dict[str, Version] = {}
        self.made: list[str] = []
        self._next = 0
        self._columns = 0
        for _ in range(draw.randint(2, 4)):
            self._append()
        self._publish()

    @property
    def current(self) -> Version:
        """The version written last."""
        return list(self.versions.values())[-1]

    def change(self, kind: str | None = None) -> str:
        """Commit one change and return its kind."""
        kind = kind or self.draw.choice(KINDS)
        if not self._files() and kind in ("position", "vector", "rewrite"):
            kind = "append"
        kind = {"position": "vector", "vector": "vector"}.get(kind, kind) if self.table.version == 3 else kind
        kind = "position" if kind == "vector" and self.table.version == 2 else kind
        getattr(self, f"_{kind}")()
        self._publish()
        self.made.append(kind)
        return kind

    def expected(self, pinned: PinnedTable, predicate: Predicate) -> list[tuple[Any, ...]]:
        """Return the rows that a reader must get who pinned this version."""
        version = self.versions[str(pinned.metadata.metadata_location)]
        found = None if pinned.snapshot is None else pinned.snapshot.snapshot_id
        assert found == version.snapshot_id
        kept = [row for row in version.rows if oracle.evaluate(predicate, row) is True]
        return [oracle.project(row, pinned.schema.fields) for row in kept]

    def predicate(self, pinned: PinnedTable) -> Predicate:
        """Return a predicate over the pinned schema, or none."""
        from check import Columns

        column = Columns(pinned.schema)
        choice = self.draw.randrange(3)
        return (
            TRUE if not choice else Compare(">=", column("id"), self.draw.randrange(60)) if choice == 1 else
            Compare("<", column("id"), self.draw.randrange(200))
        )  # fmt: skip

    # ---- the writer

    def _files(self) -> list[DataFile]:
        return list(self.table.content().data)

    def _rows(self, count: int) -> list[dict[str, Any]]:
        first, self._next = self._next, self._next + count
        others = [column for column in self.table.columns if column.name != "id"]
        return [
            {
                "id": number,
                **{c.name: number % 7 if c.type == "int" else f"{c.name}-{number % 5}" for c in others},
            }
            for number in range(first, first + count)
        ]

    def _append(self) -> None:
        self.table.append(
            self._rows(self.draw.randint(5, 40)),
            row_group_size=self.draw.choice((5, 1000)),
            metrics=self._metrics,
        )

    def _position(self) -> None:
        file = self.draw.choice(self._files())
        count = len(file.rows)
        self.table.delete_positions({file: self.draw.sample(range(count), self.draw.randint(1, count))})

    def _vector(self) -> None:
        file = self.draw.choice(self._files())
        gone = set(self.draw.sample(range(len(file.rows)), self.draw.randint(1, len(file.rows))))
        for delete in self.table.content().deletes:
            if getattr(delete, "data_file", None) == file.path:
                gone |= delete.positions  # type: ignore[attr-defined]
        self.table.delete_vectors({file: sorted(gone)})

    def _equality(self) -> None:
        ids = self.draw.sample(range(self._next), min(self._next, 5))
        self.table.delete_equal(["id"], [{"id": number} for number in ids])

    def _rewrite(self) -> None:
        """Compact: all live rows go into one new file, and every file so far leaves the table."""
        content = self.table.content()
        rows = oracle.live_rows(content)
        with self.table.transaction():
            self.table.remove(*content.data, *content.deletes)
            if rows:
                names = {column.id: column.name for column in self.table.columns}
                self.table.append([{name: row[number] for number, name in names.items()} for row in rows])

    def _expire(self) -> None:
        """Drop all snapshots but the current one, and remove what only they need."""
        del self.table.snapshots[:-1]
        self._publish()
        (current,) = self.table.snapshots
        kept = {file.path for file in current.files}
        kept |= {manifest.record["manifest_path"] for manifest in current.manifests} | {
            current.raw["manifest-list"]
        }
        newest = list(self.versions)[-1]
        for path in [*self.folder.glob("data/*"), *self.folder.glob("metadata/*")]:
            if str(path) not in kept and path.name != "version-hint.text" and str(path) != newest:
                path.unlink()

    def _add(self) -> None:
        self._columns += 1
        self.table.add_column(f"c{self._columns}", self.draw.choice(("int", "string")))

    def _rename(self) -> None:
        self._columns += 1
        column = self.draw.choice(self.table.columns[1:] or self.table.columns)
        if column.name != "id":
            self.table.rename_column(column.name, f"r{self._columns}")

    def _drop(self) -> None:
        others = [column.name for column in self.table.columns if column.name != "id"]
        if len(others) > 1:
            self.table.drop_column(self.draw.choice(others))

    def _publish(self) -> None:
        content = self.table.content()
        self.versions[str(self.table.write())] = Version(content.snapshot_id, oracle.live_rows(content))


class IndexKeeper:
    """Indexes a changing table beside its reads: `act` makes, extends or cleans the indexes, as the table then is.

    Attributes:
        done: What was done, how often; ``missing`` where the writer had removed a file meanwhile.
    """

    def __init__(self, changing: ChangingTable) -> None:
        self._changing = changing
        self._is_busy = False
        self.done: Counter[str] = Counter()

    def act(self) -> None:
        """Take a turn, unless this one is what opens the file."""
        if self._is_busy:
            return
        self._is_busy = True
        try:
            with mock.patch.object(ByteCache, "exclusive", lambda cache, key: contextlib.nullcontext()):
                self._act()
        except MissingFileError:
            self.done["missing"] += 1
        finally:
            self._is_busy = False

    def _act(self) -> None:
        """Do it without the locks of the reader in whose turn it is: another process would not have them."""
        owned = OwnedIndexes(
            parse_options({"path": str(self._changing.folder)}),
            {},
            lambda work: map(index_files, work),
            lambda text: None,
        )
        verb = self._changing.draw.choice(("refresh", "refresh", "clean"))
        if not self.done["create"]:
            owned.create(["id"], "sorted,files")
            verb = "create"
        elif verb == "refresh":
            owned.refresh()
        else:
            owned.clean(lambda done, all_of_them: None)
        self.done[verb] += 1


@contextlib.contextmanager
def before_opening(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> Iterator[None]:
    """Call `act` before the product opens any file: the writer's turn comes at every seam of a read."""
    opened = files.open_file

    def open_later(*arguments: Any) -> Any:
        act()
        return opened(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(files, "open_file", open_later)
        patch.setattr(manifest, "MAX_CONCURRENT_MANIFESTS", 1)  # one order of turns for one seed
        yield


def says_what_happened(error: MissingFileError, snapshot_id: int | None) -> bool:
    """Tell whether the error names the snapshot and says that it was expired meanwhile, and what to do."""
    text = str(error)
    return (
        text.startswith("[TWOSTAGE.MISSING_FILE]")
        and f"snapshot {snapshot_id}" in text
        and "expired" in text
        and "Load the table again" in text
        and error.path is not None
    )
