"""ORC data files: stripes are pruned by their statistics, and every layout holds the same rows."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from check import check, ids
from tables import Table
from twostage.predicates.predicate import Compare, IsNull, Not

MOMENT = 1_700_000_000_000_000


def make(folder: Path, name: str = "orc") -> Table:
    """Several stripes whose values ascend."""
    kinds = {
        "id": "long",
        "i": "int",
        "d": "double",
        "s": "string",
        "dec": "decimal(9,2)",
        "day": "date",
        "ts": "timestamp",
        "flag": "boolean",
    }
    table = Table(folder, kinds)
    rows = ids(
        3000,
        i=lambda i: i,
        d=lambda i: i / 4,
        s=lambda i: f"{i:05}",
        dec=lambda i: Decimal(i) / 100,
        day=lambda i: i,
        ts=lambda i: MOMENT + i * 10**6,
        flag=lambda i: i >= 1500,
    )
    table.append(rows, format=name, mixed=True, row_group_size=300, metrics="none")
    return table


FILTERS: dict[str, Any] = {
    "i": 2990,
    "d": 747.5,
    "s": "02990",
    "dec": Decimal("29.90"),
    "day": 2990,
    "ts": MOMENT + 2990 * 10**6,
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("prune", ["true", "false"])
def test_stripes_by_their_statistics(tmp_path: Path, name: str, prune: str) -> None:
    table = make(tmp_path / "t")
    result = check(
        table,
        range(2990, 3000),
        lambda c: Compare(">=", c(name), FILTERS[name]),
        **{"prune.row-groups": prune},
    )
    considered, pruned = (result.count(f"row_groups.{what}") for what in ("considered", "pruned.statistics"))
    assert considered > 1
    assert (pruned > 0) == (prune == "true")
    check(table, [], lambda c: IsNull(c(name)), **{"prune.row-groups": prune})
    check(table, range(3000), lambda c: Not(IsNull(c(name))), **{"prune.row-groups": prune})


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("batch_size", [100, 1_000_000])
def test_files_of_arrows_own_writer(tmp_path: Path, compression: str, batch_size: int) -> None:
    """Rows are those that pyarrow's own reader gives."""
    import json

    count = 5000
    columns = {
        "id": pa.array(range(count), pa.int64()),
        "s": pa.array([None if i % 7 == 0 else f"text {i % 300}" for i in range(count)]),
        "d": pa.array([i / 3 for i in range(count)]),
        "b": pa.array([bytes([i % 256]) * (i % 5) for i in range(count)]),
        "dec": pa.array([Decimal(i) / 100 for i in range(count)], pa.decimal128(20, 2)),
        "day": pa.array([datetime.date(1960, 1, 1) + datetime.timedelta(days=i) for i in range(count)]),
    }
    kinds = {"id": "long", "s": "string", "d": "double", "b": "binary", "dec": "decimal(20,2)", "day": "date"}
    table = Table(tmp_path / "t", kinds, name_mapping=True)
    with table.transaction():
        file = table.append([{"id": 0}], format="orc", mixed=True, metrics="none")
        orc.write_table(
            pa.table(columns), file.path, compression=compression, stripe_size=65536, batch_size=batch_size
        )
        file.entry["file_size_in_bytes"] = Path(file.path).stat().st_size
        file.entry["record_count"] = count
    path = table.write()
    assert json.loads(path.read_text())
    from core_scan import open_table, scan

    result = scan(open_table(table.folder))
    expected = orc.read_table(file.path)
    assert len(result.rows) == count
    found = sorted(row[0][1] for row in result.rows)
    assert found == list(range(count))
    by_id = {row[0][1]: row for row in result.rows}
    for number in (0, 1, 6, 7, 299, 4999):
        row = by_id[number]
        assert (None if row[1] is None else row[1][1]) == expected["s"][number].as_py()
        assert row[3][1] == expected["b"][number].as_py()
        assert row[4][1] == expected["dec"][number].as_py()
        assert row[5][1] == (expected["day"][number].as_py() - datetime.date(1970, 1, 1)).days
