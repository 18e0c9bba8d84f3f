"""Values of options, from the text that a user writes.

Each function takes the text of a value and returns the value; a wrong one is a ``ValueError`` whose message says what was
expected, so that it can follow "Expected".
"""

from __future__ import annotations

import re

_MAX_EPOCH_MILLISECONDS = 253_402_387_199_999
"""The last millisecond of the year 9999 in the westernmost time zone."""
_NAME = re.compile(r"\s*((?:`(?:[^`]|``)+`|[^,`])+)\s*(?:,|$)")
"""A column's name, and the comma after it."""


def text(raw: str) -> str:
    """Return the text as it is."""
    return raw


def boolean(raw: str) -> bool:
    """Parse ``true`` or ``false``, in any case."""
    if raw.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return raw.lower() == "true"


def positive(raw: str) -> int:
    """Parse a number from 1."""
    value = int(raw)
    if value < 1:
        raise ValueError("a positive number")
    return value


def percentage(raw: str) -> float:
    """Parse a percentage; return a share from 0 to 1."""
    if not re.fullmatch(r"\d{1,3}", raw, re.ASCII) or int(raw) > 100:
        raise ValueError("a percentage from 0 to 100")
    return int(raw) / 100


def number_or_auto(raw: str) -> int | None:
    """Parse a number from 0; return None for ``auto``."""
    if raw.lower() == "auto":
        return None
    if not re.fullmatch(r"\d{1,6}", raw, re.ASCII):
        raise ValueError("auto, or a number from 0")
    return int(raw)


def whole(raw: str) -> int:
    """Parse a long as Java does: ASCII digits, 64 bits, no underscores."""
    if not re.fullmatch(r"[+-]?\d{1,19}", raw, re.ASCII) or not -(2**63) <= int(raw) < 2**63:
        raise ValueError("a whole number")
    return int(raw)


def milliseconds(raw: str) -> int:
    """Parse a time in milliseconds since the epoch.

    Raises:
        ValueError: The message says what was expected. A time after the year 9999 is refused: it is probably in another
            unit, and would silently select the current snapshot.
    """
    if not re.fullmatch(r"[+-]?\d{1,19}", raw, re.ASCII):
        raise ValueError(
            "milliseconds since the epoch, such as 1714979289123; timestampAsOf takes dates and timestamps"
        )
    if int(raw) > _MAX_EPOCH_MILLISECONDS:
        raise ValueError("milliseconds since the epoch, and not a time after the year 9999")
    return int(raw)


def size(raw: str) -> int:
    """Return the bytes of a size such as ``128m``.

    Raises:
        ValueError: The message says what was expected.
    """
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)i?b?\s*", raw, re.IGNORECASE)
    if not match or int(match[1]) < 1:
        raise ValueError("a size such as 134217728 or 128m")
    return int(match[1]) << (10 * " kmgt".index(match[2].lower() or " "))


def normal_form(raw: str) -> str:
    """Parse the name of a normal form."""
    if raw.lower() not in ("none", "cnf", "dnf"):
        raise ValueError("none, cnf or dnf")
    return raw.lower()


def truncates_nanoseconds(raw: str) -> bool:
    """Tell ``truncate`` from ``refuse``."""
    if raw.lower() not in ("refuse", "truncate"):
        raise ValueError("refuse or truncate")
    return raw.lower() == "truncate"


def when(raw: str) -> str:
    """Parse ``auto``, ``always`` or ``never``."""
    if raw.lower() not in ("auto", "always", "never"):
        raise ValueError("auto, always or never")
    return raw.lower()


def hands_over(raw: str) -> bool:
    """Tell ``auto`` from ``never``."""
    if raw.lower() not in ("auto", "never"):
        raise ValueError("auto or never")
    return raw.lower() == "auto"


def automatic(raw: str) -> bool:
    """Tell ``auto`` from ``off``."""
    if raw.lower() not in ("auto", "off"):
        raise ValueError("auto or off")
    return raw.lower() == "auto"


def client(raw: str) -> str:
    """Parse who sends requests."""
    if raw.lower() not in ("auto", "arrow"):
        raise ValueError("auto or arrow")
    return raw.lower()


def sharer(raw: str) -> str:
    """Parse who shares a cache."""
    if raw.lower() not in ("host", "worker"):
        raise ValueError("host or worker")
    return raw.lower()


def keeper(raw: str) -> str:
    """Parse who keeps a cache."""
    if raw.lower() not in ("off", "memory", "host"):
        raise ValueError("off, memory or host")
    return raw.lower()


def directory(raw: str) -> str:
    """Parse the absolute path of a local folder."""
    if not raw.startswith("/"):
        raise ValueError("an absolute path of a local directory")
    return raw


def location(raw: str) -> str:
    """Parse one folder or bucket."""
    (location, *others) = locations(raw)
    if others:
        raise ValueError("one folder or bucket")
    return location


def columns(raw: str) -> tuple[str, ...]:
    """Split a comma-separated list; a name in backticks may contain commas and dots.

    >>> columns("a, `b,c`.d")
    ('a', '`b,c`.d')
    """
    names = re.findall(_NAME, raw)
    if not names or re.sub(_NAME, "", raw).strip(", "):  # the rest: a backtick without its second
        raise ValueError("names separated by commas")
    return tuple(name.strip() for name in names)


def locations(raw: str) -> tuple[str, ...]:
    """Split a comma-separated list of folders and buckets."""
    locations = tuple(part.strip() for part in raw.split(",") if part.strip())
    if not locations or not all("://" in location or location.startswith("/") for location in locations):
        raise ValueError("locations such as s3://bucket or /folder, separated by commas")
    return locations
