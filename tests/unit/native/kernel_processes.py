"""Processes of Python that have the kernels and no more: code in, what it printed and its errors out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from twostage_native import _jit

OURS = ("NUMBA_CACHE_DIR", "TWOSTAGE_JIT")  # each test says itself what it wants


def run(code, cache, **environment):
    """Start Python with the kernels' source root and a cache of its own; return the process."""
    root = Path(_jit.__file__).parents[1]
    paths = [environment.pop("first", ""), str(root)]
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={
            **{name: value for name, value in os.environ.items() if name not in OURS},
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "XDG_CACHE_HOME": str(cache),
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process):
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return printed.strip(), errors
