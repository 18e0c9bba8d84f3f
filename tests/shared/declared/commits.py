"""How a declared table came to be, commit by commit: snapshots, branches and tags, manifests, the metadata file.

Takes files to add and to remove; writes manifests and manifest lists as commits happen and a metadata file at the end,
and keeps the logical content of every snapshot for the oracle.
"""

from __future__ import annotations

import itertools
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from declared.content import Content, ContentFile, DataFile
from declared.evolution import Evolving
from declared.metadata import Snapshot, make_manifest, make_snapshot, metadata_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


class Committed(Evolving):
    """The part of a table that knows its snapshots; every call outside `transaction` commits one.

    Its arguments are those of `tables.Table`.
    """

    default_version: ClassVar[int] = 2

    def __init__(
        self,
        folder: Path,
        columns: Mapping[str, Any],
        *,
        version: int | None = None,
        partition: Sequence[str] = (),
        name_mapping: bool = False,
        scheme: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.location = f"{scheme}{folder}"
        self.version = self.default_version if version is None else version
        self.properties = dict(properties or {})
        self.refs: dict[str, tuple[str, int]] = {}
        self.snapshots: list[Snapshot] = []
        self._name_mapping = name_mapping
        self._branch = "main"
        self._sequence = 0
        self._next_row_id = 0
        self._numbers = itertools.count()
        self._pending: tuple[list[ContentFile], list[ContentFile]] | None = None
        super().__init__(columns, partition)

    # ---- commits

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make everything inside one snapshot with one sequence number."""
        self._pending = ([], [])
        yield
        added, removed = self._pending
        self._pending = None
        self._commit(added, removed)

    @property
    def next_sequence(self) -> int:
        """The sequence number of the snapshot that is being made, or will be next."""
        return self._sequence + 1 if self.version > 1 else 0

    def remove(self, *files: ContentFile) -> None:
        """Take files out of the table, as a rewrite does."""
        self._change_files([], list(files))

    def _change_files(self, added: list[ContentFile], removed: list[ContentFile]) -> None:
        if self._pending is not None:
            self._pending[0].extend(added)
            self._pending[1].extend(removed)
        else:
            self._commit(added, removed)

    def _commit(self, added: list[ContentFile], removed: list[ContentFile]) -> None:
        self._sequence += 1
        sequence = self._sequence if self.version > 1 else 0
        snapshot_id = 7_000_000_000_000_000_000 + self._sequence * 1_000_003
        parent = self._head()
        manifests = []
        for manifest in parent.manifests if parent else ():
            if not any(file in removed for file, _ in manifest.files):
                manifests.append(manifest)
                continue
            entries = [(file, 2 if file in removed else 0, snapshot) for file, snapshot in manifest.files]
            manifests.append(self._manifest(entries, snapshot_id, sequence))
        groups: dict[tuple[bool, int], list[tuple[ContentFile, int, int]]] = {}
        for file in added:
            key = (isinstance(file, DataFile), file.spec_id)
            groups.setdefault(key, []).append((file, 1, snapshot_id))
        manifests += [self._manifest(entries, snapshot_id, sequence) for entries in groups.values()]
        name = f"metadata/snap-{snapshot_id}.avro"
        (self.folder / "metadata").mkdir(parents=True, exist_ok=True)
        snapshot = make_snapshot(
            self.folder / name,
            f"{self.location}/{name}",
            manifests,
            version=self.version,
            snapshot_id=snapshot_id,
            parent=parent.id if parent else None,
            sequence=self._sequence,
            schema_id=len(self._evolution.schemas) - 1,
            next_row_id=self._next_row_id,
        )
        self._next_row_id += snapshot.raw.get("added-rows", 0)
        self.snapshots.append(snapshot)
        self.refs[self._branch] = ("branch", snapshot_id)

    def _manifest(self, entries: list[tuple[ContentFile, int, int]], snapshot_id: int, sequence: int) -> Any:
        (self.folder / "metadata").mkdir(parents=True, exist_ok=True)
        name = f"metadata/manifest-{next(self._numbers)}.avro"
        return make_manifest(
            self.folder / name,
            f"{self.location}/{name}",
            entries,
            self._evolution,
            version=self.version,
            snapshot_id=snapshot_id,
            sequence=sequence,
            explicit=False,
        )

    def _head(self) -> Snapshot | None:
        found = self.refs.get(self._branch)
        return next((s for s in self.snapshots if found and s.id == found[1]), None)

    def on(self, branch: str) -> None:
        """Commit to this branch from now on; it starts at the current branch's head."""
        if branch not in self.refs and (head := self._head()):
            self.refs[branch] = ("branch", head.id)
        self._branch = branch

    def tag(self, name: str) -> None:
        """Tag the current branch's head."""
        head = self._head()
        assert head is not None
        self.refs[name] = ("tag", head.id)

    # ---- results

    def write(self) -> Path:
        """Write the metadata file and the version hint; return the metadata file's path."""
        properties = dict(self.properties)
        if self._name_mapping:
            properties["schema.name-mapping.default"] = json.dumps(self._evolution.name_mapping(self.columns))
        text = metadata_json(
            self.location,
            self._evolution,
            self.snapshots,
            self.refs,
            version=self.version,
            sequence=self._sequence,
            next_row_id=self._next_row_id,
            properties=properties,
            last_column_id=self._last_id,
        )
        number = next(self._numbers) + 1
        path = self.folder / "metadata" / f"v{number}.metadata.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "version-hint.text").write_text(str(number))
        return path

    def content(self, reference: str | int = "main") -> Content:
        """Return what a branch, tag or snapshot id holds."""
        wanted = reference if isinstance(reference, int) else self.refs.get(reference, ("", None))[1]
        snapshot = next((s for s in self.snapshots if s.id == wanted), None)
        files = snapshot.files if snapshot else ()
        return Content(
            snapshot_id=snapshot.id if snapshot else None,
            columns=self.columns,
            snapshot_columns=self._evolution.schemas[snapshot.schema_id] if snapshot else self.columns,
            all_columns=dict(self._evolution.all_columns),
            specs=dict(enumerate(self._evolution.specs)),
            data=tuple(file for file in files if isinstance(file, DataFile)),
            deletes=tuple(file for file in files if not isinstance(file, DataFile)),
        )
