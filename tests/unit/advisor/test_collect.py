"""Column metadata of tables: counted where the sample is the whole table, estimated where not."""

from __future__ import annotations

import datetime
import json
import random
from pathlib import Path

import pytest

from tables import Table
from twostage.advisor.collect import collect, collect_more, estimate_distinct, expected_distinct, spread
from twostage.advisor.column_metadata import parse_metadata
from twostage.advisor.column_sample import overlap_of, sample_files
from twostage.advisor.kept_metadata import with_samples
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


def test_how_the_pages_of_a_chunk_overlap(tmp_path):
    """Ascending values are in one page of a chunk, scattered ones in all; it takes three pages, all with bounds."""
    made = Table(tmp_path / "t", COLUMNS)
    rng = random.Random(5)
    rows = [{"id": row, "few": f"v{rng.randrange(5)}", "gone": 1} for row in range(8_000)]
    for _ in range(2):
        made.append(rows, page_size=2_000, dictionary=False, page_index=True)
    metadata = collect(parse_options({"path": str(made.write())}), {})
    found = metadata.columns
    assert found["id"].pages > 10
    assert found["id"].page_overlap == pytest.approx(2 / found["id"].pages)  # of two chunks
    assert (found["few"].page_overlap, found["gone"].page_overlap) == (1.0, 1.0)
    assert parse_metadata(metadata.json()).columns["id"].page_overlap == found["id"].page_overlap
    one_page = table(tmp_path / "small", files=1)
    assert collect(parse_options({"path": one_page}), {}).columns["id"].page_overlap is None


def test_which_chunks_have_bloom_filters(tmp_path):
    """As footers say, whatever the table's property tells writers."""
    name = "write.parquet.bloom-filter-enabled.column."
    made = Table(tmp_path / "t", COLUMNS)
    rows = [{"id": row, "few": "v", "gone": 1} for row in range(100)]
    for with_bloom in (True, False):
        made.append(rows, bloom=("id",) if with_bloom else ())
    path = made.write()
    raw = json.loads(Path(path).read_text())
    raw["properties"] = {**raw.get("properties", {}), name + "few": "true"}
    Path(path).write_text(json.dumps(raw))
    found = collect(parse_options({"path": str(path)}), {}).columns
    assert {name: (one.bloom_share, one.writes_bloom) for name, one in found.items()} == {
        "id": (0.5, False), "few": (0.0, True), "gone": (0.0, False)
    }  # fmt: skip


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
    asked = []

    def run(work):
        asked.extend(work)
        return map(sample_files, work)

    found = collect(parse_options({"path": table(tmp_path / "t", files=10)}), {}, sampled_files=2, run=run)
    ids, few, gone = (found.columns[name] for name in COLUMNS)
    assert not ids.is_exact
    assert ids.distinct == 5000
    assert few.distinct == pytest.approx(20, rel=0.05)
    assert gone.nulls == 2500
    assert [len(work.tasks) for work in asked] == [1, 1]


@pytest.mark.parametrize("values", [1, 2, 50, 1000, 100_000])
def test_how_many_values_there_are(values):
    """As many as drawing from them at random would have shown."""
    rng = random.Random(values)
    seen = len({rng.randrange(values) for _ in range(5000)})
    assert estimate_distinct(seen, 5000, 10**6) == pytest.approx(values, rel=0.15)
    assert expected_distinct(values, 5000) == pytest.approx(seen, rel=0.05)


def test_values_of_their_own():
    assert estimate_distinct(1000, 1000, 50_000) == 50_000
    assert estimate_distinct(0, 0) == 0
    assert estimate_distinct(1, 900) == 1


def test_places_are_spread():
    assert list(spread(10, 3)) == [0, 5, 9]
    assert list(spread(3, 8)) == [0, 1, 2]
    assert list(spread(9, 1)) == [0]
    assert list(spread(0, 8)) == []


