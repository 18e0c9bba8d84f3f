"""Parse the option ``path``: a path, or the name of a table in a catalog.

Text with a slash is always a path, text that starts with a backtick never is.
"""

from __future__ import annotations

import os
import re

from twostage.catalog.path_table import is_metadata_file
from twostage.errors import OptionError

_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


def is_path(text: str) -> bool:
    """Return whether `text` is a path; a single word is one if the working directory has a folder of that name.

    >>> is_path("/warehouse/db/events"), is_path("v3.metadata.json"), is_path("lake.db.events")
    (True, True, False)
    """
    if text.startswith("`"):
        return False
    named = "/" in text or is_metadata_file(text) or text.startswith("file:")
    return named or ("." not in text and os.path.isdir(text))  # noqa: PTH112


def split_name(name: str) -> tuple[str, ...]:
    """Split a dotted name; a part in backticks may contain dots.

    >>> split_name("lake.`my.db`.events")
    ('lake', 'my.db', 'events')
    """
    parts, position = [], 0
    while match := _PART.match(name, position):
        parts.append(match[1].replace("``", "`") if match[1] else match[2].strip())
        position = match.end() + 1
        if match.end() == len(name) or name[match.end()] != ".":
            break
    if position != len(name) + 1 or not all(parts):
        raise OptionError(
            "BAD_NAME",
            f"Not a table's name: {name!r}",
            stage="options",
            hint="Write catalog.namespace.table; a part with dots goes in backticks.",
        )
    return tuple(parts)
