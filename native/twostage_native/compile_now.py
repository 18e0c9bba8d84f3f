"""The process that compiles one kernel for one call's kinds of arguments; see `compile_apart`.

Takes the kernel and the kinds as JSON, as its only argument; leaves machine code in the cache, and a file that says so.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from twostage_native import _jit
from twostage_native.compile_apart import example_argument, marker

_NICE = 10


def main(question: str) -> int:
    """Compile the kernel that `question` names, and mark it in the cache; return the process's exit code."""
    os.nice(_NICE)
    module, name, kinds = json.loads(question)
    importlib.import_module(module)
    kernel = _jit.KERNELS[name]
    directory = _jit.cache_directory()
    if directory is None or not kernel.compiled(*map(example_argument, kinds)) or not kernel.is_cached:
        return 1
    place = marker(kernel, question, directory)
    if place is None:
        return 1
    place.touch(mode=0o600)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
