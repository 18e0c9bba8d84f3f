"""The libraries that twostage's own metadata asks for, and whether those installed are within its bounds.

Takes the installed distributions' metadata; gives requirements and versions. Bounds are few and plain (``>=``,
``<``), so that no parser of requirements has to be a dependency.
"""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass
from itertools import dropwhile

_TEXT = re.compile(r"([\w.-]+)\s*(\[[^\]]*\])?\s*([^;]*?)\s*(?:;\s*(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A library and the bounds of its version, such as ``pyarrow`` and ``>=21``.

    Attributes:
        name: The distribution; the module has the same name.
        bounds: As the metadata writes them.
        extra: The extra of twostage that asks for it; empty if twostage itself does.
    """

    name: str
    bounds: str
    extra: str = ""

    def __str__(self) -> str:
        return f"{self.name}{self.bounds}"

    def is_too_old(self, version: str) -> bool:
        """Tell whether a version is below the lowest that is allowed."""
        return any(_release(version) < _release(bound) for bound in self._bounds(">="))

    def is_too_new(self, version: str) -> bool:
        """Tell whether a version is one that twostage was not tried with yet."""
        return any(_release(version) >= _release(bound) for bound in self._bounds("<"))

    def _bounds(self, operator: str) -> list[str]:
        parts = re.findall(r"(>=|<)\s*([\w.]+)", self.bounds)
        return [bound for found, bound in parts if found == operator]


def requirements() -> list[Requirement]:
    """Return what the installed twostage asks for, extras included; nothing where it has no metadata."""
    try:
        texts = importlib.metadata.requires("twostage") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [found for text in texts if (found := parse_requirement(text)) is not None]


def parse_requirement(text: str) -> Requirement | None:
    """Return a line of ``Requires-Dist``; None for what is not one.

    >>> parse_requirement('pyspark<4.4,>=4.1; extra == "spark"')
    Requirement(name='pyspark', bounds='<4.4,>=4.1', extra='spark')
    >>> parse_requirement("pyarrow>=21").is_too_old("20.0.0")
    True
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    extra = _EXTRA.search(match[4] or "")
    return Requirement(match[1], match[3], extra[1] if extra else "")


def installed_version(name: str) -> str | None:
    """Return a distribution's version; None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _release(version: str) -> tuple[int, ...]:
    """Return a version's numbers without the zeros at its end: 21.0 is 21."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    return tuple(reversed(list(dropwhile(lambda number: number == 0, reversed(numbers)))))
