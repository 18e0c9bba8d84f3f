"""Bytes that indexes save: by hand on small cases, and against real reads in test_replay."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from twostage.advisor.byte_model import Emulation, bytes_saved
from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan

ROWS = 1_000_000
WIDE, NARROW = 8_000_000, 1_000_000
"""Bytes of a column."""


def metadata():
    known = {
        name: ColumnMetadata(rows=ROWS, bytes=size, pages=50, distinct_per_file=100_000.0, distinct=100_000.0)
        for name, size in {"a": WIDE, "b": NARROW}.items()
    }
    return TableColumns(table="t", snapshot=1, rows=ROWS, files=1, bytes=10**8, columns=known)


def leaf(column, rows, left, op="="):
    return LoggedPredicate(op=op, columns=(column,), count=1, rows_in=rows, rows_out=left)


def scan(*parts, measured, columns=(), op="and", reader="twostage", fetched=10):
    predicate = parts[0] if len(parts) == 1 else LoggedPredicate(op=op, children=parts, rows_in=ROWS)
    return LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table="t", columns=columns, predicate=predicate, reader=reader,
        counters={"rows.considered": ROWS, "row_groups.considered": 1, "files.read": 1, "bytes.filter": measured,
                  "rows.fetched": fetched},
    )  # fmt: skip


def test_a_column_that_is_not_read():
    """Postings leave ten rows to check: at most 10 of 50 pages of the column, and a block of the index."""
    saved = bytes_saved(scan(leaf("a", ROWS, 10), measured=WIDE), metadata(), {"a": ("postings",)})
    pages = WIDE * (1 - (1 - 1 / 50) ** 10)
    assert saved == pytest.approx(WIDE - pages, rel=0.01)
    assert bytes_saved(scan(leaf("a", ROWS, 10), measured=WIDE), metadata(), {}) == 0


def test_what_was_measured_scales_it():
    half = bytes_saved(scan(leaf("a", ROWS, 10), measured=WIDE // 2), metadata(), {"a": ("postings",)})
    whole = bytes_saved(scan(leaf("a", ROWS, 10), measured=WIDE), metadata(), {"a": ("postings",)})
    assert half == pytest.approx(whole / 2, rel=0.01)


def test_a_selective_index_narrows_the_columns_after_it():
    """b is read for the ten rows that an index of a leaves, instead of whole."""
    parts = (leaf("b", ROWS, ROWS // 2), leaf("a", ROWS // 2, 5))
    saved = bytes_saved(scan(*parts, measured=WIDE + NARROW), metadata(), {"a": ("postings",)})
    assert saved > WIDE * 0.7 + NARROW * 0.7


def test_an_index_that_does_not_answer_saves_nothing():
    for one, kinds in [
        (leaf("a", ROWS, 10, op="<"), ("postings",)),
        (leaf("a", ROWS, 10, op="prefix"), ("postings", "bins")),
        (leaf("a", ROWS, 10), ("files",)),
    ]:
        assert bytes_saved(scan(one, measured=WIDE), metadata(), {"a": kinds}) == pytest.approx(0)


def test_an_index_that_takes_more_than_its_column_is_not_read():
    """Bins take a byte a row, as much as the column b: the reader leaves them alone."""
    assert bytes_saved(
        scan(leaf("b", ROWS, 10, op="<"), measured=NARROW), metadata(), {"b": ("bins",)}
    ) == pytest.approx(0)


def test_keys_of_equality_deletes_are_not_saved():
    """They are read for the filter, too, whatever an index answers."""
    one = leaf("a", ROWS, 10)
    alone, beside = (
        bytes_saved(scan(one, measured=size), metadata(), {"a": ("postings",)}) for size in (WIDE, 3 * WIDE)
    )
    assert alone == beside < WIDE


def test_a_column_that_is_returned_is_read_all_the_same():
    known = metadata()
    one = leaf("a", ROWS, ROWS // 2)
    kinds = {"a": ("values",)}
    alone = bytes_saved(scan(one, measured=WIDE, fetched=ROWS // 2), known, kinds)
    returned = bytes_saved(scan(one, measured=WIDE, columns=("a",), fetched=ROWS // 2), known, kinds)
    assert alone - returned == pytest.approx(WIDE)


def test_a_column_that_is_returned_is_read_where_its_index_left_next_to_nothing_to_check():
    known = metadata()
    asked = scan(leaf("a", ROWS, ROWS // 20, ">="), measured=WIDE, columns=("a",), fetched=ROWS // 20)
    assert bytes_saved(asked, known, {"a": ("sorted",)}) == pytest.approx(-6_000 - 3.5 * ROWS / 20, rel=0.05)


def test_an_or_saves_each_column_whose_index_answers():
    parts = (leaf("a", ROWS, 10), leaf("b", ROWS, 10))
    scanned = scan(*parts, measured=WIDE + NARROW, op="or")
    one = bytes_saved(scanned, metadata(), {"a": ("values",)})
    both = bytes_saved(scanned, metadata(), {"a": ("values",), "b": ("values",)})
    assert 0.9 * WIDE < one <= WIDE
    assert both > one


def test_what_was_not_measured_is_not_predicted():
    known = metadata()
    assert bytes_saved(scan(leaf("a", ROWS, 10), measured=0), known, {}) is None
    assert bytes_saved(scan(leaf("a", ROWS, 10), measured=9, reader="iceberg"), known, {}) is None
    assert bytes_saved(scan(leaf("unknown", ROWS, 10), measured=9), known, {}) is None
    assert Emulation.of(scan(leaf("a", 0, 0), measured=9), known) is None


def test_few_rows_say_little_of_a_share():
    """None of 3 rows met it: by its 100,000 values that is no surprise, and no proof."""
    emulation = Emulation.of(scan(leaf("a", ROWS, 10), measured=9), metadata())
    assert 0 < emulation.share(leaf("a", 3, 0)) < 0.001
    assert emulation.share(leaf("a", ROWS, ROWS // 2)) == pytest.approx(0.5, rel=0.01)


def test_that_few_rows_had_no_key_is_no_proof():
    """The key of one row in 100,000 is in none of 10,000: nine times of ten, and an index still finds its rows."""
    emulation = Emulation.of(scan(leaf("a", ROWS, 10), measured=9), metadata())
    assert emulation.share(leaf("a", 10_000, 0)) == pytest.approx(1 / 110_000)
    assert emulation.share(leaf("a", 10**9, 0)) == pytest.approx(1e-9, rel=0.01)
    assert emulation.share(leaf("a", 1_000, 500)) == pytest.approx(0.45, rel=0.02)


def test_that_few_rows_met_no_range_is_no_proof():
    """Nothing is known of a range but what was measured: of no row of ten, half a row."""
    emulation = Emulation.of(scan(leaf("a", ROWS, 10), measured=9), metadata())
    assert emulation.share(leaf("a", 10, 0, ">=")) == 0.05
    assert emulation.share(leaf("a", 10, 3, ">=")) == 0.3
    both = LoggedPredicate(op="or", children=(leaf("a", 4, 0), leaf("b", 4, 0)), rows_in=4, rows_out=0)
    assert emulation.share(both) == 0.125


def test_an_index_of_a_range_that_was_evaluated_on_few_rows_does_not_stand_for_all_before_it():
    """b's key leaves 20 rows, of which a range of a had none: that does not make a's index spare all of b."""
    parts = (leaf("b", ROWS, 20), leaf("a", 20, 0, ">="))
    saved = bytes_saved(scan(*parts, measured=WIDE + NARROW), metadata(), {"a": ("sorted",)})
    assert saved < WIDE * (1 - (1 - 1 / 50) ** 20)  # what 20 rows of a take


def test_the_rows_of_all_scans_of_a_form_count():
    """A mean of 20 rows in and 0.04 out is none of 20 where it is rounded; of 1,000 scans, it is 40 of 20,000."""
    mean = scan(leaf("b", ROWS, 20), leaf("a", 20, 0, ">="), measured=WIDE + NARROW)
    summed = LoggedPredicate(
        op="and", children=(leaf("b", 1_000 * ROWS, 20_000), leaf("a", 20_000, 40, ">="))
    )
    alone, together = Emulation.of(mean, metadata()), Emulation.of(mean, metadata(), summed, 1_000)
    assert alone.rows == together.rows == ROWS
    assert alone.share(alone.parts[1]) == 0.025
    assert together.share(together.parts[1]) == 0.002


def test_a_part_of_an_or_is_read_for_few_rows_alone():
    """a leaves 600,000 of a million rows undecided; of b, an index leaves 450 of them, in 450 of its 50,000 pages at most."""
    known = metadata()
    narrow = replace(known.columns["b"], pages=50_000, distinct=1_333.0, distinct_per_file=1_333.0)
    known = replace(known, columns={**known.columns, "b": narrow})
    parts = (leaf("a", ROWS, 400_000, "<"), leaf("b", 600_000, 450))
    saved = bytes_saved(scan(*parts, measured=WIDE + NARROW, op="or"), known, {"b": ("postings",)})
    assert saved == pytest.approx(NARROW - NARROW * 450 / 50_000 - 6_750, rel=0.01)


def test_a_part_of_an_or_on_a_column_in_order_is_read_in_the_files_that_it_reaches():
    """A fifth of ten days in ten files: three files at most have some, and of the others statistics say so, as an index would."""
    known = metadata()
    in_order = replace(known.columns["a"], overlap=0.1)
    known = replace(known, files=10, columns={**known.columns, "a": in_order})
    parts = (leaf("b", ROWS, 10), leaf("a", ROWS, ROWS // 5, "range"))
    one = scan(*parts, measured=int(0.3 * WIDE) + NARROW, op="or")
    one = replace(one, counters={**one.counters, "files.read": 10, "row_groups.considered": 10})
    assert bytes_saved(one, known, {"a": ("sorted",)}) == pytest.approx(0, abs=10)
    scattered = replace(known, columns={**known.columns, "a": replace(in_order, overlap=1.0)})
    assert bytes_saved(one, scattered, {"a": ("sorted",)}) == pytest.approx(0)
    counters = {**one.counters, "rows.fetched": ROWS // 5}
    alone = replace(
        one, predicate=parts[1], counters=counters
    )  # bounds leave the three files, if others are not read
    assert bytes_saved(alone, known, {"a": ("sorted",)}) == pytest.approx(0)


def test_a_range_of_sorted_rows_leaves_hardly_a_row_to_check():
    """A twentieth of all rows, scattered: their values are in all pages, and need not be read. A text's are."""
    known = metadata()
    texts = replace(known, columns={name: replace(one, type="string") for name, one in known.columns.items()})
    asked = scan(leaf("a", ROWS, ROWS // 20, ">="), measured=WIDE)
    index = 6_000 + 3.5 * ROWS / 20
    assert bytes_saved(asked, known, {"a": ("sorted",)}) == pytest.approx(WIDE - index, rel=0.01)
    assert bytes_saved(asked, texts, {"a": ("sorted",)}) == pytest.approx(-index, rel=0.01)
    both = (leaf("a", ROWS, ROWS // 2, ">="), leaf("a", ROWS // 2, ROWS // 20, "<"))
    found = bytes_saved(scan(*both, measured=WIDE, fetched=ROWS // 20), known, {"a": ("sorted",)})
    assert found == pytest.approx(WIDE - index, rel=0.01)
    few = bytes_saved(scan(*both, measured=WIDE, fetched=10), known, {"a": ("sorted",)})
    assert few == pytest.approx(WIDE - 6_000, rel=0.01)
