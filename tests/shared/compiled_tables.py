"""Tables with equality deletes to compile, the files that compiling writes, and reads checked by the
oracle."""

from __future__ import annotations

import os
from typing import Any

import oracle
from core_scan import open_table, scan, with_options
from tables import Table
from twostage.deletes.cache.memory import CACHE


def make(folder, *, rows=60, deletes=3, **options):
    table = Table(folder, {"id": "long", "k": "long", "s": "string"}, **options)
    for start in (0, rows):
        table.append([{"id": start + i, "k": i % 20, "s": f"s{i % 7}"} for i in range(rows)])
    for n in range(deletes):
        table.delete_equal(["k"], [{"k": n}, {"k": n + 10}])
    return table


def kept(folder, options):
    """The files of the cache and of the chosen folder."""
    return sorted(
        os.path.join(place, name)
        for place in (options["deletes.cache-dir"], options.get("deletes.compiled-dir", "/nowhere"))
        if os.path.isdir(place)
        for name in os.listdir(place)
        if name.endswith(".twostage")
    )


def read(table, options, where=None, **more: Any):
    CACHE.clear()
    opened = with_options(open_table(table.folder), options)
    schema = opened.table.schema
    predicate = where(schema) if where else None
    arguments = {"predicate": predicate} if predicate is not None else {}
    result = scan(opened, **arguments, **more)
    expected = [
        oracle.project(row, schema.fields)
        for row in oracle.live_rows(table.content())
        if predicate is None or oracle.evaluate(predicate, row) is True
    ]
    problem = oracle.difference(result.rows, expected)
    assert not problem, problem
    return result.metrics.counters
