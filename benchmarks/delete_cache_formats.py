"""The host cache's own file format and locks against libraries: Arrow IPC, `filelock`.

Stores key sets of 1 M keys both ways, and takes locks both ways; prints milliseconds of CPU and wall time,
and bytes. The docstrings of `deletes/cache/file_format.py` and `deletes/cache/host.py` have the verdict.
`filelock` is not a dependency: install it to measure it.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from delete_parts import names_of
from rich.console import Console
from rich.table import Table

from twostage.deletes.cache.host import HostCache
from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.encoding import encode_column, group_by_nulls
from twostage.deletes.keys.key_set import KeySet
from twostage.metrics import Metrics
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

KEYS = 1_000_000
LOCKS = 200
REPEATS = 9


def milliseconds(work: Callable[[], Any]) -> tuple[str, str]:
    """Return the shortest CPU and wall time of some runs."""
    cpu, wall = [], []
    for _ in range(REPEATS):
        started, started_cpu = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - started_cpu)
    return f"{min(cpu) * 1e3:.2f}", f"{min(wall) * 1e3:.2f}"


def key_set(kind: str) -> KeySet:
    """Return a hash table of a million keys of a type."""
    keys = KeySet(Budget(2**31, lambda: 0), kernels=True, dense=False)
    numbers = np.arange(KEYS, dtype=np.int64) * 2_147_483_647 % 2**40
    column = encode_column(pa.array(numbers) if kind == "long" else names_of(numbers), Primitive(kind))
    keys.insert(group_by_nulls([column], KEYS), 5, KEYS)
    return keys


def write_ipc(path: str, values: dict[str, Any], arrays: list[NDArray[Any]]) -> None:
    """Write arrays as one row of lists."""
    flat = [pa.array(np.ascontiguousarray(array).reshape(-1)) for array in arrays]
    columns = [pa.LargeListArray.from_arrays(pa.array([0, len(one)], pa.int64()), one) for one in flat]
    fields = [pa.field(str(number), column.type) for number, column in enumerate(columns)]
    schema = pa.schema(fields, metadata={"values": json.dumps(values)})
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))


def read_ipc(path: str, *, is_checked: bool) -> list[NDArray[Any]]:
    """Map a file of `write_ipc`."""
    with pa.memory_map(path) as file:
        reader = pa.ipc.open_file(file)
        json.loads(reader.schema.metadata[b"values"])
        arrays = [column.flatten().to_numpy() for column in reader.get_batch(0).columns]
    if is_checked:
        for array in arrays:
            zlib.crc32(array)
    return arrays


def lock_own(cache: HostCache) -> None:
    for _ in range(LOCKS):
        with cache.exclusive("keys-x"):
            pass


def lock_by_library(path: str) -> None:
    filelock = importlib.import_module("filelock")
    lock = filelock.FileLock(path, mode=0o600)
    for _ in range(LOCKS):
        with lock.acquire(timeout=60, poll_interval=0.02):
            pass


def main() -> None:
    """Measure and print."""
    shown = Table("what", "CPU, ms", "wall, ms", "bytes")
    with tempfile.TemporaryDirectory() as folder:
        cache, path = HostCache(Path(folder), 2**33, Metrics()), f"{folder}/keys.arrow"
        name = "keys-x.twostage"
        for kind in ("long", "string"):
            values, arrays = key_set(kind).take_apart()
            plain = {"set": values}
            written = milliseconds(partial(cache.save, name, "keys", plain, arrays))
            shown.add_row(f"{kind}: write, own", *written, f"{cache.size_of(name):,}")
            shown.add_row(f"{kind}: map checked, own", *milliseconds(partial(cache.load, name, "keys")))
            unchecked = partial(cache.load, name, "keys", is_verified=True)
            shown.add_row(f"{kind}: map unchecked, own", *milliseconds(unchecked))
            written = milliseconds(partial(write_ipc, path, plain, arrays))
            shown.add_row(f"{kind}: write, Arrow IPC", *written, f"{Path(path).stat().st_size:,}")
            for is_checked in (True, False):
                how = "with our CRC-32" if is_checked else "unchecked"
                measured = milliseconds(partial(read_ipc, path, is_checked=is_checked))
                shown.add_row(f"{kind}: map {how}, Arrow IPC", *measured)
        shown.add_row(f"{LOCKS} locks, own", *milliseconds(partial(lock_own, cache)))
        if importlib.util.find_spec("filelock") is not None:
            shown.add_row(
                f"{LOCKS} locks, filelock", *milliseconds(partial(lock_by_library, f"{folder}/x.lock"))
            )
            program = "import time; s = time.process_time(); import filelock; print(1e3 * (time.process_time() - s))"
            found = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=True
            )
            shown.add_row("import filelock", f"{float(found.stdout):.2f}")
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
