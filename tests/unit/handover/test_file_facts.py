"""What footers say of a file, against files that pyarrow writes; read once until the file changes."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from annotated_files import annotate
from late_store import serve_late
from twostage.errors import CorruptFileError, MissingFileError
from twostage.formats.parquet.footer import read_footer
from twostage.handover import file_facts as module
from twostage.handover.file_facts import FileFacts, count_uncached, facts_of, file_facts
from twostage.predicates.bounds import Bounds
from twostage.schema import Primitive
from twostage.task import Storage


def written(path, table: pa.Table, **options: Any) -> FileFacts:
    pq.write_table(table, path, **options)
    with pa.OSFile(str(path)) as file:
        kinds = {1: Primitive("long"), 2: Primitive("string"), 3: Primitive("double"), 4: Primitive("string")}
        return facts_of(read_footer(file, file.size(), str(path)), kinds)


def fields(*items: tuple[str, pa.DataType, int | None]) -> pa.Schema:
    ids = lambda number: None if number is None else {"PARQUET:field_id": str(number)}
    return pa.schema([pa.field(name, kind, metadata=ids(number)) for name, kind, number in items])


def test_facts_of_a_file(tmp_path):
    schema = fields(
        ("a", pa.int64(), 1), ("b", pa.string(), 2), ("c", pa.float64(), 3), ("s", pa.list_(pa.int32()), 5)
    )
    rows = pa.table({"a": [7] * 10, "b": [None] * 10, "c": [0.0, -0.0] * 5, "s": [[1]] * 10}, schema)
    known = written(tmp_path / "f", rows, row_group_size=4, compression={"a": "zstd", "b": "snappy"})
    assert known.num_rows == 10
    assert known.file_size == (tmp_path / "f").stat().st_size
    assert known.single_values == {1: 7, 2: None}  # of a double 0.0 and -0.0 are two values
    assert known.columns[1].codecs == {"ZSTD"}
    assert known.columns[1].physical == "INT64"
    assert known.columns[5] is None
    assert known.has_all_ids
    assert not known.has_legacy_calendar


def test_row_groups_that_spark_finds(tmp_path):
    """By the place of their first column: behind the others it may lie in no split, and two at one place are one."""
    pq.write_table(pa.table({"a": range(9), "b": range(9)}), tmp_path / "f", row_group_size=3)
    with pa.OSFile(str(tmp_path / "f")) as file:
        footer = read_footer(file, file.size(), "f")
    assert facts_of(footer, {}).has_ordered_chunks
    first, second, third = footer.row_groups
    swapped = replace(second, columns=second.columns[::-1])
    empty = replace(first, num_rows=0)
    assert not facts_of(replace(footer, row_groups=(first, swapped, third)), {}).has_ordered_chunks
    assert not facts_of(replace(footer, row_groups=(first, second, second)), {}).has_ordered_chunks
    assert first.stated_bytes, "pyarrow states them"
    for stated, is_found in ((None, True), (0, True), (2 * footer.file_size, False), (-8, False)):
        groups = (first, replace(second, stated_bytes=stated), third)
        assert facts_of(replace(footer, row_groups=groups), {}).has_ordered_chunks is is_found
    assert not facts_of(replace(footer, row_groups=(replace(first, columns=()),)), {}).has_ordered_chunks
    assert facts_of(replace(footer, row_groups=(third, empty, first)), {}).has_ordered_chunks


def test_ranges_of_whole_numbers_and_dates(tmp_path):
    """Of all row groups; a group of NULLs has none and needs none, and without statistics nothing is known."""
    days = [datetime.date(2024, 1, day) if day else None for day in (0, 0, 3, 9)]
    columns = {
        "a": [5, 2, None, 7],
        "b": [1, 2, 3, 4],
        "d": days,
        "s": ["x"] * 4,
        "n": [None] * 4,
        "f": [1.0] * 4,
    }
    kinds = [pa.int64(), pa.int32(), pa.date32(), pa.string(), pa.int64(), pa.float64()]
    schema = fields(
        *((name, kind, 10 + n) for n, (name, kind) in enumerate(zip(columns, kinds, strict=True)))
    )
    rows = pa.table(columns, schema)
    first = (datetime.date(2024, 1, 1) - datetime.date(1970, 1, 1)).days - 1
    known = written(tmp_path / "f", rows, row_group_size=2)
    assert known.ranges == {10: (2, 7), 11: (1, 4), 12: (first + 3, first + 9)}
    assert written(tmp_path / "g", rows, write_statistics=False).ranges == {}


def test_one_value_in_each_row_group_is_not_one_value(tmp_path):
    schema = fields(("a", pa.int64(), 1), ("b", pa.string(), 2))
    rows = pa.table({"a": [1, 1, 2, 2], "b": ["x" * 100] * 3 + [None]}, schema)
    assert written(tmp_path / "f", rows, row_group_size=2).single_values == {}
    assert written(tmp_path / "g", rows, write_statistics=False).single_values == {}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (fields(("a", pa.int64(), 1), ("b", pa.int64(), None)), False),
        (fields(("a", pa.int64(), None), ("b", pa.int64(), None)), False),
        (fields(("a", pa.int64(), 1), ("b", pa.int64(), 1)), False),
        (fields(("a", pa.int64(), 1), ("b", pa.int64(), 2)), True),
    ],
)
def test_ids(tmp_path, schema, expected):
    assert written(tmp_path / "f", pa.table({"a": [1], "b": [2]}, schema)).has_all_ids == expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"org.apache.spark.legacyDateTime": ""}, True),
        ({"org.apache.spark.version": "2.4.8"}, True),
        ({"org.apache.spark.version": "3.5.1"}, False),
        ({}, False),
    ],
)
def test_calendar(tmp_path, metadata, expected):
    rows = pa.table({"a": [1]}, fields(("a", pa.int64(), 1))).replace_schema_metadata(metadata)
    assert written(tmp_path / "f", rows).has_legacy_calendar == expected


def test_facts_are_kept_until_the_file_changes(tmp_path):
    path = tmp_path / "f"
    schema = fields(("a", pa.int64(), 1))
    pq.write_table(pa.table({"a": [1]}, schema), path)
    storage, asked = Storage(root=str(tmp_path)), {1: Primitive("long")}
    assert count_uncached(Storage(), [str(path)], asked) == 1
    (first,) = file_facts(storage, [str(path)], asked)
    assert count_uncached(Storage(), [str(path)], asked) == 0
    assert count_uncached(Storage(), [str(path)], {}) == 1  # another question
    assert file_facts(storage, [str(path)], asked)[0] is first
    pq.write_table(pa.table({"a": [1, 2]}, schema), path)
    path.touch()
    assert file_facts(storage, [str(path)] * 3, asked)[2].num_rows == 2


def test_facts_of_columns(tmp_path):
    """Bytes are summed over row groups; names of rows' places are found in any case, as Spark finds them."""
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"}),
            pa.field("_TMP_metadata_row_index", pa.int64(), metadata={"PARQUET:field_id": "2"}),
        ]
    )
    known = written(tmp_path / "f", pa.table([[1, 2, 3], [4, 5, 6]], schema=schema), row_group_size=2)
    metadata = pq.read_metadata(tmp_path / "f")
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
    assert len(groups) == 2
    assert known.columns[1].num_bytes == sum(group.column(0).total_compressed_size for group in groups)
    assert (known.columns[1].is_required, known.columns[2].is_required) == (True, False)
    assert known.has_row_index
    assert not written(tmp_path / "g", pa.table({"a": [1]}, fields(("a", pa.int64(), 1)))).has_row_index


