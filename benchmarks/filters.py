"""Times stage one's parts in one process: IN lists, string searches, dictionary codes, normal forms of ORs.

Every figure is the median CPU time of this process in milliseconds, for ROWS rows, next to what it is compared
with; read the ratios. Each comparison first checks that both answers agree. Run it with ``make bench-filters``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TWOSTAGE_JIT", "always")

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.predicates import normalize as forms
from twostage.predicates.evaluate import evaluate
from twostage.predicates.predicate import And, Column, Compare, In, Or, StringMatch
from twostage.reading.aligned_columns import LiveColumns
from twostage.reading.filter import RowFilter, filter_rows
from twostage.reading.pipeline import read_group
from twostage.reading.scan_predicate import ScanPredicate
from twostage.schema import Primitive, parse_schema, parse_type
from twostage.selection import Selection
from twostage.task import ScanContext, ScanTask, Storage, TaskGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from twostage.predicates.predicate import Predicate

ROWS = 1_000_000
MEMBERS = (10, 1_000, 10_000, 100_000)
BRANCHES = (1, 2, 3, 4, 5, 6, 7, 8)
LISTED = 1_000
"""Values of each IN list of the ORs."""
PATIENCE = 8.0
"""Seconds that a form of the ORs may take before larger ones are skipped."""
_random = np.random.default_rng(7)
console = Console(width=150)
shown_tables: list[Table] = []


def milliseconds(run: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median CPU time of a run, after one that doesn't count."""
    run()
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        spent.append(time.process_time() - start)
        if sum(spent) > PATIENCE:
            break
    return statistics.median(spent) * 1e3


def table(title: str, *columns: str) -> Table:
    """Return an empty table whose columns after the first are numbers."""
    made = Table(title=title, title_justify="left")
    for number, name in enumerate(columns):
        made.add_column(name, justify="left" if number == 0 else "right")
    return made


def show(made: Table) -> None:
    """Print a table and keep it for `--json`."""
    console.print(made)
    shown_tables.append(made)


def as_json() -> str:
    """Return all tables that were shown."""
    tables = [
        {
            "title": str(made.title),
            "columns": [str(one.header) for one in made.columns],
            "rows": [
                list(row) for row in zip(*(list(map(str, one.cells)) for one in made.columns), strict=True)
            ],
        }
        for made in shown_tables
    ]
    return json.dumps({"tables": tables}, indent=1)


def column(kind: str, field_id: int = 0) -> Column:
    return Column(field_id, (f"c{field_id}",), parse_type(kind))


def drawn(kind: str, count: int) -> pa.Array:
    """Return random values of a type, few of them equal, except dates."""
    numbers = _random.integers(0, 10**9, count)
    match kind:
        case "int":
            return pa.array(numbers.astype(np.int32))
        case "date":
            return pa.array((numbers % 20_000).astype(np.int32)).view(pa.date32())
        case "decimal(18,2)":
            return (
                pa.array(numbers)
                .cast(pa.decimal128(19))
                .cast(pa.decimal128(21, 2))
                .cast(pa.decimal128(18, 2))
            )
        case "string":
            return pc.binary_join_element_wise("user-", pa.array(numbers).cast(pa.string()), "")
    return pa.array(numbers)


def in_lists(rows: int) -> None:
    """Compare IN lists with pyarrow's `is_in`."""
    shown = table(f"IN lists, {rows:,} rows, ms", "type", "values", "twostage", "is_in", "is_in / twostage")
    for kind in ("long", "int", "date", "decimal(18,2)", "string"):
        values = drawn(kind, rows)
        for count in MEMBERS:
            listed = drawn(kind, count).unique()
            literals = tuple((listed.view(pa.int32()) if kind == "date" else listed).to_pylist())
            predicate = In(column(kind), literals)
            ours = evaluate(predicate, {0: values}, rows).true
            assert np.array_equal(ours, pc.is_in(values, listed).to_numpy(zero_copy_only=False))
            own = milliseconds(lambda p=predicate, v=values: evaluate(p, {0: v}, rows))
            theirs = milliseconds(lambda v=values, m=listed: pc.is_in(v, m))
            shown.add_row(kind, f"{len(literals):,}", f"{own:.2f}", f"{theirs:.2f}", f"{theirs / own:.1f}")
    show(shown)


