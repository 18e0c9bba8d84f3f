"""Bad values in logs of both kinds: mutated real lines are read or counted, and whatever is read can be advised on and printed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from logged_scans import log_scans, make_events
from twostage.advisor import event_log as module
from twostage.advisor.advise import advise
from twostage.advisor.event_log import EventLogs
from twostage.advisor.log_values import MAX_WHOLE, literal, load_line
from twostage.advisor.query_log import QueryLog

HERE = Path(__file__).parent
EVENTS = [HERE / f"{name}_events.jsonl" for name in ("iceberg_spark_1.12.0", "twostage_spark_4.1.4")]
HUGE = int("9" * 400)
ODD = [None, True, -1, 0, 5, 1.5, MAX_WHOLE, MAX_WHOLE + 1, HUGE, -HUGE, float("inf"), float("nan"), 1e308,
       "", "x", "9" * 400, "\ud800", [], [5], {}, {"op": "and"}, [[]], "or", "and", "in", "2026-11-23"]  # fmt: skip
TEXTS = [
    "1e400",
    "-1e400",
    "Infinity",
    '"\\ud83d"',
    "[" * 5000,
    "9" * 5000,
    '"\xff"',
    "{",
    "}",
    ",",
    "",
    '"and"',
]


@pytest.fixture(scope="module")
def real_lines(tmp_path_factory):
    """Lines of a query log that twostage wrote."""
    folder = tmp_path_factory.mktemp("real")
    path = make_events(folder / "table", files=1, rows=300)
    queries = [
        ("device IN ('d1', 'd2', 'd3') AND price > 5.0", ["id"]),
        ("kind = 'view' OR (user LIKE 'u%' AND id >= 7 AND id < 100)", ["id", "device"]),
        ("NOT (id IS NULL)", ["price"]),
    ]
    log_scans(path, queries, folder / "log")
    return [line for file in (folder / "log").iterdir() for line in file.read_text().splitlines()]


def places(value, path=()):
    """Yield the path of each value inside of plain JSON."""
    yield path
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from places(inner, (*path, key))


def mutated(line, rng):
    """Return a line with something wrong: a value that is another's, or text that is none."""
    raw = json.loads(line)
    paths = list(places(raw))[1:]
    for _ in range(rng.choice((1, 1, 2))):
        *outer, last = rng.choice(paths)
        holder = raw
        try:
            for key in outer:
                holder = holder[key]
            holder[last] = rng.choice(ODD)
        except (LookupError, TypeError):
            continue
    text = json.dumps(raw, separators=(",", ":"))
    if rng.random() < 0.3:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(TEXTS) + text[at + rng.choice((0, 1, 20)) :]
    return text.replace("\n", " ")


def tell(advice):
    """Do with an advice what the commands do: make JSON of it, as bytes."""
    json.dumps(advice.as_dict(), ensure_ascii=False).encode()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_mutated_lines_of_a_query_log(real_lines, tmp_path_factory, seed):
    rng = random.Random(seed)
    lines = [mutated(rng.choice(real_lines), rng) for _ in range(8)]
    path = tmp_path_factory.mktemp("log") / "scans.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8", errors="replace")
    log = QueryLog(str(path))
    assert len(list(log)) + sum(log.problems.counts.values()) == len(lines)
    tell(advise(log))


def is_read(line):
    """Tell whether a line of an event log is one by its beginning, and JSON, or another event, which is not looked at."""
    try:
        load_line(line)
    except ValueError:
        return line.startswith('{"Event"') and not line.startswith(
            tuple(map(bytes.decode, module._WANTED)), 1
        )
    return True


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_mutated_lines_of_event_logs(tmp_path_factory, seed):
    rng = random.Random(seed)
    lines = rng.choice(EVENTS).read_text().splitlines()
    broken = rng.sample(range(len(lines)), 5)
    for place in broken:
        lines[place] = mutated(lines[place], rng)
    path = tmp_path_factory.mktemp("events") / "app"
    path.write_text("\n".join(lines), encoding="utf-8", errors="replace")
    log = EventLogs(str(path))
    list(log)
    unread = sum(not is_read(lines[place]) for place in broken)
    assert unread <= sum(log.problems.counts.values()) <= len(broken)
    tell(advise(log))


@pytest.mark.parametrize(
    "where", [("counters", "rows.fetched"), ("query_milliseconds",), ("predicate", "in")]
)
@pytest.mark.parametrize("value", [HUGE, MAX_WHOLE + 1, -1, True, 1.5, "7", [7]])
def test_numbers_that_are_none_are_counted(real_lines, tmp_path, where, value):
    raw = json.loads(real_lines[2])
    holder = raw
    for key in where[:-1]:
        holder = holder[key]
    holder[where[-1]] = value
    (tmp_path / "scans.jsonl").write_text(f"{json.dumps(raw)}\n{real_lines[2]}\n")
    log = QueryLog(str(tmp_path))
    assert len(list(log)) == 1
    assert list(log.problems.counts) == [f"not a number: {where[-1]}"]


@pytest.mark.parametrize("columns", [5, None, "dev", [5], {"a": 1}])
def test_columns_that_are_none_are_counted(real_lines, tmp_path, columns):
    raw = json.loads(real_lines[2])
    raw["predicate"]["columns"] = columns
    (tmp_path / "scans.jsonl").write_text(json.dumps(raw))
    log = QueryLog(str(tmp_path))
    assert list(log) == []
    assert list(log.problems.counts) == ["not texts: columns"]


@pytest.mark.parametrize("time", [HUGE, float("inf"), float("nan"), MAX_WHOLE, -1, "1795402046764", None])
def test_times_that_are_none_are_counted(tmp_path, time):
    lines = EVENTS[0].read_text().splitlines()
    (place,) = [n for n, line in enumerate(lines) if "SQLExecutionEnd" in line and '"executionId":2,' in line]
    lines[place] = json.dumps({**json.loads(lines[place]), "time": time}, separators=(",", ":"))
    (tmp_path / "app").write_text("\n".join(lines))
    log = EventLogs(str(tmp_path))
    assert len(list(log)) == 8
    assert dict(log.problems.counts) == {"not an event of Spark": 1}


@pytest.mark.parametrize(
    "line", [b'"\\ud83d"', b'["\\uDC00"]', b'"\xed\xa0\x80"', b"NaN", b"[" * 100_000, b'"\xff"']
)
def test_lines_that_are_none(line):
    with pytest.raises(ValueError, match=r"half a character|not a number|nested|utf-8"):
        load_line(line)


def test_lines_that_are_some():
    assert load_line(b'["\\ud83d\\ude00", "\xed\x95\x9c"]') == ["😀", "한"]
    assert [literal(one) for one in (None, False, "a", -(2**63), 0.5)] == [None, False, "a", -(2**63), 0.5]
