"""Print, as JSON lines, pyarrow's view of the footers of the files named on standard input.

A separate process: pyarrow ends the process on some malformed files.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow.parquet as pq


def view(path: str) -> dict[str, Any]:
    try:
        metadata = pq.ParquetFile(path).metadata
        groups = []
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            columns = []
            for place in range(metadata.num_columns):
                column = group.column(place)
                statistics = column.statistics
                nulls = (
                    statistics.null_count if statistics is not None and statistics.has_null_count else None
                )
                columns.append(
                    {
                        "path": column.path_in_schema,
                        "physical": column.physical_type,
                        "codec": column.compression,
                        "values": column.num_values,
                        "compressed": column.total_compressed_size,
                        "data": column.data_page_offset,
                        "dictionary": column.dictionary_page_offset or None,
                        "nulls": nulls,
                    }
                )
            groups.append({"rows": group.num_rows, "columns": columns})
        schema = metadata.schema
        leaves = [
            {
                "path": schema.column(place).path,
                "physical": schema.column(place).physical_type,
                "definition": schema.column(place).max_definition_level,
                "repetition": schema.column(place).max_repetition_level,
                "length": schema.column(place).length,
            }
            for place in range(metadata.num_columns)
        ]
        return {
            "rows": metadata.num_rows,
            "by": metadata.created_by or "",
            "groups": groups,
            "leaves": leaves,
        }
    except Exception as error:  # whatever pyarrow raises is its answer
        return {"error": repr(error)}


for line in sys.stdin:
    print(json.dumps(view(line.rstrip("\n"))), flush=True)
