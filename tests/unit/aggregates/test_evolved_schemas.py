"""Answers from metadata of columns that not every file has: defaults, what was left out, and name mappings."""

from __future__ import annotations

import math
from pathlib import Path

from check import Columns
from core_scan import open_table, scan
from metadata_questions import asked
from tables import Table
from twostage.predicates.predicate import Compare


def test_columns_that_older_files_lack(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "int"}, version=3)
    table.append([{"id": i} for i in range(3)])
    table.widen_column("id", "long")
    table.add_column("added", "int")
    table.add_column("filled", "date", default=5)
    table.append([{"id": 2**40, "added": 1, "filled": 9}])
    opened = open_table(table.write())
    assert asked(opened, "min(id)", "max(id)") == [(0, 2**40)]
    assert asked(opened, "count(added)", "min(added)") == [(1, 1)]
    assert asked(opened, "count(filled)", "min(filled)", "max(filled)") == [(4, 5, 9)]


def test_a_default_of_a_float_is_as_the_files_have_it(tmp_path: Path) -> None:
    """Iceberg's libraries write the JSON number 0.1, which is no float of 32 bits."""
    table = Table(tmp_path, {"id": "long"}, version=3)
    table.append([{"id": 1}])
    table.add_column("f", "float", default=0.1)
    table.append([{"id": 2, "f": 0.1}])
    metadata = table.write()
    text = metadata.read_text()
    assert "0.10000000149011612" in text
    metadata.write_text(text.replace("0.10000000149011612", "0.1"))
    opened = open_table(metadata)
    single = 0.10000000149011612
    f = Columns(opened.table.schema)("f")
    assert asked(opened, "distinct(f)") == [(1,)]
    assert len(scan(opened, None, Compare("=", f, single)).rows) == 2


def test_a_default_of_nan_is_read(tmp_path: Path) -> None:
    """NaN is the greatest for Spark, and compares with nothing in Python."""
    table = Table(tmp_path, {"id": "long"}, version=3)
    table.append([{"id": 1}])
    table.add_column("x", "double", default=math.nan)
    table.append([{"id": 2, "x": 5.0}])
    assert asked(open_table(table.write()), "max(x)") == "the default of x is NaN"


def test_a_column_left_out_of_a_file_is_read(tmp_path: Path) -> None:
    """Whether a file has it, or only no metrics of it, the manifest does not tell."""
    table = Table(tmp_path, {"id": "long", "c": "int"})
    table.append([{"id": 1, "c": 1}], unmeasured=("c",))
    assert asked(open_table(table.write()), "count(c)") == "a file has no metrics of c"


def test_a_name_mapping_may_find_a_younger_column_in_an_old_file(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long"}, name_mapping=True)
    table.append([{"id": 1}])
    table.add_column("added", "int")
    assert asked(open_table(table.write()), "count(added)") == "a file has no metrics of added"
