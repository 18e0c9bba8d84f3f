"""The requirements in twostage's package metadata, compared with the installed versions.

Bounds are only ``>=`` and ``<``, so the package `packaging` is not needed to parse them.
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
    """A library with bounds on its version, such as ``pyarrow`` and ``>=21``.

    Attributes:
        name: The distribution, which has the same name as its module.
        bounds: The bounds as the metadata writes them.
        extra: The extra of twostage that requires it; empty if twostage itself does.
    """

    name: str
    bounds: str
    extra: str = ""

    def __str__(self) -> str:
        return f"{self.name}{self.bounds}"

    def is_too_old(self, version: str) -> bool:
        """Return whether a version is below the lower bound."""
        return any(_release(version) < _release(bound) for bound in self._bounds(">="))

    def is_too_new(self, version: str) -> bool:
        """Return whether a version is not below the upper bound, so that twostage was not tested with it."""
        return any(_release(version) >= _release(bound) for bound in self._bounds("<"))

    def _bounds(self, operator: str) -> list[str]:
        parts = re.findall(r"(>=|<)\s*([\w.]+)", self.bounds)
        return [bound for found, bound in parts if found == operator]


def requirements() -> list[Requirement]:
    """Return the requirements of the installed twostage, with those of its extras; none without package metadata."""
    try:
        texts = importlib.metadata.requires("twostage") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [found for text in texts if (found := parse_requirement(text)) is not None]


def parse_requirement(text: str) -> Requirement | None:
    """Parse a value of ``Requires-Dist``; None if it is malformed.

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
    """Return the version of a distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version without trailing zeros: 21.0 is 21."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    return tuple(reversed(list(dropwhile(lambda number: number == 0, reversed(numbers)))))
