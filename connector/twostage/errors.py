"""Every error that twostage raises, and nothing else does.

The tree::

    TwoStageError                    code, path, stage, snapshot_id, hint
    ├─ OptionError(ValueError)           what the user typed
    ├─ UnsupportedFeatureError           valid Iceberg, not ours; raised while planning
    ├─ NotFoundError                     table, snapshot, branch
    │  └─ MissingFileError               file in the snapshot, not in storage
    ├─ ForbiddenLocationError            policy refused the path
    ├─ CorruptFileError                  bytes are wrong: metadata, manifest, data, delete, vector
    ├─ StorageError                      transport; ``transient`` tells retry code what to do
    ├─ ResourceLimitError                limit, observed, option to raise
    └─ InternalError                     our bug; asks for a report

Spark turns a worker's exception into text, so the stable code leads the message:
``[TWOSTAGE.CORRUPT_VECTOR] …; file s3://…, stage deletes. Hint: …``. Secrets never enter a message:
whatever looks like one in a path is masked, and control characters are escaped.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_USER_INFO = re.compile(r"(?<=://)[^/\s]+@")  # to the last @: passwords hold them too
_LONGEST = 1_000
"""Characters of a message: what it quotes, a filter of 10,000 values or a file's header, may have no end."""
_LOGIN = re.compile(r"(?<![\w*])[\w.+%-]+:[^\s/@:'\"]+@")
_SIGNATURE = re.compile(r"(?i)((?:sig|signature|token|password|secret|credential|x-amz-[a-z-]+)=)[^&;\s]+")


def mask(text: str) -> str:
    """Escape control characters and mask credentials in a path or a library's message.

    >>> mask("s3://key:secret@bucket/x?sig=abc\\n")
    's3://***@bucket/x?sig=***\\\\n'
    """
    text = _SIGNATURE.sub(r"\1***", _LOGIN.sub("***@", _USER_INFO.sub("***@", text)))
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def nearest(word: str, choices: Iterable[str], most: int = 10) -> str:
    """Return a hint that names the closest of `choices`, or lists the first `most` of them.

    >>> nearest("brnch", ["branch", "tag"])
    "Did you mean 'branch'?"
    """
    known = [str(choice) for choice in choices]
    alike = sorted({choice for choice in known if choice.lower() == word.lower()})
    if len(alike) > 1:
        return f"Write it as one of these, which differ by case alone: {', '.join(alike)}."
    lowered = {choice.lower(): choice for choice in known}
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    if close:
        return f"Did you mean '{lowered[close[0]]}'?"
    if not known:
        return "There are none."
    shown = ", ".join(sorted(known)[:most])
    return f"Known: {shown}{', …' if len(known) > most else ''}."


class TwoStageError(Exception):
    """The root: an error with a stable code and, where known, its file, stage and hint.

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
        self.message = masked if len(masked) <= _LONGEST else f"{masked[:_LONGEST]}…"
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
    """What the user typed is wrong: an option, a name, a filter."""


class UnsupportedFeatureError(TwoStageError):
    """Valid Iceberg or SQL that twostage does not carry; raised while planning."""


class NotFoundError(TwoStageError):
    """A table, snapshot, branch or tag that is not there."""


class MissingFileError(NotFoundError):
    """A file that the snapshot names and storage does not hold."""


class ForbiddenLocationError(TwoStageError):
    """A location that the policy does not let a scan open."""


class CorruptFileError(TwoStageError):
    """Bytes that break their format: metadata, manifest, data, delete file or vector."""


class StorageError(TwoStageError):
    """Transport failed.

    Args:
        transient: Whether the same request may succeed later.
    """

    def __init__(self, code: str, message: str, *, transient: bool = False, **place: Any) -> None:
        self.transient = transient
        super().__init__(code, message, **place)


class ResourceLimitError(TwoStageError):
    """A budget was crossed; the hint names the option that raises it."""


class InternalError(TwoStageError):
    """A bug of ours; the message asks for a report."""

    def __init__(self, code: str, message: str, *, hint: str = "Please report this.", **place: Any) -> None:
        super().__init__(code, message, hint=hint, **place)