def searches(rows: int) -> None:
    """Compare string searches with pyarrow's functions."""
    words = drawn("string", rows)
    text = column("string")
    cases: dict[str, tuple[Predicate, Callable[[], pa.Array]]] = {
        "= 'user-123456789'": (
            Compare("=", text, "user-123456789"),
            lambda: pc.equal(words, "user-123456789"),
        ),
        "< 'user-5'": (Compare("<", text, "user-5"), lambda: pc.less(words, "user-5")),
        "LIKE 'user-12%'": (StringMatch("prefix", text, "user-12"), lambda: pc.starts_with(words, "user-12")),
        "LIKE '%77'": (StringMatch("suffix", text, "77"), lambda: pc.ends_with(words, "77")),
        "LIKE '%-777%'": (StringMatch("contains", text, "-777"), lambda: pc.match_substring(words, "-777")),
    }
    shown = table(f"Text, {rows:,} rows, ms", "predicate", "twostage", "pyarrow", "pyarrow / twostage")
    for name, (predicate, theirs) in cases.items():
        ours = evaluate(predicate, {0: words}, rows).true
        assert np.array_equal(ours, theirs().to_numpy(zero_copy_only=False))
        own, other = milliseconds(lambda p=predicate: evaluate(p, {0: words}, rows)), milliseconds(theirs)
        shown.add_row(name, f"{own:.2f}", f"{other:.2f}", f"{other / own:.1f}")
    show(shown)


class File:
    """A Parquet file that is scanned without a table around it."""

    def __init__(self, path: Path, columns: dict[str, pa.Array], **options: Any) -> None:
        self.path = path
        fields, declared = [], []
        for number, (name, array) in enumerate(columns.items()):
            fields.append(pa.field(name, array.type, metadata={"PARQUET:field_id": str(number)}))
            kind = "string" if pa.types.is_string(array.type) else "long"
            declared.append({"id": number, "name": name, "type": kind, "required": False})
        data = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
        pq.write_table(data, path, compression="zstd", row_group_size=ROWS, **options)
        self.schema = parse_schema({"schema-id": 0, "type": "struct", "fields": declared})

    def scan(self, predicate: Predicate, **options: str) -> int:
        """Return how many rows match; no column of them is returned, so only stage one runs."""
        context = ScanContext(
            scan_id="bench",
            table="bench",
            snapshot_id=None,
            schema=self.schema,
            projection=(),
            predicate=predicate,
            storage=Storage(),
            settings=parse_options(
                {name.replace("_", "."): value for name, value in options.items()}
            ).settings,
        )
        size = self.path.stat().st_size
        task = ScanTask(
            path=str(self.path),
            written_path=str(self.path),
            format="parquet",
            file_size=size,
            record_count=0,
            start=0,
            length=size,
            sequence_number=1,
            spec_id=0,
        )
        group = TaskGroup(index=0, context=context, tasks=(task,))
        return sum(batch.num_rows for batch in read_group(group, Metrics()))


def dictionary_codes(rows: int, folder: Path) -> None:
    """Compare scans with ``filter.dictionary`` on and off."""
    shown = table(
        f"Dictionary codes, scan of {rows:,} rows, ms", "column", "predicate", "on", "off", "off / on"
    )
    text = Column(0, ("device",), Primitive("string"))
    for distinct, encoded in ((100, True), (10_000, True), (10_000, False)):
        words = pa.array([f"device-{number:06d}" for number in range(distinct)])
        devices = words.take(pa.array(_random.integers(0, distinct, rows)))
        name = f"{distinct:,} values" + ("" if encoded else ", plain pages")
        options = {"dictionary_pagesize_limit": 4 << 20} if encoded else {"use_dictionary": False}
        file = File(folder / f"{distinct}{encoded}.parquet", {"device": devices}, **options)
        for predicate in (
            Compare("=", text, "device-000042"),
            In(text, tuple(f"device-{number:06d}" for number in range(0, 40, 2))),
            StringMatch("contains", text, "-00004"),
        ):
            assert file.scan(predicate) == file.scan(predicate, filter_dictionary="false")
            on, off = (
                milliseconds(lambda p=predicate, f=file, s=switch: f.scan(p, filter_dictionary=s))
                for switch in ("true", "false")
            )
            shown.add_row(name, str(predicate)[:40], f"{on:.1f}", f"{off:.1f}", f"{off / on:.1f}")
    show(shown)


