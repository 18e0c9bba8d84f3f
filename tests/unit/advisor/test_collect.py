"""Column metadata of tables: counted where the sample is the whole table, estimated where not."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tables import Table
from twostage.advisor.collect import collect, draw, drawn_from, spread
from twostage.advisor.column_metadata import parse_metadata
from twostage.errors import OptionError
from twostage.options import parse_options

COLUMNS = {"id": "long", "few": "string", "gone": "int"}


def table(folder, files=4, rows=500):
    made = Table(folder, COLUMNS)
    rng = random.Random(3)
    for number in range(files):
        made.append(
            [
                {"id": rows * number + i, "few": f"v{rng.randrange(20)}", "gone": None if i % 2 else 5}
                for i in range(rows)
            ]
        )
    return str(made.write())


def test_a_sample_that_is_the_whole_table_is_exact(tmp_path):
    found = collect(parse_options({"path": table(tmp_path / "t")}), {})
    assert (found.rows, found.files) == (2000, 4)
    assert found.bytes > 0
    ids, few, gone = (found.columns[name] for name in COLUMNS)
    assert (ids.distinct, few.distinct, gone.distinct) == (2000, 20, 1)
    assert (ids.is_exact, ids.nulls, gone.nulls) == (True, 0, 1000)
    assert ids.distinct_per_file == pytest.approx(500)
    assert few.distinct_per_file == pytest.approx(20, rel=0.01)
    assert (ids.overlap, few.overlap, gone.overlap) == (0.25, pytest.approx(1), 1)
    assert ids.type == "long"


def test_lists_and_maps_are_known_by_their_entries(tmp_path):
    kinds = {"id": "long", "tags": ["string"], "props": ("map", "string", "int")}
    made = Table(tmp_path / "t", kinds)
    for first in (0, 300):
        made.append(
            [
                {
                    "id": row,
                    "tags": None if row % 10 == 0 else ["a", f"t{row % 50}", None],
                    "props": [("k", 1), (f"p{row % 7}", 2), ("q", None)],
                }
                for row in range(first, first + 300)
            ]
        )
    made.write()
    found = collect(parse_options({"path": str(made.folder)}), {}).columns
    assert set(found) == {"id", "tags", "props"}
    tags, props = found["tags"], found["props"]
    assert (tags.type, tags.has_elements, props.has_elements) == ("list<string>", True, True)
    assert tags.entries_per_row == pytest.approx(0.9 * 2)  # NULL elements are not indexed
    assert (tags.nulls, tags.distinct, props.distinct) == (60, 46, 9)
    assert props.entries_per_row == 3
    assert tags.index_bytes("elements", 2) == pytest.approx(3.5 * 0.9 * 2 * 600)
    assert tags.bytes > 0
    assert found["id"].entries_per_row == 1


def test_which_chunks_are_dictionaries(tmp_path):
    """By PyArrow's writer: a chunk whose dictionary grows too large goes on without one."""
    made = Table(tmp_path / "t", {"one": "long", "many": "string"})
    for repeats in (100, 1):
        made.append([{"one": 7, "many": "x" * 1_000 + str(row // repeats)} for row in range(4_000)])
    made.write()
    found = collect(parse_options({"path": str(made.folder)}), {}).columns
    assert (found["one"].dictionary_share, found["many"].dictionary_share) == (1.0, 0.5)


def test_the_layout_of_a_table(tmp_path):
    path = Path(table(tmp_path / "t"))
    raw = json.loads(path.read_text())
    ids = {field["name"]: field["id"] for field in raw["schemas"][-1]["fields"]}
    raw["sort-orders"] = [
        {"order-id": 1, "fields": [{"source-id": ids["few"], "transform": "identity", "direction": "asc"}]}
    ]
    raw["default-sort-order-id"] = 1
    raw["partition-specs"].append(
        {
            "spec-id": 7,
            "fields": [
                {"source-id": ids["few"], "field-id": 1000, "name": "few", "transform": "identity"},
                {"source-id": ids["id"], "field-id": 1001, "name": "b", "transform": "bucket[4]"},
                {"source-id": ids["gone"], "field-id": 1002, "name": "v", "transform": "void"},
            ],
        }
    )
    raw["default-spec-id"] = 7
    path.write_text(json.dumps(raw))
    found = collect(parse_options({"path": str(path)}), {})
    assert found.sort_order == ("few",)
    assert found.partitioning == ("few", "bucket[4](id)")
    assert parse_metadata(found.json()) == found


def test_a_sample_is_scaled(tmp_path):
    steps = []
    found = collect(
        parse_options({"path": table(tmp_path / "t", files=10)}),
        {},
        sampled_files=2,
        step=lambda done, of: steps.append((done, of)),
    )
    ids, few, gone = (found.columns[name] for name in COLUMNS)
    assert not ids.is_exact
    assert ids.distinct == 5000
    assert few.distinct == pytest.approx(20, rel=0.05)
    assert gone.nulls == 2500
    assert steps == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize("values", [1, 2, 50, 1000, 100_000])
def test_how_many_values_there_are(values):
    """As many as drawing from them at random would have shown."""
    rng = random.Random(values)
    seen = len({rng.randrange(values) for _ in range(5000)})
    assert drawn_from(seen, 5000, 10**6) == pytest.approx(values, rel=0.15)
    assert draw(values, 5000) == pytest.approx(seen, rel=0.05)


def test_values_of_their_own():
    assert drawn_from(1000, 1000, 50_000) == 50_000
    assert drawn_from(0, 0) == 0
    assert drawn_from(1, 900) == 1


def test_places_are_spread():
    assert list(spread(10, 3)) == [0, 5, 9]
    assert list(spread(3, 8)) == [0, 1, 2]
    assert list(spread(9, 1)) == [0]
    assert list(spread(0, 8)) == []


def test_a_metadata_table_has_none(tmp_path):
    with pytest.raises(OptionError, match="metadata table"):
        collect(parse_options({"path": table(tmp_path / "t"), "metadata-table": "files"}), {})
