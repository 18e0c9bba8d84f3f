"""The advice as one page of HTML: charts, tables, and the command of each recommendation.

Takes an `Advice`; returns the text of a page that needs no other file, no script and no network. The rule:
whatever comes from a log is escaped text, and the page forbids the browser to load anything.
"""

from __future__ import annotations

import importlib.util
import io
import math
import re
from html import escape
from typing import TYPE_CHECKING, Any

from twostage.advisor.tally import QUANTILES
from twostage.errors import OptionError, mask
from twostage.report.funnel import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from twostage.advisor.advise import Advice
    from twostage.advisor.recommendation import Recommendation
    from twostage.advisor.tally import Tally
    from twostage.advisor.what_if import Predicted, WhatIf

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem; overflow-wrap: anywhere }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto } th, td { padding: .2rem .5rem; white-space: nowrap; text-align: right; border-bottom: 1px solid #eee }
th:first-child, td:first-child, .text { text-align: left } td code { white-space: normal } code { background: #f3f3f3; padding: .1rem .3rem; overflow-wrap: anywhere }
section { margin: 1.2rem 0 } h3 { margin: 0 } p { margin: .2rem 0 } svg { max-width: 100%; height: auto }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_GREEN, _BLUE, _GREY = "#0b6e4f", "#3b6fb6", "#9a9a9a"
_MAX_NAME = 40
_TICKS = 6
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_GROUP = re.compile(r'<g id="[^"]*">')
_QUANTITIES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("entries_in_filter", "entries in filter", lambda value: f"{value:,.0f}"),
    ("bytes_read", "bytes read", lambda value: format_bytes(int(value))),
    ("seconds", "seconds", lambda value: f"{value:,.2f}"),
)


def page(advice: Advice) -> str:
    """Return the page.

    Raises:
        OptionError: Matplotlib, which draws the charts, is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise OptionError(
            "NO_MATPLOTLIB",
            "The charts need Matplotlib",
            stage="options",
            hint="pip install 'twostage[charts]', or leave --html out.",
        )
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>twostage: what the queries recommend</title><style>{_STYLE}</style></head><body>",
        "<h1>What the queries recommend</h1>",
    ]
    if not advice.tallies:
        parts.append("<p>No table in the log has enough scans for any advice.</p>")
    for number, tally in enumerate(advice.tallies):
        found = [one for one in advice.recommendations if one.table == tally.table]
        predicted = next((one for one in advice.what_if if one.table == tally.table), None)
        parts += _of_table(number, tally, found, predicted)
    if advice.problems:
        parts.append(f"<h2>What could not be read</h2><pre>{_text(advice.problems)}</pre>")
    return "\n".join([*parts, "</body></html>", ""])


def _of_table(
    number: int, tally: Tally, found: Sequence[Recommendation], predicted: WhatIf | None
) -> Iterable[str]:
    yield f"<h2>{_text(tally.table)}</h2>"
    yield (
        f"<p>{tally.scans:,} scans, {tally.filtered:,} with a filter; {tally.entries:,} entries scanned in filters, "
        f"{format_bytes(tally.bytes_read)} read.</p>"
    )
    saving = [one for one in found if one.action == "index" and one.saved_share > 0]
    if saving:
        yield _chart(f"{number} saved", 0.9 + 0.32 * len(saving), lambda axes: _draw_saved(axes, saving))
    for one in found:
        yield from _of_recommendation(one)
    if predicted is not None:
        yield from _of_what_if(number, predicted)
    quantiles = tally.quantiles()
    yield f"<h3>How much its scans take</h3>{_quantile_table(quantiles)}"
    if any(value > 0 for value in quantiles["bytes_read"]):
        yield _chart(f"{number} quantiles", 2.6, lambda axes: _draw_quantiles(axes, quantiles["bytes_read"]))
    model = tally.latency()
    if model is not None:
        usable = "" if model.is_usable else ", too little to say seconds"
        yield f"<p>Entries explain {max(0.0, model.fit):.0%} of the seconds (R²){usable}.</p>"


def _of_recommendation(one: Recommendation) -> Iterable[str]:
    yield f"<section><h3>{_text(one.title)}</h3>"
    yield f"<p>{_text(one.reason)}</p>"
    if facts := one.facts:
        yield f"<p>{'; '.join(facts)}</p>"
    for text in one.queries:
        yield f"<p>e.g. <code>{_text(text)}</code></p>"
    if one.command:
        yield f"<p><code>{_text(one.command)}</code></p>"
    yield "</section>"


def _of_what_if(number: int, predicted: WhatIf) -> Iterable[str]:
    """Yield what the indexes would do: a chart of the heaviest queries, numbered, and a table that says which they are."""
    yield "<h3>With these indexes, predicted before they are built</h3>"
    yield f"<p>{_arrow(predicted.summary[:1].upper() + predicted.summary[1:])}.</p>"
    if not any(one.bytes_before > 0 for one in predicted.queries):
        return
    yield _chart(
        f"{number} before and after",
        1.1 + 0.42 * len(predicted.queries),
        lambda axes: _draw_what_if(axes, predicted.queries),
    )
    has_seconds = predicted.total.seconds_before is not None
    heads = "<th></th><th class=text>filter</th><th>scans</th><th>bytes each</th>"
    heads += "<th>seconds each</th>" if has_seconds else ""
    rows = [
        f"<tr><td>{place}</td><td class=text><code>{_text(one.text)}</code></td><td>{one.scans:,}</td>"
        f"<td>{_arrow(one.bytes_each)}</td>"
        + (f"<td>{_arrow(one.seconds_each)}</td>" if has_seconds else "")
        + "</tr>"
        for place, one in enumerate(predicted.queries, start=1)
    ]
    yield f"<table><tr>{heads}</tr>{''.join(rows)}</table>"


def _quantile_table(quantiles: dict[str, list[float]]) -> str:
    heads = "".join(f"<th>{'most' if at == 1 else f'{at:.0%}'}</th>" for at in QUANTILES)
    rows = [
        f"<tr><td>{label}</td>"
        + "".join(f"<td>{'' if math.isnan(value) else shown(value)}</td>" for value in quantiles[name])
        + "</tr>"
        for name, label, shown in _QUANTITIES
    ]
    return f"<table><tr><th></th>{heads}</tr>{''.join(rows)}</table>"


def _chart(salt: str, height: float, draw: Callable[[Any], None]) -> str:
    """Return a chart as SVG with real text; `salt` keeps the ids of two charts apart."""
    import matplotlib as mpl  # noqa: PLC0415 - an extra, and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    # Dollar signs in a column's name are not math.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": salt, "text.parse_math": False, "font.size": 9}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(8, height), layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    text = drawn.getvalue()
    # Nothing refers to groups, and those of two charts have the same ids.
    return _GROUP.sub("<g>", _METADATA.sub("", text[text.index("<svg") :]))


def _draw_saved(axes: Axes, found: Sequence[Recommendation]) -> None:
    names = [mask(one.columns[0])[:_MAX_NAME] for one in found]
    places = range(len(found))
    axes.barh(places, [100 * one.saved_share for one in found], color=_GREEN, height=0.6)
    axes.set_yticks(list(places), names)
    axes.invert_yaxis()
    axes.set_xlabel("% of the entries that filters scan, saved by the index (more is better)")


def _draw_what_if(axes: Axes, queries: Sequence[Predicted]) -> None:
    places = range(len(queries))
    for shift, color, label, values in (
        (-0.2, _GREY, "read", [one.bytes_before for one in queries]),
        (0.2, _GREEN, "predicted", [one.bytes_after for one in queries]),
    ):
        axes.barh([place + shift for place in places], values, color=color, height=0.36, label=label)
    axes.set_yticks(list(places), [str(place + 1) for place in places])
    axes.invert_yaxis()
    _in_bytes(axes.xaxis)
    axes.set_xlabel("bytes of all scans of a form, before and after (less is better)")
    axes.legend(loc="lower right", frameon=False)


def _draw_quantiles(axes: Axes, values: Sequence[float]) -> None:
    places = range(len(values))
    axes.bar(places, [max(value, 0.0) for value in values], color=_BLUE, width=0.6)
    axes.set_xticks(list(places), ["most" if at == 1 else f"{at:.0%}" for at in QUANTILES])
    _in_bytes(axes.yaxis)
    axes.set_xlabel("so many scans read no more bytes than this")


def _in_bytes(axis: Axis) -> None:
    """Give an axis a few ticks, at multiples of a power of two bytes."""
    from matplotlib.ticker import MultipleLocator  # noqa: PLC0415 - as above

    most = max(1.0, axis.get_view_interval()[1])
    axis.set_major_locator(MultipleLocator(2.0 ** max(0, math.ceil(math.log2(most / _TICKS)))))
    axis.set_major_formatter(lambda value, _: format_bytes(int(value)))


def _arrow(text: str) -> str:
    return _text(text).replace("-&gt;", "→")


def _text(text: str) -> str:
    return escape(mask(text))
