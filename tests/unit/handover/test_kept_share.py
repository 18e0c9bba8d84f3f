"""The probe's estimate of how many rows a predicate keeps."""

from __future__ import annotations

import pytest

from core_scan import open_table, scan
from late_store import serve_late
from tables import Table
from twostage.handover.kept_share import PROBE_ROWS, estimate_kept_share
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, Column, Compare
from twostage.schema import Primitive

DIGIT = Column(2, ("digit",), Primitive("int"))
ID = Column(1, ("id",), Primitive("long"))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = Table(tmp_path_factory.mktemp("probe"), {"id": "long", "digit": "int"})
    for file in range(4):
        rows = [{"id": file * 20_000 + i, "digit": i * 7919 % 10} for i in range(20_000)]
        made.append(rows, row_group_size=10_000, page_size=64)
    made.write()
    return open_table(made.folder)


@pytest.mark.parametrize("digits", [0, 3, 5, 9])
def test_scattered_values_are_estimated_from_pages(table, digits):
    plan = scan(table, (), Compare("<", DIGIT, digits)).plan
    if digits == 0:
        assert not plan.groups  # pruned: there is nothing to estimate
        assert estimate_kept_share(plan) is None
        return
    found = estimate_kept_share(plan)
    assert found.share == pytest.approx(digits / 10, abs=0.02)
    assert f"of {3 * PROBE_ROWS:,} sampled rows match" in found.how


def test_what_needs_no_look(table):
    assert estimate_kept_share(scan(table, (), TRUE).plan).share == 1.0
    plan = scan(table, (), Compare(">=", ID, -5)).plan
    assert estimate_kept_share(plan) is not None
    assert estimate_kept_share(plan).share == 1.0
    assert "every row" in estimate_kept_share(plan).how


def test_a_clustered_range_is_nearly_nothing(table):
    plan = scan(table, (), Compare("<", ID, 100)).plan
    found = estimate_kept_share(plan)
    assert found.share < 0.05


def test_remote_files_are_probed_without_asking_for_their_sizes(tmp_path):
    made = Table(tmp_path / "t", {"id": "long", "digit": "int"})
    made.location = "s3://lake/t"
    for file in range(4):
        made.append([{"id": file * 9_000 + i, "digit": i * 7919 % 10} for i in range(9_000)], page_size=64)
    made.write()
    with serve_late(tmp_path) as store:
        given = {key.replace("-", "_"): value for key, value in store.options.items()}
        plan = plan_of(open_table("s3://lake/t", **given), Compare("<", DIGIT, 3))
        store.reset()
        found = estimate_kept_share(plan)
        assert found.share == pytest.approx(0.3, abs=0.02)
        assert {one.method for one in store.log} == {"GET"}
        assert len({one.key for one in store.log}) == 3


def plan_of(opened, predicate):
    return plan_scan(
        opened.table,
        opened.options,
        projection=(),
        predicate=predicate,
        hint=TRUE,
        limit=None,
        parallelism=2,
        scan_id="x",
    )
