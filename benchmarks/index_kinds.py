"""Which kind of index suits a column of many values: size, build cost and savings; one data file, no Spark.

    make bench-index-kinds BENCH="[rows] [a part of a column's name …]"

Takes a number of rows; writes a file for each of a dozen columns (equally frequent values, values by Zipf's law, numbers without
a dictionary) and builds each kind of index. For a frequent value, a rare one and ranges of several widths it
prints the median CPU milliseconds and the bytes of stage one, without an index and with each; and what
``--kind auto`` chooses for the column.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("TWOSTAGE_JIT", "always")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twostage.indexes.kinds.registered import KINDS
from twostage.indexes.of_scan import ScanIndexes
from twostage.indexes.place import IndexGroup, TableIndexes, index_place
from twostage.maintenance.index_choice import choose_kinds, profile_columns
from twostage.maintenance.index_files import IndexWork, index_files
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.predicates.predicate import TRUE, Predicate
from twostage.predicates.sql_filter import parse_filter
from twostage.reading.pipeline import read_group
from twostage.schema import Schema, parse_schema
from twostage.task import ScanContext, ScanTask, Storage, TaskGroup

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Ids = np.ndarray[Any, np.dtype[Any]]

ROWS = 1_000_000
TURNS = 5
SHARES = (0.001, 0.01, 0.05, 0.2, 0.5)
SETTINGS = parse_options({}).settings
_DRAWN = np.random.default_rng(5)


def _alike(values: int) -> Callable[[int], Ids]:
    return lambda rows: _DRAWN.integers(0, values, rows)


def _zipf(values: int, power: float) -> Callable[[int], Ids]:
    weights = 1.0 / np.arange(1, values + 1) ** power
    return lambda rows: _DRAWN.permutation(7 * values)[_DRAWN.choice(values, rows, p=weights / weights.sum())]


def _text(numbers: Callable[[int], Ids]) -> Callable[[int], Ids]:
    return lambda rows: np.char.mod("name-%07d", numbers(rows))


COLUMNS: dict[str, tuple[str, Callable[[int], Ids]]] = {
    "2,000 numbers, alike": ("long", _alike(2_000)),
    "10,000 numbers, alike": ("long", _alike(10_000)),
    "50,000 numbers, alike": ("long", _alike(50_000)),
    "200,000 numbers, alike": ("long", _alike(200_000)),
    "5,000 numbers, Zipf 1.1": ("long", _zipf(5_000, 1.1)),
    "50,000 numbers, Zipf 1.1": ("long", _zipf(50_000, 1.1)),
    "50,000 numbers, Zipf 1.5": ("long", _zipf(50_000, 1.5)),
    "5,000 texts, Zipf 1.1": ("string", _text(_zipf(5_000, 1.1))),
    "50,000 texts, Zipf 1.1": ("string", _text(_zipf(50_000, 1.1))),
    "50,000 texts, alike": ("string", _text(_alike(50_000))),
    "numbers below 10^9": ("long", _alike(10**9)),
    "microseconds of a year": ("long", _alike(365 * 86_400 * 10**6)),
    "double": ("double", lambda rows: _DRAWN.normal(0, 1e3, rows)),
}


@dataclass(frozen=True)
class Measured:
    """One data file with the columns `id` and `v`."""

    schema: Schema
    storage: Storage
    task: ScanTask

    @staticmethod
    def write(folder: Path, values: Ids, kind: str) -> Measured:
        """Write the file."""
        path = folder / "t" / "data.parquet"
        path.parent.mkdir()
        types = {"id": "long", "v": kind}
        arrays = [pa.array(np.arange(len(values))), pa.array(values)]
        fields = [
            pa.field(name, array.type, metadata={"PARQUET:field_id": str(place)})
            for place, (name, array) in enumerate(zip(types, arrays, strict=True))
        ]
        table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        pq.write_table(table, path, compression="zstd", row_group_size=500_000, write_page_index=True)
        declared = [
            {"id": place, "name": name, "type": one, "required": False}
            for place, (name, one) in enumerate(types.items())
        ]
        schema = parse_schema({"schema-id": 0, "type": "struct", "fields": declared})
        size = path.stat().st_size
        task = ScanTask(
            path=str(path), written_path=str(path), format="parquet", file_size=size, record_count=len(values),
            start=0, length=size, sequence_number=1, spec_id=0,
        )  # fmt: skip
        return Measured(schema, Storage(root=str(path.parent)), task)

    def context(self, predicate: Predicate, indexes: ScanIndexes | None, column: str) -> ScanContext:
        """Return a scan of one column."""
        return ScanContext(
            scan_id="scan", table="t", snapshot_id=1, schema=self.schema, predicate=predicate, storage=self.storage,
            settings=SETTINGS, indexes=indexes,
            projection=tuple(field for field in self.schema.fields if field.name == column),
        )  # fmt: skip

    def stage_one(self, text: str, indexes: ScanIndexes | None) -> tuple[str, int]:
        """Return what stage one took, and how many rows it left."""
        spent = []
        for _ in range(TURNS):
            metrics = Metrics(clock=time.process_time_ns)
            context = self.context(parse_filter(text, self.schema), indexes, "id")
            for _ in read_group(TaskGroup(index=0, context=context, tasks=(self.task,)), metrics):
                pass
            spent.append((metrics.counters["time.prune"] + metrics.counters["time.filter"]) / 1e6)
        counted = metrics.counters
        if indexes is not None and not counted["indexes.used"]:
            return "not asked", counted["rows.fetched"]
        nbytes = counted["bytes.filter"] + counted["indexes.bytes_read"]
        return f"{statistics.median(spent):.1f} ms, {nbytes / 1e3:,.0f} kB", counted["rows.fetched"]

    def build(self, kind: str) -> tuple[ScanIndexes, int, float]:
        """Return an index of `v`, its bytes, and the fastest of three builds in CPU milliseconds."""
        place = index_place(self.storage, SETTINGS, "uuid")
        assert place is not None
        group = IndexGroup(columns=((1, (kind,)),))
        work = IndexWork(
            context=self.context(TRUE, None, "v"), place=place, group=group, tasks=(self.task,),
            lacks_index=(True,), lacks_keys=((),),
        )  # fmt: skip
        built = []
        for _ in range(3):
            used = time.process_time()
            index_files(work)
            built.append(1e3 * (time.process_time() - used))
        size = Path(place.index_file(group, self.task)).stat().st_size
        return ScanIndexes(place=place, groups=(group,), table=TableIndexes()), size, min(built)


def filters_of(values: Ids) -> dict[str, str]:
    """Return the filters, by what they match."""
    distinct, counts = np.unique(values, return_counts=True)
    ordered = np.sort(values)

    def literal(value: Any) -> str:
        return f"'{value}'" if isinstance(value, str) else repr(value)

    found = {
        "= frequent": f"v = {literal(distinct[counts.argmax()].item())}",
        "= rare": f"v = {literal(distinct[counts.argmin()].item())}",
    }
    for share in SHARES:
        low, high = (ordered[int(len(ordered) * one)].item() for one in (0.4, 0.4 + share))
        found[f"{share:.1%}"] = f"v >= {literal(low)} AND v < {literal(high)}"
    return found


def measure(name: str, rows: int) -> None:
    """Print a line for the column, and one for each kind."""
    kind, draw = COLUMNS[name]
    values = draw(rows)
    with tempfile.TemporaryDirectory() as folder:
        measured = Measured.write(Path(folder), values, kind)
        sample = profile_columns(measured.context(TRUE, None, "id"), [measured.task], [1])
        (choice,) = choose_kinds(sample, [1], 10**12)
        filters = filters_of(values)
        without = {label: measured.stage_one(text, None) for label, text in filters.items()}
        print(json.dumps({"column": name, "auto": choice.reason, **{k: v for k, (v, _) in without.items()}}), flush=True)  # fmt: skip
        for one in ("values", "postings", "sorted", "bins", "slices"):
            if KINDS[one].refuses(sample[1].profile.type) is not None:
                continue
            indexes, size, built = measured.build(one)
            found = {label: measured.stage_one(text, indexes) for label, text in filters.items()}
            assert all(found[label][1] == left for label, (_, left) in without.items())
            line = {
                "kind": one,
                "bytes a row": round(size / rows, 2),
                "estimated": round(KINDS[one].estimate(sample[1].profile) / rows, 2),
                "build, CPU ms": round(built),
            }
            print(json.dumps({**line, **{k: v for k, (v, _) in found.items()}}), flush=True)


def main() -> None:
    """Measure the columns that are named, or all."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    pa.set_cpu_count(1)
    for name in COLUMNS:
        if len(sys.argv) < 3 or any(part in name for part in sys.argv[2:]):
            measure(name, rows)


if __name__ == "__main__":
    main()
