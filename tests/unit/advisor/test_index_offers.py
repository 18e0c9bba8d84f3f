"""Which indexes the reader would ask, and what that reads."""

from __future__ import annotations

import pytest

from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
from twostage.advisor.index_offers import holding_files, offer_of, pays
from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.indexes.kinds.registered import KINDS

ROWS = 1_000_000


class Scanned:
    """A scan of one row group a file."""

    def __init__(self, files=1, distinct=100.0, nulls=0, reached=1.0):
        self.files = self.groups = files
        self._reached = reached
        self.rows = ROWS / files
        known = ColumnMetadata(rows=ROWS, bytes=8 * ROWS, distinct_per_file=distinct, nulls=nulls)
        self.metadata = TableColumns(
            table="t", snapshot=1, rows=ROWS, files=files, bytes=1, columns={"a": known}
        )

    def share(self, part):
        return part.share

    def reached(self, _leaf):
        return self._reached

    def column(self, name):
        return self.metadata.columns.get(name)

    def bytes_of(self, name, rows):
        return 8.0 * self.rows


def leaf(op="=", count=1, left=10):
    return LoggedPredicate(op=op, columns=("a",), count=count, rows_in=ROWS, rows_out=left)


@pytest.mark.parametrize(
    ("kinds", "op", "is_exact"),
    [
        (("values",), "=", True),
        (("values",), "<", True),
        (("values",), "not in", True),
        (("postings", "files"), "in", False),
        (("postings", "bins"), "<=", False),
        (("bins",), "=", False),
        (("sorted",), "=", False),
        (("sorted",), "<", False),
        (("postings",), "is null", True),
        (("elements",), "has element", False),
        (("slices",), "=", True),
        (("slices",), "<", True),
        (("slices", "bins"), "range", True),
        (("slices", "sorted"), "<", False),
    ],
)
def test_what_answers(kinds, op, is_exact):
    offer = offer_of(leaf(op), {"a": kinds}, Scanned())
    assert offer.is_exact is is_exact
    assert offer.nbytes >= 0


@pytest.mark.parametrize(
    ("kinds", "op"),
    [
        (("postings",), "<"),
        (("files",), "="),
        ((), "="),
        (("elements",), "="),
        (("postings",), "not has element"),
    ],
)
def test_what_does_not(kinds, op):
    assert offer_of(leaf(op), {"a": kinds}, Scanned()) is None
    assert offer_of(LoggedPredicate(op=op, columns=("a", "b")), {"a": kinds}, Scanned()) is None


def test_every_kind_has_a_size_and_an_offer():
    """A kind that is registered and not known here would be one whose existing indexes nobody can judge."""
    known = ColumnMetadata(rows=ROWS, bytes=8 * ROWS, distinct_per_file=100.0, entries_per_row=2.0)
    asked = ["=", "<", "has element"]
    for kind in KINDS:
        assert known.index_bytes(kind, 4) > 0
        assert any(offer_of(leaf(op), {"a": (kind,)}, Scanned()) is not None for op in asked), kind
    assert known.index_bytes("of a later version", 4) is None


def test_slices_are_read_whole():
    """A hundred values take seven bits a row; a list of more than sixteen is not looked up in slices."""
    (offer,) = {offer_of(leaf(op), {"a": ("slices",)}, Scanned()) for op in ("=", "<", ">=")}
    assert (offer.nbytes, offer.to_check) == (7 * ROWS / 8, 0)
    assert offer_of(leaf("in", 16), {"a": ("slices",)}, Scanned()) is not None
    assert offer_of(leaf("in", 17), {"a": ("slices",)}, Scanned()) is None


def test_sorted_rows_answer_ranges_of_few_rows_only():
    """Of more than a sixteenth of the rows, reading the column takes less time."""
    assert offer_of(leaf("<", left=ROWS // 8), {"a": ("sorted",)}, Scanned()) is None
    narrow, wide = (
        offer_of(leaf("<", left=ROWS // share), {"a": ("sorted",)}, Scanned()) for share in (1000, 20)
    )
    assert narrow.nbytes < wide.nbytes


def test_more_keys_take_more():
    one, ten = (offer_of(leaf("in", count), {"a": ("postings",)}, Scanned()) for count in (1, 10))
    assert ten.nbytes == 10 * one.nbytes
    assert (one.to_check, ten.to_check) == (1, 10)


def test_an_index_is_not_asked_for_what_others_have_narrowed():
    """Of a column of 8 MB a block pays; not if other conjuncts have left one row, whose page takes less."""
    offer = offer_of(leaf(), {"a": ("postings",)}, Scanned())
    assert pays(offer, "a", None, Scanned())
    assert not pays(offer, "a", 0.1, Scanned())


def test_files_that_hold_a_key():
    """Ten rows in 100 files: in about ten of them. Fewer than four files are not looked up."""
    share, nbytes = holding_files([leaf()], {"a": ("files",)}, Scanned(files=100))
    assert share == pytest.approx(1 - 0.99**10)
    assert nbytes > 0
    assert holding_files([leaf()], {"a": ("files",)}, Scanned(files=3)) == (1.0, 0.0)
    assert holding_files([leaf("<")], {"a": ("files",)}, Scanned(files=100)) == (1.0, 0.0)
    either = LoggedPredicate(op="or", children=(leaf(), leaf("<")))
    assert holding_files([either], {"a": ("files",)}, Scanned(files=100))[0] == 1.0
    both = LoggedPredicate(op="and", children=(leaf(), leaf("<")))
    assert holding_files([both], {"a": ("files",)}, Scanned(files=100))[0] == pytest.approx(share)


def test_sorted_rows_of_a_range_that_reaches_some_files():
    """In those its rows are dense; the index of the others reads nothing."""
    of_all = offer_of(leaf("range", left=20_000), {"a": ("sorted",)}, Scanned(10))
    of_half = offer_of(leaf("range", left=20_000), {"a": ("sorted",)}, Scanned(10, reached=0.5))
    assert (of_all.nbytes, of_all.reached) == (6_000 + 3.5 * 2_000, 1.0)
    assert (of_half.nbytes, of_half.reached) == (0.5 * (6_000 + 3.5 * 4_000), 0.5)
    wide = offer_of(leaf("range", left=200_000), {"a": ("sorted",)}, Scanned(10, reached=0.5))
    assert (wide.nbytes, wide.to_check, wide.reached) == (0, 0, 0.5)
    assert wide.unsure == pytest.approx(0.3)  # all of these files' rows are left
    assert offer_of(leaf("range", left=200_000), {"a": ("sorted",)}, Scanned(10)) is None
