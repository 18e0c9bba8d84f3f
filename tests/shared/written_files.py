"""A Parquet file in memory, opened just enough for pruning by Bloom filters and dictionaries."""

from __future__ import annotations

import io
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from twostage.formats.parquet.file_metadata import Footer
from twostage.formats.parquet.footer import read_footer
from twostage.predicates.predicate import Column
from twostage.schema import Primitive

if TYPE_CHECKING:
    from twostage.formats.parquet.schema_tree import Leaf


P = Primitive
IDS = [uuid.UUID(int=(i * 2**97 + i * 0xABCDEF) % 2**128) for i in range(200)]


class Opened:
    """A file in memory with its footer, and the file's leaves by field id (their order)."""

    def __init__(self, table: pa.Table, kinds: list[Primitive], **options: Any) -> None:
        sink = io.BytesIO()
        pq.write_table(table, sink, **options)
        self.open(sink.getvalue(), kinds)

    def open(self, data: bytes, kinds: list[Primitive]) -> None:
        self.data = data
        self.file = pa.BufferReader(data)
        self.footer: Footer = read_footer(self.file, self.file.size(), "p")
        self.kinds = kinds

    def leaf_of(self, field_id: int) -> tuple[Leaf, Primitive] | None:
        return (self.footer.leaves[field_id], self.kinds[field_id]) if field_id < len(self.kinds) else None

    def pruned(self, function: Any, predicate: Any, group: int = 0) -> bool:
        row_group = self.footer.row_groups[group]
        return bool(function(self.file, self.footer, row_group, predicate, self.leaf_of, "p"))


def column(kind: Primitive, field_id: int = 0) -> Column:
    return Column(field_id, (f"c{field_id}",), kind)
