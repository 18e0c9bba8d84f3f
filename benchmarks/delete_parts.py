"""What each optimisation of equality deletes gains: the same scan with it and without it, through the core alone.

Writes one data file (4 row groups, page indexes) and delete files of several kinds with pyarrow; reads them
in a new process each time, without Spark, first with an optimisation and then with it switched off: by its
option, or if it has none, by the constant that controls it. Prints and returns CPU seconds, the best of some
runs, and peak memory. Decoding ahead takes no less CPU, but two threads share it: for that part, CPU seconds
of the busier one count. Both scans must return the same rows, or it fails.

``make bench PAGES=equality-deletes`` runs it after the other engines; ``python benchmarks/delete_parts.py`` alone.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from delete_core import apart
from delete_part_scans import IDS, Part, no_values, run
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ROWS = 4_000_000
FILES = 100
PRIME = 2_147_483_647
"""Multiplier, modulo twice the rows: gives every number once, scattered; half of them are ids of rows."""
BATCHES = 100
"""Distinct values of the column that orders the rows."""
NEEDLES = 24
"""Consecutive queries that each find few rows: each decides whether to stream or to load."""


_NO_DOMAINS = tuple(
    ("twostage.deletes.keys.key_domains", name, 0)
    for name in ("MAX_KEYS_PER_ROW_TO_SORT", "MAX_SLOTS_PER_ROW_TO_SCAN")
)
_NO_LOOKUPS = (("twostage.deletes.pruning.page_proofs", "_possible", no_values),)
_LOAD = {"stream_deletes": "never"}
PARTS = (
    Part("direct table", "scattered", ("amount",), "deletes.dense=false", _LOAD, {"dense_keys": False}),
    Part(
        "prefilter",
        "few names",
        ("amount",),
        "no prefilter is built",
        _LOAD,
        patch=(("twostage.deletes.keys.prefilter", "MAX_KEYS", 0),),
    ),
    Part(
        "bounds of delete files",
        "recent",
        ("amount",),
        "prune.deletes=false",
        _LOAD,
        {"prune_deletes": False},
    ),
    Part("page proofs", "recent", ("amount",), "prune.pages=false", _LOAD, {"prune_pages": False}),
    Part("intervals of keys", "two ends", ("amount",), "no intervals are found", _LOAD, patch=_NO_DOMAINS),
    Part(
        "lookups of bounded values",
        "half of the batches",
        ("amount",),
        "rows are probed",
        _LOAD,
        patch=_NO_LOOKUPS,
    ),
    Part("redundant keys", "covered", ("amount",), "deletes.simplify=false", _LOAD, {"simplify_keys": False}),
    Part(
        "keys without partition columns",
        "of one region",
        ("amount",),
        "deletes.simplify=false",
        _LOAD,
        {"simplify_keys": False},
    ),
    Part("worker's memory", "names", ("amount",), "keys are forgotten", _LOAD, mode="again"),
    Part(
        "host's cache",
        "names",
        ("amount",),
        "deletes.cache=worker",
        {**_LOAD, "delete_cache": "host"},
        {"delete_cache": "worker"},
        mode="host",
    ),
    Part("streaming", "names", ("amount",), "deletes.stream=never", {}, _LOAD, needles=1),
    Part(
        "rent or buy",
        "names",
        ("amount",),
        "deletes.stream=always",
        {},
        {"stream_deletes": "always"},
        needles=NEEDLES,
    ),
    Part(
        "values of remaining rows",
        "two columns",
        ("amount",),
        "no values are listed",
        {"stream_deletes": "always"},
        patch=(("twostage.deletes.anti_join.listed_values", "MAX_LISTED_VALUES", -1),),
        needles=1,
    ),
    Part(
        "decoding ahead",
        "names",
        ("amount",),
        "io.prefetch=false",
        _LOAD,
        {"prefetch": False},
        is_threaded=True,
    ),
)
HEADINGS = (
    "part",
    "deletes",
    "query",
    "with",
    "without",
    "ratio",
    "MiB with",
    "MiB without",
    "switched off by",
)


def names_of(ids: NDArray[np.int64]) -> pa.Array:
    """Return the name of each row: 16 letters."""
    digits = pc.utf8_lpad(pa.array(ids).cast(pa.string()), 10, "0")
    return pc.binary_join_element_wise("order-", digits, "")


def rows_of(ids: NDArray[np.int64], rows: int) -> dict[str, pa.Array]:
    """Return the columns of rows, or keys, with these ids."""
    return {
        "id": pa.array(ids),
        "name": names_of(ids),
        "customer": pa.array(ids * PRIME % max(1, rows // 4)),
        "amount": pa.array((ids * PRIME % 1_000_003).astype(np.float64) / 100),
        "batch": pa.array(ids * BATCHES // rows),
        "region": pa.array(np.full(len(ids), "north")).cast(pa.string()),
    }


def write(path: Path, columns: dict[str, pa.Array], row_group_rows: int) -> None:
    """Write columns with their field ids, and page indexes."""
    fields = [
        pa.field(name, array.type, metadata={"PARQUET:field_id": str(IDS[name])})
        for name, array in columns.items()
    ]
    table = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
    pq.write_table(table, path, row_group_size=row_group_rows, write_page_index=True, compression="zstd")


def key_ids(kind: str, rows: int) -> list[tuple[tuple[str, ...], NDArray[np.int64]]]:
    """Return the key columns, and the ids of the keys, of each delete file of a kind."""
    each = max(1, rows // 2 // FILES)
    numbers = [np.arange(number * each, (number + 1) * each, dtype=np.int64) for number in range(FILES)]
    scattered = [(part * PRIME + 11) % (2 * rows) for part in numbers]
    match kind:
        case "scattered":
            return [(("id",), part) for part in scattered]
        case "names":
            return [(("name",), part) for part in scattered]
        case "few names":
            return [(("name",), np.concatenate(scattered)[: max(1, rows // 80)])]
        case "two columns":
            return [(("id", "name"), part) for part in scattered]
        case "of one region":
            return [(("id", "region"), part) for part in scattered]
        case "recent":
            return [(("id", "name"), rows - rows // 8 + part // 8) for part in numbers]
        case "two ends":
            few = rows // 40 // FILES
            starts = [np.arange(number * few, (number + 1) * few, dtype=np.int64) for number in range(FILES)]
            return [(("id", "name"), np.concatenate([part, rows - 1 - part])) for part in starts]
        case "half of the batches":
            return [(("batch",), np.arange(0, rows, max(1, 2 * rows // BATCHES), dtype=np.int64))]
        case "covered":
            customers = np.arange(0, max(1, rows // 4), dtype=np.int64)
            return [*((("id", "customer"), part % rows) for part in scattered), (("customer",), customers)]
    raise ValueError(kind)


def make(folder: Path, rows: int) -> None:
    """Write the data file, and the delete files of every kind."""
    write(folder / "data.parquet", rows_of(np.arange(rows, dtype=np.int64), rows), max(1, rows // 4))
    for kind in dict.fromkeys(part.deletes for part in PARTS):
        (folder / kind).mkdir()
        for number, (names, ids) in enumerate(key_ids(kind, rows)):
            columns = rows_of(ids, rows)
            write(folder / kind / f"{number:03d}.parquet", {name: columns[name] for name in names}, 1_000_000)


def measure_parts(rows: int, repeats: int, only: Callable[[str], bool] = lambda _: True) -> dict[str, Any]:
    """Measure every part with and without it, in turn; return the best of some runs."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), rows)
        for part in PARTS:
            if not only(part.name):
                continue
            runs: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
            for _ in range(repeats):
                for is_on, done in runs.items():
                    with tempfile.TemporaryDirectory() as cache:
                        if part.mode == "host":
                            apart(_run_on, folder, part, cache)
                        done.append(apart(_run_on if is_on else _run_off, folder, part, cache))
            if len({str(one["rows"]) for done in runs.values() for one in done}) > 1:
                raise AssertionError(f"{part.name}: the numbers of rows differ")
            best = {is_on: min(done, key=lambda one: one["seconds"]) for is_on, done in runs.items()}
            query = f"{part.needles} x needle" if part.needles else "full scan"
            peaks = [min(one["peak"] for one in runs[is_on]) for is_on in (True, False)]
            lines.append(
                [
                    part.name,
                    part.deletes,
                    query + (", busier thread" if part.is_threaded else ""),
                    f"{best[True]['seconds']:.2f}",
                    f"{best[False]['seconds']:.2f}",
                    f"{best[False]['seconds'] / best[True]['seconds']:.2f}",
                    *(f"{peak:,.0f}" for peak in peaks),
                    part.how,
                ]
            )
            Console(width=160).print("  ", *lines[-1], markup=False)
    return {"rows": rows, "files": FILES, "repeats": repeats, "columns": list(HEADINGS), "lines": lines}


def _run_on(folder: str, part: Part, cache: str) -> dict[str, Any]:
    return run(folder, part, cache, is_on=True)


def _run_off(folder: str, part: Part, cache: str) -> dict[str, Any]:
    return run(folder, part, cache, is_on=False)


def main() -> None:
    """Measure and print; with ``--json`` also write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--parts", help="only parts whose names this pattern finds")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    figures = measure_parts(
        arguments.rows, arguments.repeats, lambda name: re.search(arguments.parts or "", name) is not None
    )
    shown = Table(*HEADINGS)
    for line in figures["lines"]:
        shown.add_row(*line)
    Console(width=160).print(shown)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
