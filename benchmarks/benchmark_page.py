"""Makes docs/benchmarks.md and its pictures from the figures that were measured, whenever that was.

Takes a folder of JSON files, one per page; writes a document, and an SVG file per page. Pages without a file are
named as not measured. Other benchmarks' files may have `text` and `tables` (`title`, `text`, `columns`, `rows`).
"""

from __future__ import annotations

import json
import statistics
from functools import partial
from typing import TYPE_CHECKING, Any

from charts import Bar, Line, draw_bars, draw_line_panels, draw_lines
from delete_page import draw_deletes, write_deletes
from queries import (
    CORE,
    CORE_NO_INDEX,
    ICEBERG,
    ONE_STAGE,
    PAGES,
    SIZES,
    SPARK,
    TWOSTAGE,
    WITHOUT_SPARK,
    Page,
)
from tpc_page import write_tpc
from tpc_tables import TPCDS, TPCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

Figures = dict[str, Any]
MIB = 2**20
OTHERS = {
    "metadata": (
        "Metadata of large tables",
        "make bench-metadata BENCH='--json docs/benchmarks/metadata.json'",
    ),
}
"""Pages that other targets measure."""
INTRODUCTION = """# Benchmarks

Written by `make bench`, from the figures in `docs/benchmarks/`: all engines in one run, on the same files, which
Iceberg's own connector wrote. `make bench PAGES="needles tpch"` measures some pages again, `make bench SIZE=small` tries
all of it in minutes.

How to read it:

- Seconds are wall time, medians of up to 15 runs (fewer of what takes long), engines in turn, with the page cache warm. In brackets, how many times as long as twostage it took:
  above 1, twostage was faster. Through Spark, a run begins with the SQL text and ends when Spark has all rows (its `noop` sink).
- CPU seconds and MiB read are measured from outside, the same way for all: of the engine's processes, the JVM and Python
  workers included, by `/proc/PID/stat` and `/proc/PID/io` (`rchar`: what read calls returned, from memory or disk; what
  passes between Spark's JVM and Python counts too). One tick of the CPU clock is 10 ms.
- Before a query is timed, all engines answer it, and the answers are compared: rows, or sums of every column where there
  are very many. A difference fails the run.
- All engines have two threads; the core alone is one process. It, Polars, DataFusion and DuckDB give Arrow tables and have no
  Spark around them. Polars, DataFusion and DuckDB read the data files as such and know of no deletes. DataFusion runs with
  `pushdown_filters`, its own late materialization, which is off unless asked for.
- `no page checksums` is twostage with `verify-checksums=false`. No other engine here verifies them unless asked to.
"""


def write_page(folder: Path, document: Path) -> None:
    """Write the document and the pictures of all pages whose figures are in a folder."""
    known = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    parts = [INTRODUCTION]
    ran = [figures for figures in known.values() if "machine" in figures]
    if ran:
        parts.append(_conditions(ran))
    pictures = Pictures(folder, document.parent)
    for page in PAGES.values():
        parts.append(f"## {page.title}\n\n{page.text}\n")
        figures = known.get(page.name)
        parts.append(
            _page(page, figures, pictures)
            if figures
            else _missing(f'make bench{" SIZE=huge" * page.only_if_named} PAGES="{page.name}"')
        )
    parts += ["## Ten queries of a new session\n", _optional(known, "sessions", _sessions, pictures)]
    parts += ["## Filters\n", _optional(known, "filters", _filters, pictures)]
    parts += [
        "## Equality deletes\n",
        _optional(known, "equality-deletes", partial(_deletes, document), pictures),
    ]
    parts += [
        "## An object store that answers late\n",
        _optional(known, "object-store", lambda figures, _: _tables(figures), pictures),
    ]
    for name, benchmark, scale in (
        ("tpcds", TPCDS, ""),
        ("tpcds-10", TPCDS, " at scale 10"),
        ("tpch-all", TPCH, ""),
    ):
        parts += [
            f"## All of {benchmark.title}{scale}\n",
            _optional(known, name, partial(write_tpc, benchmark, document), pictures),
        ]
    for name, (title, command) in OTHERS.items():
        parts.append(f"## {title}\n")
        if (document.parent / f"{name}.md").exists():
            parts.append(f"[{title}]({name}.md), a page of its own: `{command}`.\n")
        else:
            parts.append(_tables(known[name]) if name in known else _missing(command))
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text("\n".join(parts))


