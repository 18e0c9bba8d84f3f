"""What a report says of the joins whose keys filtered its scan."""

from __future__ import annotations

from pathlib import Path

import pytest

from scan_values import context_of
from twostage.predicates.predicate import Column, Compare, In, InBloom, InKeys, InTuples, JoinKeySet, KeyBloom
from twostage.report.joins import KeysOfJoin
from twostage.report.scan_report import ScanReport
from twostage.schema import Primitive
from twostage.task import ScanPlan

RAW = {
    "column": "n",
    "sources": ["BatchScan s3://u:p@lake/t", "Scan parquet"],
    "milliseconds": 1234,
    "broadcast": False,
}


def test_what_java_gathered():
    keys = KeysOfJoin.of(RAW)
    assert keys.milliseconds == 1234
    assert "u:p" not in str(keys)
    assert str(keys).startswith("n, after 1,234 ms, from a separate read of BatchScan s3://")
    assert str(keys).endswith(" and Scan parquet")


def test_the_report_has_a_line_for_each_join():
    plan = ScanPlan(context=context_of(Path("/lake")), groups=(), estimated_rows=0, estimated_bytes=0)
    report = ScanReport.build(plan, (), {"analysis": 3, "joins": [RAW, {**RAW, "broadcast": True}]})
    assert [keys.broadcast for keys in report.joins] == [False, True]
    assert str(report).count("keys        n, after 1,234 ms") == 2
    assert report.as_dict()["joins"][0]["milliseconds"] == 1234
    assert ScanReport.build(plan).joins == ()


N, A = Column(1, ("n",), Primitive("int")), Column(2, ("s", "n"), Primitive("int"))


@pytest.mark.parametrize(
    ("filters", "form"),
    [
        ((), ""),
        ((In(N, (1, 2)),), "list"),
        ((Compare("=", N, 1),), "list"),
        ((InKeys(N, JoinKeySet(b"", 3)),), "set"),
        ((Compare(">=", N, 1), Compare("<=", N, 9)), "range"),
        ((Compare(">=", N, 1), Compare("<=", N, 9), InBloom(N, KeyBloom(b"", 3))), "range and Bloom filter"),
        ((In(A, (1, 2)),), ""),
    ],
)
def test_the_form_of_keys(filters, form):
    raw = {**RAW, "column": "fact.n", "keys": 3, "built": 17, "broadcast": True}
    keys = KeysOfJoin.of(raw, filters)
    assert (keys.form, keys.keys, keys.built) == (form, 3, 17)
    assert f"3 keys{' as ' if form else ''}{form}, after" in str(keys)
    assert str(keys).endswith(", made in 17 ms")


def test_a_bloom_filter_of_spark_s_own():
    keys = KeysOfJoin.of({**RAW, "column": "n", "keys": None}, (InBloom(N, KeyBloom(b"", 3)),))
    assert str(keys).startswith("n, as Bloom filter, after 1,234 ms")


@pytest.mark.parametrize(
    ("filters", "form"),
    [
        ((), ""),
        ((In(N, (1, 2)), InTuples((N, A), JoinKeySet(b"", 3))), "set of tuples"),
        ((In(N, (1, 2)), InTuples((A, N), JoinKeySet(b"", 3))), "keys of each column"),
    ],
)
def test_the_form_of_tuples(filters, form):
    assert KeysOfJoin.of({**RAW, "column": "fact.(n, s.n)", "keys": 3}, filters).form == form


def test_what_keys_left_out_at_each_level():
    plan = ScanPlan(
        context=context_of(Path("/lake")),
        groups=(),
        estimated_rows=0,
        estimated_bytes=0,
        counters={
            "manifests.considered": 4,
            "manifests.pruned": 2,
            "manifests.unjoined": 1,
            "files.considered": 9,
            "files.pruned.bounds": 3,
            "files.unjoined": 2,
            "row_groups.pruned.statistics": 5,
            "row_groups.unjoined": 4,
            "rows.considered": 100,
            "rows.pruned": 60,
            "rows.unjoined.pages": 7,
            "rows.unjoined": 11,
        },
    )
    text = str(ScanReport.build(plan))
    for shown in (
        "2 by partition (1 for join keys)",
        "3 by bounds (2 for join keys)",
        "5 by statistics (4 for join keys)",
        "60 by pruning (7 in pages without join keys)",
        "11 by join keys",
    ):
        assert shown in " ".join(text.split()), text
