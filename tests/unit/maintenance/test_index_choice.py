"""Which indexes ``--kind auto`` builds, and why it refuses."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from core_scan import open_table
from indexed_tables import place_of
from tables import Table
from twostage.__main__ import main
from twostage.advisor.kept_metadata import counted_values
from twostage.indexes.file_keys import FILES
from twostage.maintenance import index_choice
from twostage.maintenance.index_choice import MAX_VALUES_FOR_BITMAPS, _sample, choose_kinds
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


def _zipf(kind: str, rows: int, values: int) -> pa.Array:
    """The n-th most frequent value has one n-th of the first one's rows; their order says nothing."""
    drawn = np.random.default_rng(5)
    weights = 1.0 / np.arange(1, values + 1)
    ranks = drawn.permutation(values)[drawn.choice(values, rows, p=weights / weights.sum())]
    return pa.array(np.char.mod("name-%06d", ranks) if kind == "string" else ranks)


@pytest.mark.parametrize("kind", ["long", "string"])
@pytest.mark.parametrize(
    ("values", "chosen", "reason"),
    [
        (4_000, "values", "of the rows have such as are in every page"),
        (60_000, None, "bytes a row, too many)"),
    ],
)
def test_many_values_of_which_few_make_most_rows_get_bitmaps_while_these_fit(kind, values, chosen, reason):
    array = _zipf(kind, 400_000, values)
    sample = _sample(Primitive(kind), [array.slice(0, 131_072)], len(array), num_files=8)
    assert sample.profile.num_distinct > MAX_VALUES_FOR_BITMAPS
    (choice,) = choose_kinds({1: sample}, [1], 10**9)
    assert choice.kinds == (chosen or {"long": "sorted", "string": "postings"}[kind], FILES)
    assert reason in choice.reason
    assert "scattered" not in choice.reason


def test_as_many_values_that_are_in_few_pages_each_get_none():
    drawn = np.random.default_rng(6)
    array = pa.array(drawn.integers(0, 40_000, 600_000))
    sample = _sample(Primitive("long"), [array.slice(0, 131_072)], len(array), num_files=8)
    (choice,) = choose_kinds({1: sample}, [1], 10**9)
    assert choice.kinds == ("sorted", FILES)
    assert "scattered values in a data file; not bins, which" in choice.reason
    assert re.search(r"nor slices in addition, together 5\.\d bytes a row", choice.reason)
    doubles = _sample(
        Primitive("double"), [array.slice(0, 131_072).cast(pa.float64())], len(array), num_files=1
    )
    (choice,) = choose_kinds({1: doubles}, [1], 10**9)
    assert choice.kinds == ("sorted",)
    assert "not bins" in choice.reason
    assert "slices" not in choice.reason


@pytest.mark.parametrize(("spread", "has_files"), [(0, False), (5_000, True)])
def test_files_that_all_have_the_same_values_need_no_index_of_files(spread, has_files):
    drawn = np.random.default_rng(7)
    arrays = [pa.array(drawn.integers(0, 5_000, 131_072) + file * spread) for file in range(4)]
    sample = _sample(Primitive("long"), arrays, 400_000, num_files=8)
    (choice,) = choose_kinds({1: sample}, [1], 10**9)
    assert choice.kinds == (("values", FILES) if has_files else ("values",))
    assert ("every data file has nearly all values" in choice.reason) != has_files


def test_a_chosen_index_of_frequent_values_is_as_large_as_was_said(tmp_path, capsys):
    table = Table(tmp_path / "t", {"id": "long", "v": "long", "wide": "string"})
    values = _zipf("long", 60_000, 1_500).to_pylist()
    drawn = random.Random(8)
    table.append(
        [{"id": row, "v": value, "wide": f"{drawn.getrandbits(400):x}"} for row, value in enumerate(values)]
    )
    table.write()
    assert main(["index", "create", str(table.folder), "--columns", "v"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    (estimated,) = re.findall(r"v: values: about 1,\d\d\d values .* about ([\d,]+) bytes", said)
    (built,) = re.findall(r"([\d,]+) bytes of index files", said)
    size, real = (int(text.replace(",", "")) for text in (estimated, built))
    assert 0.85 * real < size < 1.3 * real
    assert real < 4 * len(values)


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
    assert "no data file has it" in absent.reason
    (first,) = choose_kinds({1: sample}, [1], 10_000_000, taken=1_499_000)
    assert not first.kinds
    assert "indexes may take 1,000 more" in first.reason


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
