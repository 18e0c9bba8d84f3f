"""``python -m twostage``: compiles a whole table's equality deletes, and removes what no snapshot needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.fs
import pytest

from compiled_tables import kept, make, read
from tables import Table
from twostage.__main__ import main
from twostage.deletes.cache import file_format, fingerprint
from twostage.deletes.cache.memory import CACHE
from twostage.storage import files, stores

ROOT = Path(__file__).resolve().parents[3]


pytestmark = pytest.mark.usefixtures("small_sets_are_compiled")


def run(command, table, options, *more):
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return main([command, str(table.folder), *arguments, *more])


@pytest.fixture
def options(tmp_path):
    return {
        "deletes.cache-dir": str(tmp_path / "cache"),
        "deletes.compiled-dir": str(tmp_path / "compiled"),
    }


@pytest.mark.parametrize("stream", ["never", "always", "auto"])
def test_a_compiled_table_opens_no_delete_file(tmp_path, options, capsys, stream):
    table = make(tmp_path / "t")
    table.write()
    assert run("compile-deletes", table, {**options, "deletes.stream": stream}, "--no-spark") == 0
    said = capsys.readouterr().err
    assert "2 data files with equality deletes: 2 compiled, 0 already compiled; 36 rows deleted" in said
    counted = read(table, options)
    assert counted["delete_files.opened"] == 0
    assert counted["rows.deleted.compiled"] == 36
    assert run("compile-deletes", table, options, "--no-spark") == 0
    assert "0 compiled, 2 already compiled" in capsys.readouterr().err
    for path in Path(options["deletes.compiled-dir"]).iterdir():  # what one place lacks comes from the other
        path.unlink()
    assert run("compile-deletes", table, options, "--no-spark") == 0
    assert "0 compiled, 2 already compiled" in capsys.readouterr().err
    assert len(list(Path(options["deletes.compiled-dir"]).iterdir())) == 2


def test_rows_that_positions_delete_are_asked_about_too(tmp_path, options):
    table = Table(tmp_path / "t", {"id": "long", "k": "long"})
    file = table.append([{"id": i, "k": i % 5} for i in range(50)], row_group_size=7)
    table.delete_equal(["k"], [{"k": 3}])
    table.delete_positions({file: [3, 4, 5]})
    table.write()
    assert run("compile-deletes", table, options, "--no-spark") == 0
    (path,) = Path(options["deletes.compiled-dir"]).iterdir()
    from twostage.deletes.compiled.store import FolderStore
    from twostage.metrics import Metrics
    from twostage.task import Storage

    place = FolderStore(options["deletes.compiled-dir"], Storage(), Metrics())
    assert list(place.read(path.name)) == list(range(3, 50, 5))
    assert read(table, options)["rows.deleted.compiled"] == 9


def test_clean_removes_what_no_snapshot_needs(tmp_path, options, capsys):
    table = make(tmp_path / "t")
    other = make(tmp_path / "other")
    table.write()
    other.write()
    for one in (table, other):
        assert run("compile-deletes", one, options, "--no-spark") == 0
    table.delete_equal(["k"], [{"k": 7}])
    table.write()
    assert run("compile-deletes", table, options, "--no-spark") == 0
    before = kept(tmp_path, options)
    capsys.readouterr()
    assert run("clean", table, options) == 0
    assert "0 files removed" in capsys.readouterr().err  # every snapshot lives
    assert kept(tmp_path, options) == before
    table.snapshots = table.snapshots[-1:]
    table.write()
    CACHE.clear()
    assert run("clean", table, options) == 0
    gone = set(before) - set(kept(tmp_path, options))
    assert len([path for path in gone if "positions" in path]) == 4  # two data files in two places
    assert len([path for path in gone if "keys" in path]) == 1
    for one in (table, other):
        assert read(one, options)["delete_compiled.hits"] == 2
    assert run("clean", table, options) == 0
    assert "0 files removed" in capsys.readouterr().err


def test_clean_removes_what_an_earlier_version_wrote(tmp_path, options, capsys, monkeypatch):
    """Its entries are of live data files, under names that no scan of this version asks for."""
    table = make(tmp_path / "t")
    table.write()
    with monkeypatch.context() as earlier:
        for module in (file_format, fingerprint):
            earlier.setattr(module, "FORMAT", file_format.FORMAT - 1)
        assert run("compile-deletes", table, options, "--no-spark") == 0
    CACHE.clear()
    old = {path for path in kept(tmp_path, options) if "positions" in path}
    assert len(old) == 4
    with monkeypatch.context() as later:
        for module in (file_format, fingerprint):
            later.setattr(module, "FORMAT", file_format.FORMAT + 1)
        assert run("compile-deletes", table, {**options, "deletes.cache": "worker"}, "--no-spark") == 0
    CACHE.clear()
    assert run("compile-deletes", table, options, "--no-spark") == 0
    assert "2 compiled" in capsys.readouterr().err.splitlines()[-1]
    folder = Path(options["deletes.compiled-dir"])
    part = folder / ".twostage-12345678.part"
    fresh = folder / ".twostage-abcdefgh.part"
    for path in (part, fresh):
        path.touch()
    os.utime(part, (10**9, 10**9))
    assert run("clean", table, options) == 0
    left = kept(tmp_path, options)
    assert old.isdisjoint(left)
    assert len([path for path in left if "positions" in path]) == 2 + 4, "what a later version wrote stays"
    assert (part.exists(), fresh.exists()) == (False, True)
    assert read(table, options)["delete_compiled.hits"] == 2
    capsys.readouterr()
    damaged = min(folder.glob("positions-*"))
    damaged.write_bytes(damaged.read_bytes()[:20])
    assert run("clean", table, options) == 0
    assert "1 files removed" in capsys.readouterr().err


def test_a_bucket_keeps_what_is_compiled(tmp_path, capsys, monkeypatch):
    """Another file system than the table's: written, found, listed and cleaned there."""
    (tmp_path / "objects" / "bucket" / "compiled").mkdir(parents=True)
    bucket = pyarrow.fs.SubTreeFileSystem(str(tmp_path / "objects"), pyarrow.fs.LocalFileSystem())
    asked = []

    def file_system(_storage, location):
        asked.append(location.authority)
        return bucket

    monkeypatch.setattr(files, "file_system", file_system)
    monkeypatch.setattr(stores, "file_system", file_system)
    monkeypatch.setattr(stores, "store_properties", lambda *_, **__: "the test has a file system of its own")
    monkeypatch.setattr(stores, "_clients", {})
    options = {"deletes.cache": "worker", "deletes.compiled-dir": "s3://bucket/compiled"}
    options["deletes.cache-dir"] = str(tmp_path / "unused")
    table = make(tmp_path / "t")
    table.write()
    assert run("compile-deletes", table, options, "--no-spark") == 0
    assert "2 compiled" in capsys.readouterr().err
    assert read(table, options)["delete_compiled.hits"] == 2
    table.delete_equal(["k"], [{"k": 7}])
    table.snapshots = table.snapshots[-1:]
    table.write()
    assert run("clean", table, options) == 0
    assert "2 files removed, 0 kept" in capsys.readouterr().err
    assert read(table, options)["delete_compiled.written"] == 2  # by a scan
    assert run("clean", table, options) == 0
    assert "0 files removed, 2 kept" in capsys.readouterr().err
    assert set(asked) == {"bucket"}


