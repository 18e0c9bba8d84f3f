"""When kernels are compiled, where their machine code is cached, and what happens where neither can be."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from twostage_native import _jit
from twostage_native._jit import KERNELS, Kernel, kernel

from .kernel_processes import output, run

IN_LIST = """
import sys
import numpy as np
from twostage_native import compare, masks, members, probe, reference, strings
assert not {"numba", "llvmlite", "pyarrow", "twostage"} & set(sys.modules), "imported too much"
values = np.arange(100_000, dtype=np.DTYPE)
asked = members.prepare_integers(np.arange(0, 300, 3))
hits = members.in_integers(values, *asked)
assert np.flatnonzero(hits).tolist() == list(range(0, 300, 3))
print("numba" in sys.modules, members.in_integers.compiled(values, *asked))
"""


def test_importing_loads_no_numba_and_few_rows_need_none(tmp_path):
    pytest.importorskip("numba")
    assert output(run(IN_LIST.replace("DTYPE", "int64"), tmp_path))[0] == "False True"


def test_switched_off(tmp_path):
    assert output(run(IN_LIST.replace("DTYPE", "int64"), tmp_path, TWOSTAGE_JIT="0"))[0] == "False False"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "failure", ["raise ImportError('gone')", "raise RuntimeError('llvmlite is broken')", ""]
)
def test_broken_numba_ends_in_the_twin(tmp_path, failure):
    (tmp_path / "numba.py").write_text(failure)
    code = IN_LIST.replace("DTYPE", "int64")
    printed, errors = output(run(code, tmp_path / "cache", TWOSTAGE_JIT="always", first=str(tmp_path)))
    assert printed.endswith("False")
    assert "plain NumPy" in errors


def test_machine_code_is_cached_in_a_private_directory(tmp_path):
    pytest.importorskip("numba")
    code = IN_LIST.replace("DTYPE", "int64")
    assert output(run(code, tmp_path, TWOSTAGE_JIT="always"))[0] == "True True"
    directory = tmp_path / "twostage" / "kernels"
    assert directory.stat().st_mode & 0o777 == 0o700
    saved = {path: path.stat().st_mtime_ns for path in directory.rglob("*.nb[ci]")}
    assert saved
    assert output(run(code, tmp_path, TWOSTAGE_JIT="always"))[0] == "True True"
    assert {path: path.stat().st_mtime_ns for path in directory.rglob("*.nb[ci]")} == saved


def test_processes_that_fill_one_cache_at_once(tmp_path):
    pytest.importorskip("numba")
    kinds = ["int16", "int32", "int64"]
    for _ in range(2):  # a cold cache, then whatever they left
        started = [
            run(
                IN_LIST.replace("100_000", "100").replace("300", "100").replace("DTYPE", kind),
                tmp_path,
                TWOSTAGE_JIT="always",
            )
            for kind in kinds
        ]
        assert [output(process)[0] for process in started] == ["True True"] * len(kinds)


def test_nowhere_to_cache(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(_jit, "_state", {"directory": None})
    made = Kernel(_double, lambda values: values * 2)
    assert made.compiled(np.arange(3))
    assert made(np.arange(3)).tolist() == [0, 2, 4]


def _double(values):
    doubled = values.copy()
    for row in range(len(values)):
        doubled[row] = 2 * values[row]
    return doubled


def _no_machine_code(values):
    return values.no_such_method()


def test_a_loop_that_does_not_compile_runs_as_its_twin(caplog, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setenv("TWOSTAGE_JIT", "always")
    made = Kernel(_no_machine_code, lambda values: values + 1)
    assert made(np.arange(3)).tolist() == [1, 2, 3]
    assert not made.compiled(np.arange(3))
    assert "_no_machine_code" in caplog.text


def test_twins_run_until_compiling_pays(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.delenv("TWOSTAGE_JIT", raising=False)
    monkeypatch.setattr(_jit, "_state", {"directory": None})
    monkeypatch.setattr(_jit, "_LOAD_SECONDS", 1e9)
    twin_calls = []
    made = Kernel(_double, lambda values: twin_calls.append(1) or values * 2)
    for _ in range(3):
        assert made(np.arange(3)).tolist() == [0, 2, 4]
    assert len(twin_calls) == 3
    monkeypatch.setattr(_jit, "_LOAD_SECONDS", 0.0)
    monkeypatch.setattr(_jit, "_COMPILE_SECONDS", 0.0)
    assert made(np.arange(3)).tolist() == [0, 2, 4]
    assert len(twin_calls) == 3


def test_names_are_unique():
    name = next(iter(KERNELS), None) or "first"
    source = type(_double)(_double.__code__, {}, name)
    source.__name__ = name
    before = dict(KERNELS)
    if name not in KERNELS:
        kernel(_double)(source)
    with pytest.raises(ValueError, match=name):
        kernel(_double)(source)
    KERNELS.clear()
    KERNELS.update(before)


def test_private_directories(tmp_path):
    tmp_path.chmod(0o700)
    good = tmp_path / "twostage" / "kernels"
    assert _jit._is_private(good)
    assert good.stat().st_mode & 0o777 == 0o700
    assert _jit._is_private(good)
    assert not _jit._is_private(Path("relative/kernels"))

    link = tmp_path / "twostage" / "link"
    link.symlink_to(good)
    assert not _jit._is_private(link)

    file = tmp_path / "twostage" / "file"
    file.write_text("")
    assert not _jit._is_private(file)
    assert not _jit._is_private(file / "deeper" / "kernels")

    good.chmod(0o770)
    assert not _jit._is_private(good)
    good.chmod(0o700)
    good.parent.chmod(0o777)
    assert not _jit._is_private(good)  # whoever can write the parent can put another directory here
    good.parent.chmod(0o1777)
    assert _jit._is_private(good)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_somebody_elses_directory_is_not_private(tmp_path):
    directory = tmp_path / "twostage" / "kernels"
    assert _jit._is_private(directory)
    os.chown(directory, 12345, 12345)
    assert not _jit._is_private(directory)