def ors(branches: int) -> Predicate:
    """Return an OR of ANDs: each branch matches each of three columns with its own LISTED values."""
    three = [Column(number, (f"c{number}",), Primitive("long")) for number in range(3)]
    return Or(
        tuple(
            And(tuple(In(one, tuple(_random.integers(0, 10_000, LISTED).tolist())) for one in three))
            for _ in range(branches)
        )
    )


def normal_forms(rows: int, folder: Path) -> None:
    """Compare the compact form of ORs with their CNF, as kernels on arrays and as scans."""
    columns = {f"c{number}": pa.array(_random.integers(0, 10_000, rows)) for number in range(3)}
    arrays = dict(enumerate(columns.values()))
    file = File(folder / "ors.parquet", columns)
    shown = table(
        f"ORs of 3 columns with {LISTED:,} values each, {rows:,} rows, ms",
        "branches",
        "CNF clauses",
        "compact",
        "CNF",
        "CNF / compact",
        "pyarrow",
        "pyarrow / compact",
        "scan, none",
        "scan, cnf",
    )
    is_slow = False
    limit = forms.MAX_LEAVES
    for branches in BRANCHES:
        predicate = ors(branches)

        def kept(row_filter: RowFilter) -> int:
            columns = LiveColumns(
                Selection.all(rows),
                lambda i, rows: arrays[i] if rows.is_all else arrays[i].take(pa.array(rows.indices())),
            )
            filter_rows(row_filter, columns, Metrics())
            return columns.live.count

        def prepared(mode: str, predicate: Predicate = predicate) -> RowFilter:
            settings = parse_options({"filter.normalize": mode}).settings
            context = ScanContext(
                scan_id="",
                table="",
                snapshot_id=None,
                schema=file.schema,
                projection=(),
                predicate=predicate,
                settings=settings,
            )
            return RowFilter.of(ScanPredicate.of(context), settings)

        def by_pyarrow(predicate: Predicate = predicate) -> pa.Array:
            answer = None
            for branch in predicate.children if isinstance(predicate, Or) else (predicate,):
                parts = [
                    pc.is_in(arrays[leaf.column.field_id], pa.array(leaf.values)) for leaf in branch.children
                ]
                both = pc.and_(pc.and_(parts[0], parts[1]), parts[2])
                answer = both if answer is None else pc.or_(answer, both)
            return answer

        compact = prepared("none")
        forms.MAX_LEAVES = (
            10**9
        )  # the option stops when the form becomes uselessly large; here it is measured
        cnf = None if is_slow else prepared("cnf")
        forms.MAX_LEAVES = limit
        count = kept(compact)
        assert count == pc.sum(by_pyarrow()).as_py()
        own = milliseconds(lambda f=compact: kept(f))
        theirs = milliseconds(by_pyarrow, 3)
        row = [str(branches), f"{3**branches:,}", f"{own:.1f}"]
        if cnf is None:
            row += ["", ""]
        else:
            start = time.process_time()
            assert kept(cnf) == count
            other = (time.process_time() - start) * 1e3
            if other < PATIENCE * 1e3 / 4:
                other = milliseconds(lambda f=cnf: kept(f), 3)
            is_slow = other * 3 > PATIENCE * 1e3
            row += [f"{other:.1f}", f"{other / own:.1f}"]
        row += [f"{theirs:.1f}", f"{theirs / own:.1f}"]
        assert file.scan(predicate, filter_normalize="cnf") == file.scan(predicate)
        for mode in ("none", "cnf"):
            row.append(f"{milliseconds(lambda p=predicate, m=mode: file.scan(p, filter_normalize=m), 3):.1f}")
        shown.add_row(*row)
    show(shown)
    console.print(f"scan, cnf: beyond {limit:,} leaves the option leaves the predicate compact.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    arguments = parser.parse_args()
    rows = arguments.rows
    pa.set_cpu_count(1)
    console.print(f"pyarrow {pa.__version__}, numpy {np.__version__}; medians of CPU time, one process")
    in_lists(rows)
    searches(rows)
    with tempfile.TemporaryDirectory() as folder:
        dictionary_codes(rows, Path(folder))
        normal_forms(rows, Path(folder))
    if arguments.json:
        arguments.json.write_text(as_json())


if __name__ == "__main__":
    main()
