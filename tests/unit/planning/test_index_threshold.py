"""Thresholds of ORDER BY … LIMIT from sorted rows: enough live rows reach them, and hardly more do."""

from __future__ import annotations

import math
import random
import struct
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from check import Columns
from core_scan import Opened, open_table, scan, with_options
from indexed_tables import built, place_of
from tables import Table
from twostage.planning import index_threshold, plan
from twostage.predicates.predicate import TRUE, Compare
from twostage.predicates.top import Threshold, TopRows


@pytest.fixture(autouse=True)
def told(monkeypatch) -> list[Threshold | None]:
    """What indexes told, of tables of any size."""
    monkeypatch.setattr(index_threshold, "MIN_ROWS_TO_PROBE", 0)
    found: list[Threshold | None] = []
    real = index_threshold.threshold_from_indexes

    def noted(*given: Any) -> Threshold | None:
        found.append(real(*given))
        return found[-1]

    monkeypatch.setattr(plan, "threshold_from_indexes", noted)
    return found


def indexed(table: Table, *names: str, kind: str = "sorted") -> Opened:
    opened = open_table(table.write())
    built(opened, list(names), kind)
    return opened


def first(opened: Opened, name: str, count: int, *, descending: bool = False, **more: Any) -> list[Any]:
    """Return the values of the rows that a scan returns, best first."""
    key = Columns(opened.table.schema)(name)
    wanted = TopRows(
        column=key, count=count, descending=descending, nulls_first=more.pop("nulls_first", False)
    )
    field = opened.table.schema.find((name,))
    return [_plain(row[0]) for row in scan(opened, (field,), more.pop("where", TRUE), top=wanted).rows]


def _plain(value: Any) -> Any:
    """Return a value of the form that `oracle.exact` gives as it was written."""
    if value is None:
        return None
    kind, held = value
    if kind != "float":
        return held
    return math.nan if held == "nan" else struct.unpack("<d", held)[0]


SHAPES = {
    "int": lambda pick: pick.randrange(-(2**31), 2**31),
    "long": lambda pick: pick.choice((pick.randrange(-(2**63), 2**63), pick.randrange(-10, 10))),
    "double": lambda pick: pick.choice((pick.gauss(0, 1e9), 0.0, -0.0, math.inf, -math.inf, math.nan)),
    "decimal(18,4)": lambda pick: Decimal(pick.randrange(-(10**17), 10**17)).scaleb(-4),
    "date": lambda pick: pick.randrange(-1000, 20_000),
    "timestamptz": lambda pick: pick.randrange(10**15, 2 * 10**15),
}


@pytest.mark.parametrize("count", [1, 7, 300])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", SHAPES)
def test_the_last_of_the_best_reaches_it(tmp_path: Path, told, kind, descending, count) -> None:
    pick = random.Random(f"{kind} {descending} {count}")
    table = Table(tmp_path / "t", {"k": kind}, version=3)
    parts = [[{"k": SHAPES[kind](pick)} for _ in range(500)] for _ in range(4)]
    files = [table.append(part) for part in parts]
    gone = {number: sorted(pick.sample(range(500), 5)) for number in (0, 2)}
    table.delete_vectors({files[number]: rows for number, rows in gone.items()})
    opened = indexed(table, "k")
    found = first(opened, "k", count, descending=descending)
    (threshold,) = told
    assert threshold is not None
    live = [
        row["k"]
        for number, part in enumerate(parts)
        for i, row in enumerate(part)
        if i not in gone.get(number, ())
    ]
    order = lambda value: (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)
    expected = sorted(live, key=order, reverse=descending)[:count]
    beats = lambda value: (
        order(value) >= order(threshold.value) if descending else order(value) <= order(threshold.value)
    )
    assert all(map(beats, expected))
    # Of two files five rows each may be among the best; and keys are cut.
    last = sorted(live, key=order, reverse=descending)[min(count + 10, len(live)) - 1]
    near = sum(order(value) >= order(last) if descending else order(value) <= order(last) for value in live)
    assert sum(map(beats, live)) <= near + 60
    internal = lambda values: sorted(map(order, values), reverse=descending)
    without = first(with_options(opened, {"index": "off"}), "k", count, descending=descending)
    assert internal(found)[:count] == internal(without)[:count]


