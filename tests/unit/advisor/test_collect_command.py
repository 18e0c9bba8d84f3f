"""``advise collect``: what it writes and says, and how it fails."""

from __future__ import annotations

import json

from tables import Table
from twostage.__main__ import main
from twostage.advisor.column_metadata import parse_metadata


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