def test_bounds_that_are_not_exact_prove_no_value(tmp_path, monkeypatch):
    rows = pa.table({"b": ["x"] * 3}, fields(("b", pa.string(), 2)))
    assert written(tmp_path / "f", rows).single_values == {2: "x"}
    for exact in ({"exact_lower": True}, {"exact_upper": True}):
        known = Bounds(lower="x", upper="x", null_count=0, **exact)
        monkeypatch.setattr(module, "row_group_bounds", lambda *_, known=known: known)
        assert written(tmp_path / "f", rows).single_values == {}


def test_repeated_columns_have_no_facts(tmp_path):
    """As old writers wrote lists: several values a row, and no group around them."""
    path, rows = tmp_path / "f", pa.table({"a": [1, 2]}, fields(("a", pa.int64(), 1)))
    annotate(path, rows, {("a",): {3: ("i32", 2)}})
    with pa.OSFile(str(path)) as file:
        assert facts_of(read_footer(file, file.size(), str(path)), {}).columns == {1: None}


def test_footers_in_an_object_store_are_asked_for_together(tmp_path):
    schema = fields(("a", pa.int64(), 1), ("b", pa.string(), 2))
    names = [f"f{number}" for number in range(8)]
    for number, name in enumerate(names):
        rows = pa.table({"a": [number] * 3, "b": ["x"] * 3}, schema)
        pq.write_table(rows, tmp_path / name)
    # A footer longer than what is read first: the rest takes another request.
    wide = pa.table(
        {f"c{n}": [n] for n in range(2_000)}, fields(*((f"c{n}", pa.int64(), n) for n in range(2_000)))
    )
    pq.write_table(wide, tmp_path / "wide")
    with serve_late(tmp_path) as store:
        properties = {key.removeprefix("catalog."): value for key, value in store.options.items()}
        storage = Storage(root="s3://lake/", properties=properties)
        paths = [f"s3://lake/{name}" for name in (*names, "wide")]
        sizes = [(tmp_path / name).stat().st_size for name in (*names, "wide")]
        store.rounds = True
        found = file_facts(storage, paths, {1: Primitive("long")}, sizes)
        assert [known.single_values.get(1) for known in found[:-1]] == list(range(8))
        assert len(found[-1].columns) == 2_000
        assert [known.file_size for known in found] == sizes
        assert (len(store.log), store.depth) == (10, 2)
        assert {one.method for one in store.log} == {"GET"}
        assert file_facts(storage, paths, {1: Primitive("long")}, sizes) == found
        assert len(store.log) == 10
        store.rounds = False
        with pytest.raises(MissingFileError):
            file_facts(storage, ["s3://lake/gone"], {}, [100])
        with pytest.raises(CorruptFileError):
            file_facts(storage, ["s3://lake/f1"], {}, [sizes[1] + 5])


