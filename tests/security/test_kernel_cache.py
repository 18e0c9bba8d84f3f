"""Numba's cache is pickle: a folder that others can write is never used, and saying so once is enough."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from twostage_native import _jit

PROGRAM = """
import logging
logging.basicConfig(format="LOG %(name)s %(levelname)s %(message)s")
import numpy as np
from twostage_native import compare, masks, members, probe
values = np.arange(10_000, dtype=np.int64)
asked = members.prepare_integers(values[:5])
print(members.in_integers(values, *asked).sum(), members.in_integers(values.astype(np.int32), *asked).sum())
print(members.in_integers.compiled(values, *asked))
"""


def run(tmp_path, chosen):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(_jit.__file__).parents[1]),
            "NUMBA_CACHE_DIR": str(chosen),
            "HOME": str(tmp_path / "home"),
            "XDG_CACHE_HOME": str(tmp_path / "home"),
            "TMPDIR": str(tmp_path),
            "TWOSTAGE_JIT": "always",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["5", "5", "True"]
    return [line for line in done.stderr.splitlines() if line.startswith("LOG")]


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_cache_that_others_can_write_is_off_with_one_warning(tmp_path, mode):
    """Not even another folder is used instead: the user chose where machine code may lie."""
    pytest.importorskip("numba")
    chosen = tmp_path / "shared"
    chosen.mkdir()
    (tmp_path / "home").mkdir()
    chosen.chmod(mode)
    warnings = run(tmp_path, chosen)
    assert len(warnings) == 1, warnings
    assert "WARNING Kernels are not cached: NUMBA_CACHE_DIR" in warnings[0]
    assert str(chosen) in warnings[0]
    assert not files(chosen)
    assert not files(tmp_path / "home")


def test_a_payload_in_a_cache_that_others_can_write_is_not_loaded(tmp_path):
    pytest.importorskip("numba")
    chosen = tmp_path / "shared"
    (tmp_path / "home").mkdir()
    good = tmp_path / "private"
    good.mkdir(mode=0o700)
    assert run(tmp_path, good) == []
    saved = files(good)
    assert any(path.suffix == ".nbi" for path in saved)
    good.rename(chosen)
    payload = pickle.dumps(_Mark(str(tmp_path / "pwned")))
    for path in chosen.rglob("*.nb[ic]"):
        path.write_bytes(payload)
    chosen.chmod(0o777)
    assert len(run(tmp_path, chosen)) == 1
    assert not (tmp_path / "pwned").exists()


class _Mark:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_private_folder_is_used_and_nothing_is_said(tmp_path):
    pytest.importorskip("numba")
    chosen = tmp_path / "own"
    chosen.mkdir(mode=0o700)
    (tmp_path / "home").mkdir()
    assert run(tmp_path, chosen) == []
    assert any(path.suffix == ".nbi" for path in files(chosen))
