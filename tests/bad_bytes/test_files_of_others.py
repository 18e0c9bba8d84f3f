"""Parquet files of other projects, good and bad: valid rows, or a typed error that names the file and a stage.

Each is read in a process that may take 1 GiB and 30 s; none may end or hang it. TWOSTAGE_TABLES names the folder of
such files, TWOSTAGE_FUZZ_CORPUS one whose files were all made by fuzzers, such as ``data/parquet`` of
github.com/apache/arrow-testing (their names end as they like).
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from figures import record
from limited_process import LimitedProcess

ROOT = os.environ.get("TWOSTAGE_TABLES", "")
FUZZED = os.environ.get("TWOSTAGE_FUZZ_CORPUS", "")
LEAST_FILES = 400


def read_all(paths):
    """Read files; return their classes, those of bad_data, the errors' codes, and what is neither rows nor typed."""
    classes, codes = Counter(), Counter()
    wrong, bad = [], Counter()
    with LimitedProcess("corpus_reads:read_corpus_file") as process:
        for path in paths:
            answer = process.ask({"path": str(path)})
            classes[answer["class"]] += 1
            if "bad_data" in path.parts:
                bad[answer["class"]] += 1
            if answer["class"] == "typed":
                codes[answer["code"]] += 1
                if answer["path"] != str(path) or not answer["stage"]:
                    wrong.append((str(path), answer))
            elif answer["class"] != "rows" or (answer["columns"] and answer["rows"] != answer["said"]):
                wrong.append((str(path), answer))
    print(dict(classes), dict(codes), dict(bad))
    return classes, bad, codes, wrong


@pytest.mark.skipif(not ROOT, reason="TWOSTAGE_TABLES is not set")
def test_every_file():
    paths = sorted(
        path
        for path in Path(ROOT).rglob("*")
        if path.is_file() and ".parquet" in path.name and path.suffix in (".parquet", ".encrypted")
    )
    assert len(paths) >= LEAST_FILES
    classes, bad, codes, wrong = read_all(paths)
    assert not wrong, wrong
    assert bad["typed"] >= 6, bad
    assert classes["rows"] > 0.85 * len(paths), (classes, codes)
    record("R5", corpus_files=len(paths), corpus_rows=classes["rows"], corpus_errors=classes["typed"])


@pytest.mark.skipif(not FUZZED, reason="TWOSTAGE_FUZZ_CORPUS is not set")
def test_every_file_of_a_fuzzer():
    paths = sorted(path for path in Path(FUZZED).rglob("*") if path.is_file() and path.suffix != ".md")
    classes, _, codes, wrong = read_all(paths)
    assert not wrong, wrong
    assert classes["typed"] > 0.5 * len(paths), (classes, codes)
    record("R5", fuzzed_files=len(paths), fuzzed_rows=classes["rows"], fuzzed_errors=classes["typed"])