def test_facts_are_of_one_store_and_one_size(tmp_path):
    """Two stores may have buckets of one name, and a path may be written anew: neither is given the other's facts."""
    found, columns = [], {1: Primitive("long")}
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        pq.write_table(pa.table({"a": [number] * (3 + number)}, fields(("a", pa.int64(), 1))), folder / "f")
        pq.write_table(pa.table({"a": [5] * 10_000}, fields(("a", pa.int64(), 1))), folder / "longer")
        with serve_late(folder) as store:
            properties = {key.removeprefix("catalog."): value for key, value in store.options.items()}
            storage = Storage(root="s3://lake/", properties=properties)
            sizes = [(folder / "f").stat().st_size]
            assert count_uncached(storage, ["s3://lake/f"], columns, sizes) == 1
            found += file_facts(storage, ["s3://lake/f"], columns, sizes)
            assert count_uncached(storage, ["s3://lake/f"], columns, sizes) == 0
            (folder / "longer").replace(folder / "f")
            sizes = [(folder / "f").stat().st_size]
            assert count_uncached(storage, ["s3://lake/f"], columns, sizes) == 1
            found += file_facts(storage, ["s3://lake/f"], columns, sizes)
    assert [known.single_values.get(1) for known in found] == [0, 5, 1, 5]
    assert [known.num_rows for known in found] == [3, 10_000, 4, 10_000]
