"""A builder of real Iceberg tables, declared in Python and written without the product's code.

Takes declarations (columns, commits, deletes, evolution); writes data files, delete files, manifests and
metadata into a folder, and keeps the logical content for the oracle. Rows are dicts by column name; a
nested type is declared as ``{"x": "int"}`` (struct), ``["int"]`` (list) or ``("map", "string", "int")``;
``"long!"`` is required.

    table = Table(folder, {"id": "long", "name": "string"})
    file = table.append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    table.delete_positions({file: [0]})
    table.delete_equal(["name"], [{"name": "b"}])
    path = table.write()
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from declared.column_metrics import column_metrics
from declared.commits import Committed
from declared.content import ContentFile, DataFile, EqualityDelete, PositionDelete, VectorDelete
from declared.evolution import leaf, only
from declared.files import (
    FILE_PATH,
    FileOptions,
    vector_blob,
    write_position_deletes,
    write_puffin,
    write_rows,
)
from declared.transforms import apply
from declared.types import Struct, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["DataFile", "FileOptions", "Table"]
ABSENT_METRICS = {"equality_ids": None, "referenced_data_file": None, "split_offsets": None}


class Table(Committed):
    """A table under construction; every call outside `transaction` commits one snapshot.

    Args:
        folder: Where the table lives.
        columns: The first schema.
        version: Format version, 1 to 3; `default_version` if left out, as the files' formats are those below.
        partition: The first spec, such as ``["bucket[4](id)", "day(ts)", "region"]``.
        name_mapping: Write ``schema.name-mapping.default`` with all names that columns ever had.
        scheme: Written before every path, such as ``file://``.
    """

    data_format: ClassVar[str] = "parquet"
    delete_format: ClassVar[str] = "parquet"

    # ---- data files

    def append(
        self, rows: Iterable[Mapping[str, Any]], options: FileOptions = FileOptions(), **more: Any
    ) -> DataFile:
        """Append one data file; all rows must be in one partition.

        Args:
            rows: Dicts by column name; a missing name is NULL.
            options: The file's layout; `more` replaces fields of it.
            more: Also ``sequence_number``, to write one other than the snapshot's.
        """
        (file,) = self.append_all(rows, options, **more)
        return file

    def append_all(
        self, rows: Iterable[Mapping[str, Any]], options: FileOptions = FileOptions(), **more: Any
    ) -> list[DataFile]:
        """Append one data file per partition of the rows."""
        sequence = more.pop("sequence_number", self.next_sequence)
        if options.format == "parquet" and "format" not in more and self.data_format != "parquet":
            more |= {"format": self.data_format, "mixed": True}
        options = replace(options, **more)
        spec_id = len(self._evolution.specs) - 1
        groups: dict[tuple[str, ...], tuple[tuple[Any, ...], list[dict[int, Any]]]] = {}
        for row in rows:
            values = plain(Struct(self.columns), {**dict.fromkeys(c.name for c in self.columns), **row})
            partition = self.partition_of(values, spec_id)
            groups.setdefault(tuple(map(repr, partition)), (partition, []))[1].append(values)
        if not groups:
            groups[()] = ((), [])
        files = []
        columns = tuple(c for c in self.columns if c.name not in options.absent)
        kept = {c.id for c in columns}
        for partition, values in groups.values():
            stored = tuple({i: v for i, v in row.items() if i in kept} for row in values)
            name = f"data/file-{next(self._numbers)}.{options.format}"
            size = write_rows(self.folder / name, columns, stored, options)
            skip = [c.id for name_ in options.unmeasured for c in self.columns if c.name == name_]
            entry = self._entry(0, name, options.format, spec_id, partition, len(stored), size)
            entry |= column_metrics(columns, stored, options.metrics, skip)
            files.append(
                DataFile(
                    path=entry["file_path"],
                    spec_id=spec_id,
                    partition=partition,
                    sequence=sequence,
                    size=size,
                    entry=entry,
                    columns=columns,
                    rows=stored,
                )
            )
        self._change_files(list(files), [])
        return files

    def partition_of(self, row: Mapping[int, Any], spec_id: int) -> tuple[Any, ...]:
        """Return the partition values of a row by field id."""
        values = []
        for part in self._evolution.specs[spec_id]:
            kind = self._evolution.all_columns[part.source].type
            values.append(apply(part.transform, kind, leaf(self.columns, row, part.source)))
        return tuple(values)

    def _entry(
        self, content: int, name: str, kind: str, spec: int, partition: tuple[Any, ...], rows: int, size: int
    ) -> dict[str, Any]:
        return {
            **ABSENT_METRICS,
            "content": content,
            "file_path": f"{self.location}/{name}",
            "file_format": kind.upper(),
            "partition": partition,
            "record_count": rows,
            "file_size_in_bytes": size,
            "first_row_id": None,
            "content_offset": None,
            "content_size_in_bytes": None,
        }

    # ---- delete files

    def delete_positions(
        self,
        positions: Mapping[DataFile, Sequence[int]],
        file_format: str | None = None,
        *,
        bounds: bool = True,
        referenced: bool = False,
        in_order: bool = True,
        others: Sequence[tuple[str, int]] = (),
        scope: DataFile | None = None,
        sequence_number: int | None = None,
        page_checksums: bool = False,
    ) -> list[PositionDelete]:
        """Delete rows by position: one delete file per partition of the data files.

        Args:
            positions: Positions by data file.
            file_format: ``parquet``, ``orc`` or ``avro``.
            bounds: Whether the entry has bounds of the path.
            referenced: Whether the entry names the data file; needs exactly one per partition.
            in_order: Sort by path and position, as the spec wants.
            others: More (path, position) rows, for any files.
            scope: Take the partition from this file instead of the deleted ones.
            sequence_number: One other than the snapshot's.
            page_checksums: Write them, in Parquet.
        """
        groups: dict[tuple[Any, ...], list[tuple[str, int]]] = {}
        for file, wanted in positions.items():
            target = scope or file
            group = groups.setdefault(
                (target.spec_id, tuple(map(repr, target.partition)), target.partition), []
            )
            group.extend((file.path, position) for position in wanted)
        made = []
        file_format = file_format or self.delete_format
        for (spec_id, _, partition), group_rows in groups.items():
            rows = [*group_rows, *others]
            if in_order:
                rows.sort(key=lambda row: (row[0].encode(), row[1]))
            name = f"data/deletes-{next(self._numbers)}.{file_format}"
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            size = write_position_deletes(path, rows, file_format, page_checksums=page_checksums)
            entry = self._entry(1, name, file_format, spec_id, partition, len(rows), size)
            if bounds and rows:
                paths = sorted(row[0].encode() for row in rows)
                entry["lower_bounds"] = {FILE_PATH.id: paths[0]}
                entry["upper_bounds"] = {FILE_PATH.id: paths[-1]}
            if referenced:
                (entry["referenced_data_file"],) = {row[0] for row in rows}
            made.append(
                PositionDelete(
                    path=entry["file_path"],
                    spec_id=spec_id,
                    partition=partition,
                    sequence=self.next_sequence if sequence_number is None else sequence_number,
                    size=size,
                    entry=entry,
                    positions=tuple(rows),
                )
            )
        self._change_files(list(made), [])
        return made

    def delete_vectors(
        self, positions: Mapping[DataFile, Sequence[int]], *, blobs: Mapping[DataFile, bytes] | None = None
    ) -> list[VectorDelete]:
        """Write one Puffin file with a deletion vector per data file; `blobs` replaces vectors' bytes.

        A data file's previous vector is removed in the same commit: there is at most one.
        """
        name = f"data/vectors-{next(self._numbers)}.puffin"
        vectors = [
            (file.path, (blobs or {}).get(file) or vector_blob(list(wanted)), len(set(wanted)))
            for file, wanted in positions.items()
        ]
        size, places = write_puffin(self.folder / name, vectors)
        made = []
        for (file, wanted), (offset, length) in zip(positions.items(), places, strict=True):
            entry = self._entry(1, name, "puffin", file.spec_id, file.partition, len(set(wanted)), size)
            entry |= {
                "referenced_data_file": file.path,
                "content_offset": offset,
                "content_size_in_bytes": length,
            }
            made.append(
                VectorDelete(
                    path=entry["file_path"],
                    spec_id=file.spec_id,
                    partition=file.partition,
                    sequence=self.next_sequence,
                    size=size,
                    entry=entry,
                    data_file=file.path,
                    positions=frozenset(wanted),
                )
            )
        paths = {file.path for file in positions}
        head = self._head()
        former = [
            f for f in (head.files if head else ()) if isinstance(f, VectorDelete) and f.data_file in paths
        ]
        self._change_files(list(made), list(former))
        return made

    def delete_equal(
        self,
        columns: Sequence[str],
        rows: Sequence[Mapping[str, Any]],
        file_format: str | None = None,
        *,
        like: ContentFile | None = None,
        sequence_number: int | None = None,
        metrics: str = "full",
        extra: Sequence[str] = (),
        options: FileOptions = FileOptions(),
    ) -> EqualityDelete:
        """Delete the rows that equal one of `rows` in all of `columns`.

        Args:
            columns: Dotted paths of the key columns.
            rows: Dicts by column name; structs hold at least the key fields.
            file_format: ``parquet``, ``orc`` or ``avro``.
            like: Take spec and partition from this file; by default the spec without fields, which is global.
            sequence_number: One other than the snapshot's.
            metrics: As in `FileOptions`.
            extra: More columns of the delete file, which are not keys.
            options: The delete file's layout.
        """
        file_format = file_format or self.delete_format
        ids = tuple(self.column(path).id for path in columns)
        wanted = {*ids, *(self.column(path).id for path in extra)}
        written = only(self.columns, wanted)
        stored = tuple(
            plain(Struct(written), {**dict.fromkeys(c.name for c in written), **row}) for row in rows
        )
        spec_id = like.spec_id if like else self._global_spec()
        partition = like.partition if like else (None,) * len(self._evolution.specs[spec_id])
        name = f"data/equality-{next(self._numbers)}.{file_format}"
        size = write_rows(self.folder / name, written, stored, replace(options, format=file_format))
        entry = self._entry(2, name, file_format, spec_id, partition, len(stored), size)
        entry |= column_metrics(written, stored, metrics) | {"equality_ids": list(ids)}
        made = EqualityDelete(
            path=entry["file_path"],
            spec_id=spec_id,
            partition=partition,
            sequence=self.next_sequence if sequence_number is None else sequence_number,
            size=size,
            entry=entry,
            columns=written,
            ids=ids,
            rows=stored,
        )
        self._change_files([made], [])
        return made

    def _global_spec(self) -> int:
        for index, spec in enumerate(self._evolution.specs):
            if all(part.transform == "void" for part in spec):
                return index
        raise ValueError("no spec is unpartitioned: pass like=, or declare the table without partition first")
