"""The pages of TPC-DS and TPC-H, from the figures that tpc.py measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queries import ICEBERG, TWOSTAGE
from tpc_tables import driver_memory

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tpc_tables import Benchmark

Figures = dict[str, Any]
MIB = 2**20
SLOWER, FASTER = 1.1, 0.9
"""Ratios of seconds to Iceberg-Spark's beyond which a query counts as slower or faster."""
TEXT = """# {title}{at_scale}

Written by `make bench PAGES={page}`, from [its figures](benchmarks/{page}.json): {measured} at scale {scale:g}, rows and queries by
DuckDB's extension. Iceberg's own connector wrote the tables: {layout}, one row in a hundred deleted by position (merge on read), everything else as it is by default.

How to read it:

- Both connectors run in one Spark (two cores, {heap} GiB), each with a session of its own. Every query is first answered by both, and the
  answers must be equal; then the two take turns. A run begins with the SQL text and ends when its rows are in Python.
- Seconds and CPU seconds are {turns}. CPU seconds and MiB read are those of all processes, from outside, as
  on the [other pages](benchmarks.md). The ratio is twostage's seconds to Iceberg-Spark's: below 1, twostage was faster.
- The load is that of the machine before a query was first asked, and has the query before it in it. Where other work ran, trust CPU
  seconds more than seconds, and sums more than single queries.
"""


def problems_of(figures: Figures) -> list[str]:
    """Return the queries whose answers differ, and those that an engine did not answer."""
    found = []
    for one in figures["queries"]:
        if "differ" in one:
            found.append(f"query {one['query']}: answers differ: {one['differ']}")
        engines = one["engines"].items()
        found += [
            f"query {one['query']}, {name}: {known['failed']}" for name, known in engines if "failed" in known
        ]
    return found


def write_tpc(benchmark: Benchmark, document: Path, figures: Figures, _: object = None) -> str:
    """Write the benchmark's page beside the main document; return its totals and a link, for that document."""
    page = document.with_name(f"benchmarks-{figures['page'].removesuffix('-all')}.md")
    text = TEXT.format(
        title=benchmark.title,
        at_scale="" if figures["scale"] <= 1 else f" at scale {figures['scale']:g}",
        layout=benchmark.layout,
        page=figures["page"],
        scale=figures["scale"],
        heap=driver_memory(figures["scale"]).removesuffix("g"),
        turns=_turns(figures),
        measured=_measured(benchmark, figures),
    )
    page.write_text("\n".join((text, *_parts(benchmark, figures))))
    return f"{summary(figures)}\n[All figures]({page.name}).\n"


def _measured(benchmark: Benchmark, figures: Figures) -> str:
    """Return which of the queries were measured."""
    count, every = len(figures["queries"]), benchmark.num_queries
    return f"the {every} queries" if count == every else f"{count} of the {every} queries"


