"""The rules of the house, as a script: sizes, names, layers, heavy imports, what a wheel holds."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = sorted([*(ROOT / "connector").rglob("*.py"), *(ROOT / "native").rglob("*.py")])
HARD_LIMIT = 450
FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc", "core"}
ALLOWED = {
    "numba": {"native/twostage_native/_jit.py"},
    "obstore": {"connector/twostage/storage/obstore_client.py"},
    "pyspark": {
        "connector/twostage/doctor/spark_trial.py",
        *(
            f"connector/twostage/spark/{name}.py"
            for name in ("bridge", "session", "source", "spark_internals", "task_reports", "usable_session")
        ),
        "connector/twostage/spark/worker_daemon.py",
    },
    "pyiceberg": {
        *(f"connector/twostage/catalog/{name}.py" for name in ("catalog_answer", "client", "sql_names")),
        "connector/twostage/storage/file_systems.py",
    },
}
"""The modules that import a library: these and no others."""
SOURCES = {"PYTHONPATH": f"{ROOT / 'connector'}:{ROOT / 'native'}", "PATH": "/usr/bin:/bin"}
HEAVY = (
    "numba",
    "obstore",
    "asyncio",
    "pyiceberg",
    "pyarrow.dataset",
    "pyspark.pandas",
    "pandas",
    "sqlglot",
    "rich",
)


def names(path):
    return str(path.relative_to(ROOT))


def imported(path):
    """Return the top-level packages that a module imports anywhere in it, outside TYPE_CHECKING."""
    found = set()
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("path", PRODUCT, ids=names)
def test_a_module_is_small_documented_and_well_named(path):
    text = path.read_text()
    assert text.count("\n") <= HARD_LIMIT
    assert path.stem not in FORBIDDEN_NAMES
    assert ast.get_docstring(ast.parse(text)), "a module says what goes in, what comes out, and its rule"


@pytest.mark.parametrize("package", ALLOWED)
def test_a_library_is_imported_in_its_layer_only(package):
    assert {names(path) for path in PRODUCT if package in imported(path)} == ALLOWED[package]


def test_the_kernels_do_not_know_the_connector():
    kernels = [path for path in PRODUCT if path.is_relative_to(ROOT / "native")]
    assert kernels
    for path in kernels:
        assert "twostage" not in imported(path)


def test_importing_the_source_is_light():
    program = "import pyspark_twostage, sys; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={
            "PYTHONPATH": f"{ROOT / 'connector'}:{ROOT / 'native'}",
            "PATH": "/usr/bin:/bin",
        },
    ).stdout.split()
    baseline = subprocess.run(
        [sys.executable, "-c", "import pyspark.sql.datasource, sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    added = set(loaded) - set(baseline)
    heavy = {name for name in added if name.startswith(HEAVY)}
    assert not heavy
    assert "twostage.spark.source" in added


def test_the_public_names_are_documented():
    import twostage

    assert set(twostage.__all__) == {
        "advise",
        "enable",
        "index",
        "last_scan",
        "query_log",
        "scans",
        "__version__",
    }
    assert all(getattr(twostage, name).__doc__ for name in twostage.__all__)


def test_the_public_names_are_listed_before_they_are_used():
    """``dir``, which completion asks, and ``--version``; both in a new process, where nothing was loaded yet."""
    code = "import sys, twostage; print(*dir(twostage)); assert 'twostage.spark' not in sys.modules"
    listed = subprocess.run(
        [sys.executable, "-c", code], env=SOURCES, capture_output=True, text=True, check=True
    )
    assert {"advise", "enable", "index", "last_scan", "query_log", "scans", "__version__"} <= set(
        listed.stdout.split()
    )
    told = subprocess.run(
        [sys.executable, "-m", "twostage", "--version"],
        env=SOURCES,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.fullmatch(r"twostage (\d+\.\d+\.\d+\S*|unknown)\n", told.stdout)


def test_a_python_that_is_too_old_says_so(tmp_path):
    """pip refuses it; a zip of `--py-files` gets there."""
    for minor in (10, 9, 8):
        python = shutil.which(f"python3.{minor}") or ""
        tried = subprocess.run([python or "false", "-c", ""], capture_output=True, check=False)
        if tried.returncode == 0:
            break
    else:
        pytest.skip("no older Python here")
    done = subprocess.run(
        [python, "-c", "import twostage"], env=SOURCES, capture_output=True, text=True, check=False
    )
    assert "[TWOSTAGE.PYTHON_VERSION] twostage needs Python 3.11 or newer, this is 3." in done.stderr


def test_the_wheel_holds_every_source_and_nothing_else(tmp_path):
    pytest.importorskip("hatchling", reason="the build backend is in the test group of pyproject.toml")
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    suffixes = (".py", ".java", ".typed")
    expected = {
        str(path.relative_to(source))
        for source in (ROOT / "connector", ROOT / "native")
        for path in source.rglob("*")
        if path.suffix in suffixes
    }
    assert held == expected
    assert {name.partition("/")[0] for name in held} == {"pyspark_twostage.py", "twostage", "twostage_native"}
