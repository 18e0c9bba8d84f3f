"""What `cells.EXCLUDED` says cannot be: each reason is tried, and the test fails once it works."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DATA_FILE_TYPE
from pyiceberg.transforms import BucketTransform

from check import ids
from tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    made.create_namespace("db")
    yield made
    made.engine.dispose()


def _written(catalog: SqlCatalog, version: int = 2, **properties: str) -> Any:
    known = {"format-version": str(version), **{key.replace("_", "."): v for key, v in properties.items()}}
    table = catalog.create_table("db.t", schema=ROWS.schema, properties=known)
    table.append(ROWS)
    return table


def test_version_1_cannot_say_that_a_file_is_a_delete(tmp_path: Path) -> None:
    """Its manifest lists and entries lack the field ``content``, so that the builder's delete file is none."""
    table = Table(tmp_path, {"id": "long"}, version=1)
    file = table.append(ids(3))
    table.delete_positions({file: [0]}, "parquet")
    lists = [path for path in (tmp_path / "metadata").glob("snap-*.avro")]
    manifests = list((tmp_path / "metadata").glob("manifest-*.avro"))
    assert lists
    assert manifests
    for path in (*lists, *manifests):
        with path.open("rb") as opened:
            found = str(fastavro.reader(opened).writer_schema)
        assert "'content'" not in found, path
    assert "content" not in {field.name for field in DATA_FILE_TYPE[1].fields}
    assert "content" in {field.name for field in DATA_FILE_TYPE[2].fields}


def test_version_2_cannot_say_where_a_vector_lies() -> None:
    """Its entries lack the place of a blob in a file, in PyIceberg's list of fields as in the specification."""
    of_version_3 = {field.name for field in DATA_FILE_TYPE[3].fields} - {
        field.name for field in DATA_FILE_TYPE[2].fields
    }
    assert {"content_offset", "content_size_in_bytes", "referenced_data_file"} <= of_version_3


def test_pyiceberg_writes_no_version_3(catalog: SqlCatalog) -> None:
    with pytest.raises(Exception, match="(?i)v3|version 3|not yet supported"):
        _written(catalog, 3)


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_pyiceberg_writes_parquet_only(catalog: SqlCatalog, file_format: str) -> None:
    """It refuses, or writes Parquet all the same."""
    try:
        table = _written(catalog, write_format_default=file_format)
    except (ValueError, NotImplementedError, KeyError):
        return
    formats = {task.file.file_format.value.lower() for task in table.scan().plan_files()}
    assert formats == {"parquet"}


@pytest.mark.filterwarnings("ignore:Merge on read")
def test_pyiceberg_writes_no_delete_files(catalog: SqlCatalog) -> None:
    table = _written(catalog, write_delete_mode="merge-on-read")
    table.delete(EqualTo("id", 2))
    tasks = list(table.scan().plan_files())
    assert [len(task.delete_files) for task in tasks] == [0]
    assert table.scan().to_arrow()["id"].to_pylist() == [1, 3]


def test_pyiceberg_has_no_such_partitions_without_its_compiled_package(catalog: SqlCatalog) -> None:
    assert importlib.util.find_spec("pyiceberg_core") is None
    table = catalog.create_table("db.t", schema=ROWS.schema)
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(4), "part")
    with pytest.raises(Exception, match="pyiceberg[-_]core"):
        table.append(ROWS)
