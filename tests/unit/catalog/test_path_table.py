"""Tables named by a path: which metadata file is the newest, and where its files lie."""

from __future__ import annotations

import gzip
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from s3_server import serve
from twostage import errors
from twostage.catalog.browse import list_namespaces, list_tables
from twostage.catalog.load_table import load_table
from twostage.errors import (
    CorruptFileError,
    ForbiddenLocationError,
    NotFoundError,
    OptionError,
    ResourceLimitError,
)
from twostage.options import parse_options
from twostage.storage.files import locate
from twostage.table.pinned import PinnedTable

if TYPE_CHECKING:
    from collections.abc import Callable

CANARY = "canary-4711-secret"


def load(path: object, **options: str) -> PinnedTable:
    return load_table(
        parse_options({"path": str(path), **{k.replace("_", "-"): v for k, v in options.items()}})
    )


def version_of(table: PinnedTable) -> str:
    return table.metadata.metadata_location.rpartition("/")[2]


@pytest.mark.parametrize(
    "spelling", ["{}", "file:{}", "file://{}", "file://localhost{}", "{}/", "{}/metadata", "{}/metadata/"]
)
def test_folder_in_every_spelling(tmp_path: Path, write_table: Callable[..., Path], spelling: str) -> None:
    folder = tmp_path / "db" / "t"
    write_table(folder)
    table = load(spelling.format(folder))
    assert table.metadata.metadata_location == str(folder / "metadata" / "v1.metadata.json")
    assert table.storage.root == str(folder)
    assert table.storage.moved_from is None
    assert table.snapshot is not None
    assert table.snapshot.snapshot_id == 13


def test_metadata_file(tmp_path: Path, write_table: Callable[..., Path]) -> None:
    first = write_table(tmp_path / "t", "00000-aaaa.metadata.json", **{"current-snapshot-id": 11})
    write_table(tmp_path / "t", "00001-bbbb.metadata.json")
    table = load(first)
    assert table.snapshot is not None
    assert table.snapshot.snapshot_id == 11
    assert table.storage.root == str(tmp_path / "t")
    lonely = tmp_path / "lonely" / "x.metadata.json"
    lonely.parent.mkdir()
    shutil.copy(first, lonely)
    assert load(lonely).storage.root == str(tmp_path / "lonely")


