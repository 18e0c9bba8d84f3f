"""What a table's metadata may name, and how much it may make a scan take."""

from __future__ import annotations

import json
import sys

import fastavro
import pytest

from core_scan import Opened, open_table, scan
from tables import Table
from twostage.catalog.load_table import load_table
from twostage.errors import CorruptFileError, ForbiddenLocationError, ResourceLimitError, TwoStageError
from twostage.options import parse_options
from twostage.storage import file_systems, stores


class Elsewhere(Table):
    """A table whose data files are said to lie somewhere else."""

    place = ""

    def _entry(self, *arguments):
        entry = super()._entry(*arguments)
        return entry | ({"file_path": self.place} if self.place and arguments[0] == self.content_of else {})

    content_of = 0


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """Serve a folder as the bucket `lake`, and note every local file that the product opens."""
    import pyarrow.fs

    local = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    monkeypatch.setattr(file_systems, "_connect", lambda _properties, _location: _Bucket(local))
    monkeypatch.setattr(file_systems, "_file_systems", {})
    monkeypatch.setattr(stores, "store_properties", lambda *_, **__: "the test has a file system of its own")
    monkeypatch.setattr(stores, "_clients", {})
    return tmp_path


class _Bucket:
    """``lake/key`` is a file of the folder; any other bucket fails the test."""

    type_name = "s3"

    def __init__(self, files):
        self.files = files

    def _name(self, name):
        assert name.startswith("lake/"), f"another bucket was opened: {name}"
        return name.removeprefix("lake/")

    def open_input_file(self, name):
        return self.files.open_input_file(self._name(name))

    def get_file_info(self, wanted):
        import pyarrow.fs

        if isinstance(wanted, str):
            return self.files.get_file_info(self._name(wanted))
        selector = pyarrow.fs.FileSelector(
            self._name(wanted.base_dir + "/").rstrip("/"), allow_not_found=True
        )
        return self.files.get_file_info(selector)


FOREIGN = {
    "a local file": "file:///etc/passwd",
    "a local path": "/etc/passwd",
    "another bucket": "s3://other/t/data/f.parquet",
    "another scheme": "http://169.254.169.254/latest/meta-data",
    "dots": "s3://lake/t/../../other/f.parquet",
    "dots after the bucket": "s3://lake/../other/f.parquet",
    "a NUL": "s3://lake/t/f\0.parquet",
    "a login": "s3://me:pw@lake/t/f.parquet",
}


@pytest.mark.parametrize("content", [0, 1, 2], ids=["data", "position", "equality"])
@pytest.mark.parametrize("case", FOREIGN)
def test_files_outside_a_remote_table_are_refused_while_planning(remote, case, content):
    table = Elsewhere(remote / "t", {"id": "long"}, version=2)
    table.location = "s3://lake/t"
    table.content_of, table.place = content, ""
    file = table.append([{"id": 1}]) if content else None
    table.place = FOREIGN[case]
    if content == 0:
        table.append([{"id": 1}])
    elif content == 1:
        table.delete_positions({file: [0]})
    else:
        table.delete_equal(["id"], [{"id": 1}])
    table.write()
    options = parse_options({"path": "s3://lake/t"})
    opened = Opened(load_table(options), options)
    with pytest.raises(ForbiddenLocationError) as caught:
        scan(opened)
    assert caught.value.code == "FORBIDDEN_LOCATION"
    assert caught.value.stage in ("storage", "plan")
    assert "pw@" not in str(caught.value)


@pytest.mark.parametrize("place", ["s3://lake/t/%2e%2e/%2e%2e/f.parquet", "s3://lake/t/..%2ff.parquet"])
def test_percent_encoded_dots_are_names_and_lead_nowhere(remote, place):
    (remote / "f.parquet").write_bytes(b"outside")
    table = Elsewhere(remote / "t", {"id": "long"}, version=2)
    table.location = "s3://lake/t"
    table.place = place
    table.append([{"id": 1}])
    table.write()
    options = parse_options({"path": "s3://lake/t"})
    with pytest.raises(TwoStageError, match=r"MISSING_FILE"):
        scan(Opened(load_table(options), options))


def test_a_symbolic_link_in_a_local_warehouse_is_followed(tmp_path):
    """Documented: whoever can write links into a local table's folder can name any local file anyway."""
    table = Table(tmp_path / "t", {"id": "long"}, version=2)
    file = table.append([{"id": 1}])
    table.write()
    path = table.folder / file.path.removeprefix(str(table.folder)).lstrip("/")
    path.rename(tmp_path / "outside.parquet")
    path.symlink_to(tmp_path / "outside.parquet")
    assert len(scan(open_table(table.folder)).rows) == 1
    with pytest.raises(ForbiddenLocationError, match="symbolic link"):
        scan(open_table(table.folder, allow_moved_paths="true", allowed_locations=str(tmp_path / "none")))


