"""Footers that Arrow refuses and other readers do not: DuckDB's rows of the same file, or an error that says so.

The files are those of `annotated_files`.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oracle
from annotated_files import CASES, COUNT, DATA, LISTS, annotate, loose_maps, without_the_middle
from check import Columns
from core_scan import open_table, scan
from single_file_tables import single_file_table
from tables import Table
from twostage.columns import project_names
from twostage.errors import CorruptFileError, TwoStageError, UnsupportedFeatureError
from twostage.formats.parquet.arrow_footer import arrow_footer
from twostage.formats.parquet.footer import read_footer
from twostage.predicates.predicate import Compare, IsNull
from twostage.storage.errors import translate_errors

ROOT = os.environ.get("TWOSTAGE_TABLES", "")


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return [row for batch in table.to_batches() for row in oracle.batch_rows(batch)]


@pytest.mark.parametrize("name", [*CASES])
def test_annotations_that_arrow_refuses_are_left_out(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file.parquet"
    annotate(path, DATA, CASES[name])
    with pytest.raises((pa.ArrowException, OSError)):
        pq.ParquetFile(path).schema_arrow  # noqa: B018 - what is asked is whether it can be
    expected = rows_of(DATA)
    # DuckDB refuses a map of pairs of the older name, and shows a struct that is called a list as its child.
    columns = {"both ways": "", "called a": "id, m, l, n, t, f"}
    asked = next((listed for part, listed in columns.items() if part in name), "*")
    found = duckdb.sql(f"SELECT {asked} FROM read_parquet('{path}')").to_arrow_table() if asked else DATA
    same = DATA.select(found.column_names)
    assert not oracle.difference(rows_of(found.cast(same.schema)), rows_of(same))
    opened_as = single_file_table(tmp_path / "table", path, DATA.schema, COUNT, "parquet")
    for pages in ("auto", "always", "never"):
        opened = open_table(opened_as, allowed_locations=str(tmp_path), **{"read.pages": pages})
        c = Columns(opened.table.schema)
        assert not oracle.difference(scan(opened).rows, expected)
        few = scan(opened, predicate=Compare("=", c("id"), 237)).rows
        assert not oracle.difference(few, expected[237:238])
        missing = scan(opened, project_names(opened.table.schema, ["id"]), predicate=IsNull(c("m"))).rows
        assert sorted(row[0][1] for row in missing) == list(range(0, COUNT, 5))


def test_maps_with_optional_keys(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    holds = loose_maps(path)
    with pytest.raises(pa.ArrowInvalid, match="keys must be annotated"):
        pq.ParquetFile(path)
    expected = rows_of(holds)
    asked = duckdb.sql(f"SELECT * FROM read_parquet('{path}')").to_arrow_table().cast(holds.schema)
    assert not oracle.difference(rows_of(asked), expected)
    metadata = single_file_table(tmp_path / "table", path, holds.schema, COUNT, "parquet")
    for pages in ("auto", "always", "never"):
        opened = open_table(metadata, allowed_locations=str(tmp_path), **{"read.pages": pages})
        schema = opened.table.schema
        assert not oracle.difference(scan(opened).rows, expected)
        few = scan(opened, predicate=Compare("=", Columns(schema)("id"), 237)).rows
        assert not oracle.difference(few, expected[237:238])
        (part,) = scan(
            opened, project_names(schema, ["d.y"]), predicate=Compare("=", Columns(schema)("id"), 5)
        ).rows
        assert part == (("struct", (("int", 5),)),)
        assert len(scan(opened, predicate=IsNull(Columns(schema)("m"))).rows) == COUNT // 5


def test_a_map_key_that_is_null_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    without_the_middle(path, pa.table({"id": [1], "m": pa.array([[{"key": None, "value": 1}]], LISTS)}))
    schema = pa.schema([("id", pa.int64()), ("m", pa.map_(pa.string(), pa.int64()))])
    opened = open_table(
        single_file_table(tmp_path / "table", path, schema, 1, "parquet"), allowed_locations=str(tmp_path)
    )
    with pytest.raises(CorruptFileError, match=r"NULL_IN_REQUIRED_COLUMN.*'m'.*key that is NULL"):
        scan(opened)


def test_equality_deletes_in_such_a_file(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "n": "long"})
    table.append([{"id": i, "n": i} for i in range(10)])
    delete = table.delete_equal(["n"], [{"n": 3}, {"n": 5}])
    metadata = table.write()
    path = Path(delete.path)
    annotate(path, pq.read_table(path), {("n",): {9: ("i32", 2), 6: ("i32", 0)}})
    with pytest.raises((pa.ArrowException, OSError)):
        pq.ParquetFile(path)
    found = sorted(row[0][1] for row in scan(open_table(metadata)).rows)
    assert found == [i for i in range(10) if i not in (3, 5)]


def test_what_arrow_cannot_read_either_way_is_said_so(tmp_path: Path) -> None:
    """Bytes of a fixed length of zero."""
    path = tmp_path / "file.parquet"
    data = pa.table({"id": [1], "f": pa.array([b"abcd"], pa.binary(4))})
    annotate(path, data, {("f",): {2: ("i32", 0)}})
    schema = pa.schema([("id", pa.int64()), ("f", pa.binary())])
    opened = open_table(
        single_file_table(tmp_path / "table", path, schema, 1, "parquet"), allowed_locations=str(tmp_path)
    )
    with pytest.raises(
        UnsupportedFeatureError, match=r"UNREADABLE_BY_ARROW.*cannot read the file's schema.*file\.parquet"
    ):
        scan(opened)


@pytest.mark.skipif(not ROOT, reason="TWOSTAGE_TABLES is not set")
def test_maps_with_optional_keys_of_an_old_writer(tmp_path: Path) -> None:
    files = sorted(Path(ROOT).rglob("incorrect_map_schema.parquet"))
    assert files
    for number, path in enumerate(files):
        found = duckdb.sql(f"SELECT * FROM read_parquet('{path}')").to_arrow_table()
        kind = pa.schema([(name, pa.map_(pa.string(), pa.string())) for name in found.column_names])
        metadata = single_file_table(tmp_path / str(number), path, kind, found.num_rows, "parquet")
        rows = scan(open_table(metadata, allowed_locations=ROOT)).rows
        assert rows
        assert not oracle.difference(rows, rows_of(found.cast(kind)))


def test_damaged_schemas_end_in_a_footer_or_a_typed_error(tmp_path: Path) -> None:
    """Schemas that Arrow refuses are written anew: whatever else is in them, no foreign exception leaves."""
    seed = int(os.environ.get("TWOSTAGE_SEED", "3"))
    source = random.Random(seed)
    path = tmp_path / "file.parquet"
    annotate(path, DATA, next(iter(CASES.values())))
    whole = path.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    ends = Counter[str]()
    for _ in range(12_000):
        data = bytearray(whole)
        for _ in range(source.randint(1, 2)):
            data[len(whole) - 8 - size + source.randrange(min(size, 500))] = source.randrange(256)
        try:
            with translate_errors(str(path), "open"):
                arrow_footer(read_footer(pa.BufferReader(bytes(data)), len(data), str(path)), str(path))
            ends["footer"] += 1
        except TwoStageError as error:
            ends[error.code] += 1
        except Exception as error:
            error.add_note(f"seed {seed}: {bytes(data[-8 - size :])!r}")
            raise
    assert ends["footer"] > 100, (seed, ends)
    assert ends.total() - ends["footer"] > 1_000, (seed, ends)
