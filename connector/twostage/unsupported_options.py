"""Errors for read options that Iceberg's Spark connector has and this source lacks.

Takes the name of an unknown option; returns an error that explains it. A hint never suggests an option that would
return other rows, such as ``snapshot-id`` for ``start-snapshot-id``.
Source: Iceberg's ``SparkReadOptions`` up to 1.12.0.
"""

from __future__ import annotations

import difflib
import re

from twostage.errors import OptionError, nearest

_CHANGES = "It reads what changed between snapshots, which is not supported yet"
_STREAMS = "It is for streaming reads, which are not supported yet"
_WHOLE = "Leave it out to read a whole snapshot."
_TASKS = "It has no meaning here: tasks are sized by split-size and parallelism"
_SPEED = "Leave it out: it does not change the rows."
_UNSUPPORTED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp"), (_CHANGES, _WHOLE)
    ),
    **dict.fromkeys(
        (
            "stream-from-timestamp",
            "streaming-skip-delete-snapshots",
            "streaming-skip-overwrite-snapshots",
            "streaming-max-files-per-micro-batch",
            "streaming-max-rows-per-micro-batch",
            "streaming-snapshot-polling-interval-ms",
            "async-micro-batch-planning-enabled",
            "async-queue-preload-file-limit",
            "async-queue-preload-row-limit",
        ),
        (_STREAMS, _WHOLE),
    ),
    **dict.fromkeys(("lookback", "file-open-cost"), (_TASKS, _SPEED)),
    "locality": ("It has no meaning here: tasks do not go to the hosts of HDFS blocks", _SPEED),
    "vectorization-enabled": ("It has no meaning here: rows are always read in batches", _SPEED),
    **dict.fromkeys(
        ("scan-task-set-id", "file-scan-task-set-id"),
        ("It reads files staged by an Iceberg action, which is not supported", "Leave it out."),
    ),
}
_OF_CHANGES = re.compile(r"(?:start|end|begin|from|until|since|stream|incremental|change)", re.IGNORECASE)
_OF_CATALOGS = re.compile(
    r"(?i)(?:s3|gcs|adls|hdfs|client|rest|oauth2?)\.|(?:uri|type|warehouse|token|credential|scope)$"
)
_OF_SNAPSHOTS = re.compile(r"(?i)(?:as[-_.]?of|at|date|ref|time|timestamp|time[-_.]?travel)")
_MIN_SIMILARITY = 0.8
"""Ratio of `difflib` from which two names count as spellings of one option."""


def unknown_option(name: str, known: tuple[str, ...]) -> OptionError:
    """Return the error for an option that is not among the `known` ones."""
    words = {_word(other): other for other in _UNSUPPORTED}
    meant = difflib.get_close_matches(_word(name), words, n=1, cutoff=_MIN_SIMILARITY)
    ours = difflib.get_close_matches(
        name.lower(), [other.lower() for other in known], n=1, cutoff=_MIN_SIMILARITY
    )
    if meant and (_OF_CHANGES.match(name) or not ours):
        reason, hint = _UNSUPPORTED[words[meant[0]]]
        spelled = "" if words[meant[0]] == name.lower() else f" (Iceberg's {words[meant[0]]}?)"
        return OptionError(
            "UNSUPPORTED_OPTION",
            f"Option {name!r} is not supported{spelled}",
            stage="options",
            hint=f"{reason}. {hint}",
        )
    hint = nearest(name, known)
    if _OF_CATALOGS.match(name):
        hint = f"Properties of catalogs and stores begin with 'catalog.': catalog.{name}."
    if _OF_SNAPSHOTS.fullmatch(name):
        hint = "Options that choose a snapshot: versionAsOf, timestampAsOf, snapshot-id, branch, tag, as-of-timestamp."
    if _OF_CHANGES.match(name):  # the nearest option would select other rows
        hint = f"Changes between snapshots and streams are not read yet. {_WHOLE}"
    return OptionError("UNKNOWN_OPTION", f"Unknown option: {name!r}", stage="options", hint=hint)


def _word(name: str) -> str:
    """Return a name in lower case, without separators and digits."""
    return re.sub(r"[^a-z]", "", name.lower())
