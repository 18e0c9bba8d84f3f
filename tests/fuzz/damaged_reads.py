"""One case of the fuzzer, in the child process: damage a file of a small table, read the table, classify.

Takes a request: the ``folder`` for tables, the table's seed, the case's, ``mode`` (``mutation`` or ``flip``), the kind
of file, and ``verify`` (false: read without page checksums). Gives the class of what came of it: the right rows, a
typed error that names file and stage, other rows where no checksum covers the change, or one of the failures.
"""

from __future__ import annotations

import random
import shutil
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import oracle
from core_scan import open_table, scan
from mutations import changed_places, damage, flip
from random_queries import Query, random_query
from small_tables import SmallTable, small_table
from twostage.data_files import orc_file, parquet_footers
from twostage.deletes.cache.memory import CACHE
from twostage.errors import InternalError, ResourceLimitError, TwoStageError
from twostage.options import _SETTINGS, OPTION_NAMES, _boolean
from twostage.predicates.predicate import TRUE

if TYPE_CHECKING:
    from twostage.schema import Schema

RIGHT, TYPED, SILENT, OVER = "right rows", "typed error", "SILENT", "OVER MEMORY"
UNTYPED, UNNAMED, OTHER_ROWS = "UNTYPED", "NOT NAMED", "other rows, no checksum"
SWITCHES = tuple(
    name for name, (_, parse) in _SETTINGS.items() if parse is _boolean and name != "verify-checksums"
)
"""Every option that can be switched off and leaves the rows as they are."""
CHOICES = {
    "read.pages": ("auto", "never", "always"),
    "read.few-rows": ("auto", "always", "never"),
    "filter.normalize": ("none", "cnf", "dnf"),
}
CHOICES = {name: values for name, values in CHOICES.items() if name in OPTION_NAMES}

_tables: dict[int, tuple[SmallTable, Schema]] = {}


def read_damaged(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; see the module."""
    table, schema = _table(request["table"], Path(request["folder"]))
    pick = random.Random(f"case {request['table']} {request['case']} {request['mode']}")
    file = pick.choice(table.files[request["kind"]])
    data = file.read_bytes()
    if request["mode"] == "flip":
        changed, how = flip(data, table.covered[file], pick), "flip in a page body"
    else:
        changed, how = damage(data, request["kind"], pick)
    query = _query(pick, table, schema)
    options = {name: "false" for name in SWITCHES if pick.random() < 0.4}
    options |= {name: pick.choice(values) for name, values in CHOICES.items()}
    options |= {"batch-size": str(pick.choice((3, 1024)))} if pick.random() < 0.3 else {}
    options |= {} if request.get("verify", True) else {"verify-checksums": "false"}
    file.write_bytes(changed)
    try:
        answer = _read(table, schema, query, options)
    finally:
        file.write_bytes(data)
    if answer["class"] == OTHER_ROWS and _is_covered(table, file, data, changed):
        answer["class"] = SILENT
    named, stage = answer.pop("names", None), answer.pop("stage", None)
    # Damaged metadata may well name files that are not there; other damage is in the file that the error names.
    right = str(file) if request["kind"] not in ("metadata", "manifest list", "manifest") else named
    if answer["class"] == TYPED and (named is None or named != right or not stage):
        answer["class"] = UNNAMED
    return {"how": how, "file": file.name, "options": options, "query": str(query.predicate), **answer}


def _table(seed: int, folder: Path) -> tuple[SmallTable, Schema]:
    if seed not in _tables:
        for old, _ in _tables.values():
            shutil.rmtree(old.folder)
        _tables.clear()
        table = small_table(seed, folder / f"table-{seed}")
        opened = open_table(table.metadata)
        expected = [oracle.project(row, opened.table.schema.fields) for row in table.rows]
        undamaged = oracle.difference(scan(opened).rows, expected)
        assert not undamaged, undamaged
        _tables[seed] = table, opened.table.schema
    return _tables[seed]


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
        rows = scan(opened, query.projection, query.predicate).rows
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
    problem = oracle.difference(rows, expected)
    return {"class": OTHER_ROWS if problem else RIGHT, "detail": problem}


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
