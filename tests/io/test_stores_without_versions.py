"""Files of which neither an ETag nor a time of writing tells that others were put in their place: what was kept serves no more.

Some gateways give objects no ETags; and `cp -p` gives a local file the time of another one.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from check import Columns
from core_scan import Opened, scan
from s3_server import BUCKET, serve
from tables import Table
from twostage.catalog.load_table import load_table
from twostage.options import parse_options
from twostage.predicates.predicate import Compare

ROWS = 60_000
LAYOUTS = {
    "orc": ({"format": "orc", "mixed": True}, {"format": "orc", "mixed": True}),
    "parquet": (
        {"page_size": 40_000, "page_index": True},
        {"page_size": 160_000, "page_index": True},
    ),
}


def rows_of(first):
    drawn = np.random.default_rng(1).permutation(ROWS)
    return [{"id": n, "k": first + int(drawn[n])} for n in range(ROWS)]


def with_bytes_before_the_footer(path, size):
    """Make a Parquet file longer, which says the same."""
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert len(data) < size
    path.write_bytes(data[:footer] + bytes(size - len(data)) + data[footer:])


@pytest.fixture(params=LAYOUTS)
def replaced(request, tmp_path):
    """Return a table, and what puts a data file of the same size in the place of its own."""
    tables = []
    for number, layout in enumerate(LAYOUTS[request.param]):
        table = Table(tmp_path / str(number) / "t", {"id": "long", "k": "long"})
        rows = rows_of(2**40 + number * 2**21)
        table.append(rows, compression="none", dictionary=False, metrics="none", **layout)
        tables.append(table)
    (one,), (other,) = (list((table.folder / "data").rglob(f"*.{request.param}")) for table in tables)
    if request.param == "parquet":
        with_bytes_before_the_footer(other, one.stat().st_size)
    assert one.stat().st_size == other.stat().st_size

    def replace():
        found = one.stat()
        one.write_bytes(other.read_bytes())
        os.utime(one, ns=(found.st_atime_ns, found.st_mtime_ns))

    return tables[0], replace


def check(options, replace):
    parsed = parse_options({**options, "footers.cache": "worker", "index": "off", "read.pages": "always"})
    opened = Opened(load_table(parsed), parsed)

    def ask(value):
        where = Compare("=", Columns(opened.table.schema)("k"), value)
        rows = scan(opened, predicate=where, parallelism=1).rows
        return [tuple(value for _, value in row) for row in rows]

    before, after = 2**40 + 777, 2**40 + 2**21 + 777
    row = next(row["id"] for row in rows_of(0) if row["k"] == 777)
    assert ask(before) == [(row, before)]
    replace()
    assert ask(before) == []
    assert ask(after) == [(row, after)]


def test_objects_without_etags(replaced):
    table, replace = replaced
    table.write()
    with serve(table.folder.parent) as s3:
        s3.etags = False
        check({"path": f"s3://{BUCKET}/t", "allow-moved-paths": "true", **s3.options}, replace)


def test_local_files_of_the_same_time_of_writing(replaced):
    table, replace = replaced
    table.write()
    check({"path": str(table.folder)}, replace)
