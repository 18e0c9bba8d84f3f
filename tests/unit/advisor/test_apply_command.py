"""``advise --apply``: what was shown is built once that is agreed to, and nothing else is done."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from logged_scans import log_scans, make_events
from twostage.__main__ import main
from twostage.advisor import apply_command
from twostage.advisor.apply_command import apply
from twostage.advisor.recommendation import Recommendation
from twostage.errors import OptionError


def index(column, kinds=("values",)):
    return Recommendation(table="lake.db.t", action="index", reason="", columns=(column,), kinds=kinds)


SORT = Recommendation(
    table="lake.db.t", action="sort", reason="", columns=("a",), command="ALTER TABLE lake.db.t WRITE ORDERED BY a"
)  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(found, answer=None, *, is_agreed=False, build=None, monkeypatch=None):
    built, out = [], io.StringIO()
    if answer is not None:
        monkeypatch.setattr("sys.stdin", Terminal(answer))
    code = apply(
        found,
        build or (lambda *one: built.append(one)),
        Console(file=out, width=500),
        is_agreed=is_agreed,
    )
    return code, built, out.getvalue()


def test_what_is_no_index_is_printed_and_not_run():
    code, built, out = run([SORT, index("a"), index("b", ())], is_agreed=True)
    assert code == 0
    assert built == [("lake.db.t", "a", "values"), ("lake.db.t", "b", "auto")]
    assert "Not run, left to you: ALTER TABLE lake.db.t WRITE ORDERED BY a" in out
    assert run([SORT], is_agreed=True)[1:] == ([], out.splitlines()[0] + "\nNo index to build.\n")


@pytest.mark.parametrize(
    ("answer", "is_built"), [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_it_asks(monkeypatch, answer, is_built):
    code, built, out = run([index("a")], answer, monkeypatch=monkeypatch)
    assert code == 0
    assert bool(built) is is_built
    assert ("Nothing was built." in out) is not is_built


def test_without_a_terminal_it_needs_a_yes(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(OptionError, match="not a terminal"):
        run([index("a")])


def test_one_that_cannot_be_built_does_not_stop_the_others():
    built = []

    def build(table, column, kinds):
        if column == "a":
            raise OptionError("INDEXED", "Column 'a' is indexed already")
        built.append(column)

    code, _, out = run([index("a"), index("b")], is_agreed=True, build=build)
    assert (code, built) == (1, ["b"])
    assert "[TWOSTAGE.INDEXED]" in out


def test_nothing_of_a_name_is_executed():
    """Names come from a log; they are values here, never a shell's words."""
    _, built, _ = run([index("a; rm -rf ~")], is_agreed=True)
    assert built == [("lake.db.t", "a; rm -rf ~", "values")]
    assert not any(name in vars(apply_command) for name in ("os", "subprocess"))


def test_a_recommendation_is_carried_out(tmp_path, capsys):
    """Then the index is there, and not recommended again."""
    path = make_events(tmp_path / "t", files=4)
    queries = [(f"user = 'u{number}'", ["id"]) for number in range(20)]
    log_scans(path, queries, tmp_path / "log")
    arguments = ["advise", "--log", str(tmp_path / "log"), "--table", "lake.db.events", "--path", path]
    assert main([*arguments, "--apply", "--yes"]) == 0
    printed = capsys.readouterr()
    assert "Index user (postings, files)" in printed.out
    assert "4 data files: 4 indexed" in printed.err
    assert "left to you: ALTER TABLE lake.db.events WRITE ORDERED BY user" in printed.err
    assert main(["index", "list", path]) == 0
    assert "user" in capsys.readouterr().err
    assert main(arguments) == 0
    assert "Index user" not in capsys.readouterr().out
    assert main(["advise", "--log", str(tmp_path / "log"), "--path", path]) == 1
    assert "--path" in capsys.readouterr().err


def test_a_table_that_is_not_there_is_said_and_the_log_read_all_the_same(tmp_path, capsys):
    path = make_events(tmp_path / "t", files=1, rows=2000)
    log_scans(path, [("user = 'u1'", ["id"])], tmp_path / "log", name="/gone/t")
    assert main(["advise", "--log", str(tmp_path / "log"), "--table", "/gone/t"]) == 0
    printed = capsys.readouterr()
    assert "/gone/t was not checked: [TWOSTAGE.TABLE_NOT_FOUND]" in printed.err
    assert "/gone/t: 1 scans" in printed.out


def test_spark_must_be_there_before_anything_is_read(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert main(["advise", "--log", "/nowhere", "--apply", "--spark"]) == 1
    assert "[TWOSTAGE.NO_SPARK]" in capsys.readouterr().err