def summary(figures: Figures) -> str:
    """Return the totals and the slower queries."""
    both = _of_both(figures)
    rows = []
    for title, measure, scale in (
        ("seconds", "seconds", 1),
        ("CPU seconds", "cpu", 1),
        ("MiB read", "read", 1 / MIB),
    ):
        ours, theirs = (
            sum(_least(one, name, measure) for one in both) * scale for name in (TWOSTAGE, ICEBERG)
        )
        rows.append((title, f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / max(theirs, 1e-9):.2f}"))
    return "\n".join(
        (
            _table((f"sum of {len(both)} queries", TWOSTAGE, ICEBERG, "ratio"), rows),
            *(
                _compared(both, title, measure)
                for title, measure in (("seconds", "seconds"), ("CPU seconds", "cpu"))
            ),
            "",
        )
    )


def _compared(both: list[Figures], title: str, measure: str) -> str:
    """Return which queries took longer, and how many took less."""
    ratios = {one["query"]: _least(one, TWOSTAGE, measure) / _least(one, ICEBERG, measure) for one in both}
    slower = sorted(
        (number for number in ratios if ratios[number] > SLOWER), key=lambda number: -ratios[number]
    )
    told = ", ".join(f"{number} ({ratios[number]:.2f})" for number in slower) or "none"
    faster = sum(ratio < FASTER for ratio in ratios.values())
    return f"- By {title}, more than {SLOWER:g} times Iceberg-Spark's: {told}. Less than {FASTER:g} times: {faster} of {len(both)}."


def _parts(benchmark: Benchmark, figures: Figures) -> Iterable[str]:
    yield summary(figures)
    loads = [one["load_before"] for one in figures["queries"]]
    yield f"Load of the machine before the queries: {min(loads)} to {max(loads)}; with no other work it is about 2.\n"
    if len(figures["queries"]) < benchmark.num_queries:
        yield f"Measured so far: {_measured(benchmark, figures)}.\n"
    for one in figures["queries"]:
        for name, known in one["engines"].items():
            if "seconds" not in known:
                reason = (
                    f"stopped after {known['stopped']:g} s"
                    if "stopped" in known
                    else "failed"
                    if known
                    else "not timed"
                )
                yield f"Query {one['query']}, {name}: {reason}.\n"
    yield "## Query by query\n"
    yield _table(
        (
            "query",
            "rows",
            TWOSTAGE,
            ICEBERG,
            "ratio",
            "CPU: twostage",
            "Iceberg-Spark",
            "MiB read: twostage",
            "Iceberg-Spark",
            "load",
        ),
        (_line(one) for one in _of_both(figures)),
    )
    yield "## What the scans read\n"
    yield (
        "By query, the scans of twostage as their reports have them: which reader did it, files and rows, and bytes. For Spark's reader: the "
        "files read of those left after planning, because join keys exclude more while the query runs; rows returned of rows in all files "
        "left after planning, and the bytes of their columns. Scans of dimension tables are counted.\n"
    )
    yield _table(
        ("query", "fact tables", "dimensions: by Spark", "by Python"),
        (_scans(benchmark, one) for one in _of_both(figures)),
    )
    yield _machine(figures)


def _turns(figures: Figures) -> str:
    most = max(len(one["engines"][TWOSTAGE]["seconds"]) for one in _of_both(figures))
    return "those of one turn" if most == 1 else f"the least of up to {most} turns"


def _of_both(figures: Figures) -> list[Figures]:
    return [
        one for one in figures["queries"] if all(known.get("seconds") for known in one["engines"].values())
    ]


def _least(one: Figures, engine: str, measure: str) -> float:
    return float(min(one["engines"][engine][measure]))


def _line(one: Figures) -> list[str]:
    seconds, cpu, read = (
        [_least(one, name, measure) for name in (TWOSTAGE, ICEBERG)] for measure in ("seconds", "cpu", "read")
    )
    return [
        str(one["query"]),
        one["answer"].partition(" ")[0],
        *(f"{value:.2f}" for value in seconds),
        f"{seconds[0] / seconds[1]:.2f}",
        *(f"{value:.2f}" for value in cpu),
        *(f"{value / MIB:,.0f}" for value in read),
        str(one["load_before"]),
    ]


def _scans(benchmark: Benchmark, one: Figures) -> list[str]:
    facts = [text for text in one["scans"] if text.partition(":")[0] in benchmark.facts]
    others = [text for text in one["scans"] if text not in facts]
    by_python = sum(": Python" in text for text in others)
    each = {text: facts.count(text) for text in facts}
    told = [f"{count} x {text}" if count > 1 else text for text, count in each.items()]
    return [str(one["query"]), "<br>".join(told), str(len(others) - by_python), str(by_python)]


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(columns)
    lines = [heads, ["---", *["--:" for _ in heads[1:]]], *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _machine(figures: Figures) -> str:
    machine, versions = figures["machine"], figures["machine"]["versions"]
    return (
        f"{figures['written']}: {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"Python {machine['python']}, {machine['java']}, PySpark {versions['pyspark']}, pyarrow {versions['pyarrow']}, Iceberg "
        f"{versions['iceberg']}; commit {machine['commit']}.\n"
    )
