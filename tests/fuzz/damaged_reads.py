"""One case of the fuzzer, in the child process: damage a file of a small table, read the table, classify.

Takes a request: the ``folder`` for tables, the table's seed, the case's, ``mode`` (``mutation`` or ``flip``), the kind
of file, and ``verify`` (false: read without page checksums). Gives the class of what came of it: the right rows, a
typed error that names file and stage, other rows where no checksum covers the change, or one of the failures. Damage to
an index is never an error: the rows are right, and where the damage was met, there is one warning (`IGNORED`). An index
whose sizes were changed and whose checksum was made anew may also give other rows: whoever writes indexes decides that.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexed_small_tables import INDEX_KINDS, asks_index, index_small_table

import oracle
from core_scan import open_table, scan
from indexed_tables import everything_pays
from mutations import changed_places, damage, flip, reseal
from random_queries import Query, random_query
from small_tables import SmallTable, small_table
from twostage.data_files import orc_file, parquet_footers
from twostage.deletes.cache.memory import CACHE
from twostage.errors import InternalError, ResourceLimitError, TwoStageError
from twostage.indexes import file_stamp
from twostage.indexes.place import FOLDER
from twostage.option_table import OPTIONS
from twostage.option_values import boolean
from twostage.options import _SETTINGS, OPTION_NAMES
from twostage.predicates.predicate import TRUE
from twostage.reading.conditions.kept import KEPT

if TYPE_CHECKING:
    from core_scan import Opened
    from twostage.schema import Schema

RIGHT, TYPED, SILENT, OVER = "right rows", "typed error", "SILENT", "OVER MEMORY"
RESEALED = "sizes, sealed anew"
IGNORED, NOT_IGNORED = "index ignored, right rows", "NOT IGNORED"
UNTYPED, UNNAMED, OTHER_ROWS = "UNTYPED", "NOT NAMED", "other rows, no checksum"
SWITCHES = tuple(
    name
    for name, option in OPTIONS.items()
    if option.target in _SETTINGS and option.parse is boolean and name != "verify-checksums"
)
"""Every option that can be switched off and leaves the rows as they are."""
CHOICES = {
    "read.pages": ("auto", "never", "always"),
    "read.few-rows": ("auto", "always", "never"),
    "filter.normalize": ("none", "cnf", "dnf"),
}
CHOICES = {name: values for name, values in CHOICES.items() if name in OPTION_NAMES}

_tables: dict[int, tuple[SmallTable, Opened]] = {}
# Data files are damaged and mended where they stand: of the time of change, which tells that, indexes are to know nothing.
file_stamp._host = lambda: file_stamp.NO_STAMP[: file_stamp.STAMP_BYTES // 2]


def read_damaged(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; see the module."""
    table, first = _table(request["table"], Path(request["folder"]))
    pick = random.Random(f"case {request['table']} {request['case']} {request['mode']}")
    file = pick.choice(table.files[request["kind"]])
    data, times = file.read_bytes(), file.stat()
    of_index = request["kind"] in INDEX_KINDS
    if request["mode"] == "flip":
        ranges = [(0, len(data))] if of_index else table.covered[file]
        changed, how = flip(data, ranges, pick), "flip in a page body"
    elif of_index and pick.random() < 0.4:
        changed, how = reseal(data, pick), RESEALED
    else:
        changed, how = damage(data, request["kind"], pick)
    query = _query(pick, table, first.table.schema)
    if of_index:
        query = replace(query, predicate=asks_index(pick, first, table, file, query.predicate))
    options = {name: "false" for name in SWITCHES if pick.random() < 0.4}
    options |= {name: pick.choice(values) for name, values in CHOICES.items()}
    options |= {"batch-size": str(pick.choice((3, 1024)))} if pick.random() < 0.3 else {}
    options |= {} if request.get("verify", True) else {"verify-checksums": "false"}
    file.write_bytes(changed)
    try:
        with everything_pays() if of_index else contextlib.nullcontext():
            answer = _read(table, first.table.schema, query, options)
    finally:
        file.write_bytes(data)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # the indexes of a data file name it
    if of_index:
        answer["class"] = _of_damaged_index(answer, is_resealed=how == RESEALED)
    if answer["class"] == OTHER_ROWS and _is_covered(table, file, data, changed):
        answer["class"] = SILENT
    named, stage = answer.pop("names", None), answer.pop("stage", None)
    # Damaged metadata may well name files that are not there; other damage is in the file that the error names.
    right = str(file) if request["kind"] not in ("metadata", "manifest list", "manifest") else named
    if answer["class"] == TYPED and (named is None or named != right or not stage):
        answer["class"] = UNNAMED
    return {"how": how, "file": file.name, "options": options, "query": str(query.predicate), **answer}


