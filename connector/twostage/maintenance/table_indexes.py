"""The indexes of a table, for its owner: create them, extend them to new files, list, drop and clean them.

Takes the reader's options (the snapshot that they choose is indexed) and a function that runs work in
parallel; writes files to the place of `indexes.place`. The rules: an interrupted command leaves correct
indexes of some data files; concurrent builders build the same; and only files in the table's own folder there
are removed.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twostage.catalog.load_table import load_table
from twostage.columns import find_column
from twostage.deletes.cache import fingerprint
from twostage.errors import NotFoundError, OptionError, UnsupportedFeatureError, mask
from twostage.indexes.file_keys import FILES, file_key
from twostage.indexes.keys import indexed_type
from twostage.indexes.place import MAX_NAME, SUFFIX, IndexGroup, index_place, list_indexes
from twostage.maintenance.column_sizes import column_sizes, total_size
from twostage.maintenance.index_arguments import AUTO
from twostage.maintenance.index_choice import check_kinds, choose_kinds, profile_columns
from twostage.maintenance.index_files import IndexWork
from twostage.maintenance.index_runs import (
    clean_runs,
    is_half_written,
    merge_fresh,
    remove_bad_runs,
    remove_old_runs,
    remove_runs,
)
from twostage.maintenance.lacking_files import ObjectVersions, lacking_files, usable_files
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan, refuse_inside
from twostage.predicates.predicate import TRUE
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from twostage.indexes.kind import CountedValues
    from twostage.indexes.place import IndexPlace, TableIndexes
    from twostage.options import ReadOptions
    from twostage.table.metadata import Snapshot
    from twostage.task import ScanContext, ScanTask

    Run = Callable[[Sequence[IndexWork]], Iterable[Metrics]]
    Say = Callable[[str], None]
    Counted = Callable[[IndexPlace], Mapping[int, CountedValues]]

_WHOLE = 2**62
"""A split size in bytes that no file reaches."""
_MAX_UNITS = 64
"""Units of work: each writes its own run, and the runs are merged afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """The state of a group of columns' indexes.

    Attributes:
        columns: Names, each with its kinds.
        indexed: Live data files with an index (of rows; of keys if ``files`` is the only kind).
        data_files: Live data files.
        nbytes: Bytes of the index files and runs.
        table_bytes: Bytes of the live data files.
        column_bytes: Bytes of the columns in these, from manifests; None if one is not recorded.
        modified: When something was last written, seconds since 1970; 0 if unknown.
    """

    columns: Mapping[str, tuple[str, ...]]
    indexed: int
    data_files: int
    nbytes: int
    table_bytes: int
    column_bytes: int | None
    modified: float


