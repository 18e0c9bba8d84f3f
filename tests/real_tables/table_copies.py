"""Copies of other projects' tables in the folder ``TWOSTAGE_TABLES``: the list of them, and the options to read each with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(os.environ.get("TWOSTAGE_TABLES", ""))
TABLES: list[dict[str, Any]] = (
    json.loads((ROOT / "tables.json").read_text()) if os.environ.get("TWOSTAGE_TABLES") else []
)
SHARED_FOLDER = "iceberg/iceberg-cxx/tables/partitioned_table"
OTHER_FOLDERS = {  # tables whose metadata names files in another folder than the table's
    "iceberg-cxx/tables/partitioned_table_with_missing_spec": SHARED_FOLDER,
    "iceberg-cxx/tables/partitioned_table_with_multiple_spec": SHARED_FOLDER,
    "iceberg-cxx/tables/partitioned_table_with_void_transform": SHARED_FOLDER,
    "iceberg-cxx/tables/v_20240913/iceberg": "iceberg/iceberg-cxx/tables/v_20240913",
}


def folders(name: str) -> dict[str, str]:
    """Return the read options of a table: moved, and perhaps with another folder."""
    extra = {"allowed_locations": str(ROOT / OTHER_FOLDERS[name])} if name in OTHER_FOLDERS else {}
    return {"allow_moved_paths": "true", **extra}
