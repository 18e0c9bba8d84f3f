"""What indexes would do before they are built: by hand on small cases, and the same as the model that replays check."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from twostage.advisor import tally as tally_module
from twostage.advisor.advise import advise
from twostage.advisor.byte_model import bytes_saved
from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.query_log import QueryLog, QueryLogFile
from twostage.advisor.tally import Tally
from twostage.advisor.thresholds import Thresholds
from twostage.advisor.what_if import what_if

ROWS = 1_000_000
WIDE = 8_000_000
VALUES = {"a": ("values",)}


def scan(column="a", left=10, *, rows=ROWS, reader="twostage", milliseconds=None, text="", **counters):
    measured = {"rows_in": rows, "rows_out": left} if reader == "twostage" else {}
    predicate = LoggedPredicate(op="=", columns=(column,), count=1, text=text or f"{column} = 5", **measured)
    counted = {"rows.considered": rows, "row_groups.considered": 1, "files.read": 1, "rows.fetched": left}
    counted |= {"bytes.filter": WIDE, "bytes.read": WIDE + 500} if reader == "twostage" else {}
    counted |= {name.replace("__", "."): number for name, number in counters.items()}
    return LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table="t", reader=reader, columns=("x",),
        predicate=predicate, counters=counted, query_milliseconds=milliseconds,
    )  # fmt: skip


def metadata(**indexed):
    facts = {"rows": ROWS, "bytes": WIDE, "pages": 50, "distinct": 1000.0, "distinct_per_file": 1000.0}
    columns = {name: ColumnMetadata(**facts, indexed=indexed.get(name, ())) for name in "ab"}
    return TableColumns(table="t", snapshot=1, rows=ROWS, files=1, bytes=10**8, columns=columns)


def tally_of(scans, known=None):
    tally = Tally("t", Thresholds(), None if known is None else known.cardinalities, metadata=known)
    for one in scans:
        tally.add(one)
    return tally


def test_bytes_are_those_that_the_byte_model_predicts():
    """Two forms: on b nothing changes; the total is their sum."""
    known = metadata()
    found = what_if(tally_of([scan("a")] * 3 + [scan("b", text="b = 6")] * 2, known), VALUES)
    saved = bytes_saved(scan("a"), known, VALUES)
    assert saved > 0.9 * WIDE
    by_text = {one.text: one for one in found.queries}
    assert by_text["a = 5"].bytes_before == 3 * (WIDE + 500)
    assert by_text["a = 5"].bytes_after == pytest.approx(3 * (WIDE + 500 - saved))
    assert by_text["b = 6"].bytes_after == by_text["b = 6"].bytes_before == 2 * (WIDE + 500)
    assert (found.total.scans, found.unknown, found.columns) == (5, 0, ("a",))
    assert found.total.bytes_before == 5 * (WIDE + 500)
    assert found.total.bytes_after == pytest.approx(5 * (WIDE + 500) - 3 * saved)
    assert found.total.seconds_before is None


def test_the_heaviest_come_first_and_all_count():
    scans = [scan("a"), scan("b", bytes__read=3 * WIDE), scan("a", ROWS // 3, bytes__read=2 * WIDE)]
    found = what_if(tally_of(scans, metadata()), VALUES, queries=2)
    assert [one.bytes_before for one in found.queries] == [3 * WIDE, 2 * WIDE]
    assert (found.total.scans, found.total.bytes_before) == (3, 6 * WIDE + 500)


def test_what_indexes_save_already_is_not_saved_again():
    """The scan read an index of a, and its bytes: another one of b, which it does not filter on, changes nothing."""
    used = scan("a", indexes__used=1, indexes__bytes_read=7_000, bytes__read=500, bytes__filter=0)
    found = what_if(tally_of([used], metadata(a=("values",))), {"b": ("values",)})
    assert found.total.bytes_before == found.total.bytes_after == 7_500


def test_scans_of_another_reader():
    """By what a row of the column takes: eight bytes of a million rows, of which the filter reads none any more."""
    theirs = scan("a", reader="iceberg", spark__files__bytes=10 * WIDE, spark__rows=ROWS)
    found = what_if(tally_of([theirs] * 4, metadata()), VALUES)
    assert found.total.bytes_before == 40 * WIDE
    assert found.total.bytes_after == 4 * (10 * WIDE - WIDE)
    unknown = what_if(tally_of([theirs] * 4), {"a": ()})
    assert (unknown.unknown, unknown.total.bytes_after) == (4, 40 * WIDE)


def test_without_metadata_bytes_go_with_entries():
    found = what_if(tally_of([scan("a"), scan("b")]), {"a": ()})
    assert found.total.bytes_after == pytest.approx(2 * (WIDE + 500) - WIDE)


def test_seconds_where_the_model_fits():
    """A millisecond for a thousand entries: an index of a leaves none of them."""
    sizes = range(1000, 60_000, 1000)
    scans = [scan("a", 1, rows=rows, milliseconds=rows // 1000) for rows in sizes]
    found = what_if(tally_of(scans), {"a": ()})
    assert found.total.seconds_before == pytest.approx(sum(sizes) / 1e6, rel=0.01)
    assert found.total.seconds_after == pytest.approx(0, abs=0.01)
    noise = [replace(one, query_milliseconds=1 + n * 37 % 50) for n, one in enumerate(scans)]
    assert what_if(tally_of(noise), {"a": ()}).total.seconds_before is None


def test_forms_beyond_the_limit_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(tally_module, "MAX_TEMPLATES", 2)
    scans = [scan("a"), scan("a", ROWS // 3), scan("b"), scan("b", ROWS // 3, bytes__read=WIDE)]
    found = what_if(tally_of(scans, metadata()), VALUES)
    assert (found.total.scans, found.unknown, len(found.queries)) == (4, 2, 2)
    assert found.total.bytes_before == 4 * WIDE + 3 * 500


def test_in_advice_and_json(tmp_path):
    QueryLogFile(str(tmp_path), {}).append([scan("a", milliseconds=5)] * 3)
    advice = advise(QueryLog(str(tmp_path)), metadata={"t": metadata()})
    (found,) = advice.what_if
    assert found.columns == ("a",)
    (plain,) = advice.as_dict()["what_if"]
    assert plain["total"]["bytes_before"] == 3 * (WIDE + 500)
    assert [one["text"] for one in plain["queries"]] == ["a = 5"]
    nothing = advise(QueryLog(str(tmp_path)), metadata={"t": metadata(a=("values",))})
    assert nothing.what_if == ()


def test_what_spark_s_own_reader_did_stays_as_it_is():
    """It reads no index; Iceberg's reader does not either, but its table's scans are to be ours."""
    known = metadata()
    rows = {"handed_over__rows": ROWS, "handed_over__bytes": WIDE}
    found = what_if(tally_of([scan("a", reader="spark", **rows)] * 3 + [scan("a")], known), VALUES)
    by_spark, ours = found.queries
    assert by_spark.bytes_before == by_spark.bytes_after == 3 * WIDE
    assert ours.bytes_after < ours.bytes_before
    assert found.unknown == 0
    others = what_if(tally_of([scan("a", reader="iceberg", spark__files__bytes=WIDE)] * 3, known), VALUES)
    assert others.total.bytes_after < others.total.bytes_before
