"""A declared table whose files, manifests and metadata Apache Iceberg's own Java library writes.

Takes the same calls as `tables.Table`, whose records it keeps for the oracle; makes a folder written by
Iceberg. The rule: the table's content, bytes and numbers alike, comes from Iceberg's writers and commits; the
declaration only says which rows, keys and positions, with which field ids.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import resolver
from declared.content import ContentFile, DataFile, EqualityDelete, PositionDelete, VectorDelete
from declared.files import FileOptions, write_rows
from declared.metadata import metadata_json
from declared.types import Struct, type_json
from spark_archive import ONE_JVM
from tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from declared.types import Column


class IcebergTable(Table):
    """A table that Iceberg writes when `write` is called, in the order of the calls."""

    spark: SparkSession
    """Set by the suite: a session with Iceberg's runtime."""

    def __init__(self, folder: Path, columns: Mapping[str, Any], **more: Any) -> None:
        self._queue: list[Callable[[], None]] = []
        self._java: Any = None
        self._files: dict[ContentFile, Any] = {}
        self._layouts: dict[ContentFile, FileOptions] = {}
        self._spec_ids: list[int] = []
        self._layout = FileOptions()
        self._rows: dict[DataFile, Sequence[Mapping[int, Any]]] = {}
        self._kinds: set[type] = set()
        super().__init__(folder, columns, **more)
        self._first = (len(self._evolution.schemas), len(self._evolution.specs))
        self._first_json = metadata_json(
            self.location,
            self._evolution,
            [],
            {},
            version=2,
            sequence=0,
            next_row_id=0,
            properties=self.properties,
            last_column_id=self._last_id,
        )

    # ---- what is declared

    def append_all(
        self, rows: Iterable[Mapping[str, Any]], options: FileOptions = FileOptions(), **more: Any
    ) -> list[DataFile]:
        more.pop("absent", None)  # Iceberg's writers write every column
        asked = {key: value for key, value in more.items() if key != "sequence_number"}
        self._layout = replace(options, **asked)
        files = super().append_all(rows, options, **more)
        for file in files:
            self._rows[file] = file.rows
            if file.entry["file_format"] == "ORC":
                self._rows[file] = tuple(dict(row) for row in file.rows)
                for row in file.rows:
                    row.update(_as_orc_stores(file.columns, row))
        return files

    def partition_by(self, fields: Sequence[str]) -> None:
        super().partition_by(fields)
        self._queue.append(self._change_spec(len(self._evolution.specs) - 1))

    def add_column(self, path: str, kind: Any, *, default: Any = None) -> None:
        super().add_column(path, kind, default=default)
        self._queue.append(self._change_schema(len(self._evolution.schemas) - 1))

    def order_columns(self, names: Sequence[str]) -> None:
        super().order_columns(names)
        self._queue.append(self._change_schema(len(self._evolution.schemas) - 1))

    def _change(self, field_id: int, change: Any) -> None:
        super()._change(field_id, change)
        self._queue.append(self._change_schema(len(self._evolution.schemas) - 1))

    def tag(self, name: str) -> None:
        raise NotImplementedError("no named case needs a tag of this writer")

    def _commit(self, added: list[ContentFile], removed: list[ContentFile]) -> None:
        super()._commit(added, removed)
        for file in added:
            self._kinds.add(type(file))
            self._layouts[file] = self._layout
            if isinstance(file, DataFile) and file.sequence not in (self._sequence, 0):
                raise NotImplementedError("Iceberg numbers its data files itself")
        older = [file for file in added if not isinstance(file, DataFile) and file.sequence < self._sequence]
        self._queue.append(lambda: self._commit_java(added, removed, older))

    # ---- what Iceberg writes

    @property
    def _iceberg(self) -> Any:
        return self.spark._jvm.org.apache.iceberg

    def write(self) -> Path:
        """Let Iceberg write what was declared since the last call; return the metadata file's path."""
        if self._java is None:
            # Version 3 allows no new positional delete files: they come before the upgrade.
            self._create(2 if PositionDelete in self._kinds or VectorDelete in self._kinds else self.version)
        queue, self._queue = self._queue, []
        for step in queue:
            step()
        if self._operations().current().formatVersion() < self.version:
            self._replace(lambda current: current.upgradeToFormatVersion(self.version))
        return (
            self.folder / "metadata" / self._operations().current().metadataFileLocation().rpartition("/")[2]
        )

    def _create(self, version: int) -> None:
        parser = self._iceberg.TableMetadataParser
        raw = json.loads(self._first_json) | {"format-version": version}
        if version == 1:
            for name in ("last-sequence-number", "refs"):
                raw.pop(name, None)
            raw |= {"schema": raw["schemas"][-1], "partition-spec": raw["partition-specs"][-1]["fields"]}
        if version == 3:
            raw["next-row-id"] = 0
        folder = self.folder / "metadata"
        shutil.rmtree(folder, ignore_errors=True)  # the declaration's own manifests
        folder.mkdir(parents=True)
        conf = self.spark._jsc.hadoopConfiguration()
        output = self._iceberg.hadoop.HadoopOutputFile.fromLocation(
            f"{self.location}/metadata/v1.metadata.json", conf
        )
        parser.write(parser.fromJson(json.dumps(raw)), output)
        (folder / "version-hint.text").write_text("1")
        self._java = self._iceberg.hadoop.HadoopTables(conf).load(self.location)
        self._spec_ids = list(range(self._first[1]))
        # The first schema and spec are in the metadata already.
        self._queue = self._queue[self._first[1] :]

    def _operations(self) -> Any:
        operations = self._java.operations()
        operations.refresh()
        return operations

    def _replace(self, change: Callable[[Any], Any]) -> None:
        operations = self._operations()
        operations.commit(operations.current(), change(operations.current()))
        self._java.refresh()

    def _schema(self, columns: Sequence[Column]) -> Any:
        text = json.dumps({**type_json(Struct(tuple(columns))), "schema-id": 0})
        return self._iceberg.SchemaParser.fromJson(text)

    def _change_schema(self, index: int) -> Callable[[], None]:
        def step() -> None:
            columns = self._evolution.schemas[index]
            if any(column.default is not None for column in columns):
                self._replace(lambda current: current.upgradeToFormatVersion(3))
            self._replace(lambda current: current.updateSchema(self._schema(columns)))

        return step

    def _change_spec(self, index: int) -> Callable[[], None]:
        def step() -> None:
            fields = [
                {"name": p.name, "transform": p.transform, "source-id": p.source, "field-id": p.id}
                for p in self._evolution.specs[index]
            ]
            text = json.dumps({"spec-id": index, "fields": fields})
            spec = self._iceberg.PartitionSpecParser.fromJson(self._java.schema(), text)
            self._replace(lambda current: current.updatePartitionSpec(spec))
            self._spec_ids.append(self._operations().current().defaultSpecId())

        return step

    def _commit_java(
        self, added: list[ContentFile], removed: list[ContentFile], older: list[ContentFile]
    ) -> None:
        if any(isinstance(file, VectorDelete) for file in added):
            self._replace(lambda current: current.upgradeToFormatVersion(3))
        self._java.refresh()
        made = {file: self._write_data(file) for file in added if isinstance(file, DataFile)}
        self._files |= made
        deletes = {
            file: self._write_delete(file) for file in added if not isinstance(file, DataFile | VectorDelete)
        }
        if vectors := [file for file in added if isinstance(file, VectorDelete)]:
            deletes |= self._write_vectors(vectors)
        self._files |= deletes
        if not deletes and not removed:
            change = self._java.newAppend()
            for file in made.values():
                change.appendFile(file)
        else:
            change = self._java.newRowDelta()
            for file in made.values():
                change.addRows(file)
            for file in deletes.values():
                change.addDeletes(file)
            for file in removed:
                (change.removeRows if isinstance(file, DataFile) else change.removeDeletes)(self._files[file])
        change.commit()
        for file in older:
            # Only a rewrite may give a delete file its own sequence number.
            rewrite = self._java.newRewrite().deleteFile(self._files[file])
            self._files[file] = self._write_delete(file, again=True)
            rewrite.addFile(self._files[file], file.sequence).commit()

    def _spec(self, file: ContentFile) -> Any:
        return self._java.specs()[self._spec_ids[file.spec_id]]

    def _output(self, file: ContentFile, *, again: bool = False) -> Any:
        location = self._java.io().newOutputFile(f"{file.path}.again" if again else file.path)
        return self._iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(location)

    def _class(self, name: str) -> Any:
        return self.spark._jvm.org.apache.spark.util.Utils.classForName(name, True, False)

    def _records(self, columns: Sequence[Column], rows: Sequence[Mapping[int, Any]]) -> Any:
        """Return rows as Iceberg's records, which its own reader makes from a temporary Avro file."""
        aside = self.folder / "aside.avro"
        write_rows(aside, columns, rows, FileOptions(format="avro"))
        source = self._java.io().newInputFile(f"{self.folder}/aside.avro")
        registry = self._iceberg.formats.FormatModelRegistry
        found = registry.readBuilder(
            self._iceberg.FileFormat.AVRO, self._class("org.apache.iceberg.data.Record"), source
        )
        return found.project(self._schema(columns)).build()

    def _write_all(self, writer: Any, records: Any) -> None:
        """Call ``write(Iterable)``, which by name alone would resolve to ``write(Object)``."""
        gateway, jvm = self.spark._sc._gateway, self.spark._jvm
        types = gateway.new_array(jvm.java.lang.Class, 1)
        types[0] = self._class("java.lang.Iterable")
        arguments = gateway.new_array(jvm.java.lang.Object, 1)
        arguments[0] = records
        method = self._class("org.apache.iceberg.io.FileWriter").getMethod("write", types)
        method.invoke(writer, arguments)

    def _partition(self, file: DataFile) -> Any:
        """Return the partition that Iceberg computes from the file's first row."""
        spec = self._spec(file)
        if not file.partition or not file.rows:
            return None
        schema = self._schema(file.columns)
        key = self._iceberg.PartitionKey(spec, schema)
        record = self._records(file.columns, self._rows[file][:1]).iterator().next()
        key.partition(self._iceberg.data.InternalRecordWrapper(schema.asStruct()).wrap(record))
        return key

    def _write_data(self, file: DataFile) -> Any:
        kind = getattr(self._iceberg.FileFormat, file.entry["file_format"])
        registry = self._iceberg.formats.FormatModelRegistry
        builder = registry.dataWriteBuilder(
            kind, self._class("org.apache.iceberg.data.Record"), self._output(file)
        )
        schema = self._schema(file.columns)
        layout = self._layouts[file]
        metrics = {"none": "none", "counts": "counts"}.get(layout.metrics)
        properties = {
            "write.parquet.row-group-size-bytes": "1",
            "write.parquet.row-group-check-min-record-count": str(layout.row_group_size),
            "write.parquet.row-group-check-max-record-count": str(layout.row_group_size),
            **({"write.metadata.metrics.default": metrics} if metrics else {}),
            **{f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in layout.bloom},
        }
        for key, value in properties.items():
            builder = builder.set(key, value)
        config = self._iceberg.MetricsConfig.fromProperties(properties)
        builder = builder.schema(schema).spec(self._spec(file)).metricsConfig(config).overwrite()
        if (partition := self._partition(file)) is not None:
            builder = builder.partition(partition)
        writer = builder.build()
        self._write_all(writer, self._records(file.columns, self._rows[file]))
        writer.close()
        return writer.toDataFile()

    def _partition_of(self, file: ContentFile) -> Any:
        """Return the partition of a data file in the same one."""
        if not file.partition:
            return None
        for other, made in self._files.items():
            same = (other.spec_id, repr(other.partition)) == (file.spec_id, repr(file.partition))
            if same and isinstance(other, DataFile):
                return made.partition()
        return self._iceberg.PartitionData(self._spec(file).partitionType())

    def _write_delete(self, file: ContentFile, *, again: bool = False) -> Any:
        kind = getattr(self._iceberg.FileFormat, file.entry["file_format"])
        registry = self._iceberg.formats.FormatModelRegistry
        if isinstance(file, PositionDelete):
            builder = registry.positionDeleteWriteBuilder(kind, self._output(file, again=again))
        else:
            assert isinstance(file, EqualityDelete)
            record = self._class("org.apache.iceberg.data.Record")
            builder = registry.equalityDeleteWriteBuilder(kind, record, self._output(file, again=again))
            numbers = self.spark._sc._gateway.new_array(self.spark._jvm.int, len(file.ids))
            for index, number in enumerate(file.ids):
                numbers[index] = number
            builder = builder.schema(self._schema(file.columns)).equalityFieldIds(numbers)
        builder = builder.spec(self._spec(file)).overwrite()
        config = self._iceberg.MetricsConfig
        if isinstance(file, PositionDelete):
            # A case without path bounds is about deletes that may refer to any data file.
            none = {"write.metadata.metrics.default": "none"}
            names_file = file.entry.get("lower_bounds") or file.entry.get("referenced_data_file")
            found = config.forPositionDelete() if names_file else config.fromProperties(none)
        else:
            found = config.getDefault()
        builder = builder.metricsConfig(found)
        if (partition := self._partition_of(file)) is not None:
            builder = builder.partition(partition)
        writer = builder.build()
        if isinstance(file, PositionDelete):
            row = self._iceberg.deletes.PositionDelete.create()
            for path, position in file.positions:
                writer.write(row.set(path, position))
        else:
            self._write_all(writer, self._records(file.columns, file.rows))
        writer.close()
        return writer.toDeleteFile()

    def _no_former_vectors(self) -> Any:
        """Return a ``java.util.function.Function`` that returns null for every path."""
        gateway, jvm = self.spark._sc._gateway, self.spark._jvm
        handles = jvm.java.lang.invoke.MethodHandles
        types = gateway.new_array(jvm.java.lang.Class, 1)
        types[0] = self._class("java.lang.Object")
        null = handles.dropArguments(handles.constant(types[0], None), 0, types)
        function = self._class("java.util.function.Function")
        return jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(function, null)

    def _write_vectors(self, vectors: Sequence[VectorDelete]) -> dict[ContentFile, Any]:
        """Write one Puffin file with all of them."""
        iceberg = self._iceberg
        files = iceberg.io.OutputFileFactory.builderFor(self._java, next(self._numbers), 1)
        output = files.format(iceberg.FileFormat.PUFFIN).build()
        writer = iceberg.deletes.BaseDVFileWriter(output, self._no_former_vectors())
        for vector in vectors:
            index = iceberg.deletes.Deletes.toPositionIndex(iceberg.io.CloseableIterable.empty())
            for first, last in _runs(sorted(vector.positions)):
                index.delete(first, last + 1)
            writer.delete(vector.data_file, index, self._spec(vector), self._partition_of(vector))
        writer.close()
        written = {made.referencedDataFile(): made for made in writer.result().deleteFiles()}
        found = {}
        for vector in vectors:
            made = written[vector.data_file]
            if (other := vector.entry["referenced_data_file"]) != vector.data_file:
                builder = iceberg.FileMetadata.deleteFileBuilder(self._spec(vector)).copy(made)
                made = builder.withReferencedDataFile(other).build()
            found[vector] = made
        return found


def _as_orc_stores(columns: Sequence[Column], row: Mapping[int, Any]) -> dict[int, Any]:
    """Return the timestamps of a row that Iceberg's ORC writer stores a second late: fractional ones before
    1970."""
    return {
        column.id: value + 1_000_000
        for column in columns
        if column.type in ("timestamp", "timestamptz")
        and (value := row.get(column.id)) is not None
        and -1_000_000 < value < 0
    }


def _runs(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of consecutive positions."""
    start = previous = None
    for position in positions:
        if previous is None or position != previous + 1:
            if previous is not None:
                yield start, previous
            start = position
        previous = position
    if previous is not None:
        yield start, previous


def start_session() -> SparkSession:
    """Start Spark with Iceberg's runtime on its class path; it only lends its JVM."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").appName("iceberg writer")
    for key, value in {
        "spark.jars.packages": resolver.RUNTIME,
        "spark.ui.enabled": "false",
        **ONE_JVM,
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    }.items():
        builder = builder.config(key, value)
    session = resolver.start(builder)
    session.sparkContext.setLogLevel("ERROR")
    return session
