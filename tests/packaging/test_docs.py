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
from twostage.options import OPTION_NAMES, parse_options
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


OPTIONS = {
    row[0].strip("`"): row
    for row in rows(DOCS / "options.md")
    if row[0].startswith("`") and row[0] != "`catalog.<property>`"
}


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


def test_every_option_is_documented():
    assert sorted(OPTIONS) == sorted(OPTION_NAMES)


@pytest.mark.parametrize("name", OPTION_NAMES)
def test_an_option_has_the_default_that_is_documented(name):
    _, default, meaning = OPTIONS[name]
    given = {name: default.strip("`")} if default else {}
    assert parse_options(given) == parse_options({})
    assert meaning
    if default in ("", "`true`", "`false`"):
        return
    for choice in re.findall(r"`(auto|always|never|none|cnf|dnf|refuse|truncate|host|worker)`", meaning):
        parse_options({name: choice})


def test_an_option_without_a_documented_default_has_none():
    """A column that is left empty would pass the test above."""
    for name, (_, default, _) in OPTIONS.items():
        if default:
            continue
        for value in ("x", "7", "/x", "s3://x", "true"):
            try:
                given = parse_options({name: value})
            except Exception:
                continue
            assert given != parse_options({}), f"{name}={value} is its default"


def test_the_counters_are_put_into_their_page():
    hooks = runpy.run_path(str(DOCS / "hooks.py"))
    page = hooks["on_page_markdown"]((DOCS / "report.md").read_text())
    assert hooks["MARK"] not in page
    assert [name for name in COUNTERS if f"| `{name}` | {COUNTERS[name]} |" not in page] == []


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
