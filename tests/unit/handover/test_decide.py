"""The decision for Spark's own reader: the scan as Spark does it, or the first reason against; errors keep it here."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from check import Columns
from core_scan import open_table
from tables import Table
from twostage.errors import CorruptFileError
from twostage.handover import decide as decide_module, eligibility
from twostage.handover.decide import AwaitsKeys, HandedOver, hand_over
from twostage.handover.protocol import FilterConjunct, KeyRange, ScanDemand
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, And, Compare, IsNull, Not, Predicate, Unknown
from twostage.predicates.top import TopRows

if TYPE_CHECKING:
    from core_scan import Opened
    from declared.content import DataFile
    from twostage.schema import Field
    from twostage.task import ScanPlan

ALL = ("id", "k", "name")


def table(folder: Path, files: int = 2, **more: Any) -> tuple[Table, list[DataFile]]:
    """Return a table of files of 100 rows, in which `k` has the digits 0 to 9 in turn."""
    made = Table(folder, {"id": "long", "k": "int", "name": "string"}, **more)
    rows = lambda n: [{"id": 100 * n + i, "k": i % 10, "name": f"n{i}"} for i in range(100)]
    return made, [made.append(rows(n)) for n in range(files)]


class Decision:
    """Decides on a table, and remembers what was planned."""

    def __init__(self, opened: Opened, *, fails: bool = False) -> None:
        self.opened = opened
        self.fails = fails
        self.planned: list[tuple[list[str], Predicate, Predicate, TopRows | None]] = []

    def _plan(
        self, projection: tuple[Field, ...], predicate: Predicate, hint: Predicate, top: TopRows | None
    ) -> ScanPlan:
        self.planned.append(([field.name for field in projection], predicate, hint, top))
        if self.fails:
            raise CorruptFileError("CORRUPT_MANIFEST", "Wrong", stage="plan")
        return plan_scan(
            self.opened.table, self.opened.options, projection=projection, predicate=predicate, hint=hint, limit=None,
            parallelism=1, scan_id="s", top=top,
        )  # fmt: skip

    def __call__(
        self,
        *predicates: FilterConjunct,
        columns: tuple[str, ...] = ALL,
        returned: tuple[str, ...] = ALL,
        top: TopRows | None = None,
        awaited_keys: bool = False,
        has_keys: bool = False,
        **demand: Any,
    ) -> HandedOver | AwaitsKeys | str:
        return hand_over(
            self.opened.table,
            self.opened.options,
            ScanDemand(columns=columns, returned=returned, predicates=predicates, **demand),
            bind=lambda form: form["predicate"],
            plan_scan=self._plan,
            top=top,
            awaited_keys=awaited_keys,
            has_keys=has_keys,
        )


def conjunct(predicate: Predicate, *names: str) -> FilterConjunct:
    return FilterConjunct(form={"predicate": predicate}, columns=names)


def handed(found: HandedOver | AwaitsKeys | str) -> HandedOver:
    assert isinstance(found, HandedOver), found
    return found


def test_all_rows_of_all_files(tmp_path: Path) -> None:
    made, files = table(tmp_path)
    decide = Decision(open_table(made.write()))
    found = handed(decide(columns=("k", "id"), returned=("k", "id")))
    assert [(file.path, file.length, file.first_bit) for file in found.scan.files] == [
        (file.path, Path(file.path).stat().st_size, None) for file in files
    ]
    assert (found.scan.scan, found.scan.root, found.scan.deleted) == ("s", str(tmp_path), None)
    assert found.scan.ids == {"id": 1, "k": 2}
    assert (found.plan.groups, found.plan.is_handed_over) == ((), True)
    assert found.plan.choices == (
        "Handed to Spark's own Parquet reader: nothing to filter, no deletes, 2 footers checked.",
    )
    chunks = [pq.read_metadata(file.path).row_group(0).column(n) for file in files for n in (0, 1)]
    handed_over = {name: n for name, n in found.plan.counters.items() if name.startswith("handed_over.")}
    assert handed_over == {
        "handed_over.files": 2,
        "handed_over.rows": 200,
        "handed_over.bytes": sum(chunk.total_compressed_size for chunk in chunks),
    }


@pytest.mark.parametrize("verify", [True, False])
def test_the_readers_options_hold_whatever_the_session_says(tmp_path: Path, verify: bool) -> None:
    """Columns by field id, dates of the proleptic calendar, and no file skipped because it is missing or damaged."""
    opened = open_table(table(tmp_path)[0].write())
    settings = replace(opened.options.settings, verify_checksums=verify)
    opened.options = replace(opened.options, settings=settings)
    assert handed(Decision(opened)()).scan.options == {
        "spark.sql.parquet.fieldId.read.enabled": "true",
        "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
        "datetimeRebaseMode": "CORRECTED",
        "int96RebaseMode": "CORRECTED",
        "ignoreCorruptFiles": "false",
        "ignoreMissingFiles": "false",
        "mergeSchema": "false",
        "parquet.page.verify-checksum.enabled": "true" if verify else "false",
    }


def test_a_side_of_which_keys_have_many_rows_counts_with_all_their_memory(tmp_path: Path) -> None:
    """Files of such rows are small, and Spark would make a hash table of them, whose chains are long."""
    made = Table(tmp_path, {"id": "long", "k": "int"})
    made.append([{"id": n, "k": n % 10} for n in range(20_000)])
    decide = Decision(open_table(made.write()))
    told = {
        column: handed(decide(columns=("k",), returned=("k",), under_join=True, joined_by=column)).scan.bytes
        for column in (None, "id", "k", "gone")
    }
    assert told[None] == told["id"] == told["gone"] < told["k"] == 20_000 * (8 + 4)


def test_deleted_rows_are_bits(tmp_path: Path) -> None:
    made, files = table(tmp_path, files=3, version=3)
    made.delete_vectors({files[0]: [0, 99], files[2]: [50]})
    found = handed(Decision(open_table(made.write()))())
    assert found.scan.deleted is not None
    packed = zlib.decompress(b"".join(map(base64.b64decode, found.scan.deleted.texts)))
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")[: found.scan.deleted.size]
    deleted = {}
    for file in found.scan.files:
        assert file.first_bit is not None
        deleted[file.path] = np.flatnonzero(bits[file.first_bit : file.first_bit + 100]).tolist()
    assert deleted == {files[0].path: [0, 99], files[1].path: [], files[2].path: [50]}
    assert found.plan.counters["handed_over.deleted"] == 3
    assert "3 rows of 2 files deleted by position, which Spark leaves out" in found.plan.choices[0]


def test_filters_that_we_cannot_evaluate_only_prune(tmp_path: Path) -> None:
    """Spark evaluates them, so their columns are read; the others' columns are not returned."""
    opened = open_table(table(tmp_path)[0].write())
    c = Columns(opened.table.schema)
    exact, below = Compare(">=", c("id"), 0), Compare("<", c("id"), 10**6)
    decide = Decision(opened)
    found = handed(
        decide(
            conjunct(exact, "id"),
            conjunct(And((Unknown("f"), below)), "k"),
            FilterConjunct(form=None, columns=("k",)),
            returned=("name",),
        )
    )
    assert decide.planned == [(["k", "name"], exact, below, None)]
    assert "all rows of its files match" in found.plan.choices[0]


