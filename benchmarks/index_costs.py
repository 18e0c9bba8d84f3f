"""What indexes cost and gain, without Spark: building, sizes, look-ups in one data file and among many.

    python benchmarks/index_costs.py columns [rows]
    python benchmarks/index_costs.py files [data files]

`columns`: for columns of several kinds, the column's bytes in Parquet, and for each kind of index its bytes
    per row, CPU seconds to build compared with reading the column, and what one answer reads and takes.
    `files`: a table-wide index of random keys, each in three data files: bytes per pair, and what a look-up
    of one key and of a thousand reads.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "connector"), str(ROOT / "native")]

from twostage.deletes.cache.memory import CACHE  # noqa: E402
from twostage.indexes.build import build_index, describe  # noqa: E402
from twostage.indexes.data_file_index import DataFileIndex  # noqa: E402
from twostage.indexes.file_key_runs import RunBuilder  # noqa: E402
from twostage.indexes.file_keys import ScannedFiles, file_key, find_files  # noqa: E402
from twostage.indexes.kinds.registered import KINDS  # noqa: E402
from twostage.indexes.place import index_place, list_indexes  # noqa: E402
from twostage.indexes.puffin import read_footer  # noqa: E402
from twostage.metrics import Metrics  # noqa: E402
from twostage.options import ReadSettings  # noqa: E402
from twostage.predicates.predicate import Column, Compare, In  # noqa: E402
from twostage.schema import Primitive  # noqa: E402
from twostage.task import ScanTask, Storage  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

BUDGET = 512 * 2**20
REPEATS = 5


@dataclass
class Values:
    """An array as a column of a data file."""

    array: pa.Array
    type: Primitive
    field_id: int = 1

    @property
    def num_rows(self) -> int:
        return len(self.array)

    def chunks(self) -> Iterator[pa.Array]:
        for start in range(0, len(self.array), 65_536):
            yield self.array.slice(start, 65_536)


def columns(rows: int) -> dict[str, tuple[pa.Array, str]]:
    """Return columns like those measured for the design."""
    drawn = np.random.default_rng(7)
    users = drawn.integers(0, 200_000, rows)
    words = np.array([f"{n:08x}" for n in range(5_000)])
    return {
        "country (8 values)": (pa.array(np.array(["de", "fr", "us", "uk", "in", "br", "jp", "cn"])[drawn.integers(0, 8, rows)]), "string"),
        "i0 (1,000 values)": (pa.array(drawn.integers(0, 1_000, rows)), "long"),
        "user_id (200,000 values)": (pa.array(users), "long"),
        "device_id (text, 200,000 values)": (pa.array(np.char.add("device-", users.astype(str))), "string"),
        "payload (text of 100 bytes, unique)": (pa.array(np.char.add(np.char.add(np.tile("x" * 80, rows), np.arange(rows).astype(str)), words[drawn.integers(0, 5_000, rows)])), "string"),
        "d0 (double)": (pa.array(drawn.normal(0, 1e3, rows)), "double"),
    }  # fmt: skip


def measure_columns(rows: int) -> None:
    """Print a line for each column and kind."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (given, kind) in columns(rows).items():
            array = pa.concat_arrays(given.chunks) if isinstance(given, pa.ChunkedArray) else given
            parquet = Path(folder, "column.parquet")
            pq.write_table(pa.table({"x": array}), parquet, compression="zstd")
            started = time.process_time()
            pq.read_table(parquet, use_threads=False)
            read = time.process_time() - started
            values = Values(array, Primitive(kind))
            for one in KINDS:
                if KINDS[one].refuses(values.type) is not None:
                    continue
                if one == "values" and rows > 100 * 1_000 and len(array.unique()) > 10_000:
                    continue
                path = Path(folder, f"{one}.puffin")
                properties = describe("f", "/x", rows, 1, b"")
                started = time.process_time()
                built = build_index(Storage(root=folder), str(path), [(values, (one,))], properties, BUDGET)
                spent = time.process_time() - started
                line = {
                    "column": name,
                    "kind": one,
                    "column MB": round(parquet.stat().st_size / 1e6, 2),
                    "index MB": round(built.nbytes / 1e6, 2),
                    "bytes a row": round(built.nbytes / rows, 2),
                    "read column, CPU s": round(read, 3),
                    "build, CPU s": round(spent, 3),
                }
                line |= look_up(path, array, kind)
                print(json.dumps(line), flush=True)


