"""Pictures of figures: small SVG files with real text, the same bytes for the same figures.

Takes names and numbers; each picture says in its title what is measured and which way is better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl
from delete_engines import BY_HAND, EXTENSION
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter
from queries import CORE, DATAFUSION, DUCKDB, ICEBERG, ONE_STAGE, POLARS, PYTHON, SPARK, TWOSTAGE, UNVERIFIED

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

mpl.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "twostage",
        "font.family": "sans-serif",
        "font.size": 9,
        "figure.facecolor": "white",  # readable on a dark page
    }
)
COLOURS = {
    TWOSTAGE: "#0b6e4f",
    CORE: "#0b6e4f",
    UNVERIFIED: "#5fb597",
    PYTHON: "#a8d5c2",
    ONE_STAGE: "#a8d5c2",
    ICEBERG: "#3b6fb6",
    SPARK: "#e0803a",
    POLARS: "#7d5ba6",
    DATAFUSION: "#b0436e",
    DUCKDB: "#c2a20a",
    EXTENSION: "#c2a20a",
    BY_HAND: "#8a8a8a",
}
OTHER = "#777777"


@dataclass(frozen=True)
class Bar:
    """One bar: its engine, its length, and the text at its end."""

    name: str
    value: float
    label: str


def draw_bars(path: Path, title: str, panels: dict[str, list[Bar]], columns: int = 2) -> None:
    """Draw one panel of bars for each query; every panel has its own scale."""
    rows = -(-len(panels) // columns)
    most = max(len(bars) for bars in panels.values())
    heights = 0.42 + 0.2 * most
    figure = Figure(figsize=(9.2, 0.55 + rows * heights), layout="constrained")
    figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    for number, (query, bars) in enumerate(panels.items()):
        _bars(figure.add_subplot(rows, columns, number + 1), query, bars)
    _save(figure, path)


def _bars(axes: Axes, query: str, bars: list[Bar]) -> None:
    longest = max(bar.value for bar in bars) or 1
    places = range(len(bars))
    axes.barh(
        places,
        [bar.value for bar in bars],
        height=0.72,
        color=[COLOURS.get(bar.name.partition(":")[0], OTHER) for bar in bars],
    )
    for place, bar in zip(places, bars, strict=True):
        axes.text(bar.value + longest * 0.015, place, bar.label, va="center", fontsize=8)
    axes.set_yticks(places, [bar.name for bar in bars])
    axes.invert_yaxis()
    axes.set_xlim(0, longest * 1.3)
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_title(query, fontsize=9, loc="left")


def draw_lines(
    path: Path, title: str, across: str, places: list[str], lines: dict[str, list[float | None]]
) -> None:
    """Draw lines on a logarithmic scale, each with its name at its end; places without a figure are left out."""
    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    axes = figure.add_subplot()
    for name, values in lines.items():
        known = [(place, value) for place, value in enumerate(values) if value is not None]
        if not known:
            continue
        across_, up = zip(*known, strict=True)
        drawn = axes.plot(across_, up, marker="o", markersize=4, color=COLOURS.get(name))
        axes.annotate(
            f"  {name}, {up[-1]:,.0f}", (across_[-1], up[-1]), va="center", color=drawn[0].get_color()
        )
    axes.set_yscale("log")
    axes.set_xticks(range(len(places)), places)
    axes.set_xlim(-0.2, len(places) + 0.6)
    axes.set_xlabel(across)
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


@dataclass(frozen=True)
class Line:
    """One line of a panel: its name, a value at each place, None where there is none."""

    name: str
    values: list[float | None]
    stopped: tuple[int, float] | None = None
    """The place and value at which it was stopped: drawn as an arrow upwards."""
    is_dashed: bool = False


def draw_line_panels(
    path: Path, title: str, across: str, places: list[str], panels: dict[str, list[Line]], columns: int = 2
) -> None:
    """Draw panels of lines on one logarithmic scale, with one legend for all."""
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(9.2, 0.9 + 2.3 * rows), layout="constrained")
    figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    drawn: dict[str, Line2D] = {}
    first: Axes | None = None
    for number, (heading, lines) in enumerate(panels.items()):
        axes = figure.add_subplot(rows, columns, number + 1, sharey=first, sharex=first)
        first = first or axes
        for line in lines:
            drawn[line.name] = _line(axes, line)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.set_xticks(range(len(places)), places)
        axes.set_xlabel(across)
        axes.set_ylabel("seconds")
        axes.set_title(heading, fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", linewidth=0.4, color="#dddddd")
    figure.legend(drawn.values(), drawn.keys(), loc="outside lower center", ncols=4, frameon=False)
    _save(figure, path)


def _line(axes: Axes, line: Line) -> Line2D:
    known = [(place, value) for place, value in enumerate(line.values) if value is not None]
    colour = COLOURS.get(line.name.partition(",")[0], OTHER)
    style = "--" if line.is_dashed else "-"
    (drawn,) = axes.plot(*zip(*known, strict=True), style, marker="o", markersize=4, color=colour)
    if line.stopped is not None:
        place, value = line.stopped
        axes.plot([known[-1][0], place], [known[-1][1], value], ":", color=colour)
        axes.plot([place], [value], marker="^", markersize=7, color=colour)
    return drawn


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, format="svg", metadata={"Date": None})