def test_errors_are_told_and_not_raised(tmp_path, options, capsys):
    table = make(tmp_path / "t")
    table.write()
    assert main(["compile-deletes", str(tmp_path / "nothing")]) == 1
    assert "[TWOSTAGE." in capsys.readouterr().err
    inside = {**options, "deletes.compiled-dir": str(table.folder / "data")}
    for command in ("compile-deletes", "clean"):
        assert run(command, table, inside) == 1
        assert "inside the table's location" in capsys.readouterr().err.replace("\n", " ")
    assert run("compile-deletes", table, {"deletes.cache": "worker"}) == 1
    assert "NO_PLACE" in capsys.readouterr().err
    assert main(["compile-deletes", str(table.folder), "--option", "nonsense"]) == 1
    assert main(["compile-deletes", str(table.folder), "--option", "brnch=x"]) == 1
    assert "Did you mean 'branch'" in capsys.readouterr().err
    assert main(["compile-deletes", f"{table.folder}#files"]) == 1
    os.chmod(tmp_path / "compiled", 0o700) if (tmp_path / "compiled").exists() else None
    (tmp_path / "file").touch()
    broken = {"deletes.cache": "worker", "deletes.compiled-dir": str(tmp_path / "file")}
    assert run("compile-deletes", table, broken, "--no-spark") == 1
    assert "NOT_KEPT" in capsys.readouterr().err


def test_it_runs_as_a_module(tmp_path, options):
    table = make(tmp_path / "t")
    table.write()
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'connector'}:{ROOT / 'native'}"}
    command = [sys.executable, "-m", "twostage", "compile-deletes", str(table.folder), "--no-spark"]
    command += ["--compiled-dir", options["deletes.compiled-dir"], "--option", "deletes.cache=worker"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 compiled" in done.stderr
    assert read(table, options)["delete_compiled.hits"] == 2