def look_up(path: Path, array: pa.Array, kind: str) -> dict[str, object]:
    """Return what a point and a range read, including opening, and the shortest CPU time of a few runs."""
    found: dict[str, object] = {}
    column = Column(1, ("x",), Primitive(kind))
    value = array[len(array) // 2].as_py()
    for label, leaf in (("=", Compare("=", column, value)), ("<", Compare("<", column, value))):
        best = float("inf")
        for _ in range(REPEATS):
            started = time.process_time()
            with pa.OSFile(str(path)) as file:
                footer, opening = read_footer(file)
            answer = DataFileIndex(Storage(root=str(path.parent)), str(path), footer).find(leaf, Metrics())
            best = min(best, time.process_time() - started)
        if answer is not None:
            cost = opening + answer.cost
            found[label] = f"{answer.certainty}: {len(answer.possible):,} rows ({len(answer.unsure):,} to check), {cost.requests} reads, {cost.nbytes / 1e3:,.0f} kB, {best * 1e3:.2f} ms"  # fmt: skip
    return found


def measure_files(count: int) -> None:
    """Print what a table-wide index over `count` data files of 5,000 keys costs, and what look-ups read."""
    drawn = np.random.default_rng(11)
    keys = 5_000 if count <= 10_000 else 1_000
    universe = drawn.integers(0, 2**62, count * keys // 3)
    column = Column(1, ("key",), Primitive("long"))
    from twostage.indexes.keys import hash_values  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        place = index_place(Storage(root=f"{folder}/t"), ReadSettings(), "uuid")
        assert place is not None
        builder = RunBuilder(1, Primitive("long"), Path(folder), BUDGET, count, count * keys)
        truth: dict[int, int] = {}
        spent, pairs = 0.0, 0
        asked = universe[:1_000].tolist()
        tasks = sorted(file_key(task(number)) for number in range(count))
        scanned = ScannedFiles.of(tasks)
        for key in tasks:
            own = np.unique(universe[drawn.integers(0, len(universe), keys)])
            pairs += len(own)
            started = time.process_time()
            builder.begin(key)
            builder.add(hash_values(pa.array(own)))
            spent += time.process_time() - started
            for held in np.intersect1d(own, universe[:1_000]).tolist():
                truth[held] = truth.get(held, 0) + 1
        started = time.process_time()
        name = builder.publish(place)
        spent += time.process_time() - started
        size = Path(place.path(name)).stat().st_size
        print(json.dumps({"data files": count, "pairs": pairs, "MB": round(size / 1e6, 1), "bytes a pair": round(size / pairs, 2), "build, M pairs a CPU second": round(pairs / spent / 1e6, 2)}), flush=True)  # fmt: skip
        indexes = list_indexes(place, Metrics())
        for label, leaf in (
            ("1 key, first", Compare("=", column, asked[0])),
            ("1 key, again", Compare("=", column, asked[1])),
            ("1,000 keys", In(column, tuple(dict.fromkeys(asked)))),
        ):
            if label.endswith("first"):
                CACHE.clear()
            started = time.process_time()
            answer = find_files(place, indexes, leaf, Metrics(), BUDGET, scanned)
            took = time.process_time() - started
            assert answer is not None
            expected = sum(
                truth.get(key, 0) for key in ([leaf.value] if isinstance(leaf, Compare) else leaf.values)
            )
            print(json.dumps({label: f"{answer.cost.requests} reads, {answer.cost.nbytes / 1e3:,.0f} kB, {took * 1e3:.2f} ms, {len(answer.holding)} data files of {expected} pairs"}), flush=True)  # fmt: skip


def task(number: int) -> ScanTask:
    """Return a data file's task."""
    path = f"s3://lake/t/data/{number:06d}.parquet"
    return ScanTask(written_path=path, path=path, record_count=1, format="parquet", file_size=1, start=0, length=1, sequence_number=1, spec_id=0)  # fmt: skip


if __name__ == "__main__":
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if sys.argv[1:2] == ["files"]:
        measure_files(number or 2_000)
    else:
        measure_columns(number or 1_000_000)