def _table(seed: int, folder: Path) -> tuple[SmallTable, Opened]:
    if seed not in _tables:
        for old, _ in _tables.values():
            shutil.rmtree(old.folder)
        _tables.clear()
        for left in (folder / f"table-{seed}", folder / FOLDER):  # by a child that was ended
            shutil.rmtree(left, ignore_errors=True)
        table = small_table(seed, folder / f"table-{seed}")
        opened = open_table(table.metadata)
        expected = [oracle.project(row, opened.table.schema.fields) for row in table.rows]
        undamaged = oracle.difference(scan(opened).rows, expected)
        assert not undamaged, undamaged
        index_small_table(table, opened, seed)
        _tables[seed] = table, opened
    return _tables[seed]


def _of_damaged_index(answer: dict[str, Any], *, is_resealed: bool) -> str:
    """Return the class of a read beside a damaged index."""
    warned = answer.get("warned", 0)
    match answer["class"]:
        case "right rows":
            return RIGHT if not warned else IGNORED if warned == 1 else NOT_IGNORED
        case "typed error":
            return NOT_IGNORED
        case "other rows, no checksum":
            return OTHER_ROWS if is_resealed else SILENT
    return str(answer["class"])


def _query(pick: random.Random, table: SmallTable, schema: Schema) -> Query:
    """Draw what is asked: everything, nothing but the count, or columns and a predicate."""
    query = replace(
        random_query(pick.randrange(2**32), schema, table.pools, table.rows), hint=TRUE, limit=None
    )
    chance = pick.random()
    if chance < 0.25:
        return replace(query, projection=schema.fields, predicate=TRUE)
    return replace(query, projection=()) if chance < 0.4 else query


def _read(table: SmallTable, schema: Schema, query: Query, options: dict[str, str]) -> dict[str, Any]:
    """Read the table by a path of options; classify what came."""
    CACHE.clear()
    KEPT.clear()
    parquet_footers._footers.clear()
    orc_file._tails.clear()
    expected = [
        oracle.project(row, query.projection)
        for row in table.rows
        if oracle.evaluate(query.predicate, row) is True
    ]
    try:
        opened = open_table(table.metadata, **options)
        if opened.table.schema != schema:  # then the query would be another one, too
            rows = scan(opened).rows
            return {"class": OTHER_ROWS, "detail": f"another schema, {len(rows)} rows"}
        found = scan(opened, query.projection, query.predicate)
    except InternalError as error:
        return {"class": UNTYPED, "detail": str(error)}
    except ResourceLimitError as error:
        if error.code == "OUT_OF_MEMORY":
            return {"class": OVER, "detail": f"{error} {_place_of(error)}"}
        return _typed(error)
    except TwoStageError as error:
        return _typed(error)
    except BaseException as error:
        return {"class": UNTYPED, "detail": f"{error!r} {_place_of(error)}"}
    problem = oracle.difference(found.rows, expected)
    warned = found.metrics.counters["indexes.ignored"]
    return {"class": OTHER_ROWS if problem else RIGHT, "detail": problem, "warned": warned}


def _typed(error: TwoStageError) -> dict[str, Any]:
    place = {"names": error.path, "stage": error.stage}
    return {"class": TYPED, "code": error.code, "detail": str(error), **place}


def _place_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    return " < ".join(
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames)
    )


def _is_covered(table: SmallTable, file: Path, before: bytes, after: bytes) -> bool:
    """Tell whether a checksum covers every byte that was changed."""
    places = changed_places(before, after)
    ranges = table.covered.get(file, [])
    return places is not None and all(any(start <= p < end for start, end in ranges) for p in places)
