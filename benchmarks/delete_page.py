"""The page and the picture of equality deletes, from the figures that deletes.py measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from charts import Line, draw_line_panels
from delete_engines import BY_HAND, EXTENSION
from queries import ICEBERG, TWOSTAGE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Figures = dict[str, Any]
ENGINES = (ICEBERG, EXTENSION, BY_HAND)
READERS = ("cold", "warm", "later", "compiled", "by Spark")
KINDS = {"long": "long keys", "string": "string keys", "two": "keys of two columns, long and string"}
TEXT = """# Equality deletes at scale

Written by `make bench PAGES="equality-deletes"`, from [its figures](benchmarks/equality-deletes.json). {rows:,} rows x 6 columns in
4 data files, which Iceberg's own connector wrote; each case is a branch with delete files that Iceberg's own Java writer wrote
and committed. Half of the keys are of rows. Seconds, one run each, Spark on two cores. Every answer, by every engine, has the same
rows by their ids, or the run fails.

{picture}
"""
ENGINES_TEXT = """## Against other engines

`SELECT *` gives all rows to Spark's `noop` sink (DuckDB: to Arrow, dropped), `needle` the three or fewer rows of a value of a column
that is no key. Cold: new Python workers, a host and a driver that know nothing of the deletes; warm: again in the same ones. The others
run after twostage, when files and JVM are warm, in the same two ways: a first time, and again. In brackets, how many times as long
as twostage. One that takes too long is stopped (>; Iceberg-Spark after {cap:.0f} s, DuckDB earlier), and not run with more
deletes of a kind; Iceberg-Spark runs again only where the first answer took less than 15 s. Without deletes, twostage is as users have it by default.

`DuckDB iceberg` is its extension (DuckDB 1.5.5). `DuckDB by hand` is an anti join of the data files and the delete files, written for
this table: it knows of no sequence numbers, partitions and schemas.
"""
OURS_TEXT = """## Against the same query without deletes

None: the same query without deletes, new Python workers, whose start is in the figure (mean of one run before and one after). It is read in
Python (`scan.native=never`), as it is under deletes by keys. By default a full scan without deletes goes to Spark's own Parquet reader: the
row without deletes has that, cold and warm, next to Python's. Cold and warm: as above. Later: new workers, the host's cache filled. Compiled: new workers, after `compile-deletes`.
By Spark: the same as users have it by default, handed to Spark's own Parquet reader with the compiled positions. In brackets, the ratio to none; for warm, to none again in the same workers. At a million rows or fewer one task reads under deletes and two
without, which start a worker each.
"""


PARTS_TEXT = """## What each part earns

The same scan with an optimisation and without it: a new process, no Spark, CPU seconds of the core, the best of {repeats} runs. (Decoding
ahead takes no less CPU, but two threads share it: there, of the busier one.) {rows:,} rows in one data file of four row groups;
{files} delete files of most kinds. Of scattered keys half are of rows. A needle keeps about four rows by a column that is no key. MiB:
the most memory of the process. Measured {measured}.
"""


def draw_deletes(figures: Figures, path: Path) -> None:
    """Draw seconds by the number of delete files, a panel for each kind of keys and each query."""
    files = sorted({case["files"] for case in figures["cases"]})
    queries = list(figures["cases"][0]["queries"])
    panels = {
        f"{query}, {keys}": _lines(figures, kind, query, files)
        for kind, keys in KINDS.items()
        for query in queries
    }
    title = (
        f"Equality deletes: seconds, lower is better ({figures['rows']:,} rows x 6 columns; "
        "triangle: stopped)"
    )
    draw_line_panels(path, title, "delete files", [f"{number:,}" for number in files], panels)


def _lines(figures: Figures, kind: str, query: str, files: list[int]) -> list[Line]:
    by_files = {
        case["files"]: case["queries"][query]
        for case in figures["cases"]
        if case["kind"] == kind or not case["files"]
    }
    cases = [by_files.get(number, {}) for number in files]
    ours = [one.get(TWOSTAGE, {}) for one in cases]
    lines = [
        Line(f"{TWOSTAGE}, cold", [one.get("cold") for one in ours]),
        Line(f"{TWOSTAGE}, warm", [one.get("warm") for one in ours], is_dashed=True),
    ]
    for engine in ENGINES:
        found = [one.get(engine, {}) for one in cases]
        if any("first" in one for one in found):
            stopped = next(
                ((place, one["stopped"]) for place, one in enumerate(found) if "stopped" in one), None
            )
            lines.append(Line(f"{engine}, first", [one.get("first") for one in found], stopped))
    return lines


def write_deletes(figures: Figures, picture: str, document: Path) -> None:
    """Write the page."""
    heads = ("deletes", "query")
    others = [f"{engine} {reader}" for engine in ENGINES for reader in ("first", "again")]
    parts = [
        TEXT.format(rows=figures["rows"], picture=picture.strip()),
        ENGINES_TEXT.format(cap=figures["cap"]),
        _table(
            (*heads, "twostage cold", "twostage warm", *others),
            ([*names, *_against(query)] for names, query in _queries(figures)),
        ),
        OURS_TEXT,
        _table(
            (*heads, "none", *READERS),
            ([*names, *_alone(query[TWOSTAGE])] for names, query in _queries(figures)),
        ),
        *_parts(figures),
        _machine(figures),
    ]
    document.write_text("\n".join(parts))


def _queries(figures: Figures) -> Iterator[tuple[tuple[str, str], Figures]]:
    for case in figures["cases"]:
        for query, found in case["queries"].items():
            name = f"{case['files']} x {case['keys']:,} {KINDS[case['kind']].partition(',')[0]}"
            yield (name if case["files"] else "none", query), found


def _against(query: Figures) -> Iterator[str]:
    ours = query[TWOSTAGE]
    bases = {"first": ours["cold"], "again": ours["warm"]}
    yield from (f"{value:.2f}" for value in bases.values())
    for engine in ENGINES:
        found = query.get(engine, {})
        for reader, base in bases.items():
            if reader in found:
                yield f"{found[reader]:.2f} ({_ratio(found[reader] / base)})"
            elif reader == "first" and "stopped" in found:
                yield f"> {found['stopped']:g} (> {_ratio(found['stopped'] / base)})"
            else:
                yield ""


def _alone(ours: Figures) -> Iterator[str]:
    new = (ours["none"] + ours.get("none after", ours["none"])) / 2
    yield f"{new:.2f}"
    for reader in READERS:
        base = ours["none again"] if reader == "warm" else new
        yield f"{ours[reader]:.2f} ({ours[reader] / base:.2f})" if reader in ours else ""


def _parts(figures: Figures) -> Iterator[str]:
    parts = figures.get("parts")
    if parts:
        yield PARTS_TEXT.format(**parts)
        yield _table(tuple(parts["columns"]), iter(parts["lines"]))


def _ratio(value: float) -> str:
    return f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


def _table(columns: tuple[str, ...], rows: Iterator[list[str]] | Any) -> str:
    lines = [list(columns), ["---", "---", *["--:" for _ in columns[2:]]], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _machine(figures: Figures) -> str:
    machine, versions = figures["machine"], figures["machine"]["versions"]
    return (
        f"{figures['written']}: {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"Python {machine['python']}, PySpark {versions['pyspark']}, pyarrow {versions['pyarrow']}, Iceberg "
        f"{versions['iceberg']}; load before {figures['load_before']}, commit {machine['commit']}.\n"
    )
