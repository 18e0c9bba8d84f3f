"""What planning costs if a table has very many files: count(*), min and max from metadata, and LIMIT 100.

Writes manifests of a table of a million data files, which do not exist and are never opened; runs each query
in a separate process; prints seconds and peak memory. ``make bench-metadata BENCH="--files 100000"``.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import resource
import struct
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS as LIST_SCHEMAS,
    data_file_with_partition,
)
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion
from rich.console import Console
from rich.table import Table

from twostage.aggregates.metadata_answer import Aggregate, AggregateAnswer, answer
from twostage.catalog.load_table import load_table
from twostage.options import parse_options
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, Column, Compare

if TYPE_CHECKING:
    from collections.abc import Callable

SNAPSHOT = 7
ROWS = 1000
"""Per file."""
NUMBER, LOWER, UPPER = b"@@@@@@@@", b"<lower!>", b"<upper!>"
SYNC = b"a sync marker ok"


def data_file_name(number: int | str) -> str:
    """Return the name of a data file, also for the mark in place of its number."""
    digits = number if isinstance(number, str) else f"{number:08d}"
    return f"{digits}-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9.parquet"


def make_table(
    folder: Path, files: int, columns: int, files_a_manifest: int, *, file_size: int | None = None
) -> Path:
    """Write the metadata of a table of `files` files with metrics of `columns` long columns.

    Args:
        folder: The table's.
        files: The number of data files.
        columns: The number of columns.
        files_a_manifest: Data files per manifest.
        file_size: Bytes of a data file, by default 4,000 per column.
    """
    metadata = folder / "metadata"
    metadata.mkdir(parents=True, exist_ok=True)
    entry = _entry_schema()
    header = {
        "schema": json.dumps(_schema(columns)),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data",
    }
    template = _template(folder, columns, entry, file_size or 4000 * columns)
    manifests = []
    for number, first in enumerate(range(0, files, files_a_manifest)):
        count = min(files_a_manifest, files - first)
        path = metadata / f"manifest-{number}.avro"
        path.write_bytes(_container(entry, header, template, first, count))
        manifests.append(_listed(path, count))
    name = metadata / f"snap-{SNAPSHOT}.avro"
    listed = AvroSchemaConversion().iceberg_to_avro(LIST_SCHEMAS[2], schema_name="manifest_file")
    with name.open("wb") as out:
        fastavro.writer(out, listed, manifests, codec="deflate")  # type: ignore[arg-type]
    (metadata / "v1.metadata.json").write_text(json.dumps(_metadata(folder, name, columns)))
    return metadata / "v1.metadata.json"


def _entry_schema() -> Any:
    schema = MANIFEST_ENTRY_SCHEMAS[2]
    file = data_file_with_partition(format_version=2, partition_type=StructType())
    fields = [
        field.model_copy(update={"field_type": file}) if field.name == "data_file" else field
        for field in schema.fields
    ]
    return AvroSchemaConversion().iceberg_to_avro(type(schema)(*fields), schema_name="manifest_entry")


def _schema(columns: int) -> dict[str, Any]:
    fields = [{"id": n, "name": f"c{n}", "type": "long", "required": False} for n in range(1, columns + 1)]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def _template(folder: Path, columns: int, schema: Any, file_size: int) -> bytes:
    """Return an encoded entry with marks in place of the file's number and bounds: encoding 1,000,000 takes long."""

    def pairs(value: Any) -> list[dict[str, Any]]:
        return [{"key": n, "value": value} for n in range(1, columns + 1)]

    out = io.BytesIO()
    entry = {
        "status": 1,
        "snapshot_id": None,
        "sequence_number": None,
        "file_sequence_number": None,
        "data_file": {
            "content": 0,
            "file_path": f"{folder}/data/{data_file_name(NUMBER.decode())}",
            "file_format": "PARQUET",
            "partition": {},
            "record_count": ROWS,
            "file_size_in_bytes": file_size,
            "column_sizes": pairs(file_size // columns),
            "value_counts": pairs(ROWS),
            "null_value_counts": pairs(0),
            "nan_value_counts": [],
            "lower_bounds": pairs(LOWER),
            "upper_bounds": pairs(UPPER),
            "key_metadata": None,
            "split_offsets": [4],
            "equality_ids": None,
            "sort_order_id": 0,
        },
    }
    fastavro.schemaless_writer(out, schema, entry)
    return out.getvalue()


def _container(
    schema: Any, header: dict[str, str], template: bytes, first: int, count: int, block: int = 100
) -> bytes:
    """Return a manifest: Avro's container of `count` entries, as deflated blocks."""
    out = io.BytesIO()
    fastavro.writer(out, schema, [], codec="deflate", metadata=header, sync_marker=SYNC)
    for start in range(first, first + count, block):
        numbers = range(start, min(start + block, first + count))
        entries = b"".join(
            template.replace(NUMBER, b"%08d" % number)
            .replace(LOWER, struct.pack("<q", number * ROWS))
            .replace(UPPER, struct.pack("<q", number * ROWS + ROWS - 1))
            for number in numbers
        )
        packed = zlib.compress(entries, 1, wbits=-15)
        for length in (len(numbers), len(packed)):
            fastavro.schemaless_writer(out, "long", length)
        out.write(packed + SYNC)
    return out.getvalue()


def _listed(path: Path, count: int) -> dict[str, Any]:
    return {
        "manifest_path": str(path),
        "manifest_length": path.stat().st_size,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": 1,
        "min_sequence_number": 1,
        "added_snapshot_id": SNAPSHOT,
        "added_files_count": count,
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": count * ROWS,
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
        "partitions": [],
        "key_metadata": None,
    }


def _metadata(folder: Path, manifest_list: Path, columns: int) -> dict[str, Any]:
    return {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": str(folder),
        "last-sequence-number": 1,
        "last-updated-ms": 1,
        "last-column-id": columns,
        "current-schema-id": 0,
        "schemas": [_schema(columns)],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "current-snapshot-id": SNAPSHOT,
        "snapshots": [
            {
                "snapshot-id": SNAPSHOT,
                "sequence-number": 1,
                "timestamp-ms": 1,
                "summary": {"operation": "append"},
                "manifest-list": str(manifest_list),
                "schema-id": 0,
            }
        ],
    }


def _open(path: Path) -> Any:
    options = parse_options({"path": str(path)})
    return load_table(options), options


def count_rows(path: Path) -> str:
    """``SELECT count(*)``."""
    table, options = _open(path)
    found = answer(table, options, aggregates=(Aggregate("rows"),))
    assert isinstance(found, AggregateAnswer), found
    return f"{found.rows[0][0]:,}"


def least_and_greatest(path: Path) -> str:
    """``SELECT min(c1), max(c1)``."""
    table, options = _open(path)
    (field, *_) = table.schema.fields
    found = answer(table, options, aggregates=(Aggregate("min", field), Aggregate("max", field)))
    assert isinstance(found, AggregateAnswer), found
    return f"{found.rows[0][0]:,} to {found.rows[0][1]:,}"


def limit_100(path: Path) -> str:
    """``SELECT * LIMIT 100``."""
    return _planned(path, TRUE, 100)


def needle(path: Path) -> str:
    """``SELECT * WHERE c1 = 5``, which matches one file."""
    table, _ = _open(path)
    (field, *_) = table.schema.fields
    return _planned(path, Compare("=", Column(field.id, (field.name,), field.type), 5), None)


def _planned(path: Path, predicate: Any, limit: int | None) -> str:
    table, options = _open(path)
    plan = plan_scan(
        table,
        options,
        projection=table.schema.fields,
        predicate=predicate,
        hint=TRUE,
        limit=limit,
        parallelism=2,
        scan_id="benchmark",
    )
    return f"{sum(len(group.tasks) for group in plan.groups):,} files to read"


QUESTIONS: dict[str, Callable[[Path], str]] = {
    "count(*)": count_rows,
    "min(c1), max(c1)": least_and_greatest,
    "SELECT * LIMIT 100": limit_100,
    "SELECT * WHERE c1 = 5": needle,
}


def _measured(name: str, path: Path, results: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, busy = time.perf_counter(), time.process_time()
    found = QUESTIONS[name](path)
    wall, cpu = time.perf_counter() - started, time.process_time() - busy
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    results.put((found, wall, cpu, grown / 1024))


def main() -> None:
    """Make the table and run the queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--files-a-manifest", type=int, default=8_000)
    parser.add_argument("--only", nargs="*", default=list(QUESTIONS), choices=list(QUESTIONS))
    parser.add_argument(
        "--json", type=Path, help="write the figures to this file too, for docs/benchmarks.md"
    )
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    heads = ("question", "answer", "s", "CPU s", "memory grew by MiB")
    shown, rows = Table(*heads, box=None), []
    with tempfile.TemporaryDirectory(prefix="twostage-metadata-") as folder:
        started = time.perf_counter()
        path = make_table(Path(folder) / "t", given.files, given.columns, given.files_a_manifest)
        size = sum(file.stat().st_size for file in path.parent.iterdir())
        about = f"{given.files:,} files: {size / 2**20:,.0f} MiB of metadata, {time.perf_counter() - started:.0f} s to write"
        print(about)
        for name in given.only:
            results = context.Queue()
            process = context.Process(target=_measured, args=(name, path, results))
            process.start()
            found, wall, cpu, grown = results.get()
            process.join()
            rows.append([name, str(found), f"{wall:.2f}", f"{cpu:.2f}", f"{grown:,.0f}"])
            shown.add_row(*rows[-1])
    Console(width=110).print(shown)
    if given.json:
        given.json.write_text(
            json.dumps({"tables": [{"title": about, "columns": heads, "rows": rows}]}, indent=1)
        )


if __name__ == "__main__":
    main()
