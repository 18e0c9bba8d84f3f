"""The examples in docstrings run, and say the truth."""

from __future__ import annotations

import doctest
import importlib
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
