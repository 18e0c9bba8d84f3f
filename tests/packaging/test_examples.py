"""The examples in docstrings run, and say the truth; so do those of the folder that `make demo` does not run."""

from __future__ import annotations

import doctest
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    ".".join(path.relative_to(source).with_suffix("").parts)
    for source in (ROOT / "connector", ROOT / "native")
    for path in sorted(source.rglob("*.py"))
    if any(">>> " in line and "+SKIP" not in line for line in path.read_text().splitlines())
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted
    assert results.failed == 0


def test_the_example_of_the_advisor(tmp_path):
    code = f"import pathlib, advise; advise.main(pathlib.Path({str(tmp_path)!r}), num_files=1, count=12)"
    paths = [str(ROOT / name) for name in ("connector", "native", "examples")]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for said in ("Index device_id", "device_id (", "scans read", "median error"):
        assert said in done.stdout, done.stdout
    assert "files removed" in done.stderr