@pytest.mark.parametrize(
    ("digits", "expected"), [(9, "the filter keeps most rows"), (1, "the filter drops rows")]
)
def test_the_share_of_rows_that_a_filter_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: int, expected: str
) -> None:
    opened = open_table(table(tmp_path)[0].write())
    below = conjunct(Compare("<", Columns(opened.table.schema)("k"), digits), "k")
    assert "small" in str(Decision(opened)(below))
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
    found = Decision(opened)(below)
    assert expected in (found if isinstance(found, str) else found.plan.choices[0])
    assert isinstance(found, HandedOver) == (digits == 9)


@pytest.mark.parametrize(
    ("nulls", "counts", "expected"),
    [
        (20, True, "footers count 40 NULLs in 200 rows"),
        (20, False, "160 of 200 sampled rows match"),
        (70, True, "the filter drops rows: 60 of 200 sampled rows match"),
    ],
)
def test_a_filter_that_only_leaves_out_nulls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nulls: int, *, counts: bool, expected: str
) -> None:
    """Footers tell; where they do not, or NULLs may be most rows, a probe does."""
    made = Table(tmp_path, {"id": "long", "k": "int", "name": "string"})
    for n in range(2):
        rows = [{"id": 100 * n + i, "k": None if i < nulls else i, "name": "n"} for i in range(100)]
        made.append(rows, statistics=counts)
    opened = open_table(made.write())
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
    filled = Not(IsNull(Columns(opened.table.schema)("k")))
    found = Decision(opened)(conjunct(filled, "k"))
    assert expected in (found if isinstance(found, str) else found.plan.choices[0])


def test_what_the_query_decides_is_not_planned(tmp_path: Path) -> None:
    decide = Decision(open_table(table(tmp_path)[0].write()))
    assert decide(under_limit=True) == "a limit ends it early"
    assert decide(returned=()) == "no column is returned"
    assert decide.planned == []


def test_what_files_and_deletes_decide(tmp_path: Path) -> None:
    made, files = table(tmp_path)
    made.delete_equal(["k"], [{"k": 3}])
    opened = open_table(made.write())
    assert "have equality deletes, not compiled" in str(Decision(opened)())
    made, _ = table(tmp_path / "other")
    with made.transaction():
        made.append([{"id": 1}]).entry["record_count"] = 2
    opened = open_table(made.write())
    assert "1 rows and its manifest says 2" in str(Decision(opened)())