class Pictures:
    """Where pictures are, and how the document refers to them."""

    def __init__(self, folder: Path, beside: Path) -> None:
        self._folder, self._beside = folder, beside

    def draw(self, name: str, alternative: str, draw: Callable[[Path], None]) -> str:
        """Draw one; return the line that shows it."""
        path = self._folder / f"{name}.svg"
        draw(path)
        return f"![{alternative}]({path.relative_to(self._beside)})\n"


def _missing(command: str) -> str:
    return f"Not measured yet: `{command}`.\n"


def _optional(
    known: dict[str, Figures], name: str, show: Callable[[Figures, Pictures], str], pictures: Pictures
) -> str:
    return show(known[name], pictures) if name in known else _missing(f'make bench PAGES="{name}"')


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    heads = list(columns)
    lines = [heads, ["---", *["--:" for _ in heads[1:]]], *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _conditions(ran: list[Figures]) -> str:
    """Return what the pages ran on: once if it is the same."""
    newest = max(ran, key=lambda figures: str(figures["written"]))
    machine = newest["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    lines = [
        (
            f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
            f"Python {machine['python']}, {machine['java']}. {versions}."
        ),
        "",
        table(
            ("page", "measured", "processor", "size", "took, s", "load before", "commit"),
            (
                (
                    one["page"],
                    one["written"],
                    one["machine"]["processor"],
                    _size(one),
                    str(one["took"]),
                    str(one["load_before"]),
                    one["machine"]["commit"],
                )
                for one in ran
            ),
        ),
        "A load before a page that is well above 0 says that other work ran: trust ratios more than seconds there.\n",
    ]
    return "\n".join(lines)


def _size(figures: Figures) -> str:
    size, sizes = SIZES[figures["size"]], figures["machine"]["bytes"]
    if figures["page"] == "equality-deletes":
        return f"{figures['rows']:,} x 6"
    if figures["page"] == "indexes":
        tables = figures["built"]["tables"].values()
        return "; ".join(
            f"{one['rows']:,} x {one['columns']} in {one['files']:,} files, {one['bytes'] / MIB:,.0f} MiB"
            for one in tables
        )
    if figures["page"] in {"tpcds", "tpcds-10", "tpch-all"}:
        return f"scale {figures['scale']:g}"
    if "wide" not in sizes:  # only pages with their own tables were measured
        return f"{size.rows:,}"
    wide = f"{size.rows:,} x {size.columns}, {sizes['wide'] / MIB:,.0f} MiB"
    return f"{wide}; TPC-H {size.scale}, {(sum(sizes.values()) - sizes['wide']) / MIB:,.0f} MiB"


def _median(figures: Figures, engine: str, measure: str) -> float | None:
    """Return the median of an engine's runs of a query; None if it has none."""
    values = figures["engines"].get(engine, {}).get(measure)
    return float(statistics.median(values)) if values else None


def _cell(figures: Figures, engine: str, base: str, measure: str, scale: float, digits: int) -> str:
    value, reference = (_median(figures, name, measure) for name in (engine, base))
    if value is None:
        known = figures["engines"].get(engine, {})
        stopped = known.get("stopped")
        return (
            "failed" if "failed" in known else f"> {stopped:.0f}" if stopped and measure == "seconds" else ""
        )
    text = f"{value * scale:,.{digits}f}"
    return text if engine == base or not reference else f"{text} ({_ratio(value / reference)})"


def _ratio(value: float) -> str:
    return f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


def _page(page: Page, figures: Figures, pictures: Pictures) -> str:
    queries = figures["queries"]
    size = SIZES[figures["size"]]
    what = (
        _size(figures)
        if page.name == "indexes"
        else f"{size.rows:,} rows x {size.columns} columns"
        if page.name != "tpch"
        else f"TPC-H at scale {size.scale}"
    )
    base = page.engines[0]
    through = [name for name in page.engines if name not in WITHOUT_SPARK]
    alone = [name for name in page.engines if name in WITHOUT_SPARK]
    parts = [
        pictures.draw(
            page.name,
            f"Seconds by query and engine, {page.title.lower()}",
            lambda path: draw_bars(
                path,
                f"{page.title}: seconds, shorter is better ({what})",
                _panels(queries, through, base),
            ),
        )
    ]
    if page.name == "orc":
        parts.append(_saved(queries, pictures))
    if "built" in figures:
        parts.append(_built(figures["built"]))
    parts += _measures(queries, through, base)
    asked = [query for query in queries if CORE in query["engines"]]
    if asked:
        parts.append("### The core alone, and engines without Spark\n\nIn brackets, the ratio to the core.\n")
        parts.append(
            pictures.draw(
                f"{page.name}-core",
                "Seconds by query and engine without Spark",
                lambda path: draw_bars(
                    path, f"Without Spark: seconds, shorter is better ({what})", _panels(asked, alone, CORE)
                ),
            )
        )
        parts += _measures(asked, alone, CORE)
        if page.name == "indexes":  # the core only plans and reads, and does not answer their other queries
            queries = [query for query in queries if query not in asked]
            alone = [name for name in alone if name not in (CORE, CORE_NO_INDEX)]
    if alone and (not asked or page.name == "indexes"):
        parts.append("### Engines without Spark\n\nIn brackets, the ratio to twostage through Spark.\n")
        parts += _measures(queries, [TWOSTAGE, *alone], TWOSTAGE)
    return "\n".join(parts)


def _built(built: Figures) -> str:
    """Return the table of the indexes that were built."""
    return table(
        ("index", "MiB", "share of the table"),
        (
            (
                f"{one['table']}: {one['columns']}",
                f"{one['bytes'] / MIB:.1f}",
                f"{one['bytes'] / built['tables'][one['table']]['bytes']:.1%}",
            )
            for one in built["indexes"]
        ),
    )


def _panels(queries: list[Figures], engines: list[str], base: str) -> dict[str, list[Bar]]:
    """Return the bars of each query, one per engine with its seconds and ratio."""
    panels: dict[str, list[Bar]] = {}
    for query in queries:
        for name in engines:
            seconds = _median(query, name, "seconds")
            if seconds is None:
                stopped = query["engines"].get(name, {}).get("stopped")
                if stopped:
                    panels.setdefault(query["title"], []).append(
                        Bar(name, stopped, f"stopped after {stopped:.0f} s")
                    )
                continue
            reference = _median(query, base, "seconds")
            ratio = f"  {_ratio(seconds / reference)} x" if reference and name != base else ""
            panels.setdefault(query["title"], []).append(Bar(name, seconds, f"{seconds:.2f} s{ratio}"))
    return panels


def _measures(queries: list[Figures], engines: list[str], base: str) -> list[str]:
    """Return the tables of seconds, CPU seconds and bytes, and of bytes from the disk if measured."""
    measures = [
        ("seconds", "seconds", 1.0, 2),
        ("cpu", "CPU seconds", 1.0, 2),
        ("read", "MiB read", 1 / MIB, 1),
    ]
    parts = [
        table(
            (title, *engines),
            (
                (query["title"], *(_cell(query, name, base, measure, scale, digits) for name in engines))
                for query in queries
            ),
        )
        for measure, title, scale, digits in measures
    ]
    if any("cold" in one for query in queries for one in query["engines"].values()):
        parts.append(
            table(
                ("page cache empty: seconds, MiB from the disk", *engines),
                ((query["title"], *(_cold(query, name) for name in engines)) for query in queries),
            )
        )
    return parts


def _cold(query: Figures, engine: str) -> str:
    cold = query["engines"].get(engine, {}).get("cold")
    return f"{cold['seconds']:.2f}, {cold['from_disk'] / MIB:,.0f}" if cold else ""


def _saved(queries: list[Figures], pictures: Pictures) -> str:
    """Return the table of the ORC document: what two stages save against readers in one."""
    published = {"16 columns": (45, 47), "SELECT *": (70, 87)}
    rows, panels = [], {}
    for query in queries:
        io, cpu = published[query["title"]]
        rows.append((query["title"], "ORC's document, against ORC in one stage", f"{io} %", f"{cpu} %"))
        bars = [Bar("ORC document: I/O", io, f"{io} %"), Bar("ORC document: CPU", cpu, f"{cpu} %")]
        for against in (ONE_STAGE, ICEBERG, SPARK):
            saved = [_saving(query, against, measure) for measure in ("read", "cpu")]
            rows.append((query["title"], f"twostage, against {against}", *(_percent(one) for one in saved)))
            bars += [
                Bar(f"{TWOSTAGE}: {name}, against {against}", max(0.0, one or 0.0), _percent(one))
                for name, one in zip(("I/O", "CPU"), saved, strict=True)
            ]
        panels[query["title"]] = bars
    shown = pictures.draw(
        "orc-saved",
        "I/O and CPU saved by two stages",
        lambda path: draw_bars(path, "I/O and CPU that two stages save, longer is better", panels),
    )
    return shown + "\n" + table(("columns", "saved by two stages", "I/O", "CPU"), rows)


def _saving(query: Figures, against: str, measure: str) -> float | None:
    ours, theirs = (_median(query, name, measure) for name in (TWOSTAGE, against))
    return None if ours is None or not theirs else 100 * (1 - ours / theirs)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} %"


