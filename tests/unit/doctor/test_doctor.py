"""``python -m twostage doctor`` as a user runs it: on a healthy installation, and on ones that lack something."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pyarrow as pa
import pytest

from environments import linked_environment
from twostage.doctor import catalogs, requirements
from twostage.errors import StorageError

HAS_JAVA = shutil.which("java") or os.environ.get("JAVA_HOME")
needs_java = pytest.mark.skipif(not HAS_JAVA, reason="no Java here")
STATES = ("ok", "warning", "failed")
SECRETS = ("geheim-login", "geheim-token", "geheim-credential", "geheim-key", "geheim-header")


@pytest.fixture
def home(tmp_path):
    """The environment of a user without any configuration, whose caches are in a folder of the test."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYICEBERG", "SPARK_", "PYSPARK"))
    }
    for key in ("NUMBA_CACHE_DIR", "PYTHONPATH", "TWOSTAGE_JIT", "TWOSTAGE_WORKER_TUNING"):
        kept.pop(key, None)
    return kept | {
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "COLUMNS": "1500",
    }  # fmt: skip


def doctor(surroundings, *arguments, python=sys.executable, code=0):
    """Run it; return the rows of its table by check: state, what was found, how to fix it."""
    done = subprocess.run(
        [python, "-m", "twostage", "doctor", *arguments],
        env=surroundings, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    printed = done.stdout + done.stderr
    assert "Traceback" not in printed, printed
    rows = {}
    for line in done.stdout.splitlines():
        cells = re.split(r" {2,}", line.strip())
        if len(cells) > 2 and cells[1] in STATES:
            rows[cells[0]] = (cells[1], cells[2], cells[3] if len(cells) > 3 else "")
    assert done.returncode == code, printed
    assert bool(code) == any(state == "failed" for state, _, _ in rows.values()), printed
    assert all(mend for state, _, mend in rows.values() if state != "ok"), rows
    return rows, printed


@pytest.fixture
def without(tmp_path):
    """Make an environment of what is installed here, without some of it."""

    def make(*names):
        scripts = linked_environment(tmp_path / "other", without=names)
        (theirs,) = scripts.parent.glob("lib/python*/site-packages")
        return scripts / "python", theirs

    return make


@pytest.fixture
def lake(tmp_path):
    """Confs of a SQL catalog with the tables ``db.empty`` and ``db.events``, of which one has a row."""
    from pyiceberg.catalog.sql import SqlCatalog

    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("lake", uri=uri, warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("db")
    rows = pa.table({"id": [1]})
    catalog.create_table("db.empty", schema=rows.schema)
    catalog.create_table("db.events", schema=rows.schema).append(rows)
    catalog.engine.dispose()
    return ["--conf", "spark.sql.catalog.lake.type=sql", "--conf", f"spark.sql.catalog.lake.uri={uri}"]


@needs_java
def test_a_healthy_installation(home, lake):
    rows, printed = doctor(home, *lake)
    named = {one.name for one in requirements.requirements() if not one.extra}
    assert named >= {"pyarrow", "numba", "pyiceberg", "pyroaring"}
    assert named <= rows.keys(), printed
    bad = {check: row for check, row in rows.items() if row[0] != "ok" and not check.endswith(" cache")}
    assert not bad  # the caches' disk may be full
    assert rows["Catalog lake"][1] == "sql, 1 namespace: db"
    assert rows["Files of lake"][1] == "db.events was opened: 1 manifest"
    assert "mode 0700" in rows["Compiled kernels"][1]
    assert rows["Worker daemon"][0] == "ok"
    assert "Spark session" not in rows


@needs_java
def test_with_a_session(home):
    rows, _ = doctor(home, "--spark")
    assert [rows[check][0] for check in ("Spark session", "Planner", "Scan")] == ["ok"] * 3
    assert rows["Scan"][1].startswith("2 rows, read by 1 Python task")


def test_no_java(home, tmp_path):
    home.pop("JAVA_HOME", None)
    (tmp_path / "bin").mkdir()
    home["PATH"] = str(tmp_path / "bin")
    rows, _ = doctor(home, "--spark", code=1)
    assert rows["Java"][:2] == ("failed", "no java on the search path, and no JAVA_HOME")
    assert "Install Java 17" in rows["Java"][2]
    assert rows["Spark session"][0] == "failed"
    assert "Planner" not in rows
    assert rows["PySpark"][0] == "ok"


def test_a_java_home_without_java_and_an_old_java(home, tmp_path):
    home["JAVA_HOME"] = str(tmp_path)
    rows, _ = doctor(home, code=1)
    assert rows["Java"][1] == f"JAVA_HOME is {tmp_path}, which has no bin/java"
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin" / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.26\" 2025-01-21' >&2\n")
    old.chmod(0o755)
    rows, _ = doctor(home, code=1)
    assert rows["Java"][0] == "failed"
    assert rows["Java"][1].startswith("11.0.26, ")


def test_no_pyspark(home, without):
    python, _ = without("pyspark")
    rows, _ = doctor(home, python=python, code=1)
    assert rows["PySpark"][0] == "failed"
    assert "[TWOSTAGE.NO_SPARK]" in rows["PySpark"][1]
    assert "pip install 'pyspark>=4.1,<4.4'" in rows["PySpark"][2]
    assert rows["pyarrow"][0] == "ok"


def test_a_library_that_is_too_old_and_one_that_is_missing(home, without):
    python, theirs = without("pyroaring-", "mmh3")
    (found,) = Path(sysconfig.get_path("purelib")).glob("pyroaring-*.dist-info")
    about = re.sub(r"(?m)^Version: .*$", "Version: 0.4.5", (found / "METADATA").read_text(), count=1)
    (theirs / "pyroaring-0.4.5.dist-info").mkdir()
    (theirs / "pyroaring-0.4.5.dist-info" / "METADATA").write_text(about)
    rows, _ = doctor(home, python=python, code=1)
    assert rows["pyroaring"][:2] == ("failed", "0.4.5, which is older than >=1.0")
    assert rows["pyroaring"][2].endswith("-m pip install 'pyroaring>=1.0'")
    assert rows["mmh3"][:2] == ("failed", "not installed")


def test_without_rich_it_prints_lines(home, without):
    python, _ = without("rich")
    done = subprocess.run(
        [python, "-m", "twostage", "doctor"], env=home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "\nrich\tfailed\tnot installed\t" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_cache_folders_that_others_may_write(home, tmp_path):
    """A warning that says what to type; typed, it is gone."""
    folders = {
        "Compiled kernels": tmp_path / "cache/twostage/kernels",
        "Delete cache": tmp_path / "cache/twostage/deletes",
        "Footer cache": tmp_path / "cache/twostage/footers",
    }
    for folder in folders.values():
        folder.mkdir(parents=True)
        folder.chmod(0o777)
    (tmp_path / "cache" / "twostage").chmod(0o700)
    rows, _ = doctor(home, code=0 if HAS_JAVA else 1)
    for check, folder in folders.items():
        assert rows[check][0] == "warning"
        assert (
            f"{folder} is not used (its directory belongs to, or is open to, other users)" in rows[check][1]
        )
        assert rows[check][2] == f"chmod 700 {folder}"
        subprocess.run(rows[check][2].split(), check=True)
    rows, _ = doctor(home, code=0 if HAS_JAVA else 1)
    for check, folder in folders.items():
        assert rows[check][1].startswith(f"{folder}, mode 0700")


def test_the_cache_folder_of_the_option(home, tmp_path):
    (tmp_path / "file").write_text("")
    rows, _ = doctor(home, "--deletes.cache-dir", str(tmp_path / "file"), code=0 if HAS_JAVA else 1)
    assert rows["Delete cache"][0] == "warning"
    assert "its directory" in rows["Delete cache"][1]
    assert "Set deletes.cache-dir" in rows["Delete cache"][2]


def test_a_catalog_that_cannot_be_reached_shows_no_secret(home):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    confs = {
        "type": "rest",
        "uri": f"http://me:geheim-login@127.0.0.1:{port}",
        "token": "geheim-token",
        "credential": "name:geheim-credential",
        "s3.secret-access-key": "geheim-key",
        "header.Authorization": "Bearer geheim-header",
    }
    given = [
        text for key, value in confs.items() for text in ("--conf", f"spark.sql.catalog.lake.{key}={value}")
    ]
    rows, printed = doctor(home, *given, code=1)
    assert rows["Catalog lake"][0] == "failed"
    assert "[TWOSTAGE.CATALOG_FAILED]" in rows["Catalog lake"][1]
    assert "spark.sql.catalog.lake.uri" in rows["Catalog lake"][2]
    configured = {
        f"PYICEBERG_CATALOG__OTHER__{key.upper()}": confs[key]
        for key in ("type", "uri", "token", "credential")
    }
    rows, also = doctor(home | configured, code=1)
    assert rows["Catalog other"][0] == "failed"
    assert not [secret for secret in SECRETS if secret in printed + also]


def test_a_catalog_that_never_answers(monkeypatch):
    monkeypatch.setattr(catalogs, "TIMEOUT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        confs = {"spark.sql.catalog.slow.type": "rest", "spark.sql.catalog.slow.uri": uri}
        (found,) = catalogs.catalogs(["slow"], confs)
    assert found.state == "failed"
    assert "[TWOSTAGE.CATALOG_TIMEOUT] Catalog slow did not answer" in found.found


def test_a_catalog_that_answers_and_a_storage_that_does_not(lake, monkeypatch):
    def unreached(_storage, _snapshot):
        raise StorageError("STORAGE_FAILED", "Storage failed: no route", stage="storage")

    monkeypatch.setattr(catalogs, "read_manifest_list", unreached)
    confs = dict(pair.split("=", 1) for pair in lake[1::2])
    answered, found = catalogs.catalogs(["lake"], confs)
    assert answered.state == "ok"
    assert (found.check, found.state) == ("Files of lake", "failed")
    assert "[TWOSTAGE.STORAGE_FAILED]" in found.found
    assert "check spark.sql.catalog.lake.s3.endpoint" in found.mend


def test_catalogs_that_are_not_there_or_not_iceberg(home, tmp_path):
    (tmp_path / "confs").mkdir()
    (tmp_path / "confs" / "spark-defaults.conf").write_text(
        "spark.sql.catalog.lake twostage\n"
        f"spark.sql.catalog.lake.type hadoop\nspark.sql.catalog.lake.warehouse {tmp_path}/none\n"
        "spark.sql.catalog.spark_catalog org.apache.spark.sql.delta.catalog.DeltaCatalog\n"
    )
    home["SPARK_CONF_DIR"] = str(tmp_path / "confs")
    rows, _ = doctor(home, code=0 if HAS_JAVA else 1)
    assert rows["Catalog lake"][:2] == ("warning", "hadoop, without namespaces")
    assert "Catalog spark_catalog" not in rows
    rows, _ = doctor(home, "gone", code=1)
    assert "[TWOSTAGE.UNKNOWN_CATALOG]" in rows["Catalog gone"][1]


def test_workers_in_another_python(home, tmp_path):
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    bare = tmp_path / "bare" / "bin" / "python"
    rows, _ = doctor(home | {"PYSPARK_PYTHON": str(bare)}, code=1)
    assert rows["Workers' Python"][0] == "failed"
    assert "twostage cannot be imported" in rows["Workers' Python"][1]
    assert f"{bare} -m pip install" in rows["Workers' Python"][2]
    rows, _ = doctor(home | {"PYSPARK_PYTHON": str(tmp_path / "gone")}, code=1)
    assert "is missing" in rows["Workers' Python"][1]
    rows, _ = doctor(home | {"PYSPARK_PYTHON": "./environment/bin/python"}, code=0 if HAS_JAVA else 1)
    assert rows["Workers' Python"][0] == "warning"


def test_arguments_that_are_wrong(home):
    done = subprocess.run(
        [sys.executable, "-m", "twostage", "doctor", "--conf", "nonsense", "--batch-size", "x"],
        env=home, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("[TWOSTAGE.BAD_OPTION]")
    assert "Traceback" not in done.stderr


def test_our_own_bounds_are_understood():
    """The doctor compares ``>=`` and ``<`` only; no bound of ours is of another kind."""
    found = requirements.requirements()
    assert found
    for one in found:
        assert re.fullmatch(r"((>=|<)[\d.]+)(,(>=|<)[\d.]+)*", one.bounds), one
    spark = next(one for one in found if one.name == "pyspark")
    assert [spark.is_too_old(v) for v in ("4.0.1", "4.1.0", "4.1.0.dev1")] == [True, False, False]
    assert [spark.is_too_new(v) for v in ("4.3.9", "4.4.0", "5.0")] == [False, True, True]
    assert not requirements.Requirement("pyarrow", ">=21").is_too_old("21.0.0")
