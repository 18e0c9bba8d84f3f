"""Tables whose variants Spark's own Parquet writer shredded by random schemas, and values to fill them with.

Takes a random generator; returns SQL expressions of variants and DDL of shredding schemas that fit some of
them. Takes a Parquet file without field ids; returns the metadata of a table of that one file.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from tables import Table

if TYPE_CHECKING:
    import random
    from pathlib import Path

NAMES = ("a", "b", "c", "Z", "ä", "long name of a field", "𝄞", "\ufb01")
SCALARS = {
    "boolean": ("true", "false"),
    "tinyint": ("1Y", "-128Y"),
    "smallint": ("300S", "-32768S"),
    "int": ("70000", "-1"),
    "bigint": ("5000000000L", "-9223372036854775807L"),
    "float": ("CAST(1.5 AS float)", "float('NaN')", "CAST(-0.0 AS float)"),
    "double": ("2.5D", "double('-Infinity')", "-0.0D"),
    "decimal(5,2)": ("CAST(-123.45 AS decimal(5,2))", "CAST(0 AS decimal(5,2))"),
    "decimal(18,0)": ("CAST(-999999999999999999 AS decimal(18,0))",),
    "decimal(38,10)": ("CAST('-1234567890123456789012345678.0123456789' AS decimal(38,10))",),
    "string": ("''", "'x'", f"'{'y' * 63}'", f"'{'z' * 64}'", f"'{'ß' * 200}'"),
    "binary": ("X''", "X'00FF'"),
    "date": ("DATE '1969-12-31'", "DATE '2024-02-29'"),
    "timestamp": ("TIMESTAMP '1960-01-01 00:00:00.000001'", "TIMESTAMP '2024-01-01 12:00:00'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ '2024-01-01 12:00:00.5'",),
}


class Shredded:
    """Random values and a random type to shred them as, of few kinds and names, so that they often match.

    Args:
        source: The source of all randomness.
    """

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.kinds = source.sample([*SCALARS], 4)
        self.names = source.sample(NAMES, 5)

    def value(self, depth: int = 3) -> str:
        """Return a SQL expression of a variant."""
        source = self.source
        chosen = source.random() if depth else source.random() * 0.4
        if chosen < 0.05:
            return "parse_json('null')"
        if chosen < 0.4:
            return f"({source.choice(SCALARS[source.choice(self.kinds)])})::variant"
        if chosen < 0.6:
            items = ", ".join([self.value(depth - 1) for _ in range(source.randint(0, 3))])
            if not items:
                return "parse_json('[]')"
            if depth < 3 or source.random() < 0.8:
                return f"to_variant_object(array({items}))"
            return f"to_variant_object(array_repeat({self.value(depth - 1)}, 300))"
        names = source.sample(self.names, source.randint(0, 4))
        fields = ", ".join([f"'{name}', {self.value(depth - 1)}" for name in names])
        return f"to_variant_object(named_struct({fields}))" if fields else "parse_json('{}')"

    def kind(self, depth: int = 3) -> str:
        """Return the type that variants are shredded as, in DDL."""
        source = self.source
        chosen = source.random() if depth else 0.0
        if chosen < 0.3 and depth < 3:
            return source.choice([*self.kinds, "variant"])
        if chosen < 0.5:
            return f"array<{self.kind(depth - 1)}>" if depth else source.choice(self.kinds)
        names = source.sample(self.names, source.randint(1, 4))
        return f"struct<{', '.join(f'`{name}`: {self.kind(depth - 1)}' for name in names)}>"


def table_of(folder: Path, file: Path, num_rows: int, columns: dict[str, Any]) -> Path:
    """Return the metadata of a table of one file without field ids: its columns are numbered from one.

    Args:
        folder: Where the table will be.
        file: A Parquet file, which is copied.
        num_rows: Its rows.
        columns: After ``id``, a long, the type of each column as Iceberg writes it.
    """
    table = Table(folder, {"id": "long"}, version=3)
    with table.transaction():
        data_file = table.append([{"id": i} for i in range(num_rows)])
        shutil.copy(file, data_file.path)
        data_file.entry["file_size_in_bytes"] = file.stat().st_size
        for metric in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
            data_file.entry[metric] = {}
    table.delete_positions({data_file: [3]})
    metadata = table.write()
    raw = json.loads(metadata.read_text())
    raw["schemas"][0]["fields"] += [
        {"id": number, "name": name, "type": kind, "required": False}
        for number, (name, kind) in enumerate(columns.items(), start=2)
    ]
    raw["last-column-id"] = 100
    metadata.write_text(json.dumps(raw))
    return metadata
