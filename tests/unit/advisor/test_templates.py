"""Scans of one form: their sums are exact, and one mean scan stands for them."""

from __future__ import annotations

import datetime

from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.selectivity import Cardinalities
from twostage.advisor.templates import MAX_HEAVIEST_FILTERS, Template, form_of


def leaf(column="a", rows=1000, left=10, op="=", count=1):
    return LoggedPredicate(
        op=op, columns=(column,), count=count, text=f"{column} {op} {left}", rows_in=rows, rows_out=left
    )


def scan(predicate, rows=1000, columns=("x",), reader="twostage", **counters):
    return LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table="t", predicate=predicate, columns=columns, reader=reader,
        counters={"rows.considered": rows, **counters},
    )  # fmt: skip


def form(predicate, **more):
    return form_of(scan(predicate, **more), predicate, Cardinalities(), 1.0)


def test_what_makes_a_form():
    assert form(leaf(left=10)) == form(leaf(left=11))
    others = [
        form(leaf("b")), form(leaf(op="<")), form(leaf(left=40)), form(leaf(count=9)), form(leaf(), columns=("y",)),
        form(leaf(), reader="spark"), form(leaf(), rows=5000),
        form(LoggedPredicate(op="and", children=(leaf(), leaf()))), form(LoggedPredicate(op="or", children=(leaf(), leaf()))),
    ]  # fmt: skip
    assert len({form(leaf()), *others}) == 1 + len(others)


def test_the_mean_scan():
    tree = [
        LoggedPredicate(op="and", children=(leaf("a", rows, rows // 100), leaf("b", rows // 100, 1)))
        for rows in (1000, 1200)
    ]
    scans = [
        scan(tree[0], 1000, **{"bytes.filter": 80}),
        scan(tree[1], 1200, **{"bytes.filter": 100, "time.cpu": 5}),
    ]
    template = Template(scans[0], tree[0])
    for one, whole in zip(scans, tree, strict=True):
        template.add(one, whole, one.entries_in_filter)
    mean, whole = template.mean()
    assert (template.count, template.entries) == (2, 1010 + 1212)
    assert [(part.rows_in, part.rows_out) for part in whole.leaves()] == [(1100, 11), (11, 1)]
    assert [(part.rows_in, part.rows_out) for part in template.summed().leaves()] == [(2200, 22), (22, 2)]
    assert mean.counters == {"rows.considered": 1100, "bytes.filter": 90}
    assert mean.filter.leaves().__next__().rows_in == 1100


def test_one_scan_is_its_own_mean():
    one = scan(leaf())
    template = Template(one, one.predicate)
    template.add(one, one.predicate, 1000)
    assert template.mean() == (one, one.predicate)


def test_the_heaviest_filters_are_kept():
    template = Template(scan(leaf()), leaf())
    for entries in (5, 9, 9, 7, 1, 8):
        template.add(scan(leaf()), leaf(left=entries), entries)
    assert sorted(template.heaviest) == [(7, "a = 7"), (8, "a = 8"), (9, "a = 9")]
    assert len(template.heaviest) == MAX_HEAVIEST_FILTERS
