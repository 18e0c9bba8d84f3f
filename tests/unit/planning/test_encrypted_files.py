"""Key metadata of manifests: plain files beside it are read, encrypted ones refused while planning, by name."""

from __future__ import annotations

import base64
import datetime
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from check import Columns
from core_scan import open_table, scan, with_options
from late_store import serve_late
from tables import Table
from twostage.aggregates.metadata_answer import Aggregate, AggregateAnswer, answer
from twostage.errors import CorruptFileError, MissingFileError, UnsupportedFeatureError
from twostage.planning import encrypted_files
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, Compare
from twostage.task import Storage

if TYPE_CHECKING:
    from core_scan import Opened

ROOT = os.environ.get("TWOSTAGE_TABLES", "")
ROWS = [{"id": i, "name": f"n{i}"} for i in range(20)]


class Keys(pe.KmsClient):
    """Wraps keys in nothing: what is encrypted here is no secret."""

    def __init__(self, _: Any) -> None:
        pe.KmsClient.__init__(self)

    def wrap_key(self, key: bytes, master: str) -> bytes:  # noqa: ARG002
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, master: str) -> bytes:  # noqa: ARG002
        return base64.b64decode(wrapped)


def encrypt(path: Path, *, plain_footer: bool) -> None:
    """Write a Parquet file again, encrypted by Arrow."""
    table = pq.read_table(path)
    settings = pe.EncryptionConfiguration(
        footer_key="f",
        column_keys={"c": ["name"]},
        plaintext_footer=plain_footer,
        cache_lifetime=datetime.timedelta(minutes=1),
    )
    properties = pe.CryptoFactory(Keys).file_encryption_properties(pe.KmsConnectionConfig(), settings)
    pq.write_table(table, path, encryption_properties=properties)


def keyed(file: Any) -> Any:
    file.entry["key_metadata"] = b"\x01key"
    return file


def ids(opened: Opened, **query: Any) -> list[int]:
    return sorted(row[0][1] for row in scan(opened, **query).rows)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_plain_files_are_read(tmp_path: Path, file_format: str, version: int) -> None:
    """Data files, positional and equality deletes, vectors: all plain, all with key metadata."""
    table = Table(tmp_path, {"id": "long", "name": "string"}, version=version)
    with table.transaction():
        file = keyed(table.append(ROWS, format=file_format))
    with table.transaction():
        deletes = table.delete_vectors({file: [1]}) if version == 3 else table.delete_positions({file: [1]})
        keyed(deletes[0])
    with table.transaction():
        keyed(table.delete_equal(["name"], [{"name": "n2"}]))
    opened = open_table(table.write())
    assert ids(opened) == [0, *range(3, 20)]
    assert ids(opened, predicate=Compare(">", Columns(opened.table.schema)("id"), 17)) == [18, 19]
    assert ids(with_options(opened, {"two-stage": "false"})) == [0, *range(3, 20)]


def test_metadata_answers_for_files_with_key_metadata(tmp_path: Path) -> None:
    """Encrypted or not: counts and bounds of a manifest that can be read are plain."""
    table = Table(tmp_path, {"id": "long", "name": "string"})
    with table.transaction():
        file = keyed(table.append(ROWS))
    opened = open_table(table.write())
    encrypt(Path(file.path), plain_footer=False)
    column = opened.table.schema.fields[0]
    asked = (Aggregate("rows"), Aggregate("min", column), Aggregate("max", column))
    found = answer(opened.table, opened.options, aggregates=asked, groups=())
    assert isinstance(found, AggregateAnswer)
    assert list(found.rows) == [(20, 0, 19)]


@pytest.mark.parametrize("plain_footer", [False, True])
def test_encrypted_parquet_files_are_refused_while_planning(tmp_path: Path, plain_footer: bool) -> None:  # noqa: FBT001
    table = Table(tmp_path, {"id": "long", "name": "string"})
    with table.transaction():
        file = keyed(table.append(ROWS))
        other = table.append([{"id": 50, "name": "x"}])
    opened = open_table(table.write())
    encrypt(Path(file.path), plain_footer=plain_footer)
    with pytest.raises(
        UnsupportedFeatureError, match=r"UNSUPPORTED_ENCRYPTION.*Data file is.*file-\d"
    ) as raised:
        planned(opened)
    assert raised.value.path == file.path
    assert raised.value.stage == "plan"
    only = Compare(">", Columns(opened.table.schema)("id"), 30)
    assert ids(opened, predicate=only) == [50]  # nobody asks for the others
    del other


