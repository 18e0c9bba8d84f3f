"""``advise collect``: what it writes and says, and how it fails."""

from __future__ import annotations

import json

from tables import Table
from twostage.__main__ import main
from twostage.advisor.collect import collect
from twostage.advisor.column_metadata import parse_metadata
from twostage.advisor.kept_metadata import NAME
from twostage.options import parse_options


def table(folder):
    """Write a table of four data files; return where it is."""
    written = Table(folder, {"id": "long", "few": "long"})
    for start in range(0, 2000, 500):
        written.append([{"id": row, "few": row % 20} for row in range(start, start + 500)])
    written.write()
    return str(folder)


def test_the_command(tmp_path, capsys):
    path, out = table(tmp_path / "t"), tmp_path / "t.json"
    assert main(["advise", "collect", path, "--out", str(out), "--name", "lake.db.t"]) == 0
    found = parse_metadata(out.read_text())
    assert (found.table, found.rows, found.columns["few"].distinct) == ("lake.db.t", 2000, 20)
    assert "2,000 rows in 4 files" in capsys.readouterr().err
    assert json.loads(out.read_text())["v"] == 1
    assert main(["advise", "collect", path, "--out", str(tmp_path / "no" / "t.json")]) == 1
    assert main(["advise", "collect", str(tmp_path / "nowhere"), "--out", str(out)]) == 1


def test_beside_the_indexes_and_found_there_by_advise(tmp_path, capsys):
    path = table(tmp_path / "lake" / "t")
    assert main(["advise", "collect", path]) == 0
    assert "2,000 rows in 4 files" in capsys.readouterr().err
    (kept,) = (tmp_path / "lake" / "_twostage_indexes").rglob(NAME)
    before = parse_metadata(kept.read_text())
    assert before.columns["id"].distinct == 2000
    assert main(["advise", "collect", path, "--files", "1"]) == 0  # all are known: none is read
    assert parse_metadata(kept.read_text()) == before
    assert collect(parse_options({"path": path}), {}, sampled_files=1, run=never) == before


def never(work):
    raise AssertionError(f"files are read again: {work}")


def test_without_a_place(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("twostage.advisor.collect.index_place", lambda *_: None)
    assert main(["advise", "collect", table(tmp_path / "t")]) == 1
    assert "NO_PLACE" in capsys.readouterr().err
