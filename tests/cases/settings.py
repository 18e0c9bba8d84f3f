"""The settings that the named cases run in: format version, format of data files, format of delete files.

A test module lists those where its cases exist in ``pytestmark``; a table that states no version and no
formats takes the setting's. With TWOSTAGE_FULL=1 they are all that can be (`cells.py`), else a selection with every
version and every format, of data and of delete files.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from figures import FULL


@dataclass(frozen=True)
class Setting:
    """What a table of a case is made of."""

    version: int
    data: str = "parquet"
    deletes: str = ""
    """Parquet where a module's cases delete nothing, or by vectors."""

    def __str__(self) -> str:
        return "-".join((f"v{self.version}", self.data, *((self.deletes,) if self.deletes else ())))


FORMATS = ("parquet", "orc", "avro")
ALL_DELETES = tuple(
    Setting(version, data, deletes) for version in (2, 3) for data in FORMATS for deletes in FORMATS
)
"""Version 1 has no deletes; in version 3 positional delete files are what an upgraded table keeps."""
DELETES = (
    ALL_DELETES
    if FULL
    else (
        Setting(2, "parquet", "parquet"),
        Setting(2, "orc", "avro"),
        Setting(2, "avro", "orc"),
        Setting(3, "parquet", "avro"),
        Setting(3, "orc", "parquet"),
        Setting(3, "avro", "orc"),
    )
)
VECTORS = tuple(Setting(3, data) for data in FORMATS)
ALL_FILTERS = tuple(Setting(version, data) for version in (1, 2, 3) for data in FORMATS)
FILTERS = ALL_FILTERS if FULL else (Setting(1), Setting(2), Setting(2, "orc"), Setting(3, "avro"))


def each_of(*settings: Setting) -> list[pytest.MarkDecorator]:
    """Return the marks that run every test of a module in each setting."""
    parametrized = pytest.mark.parametrize("setting", settings, indirect=True, ids=str)
    return [pytest.mark.usefixtures("setting"), parametrized]