def test_a_join_that_may_prune_keeps_wide_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is known that no keys come; small sides are Spark's at once."""
    decide = Decision(open_table(table(tmp_path)[0].write()))
    assert isinstance(decide(may_be_pruned_by_join=True, under_join=True), HandedOver)
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
    small = {"columns": ("k", "name"), "returned": ("k", "name")}  # whose files are not clustered by them
    assert isinstance(decide(may_be_pruned_by_join=True, under_join=True, **small), HandedOver)
    monkeypatch.setattr(eligibility, "MAX_JOIN_COLUMN_BYTES", 1)  # as the footers say
    assert decide(may_be_pruned_by_join=True, under_join=True) == "join keys may prune it"
    assert isinstance(decide(under_join=True), HandedOver)


def test_wide_sides_await_keys_that_prune_files_and_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If many rows share a key, Spark's reader skips the files without any; keys of other columns filter rows here."""
    decide = Decision(open_table(table(tmp_path)[0].write()))
    demand = {"under_join": True, "may_be_pruned_by_join": True}
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
    monkeypatch.setattr(eligibility, "MAX_JOIN_COLUMN_BYTES", 0)
    monkeypatch.setattr(decide_module, "MIN_ROWS_PER_KEY_TO_PRUNE", 1)
    assert decide(**demand) == AwaitsKeys(columns=("id",), only_these=False)
    found = handed(decide(awaited_keys=True, has_keys=True, **demand))
    assert found.scan.key_columns == ("id",)
    assert [len(file.ranges) for file in found.scan.files] == [1, 1]
    monkeypatch.setattr(decide_module, "MIN_ROWS_PER_KEY_TO_PRUNE", 2)
    assert decide(**demand) == "join keys may prune it"
    monkeypatch.setattr(decide_module, "MIN_ROWS_PER_KEY_TO_PRUNE", 1)
    monkeypatch.setattr(eligibility, "MAX_PRUNED_COLUMN_BYTES", 1)
    assert decide(**demand) == "join keys may prune it"


def test_keys_of_clustered_columns_are_awaited_for_sparks_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets each file's range of them, if keys come; no ranges otherwise."""
    decide = Decision(open_table(table(tmp_path)[0].write()))
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
    demand = {"under_join": True, "may_be_pruned_by_join": True}
    assert decide(**demand) == AwaitsKeys(columns=("id",))
    found = handed(decide(awaited_keys=True, has_keys=True, **demand))
    assert found.scan.key_columns == ("id",)
    assert [file.ranges for file in found.scan.files] == [
        (KeyRange(column="id", lower=0, upper=99),), (KeyRange(column="id", lower=100, upper=199),)
    ]  # fmt: skip
    assert "join keys exclude files by id, nothing to filter" in found.plan.choices[0]
    found = handed(decide(awaited_keys=True, **demand))
    assert found.scan.key_columns == ()
    assert [file.ranges for file in found.scan.files] == [(), ()]
    assert "no join keys arrived" in found.plan.choices[0]
    # So do those of a small side of many rows, unless it has a filter that Spark is to see.
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 2**40)
    assert isinstance(decide(**demand), HandedOver)
    monkeypatch.setattr(decide_module, "MIN_ROWS_TO_AWAIT_KEYS", 200)
    assert decide(**demand) == AwaitsKeys(columns=("id",))
    below = conjunct(Compare("<", Columns(decide.opened.table.schema)("k"), 9), "k")
    assert isinstance(decide(below, **demand), HandedOver)
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
    # With two columns for each key column and two for deleted rows, Spark's reader would give rows, not batches.
    monkeypatch.setattr(decide_module, "MAX_COLUMNS", 8)
    assert isinstance(decide(**demand), HandedOver)


def test_after_an_error_the_scan_stays(tmp_path: Path) -> None:
    """It is raised where the query meets it, if it does."""
    made, files = table(tmp_path)
    opened = open_table(made.write())
    assert Decision(opened, fails=True)() == "an error while planning: CORRUPT_MANIFEST"
    Path(files[1].path).unlink()
    assert Decision(opened)() == "an error while planning: MISSING_FILE"


def test_the_first_rows_by_an_order_are_planned_before_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless Spark still filters them: then nobody knows which are the first."""
    opened = open_table(table(tmp_path)[0].write())
    c = Columns(opened.table.schema)
    top = TopRows(column=c("id"), count=3, descending=False, nulls_first=True)
    decide = Decision(opened)
    assert isinstance(decide(top=top), HandedOver)
    assert [wanted for *_, wanted in decide.planned] == [top, None]
    decide = Decision(opened)
    assert isinstance(decide(conjunct(Unknown("f"), "k"), top=top), HandedOver)
    assert [(hint, wanted) for *_, hint, wanted in decide.planned] == [(TRUE, None)]
    monkeypatch.setattr(eligibility, "MIN_TOP_N_BYTES", 0)
    decide = Decision(opened)
    assert "ORDER BY and LIMIT leave" in str(decide(top=top))
    assert [wanted for *_, wanted in decide.planned] == [top]
