"""Timestamps of ORC: seconds since 2015 in the writer's zone, and nanoseconds without their trailing zeros.

Takes the two streams as integers; returns microseconds since 1970 (or nanoseconds, if some values have them
and all fit). The rule: a value is the local time that the writer meant, or the instant, or an error; an
unknown zone is never guessed.
Source: ORC specification v1, "Timestamp Columns", and org.apache.orc.impl.TreeReaderFactory.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.errors import CorruptFileError, UnsupportedFeatureError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EPOCH_OF_ORC = 1_420_070_400  # 2015-01-01T00:00:00Z
_UTC = frozenset(("UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "UCT", "Etc/UCT", "Universal", "Zulu", "Etc/Zulu"))
_FIRST_OF_JAVA = -2_208_988_800  # 1900-01-01T00:00:00Z
_LAST_KNOWN = 2_114_380_800  # 2037-01-01T00:00:00Z
_WEEK = 7 * 86_400
_MAX_SECONDS = 2**63 // 1_000_000 - 2
_MAX_SECONDS_NANOS, _MAX_REST = divmod(2**63 - 1, 1_000_000_000)
_MIN_SECONDS_NANOS, _MIN_REST = divmod(-(2**63), 1_000_000_000)
_POWERS = 10 ** np.array([0, 2, 3, 4, 5, 6, 7, 8], np.int64)
"""Factors by the lowest three bits, which encode how many trailing zeros were cut off."""


def read_timestamps(
    seconds: NDArray[np.int64], packed: NDArray[np.int64], *, zone: str, local: bool, name: str
) -> tuple[NDArray[np.int64], str]:
    """Return the values since 1970 (int64) and their unit, ``us`` or ``ns``.

    Args:
        seconds: Since the beginning of 2015 in `zone`.
        packed: The encoded nanoseconds.
        zone: The writer's time zone.
        local: Whether to return local time in `zone` rather than the instant.
        name: The column's, for errors.

    Raises:
        UnsupportedFeatureError: The zone is not stated, or not known here.
        CorruptFileError: A value does not fit into 64-bit microseconds.
    """
    if len(seconds) == 0:
        return seconds, "us"
    digits = packed >> 3
    # Arrow's writer stores the fraction of a second before 1970 as a negative number.
    if int(digits.min()) < -999_999_999 or int(digits.max()) > 999_999_999:
        raise _out_of_range(name)
    nanos = digits * _POWERS[packed & 7]
    if (
        int(np.abs(nanos).max()) > 999_999_999
        or int(np.abs(seconds).max()) > _MAX_SECONDS - 2 * _EPOCH_OF_ORC
    ):
        raise _out_of_range(name)
    if int(seconds.min()) == -(2**63):  # it is its own absolute value
        raise _out_of_range(name)
    seconds = seconds + (_EPOCH_OF_ORC if zone in _UTC else _epoch_in(zone, name))
    # Writers round seconds towards zero. Within the last second before 1970 that loses the sign: the stored
    # value is a second late, and every reader returns it so.
    seconds = seconds - ((seconds < 0) & (nanos > 999_999))
    if local and zone not in _UTC:
        seconds = _local(seconds, zone)
    if bool((nanos % 1000).any()) and _fits_nanoseconds(seconds, nanos):
        return seconds * 1_000_000_000 + nanos, "ns"  # if the product overflows, the sum wraps back
    return seconds * 1_000_000 + nanos // 1000, "us"


def _fits_nanoseconds(seconds: NDArray[np.int64], nanos: NDArray[np.int64]) -> bool:
    """Tell whether every value fits into 64-bit nanoseconds, including the very first and last that do."""
    late = (seconds > _MAX_SECONDS_NANOS) | ((seconds == _MAX_SECONDS_NANOS) & (nanos > _MAX_REST))
    early = (seconds < _MIN_SECONDS_NANOS) | ((seconds == _MIN_SECONDS_NANOS) & (nanos < _MIN_REST))
    return not bool((late | early).any())


def _local(seconds: NDArray[np.int64], zone: str) -> NDArray[np.int64]:
    """Return the local time of instants, both in seconds.

    pyarrow knows daylight saving changes until 2037. Later years use those of an earlier year that begins on
    the same weekday and has the same length. Before 1900 a zone has its present standard time, as in
    `java.util.TimeZone`, used by all writers that state a zone other than UTC; pyarrow uses the local mean
    time of those years.
    """
    moved = np.zeros(len(seconds), np.int64)
    late = np.flatnonzero(seconds >= _LAST_KNOWN)
    if len(late):
        years = seconds[late].astype("datetime64[s]").astype("datetime64[Y]")
        for year in np.unique(years):
            begin = int(year.astype("datetime64[s]").astype(np.int64))
            moved[late[years == year]] = begin - _year_alike(
                begin, int((year + 1).astype("datetime64[s]").astype(np.int64))
            )
    local = pc.local_timestamp(pa.array(seconds - moved, pa.timestamp("s", zone)))
    result: NDArray[np.int64] = local.cast(pa.int64()).to_numpy() + moved
    early = seconds < _FIRST_OF_JAVA
    return np.where(early, seconds + _standard_offset(zone), result) if early.any() else result


@functools.lru_cache(maxsize=64)
def _standard_offset(zone: str) -> int:
    """Return the seconds by which a zone's standard time is ahead of UTC: its least offset in the days of a late year."""
    days = np.arange(_LAST_KNOWN - 365 * 86_400, _LAST_KNOWN, 86_400)
    local = pc.local_timestamp(pa.array(days, pa.timestamp("s", zone)))
    return int((local.cast(pa.int64()).to_numpy() - days).min())


def _year_alike(begin: int, end: int) -> int:
    """Return the beginning of a year before 2037 with the same calendar as the year from `begin` to `end`."""
    for year in range(2009, 2037):
        first, last = (int(np.datetime64(f"{y}-01-01", "s").astype(np.int64)) for y in (year, year + 1))
        if last - first == end - begin and (begin - first) % _WEEK == 0:
            return first
    raise ValueError("no year is alike")  # 28 years hold all 14 calendars


def _epoch_in(zone: str, name: str) -> int:
    """Return the instant at which 2015 began in a time zone, in seconds."""
    if not zone:
        raise UnsupportedFeatureError(
            "NO_WRITER_TIME_ZONE",
            f"Column {name!r} holds timestamps in a time zone that the ORC file does not state",
            stage="fetch",
            hint="Rewrite the file with a writer newer than Hive 0.14.",
        )
    try:
        midnight: Any = pc.assume_timezone(
            pa.scalar(_EPOCH_OF_ORC, pa.timestamp("s")), zone, nonexistent="latest"
        )
    except pa.ArrowException:
        raise UnsupportedFeatureError(
            "UNKNOWN_TIME_ZONE",
            f"Column {name!r} holds timestamps in a time zone that is not known here: {zone}",
            stage="fetch",
            hint="Install the system's time zone database (tzdata).",
        ) from None
    return int(midnight.cast(pa.int64()).as_py())


def _out_of_range(name: str) -> CorruptFileError:
    return CorruptFileError(
        "VALUE_OUT_OF_RANGE", f"Column {name!r} holds a moment that no type can carry", stage="fetch"
    )