def planned(opened: Opened) -> Any:
    return plan_scan(
        opened.table, opened.options, projection=opened.table.schema.fields, predicate=TRUE, hint=TRUE, limit=None,
        parallelism=1, scan_id="scan",
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["orc", "avro", "position", "vector", "equality"])
def test_encrypted_streams_are_refused_while_planning(tmp_path: Path, kind: str) -> None:
    """Files that Iceberg encrypts as a whole begin with AGS1, and the length of their blocks."""
    table = Table(tmp_path, {"id": "long", "name": "string"}, version=3 if kind == "vector" else 2)
    with table.transaction():
        file = table.append(ROWS, format=kind if kind in ("orc", "avro") else "parquet")
        if kind in ("orc", "avro"):
            keyed(file)
    with table.transaction():
        if kind == "vector":
            (file,) = table.delete_vectors({file: [1]})
        elif kind == "position":
            (file,) = table.delete_positions({file: [1]}, file_format="avro")
        elif kind == "equality":
            file = table.delete_equal(["id"], [{"id": 1}], file_format="orc")
        keyed(file)
    opened = open_table(table.write())
    stream = b"AGS1" + (2**20).to_bytes(4, "little") + os.urandom(Path(file.path).stat().st_size)
    Path(file.path).write_bytes(stream)
    what = "Data" if kind in ("orc", "avro") else "Delete"
    with pytest.raises(
        UnsupportedFeatureError, match=rf"UNSUPPORTED_ENCRYPTION.*{what} file is encrypted"
    ) as raised:
        planned(opened)
    assert raised.value.path == file.path


def test_a_file_is_looked_at_once_and_damage_is_left_to_who_reads_it(
    tmp_path: Path, monkeypatch: Any
) -> None:
    table = Table(tmp_path, {"id": "long", "name": "string"})
    with table.transaction():
        files = [keyed(table.append(ROWS[i : i + 1])) for i in range(5)]
    opened = open_table(table.write())
    asked: list[str] = []
    real = encrypted_files._is_encrypted
    monkeypatch.setattr(encrypted_files, "_is_encrypted", lambda *a: asked.append(a[1]) or real(*a))
    for _ in range(2):
        planned(opened)
    assert sorted(asked) == sorted(file.path for file in files)
    Path(files[0].path).write_bytes(b"PAR1" + bytes(100))
    planned(opened)
    with pytest.raises(CorruptFileError, match="CORRUPT_PARQUET"):
        scan(opened)
    Path(files[1].path).unlink()
    with pytest.raises(MissingFileError):
        planned(opened)


def test_of_very_many_files_the_first_are_looked_at(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(encrypted_files, "MAX_FILES_CHECKED", 2)
    table = Table(tmp_path, {"id": "long", "name": "string"})
    with table.transaction():
        files = [keyed(table.append(ROWS[i : i + 1])) for i in range(4)]
    opened = open_table(table.write())
    encrypt(Path(files[3].path), plain_footer=False)
    planned(opened)
    with pytest.raises(UnsupportedFeatureError, match="UNSUPPORTED_ENCRYPTION"):
        planned(opened)  # the first are known by now
    monkeypatch.setattr(encrypted_files, "MAX_FILES_CHECKED", 0)
    with pytest.raises(UnsupportedFeatureError, match="ENCRYPTED_PARQUET"):
        scan(opened)


@pytest.mark.skipif(not ROOT, reason="TWOSTAGE_TABLES is not set")
def test_encrypted_files_of_another_project(tmp_path: Path) -> None:
    files = sorted(Path(ROOT).rglob("*.parquet.encrypted"))
    assert len(files) > 10
    for number, path in enumerate(files):
        table = Table(tmp_path / str(number), {"id": "long"})
        with table.transaction():
            file = keyed(table.append([{"id": 1}]))
        metadata = table.write()
        Path(file.path).write_bytes(path.read_bytes())
        with pytest.raises(UnsupportedFeatureError, match="UNSUPPORTED_ENCRYPTION"):
            planned(open_table(metadata))
    assert json.loads(metadata.read_text())["format-version"]


def test_a_plain_file_says_nothing_of_another_store_or_another_object(tmp_path: Path) -> None:
    """Each of them has an object of the same path; only the first one is plain."""
    for number, content in enumerate((b"plain bytes", b"AGS1 encrypted")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "f").write_bytes(content)
        with serve_late(folder) as store:
            properties = {key.removeprefix("catalog."): value for key, value in store.options.items()}
            storage = Storage(root="s3://lake/", properties=properties)
            files = {"s3://lake/f": ("Data file", len(content))}
            if number == 1:
                with pytest.raises(UnsupportedFeatureError):
                    encrypted_files.refuse_encrypted(storage, files)
                continue
            encrypted_files.refuse_encrypted(storage, files)
            asked = len(store.log)
            encrypted_files.refuse_encrypted(storage, files)
            assert len(store.log) == asked, "it was found to be plain"
            (folder / "f").write_bytes(b"AGS1 and a length of its own")
            with pytest.raises(UnsupportedFeatureError):
                encrypted_files.refuse_encrypted(storage, {"s3://lake/f": ("Data file", 28)})