@pytest.mark.parametrize("bad", ["\x1b[2J\x1b[31m", "\nERROR forged line", "\r", "\u202e", "\x07"])
def test_control_characters_of_a_path_are_escaped_in_errors(tmp_path, bad):
    table = Elsewhere(tmp_path / "t", {"id": "long"}, version=2)
    table.place = f"{tmp_path}/t/data/{bad}.parquet"
    table.append([{"id": 1}])
    table.write()
    with pytest.raises(TwoStageError) as caught:
        scan(open_table(table.folder))
    for text in (str(caught.value), caught.value.path, repr(caught.value)):
        assert bad not in text


def nested(depth, kind):
    """A schema nested so deep."""
    if kind == "json":
        return "[" * depth + "]" * depth
    inner = '"long"'
    return '{"type":"array","items":' * depth + inner + "}" * depth


@pytest.mark.parametrize("depth", [2_000, 200_000])
def test_metadata_nested_too_deep_is_damaged(tmp_path, depth):
    table = Table(tmp_path / "t", {"id": "long"}, version=2)
    table.append([{"id": 1}])
    path = table.write()
    text = path.read_text()
    path.write_text(text.replace('"properties"', f'"x": {nested(depth, "json")}, "properties"', 1))
    try:
        rows = scan(open_table(table.folder)).rows
    except CorruptFileError as error:
        assert error.path
    else:
        assert len(rows) == 1


def test_a_schema_nested_too_deep_is_refused(tmp_path):
    table = Table(tmp_path / "t", {"id": "long"}, version=2)
    table.append([{"id": 1}])
    path = table.write()
    raw = json.loads(path.read_text())
    deep = "long"
    for number in range(900):
        deep = {"type": "list", "element-id": 10 + number, "element": deep, "element-required": False}
    raw["schemas"][-1]["fields"].append({"id": 5000, "name": "deep", "type": deep, "required": False})
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    text = json.dumps(raw)
    sys.setrecursionlimit(limit)
    path.write_text(text)
    with pytest.raises(TwoStageError) as caught:
        scan(open_table(table.folder))
    assert caught.value.code in ("CORRUPT_METADATA", "UNSUPPORTED_TYPE"), caught.value


@pytest.mark.parametrize("depth", [500, 50_000])
@pytest.mark.parametrize("pattern", ["snap-*.avro", "manifest-*.avro"])
def test_an_avro_schema_nested_too_deep_is_damaged(tmp_path, pattern, depth):
    table = Table(tmp_path / "t", {"id": "long"}, version=2)
    table.append([{"id": 1}])
    table.write()
    (path,) = table.folder.glob(f"metadata/{pattern}")
    with path.open("rb") as opened:
        reader = fastavro.reader(opened)
        schema = json.dumps(reader.writer_schema)
        sync, kept = b"\0" * 16, {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    field = '{"name":"deep","type":' + nested(depth, "avro") + "}"
    schema = schema[: schema.rindex("]")] + ", " + field + "]}"
    header = {"avro.schema": schema, "avro.codec": "null", **kept}
    path.write_bytes(b"Obj\x01" + _avro_map(header) + sync)
    with pytest.raises(TwoStageError) as caught:
        scan(open_table(table.folder))
    assert caught.value.code.startswith(("CORRUPT", "RESOURCE")), caught.value
    assert caught.value.path


def _avro_map(values):
    def number(value):
        value, found = value << 1, b""
        while value > 127:
            found, value = found + bytes([value & 127 | 128]), value >> 7
        return found + bytes([value])

    def text(value):
        raw = value.encode()
        return number(len(raw)) + raw

    return number(len(values)) + b"".join(text(k) + text(v) for k, v in values.items()) + b"\0"


def test_a_metadata_file_larger_than_the_limit_is_not_read(tmp_path, monkeypatch):
    table = Table(tmp_path / "t", {"id": "long"}, version=2)
    table.append([{"id": 1}])
    path = table.write()
    monkeypatch.setattr("twostage.catalog.load_table.MAX_METADATA_BYTES", path.stat().st_size - 1)
    with pytest.raises(ResourceLimitError, match="FILE_TOO_LARGE"):
        open_table(table.folder)
