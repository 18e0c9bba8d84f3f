"""The main table of a report, from counters: what was considered, removed by which reason, and read."""

from __future__ import annotations

from typing import Any

import pytest

from twostage.report.funnel import Funnel, by_reason, format_bytes, store_line
from twostage.report.tasks import TaskStates

DONE = TaskStates(finished=2)


def rows(
    counters: dict[str, int],
    tasks: TaskStates = DONE,
    *,
    is_handed_over: bool = False,
    is_from_metadata: bool = False,
) -> dict[str, tuple[str, str, str]]:
    """Return the table's rows by name."""
    funnel = Funnel(
        counters=counters, tasks=tasks, is_handed_over=is_handed_over, is_from_metadata=is_from_metadata
    )
    found = {name: (considered, removed, read) for name, considered, removed, read in funnel.rows()}
    assert len(found) == len(funnel.rows())
    return found


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1_023, "1,023 B"),
        (1_024, "1.0 KiB"),
        (1_536 * 2**10, "1.5 MiB"),
        (2**30, "1.0 GiB"),
        (5 * 2**40, "5,120.0 GiB"),  # the largest unit
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert format_bytes(size) == text


def test_reasons_are_below_the_prefix_and_not_zero() -> None:
    counters = {"rows.deleted.vector": 2, "rows.deleted.equality": 0, "rows.deleted": 9, "rows.deletedx.y": 5}
    assert by_reason(counters, "rows.deleted") == {"vector": 2}


def test_a_plain_scan() -> None:
    found = rows(
        {
            "manifests.considered": 5, "manifests.pruned": 2,
            "files.considered": 1_000, "files.pruned.bounds": 300, "files.pruned.partition": 600,
            "row_groups.considered": 200, "row_groups.pruned.bloom": 20, "row_groups.untouched": 30,
            "row_groups.read": 180,
            "pages.considered": 40, "page_indexes.ignored": 1, "pages.read": 10,
            "rows.considered": 9_000, "rows.pruned": 5_000, "rows.filtered": 1_000, "rows.top-n": 500,
            "rows.deleted.position": 400, "rows.fetched": 2_100,
            "bytes.considered": 2**20, "bytes.read": 2**18, "bytes.filter": 2**17, "bytes.fetch": 2**17,
        }
    )  # fmt: skip
    assert found == {
        "manifests": ("5", "2 by partition", "3"),
        "data files": ("1,000", "300 by bounds, 600 by partition", "100"),
        "row groups": ("200", "20 by bloom, 30 without a deleted key", "180"),
        "pages of those": ("40", "1 page indexes ignored: they contradict the pages", "10"),
        "rows": (
            "9,000",
            "400 by position deletes, 5,000 by pruning, 1,000 by filters, 500 by top-n",
            "2,100",
        ),
        "bytes": ("1.0 MiB", "128.0 KiB in stage one, 128.0 KiB in stage two, 75.0 % not read", "256.0 KiB"),
    }


def test_rows_that_were_not_wanted_any_more() -> None:
    """Of a scan that ended early the rest is told, if all its tasks reported."""
    counters = {"rows.considered": 100, "rows.filtered": 20, "rows.fetched": 30}
    assert rows(counters)["rows"][1] == "20 by filters"
    assert rows(counters, TaskStates(limited=1))["rows"][1] == "20 by filters, 50 not needed"
    assert rows(counters, TaskStates(limited=1, unknown=1))["rows"][1] == "20 by filters"
    assert rows({**counters, "rows.filtered": 70}, TaskStates(limited=1))["rows"][1] == "70 by filters"
    assert rows({"rows.considered": 100}, TaskStates(limited=1))["rows"][1] == "100 not needed"


def test_bytes_of_tasks_that_did_not_report() -> None:
    counters = {"bytes.considered": 1_000, "bytes.read": 10}
    assert rows(counters)["bytes"][1] == "99.0 % not read"
    assert rows(counters, TaskStates(unknown=1))["bytes"][1] == "as far as known"
    staged = {**counters, "bytes.filter": 10}
    assert rows(staged, TaskStates(running=1))["bytes"][1] == "10 B in stage one, as far as known"
    assert rows({"bytes.considered": 10, "bytes.read": 10})["bytes"][1] == ""


@pytest.mark.parametrize(
    ("read", "tasks", "text"),
    [
        (7, DONE, "10"),
        (7, TaskStates(limited=1), "up to 7"),
        (1, TaskStates(limited=1), "1"),
        (0, TaskStates(not_started=1), "0"),
        (12, TaskStates(limited=1), "up to 10"),  # several tasks read one file
    ],
)
def test_files_opened_before_a_scan_ended_early(read: int, tasks: TaskStates, text: str) -> None:
    assert rows({"files.considered": 10, "files.read": read}, tasks)["data files"][2] == text


def test_an_answer_from_metadata_opens_no_file() -> None:
    found = rows({"files.considered": 9, "files.answered": 9, "rows.considered": 5}, is_from_metadata=True)
    assert found == {"manifests": ("0", "", "0"), "data files": ("9", "9 by metadata", "0")}
    mixed = rows({"files.considered": 9, "files.answered": 6, "files.pruned.bounds": 1})
    assert mixed["data files"] == ("9", "1 by bounds, 6 by metadata", "2")


