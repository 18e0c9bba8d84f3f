"""Tables whose paths hold what URLs would escape, and metadata in the forms that old writers left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from core_scan import Opened, open_table, scan
from tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = [
    "sp ace", "per%20cent", "pl+us", "ünïcödé-日本", "a=b", "q?x", "ha#sh", "semi;colon", "star*[x]", "per%zz",
]  # fmt: skip


def ids(opened: Opened) -> list[int]:
    return sorted(row[0][1] for row in scan(opened).rows)


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
@pytest.mark.parametrize("name", NAMES)
def test_names_are_literal(tmp_path: Path, name: str, scheme: str) -> None:
    """Nothing in a path is an escape, as in Hadoop's Path; deletes find their files by such names too."""
    table = Table(
        tmp_path / name / "t é+%20=x", {"id": "long", "p": "string"}, scheme=scheme, partition=["p"]
    )
    table.append_all([{"id": i, "p": value} for i, value in enumerate(("a b", "c%20", "d=e", "ü"))])
    table.delete_positions({table.content().data[0]: [0]})
    metadata = table.write()
    for path in (metadata, table.folder, f"{scheme}{table.folder}"):
        assert ids(open_table(path)) == [1, 2, 3]
    moved = tmp_path / "else where%41"
    Path(tmp_path / name).rename(moved)
    assert ids(open_table(moved / "t é+%20=x", allow_moved_paths="true")) == [1, 2, 3]


@pytest.mark.parametrize("written", ["hdfs://namenode:8020", "s3a://bucket", "file:", "gs://b/inner", ""])
def test_moved_tables_of_every_scheme(tmp_path: Path, written: str) -> None:
    table = Table(tmp_path / "t", {"id": "long"}, scheme=written)
    file = table.append([{"id": i} for i in range(3)])
    table.delete_positions({file: [1]})
    table.write()
    assert ids(open_table(tmp_path / "t", allow_moved_paths="true")) == [0, 2]


def oldest(raw: dict[str, Any]) -> None:
    """Leave only what version 1 began with."""
    (raw["schema"],), (spec,) = raw.pop("schemas"), raw.pop("partition-specs")
    raw["schema"].pop("schema-id")
    raw["partition-spec"] = [{k: v for k, v in part.items() if k != "field-id"} for part in spec["fields"]]
    for name in ("current-schema-id", "default-spec-id", "last-sequence-number", "refs", "sort-orders"):
        raw.pop(name, None)
    for snapshot in raw["snapshots"]:
        snapshot.pop("schema-id")


def inline_manifests(raw: dict[str, Any]) -> None:
    oldest(raw)
    for snapshot in raw["snapshots"]:
        with Path(snapshot.pop("manifest-list")).open("rb") as file:
            snapshot["manifests"] = [record["manifest_path"] for record in fastavro.reader(file)]


def with_statistics(raw: dict[str, Any]) -> None:
    """Name statistics files that are not there: nothing needs them."""
    one = {"snapshot-id": raw["current-snapshot-id"], "statistics-path": "/nowhere", "file-size-in-bytes": 1}
    raw["partition-statistics"] = [one]
    raw["statistics"] = [{**one, "file-footer-size-in-bytes": 1, "blob-metadata": []}]


@pytest.mark.parametrize(
    ("version", "change"),
    [
        (1, oldest),
        (1, inline_manifests),
        (2, with_statistics),
        (2, lambda raw: raw.pop("last-sequence-number")),
    ],
    ids=["oldest", "inline manifests", "statistics", "no last sequence number"],
)
def test_odd_metadata(tmp_path: Path, version: int, change: Callable[[dict[str, Any]], object]) -> None:
    table = Table(tmp_path, {"id": "long", "p": "int"}, version=version, partition=["p"])
    table.append_all([{"id": i, "p": i % 2} for i in range(4)])
    metadata = table.write()
    raw = json.loads(metadata.read_text())
    change(raw)
    metadata.write_text(json.dumps(raw))
    assert ids(open_table(metadata)) == [0, 1, 2, 3]
