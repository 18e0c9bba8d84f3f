"""Values of options: what is taken, and the sentence for what is not."""

from __future__ import annotations

import pytest

from twostage import option_values as values


@pytest.mark.parametrize(
    ("raw", "expected"),
    [("1", 1), ("128m", 2**27), (" 1 GiB ", 2**30), ("3KB", 3 * 2**10), ("2T", 2**41), ("7b", 7)],
)
def test_sizes(raw: str, expected: int) -> None:
    assert values.size(raw) == expected


@pytest.mark.parametrize("raw", ["", "0", "-1", "1.5g", "1 x", "m", "0g"])
def test_no_sizes(raw: str) -> None:
    with pytest.raises(ValueError, match="a size such as"):
        values.size(raw)


def test_times_end_with_the_year_9999() -> None:
    last = 253_402_387_199_999
    assert values.milliseconds(str(last)) == last
    assert values.milliseconds("-5") == -5
    with pytest.raises(ValueError, match="not a time after the year 9999"):
        values.milliseconds(str(last + 1))
    for raw in ("", "2024-01-01", "1_000", "\u0661"):
        with pytest.raises(ValueError, match="milliseconds since the epoch"):
            values.milliseconds(raw)


def test_whole_numbers_have_64_bits() -> None:
    assert [values.whole(str(number)) for number in (-(2**63), 2**63 - 1)] == [-(2**63), 2**63 - 1]
    for raw in (str(2**63), str(-(2**63) - 1), "1_0", "\u0661", "", "1.0"):
        with pytest.raises(ValueError, match="a whole number"):
            values.whole(raw)


def test_shares_and_counts() -> None:
    assert [values.percentage(raw) for raw in ("0", "25", "100")] == [0.0, 0.25, 1.0]
    assert [values.number_or_auto(raw) for raw in ("AUTO", "0", "17")] == [None, 0, 17]
    for parse, raw in ((values.percentage, "101"), (values.percentage, "-1"), (values.number_or_auto, "-1")):
        with pytest.raises(ValueError, match="a percentage|a number"):
            parse(raw)
    with pytest.raises(ValueError, match="a positive number"):
        values.positive("0")


def test_lists() -> None:
    assert values.columns(" a, `b,c`.d ,`e```,") == ("a", "`b,c`.d", "`e```")
    for raw in ("", ",", "a,`b", "a,e``", "`a`` , b"):
        with pytest.raises(ValueError, match="separated by commas"):
            values.columns(raw)
    assert values.locations("s3://b, /folder,") == ("s3://b", "/folder")
    for raw in ("", ",", "folder", "s3://b,folder"):
        with pytest.raises(ValueError, match="locations such as"):
            values.locations(raw)
    assert values.location("s3://b") == "s3://b"
    with pytest.raises(ValueError, match="one folder or bucket"):
        values.location("s3://b,/c")
    with pytest.raises(ValueError, match="an absolute path"):
        values.directory("cache")
