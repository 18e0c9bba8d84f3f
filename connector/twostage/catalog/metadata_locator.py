"""Stops PyIceberg where it would read a table's metadata, and takes note of the place.

Takes what a catalog of PyIceberg asks of the ``FileIO`` that its property ``py-io-impl`` names; gives the location
of a metadata file, as an exception, since nothing else passes through a catalog's ``load_table``. The rule: it opens
no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCATOR = f"{__name__}.MetadataLocator"
"""The value of ``py-io-impl``."""


class MetadataLocatedError(Exception):
    """A catalog found its table: the metadata is at `location`, and `properties` open it. No text: they hold secrets."""

    def __init__(self, location: str, properties: Mapping[str, Any]) -> None:
        super().__init__()
        self.location = location
        self.properties = dict(properties)


class MetadataLocator:
    """A ``FileIO`` that says what it was to open instead of opening it."""

    def __init__(self, properties: Mapping[str, Any] | None = None) -> None:
        self.properties = {key: value for key, value in (properties or {}).items() if value != LOCATOR}

    def new_input(self, location: str) -> NoReturn:
        """Raise the location that is to be read."""
        raise MetadataLocatedError(location, self.properties)

    def new_output(self, location: str) -> NoReturn:
        """Refuse to write."""
        raise NotImplementedError(f"Catalogs are read only: {location}")

    def delete(self, location: str) -> NoReturn:
        """Refuse to delete."""
        raise NotImplementedError(f"Catalogs are read only: {location}")
