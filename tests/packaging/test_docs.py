"""The documents say what the code has: options, counters, confs, modules; and their links lead somewhere.

`make docs` builds the site and checks every link in it; what is here needs no more than the tests' own environment.
"""

from __future__ import annotations

import re
import runpy

import pytest
from documents import DOCUMENTS, ROOT

from twostage.catalog.properties import _HADOOP_CONFS, _IMPLEMENTATIONS, _RENAMED, _TYPES
from twostage.metrics import COUNTERS
from twostage.option_table import CATALOG_OPTION
from twostage.options import OPTION_NAMES
from twostage.unsupported_options import _UNSUPPORTED

DOCS = ROOT / "docs"
PAGES = sorted([*DOCUMENTS, *ROOT.glob("*.md")], key=str)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_TEST = re.compile(r"`((?:[\w./]+/)?test_\w+\.py|tests/[\w./]*)(?:::\w+)?`")
_MODULE = re.compile(r"`([\w]+/(?:[\w/]+\.(?:py|java))?)`")


def text_of(path):
    """Return a document without its fences."""
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(path):
    """Return the headings' anchors, where both GitHub and the site make the same of a heading."""
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")
        for heading in _HEADING.findall(text_of(path))
    }


def rows(path):
    """Return the cells of the rows of all tables of a document."""
    lines = [line for line in text_of(path).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in _LINK.findall(text_of(path)):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target
        if path.is_relative_to(DOCS):
            assert file.resolve().is_relative_to(DOCS), f"{target}: the site has only what is in docs/"


def test_every_page_is_in_the_site_once():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r": (\S+\.md)$", nav, re.MULTILINE)
    assert sorted(named) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    readme = (ROOT / "README.md").read_text()
    assert [page for page in named if f"(docs/{page}" not in readme and page != "index.md"] == []


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_tables_are_those_of_the_code():
    """`make docs-tables` has nothing to write, and every table of the code has its place."""
    tables = runpy.run_path(str(DOCS / "tables.py"))
    pages = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    assert [name for name, text in pages.items() if tables["filled"](text) != text] == [], "make docs-tables"
    marks = [mark for text in pages.values() for mark in re.findall(r"<!-- table: (.+?) -->", text)]
    assert sorted(marks) == sorted(tables["tables"]())
    named = [row[0].strip("`") for row in rows(DOCS / "options.md")]
    assert [name for name in (*OPTION_NAMES, CATALOG_OPTION) if named.count(name) != 1] == []
    counted = [row[0].strip("`") for row in rows(DOCS / "report.md")]
    assert [name for name in COUNTERS if counted.count(name) != 1] == []


def test_whoever_moves_from_iceberg_finds_each_of_its_options():
    page = (DOCS / "moving-from-iceberg-spark.md").read_text()
    assert [name for name in _UNSUPPORTED if f"`{name}`" not in page] == []
    assert [name for name in (*_TYPES, *_RENAMED, *_RENAMED.values()) if f"`{name}`" not in page] == []
    assert [name for name in _IMPLEMENTATIONS if f"`…{name}`" not in page] == []
    assert [name for name in _HADOOP_CONFS if f".{name}`" not in page] == []
    assert re.findall(r"\| `([\w.-]+)`[^|]*\| (?:the option|the same name)", page)
    for name in re.findall(r"the option `([\w.-]+)`", page):
        assert name in OPTION_NAMES


def test_the_lines_of_java_are_counted():
    stated = re.search(r"about ([\d,]+) lines of Java", (DOCS / "how-it-works.md").read_text())
    planner = ROOT / "connector/twostage/planner"
    count = sum(len(path.read_text().splitlines()) for path in planner.rglob("*.java"))
    assert int(stated[1].replace(",", "")) == round(count, -3)


def test_modules_that_the_documents_name_are_there():
    for path in PAGES:
        for name in _MODULE.findall(path.read_text()):
            places = (ROOT, ROOT / "connector/twostage", ROOT / "connector", ROOT / "native")
            assert any((place / name).exists() for place in places), f"{path.name}: {name}"
    missing = []
    for path in PAGES:
        for name in _TEST.findall(path.read_text()):
            if not any((place / name).exists() for place in (ROOT, path.parent)):
                missing.append(f"{path.name}: {name}")
    assert missing == []
    layers = (DOCS / "how-it-works.md").read_text().partition("```text")[2].partition("```")[0]
    packages = {path.parent.name for path in (ROOT / "connector/twostage").glob("*/__init__.py")}
    assert packages - {"planner"} <= set(re.findall(r"[a-z_]+", layers))
