"""What indexes would do, on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from twostage.advisor.print_what_if import print_what_if
from twostage.advisor.what_if import Predicted, WhatIf

MIB = 2**20


def printed(*, seconds, unknown=0, text="dev = 'd1'"):
    times = {"seconds_before": 6.0, "seconds_after": 1.5} if seconds else {}
    one = Predicted(text=text, scans=3, bytes_before=30.0 * MIB, bytes_after=3.0 * MIB, **times)
    total = Predicted(text="", scans=1_500, bytes_before=60.0 * MIB, bytes_after=33.0 * MIB, **times)
    found = WhatIf(table="t", columns=("dev",), queries=(one,), total=total, unknown=unknown)
    shown = io.StringIO()
    print_what_if(found, Console(file=shown, width=120))
    return [line.split() for line in shown.getvalue().splitlines()]


@pytest.mark.parametrize("seconds", [True, False])
def test_a_line_of_each_form_and_the_sum(seconds):
    """Of each form what one scan reads, of three; in all what all read; seconds where they are known."""
    _, heads, line, total = printed(seconds=seconds)
    times = ["seconds", "each"] if seconds else []
    assert heads == ["scans", "bytes", "each", *times, "filter"]
    each = ["2.000", "->", "0.500"] if seconds else []
    assert line == ["3", "10.0", "MiB", "->", "1.0", "MiB", *each, "dev", "=", "'d1'"]
    in_all = "in all, 1,500 scans with a filter: 60.0 MiB -> 33.0 MiB" + (
        ", 6.0 s -> 1.5 s" if seconds else ""
    )
    assert total == in_all.split()


def test_what_is_not_predicted_is_counted_and_long_filters_are_cut():
    *_, line, total = printed(seconds=False, unknown=7, text="[bold]" + "x" * 200)
    assert " ".join(total).endswith("; nothing is predicted for 7 of them")
    assert (line[-1][:6], line[-1][-1], len(line[-1])) == ("[bold]", "…", 60)
