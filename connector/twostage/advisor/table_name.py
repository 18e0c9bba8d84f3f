"""What logs call a table: its name or place without secrets, and still another one for every other table.

Takes the name that a query gave; gives the one that is logged, and that the advisor counts scans by. The rules: a login and the
query of a URL say nothing of which table it is, and are masked; what looks like a secret but stands in the path
(``…/token=a/t``) tells tables apart, and is replaced by a hash of it. A name that a log has stays as it is.
"""

from __future__ import annotations

import functools
import hashlib

from twostage.errors import SECRET_VALUE, mask

_HEX_DIGITS = 8
"""Of a hash: as many as `errors.mask` knows as one, too few to find a key by."""


@functools.lru_cache(maxsize=1024)
def logged_name(table: str) -> str:
    """Return what logs call a table.

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
