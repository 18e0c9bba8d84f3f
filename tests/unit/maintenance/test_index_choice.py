"""Which indexes ``--kind auto`` builds, and why it refuses."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from core_scan import open_table
from indexed_tables import place_of
from tables import Table
from twostage.__main__ import main
from twostage.advisor.kept_metadata import counted_values
from twostage.indexes.file_keys import FILES
from twostage.maintenance import index_choice
from twostage.maintenance.index_choice import _sample, choose_kinds
from twostage.schema import Primitive

ROWS = 20_000


def columns():
    drawn = random.Random(2)
    return {
        "few": ([drawn.choice(["a", "b", "c", None]) for _ in range(ROWS)], "string"),
        "scattered": ([drawn.getrandbits(60) for _ in range(ROWS)], "long"),
        "text": ([f"user-{drawn.randrange(10**6)}" for _ in range(ROWS)], "string"),
        "sorted": (list(range(ROWS)), "long"),
        "sorted, few": (sorted(drawn.randrange(5) for _ in range(ROWS)), "long"),
        "descending": (list(range(ROWS, 0, -1)), "long"),
        "sorted again and again": ([n % 400 for n in range(ROWS)], "long"),
        "one": ([7] * ROWS, "long"),
        "null": ([None] * ROWS, "long"),
    }


@pytest.mark.parametrize(
    ("name", "kinds", "reason"),
    [
        ("few", ("values",), "about 3 values"),
        ("scattered", ("sorted", FILES), "scattered"),
        ("text", ("postings", FILES), "scattered"),
        ("sorted", (), "sorted"),
        ("sorted, few", (), "sorted"),
        ("descending", (), "sorted"),
        ("sorted again and again", ("values",), "about 400 values"),
        ("one", (), "one value"),
        ("null", (), "NULL"),
    ],
)
def test_kinds_by_what_the_values_are_like(name, kinds, reason):
    values, kind = columns()[name]
    array = pa.array(values, pa.string() if kind == "string" else pa.int64())
    sample = _sample(Primitive(kind), [array], ROWS, num_files=8)
    (choice,) = choose_kinds({1: sample}, [1], 10**9)
    assert choice.kinds == kinds
    assert reason in choice.reason


def test_neighbours_that_are_equal_need_no_index():
    drawn = random.Random(3)
    values = [value for value in (drawn.randrange(10**6) for _ in range(3_000)) for _ in range(100)]
    sample = _sample(Primitive("long"), [pa.array(values)], len(values), num_files=2)
    (choice,) = choose_kinds({1: sample}, [1], 10**9)
    assert not choice.kinds
    assert "neighbours" in choice.reason


def test_all_together_stay_within_their_share_of_the_table():
    values, _ = columns()["scattered"]
    sample = _sample(Primitive("long"), [pa.array(values)], ROWS, num_files=8)
    first, second, absent = choose_kinds({1: sample, 2: sample}, [1, 2, 3], 10_000_000)
    assert first.kinds
    assert not second.kinds
    assert "15% of the table" in second.reason
    assert "no data file holds it" in absent.reason
    (first,) = choose_kinds({1: sample}, [1], 10_000_000, taken=1_499_000)
    assert not first.kinds
    assert "leave 1,000 beside what there is" in first.reason


@pytest.mark.parametrize("name", ["few", "scattered", "text", "sorted"])
def test_lists_get_an_index_of_their_elements(name):
    values, kind = columns()[name]
    sample = _sample(Primitive(kind), [pa.array(values)], ROWS, num_files=8)
    (choice,) = choose_kinds({1: replace(sample, is_nested=True)}, [1], 10**9)
    assert choice.kinds == ("elements",)
    (choice,) = choose_kinds({1: replace(sample, is_nested=True)}, [1], 10**5)
    assert not choice.kinds
    assert "15% of the table" in choice.reason


def test_what_was_collected_tells_how_many_values_there_are(tmp_path, capsys, monkeypatch):
    """The first rows of each file have ten values, all rows have thousands."""
    monkeypatch.setattr(index_choice, "_SAMPLE_ROWS", 6_000)
    monkeypatch.setattr(index_choice, "MAX_SHARE_OF_TABLE", 50)
    drawn = random.Random(4)
    table = Table(tmp_path / "t", {"id": "long", "v": "long"})
    for _ in range(2):
        values = [drawn.randrange(10) for _ in range(6_000)] + [drawn.getrandbits(40) for _ in range(6_000)]
        table.append([{"id": row, "v": value} for row, value in enumerate(values)])
    table.write()
    place = place_of(open_table(table.folder))
    assert counted_values(place) == {}
    for verb in (["index", "create"], ["advise", "collect"], ["index", "create"]):
        names = ["--columns", "v"] if verb[0] == "index" else []
        main([*verb, str(table.folder), *names])
        if verb[0] == "index":
            said = capsys.readouterr().err
            assert ("about 10 values" in said) == (counted_values(place) == {})
            main(["index", "drop", str(table.folder)])
    assert counted_values(place)[2].all_distinct > 11_000
    assert 3_000 < counted_values(place)[2].among(12_000) <= 12_000
