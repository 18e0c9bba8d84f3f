"""Nobody waits for a compiler: another process makes the machine code, and this one loads it."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from twostage_native import _jit, compile_apart, members
from twostage_native._jit import kernel

from .kernel_processes import output, run

FIRST = """
import os, sys, time
import numpy as np
from twostage_native import _jit, members
values = np.arange(100_000, dtype=np.int64)
asked = members.prepare_integers(np.arange(0, 300, 3))
made = members.in_integers
_jit._state["seconds"] = made._seconds = 1.0  # as if the twins had taken long
turns, longest, deadline = 0, 0.0, time.monotonic() + 240
while not made._compiled and time.monotonic() < deadline:
    assert np.flatnonzero(made(values, *asked)).tolist() == list(range(0, 300, 3))
    turns += 1
    if not made._compiled:
        assert "numba" not in sys.modules, "compiled where it was called"
    time.sleep(0.01)
print(turns > WAITED, made.is_cached, len(list(_jit.cache_directory().glob("in_integers-*.compiled"))))
"""


def test_another_process_compiles_and_this_one_loads(tmp_path):
    """A second process finds the machine code and waits for nothing."""
    pytest.importorskip("numba")
    assert output(run(FIRST.replace("WAITED", "1"), tmp_path))[0] == "True True 1"
    saved = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb[ci]")}
    assert saved
    assert output(run(FIRST.replace("turns > WAITED", "turns"), tmp_path))[0] == "1 True 1"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb[ci]")} == saved


@pytest.mark.parametrize("broken", ["no such module", "exits", "no process"])
def test_a_compiler_that_fails_is_tried_here(tmp_path, monkeypatch, broken):
    pytest.importorskip("numba")
    monkeypatch.setenv("TWOSTAGE_JIT", "auto")
    monkeypatch.setitem(_jit._state, "directory", tmp_path)
    twins = []

    def twin(values):
        twins.append(len(values))
        return values + 1

    @kernel(twin)
    def plus_one_apart(values):
        return values + 1

    try:
        if broken == "exits":  # it imports this module, which another process does not find
            plus_one_apart.source.__module__ = "twostage_native.no_such_module"
        if broken == "no process":
            monkeypatch.setattr(compile_apart.sys, "executable", str(tmp_path / "python"))
        plus_one_apart._seconds = _jit._state["seconds"] = 10.0
        values = np.arange(3)
        deadline = time.monotonic() + 240
        while not plus_one_apart._compiled and time.monotonic() < deadline:
            assert plus_one_apart(values).tolist() == [1, 2, 3]
            time.sleep(0.01)
        assert plus_one_apart._compiled
        assert plus_one_apart(values).tolist() == [1, 2, 3]
        assert not list(tmp_path.glob("*.compiled"))
    finally:
        del _jit.KERNELS["plus_one_apart"]


@pytest.mark.parametrize(
    "argument",
    [
        np.arange(3, dtype="<u2"),
        np.zeros((2, 3), dtype=np.float32),
        np.frombuffer(b"abcd", dtype=np.uint8),
        np.int32(4),
        np.float64(1),
        np.bool_(True),
        True,
        7,
        1.5,
    ],
)
def test_arguments_are_made_as_they_were(argument):
    named = compile_apart._named(argument)
    assert _jit._kind(compile_apart.example_argument(json.loads(json.dumps(named)))) == _jit._kind(argument)


@pytest.mark.parametrize(
    "argument", [np.zeros((4, 4))[:, ::2], np.array(["a"]), np.array([None]), (1, 2), None, "text"]
)
def test_arguments_without_a_name_are_compiled_here(argument, tmp_path):
    assert compile_apart._named(argument) is None
    assert compile_apart.BackgroundCompilation(members.in_integers, (argument,), tmp_path).is_done()
