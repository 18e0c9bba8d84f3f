"""All errors that twostage raises.

The tree::

    TwoStageError                    code, path, stage, snapshot_id, hint
    ├─ OptionError(ValueError)           invalid user input: an option, a name, a filter
    ├─ UnsupportedFeatureError           valid Iceberg or SQL that we do not support; raised while planning
    ├─ NotFoundError                     no such table, snapshot, branch or tag
    │  └─ MissingFileError               a file of the snapshot is not in storage
    ├─ ForbiddenLocationError            the location policy forbids a path
    ├─ CorruptFileError                  malformed metadata, manifest, data file, delete file or vector
    ├─ StorageError                      the transport failed; ``transient`` if a retry may succeed
    ├─ ResourceLimitError                a limit was exceeded; the hint names the option that raises it
    └─ InternalError                     a bug of ours; asks for a report

Spark turns a worker's exception into text, so the message starts with the stable code:
``[TWOSTAGE.CORRUPT_VECTOR] …; file s3://…, stage deletes. Hint: …``. Credentials in messages and paths are masked, and
control characters escaped.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_USER_INFO = re.compile(
    r"(?i)((?:abfss?|wasbs?)://[a-z0-9$_-]{1,63}@(?![^/\s]*@))|(?<=://)[^/\s]+@"
)  # up to the last @, because passwords may contain one; Azure has the container where others have a login
_MAX_MESSAGE_CHARACTERS = 1_000
"""A message may quote a filter of 10,000 values or the header of a file."""
_LOGIN = re.compile(r"(?<![\w*])[\w.+%-]+:[^\s/@:'\"]+@")
SECRET_VALUE = re.compile(
    r"(?i)((?:sig|signature|token|password|secret|credential|x-amz-[a-z-]+)=)(?!\*\*\*[0-9a-f]{8}\b)([^&;\s]+)"
)
"""``token=…``, except values that `advisor.table_name` has already replaced."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
MIN_WORD_OVERLAP = 0.5
"""Share of words in common from which one of two names may be a variant of the other."""


def mask(text: str) -> str:
    """Escape control characters and mask credentials in a path or a library's message.

    >>> mask("s3://key:secret@bucket/x?sig=abc\\n")
    's3://***@bucket/x?sig=***\\\\n'
    >>> mask("abfss://container@account.dfs.core.windows.net/x")
    'abfss://container@account.dfs.core.windows.net/x'
    """
    text = _USER_INFO.sub(lambda found: found[1] or "***@", text)
    text = SECRET_VALUE.sub(r"\1***", _LOGIN.sub("***@", text))
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _stems(name: str) -> frozenset[str]:
    """Return how a name's words begin, in lower case: the same for ``prune.pages`` and ``pagePruning``."""
    return frozenset(part[:4].lower() for part in _WORD.findall(name))


def _letters(name: str) -> str:
    """Return a name in lower case without word separators."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _overlap(some: frozenset[str], others: frozenset[str]) -> float:
    """Return the share of two names' words that they have in common."""
    return len(some & others) / max(1, len(some | others))


def nearest(word: str, choices: Iterable[str], max_listed: int = 10) -> str:
    """Return a hint with the closest of `choices`, by spelling or by words, or with the first `max_listed`.

    >>> nearest("brnch", ["branch", "tag"]), nearest("pagePruning", ["branch", "prune.pages"])
    ("Did you mean 'branch'?", "Did you mean 'prune.pages'?")
    """
    known = [str(choice) for choice in choices]
    alike = sorted({choice for choice in known if choice.lower() == word.lower()})
    if len(alike) > 1:
        return f"Write it as one of these, which differ by case alone: {', '.join(alike)}."
    lowered = {choice.lower(): choice for choice in known}
    same = [choice for choice in known if _letters(choice) == _letters(word) != ""]
    if same:
        return f"Did you mean '{same[0]}'?"
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    meant = lowered[close[0]] if close else ""
    by_words = {choice: _overlap(_stems(word), _stems(choice)) for choice in known}
    best = max(by_words, key=lambda choice: by_words[choice], default="")
    if (
        best
        and by_words[best] > by_words.get(meant, 0)
        and by_words[best] >= (1 if meant else MIN_WORD_OVERLAP)
    ):
        meant = best
    if meant:
        return f"Did you mean '{meant}'?"
    if not known:
        return "There are none."
    shown = ", ".join(sorted(known)[:max_listed])
    return f"Known: {shown}{', …' if len(known) > max_listed else ''}."


class TwoStageError(Exception):
    """Base of all errors: a stable code with, if known, the file, the stage, the snapshot and a hint.

    Args:
        code: Stable upper-case word; the message starts with ``[TWOSTAGE.<code>]``.
        message: One sentence, values at its end, no trailing full stop.
        path: The file concerned.
        stage: ``options``, ``catalog``, ``plan``, ``prune``, ``deletes``, ``filter``, ``fetch`` …
        snapshot_id: The snapshot being read.
        hint: A sentence that says what would work.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        path: str | None = None,
        stage: str | None = None,
        snapshot_id: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.code = code
        masked = mask(message)
        self.message = (
            masked if len(masked) <= _MAX_MESSAGE_CHARACTERS else f"{masked[:_MAX_MESSAGE_CHARACTERS]}…"
        )
        self.path = mask(path) if path is not None else None
        self.stage = stage
        self.snapshot_id = snapshot_id
        self.hint = mask(hint) if hint is not None else None
        super().__init__(str(self))

    def __str__(self) -> str:
        place = ", ".join(
            f"{label} {value}"
            for label, value in (
                ("file", self.path),
                ("stage", self.stage),
                ("snapshot", self.snapshot_id),
            )
            if value is not None
        )
        text = f"[TWOSTAGE.{self.code}] {self.message}"
        if place:
            text += f"; {place}"
        if not text.endswith((".", "?", "!")):
            text += "."
        return f"{text} Hint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.__dict__.copy())


def _rebuild(kind: type[TwoStageError], state: dict[str, Any]) -> TwoStageError:
    error = kind.__new__(kind)
    error.__dict__.update(state)
    error.args = (str(error),)
    return error


class OptionError(TwoStageError, ValueError):
    """Invalid user input: an option, a name or a filter."""


class UnsupportedFeatureError(TwoStageError):
    """Valid Iceberg or SQL that twostage does not support; raised while planning."""


class NotFoundError(TwoStageError):
    """A table, snapshot, branch or tag does not exist."""


class MissingFileError(NotFoundError):
    """A file that the snapshot refers to is not in storage."""


class ForbiddenLocationError(TwoStageError):
    """The location policy does not permit a scan to open a location."""


class CorruptFileError(TwoStageError):
    """A malformed metadata file, manifest, data file, delete file or deletion vector."""


class StorageError(TwoStageError):
    """Access to storage or a catalog failed.

    Args:
        transient: Whether the same request may succeed later.
    """

    def __init__(self, code: str, message: str, *, transient: bool = False, **place: Any) -> None:
        self.transient = transient
        super().__init__(code, message, **place)


class ResourceLimitError(TwoStageError):
    """A limit was exceeded; the hint names the option that raises it."""


class InternalError(TwoStageError):
    """A bug of ours; the message asks for a report."""

    def __init__(self, code: str, message: str, *, hint: str = "Please report this.", **place: Any) -> None:
        super().__init__(code, message, hint=hint, **place)
