"""A footer as our reader and as pyarrow report it, in the same terms, for comparison."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twostage.formats.parquet.file_metadata import Footer

VIEW = Path(__file__).with_name("pyarrow_view.py")


def pyarrow_views(paths: list[Path]) -> list[dict[str, Any]]:
    lines = "\n".join(str(path) for path in paths)
    done = subprocess.run(
        [sys.executable, str(VIEW)], input=lines, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def our_view(footer: Footer) -> dict[str, Any]:
    """Return our footer in the terms of `pyarrow_view`."""
    leaves = footer.leaves
    return {
        "rows": footer.num_rows,
        "by": footer.created_by or "",
        "groups": [
            {
                "rows": group.num_rows,
                "columns": [
                    {
                        "path": ".".join(leaf.path),
                        "physical": leaf.physical_name,
                        "codec": {"LZ4_RAW": "LZ4", "LZ4": "UNKNOWN"}.get(chunk.codec_name, chunk.codec_name),
                        "values": chunk.num_values,
                        "compressed": chunk.compressed_size,
                        "data": chunk.data_page_offset,
                        "dictionary": chunk.dictionary_page_offset,
                        "nulls": chunk.statistics.null_count if chunk.statistics is not None else None,
                    }
                    for leaf, chunk in zip(leaves, group.columns, strict=True)
                ],
            }
            for group in footer.row_groups
        ],
        "leaves": [
            {
                "path": ".".join(leaf.path),
                "physical": leaf.physical_name,
                "definition": leaf.max_definition,
                "repetition": leaf.max_repetition,
                "length": leaf.type_length,
            }
            for leaf in leaves
        ],
    }


def same_view(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for group, other in zip(ours["groups"], theirs["groups"], strict=True):
        for column, answer in zip(group["columns"], other["columns"], strict=True):
            if answer["nulls"] is None:
                column["nulls"] = None  # pyarrow distrusts some writers' statistics as a whole
    assert ours == theirs