def test_an_answer_from_indexes_says_for_how_many_files() -> None:
    counters = {"files.considered": 9, "files.answered": 9, "files.answered.index": 4, "indexes.asked": 5}
    found = rows({**counters, "indexes.used": 4, "indexes.bytes_read": 2048}, is_from_metadata=True)
    assert found["data files"] == ("9", "5 by metadata, 4 by indexes", "0")
    assert found["indexes"] == ("5", "2.0 KiB read", "4")
    every = rows(
        {"files.considered": 2, "files.answered": 2, "files.answered.index": 2}, is_from_metadata=True
    )
    assert every["data files"] == ("2", "2 by indexes", "0")


def test_delete_files_and_their_keys() -> None:
    found = rows(
        {
            "delete_files.considered": 50, "delete_files.skipped": 30, "delete_files.skipped.predicate": 10,
            "delete_files.skipped.survivors": 4, "delete_files.opened": 16,
            "delete_keys.streamed": 1_000, "delete_keys.loaded": 2_000, "delete_keys.folded": 7,
            "key_pages.considered": 20, "key_pages.untouched": 15, "key_pages.deleted": 2,
        }
    )  # fmt: skip
    assert found["delete files"] == (
        "50",
        "30 cannot apply, 10 of these by the query, 4 cannot apply to the remaining rows",
        "16",
    )
    assert found["delete keys streamed"] == ("", "", "1,000")
    assert found["delete keys"] == ("", "7 without their constant partition columns", "2,000")
    assert found["pages of keys"] == ("20", "15 hold none of them, 2 only deleted rows", "3")
    assert not {"delete files", "delete keys"} & rows({"delete_keys.loaded": 5}).keys()


HANDED: dict[str, int] = {"handed_over.rows": 1_000, "rows.pruned": 500, "bytes.considered": 4_096, "handed_over.bytes": 2_048}  # fmt: skip


@pytest.mark.parametrize(
    ("spark", "removed", "given", "size"),
    [
        ({}, "500 by pruning", "up to 1,000", "up to 2.0 KiB"),  # the query is still running
        ({"spark.files": 1, "spark.rows": 900}, "500 by pruning, 100 by Spark's reader", "900", "2.0 KiB"),
        ({"spark.files": 1, "spark.rows": 1_000}, "500 by pruning", "1,000", "2.0 KiB"),
        (
            {"spark.files": 1, "spark.rows": 10, "spark.limited": 1},
            "500 by pruning, 990 by Spark's reader or not needed: a LIMIT",
            "10",
            "up to 2.0 KiB",
        ),
        (
            {"spark.files": 1, "spark.rows": 10, "spark.failed": 1, "spark.limited": 1},
            "500 by pruning, 990 by Spark's reader or not read: the query failed, or was cancelled",
            "10",
            "up to 2.0 KiB",
        ),
        ({"spark.files": 1, "spark.rows": 1_000, "spark.limited": 1}, "500 by pruning", "1,000", "2.0 KiB"),
        (
            {"handed_over.deleted": 30},
            "500 by pruning, 30 of the files' rows are deleted",
            "up to 1,000",
            "up to 2.0 KiB",
        ),
    ],
)
def test_a_scan_by_sparks_reader(spark: dict[str, Any], removed: str, given: str, size: str) -> None:
    """As Spark measured it, once the query ended."""
    found = rows({**HANDED, "files.considered": 3, **spark}, TaskStates(limited=1), is_handed_over=True)
    assert found["data files"][2] == "3"
    assert found["rows"] == ("1,500", removed, given)
    assert found["bytes"] == ("4.0 KiB", "", size)
    assert "row groups" not in found


def test_what_was_asked_of_an_object_store() -> None:
    assert store_line({"requests": 7}) == ""
    counters = {"store.requests": 1_200, "store.bytes": 2**20, "store.bytes.asked": 2**19, "store.retries": 3}
    told = "1,200 requests, 3 of them retried, 1.0 MiB read for 512.0 KiB requested"
    assert store_line(counters) == told
    at_a_time = {**counters, "store.retries": 0, "store.time.requests": 629, "store.time.busy": 10}
    assert store_line(at_a_time).startswith("1,200 requests, 63 at a time, 1.0 MiB read")
    most = {**at_a_time, "store.most": 64, "bytes.read": 2**18}
    assert store_line(most).startswith("1,200 requests, 63 at a time (at most 64), 1.0 MiB read")
    assert store_line(most).endswith("512.0 KiB requested, 256.0 KiB of columns")
    depth = {**most, "store.trips": 3, "time.waiting": 250, "time.tasks": 1_000}
    assert "(at most 64), up to 3 in sequence in a task, 1.0 MiB read" in store_line(depth)
    assert store_line(depth).endswith("of columns, waited for in 25 % of task time")


def test_indexes_have_a_row_where_some_were_looked_for() -> None:
    found = rows({"indexes.asked": 4, "indexes.used": 3, "indexes.bytes_read": 2_048})
    assert found["indexes"] == ("4", "2.0 KiB read", "3")
    assert "indexes" not in rows({"indexes.asked": 0})
