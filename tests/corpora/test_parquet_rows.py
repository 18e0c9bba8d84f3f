"""Every Parquet file of the folder ``TWOSTAGE_TABLES`` as the only file of a table: pyarrow's rows, or refused by code.

The whole way is taken: metadata, plan, read. What is neither is listed here with its reason.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oracle
from core_scan import open_table, scan
from single_file_tables import Derived, NoIcebergTypeError, single_file_table
from twostage.errors import TwoStageError
from twostage.formats.parquet.footer import read_footer

ROOT = Path(os.environ.get("TWOSTAGE_TABLES", "."))
FILES = (
    sorted(p for p in ROOT.rglob("*.parquet*") if p.is_file() and p.suffix in (".parquet", ".encrypted"))
    if os.environ.get("TWOSTAGE_TABLES")
    else []
)
pytestmark = pytest.mark.skipif(not FILES, reason="TWOSTAGE_TABLES is not set")
MOST_ROWS = 60_000
REFUSED = {
    "issue23.parquet": "CORRUPT_METADATA",  # one field id on two columns, which no table has
    "datapage_v1-corrupt-checksum.parquet": "CORRUPT_FILE",
    "rle-dict-uncompressed-corrupt-checksum.parquet": "CORRUPT_FILE",
    "ARROW-GH-45185.parquet": "CORRUPT_FILE",
    "ARROW-GH-47662.parquet": "CORRUPT_FILE",
    "ARROW-RS-GH-6229-LEVELS.parquet": "CORRUPT_FILE",
}
FOOTERS = {"ENCRYPTED_PARQUET", "CORRUPT_PARQUET"}
NO_REFERENCE = {"incorrect_map_schema.parquet", "large_string_map.brotli.parquet"}
"""pyarrow refuses optional map keys, and a map of 2 GiB in one batch."""
UNSIGNED = {
    "concatenated_gzip_members.parquet", "nested_structs.rust.parquet", "signs.parquet", "ARROW-GH-41321.parquet",
}  # fmt: skip
"""Of 64 unsigned bits, for which Iceberg has no type."""


def rows_of(reader: pq.ParquetFile) -> list[tuple[object, ...]]:
    schema = pa.schema([field.with_type(_in_micros(field.type)) for field in reader.schema_arrow])
    return [row for batch in reader.iter_batches() for row in oracle.batch_rows(batch.cast(schema))]


def _in_micros(kind: pa.DataType) -> pa.DataType:
    """Return the type of a top-level column with milliseconds as the table has them."""
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) and kind.unit in ("s", "ms") else kind


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_read_whole_or_refused(path: Path, tmp_path: Path) -> None:
    try:
        with pa.OSFile(str(path)) as file:
            read_footer(file, file.size(), str(path))
    except TwoStageError as error:
        assert error.code in FOOTERS  # pyarrow must not see it
        return
    if path.name in NO_REFERENCE:
        pytest.skip("pyarrow refuses it")
    reader = pq.ParquetFile(path, coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False)
    if reader.metadata.num_rows > MOST_ROWS:
        pytest.skip("too many rows to compare one by one")
    schema = reader.schema_arrow
    try:
        derived = Derived(schema)
        metadata = single_file_table(tmp_path, path, schema, reader.metadata.num_rows, "parquet")
    except NoIcebergTypeError:
        assert path.name in UNSIGNED
        return
    if path.name in REFUSED:
        with pytest.raises(TwoStageError) as raised:
            scan(open_table(metadata, allowed_locations=str(ROOT)))
        assert raised.value.code == REFUSED[path.name]
        return
    found = scan(open_table(metadata, allowed_locations=str(ROOT))).rows
    if derived.is_partly_identified:  # where some fields have ids, those without are not the table's
        assert len(found) == reader.metadata.num_rows
        kept = [place for place, field in enumerate(schema) if derived.is_whole(field)]
        narrowed = [tuple(row[place] for place in kept) for row in rows_of(reader)]
        assert not (problem := oracle.difference([tuple(row[p] for p in kept) for row in found], narrowed)), (
            problem
        )
        for place, field in enumerate(schema):
            if derived.is_unknown(field):
                assert {row[place] for row in found} <= {None}
        return
    assert not (problem := oracle.difference(found, rows_of(reader))), problem


def test_the_lists_name_files_that_are_there() -> None:
    names = {path.name for path in FILES}
    assert names >= {*REFUSED, *NO_REFERENCE, *UNSIGNED}
    assert len(FILES) > 400
