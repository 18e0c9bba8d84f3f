"""The page in a real browser: it renders without an error on the console, and its charts have bars."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess

import numpy as np
import pytest

from twostage.advisor.advise import advise
from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
from twostage.advisor.html_report import _BLUE, _GREEN, _GREY, page
from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.query_log import QueryLog, QueryLogFile

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "chrome-headless-shell")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
ROWS = 10_000_000

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=f"no browser: none of {', '.join(NAMES)}")


def chromium(path, folder, *more):
    """Render a page; return its document, and what the console said."""
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
        f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--window-size=1100,4000", *more, path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "HOME": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def scan(column, rows):
    leaf = LoggedPredicate(
        op="=", columns=(column,), count=1, text=f"{column} = '</code><b>{rows}'", rows_in=rows, rows_out=10
    )
    counters = {
        "rows.considered": rows,
        "bytes.read": rows * 12,
        "bytes.filter": rows * 8,
        "rows.fetched": 10,
    }
    return LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table="lake.db.t", predicate=leaf, columns=("x",),
        counters={**counters, "row_groups.considered": 10, "files.read": 10}, query_milliseconds=rows // 10_000,
    )  # fmt: skip


@pytest.fixture
def report(tmp_path):
    """A page with all three charts: one of the columns is to be indexed, the other one has too few bytes."""
    scans = [scan(column, rows) for column in ("dev", "n") for rows in range(ROWS // 10, ROWS, ROWS // 10)]
    QueryLogFile(str(tmp_path / "log"), {}).append(scans)
    facts = {"type": "string", "rows": ROWS, "pages": 500, "distinct": 1e6, "distinct_per_file": 1e5}
    columns = {"dev": ColumnMetadata(bytes=8 * ROWS, **facts), "n": ColumnMetadata(bytes=10_000, **facts)}
    known = TableColumns(table="lake.db.t", snapshot=1, rows=ROWS, files=10, bytes=2**36, columns=columns)
    advice = advise(QueryLog(str(tmp_path / "log")), metadata={"lake.db.t": known})
    path = tmp_path / "report.html"
    path.write_text(page(advice), encoding="utf-8")
    return path


def test_the_page_renders(report, tmp_path):
    document, said = chromium(report, tmp_path, "--dump-dom")
    assert said == []
    charts = re.findall(r"<svg.*?</svg>", document, re.DOTALL)
    assert len(charts) == 3
    for chart in charts:
        assert len(re.findall(r"<path [^>]*d=\"M [^\"]{20,}", chart)) >= 2, chart[:500]
        assert len(re.findall(r"<text", chart)) >= 4, "axes without a word"
    assert "<b>" not in document
    assert "With these indexes, predicted before they are built" in document


def test_the_charts_have_bars(report, tmp_path):
    from matplotlib.image import imread

    out = tmp_path / "page.png"
    _, said = chromium(report, tmp_path, f"--screenshot={out}")
    assert said == []
    pixels = (imread(out)[:, :, :3] * 255).round().astype(int)
    for color, least in ((_GREEN, 5_000), (_BLUE, 5_000), (_GREY, 5_000)):
        wanted = [int(color[at : at + 2], 16) for at in (1, 3, 5)]
        assert np.all(pixels == wanted, axis=2).sum() > least, color
    # Nothing reaches beyond the page: its margin is white.
    assert (pixels[:, -20:] == 255).all()


def test_an_error_would_be_seen(report, tmp_path):
    """The page forbids itself to load anything: an image is an error on the console."""
    broken = tmp_path / "broken.html"
    broken.write_text(report.read_text().replace("</body>", "<img src='x.png'></body>"))
    _, said = chromium(broken, tmp_path, "--dump-dom")
    assert said
