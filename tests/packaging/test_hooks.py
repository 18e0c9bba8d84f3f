"""The hooks that run before a commit: the tools of ``make lint types``, tried on a repository of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / ".pre-commit-config.yaml"
TOOLS = Path(sys.executable).parent
ENTRY = re.compile(r"\.venv/bin/((?:ruff )?[\w-]+)")


def test_the_hooks_are_what_make_checks():
    if not (ROOT / "Makefile").exists():
        pytest.skip("no Makefile here")
    told = subprocess.run(
        ["make", "-n", "lint", "types"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    run = set(ENTRY.findall(told.stdout))
    hooks = set(ENTRY.findall(CONFIGURATION.read_text()))
    assert hooks == {"ruff check", "ruff format", "lint-imports", "mypy"}
    assert hooks <= run


@pytest.fixture
def repository(tmp_path):
    """A repository with our configuration and our tools, and a function that commits in it."""
    if not (TOOLS / "pre-commit").exists() or not (TOOLS / "ruff").exists():
        pytest.skip("pre-commit and ruff are in the lint group of pyproject.toml")
    for one in (CONFIGURATION, ROOT / "pyproject.toml"):
        shutil.copy(one, tmp_path)
    (tmp_path / ".venv").symlink_to(TOOLS.parent)
    (tmp_path / ".gitignore").write_text(".venv\n.cache\n")
    surroundings = {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "PRE_COMMIT_HOME": str(tmp_path / ".cache"),
        "SKIP": "lint-imports,mypy",  # they want the whole of connector/
        "GIT_CONFIG_GLOBAL": os.devnull,
    }

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False
        )  # fmt: skip

    git("init", "-q")
    installed = subprocess.run(
        [TOOLS / "pre-commit", "install"], cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert installed.returncode == 0, installed.stdout + installed.stderr
    return tmp_path, git


def test_a_commit_that_lint_refuses(repository):
    folder, git = repository
    module = folder / "module.py"
    module.write_text('"""A module."""\n\nfrom __future__ import annotations\n\nimport os\n')
    git("add", ".")
    refused = git("commit", "-m", "unused import")
    assert refused.returncode != 0
    assert "F401" in refused.stdout + refused.stderr
    module.write_text('"""A module."""\n\nfrom __future__ import annotations\n\nNAMES = [ "a" ]\n')
    git("add", ".")
    formatted = git("commit", "-m", "badly formatted")
    assert formatted.returncode != 0
    assert 'NAMES = ["a"]' in module.read_text()
    git("add", ".")
    done = git("commit", "-m", "clean")
    assert done.returncode == 0, done.stdout + done.stderr
