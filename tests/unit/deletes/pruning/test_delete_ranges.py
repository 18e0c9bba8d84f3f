"""Delete files that cannot hold a key of a row group, by the bounds of both: rows are brute force's, files are left out."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from check import check, ids
from tables import Table

VALUES: dict[str, Any] = {
    "int": lambda n: n,
    "string": lambda n: f"{n:04}",
    "double": lambda n: {3: math.nan, 4: 0.0, 5: -0.0}.get(n % 50, n / 4),
    "decimal(9,2)": lambda n: Decimal(n) / 100,
    "date": lambda n: n,
    "binary": lambda n: n.to_bytes(3, "big"),
    "boolean": lambda n: n > 150,
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("prune", ["true", "false"])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_deleted_row_comes_back(tmp_path: Path, kind: str, prune: str, seed: int) -> None:
    """Keys of a few delete files, some near the rows and some far, some of unknown bounds, some NULL."""
    pick, value = random.Random(seed), VALUES[kind]
    table = Table(tmp_path / "t", {"id": "long", "k": kind, "n": "int"})
    keys = [None if pick.random() < 0.05 else value(n) for n in range(300)]
    table.append(ids(300, k=lambda i: keys[i], n=lambda i: i % 3), row_group_size=30)
    for columns in (["k"], ["k", "n"], ["k"]):
        start = pick.randrange(300)
        rows = [{"k": value(start + n), "n": pick.randrange(3)} for n in range(20)]
        rows += [{"k": None, "n": 1}] if pick.random() < 0.5 else []
        table.delete_equal(columns, rows, metrics=pick.choice(["full", "full", "none", "bounds"]))
    from oracle import live_rows

    left = [row[1] for row in live_rows(table.content())]
    for stream in ("always", "never"):
        check(table, left, **{"prune.deletes": prune, "deletes.stream": stream})


def test_only_files_whose_keys_may_be_there_are_opened(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long", "k": "int"})
    table.append(ids(100, k=lambda i: i), row_group_size=10)
    for start in (20, 1000, 2000):
        table.delete_equal(["k"], [{"k": start}, {"k": start + 3}])
    result = check(table, [i for i in range(100) if i not in (20, 23)])
    assert (result.count("delete_files.considered"), result.count("delete_files.opened")) == (3, 1)
    assert result.count("row_groups.untouched") == 9


def test_a_key_inside_a_struct_whose_counts_mean_another_thing(tmp_path: Path) -> None:
    """A NULL struct counts as NULL of its field in one format and does not count in another."""
    for name in ("parquet", "orc"):
        table = Table(tmp_path / name, {"id": "long", "st": {"x": "int"}})
        rows = ids(30, st=lambda i: None if i < 10 else {"x": None if i < 15 else i})
        table.append(rows, format=name, mixed=name != "parquet", row_group_size=10)
        table.delete_equal(["st.x"], [{"st": {"x": None}}])
        check(table, range(15, 30))
        table.delete_equal(["st.x"], [{"st": {"x": 20}}, {"st": {"x": 500}}])
        check(table, [i for i in range(15, 30) if i != 20])
