"""A data file is opened by its format, with nothing imported for other formats."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import twostage
from declared.files import FileOptions, write_rows
from declared.types import Column
from scan_values import context_of, task_of
from twostage.data_files.avro_file import AvroDataFile
from twostage.data_files.open_data_file import open_data_file
from twostage.data_files.orc_file import OrcDataFile
from twostage.data_files.parquet_file import ParquetDataFile
from twostage.errors import CorruptFileError, MissingFileError
from twostage.metrics import Metrics
from twostage.task import ScanContext, ScanTask

COLUMNS = [Column(1, "k", "long")]
READERS = {"parquet": ParquetDataFile, "orc": OrcDataFile, "avro": AvroDataFile}


def scan_of(path: Path) -> tuple[ScanContext, ScanTask]:
    size = path.stat().st_size if path.exists() else 100
    task = task_of(
        path=str(path), written_path=str(path), format=path.suffix[1:], file_size=size, length=size
    )
    return context_of(path.parent, COLUMNS), task


@pytest.mark.parametrize("file_format", READERS)
def test_each_format_has_its_reader(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / f"f.{file_format}"
    options = FileOptions(format=file_format, mixed=file_format != "parquet")
    write_rows(path, COLUMNS, [{1: n} for n in range(5)], options)
    context, task = scan_of(path)
    with open_data_file(context, task, Metrics()) as file:
        assert type(file) is READERS[file_format]
        found = [
            file.read(group, context.schema.fields, "fetch")[0].to_pylist() for group in file.row_groups()
        ]
    assert sum(found, []) == list(range(5))  # noqa: RUF017 - one row group or two


@pytest.mark.parametrize("file_format", READERS)
def test_a_missing_and_a_damaged_file(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / f"f.{file_format}"
    with pytest.raises(MissingFileError) as missing:
        open_data_file(*scan_of(path), Metrics())
    path.write_bytes(b"nothing of the sort")
    with pytest.raises(CorruptFileError) as damaged:
        open_data_file(*scan_of(path), Metrics())
    assert missing.value.path == damaged.value.path == str(path)


def test_a_worker_that_reads_parquet_imports_no_other_reader() -> None:
    script = (
        "import sys, twostage.data_files.open_data_file\n"
        "print([name for name in sys.modules if name.endswith(('orc_file', 'avro_file', 'fastavro'))])"
    )
    folders = os.pathsep.join(str(Path(path)) for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": f"{Path(twostage.__file__).parents[1]}{os.pathsep}{folders}"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "[]"
