"""Delete files of known keys, and the answers of a scan that caches its key tables on the host."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from declared.types import Column
from scan_values import context_of, task_of, write_keys
from twostage.deletes.anti_join.load_key_sets import load_equality
from twostage.deletes.cache.host import SUFFIX
from twostage.deletes.cache.memory import CACHE
from twostage.metrics import Metrics

ROOT = Path(__file__).resolve().parents[2]
K, S = Column(1, "k", "long"), Column(2, "s", "string")


def files_of(folder, count, *, columns=(K,), size=20, start=0):
    ids = [column.id for column in columns]
    found = []
    for n in range(start, start + count):
        rows = [{1: n * size + i if i else None, 2: None if i == 3 else f"t{n}-{i}"} for i in range(size)]
        path = folder / f"d{n}.parquet"
        written = [{i: row[i] for i in ids} for row in rows]
        found.append(write_keys(path, columns, written, ids, sequence_number=n + 2, scope="global"))
    return found


def ask(folder, deletes, *, columns=(K,), planned=None, sequence=1, cache=None, clear=True, **changes):
    """Return which of some rows are deleted, and the counters."""
    if clear:
        CACHE.clear()
    metrics = Metrics()
    settings = {"delete_cache_dir": str(cache or folder / "cache"), **changes.pop("settings", {})}
    planned = tuple(deletes if planned is None else planned)
    context = context_of(folder, columns, settings=settings, equality_deletes=planned, **changes)
    found = load_equality(context, task_of(*deletes, sequence_number=sequence), metrics)
    rows = range(-10, 400)
    data = {1: pa.array([row if row % 7 else None for row in rows], pa.int64())}
    data[2] = pa.array([f"t{row // 20}-{row % 20}" for row in rows])
    return found.deleted({i: data[i] for i in found.field_ids}, len(rows)).tolist(), metrics


def right(folder, deletes, **more):
    """The same without any cache."""
    return ask(folder, deletes, **{**more, "settings": {"delete_cache": "worker"}})[0]


def stored(folder):
    return sorted(path for path in (folder / "cache").iterdir() if path.name.endswith(SUFFIX))


def read_back(path, number):
    from scan_values import delete_of

    return delete_of(
        path, "equality", equality_ids=(1,), record_count=20, sequence_number=number + 2, scope="global"
    )
