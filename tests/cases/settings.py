"""The settings that the named cases run in: format version, format of data files, format of delete files.

A test module lists those where its cases exist in ``pytestmark``; a table that states no version and no
formats takes the setting's.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Setting:
    """What a table of a case is made of."""

    version: int
    data: str = "parquet"
    deletes: str = ""
    """Parquet where a module's cases delete nothing, or by vectors."""

    def __str__(self) -> str:
        return "-".join((f"v{self.version}", self.data, *((self.deletes,) if self.deletes else ())))


DELETES = (
    Setting(2, "parquet", "parquet"),
    Setting(2, "orc", "avro"),
    Setting(2, "avro", "orc"),
    Setting(3, "parquet", "avro"),
    Setting(3, "orc", "parquet"),
    Setting(3, "avro", "orc"),
)
"""Version 1 has no deletes; in version 3 positional delete files are what an upgraded table keeps."""
VECTORS = tuple(Setting(3, data) for data in ("parquet", "orc", "avro"))
FILTERS = (Setting(1), Setting(2), Setting(2, "orc"), Setting(3, "avro"))


def each_of(*settings: Setting) -> list[pytest.MarkDecorator]:
    """Return the marks that run every test of a module in each setting."""
    parametrized = pytest.mark.parametrize("setting", settings, indirect=True, ids=str)
    return [pytest.mark.usefixtures("setting"), parametrized]
