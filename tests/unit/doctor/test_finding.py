"""One check's finding: one line, no secret in it, and never a traceback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from twostage.doctor.finding import Finding, failed, guarded, ok, refused, warning
from twostage.errors import OptionError


def test_texts_are_one_line_and_masked() -> None:
    for found in (
        ok("c", "a\n  b s3://u:hidden@b"),
        failed("c", "x", "a\nb token=hidden"),
        warning("c", "x" * 900, "m"),
    ):
        assert "hidden" not in f"{found}"
        assert "\n" not in found.found + found.mend
        assert len(found.found) <= 401
    assert ok("c", "fine") == Finding("c", "ok", "fine", "")


@pytest.mark.parametrize(
    ("error", "state", "found", "mend"),
    [
        (OptionError("CODE", "Wrong", hint="Write it."), "failed", "[TWOSTAGE.CODE] Wrong", "Write it."),
        (ImportError("No module named 'x'"), "failed", "not tried: No module named 'x'", "pip install"),
        (ZeroDivisionError("division"), "failed", "ZeroDivisionError: division", "please report it"),
    ],
)
def test_a_check_that_fails_itself_is_a_finding(error: Exception, state: str, found: str, mend: str) -> None:
    def examine() -> Iterator[Finding]:
        yield ok("first", "fine")
        raise error

    first, second = guarded("check", examine)
    assert (first.check, first.state) == ("first", "ok")
    assert (second.check, second.state, second.found) == ("check", state, found)
    assert mend in second.mend


def test_an_error_s_own_hint_goes_first() -> None:
    assert refused("c", OptionError("CODE", "m", hint="Ours."), "Theirs.").mend == "Ours."
    assert refused("c", OptionError("CODE", "m"), "Theirs.").mend == "Theirs."
