"""The page: well formed, of one piece, and with nothing of a log in it but text."""

from __future__ import annotations

import datetime
import re
from html.parser import HTMLParser

import pytest

from twostage.__main__ import main
from twostage.advisor.advise import Advice, advise
from twostage.advisor.html_report import page
from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.query_log import QueryLogFile
from twostage.errors import OptionError

VOID = {"meta", "br", "hr", "img", "link", "input"}
EVIL = "<script>alert(1)</script>"


class Page(HTMLParser):
    """What a browser would see: elements that close, references, visible text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.references, self.text = [], [], [], ""
        self.ids = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
                self.references.append((tag, value))
            if name == "id":
                self.ids.append(value)
            assert not name.startswith("on"), (tag, name)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def scan(column, text, rows=10_000, table="lake.db.t"):
    predicate = LoggedPredicate(
        op="=", columns=(column,), count=1, text=text, rows_in=rows, rows_out=rows // 100
    )
    return LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table=table, predicate=predicate, columns=("x",),
        counters={"rows.considered": rows, "bytes.read": rows * 8, "bytes.filter": rows * 8}, query_milliseconds=rows // 10,
    )  # fmt: skip


@pytest.fixture
def log(tmp_path):
    scans = [scan("a", f"a = '{EVIL}'"), scan("b$x_{", "b = 1"), scan("a", "a = 2", table=EVIL)]
    QueryLogFile(str(tmp_path / "log"), {}).append(scans * 5)
    return str(tmp_path / "log")


def test_a_page_of_one_piece(log):
    text = page(advise(log))
    found = Page(text)
    assert found.open == []
    assert found.elements.count("svg") == 6
    assert not [one for one in found.references if not (one[1] or "").startswith("#")]
    assert {tag for tag, _ in found.references} <= {"use"}
    assert not {"script", "link", "img", "iframe"} & set(found.elements)
    assert len(found.ids) == len(set(found.ids)), "ids of two charts are the same"
    assert "default-src 'none'" in text
    outside = re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert not re.search(r"https?://|url\((?!#)|@import", outside)


def test_what_a_log_says_is_text(log):
    found = Page(page(advise(log)))
    assert "script" not in found.elements
    assert f"a = '{EVIL}'" in found.text
    assert EVIL in found.text
    assert "b$x_{" in found.text
    assert "python -m twostage index create lake.db.t --columns a" in found.text
    assert "of the entries that filters scan, saved by the index" in found.text
    assert "bytes of all scans of a form, before and after" in found.text
    assert "In all, 10 scans with a filter: 781.2 KiB → 0 B" in found.text


def test_figures_and_problems(log):
    advice = advise(log)
    found = Page(page(Advice(recommendations=(), tallies=advice.tallies, problems="1 skipped <b>")))
    assert "1 skipped <b>" in found.text
    assert "10,000" in found.text
    assert "No table" in Page(page(Advice(recommendations=(), tallies=()))).text


def test_the_command(log, tmp_path, capsys):
    out = tmp_path / "report.html"
    assert main(["advise", "report", "--log", log, "--html", str(out)]) == 0
    assert "entries in filter" in capsys.readouterr().out
    assert Page(out.read_text()).elements.count("svg") == 6
    assert main(["advise", "--log", log, "--html", str(tmp_path / "no" / "report.html")]) == 1
    assert "--html cannot be written" in capsys.readouterr().err


def test_without_matplotlib(log, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(OptionError, match=r"twostage\[charts\]"):
        page(advise(log))
