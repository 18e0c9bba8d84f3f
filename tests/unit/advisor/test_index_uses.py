"""How often indexes were used, counted from a log's scans."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from twostage.advisor.index_uses import index_uses
from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.query_log import QueryLog, QueryLogFile
from twostage.errors import NotFoundError


def leaf(column):
    return LoggedPredicate(op="=", columns=(column,), count=1, text=f"{column} = ?")


def scan(predicate, table="lake.db.t", **counters):
    return LoggedScan(
        time=datetime.datetime.now(datetime.UTC),
        scan="s",
        table=table,
        predicate=predicate,
        counters=counters,
    )


def test_scans_count_for_each_column_that_their_filter_names(tmp_path):
    both = LoggedPredicate(op="or", children=(leaf("a"), leaf("b")))
    twice = LoggedPredicate(op="or", children=(leaf("a"), leaf("a")))
    QueryLogFile(str(tmp_path), {}).append(
        [
            scan(leaf("a"), **{"indexes.used": 3}),
            scan(both, **{"files.pruned.index": 1}),
            scan(twice),
            scan(None, **{"indexes.used": 1}),
            scan(leaf("a"), table="lake.db.other", **{"indexes.used": 1}),
        ]
    )
    found = index_uses([QueryLog(str(tmp_path))], "lake.db.t")
    assert found.filtered == {"a": 3, "b": 1}
    assert found.used == {"a": 2, "b": 1}


def test_aggregates_and_first_rows_count(tmp_path):
    answered = scan(leaf("a"), **{"files.answered.index": 2})
    first = scan(None, **{"indexes.used": 1})
    QueryLogFile(str(tmp_path), {}).append(
        [
            replace(answered, reader="index", columns=("b",)),
            replace(first, top="c ASC NULLS FIRST, … LIMIT 7"),
            replace(scan(None), top="c ASC NULLS FIRST LIMIT 7"),
        ]
    )
    found = index_uses([QueryLog(str(tmp_path))], "lake.db.t")
    assert found.filtered == {"a": 1, "b": 1, "c": 2}
    assert found.used == {"a": 1, "b": 1, "c": 1}


def test_there_must_be_a_log(tmp_path):
    with pytest.raises(NotFoundError):
        index_uses([QueryLog(str(tmp_path))], "lake.db.t")