def _sessions(figures: Figures, pictures: Pictures) -> str:
    """Return how long a new session takes for its first answer, and for each later one."""
    # Old figures have one query, and only its seconds.
    queries = figures.get("queries") or [{"title": figures["query"], "engines": figures["engines"]}]
    turns = max(
        len(one["seconds"]) for query in queries for asked in query["engines"].values() for one in asked
    )
    places = [str(turn + 1) for turn in range(turns)]
    tables: list[str] = []
    panels: dict[str, list[Line]] = {}
    for query in queries:
        rows: list[tuple[str, ...]] = []
        for name, sessions in query["engines"].items():
            seconds, cpu = (
                [_turn(sessions, what, turn) for turn in range(turns)] for what in ("seconds", "cpu")
            )
            last = [value for value in cpu[-3:] if value]
            ratio = _ratio(cpu[2] / statistics.median(last)) if last and cpu[2] else ""
            started = statistics.median(one["session"] for one in sessions)
            rows.append((name, f"{started:.2f}", *(_shown(value) for value in seconds), ratio))
            panels.setdefault(query["title"], []).append(Line(name, seconds))
        tables.append(table((f"{query['title']}: seconds", "start", *places, "CPU, third to last"), rows))
    title = "The queries of a new session: seconds, lower is better"
    picture = pictures.draw(
        "sessions",
        "Seconds of each query of a new session",
        lambda path: draw_line_panels(path, title, "query", places, panels),
    )
    text = (
        "Needles of the wide table, each asked again and again in new processes, one engine and one needle in each. The "
        "session's start has Python's and the JVM's, Iceberg's runtime and `twostage.enable`. `CPU, third to last` is the "
        "ratio of the third query's CPU seconds to those of the last three: other work on the machine disturbs it less "
        "than wall time.\n"
    )
    return "\n".join((text, picture, *tables))


