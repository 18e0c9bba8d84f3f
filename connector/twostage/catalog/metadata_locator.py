"""A PyIceberg ``FileIO`` that reports the location of a table's metadata file instead of opening it.

It is set as a catalog's property ``py-io-impl``. When PyIceberg's ``load_table`` wants to read the metadata file, the
location is raised as an exception, because a catalog's ``load_table`` returns nothing else before it has parsed the
metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCATOR = f"{__name__}.MetadataLocator"
"""The value of ``py-io-impl``."""


class MetadataLocatedError(Exception):
    """Carries the location of a table's metadata and the properties that open it; no message, they contain secrets."""

    def __init__(self, location: str, properties: Mapping[str, Any]) -> None:
        super().__init__()
        self.location = location
        self.properties = dict(properties)


class MetadataLocator:
    """A ``FileIO`` that raises the location of the file to open."""

    def __init__(self, properties: Mapping[str, Any] | None = None) -> None:
        self.properties = {key: value for key, value in (properties or {}).items() if value != LOCATOR}

    def new_input(self, location: str) -> NoReturn:
        """Raise the location of the file to read."""
        raise MetadataLocatedError(location, self.properties)

    def new_output(self, location: str) -> NoReturn:
        """Refuse to write."""
        raise NotImplementedError(f"Catalogs are read-only: {location}")

    def delete(self, location: str) -> NoReturn:
        """Refuse to delete."""
        raise NotImplementedError(f"Catalogs are read-only: {location}")
