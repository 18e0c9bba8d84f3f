"""Parquet files of other projects, good and bad: valid rows, or a typed error that names the file and a stage.

Each is read in a process that may take 1 GiB and 30 s; none may end or hang it.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from figures import record
from limited_process import LimitedProcess

ROOT = os.environ.get("TWOSTAGE_TABLES", "")
pytestmark = pytest.mark.skipif(not ROOT, reason="TWOSTAGE_TABLES is not set")
LEAST_FILES = 400


def test_every_file():
    paths = sorted(
        path
        for path in Path(ROOT).rglob("*")
        if path.is_file() and ".parquet" in path.name and path.suffix in (".parquet", ".encrypted")
    )
    assert len(paths) >= LEAST_FILES
    classes, codes = Counter(), Counter()
    wrong, bad = [], Counter()
    with LimitedProcess("corpus_reads:read_corpus_file") as process:
        for path in paths:
            answer = process.ask({"path": str(path)})
            name = str(path.relative_to(ROOT))
            classes[answer["class"]] += 1
            if "bad_data" in path.parts:
                bad[answer["class"]] += 1
            if answer["class"] == "typed":
                codes[answer["code"]] += 1
                if answer["path"] != str(path) or not answer["stage"]:
                    wrong.append((name, answer))
            elif answer["class"] != "rows" or (answer["columns"] and answer["rows"] != answer["said"]):
                wrong.append((name, answer))
    print(dict(classes), dict(codes), dict(bad))
    assert not wrong, wrong
    assert bad["typed"] >= 6, bad
    assert classes["rows"] > 0.85 * len(paths), (classes, codes)
    record("R5", corpus_files=len(paths), corpus_rows=classes["rows"], corpus_errors=classes["typed"])
