"""ORC and Avro files with changed bytes: a typed error that names the file, or rows; never anything else."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from declared.files import FileOptions, write_rows
from drawn_columns import Values, columns
from opened import open_file, schema_of
from twostage.data_files.orc_file import _tails
from twostage.errors import TwoStageError
from twostage.task import Storage

MUTATIONS = 150


def try_to_read(path, schema) -> str:
    """Read everything there is; return "rows" or the error's code."""
    _tails.clear()
    try:
        with open_file(path, schema) as file:
            for group in file.row_groups():
                for field_id in schema.field_ids():
                    file.bounds(group, field_id)
                for array in file.read(group, schema.fields, "fetch"):
                    assert len(array) == group.num_rows
                    array.validate(full=True)
    except TwoStageError as error:
        assert error.path == str(path)
        assert error.stage in ("open", "prune", "fetch")
        return error.code
    return "rows"


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd", "snappy", "lz4"])
@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_changed_bytes(file_format, codec, tmp_path):
    if file_format == "avro" and codec in ("zstd", "snappy", "lz4"):
        pytest.skip("not written by the test's writer")
    fields = columns()
    values = Values(7, 0.2)
    original = tmp_path / f"original.{file_format}"
    rows = [values.row(fields) for _ in range(200)]
    write_rows(
        original,
        fields,
        rows,
        FileOptions(format=file_format, mixed=True, row_group_size=100, compression=codec),
    )
    data, schema = original.read_bytes(), schema_of(fields)
    assert try_to_read(original, schema) == "rows"
    seen = Counter()
    path = tmp_path / f"changed.{file_format}"
    for seed in range(MUTATIONS):
        pick = random.Random(seed)
        changed = bytearray(data)
        for _ in range(pick.randint(1, 3)):  # half of them in the tail, which holds the most to break
            last = len(data) - 1
            place = (
                pick.randrange(len(data))
                if pick.random() < 0.5
                else last - pick.randrange(min(len(data), 1500))
            )
            changed[place] = pick.randrange(256)
        if pick.random() < 0.1:
            changed = changed[: pick.randrange(len(data))]
        path.write_bytes(changed)
        seen[try_to_read(path, schema)] += 1
    assert seen[f"CORRUPT_{file_format.upper()}"] > MUTATIONS / 4, seen


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ORC",
        b"ORC" + bytes(3),
        b"ORC" + b"\xff" * 300,
        b"Obj\x01",
        b"Obj\x01" + b"\xff" * 30,
        b"Obj\x01\x02\x16avro.schema\xfe\xff\xff\xff\xff\x01",
        b"PAR1" + bytes(100),
    ],
)
@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_a_file_that_is_none(file_format, data, tmp_path):
    path = tmp_path / f"file.{file_format}"
    path.write_bytes(data)
    assert try_to_read(path, schema_of(columns())) == f"CORRUPT_{file_format.upper()}"


@pytest.mark.parametrize(
    ("file_format", "reader"),
    [
        ("orc", "twostage.data_files.orc_file.read_tail"),
        ("avro", "twostage.data_files.avro_file.AvroDataFile._read_header"),
    ],
)
def test_what_a_library_says_is_shown_without_secrets(file_format, reader, tmp_path, monkeypatch):
    """Regression: ORC and Avro files did not take the storage's secrets out of a library's message."""

    def refuse(*_):
        raise OSError("GET https://lake/t?key=abc4711 refused: abc4711")

    path = tmp_path / f"file.{file_format}"
    write_rows(path, columns(), [Values(7, 0.2).row(columns())], FileOptions(format=file_format, mixed=True))
    monkeypatch.setattr(reader, refuse)
    with pytest.raises(TwoStageError, match=r"\*\*\*") as caught:
        open_file(path, schema_of(columns()), storage=Storage(properties={"s3.session-token": "abc4711"}))
    assert "abc4711" not in str(caught.value)
