"""The cross of the named cases: version, format of data files, format of delete files, writer.

A cell is one case in one combination. `every` gives all of them, `EXCLUDED` those that cannot be, each rule with
its reason and the test that shows it; what is left must run with TWOSTAGE_FULL=1 (`test_case_list.py`). A cell
that runs and is excluded fails as well, and so does a test behind a reason once the reason is gone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from case_list import CASES, EQUALITY, FILTERS, MIXED, POSITION, VECTOR, runs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

VERSIONS = (1, 2, 3)
FORMATS = ("parquet", "orc", "avro")
DECLARED, PYICEBERG, ICEBERG_SPARK = WRITERS = ("declared", "PyIceberg", "Iceberg-Spark")
NOTHING = "-"
"""In place of the delete files' format, where a case deletes nothing."""
DELETING = (*POSITION, *VECTOR, *EQUALITY, *MIXED)
_SETTING = re.compile(r"\bv([123])-(parquet|orc|avro)(?:-(parquet|orc|avro))?\]$")
ALL_THREE = "mixed: all three on one file"


class Cell(NamedTuple):
    """One case in one combination."""

    case: str
    version: int
    data: str
    deletes: str
    writer: str


def deletes_of(case: str) -> tuple[str, ...]:
    """Return the formats that the delete files of a case may have."""
    if case in FILTERS:
        return (NOTHING,)
    return ("puffin",) if case in VECTOR else FORMATS


@cache
def every() -> frozenset[Cell]:
    """Return the whole cross, possible or not."""
    return frozenset(
        Cell(case, version, data, deletes, writer)
        for case in CASES
        for version in VERSIONS
        for data in FORMATS
        for deletes in deletes_of(case)
        for writer in WRITERS
    )


@dataclass(frozen=True, kw_only=True)
class Excluded:
    """Cells that cannot be: those that have one of the values in every field that is given."""

    reason: str
    shown_by: str
    """The test that fails when the reason is gone: of `test_exclusions.py`, or ``interop:`` one of the interop suite."""
    cases: Collection[str] = ()
    versions: Collection[int] = ()
    data: Collection[str] = ()
    deletes: Collection[str] = ()
    writers: Collection[str] = ()

    def covers(self, cell: Cell) -> bool:
        """Tell whether the rule is about this cell."""
        return all(
            not values or value in values
            for values, value in (
                (self.cases, cell.case),
                (self.versions, cell.version),
                (self.data, cell.data),
                (self.deletes, cell.deletes),
                (self.writers, cell.writer),
            )
        )


EXCLUDED = (
    Excluded(
        reason="version 1 has no delete files: its manifests cannot say that a file is one",
        shown_by="test_version_1_cannot_say_that_a_file_is_a_delete",
        cases=DELETING,
        versions=(1,),
    ),
    Excluded(
        reason="deletion vectors came with version 3",
        shown_by="test_version_2_cannot_say_where_a_vector_lies",
        cases=(*VECTOR, ALL_THREE),
        versions=(2,),
    ),
    Excluded(
        reason="PyIceberg writes no version 3",
        shown_by="test_pyiceberg_writes_no_version_3",
        versions=(3,),
        writers=(PYICEBERG,),
    ),
    Excluded(
        reason="PyIceberg writes Parquet only",
        shown_by="test_pyiceberg_writes_parquet_only",
        data=("orc", "avro"),
        writers=(PYICEBERG,),
    ),
    Excluded(
        reason="PyIceberg writes no delete files: it rewrites data files, which `Line.pyiceberg` runs besides",
        shown_by="test_pyiceberg_writes_no_delete_files",
        cases=DELETING,
        writers=(PYICEBERG,),
    ),
    Excluded(
        reason="PyIceberg computes these partitions with a package of compiled code, which the tests do without",
        shown_by="test_pyiceberg_has_no_such_partitions_without_its_compiled_package",
        cases=("filter: partition by bucket", "filter: partition by truncate", "filter: partition by day"),
        writers=(PYICEBERG,),
    ),
    Excluded(
        reason="Iceberg's Avro writer keeps no bounds, by which a filter could be answered exactly",
        shown_by="interop:test_avro_files_have_no_bounds",
        cases=("mixed: filter answered exactly and at most",),
        data=("avro",),
        writers=(ICEBERG_SPARK,),
    ),
    Excluded(
        reason="Iceberg's Avro writer keeps no bounds, by which a delete file could be told from another",
        shown_by="interop:test_avro_files_have_no_bounds",
        cases=("position: path bounds prune",),
        deletes=("avro",),
        writers=(ICEBERG_SPARK,),
    ),
    Excluded(
        reason="in version 1 Iceberg turns a partition field into void and never drops it, so that the declared "
        "specs cannot be; `case_list` names what asks its own",
        shown_by="interop:test_version_1_keeps_dropped_partition_fields",
        cases=("filter: partition specs that changed",),
        versions=(1,),
        writers=(ICEBERG_SPARK,),
    ),
)


def possible() -> frozenset[Cell]:
    """Return the cells that no rule excludes."""
    return frozenset(cell for cell in every() if not any(rule.covers(cell) for rule in EXCLUDED))


def run_by(names: Iterable[str], writer: str = DECLARED) -> dict[Cell, list[str]]:
    """Return the runs of each cell among these test ids of the case folder.

    Args:
        names: Such as ``test_filters::test_like[prefix-appl-v2-orc]``.
        writer: Who wrote the declared tables.
    """
    names = list(names)
    found: dict[Cell, list[str]] = {}
    for case, line in CASES.items():
        for run in (run for name in line.declared for run in runs(name, names)):
            match = _SETTING.search(run)
            if match is None:
                continue
            version, data, deletes = match.groups()
            kinds = (deletes,) if deletes_of(case) == FORMATS else deletes_of(case)
            for kind in kinds:
                # A table of version 2 must be upgraded before it may have vectors.
                cell = Cell(case, 3 if case == ALL_THREE else int(version), data, kind, writer)
                found.setdefault(cell, []).append(run)
        for run in (run for name in line.pyiceberg if case in FILTERS for run in runs(name, names)):
            if match := re.search(r"\bv([12])\]$", run):
                cell = Cell(case, int(match[1]), "parquet", NOTHING, PYICEBERG)
                found.setdefault(cell, []).append(run)
    return found