def test_relative_path(
    tmp_path: Path, write_table: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(tmp_path / "db" / "t")
    monkeypatch.chdir(tmp_path)
    for path in ("db/t", "./db/t", "db/../db/t"):
        assert load(path).storage.root == str(tmp_path / "db" / "t")
    monkeypatch.chdir(tmp_path / "db")
    assert load("t").storage.root == str(tmp_path / "db" / "t")


@pytest.mark.parametrize(
    ("names", "hint", "newest"),
    [
        (["v1", "v2", "v10"], None, "v10"),
        (["v1", "v2", "v10"], "2", "v2"),  # v10 was published by no commit: v3 is not there
        (["v1", "v2", "v3"], "1", "v3"),  # the hint is written after the metadata and may be late
        (["v1", "v2"], "7", "v2"),
        (["v1", "v2"], "", "v2"),
        (["v1", "v2"], "../../../../etc/passwd", "v2"),
        (["v1", "v2"], "\xff\x00", "v2"),
        (["v1", "v2"], " 2\n", "v2"),
        (["00000-a", "00002-c", "00001-b"], None, "00002-c"),
        (["00000-a", "00001-b", "00002-orphan"], "00001-b", "00001-b"),
        (["00000-a", "00001-b"], "00000-a.metadata.json", "00000-a"),
        (["00000-a", "00001-b"], "0", "00001-b"),
        (["00009-a", "00010-b"], None, "00010-b"),
        # Writers without a counter take the time: seconds, milliseconds, nanoseconds.
        (["v9", "v1730000000"], None, "v1730000000"),
        (["v1", "v1730000000", "v1740000000"], "1730000000", "v1730000000"),
        (["v1", "v1730000000000", "v1730000000001"], "1730000000000", "v1730000000001"),
        (["v1", "v1730000000000000001"], "v1730000000000000001", "v1730000000000000001"),
        (["00009-a", "1730000000-b"], None, "1730000000-b"),
        (["00009-a", "1730000000-b", "1740000000-orphan"], "1730000000-b", "1730000000-b"),
        (["v2", f"v{'9' * 200}"], None, f"v{'9' * 200}"),
        (["v2", f"v{'9' * 200}"], "9" * 1_000, f"v{'9' * 200}"),
        (["v2", "latest"], "latest", "latest"),  # of a name of its own
        (["v1", "v2"], "\u00b2", "v2"),  # a digit to Python, and no number
    ],
)
def test_newest_version(
    tmp_path: Path, write_table: Callable[..., Path], names: list[str], hint: str | None, newest: str
) -> None:
    for name in names:
        write_table(tmp_path / "t", f"{name}.metadata.json")
    if hint is not None:
        (tmp_path / "t" / "metadata" / "version-hint.text").write_text(hint, encoding="latin-1")
    (tmp_path / "t" / "metadata" / "v99.metadata.json.crc").write_text("")
    (tmp_path / "t" / "metadata" / "v99.metadata.json").mkdir()
    assert version_of(load(tmp_path / "t")) == f"{newest}.metadata.json"


def test_equal_numbers_are_told_apart_by_time(tmp_path: Path, write_table: Callable[..., Path]) -> None:
    for name, modified in (("00001-zzzz", 1_000), ("00001-aaaa", 2_000), ("00001-mmmm", 1_500)):
        os.utime(write_table(tmp_path / "t", f"{name}.metadata.json"), (modified, modified))
    assert version_of(load(tmp_path / "t")) == "00001-aaaa.metadata.json"


@pytest.mark.parametrize("name", ["v3.gz.metadata.json", "v3.metadata.json.gz", "00003-x.gz.metadata.json"])
@pytest.mark.parametrize("hint", [None, "3"])
def test_gzip(tmp_path: Path, write_table: Callable[..., Path], name: str, hint: str | None) -> None:
    write_table(tmp_path / "t", "v2.metadata.json")
    path = write_table(tmp_path / "t", name)
    if hint:
        (tmp_path / "t" / "metadata" / "version-hint.text").write_text(hint)
    assert version_of(load(tmp_path / "t")) == name
    assert version_of(load(path)) == name


def test_damaged_metadata(
    tmp_path: Path, write_table: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_table(tmp_path / "t", "v1.gz.metadata.json")
    whole = path.read_bytes()
    for damage in (whole[:-20], b"\x1f\x8b" + b"\0" * 20, b"", b"not json", b"[]", gzip.compress(b"{}")):
        path.write_bytes(damage)
        with pytest.raises(CorruptFileError) as caught:
            load(tmp_path / "t")
        assert caught.value.code == "CORRUPT_METADATA"
        assert caught.value.path == str(path)
    monkeypatch.setattr("twostage.table.metadata.MAX_METADATA_BYTES", 2**20)
    path.write_bytes(gzip.compress(b" " * (2**20 + 1)))
    with pytest.raises(ResourceLimitError):
        load(tmp_path / "t")


def test_no_table(tmp_path: Path, write_table: Callable[..., Path]) -> None:
    write_table(tmp_path / "db" / "events")
    with pytest.raises(NotFoundError) as typo:
        load(tmp_path / "db" / "evnts")
    assert typo.value.code == "TABLE_NOT_FOUND"
    assert typo.value.hint == "Did you mean 'events'?"
    with pytest.raises(NotFoundError) as folder:
        load(tmp_path / "db")
    assert folder.value.hint == "It is a folder of tables: events."
    with pytest.raises(NotFoundError) as file:
        load(tmp_path / "db" / "events" / "metadata" / "v2.metadata.json")
    assert file.value.hint == "Did you mean 'v1.metadata.json'?"


@pytest.mark.parametrize("path", ["", "   "])
def test_no_path(path: str) -> None:
    with pytest.raises(OptionError) as caught:
        load_table(parse_options({"path": path}))
    assert caught.value.code == "MISSING_PATH"
    with pytest.raises(OptionError):
        load_table(parse_options({}))


def test_moved_table_is_located(tmp_path: Path, write_table: Callable[..., Path]) -> None:
    for written_at in ("s3://lake/db/t", "/elsewhere/t", "file:/elsewhere/t/"):
        folder = tmp_path / str(abs(hash(written_at)))
        write_table(folder, location=written_at)
        table = load(folder, allow_moved_paths="true")
        assert table.snapshot is not None
        assert table.snapshot.manifest_list is not None
        assert locate(table.storage, table.snapshot.manifest_list) == str(
            folder / "metadata" / "snap-13.avro"
        )


def test_a_copy_of_a_remote_table_is_not_followed_home(
    tmp_path: Path, write_table: Callable[..., Path]
) -> None:
    write_table(tmp_path / "t", location="s3://lake/db/t")
    table = load(tmp_path / "t")
    with pytest.raises(ForbiddenLocationError, match="allow-moved-paths"):
        locate(table.storage, "s3://lake/db/t/metadata/snap-13.avro")


def test_pinned_table_pickles_and_hides_secrets(tmp_path: Path, write_table: Callable[..., Path]) -> None:
    write_table(tmp_path / "t", properties={"s3.secret-access-key": CANARY})
    options = {"path": str(tmp_path / "t"), "catalog.s3.secret-access-key": CANARY, "catalog.token": CANARY}
    table = load_table(parse_options(options))
    assert table.storage.properties == {"s3.secret-access-key": CANARY}
    assert CANARY not in repr(table)
    assert CANARY not in str(table)
    assert CANARY not in f"{table.storage!r} {table.metadata!r}"
    assert pickle.loads(pickle.dumps(table)) == table


def test_a_path_loads_no_pyiceberg(tmp_path: Path, write_table: Callable[..., Path]) -> None:
    write_table(tmp_path / "t")
    script = (
        "import sys; from twostage.catalog.load_table import load_table; from twostage.options import parse_options\n"
        f"load_table(parse_options({{'path': {str(tmp_path / 't')!r}}}))\n"
        "print([name for name in ('pyiceberg', 'pyarrow.dataset', 'numba', 'pyspark') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(errors.__file__).parents[1])}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "[]"


def test_a_table_whose_names_are_used_again_is_read_again_only_if_it_changed(
    tmp_path: Path, write_table: Callable[..., Path]
) -> None:
    """One listing tells: of the hint and of metadata files without a UUID in their names."""
    written = write_table(tmp_path / "t", "v1.metadata.json", location="s3://lake/t")
    hint = tmp_path / "t" / "metadata" / "version-hint.text"
    hint.write_text("1")
    with serve(tmp_path) as server:

        def load_remote() -> tuple[str, int]:
            """Return which file was read, and by how many requests beside the listing."""
            server.requests.clear()
            found = version_of(load_table(parse_options({"path": "s3://lake/t", **server.options})))
            return found, len(server.requests)

        assert load_remote() == ("v1.metadata.json", 2)
        assert load_remote() == ("v1.metadata.json", 0)
        write_table(tmp_path / "t", "v2.metadata.json", location="s3://lake/t")
        assert load_remote() == ("v2.metadata.json", 1)
        hint.write_text("2")
        assert load_remote() == ("v2.metadata.json", 1)
        assert load_remote() == ("v2.metadata.json", 0)
        (tmp_path / "t" / "metadata" / "v2.metadata.json").unlink()
        hint.write_text("1")
        os.utime(written, (2_000_000_000, 2_000_000_000))  # the table was created anew
        assert load_remote() == ("v1.metadata.json", 2)
        assert load_remote() == ("v1.metadata.json", 0)
        server.etags = False
        assert load_remote() == ("v1.metadata.json", 2)
        assert load_remote() == ("v1.metadata.json", 2)


def test_a_bucket_that_is_not_there(tmp_path: Path, write_table: Callable[..., Path]) -> None:
    """To a listing it looks like an empty one."""
    write_table(tmp_path / "db" / "t", location="s3://lake/db/t")
    with serve(tmp_path) as server:
        assert (
            load_table(parse_options({"path": "s3://lake/db/t", **server.options})).name == "s3://lake/db/t"
        )
        for path in ("s3://laek/db/t", "s3a://laek/db/t/metadata/v1.metadata.json", "s3://laek"):
            with pytest.raises(NotFoundError) as caught:
                load_table(parse_options({"path": path, **server.options}))
            assert caught.value.code == "BUCKET_NOT_FOUND"
            assert "laek" in caught.value.message
            assert "endpoint" in (caught.value.hint or "")
        for path, hint in (
            ("s3://lake/db/tt", "Did you mean 't'?"),
            ("s3://lake/dbb/t", "There is nothing there, nor next to it."),
            ("s3://lake/db", "It is a folder of tables: t."),
        ):
            with pytest.raises(NotFoundError) as caught:
                load_table(parse_options({"path": path, **server.options}))
            assert (caught.value.code, caught.value.hint) == ("TABLE_NOT_FOUND", hint)
        confs = {"spark.sql.catalog.h.type": "hadoop", "spark.sql.catalog.h.warehouse": "s3://laek/w"}
        confs |= {
            f"spark.sql.catalog.h.{key.removeprefix('catalog.')}": value
            for key, value in server.options.items()
        }
        for ask in (lambda: list_namespaces("h", (), confs), lambda: list_tables("h", ("db",), confs)):
            with pytest.raises(NotFoundError, match="BUCKET_NOT_FOUND"):
                ask()
        with pytest.raises(NotFoundError, match="BUCKET_NOT_FOUND"):
            load_table(parse_options({"path": "h.db.t"}), confs)


def test_a_path_inside_a_table(tmp_path: Path, write_table: Callable[..., Path]) -> None:
    """Its data files, manifests and folders, and a misspelled metadata file, lead to the table."""
    table = tmp_path / "db" / "t"
    write_table(table, "v3.metadata.json", location=str(table))
    (table / "data" / "p=1" / "q=2").mkdir(parents=True)
    (table / "data" / "p=1" / "q=2" / "part-0.parquet").touch()
    (table / "metadata" / "snap-1.avro").touch()
    whole = f"It is inside a table's folder: load that, {table}."
    for inside, hint in (
        ("data", whole),
        ("data/p=1/q=2/part-0.parquet", whole),
        ("data/p=1/q=3", whole),
        ("metadata/snap-1.avro", whole),
        ("metadata/v3.metadata.jsn", "Did you mean 'v3.metadata.json'?"),
    ):
        with pytest.raises(NotFoundError) as caught:
            load(table / inside)
        assert (caught.value.code, caught.value.hint) == ("TABLE_NOT_FOUND", hint)
    with serve(tmp_path) as server, pytest.raises(NotFoundError) as caught:
        load_table(parse_options({"path": "s3://lake/db/t/data/p=1", **server.options}))
    assert caught.value.hint == "It is inside a table's folder: load that, s3://lake/db/t."


@pytest.mark.parametrize("path", ["hdfs://namenode:8020/w/t", "viewfs://cluster/w/t"])
def test_hadoop_whose_library_is_not_there(path: str) -> None:
    """In a process of its own: Arrow tries once."""
    script = (
        "from twostage.catalog.load_table import load_table; from twostage.options import parse_options\n"
        "try:\n"
        f"    load_table(parse_options({{'path': {path!r}}}))\n"
        "except Exception as error:\n"
        "    print(error)\n"
        "try:\n"
        f"    load_table(parse_options({{'path': {path!r}}}))\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    kept = {name: text for name, text in os.environ.items() if name not in ("JAVA_HOME", "HADOOP_HOME")}
    environment = {**kept, "PYTHONPATH": str(Path(errors.__file__).parents[1]), "ARROW_LIBHDFS_DIR": "/none"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    for line in done.stdout.strip().splitlines():
        assert line.startswith("[TWOSTAGE.HADOOP_NOT_FOUND] Hadoop's native library")
        assert "hadoop classpath --glob" in line
    assert len(done.stdout.strip().splitlines()) == 2
