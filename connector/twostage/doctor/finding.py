"""What one check found, as a plain value; and the frame in which every check runs.

Takes texts as they come; gives findings without secrets and without line breaks. The rule: a check that fails
itself is a finding too, never a traceback, and the checks after it run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from twostage.errors import TwoStageError, mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

State = Literal["ok", "warning", "failed"]
_LONGEST = 400
"""Characters of a text that a library wrote: its end says the same again."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's table.

    Attributes:
        check: What was looked at.
        state: ``warning``: queries run, slower or not everywhere; ``failed``: some query cannot run.
        found: What is there.
        mend: What to do about it; empty if it is ok.
    """

    check: str
    state: State
    found: str
    mend: str = ""


def ok(check: str, found: str) -> Finding:
    """Return a finding that needs nothing."""
    return Finding(check, "ok", _plain(found))


def warning(check: str, found: str, mend: str) -> Finding:
    """Return a finding with which queries still run."""
    return Finding(check, "warning", _plain(found), _plain(mend))


def failed(check: str, found: str, mend: str) -> Finding:
    """Return a finding with which some query cannot run."""
    return Finding(check, "failed", _plain(found), _plain(mend))


def refused(check: str, error: TwoStageError, mend: str = "") -> Finding:
    """Return the finding of a check that ended in one of our own errors: its text is masked, its hint goes before `mend`."""
    return failed(check, f"[TWOSTAGE.{error.code}] {error.message}", error.hint or mend)


def guarded(check: str, examine: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield a check's findings; an exception is one of them."""
    try:
        yield from examine()
    except TwoStageError as error:
        yield refused(check, error)
    except ImportError as error:
        yield failed(
            check, f"not tried: {error}", "pip install twostage's wheel: that brings all that it needs."
        )
    except Exception as error:  # noqa: BLE001 - whatever a broken installation raises
        yield failed(check, f"{type(error).__name__}: {error}", "This check itself failed; please report it.")


def _plain(text: str) -> str:
    masked = mask(" ".join(text.split()))
    return masked if len(masked) <= _LONGEST else f"{masked[:_LONGEST]}…"