def test_nulls(tmp_path: Path, told) -> None:
    table = Table(tmp_path / "t", {"k": "int"})
    table.append([{"k": None if i < 3 else i} for i in range(50)])
    opened = indexed(table, "k")
    assert first(opened, "k", 2, nulls_first=True) == [None, None]
    assert first(opened, "k", 5, nulls_first=True).count(None) == 3
    assert first(opened, "k", 2) == [3, 4]
    assert sorted(first(opened, "k", 2, descending=True)) == [48, 49]
    assert told == [Threshold(None), Threshold(4), Threshold(4), Threshold(48)]
    assert len(first(opened, "k", 48)) == 48  # more than there are values
    assert told[-1] is None


def test_only_files_whose_rows_all_live_and_match_tell(tmp_path: Path, told) -> None:
    table = Table(tmp_path / "t", {"k": "long", "g": "int"})
    files = [
        table.append([{"k": 1000 * n + i, "g": n} for i in range(100)], metrics="counts") for n in range(3)
    ]
    opened = indexed(table, "k")
    g = Columns(opened.table.schema)("g")
    assert max(first(opened, "k", 3, descending=True, where=Compare("<", g, 1))) == 99
    assert told.pop() is None  # no bounds say which files match
    table.delete_positions({files[2]: range(100)})
    deleted = open_table(table.write())
    assert max(first(deleted, "k", 3, descending=True)) == 1099
    assert told.pop() == Threshold(1097)
    table.delete_equal(["k"], [{"k": 1098}])
    assert sorted(first(open_table(table.write()), "k", 2, descending=True))[-2:] == [1097, 1099]
    assert told.pop() is None


def test_what_is_not_asked(tmp_path: Path, told, monkeypatch) -> None:
    table = Table(tmp_path / "t", {"k": "long", "s": "string", "f": "float"})
    table.append([{"k": i, "s": str(i), "f": i / 2} for i in range(200)])
    opened = indexed(table, "k", "s", "f")
    assert first(opened, "s", 2) == ["0", "1"]
    assert first(opened, "f", 2) == [0.0, 0.5]
    monkeypatch.setattr(index_threshold, "MAX_ROWS_PROBED", 5)
    assert first(opened, "k", 6) == list(range(6))
    monkeypatch.setattr(index_threshold, "MIN_ROWS_TO_PROBE", 201)
    assert first(opened, "k", 2) == [0, 1]
    assert told == [None] * 4
    for options in ({"index": "off"}, {"top-n": "false"}, {"prune.files": "false"}):
        first(with_options(opened, options), "k", 2)
    assert told == [None] * 4


def test_a_damaged_index_tells_nothing(tmp_path: Path, told) -> None:
    table = Table(tmp_path / "t", {"k": "long"})
    table.append([{"k": i * 7 % 1000} for i in range(1000)])
    opened = indexed(table, "k")
    (path,) = Path(place_of(opened).folder).rglob("*.puffin")
    data = bytearray(path.read_bytes())
    data[10:400] = bytes(390)
    path.write_bytes(data)
    assert sorted(first(opened, "k", 3))[:3] == [0, 1, 2]
    assert told == [None]


def test_an_object_that_was_replaced_tells_nothing(tmp_path: Path, told, monkeypatch) -> None:
    table = Table(tmp_path / "t", {"k": "long"})
    table.append([{"k": i} for i in range(100)])
    opened = indexed(table, "k")
    monkeypatch.setattr("twostage.indexes.data_file_index.DataFileIndex.is_of", lambda *_: False)
    first(opened, "k", 3)
    assert told == [None]


def test_a_better_threshold_of_bounds_stays(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"k": "long"})
    for number in range(4):
        table.append([{"k": number * 10 + i} for i in range(10)])
    opened = indexed(table, "k")
    key = Columns(opened.table.schema)("k")
    field = opened.table.schema.find(("k",))
    wanted = TopRows(column=key, count=5, descending=True, nulls_first=False)
    planned = plan.plan_scan(
        opened.table, opened.options, projection=(field,), predicate=TRUE, hint=TRUE, limit=None, parallelism=1,
        scan_id="s", top=wanted,
    )  # fmt: skip
    assert str(planned.context.predicate) == "k >= 35"
    assert planned.top_share == 0
    assert any("indexes prove enough rows with k >= 35" in choice for choice in planned.choices)
    ten = replace(wanted, count=10)
    planned = plan.plan_scan(
        opened.table, opened.options, projection=(field,), predicate=TRUE, hint=TRUE, limit=None, parallelism=1,
        scan_id="s", top=ten,
    )  # fmt: skip
    assert planned.context.predicate == TRUE  # bounds of one file say as much
    assert planned.context.top.threshold == Threshold(30)
