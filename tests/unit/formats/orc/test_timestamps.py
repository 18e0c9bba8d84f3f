"""ORC's timestamps: seconds since 2015 in the writer's zone and packed nanoseconds, against Python's own calendar."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from twostage.errors import CorruptFileError, UnsupportedFeatureError
from twostage.formats.orc.timestamps import read_timestamps

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
BASE = datetime.datetime(2015, 1, 1)  # noqa: DTZ001
EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001


def packed(nanos: int) -> int:
    """Encode nanoseconds as the specification says: two or more decimal zeros are cut off and counted."""
    zeros = 0
    while nanos and nanos % 10 == 0 and zeros < 8:
        nanos, zeros = nanos // 10, zeros + 1
    if zeros < 2:
        return nanos * 10**zeros << 3
    return nanos << 3 | zeros - 1


def read(
    seconds: list[int], nanos: list[int], *, zone: str = "UTC", local: bool = True
) -> tuple[list[int], str]:
    values, unit = read_timestamps(
        np.array(seconds, np.int64),
        np.array([packed(n) for n in nanos], np.int64),
        zone=zone,
        local=local,
        name="c",
    )
    return values.tolist(), unit


def instant_of(moment: datetime.datetime, zone: str) -> int:
    """Seconds since 1970 of a local time."""
    return int(moment.replace(tzinfo=ZoneInfo(zone)).timestamp())


@settings(deadline=None)
@given(
    st.datetimes(datetime.datetime(1970, 1, 2), datetime.datetime(2036, 12, 30)),  # noqa: DTZ001
    st.sampled_from(ZONES),
)
def test_local_time_is_what_the_writer_meant(moment: datetime.datetime, zone: str) -> None:
    moment = moment.replace(microsecond=moment.microsecond)
    seconds = instant_of(moment, zone) - instant_of(BASE, zone)
    back = datetime.datetime.fromtimestamp(instant_of(moment, zone), ZoneInfo(zone)).replace(tzinfo=None)
    (local,), unit = read([seconds], [moment.microsecond * 1000], zone=zone)
    assert unit == "us"
    assert EPOCH + datetime.timedelta(microseconds=local) == back.replace(microsecond=moment.microsecond)
    (instant,), _ = read([seconds], [moment.microsecond * 1000], zone=zone, local=False)
    assert instant == instant_of(moment, zone) * 10**6 + moment.microsecond


def test_years_after_the_known_ones_use_the_calendar_of_one_that_is_alike() -> None:
    for year in (2040, 2100, 2399):
        for month, hours in ((1, 1), (7, 2)):  # Berlin's summer time
            moment = datetime.datetime(year, month, 15, 12)  # noqa: DTZ001
            instant = int((moment - EPOCH).total_seconds()) - hours * 3600
            (local,), _ = read([instant - instant_of(BASE, "Europe/Berlin")], [0], zone="Europe/Berlin")
            assert EPOCH + datetime.timedelta(microseconds=local) == moment


@pytest.mark.parametrize(
    ("zone", "hours"),
    [("America/Los_Angeles", -8), ("Europe/Berlin", 1), ("Asia/Kolkata", 5.5), ("Europe/Dublin", 0)],
)
def test_before_1900_zones_are_those_of_java(zone: str, hours: float) -> None:
    """`TimeZone.getTimeZone(zone).getOffset(…)` gives a zone's present standard time there, not its mean local time."""
    for year in (1, 1500, 1850, 1899):
        moment = datetime.datetime(year, 1, 1, 12, 34, 56)  # noqa: DTZ001
        seconds = int((moment - EPOCH).total_seconds() - hours * 3600) - instant_of(BASE, zone)
        (local, late), _ = read([seconds, 0], [0, 0], zone=zone)
        assert EPOCH + datetime.timedelta(microseconds=late) == BASE
        assert EPOCH + datetime.timedelta(microseconds=local) == moment
        (instant,), _ = read([seconds], [0], zone=zone, local=False)
        assert instant == (seconds + instant_of(BASE, zone)) * 10**6


def test_before_1970_writers_round_towards_zero() -> None:
    since = int((BASE - EPOCH).total_seconds())
    # 1969-12-31T23:59:58.5 is second -1 (rounded up from -1.5) and 500 ms.
    (value,), _ = read([-1 - since], [500_000_000])
    assert value == -1_500_000
    # Within the last second the sign is lost: it is stored a second late, and read so by all.
    (late,), _ = read([0 - since], [500_000_000])
    assert late == 500_000


def test_nanoseconds_only_where_there_are_some_and_all_fit() -> None:
    assert read([0, 1], [1000, 2000])[1] == "us"
    values, unit = read([0, 1], [1, 2000])
    assert unit == "ns"
    assert values[1] - values[0] == 10**9 + 1999
    far = int((datetime.datetime(9999, 1, 1) - BASE).total_seconds())  # noqa: DTZ001
    values, unit = read([0, far], [1, 0])
    assert unit == "us"
    assert values[1] == int((datetime.datetime(9999, 1, 1) - EPOCH).total_seconds()) * 10**6  # noqa: DTZ001


def test_none() -> None:
    assert read([], []) == ([], "us")


@pytest.mark.parametrize("seconds", [2**62, -(2**62), -(2**63), 2**63 - 1])
def test_a_moment_beyond_64_bits_is_refused(seconds: int) -> None:
    with pytest.raises(CorruptFileError, match=r"VALUE_OUT_OF_RANGE.*'c'"):
        read([0, seconds], [0, 0])


@pytest.mark.parametrize("raw", [10**9 << 3, -(10**9) << 3, (999_999_999 << 3) | 7, 2**62])
def test_more_than_a_second_of_nanoseconds_is_refused(raw: int) -> None:
    with pytest.raises(CorruptFileError, match="VALUE_OUT_OF_RANGE"):
        read_timestamps(np.zeros(1, np.int64), np.array([raw]), zone="UTC", local=True, name="c")


@pytest.mark.parametrize(("zone", "code"), [("", "NO_WRITER_TIME_ZONE"), ("Mars/Base", "UNKNOWN_TIME_ZONE")])
def test_a_zone_is_never_guessed(zone: str, code: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=code):
        read([0], [0], zone=zone)
