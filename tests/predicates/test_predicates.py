"""Generated predicates: twostage and Spark's own evaluation of the same rows agree on every one of them.

`TWOSTAGE_SEED` and `TWOSTAGE_PREDICATES` (how many in all; 180) repeat or widen a run. Predicates are cut
into the session's settings: three time zones, ANSI on and off.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from drawing import Drawing

from figures import FULL

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
PREDICATES = int(os.environ.get("TWOSTAGE_PREDICATES", "2000" if FULL else "180"))
SETTINGS = [(zone, ansi) for ansi in (True, False) for zone in ("UTC", "America/New_York", "Asia/Kolkata")]
BATCH = 20
"""Predicates that Spark evaluates in one query, as columns."""
TOO_MANY = 400


@dataclass
class Outcomes:
    """What happened in one run of a setting."""

    counts: Counter = field(default_factory=Counter)
    shapes: dict = field(default_factory=dict)
    differences: list = field(default_factory=list)


@pytest.fixture
def settings(spark, request):
    zone, ansi = request.param
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    yield request.param
    spark.conf.unset("spark.sql.session.timeZone")
    spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "settings", SETTINGS, indirect=True, ids=lambda s: f"{s[0]}-{'ansi' if s[1] else 'legacy'}"
)
def test_generated_predicates(spark, settings, capsys):
    drawing = Drawing(random.Random(f"{SEED} {settings}"))
    drawn = [drawing.predicate() for _ in range(max(BATCH, PREDICATES // len(SETTINGS)))]
    outcomes = Outcomes()
    for start in range(0, len(drawn), BATCH):
        batch = drawn[start : start + BATCH]
        for one, expected in zip(batch, spark_answers(spark, batch), strict=True):
            check(spark, one, expected, outcomes, by_api=one.by_api and drawing.random.random() < 0.8)
    counts = outcomes.counts
    with capsys.disabled():
        print(f"\nTWOSTAGE_SEED={SEED} {settings}: {dict(sorted(counts.items()))}")
        print(*outcomes.differences, sep="\n\n")
    assert not outcomes.differences, "\n\n".join(outcomes.differences[:10])
    # The run must not be vacuous.
    assert counts["both raise"] < 0.3 * len(drawn)
    assert counts["rows, not all"] > 0.4 * len(drawn)
    assert counts["by API"] > 0.05 * len(drawn)
    # A scan is missing where Spark answered without reading: a comparison with NULL, say.
    handed_back = {shape: seen for shape, seen in outcomes.shapes.items() if seen["handed back"]}
    assert counts["promised, taken over"] >= 0.9 * counts["promised"], handed_back
    assert counts["promised"] > 0.2 * len(drawn)


def query(spark, table, one, by_api):
    if by_api:
        return spark.table(table).where(one.column()).select("id")
    return spark.sql(f"SELECT id FROM {table} WHERE {one.sql}")


def spark_answers(spark, batch):
    """Return Spark's rows of each predicate: the ids, or the error."""
    try:
        rows = spark.sql(f"SELECT id, {', '.join(f'({one.sql})' for one in batch)} FROM local").collect()
    except Exception:
        if len(batch) == 1:
            return [answer(spark.sql, f"SELECT id FROM local WHERE {batch[0].sql}")]
        middle = len(batch) // 2
        return spark_answers(spark, batch[:middle]) + spark_answers(spark, batch[middle:])
    return [sorted(row[0] for row in rows if row[place]) for place in range(1, len(batch) + 1)]


def answer(run, *arguments):
    try:
        return sorted(row[0] for row in run(*arguments).collect())
    except Exception as error:
        return error


def check(spark, one, expected, outcomes, *, by_api):
    taken = None
    try:
        frame = query(spark, "nasty", one, by_api)
        plan = frame._jdf.queryExecution().executedPlan().toString()
        if "BatchScan" in plan:
            taken = "Filter" not in plan.replace("RuntimeFilters", "")
        found = sorted(row[0] for row in frame.collect())
    except Exception as error:
        found = error
    counts = outcomes.counts
    counts["by API" if by_api else "by SQL"] += 1
    if taken is not None:
        how = "taken over" if taken else "handed back"
        counts[how] += 1
        outcomes.shapes.setdefault(one.shape, Counter())[how] += 1
        if one.promised:
            counts["promised"] += 1
            counts["promised, taken over"] += taken
    if isinstance(found, Exception) and isinstance(expected, list):
        # A projection may leave out what a filter evaluates, so ask for Spark's own filter.
        expected = answer(spark.sql, f"SELECT id FROM local WHERE {one.sql}")
    if isinstance(expected, Exception) and isinstance(found, list):
        # Spark may leave out what cannot matter: a conjunct of a row that another one refuses.
        counts["only Spark raises"] += 1
        expected = rows_without_error(spark, one.sql)
        if expected is None:
            counts["only Spark raises, unchecked"] += 1
            return
    if isinstance(found, Exception) and isinstance(expected, Exception) and "Python worker" not in str(found):
        counts["both raise"] += 1
        return
    if isinstance(found, Exception) or isinstance(expected, Exception) or found != expected:
        # Spark's compiled filter decides: an interpreted one may differ, and so may a literal that came by
        # the API (a Python date before 1582-10-15 goes through java.sql.Date).
        compiled = answer(query, spark, "plain", one, by_api)
        if not isinstance(compiled, list) or compiled != found:
            text = f"{one.sql}\nby API: {by_api}, taken over: {taken}\n{shown(found, expected)}"
            outcomes.differences.append(text)
            return
        counts["Spark differs from itself"] += 1
    counts["no rows" if not found else "all rows" if len(found) == 300 else "rows, not all"] += 1


def shown(found, expected):
    if isinstance(found, Exception) or isinstance(expected, Exception):
        return f"twostage: {str(found)[-1200:] or repr(found)}\nSpark: {str(expected)[:300]}"
    return f"missing: {sorted(set(expected) - set(found))}\ntoo many: {sorted(set(found) - set(expected))}"


def rows_without_error(spark, sql):
    """Return the rows for which Spark says true, leaving out those for which it raises; None if they are many."""
    left, found = TOO_MANY, []
    ranges = [(0, 299)]
    while ranges:
        if left == 0:
            return None
        left -= 1
        first, last = ranges.pop()
        rows = answer(spark.sql, f"SELECT id FROM local WHERE id BETWEEN {first} AND {last} AND ({sql})")
        if isinstance(rows, list):
            found += rows
        elif first < last:
            middle = (first + last) // 2
            ranges += [(first, middle), (middle + 1, last)]
    return sorted(found)
