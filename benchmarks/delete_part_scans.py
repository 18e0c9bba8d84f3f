"""The scans of `delete_parts`: one data file and its delete files, read in this process by the core alone."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

IDS = {"id": 1, "name": 2, "customer": 3, "amount": 4, "batch": 5, "region": 6}
KINDS = {1: "long", 2: "string", 3: "long", 4: "double", 5: "long", 6: "string"}


@dataclass(frozen=True)
class Part:
    """One optimisation: the scan that shows it, and how it is switched off.

    Attributes:
        name: As the modules of `twostage.deletes` name it.
        deletes: The set of delete files.
        columns: The selected columns.
        settings: Settings of both scans, by the names of `ReadSettings`.
        off: Settings of the scan without it.
        patch: Constants of the scan without it: module, name and value.
        how: What is switched off, for the reader.
        needles: Queries for few rows, one after another; 0: one full scan.
        mode: ``cold``: the process has not seen the deletes. ``again``: the scan has run before, with the
            keys kept or, without the optimisation, forgotten. ``host``: another process has run it.
        is_threaded: Whether only the CPU seconds of the busier of two threads count.
    """

    name: str
    deletes: str
    columns: tuple[str, ...]
    how: str
    settings: dict[str, Any] = field(default_factory=dict)
    off: dict[str, Any] = field(default_factory=dict)
    patch: tuple[tuple[str, str, Any], ...] = ()
    needles: int = 0
    mode: str = "cold"
    is_threaded: bool = False


def no_values(*_: Any) -> None:
    """Replaces the function that lists the values that bounds leave."""


def deletes_of(folder: Path, kind: str) -> tuple[Any, ...]:
    """Return the delete files of a kind as planning returns them."""
    from twostage.predicates.bounds import Bounds  # noqa: PLC0415 - in the process that measures
    from twostage.task import DeleteFile  # noqa: PLC0415

    found = []
    for number, path in enumerate(sorted((folder / kind).iterdir())):
        table = pq.read_table(path)
        bounds = {}
        for name in table.column_names:
            known = pc.min_max(table[name]).as_py()
            bounds[IDS[name]] = Bounds(lower=known["min"], upper=known["max"], null_count=0)
        found.append(
            DeleteFile(
                content="equality",
                format="parquet",
                path=str(path),
                written_path=str(path),
                file_size=path.stat().st_size,
                record_count=table.num_rows,
                sequence_number=number + 2,
                equality_ids=tuple(IDS[name] for name in table.column_names),
                scope="one region" if kind == "of one region" else "global",
                keys=bounds,
            )
        )
    return tuple(found)


def run(folder: str, part: Part, cache: str, *, is_on: bool) -> dict[str, Any]:
    """Run a part's scan in this process; return seconds, peak memory and the number of rows."""
    from twostage.deletes.cache.memory import CACHE  # noqa: PLC0415

    if not is_on:
        for module, name, value in part.patch:
            found = importlib.import_module(module)
            getattr(found, name)  # fails if it has been renamed
            setattr(found, name, value)
    settings = {
        "delete_cache": "worker",
        "delete_cache_dir": cache,
        **part.settings,
        **({} if is_on else part.off),
    }
    deletes = deletes_of(Path(folder), part.deletes)
    _scan(
        folder, replace(part, columns=("customer",)), (), settings, number=0
    )  # imports are not in the figures
    if part.mode == "again":
        _scan(folder, part, deletes, settings, number=0)
        if not is_on:
            CACHE.clear()
    _reset_peak()
    started, started_here = time.process_time(), time.thread_time()
    rows = [_scan(folder, part, deletes, settings, number) for number in range(max(1, part.needles))]
    seconds, here = time.process_time() - started, time.thread_time() - started_here
    if part.is_threaded:
        seconds = max(here, seconds - here)
    return {"seconds": seconds, "rows": rows, "peak": _peak()}


def _scan(folder: str, part: Part, deletes: tuple[Any, ...], settings: dict[str, Any], number: int) -> int:
    from twostage.metrics import Metrics  # noqa: PLC0415
    from twostage.options import ReadSettings  # noqa: PLC0415
    from twostage.predicates.predicate import TRUE, Column, Compare  # noqa: PLC0415
    from twostage.reading.pipeline import read_group  # noqa: PLC0415
    from twostage.schema import parse_schema  # noqa: PLC0415
    from twostage.task import ScanContext, ScanTask, Storage, TaskGroup  # noqa: PLC0415

    path = Path(folder, "data.parquet")
    schema = parse_schema(
        {
            "schema-id": 0,
            "fields": [
                {"id": one, "name": name, "type": KINDS[one], "required": False} for name, one in IDS.items()
            ],
        }
    )
    customer = schema.field(IDS["customer"])
    predicate: Any = TRUE
    if part.needles:
        predicate = Compare("=", Column(customer.id, ("customer",), customer.type), 4711 + number)
    context = ScanContext(
        scan_id="bench",
        table="bench",
        snapshot_id=1,
        schema=schema,
        projection=tuple(schema.field(IDS[name]) for name in part.columns),
        predicate=predicate,
        equality_deletes=deletes,
        storage=Storage(root=folder),
        settings=ReadSettings(**settings),
    )
    size = path.stat().st_size
    task = ScanTask(
        path=str(path),
        written_path=str(path),
        format="parquet",
        file_size=size,
        record_count=pq.read_metadata(path).num_rows,
        start=0,
        length=size,
        sequence_number=1,
        spec_id=0,
        constants={IDS["region"]: "north"},
        deletes=deletes,
    )
    group = TaskGroup(index=0, context=context, tasks=(task,))
    return sum(batch.num_rows for batch in read_group(group, Metrics()))


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float:
    """Return the peak memory since `_reset_peak`, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise AssertionError("/proc/self/status tells no VmHWM")
