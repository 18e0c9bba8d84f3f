"""Every counter that the code adds to has a meaning in `COUNTERS`, and every meaning a counter.

The code is read, not run: names in `Metrics.add`, `timed` and `timed_steps`, and every text that begins as a counter does.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from twostage.deletes.cache.host import DELETES
from twostage.metrics import COUNTERS, Metrics
from twostage.reading.conditions.kept import CONDITIONS
from twostage.reading.host_footers import FOOTERS
from twostage.report.scan_report import _SPARK

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = sorted(path for path in (ROOT / "connector").rglob("*.py") if path.name != "metrics.py")
FAMILIES = sorted({name.partition(".")[0] for name in COUNTERS if "." in name} - {"spark"})
COUNTER = re.compile(rf"(?:{'|'.join(FAMILIES)})\.[a-z_-]+(?:\.[a-z_-]+)*")
GROUPS = ("files.pruned", "row_groups.pruned", "rows.deleted")  # what `ScanReport.reasons` is asked for
MADE_OF = {
    "bytes.{}": ("filter", "fetch"),
    "delete_compiled.{}": ("ignored", "failed"),
    "files.pruned.{}": ("partition", "bounds"),
    "indexes.{}": ("ignored", "failed"),
    "row_groups.pruned.{}": ("statistics", "dictionary", "bloom"),
    "rows.deleted.{}": ("position", "vector"),
}
"""Names that are put together while running, and what of: a new one belongs here."""
OF_HOST_CACHES = {"written", "removed", "ignored", "failed", "unusable", "too_large"}
"""What `deletes/cache/host.py` counts of each `Purpose`."""


def _terminal(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _pattern(node: ast.JoinedStr) -> str:
    return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)


def _found() -> tuple[set[str], set[str]]:
    """Return the counters that the product names, and the patterns that it makes some of."""
    names: set[str] = set()
    patterns: set[str] = set()
    for path in PRODUCT:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if COUNTER.fullmatch(node.value) and node.value not in GROUPS:
                    names.add(node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                given, method = node.args[0], node.func.attr
                if method in ("timed", "timed_steps"):
                    assert isinstance(given, ast.Constant), f"{path}:{node.lineno}"
                    names.add(f"time.{given.value}")
                elif method == "add_read":  # which stage's bytes, it is told
                    patterns.add("bytes.{}")
                elif method in ("add", "most") and _terminal(node.func.value) in ("metrics", "_metrics"):
                    if isinstance(given, ast.Constant):
                        names.add(given.value)
                    elif isinstance(given, ast.JoinedStr):
                        patterns.add(_pattern(given))
            elif isinstance(node, ast.Subscript) and _terminal(node.value) == "counters":
                if isinstance(node.slice, ast.Constant):
                    names.add(node.slice.value)
                elif isinstance(node.slice, ast.JoinedStr):
                    patterns.add(_pattern(node.slice))
    return names, patterns


def _warned(path: str) -> set[str]:
    """Return the words by which a module's `_warn` is called."""
    words = set()
    for node in ast.walk(ast.parse((ROOT / "connector" / "twostage" / path).read_text())):
        if isinstance(node, ast.Call) and _terminal(node.func) == "_warn":
            words |= {
                argument.value
                for argument in node.args
                if isinstance(argument, ast.Constant) and re.fullmatch(r"\w+", argument.value)
            }
    return words


def test_every_counter_has_a_meaning_and_every_meaning_a_counter():
    names, patterns = _found()
    assert len(names) > 50
    assert patterns == set(MADE_OF)
    made = {pattern.replace("{}", word) for pattern, words in MADE_OF.items() for word in words}
    made |= {purpose.counter(word) for purpose in (DELETES, CONDITIONS, FOOTERS) for word in OF_HOST_CACHES}
    used = names | made | set(_SPARK.values())
    assert used - set(COUNTERS) == set(), "add its meaning to COUNTERS in metrics.py"
    assert set(COUNTERS) - used == set(), "no code counts it"


def test_warnings_are_counted_by_the_words_that_are_known():
    assert _warned("deletes/cache/host.py") == OF_HOST_CACHES - {"written", "removed", "unusable"}
    assert _warned("deletes/compiled/store.py") == set(MADE_OF["delete_compiled.{}"])


@pytest.mark.parametrize("name", COUNTERS)
def test_a_meaning_is_a_phrase_that_says_its_unit(name):
    meaning = COUNTERS[name]
    assert meaning == meaning.strip().rstrip(".")
    assert "|" not in meaning  # it stands in a table
    assert not name.startswith("time.") or meaning.startswith("nanoseconds of ")
    assert not name.endswith(".ms") or meaning.startswith("milliseconds ")


def test_time_is_counted_under_its_name():
    metrics = Metrics()
    with metrics.timed("open"):
        pass
    assert list(metrics.counters) == ["time.open"]
    assert "time.open" in COUNTERS
