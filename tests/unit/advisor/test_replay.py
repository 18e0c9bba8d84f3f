"""Replays: predictions beside measurements on a real table, and what cannot be replayed is named."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from logged_scans import log_scans, make_events
from twostage.__main__ import main
from twostage.advisor import replay
from twostage.advisor.collect import collect
from twostage.advisor.query_log import QueryLog, QueryLogFile
from twostage.advisor.replay import Check, Replayed, check_log, heaviest
from twostage.errors import InternalError, NotFoundError
from twostage.options import parse_options

NAME = "lake.db.events"
INDEXES = {"user": "postings,files", "device": "values"}


def queries(count=24):
    rng = random.Random(2)
    of_user = [f"user = 'u{rng.randrange(10_000)}' AND price > 500" for _ in range(count // 3)]
    of_device = [f"device = 'd{rng.randrange(300)}' AND kind = 'buy'" for _ in range(count // 3)]
    either = [
        f"user = 'u{rng.randrange(10_000)}' OR device = 'd{rng.randrange(300)}'" for _ in range(count // 3)
    ]
    return [(text, ["id", "price"]) for text in [*of_user, *of_device, *either]]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return make_events(tmp_path_factory.mktemp("replay") / "t")


@pytest.fixture(scope="module")
def log(table, tmp_path_factory):
    """A log of scans without indexes; afterwards the table gets some."""
    folder = tmp_path_factory.mktemp("log")
    log_scans(table, queries(), folder)
    for column, kinds in INDEXES.items():
        assert main(["index", "create", table, "--columns", column, "--kind", kinds]) == 0
    return folder


def check(table, log, **more):
    return check_log([QueryLog(str(log))], parse_options({"path": table}), {}, name=NAME, **more)


def test_predictions_are_near_what_is_measured(table, log):
    found = check(table, log, queries=24)
    assert len(found.replayed) == 24
    assert not found.refused
    assert sum(one.saved for one in found.replayed) > 0
    assert found.median_error <= 0.25
    assert all(one.seconds_with > 0 and one.seconds_without > 0 for one in found.replayed)
    again = check(table, log, queries=24, metadata=collect(parse_options({"path": table}), {}))
    assert (
        again.median_error <= 0.25
    )  # not the same: in which order a filter's parts are read depends on what they took


def test_the_heaviest_are_replayed_once_each(table, log):
    scans = list(QueryLog(str(log)))
    refused = Counter()
    chosen = heaviest([*scans, *scans], NAME, 5, refused)
    assert len({one.text for one in chosen}) == 5
    every = sorted((one.entries_in_filter for one in scans), reverse=True)
    assert [one.entries_in_filter for one in chosen] == every[:5]
    assert not refused
    assert heaviest(scans, "other", 5, refused) == []


def test_what_cannot_be_replayed_is_counted(table, tmp_path):
    log_scans(table, queries(3), tmp_path / "log", literals=False, index="off")
    found = check(table, tmp_path / "log")
    assert found.refused == {"the log has no literals (query-log-literals=false)": 3}
    assert (found.replayed, found.median_error) == ((), None)


def test_scans_that_read_indexes_already_are_left_out(table, log, tmp_path):
    log_scans(table, queries(6), tmp_path / "log")
    found = check(table, tmp_path / "log")
    assert found.refused["it was logged while indexes were read"] > 0


def test_scans_by_spark_s_reader_are_replayed_by_ours_if_wanted(table, log, tmp_path):
    """Their predictions are made of what reading them without indexes took: such a log says nothing of it."""
    own = list(QueryLog(str(log)))
    bare = [
        replace(
            scan, reader="spark", predicate=unmeasured(scan.predicate),
            counters={"handed_over.rows": 120_000, "handed_over.bytes": 10**6},
        )
        for scan in own
    ]  # fmt: skip
    QueryLogFile(str(tmp_path), {}).append(bare)
    assert check(table, tmp_path).refused == {"Spark's reader read it, which reads no index": len(own)}
    found = check(table, tmp_path, queries=24, spark_scans=True)
    ours = check(table, log, queries=24)
    assert {one.reader for one in found.replayed} == {"spark"}
    assert {one.reader for one in ours.replayed} == {"twostage"}
    by_text = {one.text: one for one in ours.replayed}
    assert len(found.replayed) == len(by_text) == 24
    for one in found.replayed:
        assert one.rows == by_text[one.text].rows
        assert one.predicted is not None
        assert one.predicted_seconds is None
    assert found.median_error <= 0.25


def unmeasured(part):
    return replace(
        part, rows_in=None, rows_out=None, nanoseconds=None, nbytes=None, children=tuple(map(unmeasured, part.children))
    )  # fmt: skip


def test_broken_lines_are_said(table, log, tmp_path):
    log_scans(table, queries(3), tmp_path / "log", index="off")
    with next((tmp_path / "log").iterdir()).open("a") as file:
        file.write("{half\n")
    found = check(table, tmp_path / "log")
    assert len(found.replayed) == 3
    assert "1 skipped, no JSON" in found.problems


def test_rows_that_differ_are_an_error(table, log, monkeypatch):
    original = replay._read

    def read(rebuilt, pinned, options):
        plan, report = original(rebuilt, pinned, options)
        report.metrics.counters["rows.fetched"] += options.settings.index
        return plan, report

    monkeypatch.setattr(replay, "_read", read)
    with pytest.raises(InternalError, match="WRONG_INDEX"):
        check(table, log, queries=1)


def test_a_table_that_is_gone(log, tmp_path):
    with pytest.raises(NotFoundError):
        check(str(tmp_path / "nothing"), log)


def test_errors_are_shares_of_what_was_saved():
    def one(predicted, before=100, after=40):
        return Replayed(
            text="a", columns=(), rows=1, bytes_without=before, bytes_with=after, predicted=predicted,
            seconds_without=1, seconds_with=1,
        )  # fmt: skip

    assert [one(60).error, one(90).error, one(None).error] == [0, 0.5, None]
    assert [one(0, 5, 5).error, one(3, 5, 5).error, one(-5, 5, 10).error] == [0, 1, 0]
    found = Check(table="t", replayed=(one(60), one(90), one(None)))
    assert found.median_error == 0.25
    assert found.as_dict()["replayed"][1]["saved"] == 60
