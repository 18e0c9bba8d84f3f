"""Values of a log's JSON, checked as they are read: whoever wrote a line may not make the program stumble over it later.

Takes a line or one of its values; gives plain values. The rules: whole numbers fit into 64 bits, other numbers are finite, and
texts can be printed; anything else is a ``ValueError``, so that the line is counted as broken.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

MAX_WHOLE = 2**63 - 1
_MIN_SIGNED = -(2**63)
_MAX_MILLISECONDS = 253_402_300_799_999
"""The end of the year 9999."""
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
"""Half of a character of UTF-16, which JSON can name and no output can take; of whole ones there are two."""


def load_line(line: str | bytes) -> Any:
    """Return the JSON of a line.

    Raises:
        ValueError: It is no JSON, nested too deep, or has numbers or texts that are none.
    """
    try:
        raw = json.loads(line, parse_constant=_no_number)
        data = line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")
        # Nearly no line has one of these; asking for the whole pattern alone takes as long as reading the line.
        if (b"\\u" in data or b"\xed" in data) and _HALF_CHARACTER.search(data):
            json.dumps(raw, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("JSON is nested too deep") from None
    except UnicodeError:
        raise ValueError("a text with half a character") from None
    return raw


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"not a number: {text}")


def whole(value: Any, name: str) -> int:
    """Return a whole number from 0 to `MAX_WHOLE`.

    Raises:
        ValueError: It is none.
    """
    if type(value) is not int or not 0 <= value <= MAX_WHOLE:
        raise ValueError(f"not a number: {name}")
    return value


def whole_or_none(value: Any, name: str) -> int | None:
    """Return the same, and None for None."""
    return None if value is None else whole(value, name)


def milliseconds(value: Any, name: str) -> int:
    """Return milliseconds since 1970, up to the year 9999.

    Raises:
        ValueError: They are none.
    """
    if whole(value, name) > _MAX_MILLISECONDS:
        raise ValueError(f"not a time: {name}")
    return int(value)


def literal(value: Any) -> Any:
    """Return a literal of a predicate: a text, a truth value, NULL, a finite number; whole ones of 64 bits with a sign.

    Raises:
        ValueError: It is none.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if type(value) is int and _MIN_SIGNED <= value <= MAX_WHOLE:
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    raise ValueError("no literal")


def texts(values: Any, name: str) -> tuple[str, ...]:
    """Return a list of texts as a tuple.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ValueError(f"not texts: {name}")
    return tuple(values)


def text(value: Any, name: str) -> str:
    """Return a text.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, str):
        raise ValueError(f"not a text: {name}")  # noqa: TRY004 - a value of the log, not of the program
    return value