class OwnedIndexes:
    """The indexes of one table.

    Args:
        options: The reader's.
        confs: Spark's, for catalogs.
        run: Runs units of work (`index_files`), possibly in parallel, and yields the counters of each.
        say: Called with messages for the user.

    Raises:
        OptionError: There is no place for indexes, or it is inside the table.
    """

    def __init__(self, options: ReadOptions, confs: Mapping[str, str], run: Run, say: Say) -> None:
        self._options = replace(options, split_size=_WHOLE, truncate_nanoseconds=False)
        self._run = run
        self._say = say
        self._table = load_table(self._options, confs)
        if self._table.metadata_table is not None:
            raise OptionError("BAD_OPTION", "A metadata table has no indexes", stage="options")
        refuse_inside(self._table, options.settings.index_location, "index.location")
        properties = self._table.metadata.properties
        own = [properties[name] for name in ("write.data.path", "write.metadata.path") if name in properties]
        place = index_place(self._table.storage, options.settings, self._table.metadata.table_uuid, own)
        if place is None:
            raise OptionError(
                "NO_PLACE",
                "There is no place next to the table for its indexes",
                stage="options",
                hint="Set index.location to a folder or bucket.",
            )
        self._place = place

    @property
    def table_name(self) -> str:
        """The table's name in query logs."""
        return mask(self._table.name)

    # --- commands -------------------------------------------------------------------------------------

    def create(self, names: Sequence[str], kinds: str = AUTO, counted: Counted | None = None) -> Metrics:
        """Index columns, and record that they are indexed, so that `refresh` extends them.

        An indexed column gains kinds: the columns indexed with it are rebuilt beside the old index, which is
        then removed.

        Args:
            names: Columns, or fields nested in structs.
            kinds: ``auto``, or kinds separated by commas: those of `KINDS` and ``files``.
            counted: Returns for ``auto`` the counts of columns' values that are kept in the place of the
                indexes.

        Raises:
            OptionError: No such column or kind, or the columns have these kinds already.
            UnsupportedFeatureError: The column's type has no such index; or ``auto`` refuses all columns.
        """
        context, tasks = self._tasks(self._table.snapshot)
        wanted: list[tuple[int, tuple[str, ...]]] = []
        chosen_ids = self._field_ids(names)
        touched = [group for group in self._indexes().groups if not {*chosen_ids}.isdisjoint(group.field_ids)]
        before = _kinds_of(touched)
        listed = tuple(dict.fromkeys(kind.strip() for kind in kinds.split(",")))
        for name, field_id in zip(names, chosen_ids, strict=True):
            if field_id in before and (kinds == AUTO or before[field_id].keys() >= {*listed}):
                raise OptionError(
                    "INDEXED", f"Column {name!r} is indexed already", stage="options",
                    hint="index refresh extends it to new files; to add a kind, name one that it lacks.",
                )  # fmt: skip
        reasons: list[str] = []
        if kinds == AUTO:
            known = {} if counted is None else counted(self._place)
            profiles = profile_columns(context, tasks, chosen_ids, known)
            sizes = sum(task.file_size for task in tasks)
            choices = choose_kinds(profiles, chosen_ids, sizes, self._stored_bytes())
            for name, choice in zip(names, choices, strict=True):
                reasons.append(f"{name}: {choice.reason}")
                self._say(reasons[-1])
                if choice.kinds:
                    wanted.append((choice.field_id, choice.kinds))
        else:
            wanted = [
                (field_id, check_kinds(self._table.schema.field(field_id), listed))
                for field_id in dict.fromkeys(chosen_ids)
            ]
            kept = [column for group in touched for column in group.columns if column[0] in context.schema]
            wanted = [
                (i, tuple(found)) for i, found in _kinds_of([IndexGroup(columns=(*kept, *wanted))]).items()
            ]
        total = Metrics()
        if not wanted:
            raise UnsupportedFeatureError(
                "NOT_WORTH_IT", f"No index of these columns would pay off: {'; '.join(reasons)}", stage="index",
                hint="Name a kind to build one nevertheless, such as postings.",
            )  # fmt: skip
        groups = _groups(wanted)
        for group in groups:
            text = {"columns": {".".join(context.schema.path(i)): list(kinds) for i, kinds in group.columns}}
            files.write_all(
                self._place.storage,
                self._place.path(f"{group.name}.json"),
                json.dumps({**text, "table": self._table.name}, indent=1).encode(),
            )
            total.merge(self._extend(group, context, tasks))
        for name in {group.name for group in touched} - {group.name for group in groups}:
            self._remove(f"{name}.json")
            self._remove_folder(name)
        return total

    def refresh(self) -> Metrics:
        """Index the data files that have no index yet, of all groups of columns.

        Raises:
            NotFoundError: The table has no indexes.
        """
        groups = self._existing()
        context, tasks = self._tasks(self._table.snapshot)
        total = Metrics()
        for group in groups:
            total.merge(self._extend(group, context, tasks))
        return total

    def repair(self, paths: Iterable[str]) -> Metrics:
        """Rebuild the index files and runs that `verify_indexes` found bad, and build any that are missing."""
        for path in paths:
            files.remove(self._place.storage, path)
        return self.refresh()

    def status(self) -> list[IndexStatus]:
        """Return the state of each group of columns' indexes."""
        indexes = self._indexes()
        context, tasks = self._tasks(self._table.snapshot)
        listed = {i for group in indexes.groups for i in group.field_ids}
        sizes = column_sizes(self._table, listed, keep=self._options.manifest_cache)
        found = []
        for group in indexes.groups:
            entries = files.list_folder(self._place.storage, self._place.path(group.name))
            top = {entry.name: entry for entry in files.list_folder(self._place.storage, self._place.folder)}
            runs = [
                top[run.name] for i, kinds in group.columns if FILES in kinds for run in indexes.runs_of(i)
                if run.name in top
            ]  # fmt: skip
            names = {entry.name for entry in entries}
            lacking = lacking_files(self._place, group, context, tasks, names, indexes)
            every = [*entries, *runs]
            found.append(
                IndexStatus(
                    columns={self._name(context, i): kinds for i, kinds in group.columns},
                    indexed=len(tasks) - len(lacking),
                    data_files=len(tasks),
                    nbytes=sum(entry.size for entry in every),
                    table_bytes=sum(task.file_size for task in tasks),
                    column_bytes=total_size(sizes, group.field_ids),
                    modified=max((entry.modified for entry in every), default=0) / 1e9,
                )
            )
        return found

    def drop(self, names: Sequence[str] | None = None) -> int:
        """Remove the indexes of columns (None: of all); return how many files were removed.

        Columns indexed with them that the table has dropped lose theirs, too.

        Raises:
            NotFoundError: A column is not indexed.
            OptionError: It is indexed together with others that are not named.
        """
        groups = self._existing()
        wanted = [] if names is None else self._field_ids(names)
        for name, field_id in zip(names or (), wanted, strict=True):
            if not any(field_id in group.field_ids for group in groups):
                raise NotFoundError("NOT_INDEXED", f"Column {name!r} is not indexed", stage="index")
        removed = 0
        chosen = [group for group in groups if names is None or set(wanted) & set(group.field_ids)]
        for group in chosen:
            own = [i for i in group.field_ids if i in self._table.schema]
            others = [i for i in own if names is not None and i not in wanted]
            if others:
                shown = ", ".join(self._name(None, i) for i in others)
                raise OptionError(
                    "BAD_OPTION", f"The columns are indexed together with others: {shown}", stage="options",
                    hint="Name these too.",
                )  # fmt: skip
        for group in chosen:
            self._remove(f"{group.name}.json")
            removed += 1 + self._remove_folder(group.name)
            keyed = {i for i, kinds in group.columns if FILES in kinds}
            removed += remove_runs(self._place, self._indexes(), keyed)
        return removed

    def clean(self, step: Callable[[int, int], None]) -> tuple[int, int]:
        """Remove indexes of data files that no snapshot of the table has; return the numbers removed and kept.

        Half-written files of a killed builder are removed once they are old; those of a running one stay.

        Args:
            step: Called with the number of snapshots examined so far, and in total.
        """
        live: set[str] = set()
        keys: set[bytes] = set()
        snapshots = list(self._table.metadata.snapshots.values())
        for number, snapshot in enumerate(snapshots):
            step(number, len(snapshots))
            for task in self._tasks(snapshot)[1]:
                live.add(fingerprint.of_data_file(task) + SUFFIX)
                keys.add(file_key(task))
        step(len(snapshots), len(snapshots))
        # Folders first: a builder, perhaps running now, records a group before it creates the group's folder.
        entries = files.list_folder(self._place.storage, self._place.folder)
        indexes = self._indexes()
        removed = files.remove_stale(self._place.storage, self._place.folder, is_half_written)
        kept = 0
        known = {group.name for group in indexes.groups}
        for folder in entries:
            if folder.is_folder and folder.name not in known:
                removed += self._remove_folder(folder.name)
        for group in indexes.groups:
            removed += files.remove_stale(self._place.storage, self._place.path(group.name), is_half_written)
            for entry in files.list_folder(self._place.storage, self._place.path(group.name)):
                if is_half_written(entry.name):
                    continue
                if entry.name in live:
                    kept += 1
                else:
                    self._remove(group.name, entry.name)
                    removed += 1
        runs_removed, runs_kept = clean_runs(self._place, indexes, keys, self._options.settings.memory_budget)
        return removed + runs_removed, kept + runs_kept

    # --- parts ----------------------------------------------------------------------------------------

    def indexed_tasks(self) -> tuple[ScanContext, list[ScanTask], IndexPlace, tuple[IndexGroup, ...]]:
        """Return the scan, its data files, the place and the groups: for `verify_indexes`."""
        groups = self._existing()
        return (*self._tasks(self._table.snapshot), self._place, groups)

    def _extend(self, group: IndexGroup, context: ScanContext, tasks: Sequence[ScanTask]) -> Metrics:
        """Index the data files that lack something, and merge the new runs."""
        remove_bad_runs(self._place, self._indexes(), [i for i, kinds in group.columns if FILES in kinds])
        versions = ObjectVersions(context)
        names = usable_files(self._place, group, context, tasks, versions)
        indexes = self._indexes()
        lacking = lacking_files(self._place, group, context, tasks, names, indexes, versions)
        total = Metrics()
        total.add("indexes.files", len(tasks))
        size = max(1, -(-len(lacking) // _MAX_UNITS))
        work = [
            IndexWork(
                context=context,
                place=self._place,
                group=group,
                tasks=tuple(task for task, _, _ in part),
                lacks_index=tuple(lacks for _, lacks, _ in part),
                lacks_keys=tuple(ids for _, _, ids in part),
            )
            for part in (lacking[at : at + size] for at in range(0, len(lacking), size))
        ]
        for metrics in self._run(work):
            total.merge(metrics)
        before = {run.name for run in indexes.runs}
        for field_id, kinds in group.columns:
            if FILES in kinds:
                merge_fresh(self._place, field_id, before, self._options.settings.memory_budget, total)
                remove_old_runs(self._place, {field_id})
        return total

    def _tasks(self, snapshot: Snapshot | None) -> tuple[ScanContext, list[ScanTask]]:
        plan = plan_scan(
            replace(self._table, snapshot=snapshot),
            self._options,
            projection=(),
            predicate=TRUE,
            hint=TRUE,
            limit=None,
            parallelism=os.cpu_count() or 1,
            scan_id=uuid.uuid4().hex,
        )
        # Which columns a file without field ids has depends on names that may change: without names, it has none.
        return replace(plan.context, name_mapping=()), [
            replace(task, deletes=(), start=0, length=task.file_size)
            for group in plan.groups
            for task in group.tasks
        ]

    def _stored_bytes(self) -> int:
        """Return the bytes of all index files and runs."""
        entries = files.list_folder(self._place.storage, self._place.folder)
        folders = [entry.name for entry in entries if entry.is_folder]
        inner = [
            one for name in folders for one in files.list_folder(self._place.storage, self._place.path(name))
        ]
        return sum(entry.size for entry in (*entries, *inner) if not entry.is_folder)

    def _indexes(self) -> TableIndexes:
        metrics = Metrics()
        found = list_indexes(self._place, metrics)
        for sentence in metrics.choices:
            self._say(sentence)
        return found

    def _existing(self) -> tuple[IndexGroup, ...]:
        groups = self._indexes().groups
        if not groups:
            raise NotFoundError(
                "NOT_INDEXED", "The table has no indexes", path=self._place.folder, stage="index",
                hint="index create --columns … makes them; index.location says where they are.",
            )  # fmt: skip
        return groups

    def _field_ids(self, names: Sequence[str]) -> list[int]:
        if not names:  # an unset shell variable does not mean all columns
            raise OptionError(
                "BAD_OPTION", "No column is named", stage="options", hint="Separate names by commas: a,b."
            )
        return [self._field_id(name) for name in names]

    def _field_id(self, name: str) -> int:
        found = find_column(self._table.schema, name, case_sensitive=self._options.case_sensitive)
        if indexed_type(found.type) is None:
            raise UnsupportedFeatureError(
                "NO_INDEX", f"Column {name!r} has a type without indexes: {found.type}", stage="index"
            )
        return found.id

    def _name(self, context: ScanContext | None, field_id: int) -> str:
        schema = self._table.schema if context is None else context.schema
        return ".".join(schema.path(field_id)) if field_id in schema else f"field {field_id}, dropped"

    def _remove(self, *names: str) -> None:
        files.remove(self._place.storage, self._place.path(*names))

    def _remove_folder(self, name: str) -> int:
        entries = files.list_folder(self._place.storage, self._place.path(name))
        for entry in entries:
            if not entry.is_folder:
                self._remove(name, entry.name)
        return len(entries)


def _kinds_of(groups: Iterable[IndexGroup]) -> dict[int, dict[str, None]]:
    """Return the kinds of each column, in order of occurrence."""
    found: dict[int, dict[str, None]] = {}
    for group in groups:
        for field_id, kinds in group.columns:
            found.setdefault(field_id, {}).update(dict.fromkeys(kinds))
    return found


def _groups(wanted: Sequence[tuple[int, tuple[str, ...]]]) -> list[IndexGroup]:
    """Return groups of columns, each with a name short enough for a file system."""
    groups: list[IndexGroup] = []
    held: list[tuple[int, tuple[str, ...]]] = []
    for column in wanted:
        if held and len(IndexGroup(columns=(*held, column)).name) > MAX_NAME:
            groups.append(IndexGroup(columns=tuple(held)))
            held = []
        held.append(column)
    return [*groups, IndexGroup(columns=tuple(held))]