def test_a_metadata_table_has_none(tmp_path):
    with pytest.raises(OptionError, match="metadata table"):
        collect(parse_options({"path": table(tmp_path / "t"), "metadata-table": "files"}), {})


def kept(path, out, **arguments):
    """Collect, and keep it; return what was found, and how many data files were read."""
    read = []

    def run(work):
        read.extend(task.path for one in work for task in one.tasks)
        return map(sample_files, work)

    found, collected, _ = collect_more(
        parse_options({"path": str(path)}), {}, run=run, out=str(out), **arguments
    )
    out.write_text(with_samples(found, collected))
    return found, read


def test_new_files_alone_are_read(tmp_path):
    made, out = Table(tmp_path / "t", {"id": "long", "few": "string"}), tmp_path / "t.json"

    def append(number):
        made.append([{"id": 100 * number + row, "few": f"v{number}"} for row in range(100)])

    for number in range(4):
        append(number)
    made.write()
    first, read = kept(made.folder, out)
    assert (len(read), first.columns["few"].distinct, first.columns["id"].is_exact) == (4, 4, True)
    assert kept(made.folder, out) == (first, [])
    for number in (4, 5):
        append(number)
    made.write()
    found, again = kept(made.folder, out)
    assert len(again) == 2
    assert not set(read) & set(again)
    assert found.rows == 600
    assert (found.columns["few"].distinct, found.columns["id"].distinct) == (6, 600)
    assert found.columns["id"].is_exact
    append(6)
    made.write()
    found, again = kept(made.folder, out, sampled_files=7)  # one new file of seven: one of seven is read
    assert len(again) == 1


def test_a_table_with_other_files_or_columns_is_sampled_anew(tmp_path):
    out = tmp_path / "t.json"
    for name, files in (("t", 4), ("other", 4)):
        found, read = kept(table(tmp_path / name, files=files), out)
        assert len(read) == 4
        assert found.columns["id"].is_exact
    made = Table(tmp_path / "t2", {"id": "long", "tags": ["string"]})
    made.append([{"id": 1, "tags": ["a"]}])
    made.write()
    found, read = kept(made.folder, out)
    assert (len(read), set(found.columns)) == (1, {"id", "tags"})


def test_what_manifests_count_is_not_estimated(tmp_path):
    """NULLs of a file that is not in the sample."""
    made = Table(tmp_path / "t", {"id": "long"})
    for nulls in (0, 90, 0):
        made.append([{"id": None if row < nulls else row} for row in range(100)])
    made.write()
    found = collect(parse_options({"path": str(made.folder)}), {}, sampled_files=2).columns["id"]
    assert (found.nulls, found.is_exact) == (90, False)


@pytest.mark.parametrize("seed", [1, 2])
def test_overlap_is_the_share_of_files_that_hold_a_value(seed):
    rng = random.Random(seed)
    bounds = [sorted((rng.randrange(100), rng.randrange(100))) for _ in range(40)]
    held = sum(low <= value <= high for value, _ in bounds for low, high in bounds)
    assert overlap_of(bounds) == pytest.approx(held / 1600)
    assert overlap_of(bounds[:2]) is None


def test_a_sketch_may_take_values_of_their_own_for_a_few_less():
    assert estimate_distinct(97_000, 100_000, 10**9, is_counted=False) == pytest.approx(0.97e9)
    assert estimate_distinct(102_000, 100_000, 10**9, is_counted=False) == 10**9
    assert estimate_distinct(97_000, 100_000, 10**9) < 10**7


def test_the_days_that_times_span(tmp_path):
    start = datetime.datetime(2026, 1, 1)
    made = Table(tmp_path / "t", {"ts": "timestamp", "day": "date", "n": "int"})
    for first in (0, 40):
        rows = range(first, first + 10)
        made.append([{"ts": start + datetime.timedelta(days=n), "day": start.date(), "n": n} for n in rows])
    made.write()
    found = collect(parse_options({"path": str(made.folder)}), {}).columns
    assert [found[name].span_days for name in ("ts", "day", "n")] == [49.0, 0.0, None]