def _turn(sessions: list[Figures], measure: str, turn: int) -> float | None:
    """Return the median of the sessions' n-th queries."""
    values = [one[measure][turn] for one in sessions if len(one.get(measure, ())) > turn]
    return float(statistics.median(values)) if values else None


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _filters(figures: Figures, pictures: Pictures) -> str:
    """Return stage one's parts, and a picture of the normal forms."""
    parts = [
        "Stage one by itself: CPU milliseconds in one process, medians; each pair of answers is compared first.\n"
    ]
    forms = next((one for one in figures["tables"] if one["title"].startswith("ORs")), None)
    if forms is not None:
        places = [row[0] for row in forms["rows"]]
        lines = {
            name: [_number(row[forms["columns"].index(column)]) for row in forms["rows"]]
            for name, column in (("compact", "compact"), ("CNF", "CNF"), ("pyarrow.compute", "pyarrow"))
        }
        parts.append(
            pictures.draw(
                "filters",
                "Milliseconds by number of ORs, compact against CNF",
                lambda path: draw_lines(path, f"{forms['title']}: lower is better", "ORs", places, lines),
            )
        )
    return "\n".join((*parts, _tables(figures)))


def _deletes(document: Path, figures: Figures, pictures: Pictures) -> str:
    """Write the page of equality deletes beside the document; return its picture and where it is."""
    alternative = "Seconds by number of delete files"
    picture = pictures.draw("equality-deletes", alternative, partial(draw_deletes, figures))
    page = document.with_name("benchmarks-deletes.md")
    write_deletes(figures, picture, page)
    return f"{picture}\n[All figures]({page.name}).\n"


def _number(text: str) -> float | None:
    return float(text.replace(",", "")) if text else None


def _tables(figures: Figures) -> str:
    """Return tables that another benchmark made."""
    parts = [figures["text"] + "\n"] if "text" in figures else []
    for one in figures["tables"]:
        said = one["text"] + "\n\n" if "text" in one else ""
        parts.append(f"**{one['title']}**\n\n{said}" + table(one["columns"], one["rows"]))
    return "\n".join(parts)
