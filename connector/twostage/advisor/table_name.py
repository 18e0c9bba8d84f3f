"""A table's name in logs: its name or location without secrets, yet different for different tables.

Takes the name in a query; returns the one that is logged, and by which the advisor counts scans. The rules: a
URL's login and query string do not identify a table, and are masked; what looks like a secret in the path
(``…/token=a/t``) distinguishes tables, and is replaced by a hash of it. A logged name stays as it is.
"""

from __future__ import annotations

import functools
import hashlib

from twostage.errors import SECRET_VALUE, mask

_HEX_DIGITS = 8
"""Of a hash: as many as `errors.mask` recognizes as one, too few to find a key by."""


@functools.lru_cache(maxsize=1024)
def logged_name(table: str) -> str:
    """Return a table's name in logs.

    >>> logged_name("abfss://dev@lake.dfs.core.windows.net/t"), logged_name("s3://key:secret@lake/t?sig=abc")
    ('abfss://dev@lake.dfs.core.windows.net/t', 's3://***@lake/t?sig=***')
    >>> logged_name("/lake/token=a/t") == logged_name("/lake/token=b/t")
    False
    """
    path, mark, query = table.partition("?")
    hashed = SECRET_VALUE.sub(lambda found: f"{found[1]}***{_hash(found[2])}", path)
    return mask(hashed + mark + query)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HEX_DIGITS]
