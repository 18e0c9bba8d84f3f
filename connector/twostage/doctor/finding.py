"""The finding of a check, and the wrapper in which every check runs.

Texts of findings have no secrets and no line breaks. A check that raises becomes a finding as well, and the checks after
it run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from twostage.errors import TwoStageError, mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

State = Literal["ok", "warning", "failed"]
_MAX_CHARACTERS = 400
"""Length to which texts of libraries are cut."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's table.

    Attributes:
        check: What was checked.
        state: ``warning``: queries run, but slower or not everywhere; ``failed``: some queries cannot run.
        found: The result.
        mend: How to mend it; empty if the state is ``ok``.
    """

    check: str
    state: State
    found: str
    mend: str = ""


def ok(check: str, found: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(check, "ok", _plain(found))


def warning(check: str, found: str, mend: str) -> Finding:
    """Return a finding despite which queries run."""
    return Finding(check, "warning", _plain(found), _plain(mend))


def failed(check: str, found: str, mend: str) -> Finding:
    """Return a finding because of which some queries cannot run."""
    return Finding(check, "failed", _plain(found), _plain(mend))


def refused(check: str, error: TwoStageError, mend: str = "") -> Finding:
    """Return the finding of a check that raised one of our errors; the error's hint takes precedence over `mend`."""
    return failed(check, f"[TWOSTAGE.{error.code}] {error.message}", error.hint or mend)


def guarded(check: str, examine: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Run a check and yield its findings; an exception becomes a finding."""
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
    return masked if len(masked) <= _MAX_CHARACTERS else f"{masked[:_MAX_CHARACTERS]}…"
