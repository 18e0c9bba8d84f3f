"""Small random tables with every kind of file, of which one is to be damaged.

Takes a seed; returns a table whose files are known by kind, its content, and which bytes a checksum covers.
The same seed makes the same table.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import oracle
import random_values
from declared.content import VectorDelete
from declared.types import walk
from tables import FileOptions, Table
from twostage.formats.parquet.footer import read_footer
from twostage.formats.parquet.thrift import read_struct

if TYPE_CHECKING:
    from declared.content import Content, DataFile

KINDS = (
    "parquet data with checksums",
    "parquet data",
    "orc data",
    "avro data",
    "parquet positions with checksums",
    "parquet positions",
    "orc positions",
    "avro positions",
    "parquet equality with checksums",
    "parquet equality",
    "orc equality",
    "avro equality",
    "puffin vector",
    "manifest",
    "manifest list",
    "metadata",
)
CHECKED_PARQUET = tuple(kind for kind in KINDS if kind.endswith("with checksums"))
FORMATS = ("parquet", "parquet", "orc", "avro")
Range = tuple[int, int]


@dataclass
class SmallTable:
    """A table and its files by kind. `covered` are the bytes of a file that a checksum covers."""

    folder: Path
    metadata: Path
    content: Content
    pools: dict[int, list[Any]]
    files: dict[str, list[Path]] = field(default_factory=dict)
    covered: dict[Path, list[Range]] = field(default_factory=dict)
    rows: list[dict[int, Any]] = field(default_factory=list)

    def add(self, kind: str, path: str) -> Path:
        """Record a file of the table."""
        place = Path(path)
        self.files.setdefault(kind, []).append(place)
        if kind in CHECKED_PARQUET:
            self.covered[place] = page_bodies(place)
        return place


def small_table(seed: int, folder: Path) -> SmallTable:
    """Build the table of this seed: at least four data files, each with its own kind of deletes."""
    pick = random.Random(f"small table {seed}")
    columns: dict[str, Any] = {"id": "long"}
    for index in range(pick.randint(2, 4)):
        columns[f"c{index}"] = pick.choice(random_values.PRIMITIVES)
    columns["text"] = "string"
    if pick.random() < 0.4:
        columns["s"] = {"a": pick.choice(random_values.PRIMITIVES), "b": "string"}
    if pick.random() < 0.2:
        columns["list"] = [pick.choice(("int", "string"))]
    table = Table(folder, columns, version=2, properties={"owner": "fuzz"})
    pools = {
        column.id: random_values.pool(pick, column.type, pick.choice((3, 12)))
        for column, _ in walk(table.columns)
        if isinstance(column.type, str)
    }
    made = SmallTable(folder, Path(), table.content(), pools)
    files: list[DataFile] = []
    first = 0
    for number, kind in enumerate(("parquet", "parquet", "orc", "avro", "parquet")):
        rows = [_row(pick, table, pools, first + at) for at in range(pick.choice((30, 60, 200)))]
        first += len(rows)
        checked = kind == "parquet" and number != 1
        files.append(table.append(rows, _layout(pick, kind, checked=checked)))
        made.add(f"{kind} data{' with checksums' if checked else ''}", files[-1].path)
    for target, kind in zip(files[:4], FORMATS, strict=True):
        checked = kind == "parquet" and target is files[0]
        named = f"{kind} {{}}{' with checksums' if checked else ''}"
        for delete in table.delete_positions(
            {target: sorted(pick.sample(range(len(target.rows)), 6))}, kind, page_checksums=checked
        ):
            made.add(named.format("positions"), delete.path)
        keys = [{"id": pick.randrange(first), "text": None} for _ in range(5)]
        keys += [{"id": pick.randrange(first), "text": pick.choice(pools[table.column("text").id])}]
        names = pick.choice((["id"], ["id", "text"]))
        options = FileOptions(page_checksums=checked, dictionary=pick.random() < 0.7)
        made.add(named.format("equality"), table.delete_equal(names, keys, kind, options=options).path)
    table.version = 3
    vectors = table.delete_vectors({files[4]: sorted(pick.sample(range(len(files[4].rows)), 7))})
    for vector in vectors:
        _note_vector(made, vector)
    made.metadata = table.write()
    made.add("metadata", str(made.metadata))
    head = table.snapshots[-1]
    made.add("manifest list", str(folder / "metadata" / Path(head.raw["manifest-list"]).name))
    for manifest in head.manifests:
        made.add("manifest", manifest.record["manifest_path"])
    made.content = table.content()
    made.rows = oracle.live_rows(made.content)
    return made


def _row(pick: random.Random, table: Table, pools: dict[int, list[Any]], number: int) -> dict[str, Any]:
    row: dict[str, Any] = {"id": number}
    for column in table.columns[1:]:
        if pick.random() < 0.1:
            continue
        if isinstance(column.type, str):
            row[column.name] = pick.choice(pools[column.id])
        elif hasattr(column.type, "element"):
            row[column.name] = [pick.choice(pools[column.type.element.id]) for _ in range(pick.randrange(3))]
        else:
            row[column.name] = {f.name: pick.choice(pools[f.id]) for f in column.type.fields}
    return row


def _layout(pick: random.Random, kind: str, *, checked: bool) -> FileOptions:
    return FileOptions(
        format=kind,
        mixed=True,
        row_group_size=pick.choice((15, 1000)),
        page_size=pick.choice((64, 1 << 20)),
        compression=pick.choice(("zstd", "snappy", "gzip", "none")),
        dictionary=pick.random() < 0.7,
        page_checksums=checked,
        page_version=pick.choice(("1.0", "2.0")),
        page_index=pick.random() < 0.5,
        bloom=("id", "text") if pick.random() < 0.4 else (),
        metrics=pick.choice(("full", "none")),
    )


def _note_vector(made: SmallTable, vector: VectorDelete) -> None:
    start, length = vector.entry["content_offset"], vector.entry["content_size_in_bytes"]
    made.covered[made.add("puffin vector", vector.path)] = [(start, start + length)]


def page_bodies(path: Path) -> list[Range]:
    """Return where the bodies of a Parquet file's pages are: the bytes that its page checksums cover."""
    import pyarrow as pa

    data = path.read_bytes()
    footer = read_footer(pa.BufferReader(data), len(data), str(path))
    found = []
    for group in footer.row_groups:
        for chunk in group.columns:
            at, end = chunk.start, chunk.start + chunk.compressed_size
            while at < end:
                header, length = read_struct(data[at:end])
                assert 4 in header, "the page has no checksum"
                at += length + header[3]
                found.append((at - header[3], at))
            assert at == end
    return found
