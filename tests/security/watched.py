"""The program that `test_no_code_from_data.py` starts: reads tables under an audit hook, and prints what it saw.

First every folder in the arguments that is good is read, so that all modules are loaded; then the hook is set and
the others are read. Reported: whatever unpickles, compiles, executes, imports, starts a process or opens a socket.
"""

from __future__ import annotations

import json
import os
import sys

SUSPECT = (
    "pickle.",
    "marshal.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.spawn",
    "os.posix_spawn",
    "socket.",
    "ctypes.",
)


def read(path: str) -> str:
    """Read the whole table; return how it ended."""
    from core_scan import open_table
    from twostage.errors import TwoStageError
    from twostage.metrics import Metrics
    from twostage.planning.plan import plan_scan
    from twostage.predicates.predicate import TRUE
    from twostage.reading.pipeline import read_group

    try:
        opened = open_table(path)
        plan = plan_scan(
            opened.table,
            opened.options,
            projection=opened.table.schema.fields,
            predicate=TRUE,
            hint=TRUE,
            limit=None,
            parallelism=1,
            scan_id="watched",
        )
        rows = sum(batch.num_rows for group in plan.groups for batch in read_group(group, Metrics()))
    except TwoStageError as error:
        return str(error)
    return f"{rows} rows"


def is_library(name: str) -> bool:
    """Tell whether code of this name is a module's own."""
    return name.startswith("<frozen") or (os.path.isfile(name) and name.endswith(".py"))


def main() -> None:
    """Read the good folders, then watch the bad ones."""
    good, bad = (part.split(os.pathsep) for part in sys.argv[1:3])
    before = [read(path) for path in good] + [read(path) for path in bad]
    seen: list[str] = []

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event.startswith(SUSPECT):
            seen.append(f"{event} {arguments!r:.200}")
        elif event == "exec" and not is_library(getattr(arguments[0], "co_filename", "")):
            seen.append(f"exec {arguments!r:.200}")
        elif event == "compile" and not is_library(str(arguments[1])):
            seen.append(f"compile {arguments!r:.200}")
        elif event == "import":
            seen.append(f"import {arguments[0]}")

    sys.addaudithook(hook)
    results = [read(path) for path in bad]
    again = [read(path) for path in good]
    print(json.dumps({"seen": seen, "results": results, "good": again, "first": before}))


if __name__ == "__main__":
    main()
