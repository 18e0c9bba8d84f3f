"""One data file: stage one with an index compared with a plain-encoded column, and building with reading; no Spark.

    make bench-index-stage-one BENCH=[rows]

Takes a number of rows; writes a file of scattered numbers and strings without dictionaries, and an index of
each column. For a needle it prints the median CPU milliseconds of the scan, and of stage one (filter columns
and filter, or indexes) alone, with and without the index; and the build time compared with our reader reading
the column. All in one process, in turns.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TWOSTAGE_JIT", "always")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twostage.deletes.cache import fingerprint
from twostage.indexes.of_scan import ScanIndexes
from twostage.indexes.place import IndexGroup, TableIndexes, index_place
from twostage.maintenance.index_files import IndexWork, index_files
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.predicates.predicate import TRUE, Predicate
from twostage.predicates.sql_filter import parse_filter
from twostage.reading.pipeline import read_group
from twostage.schema import parse_schema
from twostage.task import ScanContext, ScanTask, Storage, TaskGroup

ROWS = 3_000_000
TURNS = 15
COLUMNS = {"id": "long", "number": "long", "text": "string"}
KINDS = {"number": "postings", "text": "postings"}
FILTERS = {"number": "number = {}", "text": "text = 'text-{:012d}'"}


def write_file(path: Path, rows: int) -> int:
    """Write the file; return a number that exactly one row has."""
    scattered = np.random.default_rng(5).integers(0, 10**9, rows)
    arrays = [
        pa.array(np.arange(rows)),
        pa.array(scattered),
        pa.array(np.char.mod("text-%012d", scattered)),
    ]
    fields = [
        pa.field(name, array.type, metadata={"PARQUET:field_id": str(place)})
        for place, (name, array) in enumerate(zip(COLUMNS, arrays, strict=True))
    ]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    pq.write_table(
        table, path, compression="zstd", use_dictionary=False, row_group_size=500_000, write_page_index=True
    )
    return int(scattered[rows // 2])


def main() -> None:
    """Write, build, and print a line for each column."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t", "data.parquet")
        path.parent.mkdir()
        needle = write_file(path, rows)
        declared = [
            {"id": place, "name": name, "type": kind, "required": False}
            for place, (name, kind) in enumerate(COLUMNS.items())
        ]
        schema = parse_schema({"schema-id": 0, "type": "struct", "fields": declared})
        storage, settings = Storage(root=str(path.parent)), parse_options({}).settings
        place = index_place(storage, settings, "uuid")
        assert place is not None
        size = path.stat().st_size
        task = ScanTask(
            path=str(path), written_path=str(path), format="parquet", file_size=size, record_count=rows,
            start=0, length=size, sequence_number=1, spec_id=0,
        )  # fmt: skip

        def scan(predicate: Predicate, indexes: ScanIndexes | None, columns: tuple[str, ...]) -> Metrics:
            metrics = Metrics(clock=time.process_time_ns)
            context = ScanContext(
                scan_id="scan", table="t", snapshot_id=1, schema=schema, predicate=predicate, storage=storage,
                settings=settings, indexes=indexes,
                projection=tuple(field for field in schema.fields if field.name in columns),
            )  # fmt: skip
            for _ in read_group(TaskGroup(index=0, context=context, tasks=(task,)), metrics):
                pass
            return metrics

        for name, kind in KINDS.items():
            field = schema.find((name,))
            assert field is not None
            group = IndexGroup(columns=((field.id, (kind,)),))
            work_context = ScanContext(
                scan_id="b", table="t", snapshot_id=1, schema=schema, projection=(field,), predicate=TRUE,
                storage=storage, settings=settings,
            )  # fmt: skip
            built, read = [], []
            for _ in range(5):
                used = time.process_time()
                index_files(
                    IndexWork(
                        context=work_context, place=place, group=group, tasks=(task,),
                        lacks_index=(True,), lacks_keys=((),),
                    )
                )  # fmt: skip
                built.append(time.process_time() - used)
                used = time.process_time()
                scan(TRUE, None, (name,))
                read.append(time.process_time() - used)
            index_path = Path(place.index_file(group, task))
            assert index_path.stem == fingerprint.of_data_file(task)
            indexes = ScanIndexes(place=place, groups=(group,), table=TableIndexes())
            predicate = parse_filter(FILTERS[name].format(needle), schema)
            spent: dict[str, list[float]] = {"index": [], "no index": []}
            stage: dict[str, list[float]] = {"index": [], "no index": []}
            counted = {}
            for turn in range(TURNS):
                ways = {"index": indexes, "no index": None}
                for way in ways if turn % 2 else reversed(ways):
                    used = time.process_time()
                    metrics = scan(predicate, ways[way], ("id",))
                    spent[way].append(1e3 * (time.process_time() - used))
                    counted[way] = metrics.counters
                    stage[way].append(
                        sum(metrics.counters[f"time.{part}"] for part in ("prune", "filter")) / 1e6
                    )
            assert counted["index"]["rows.fetched"] == counted["no index"]["rows.fetched"] >= 1
            assert counted["index"]["indexes.used"] == 1
            print(
                json.dumps(
                    {
                        "column": f"{name}, {rows:,} rows, plain",
                        "kind": kind,
                        "index, bytes a row": round(index_path.stat().st_size / rows, 2),
                        "scan, CPU ms": {way: round(statistics.median(one), 2) for way, one in spent.items()},
                        "stage one, CPU ms": {
                            way: round(statistics.median(one), 2) for way, one in stage.items()
                        },
                        "bytes of stage one": {
                            way: one["bytes.filter"] + one["indexes.bytes_read"]
                            for way, one in counted.items()
                        },
                        "build, CPU ms": round(1e3 * statistics.median(built), 1),
                        "read, CPU ms": round(1e3 * statistics.median(read), 1),
                    }
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
