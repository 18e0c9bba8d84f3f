"""What to check where a store cannot be reached.

Takes the properties that open files; gives a hint that names properties, never their values. The rule: only a failure to
connect gets it, so that it misleads nobody whose store is reached and fails.
"""

from __future__ import annotations

import difflib
import os
import re
from typing import TYPE_CHECKING

from twostage.storage.known_properties import FOLLOWED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.storage.location import Location

_NO_CONNECTION = re.compile(
    r"(?i)resolve host|could not connect|failed to connect|SSL connect|TLS connect|certificate|error sending request|dns error"
    r"|connection refused"
)
_ENDPOINTS = {
    "s3": "s3.endpoint",
    "gs": "gcs.service.host",
    "abfs": "adls.account-host",
    "wasb": "adls.account-host",
}
_MIN_SIMILARITY = 0.85
"""Ratio of `difflib` from which a name counts as a misspelling of a property that is followed."""


def is_unreached(text: str) -> bool:
    """Return whether a client says that it could not reach the store.

    >>> is_unreached("curlCode: 7, Could not connect to server"), is_unreached("curlCode: 18, Transferred a partial file")
    (True, False)
    """
    return _NO_CONNECTION.search(text) is not None


def reach_hint(location: Location, properties: Mapping[str, str]) -> str | None:
    """Return what to check of a store that was not reached; None where no property says where the store is.

    Args:
        location: What was to be read.
        properties: Those that open files.
    """
    name = _ENDPOINTS.get(location.family)
    if name is None:
        return None
    how = f"option catalog.{name}, or conf spark.sql.catalog.<name>.{name}"
    for given in properties:
        if given not in FOLLOWED and (
            meant := difflib.get_close_matches(given, FOLLOWED, n=1, cutoff=_MIN_SIMILARITY)
        ):
            return f"{given} is not a known property: did you mean {meant[0]}?"
    endpoint = properties.get(name, "")
    if location.family == "s3" and not endpoint:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if not endpoint and location.family == "s3":
        return f"No s3.endpoint is set, so AWS was asked. If the store is another one, set it: {how}."
    if endpoint and "://" not in endpoint and location.family == "s3":
        return "s3.endpoint has no scheme, so https is used: begin it with http:// if the store has no TLS."
    return f"Check {name} ({how}), and that the driver and the executors can reach it."
