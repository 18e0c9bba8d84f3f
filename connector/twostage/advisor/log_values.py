"""Values of a log's JSON, checked as they are read, so that no line can make the program fail later.

Takes a line or one of its values; returns plain values. The rules: whole numbers fit into 64 bits, other
numbers are finite, and strings can be printed; anything else is a ``ValueError``, so that the line counts as
broken.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

MAX_WHOLE = 2**63 - 1
_MIN_SIGNED = -(2**63)
_MAX_MILLISECONDS = 253_402_300_799_999
"""The end of the year 9999."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
"""A UTF-16 surrogate, which JSON can escape, and which cannot be encoded without its other half."""


def load_line(line: str | bytes) -> Any:
    """Return the JSON of a line.

    Raises:
        ValueError: It is not JSON, is nested too deep, or has invalid numbers or strings.
    """
    try:
        raw = json.loads(line, parse_constant=_no_number)
        data = line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")
        # Hardly any line has one of these; searching for the pattern alone takes as long as parsing the line.
        if (b"\\u" in data or b"\xed" in data) and _SURROGATE.search(data):
            json.dumps(raw, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("JSON is nested too deep") from None
    except UnicodeError:
        raise ValueError("a text with half a character") from None
    return raw


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"not a number: {text}")


def whole_number(value: Any, name: str) -> int:
    """Return a whole number from 0 to `MAX_WHOLE`.

    Raises:
        ValueError: It is not one.
    """
    if type(value) is not int or not 0 <= value <= MAX_WHOLE:
        raise ValueError(f"not a number: {name}")
    return value


def whole_number_or_none(value: Any, name: str) -> int | None:
    """Return the same, and None for None."""
    return None if value is None else whole_number(value, name)


def milliseconds(value: Any, name: str) -> int:
    """Return milliseconds since 1970, up to the year 9999.

    Raises:
        ValueError: It is not such a time.
    """
    if whole_number(value, name) > _MAX_MILLISECONDS:
        raise ValueError(f"not a time: {name}")
    return int(value)


def literal(value: Any) -> Any:
    """Return a literal: a string, a boolean, None, or a finite number; whole numbers are signed 64-bit.

    Raises:
        ValueError: It is not one.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if type(value) is int and _MIN_SIGNED <= value <= MAX_WHOLE:
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    raise ValueError("no literal")


def texts(values: Any, name: str) -> tuple[str, ...]:
    """Return a list of strings as a tuple.

    Raises:
        ValueError: It is not one.
    """
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ValueError(f"not texts: {name}")
    return tuple(values)


def text(value: Any, name: str) -> str:
    """Return a string.

    Raises:
        ValueError: It is not one.
    """
    if not isinstance(value, str):
        raise ValueError(f"not a text: {name}")  # noqa: TRY004 - a value of the log, not of the program
    return value
