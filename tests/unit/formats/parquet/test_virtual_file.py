"""Virtual files: some pages of another file, which pyarrow decodes to exactly the rows of these pages."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thrift_writer
from twostage.formats.parquet.footer import read_footer
from twostage.formats.parquet.page_tables import PageTables
from twostage.formats.parquet.schema_tree import BYTE_ARRAY, INT32, INT64
from twostage.formats.parquet.thrift import read_struct
from twostage.formats.parquet.virtual_file import (
    VirtualColumn,
    VirtualSchema,
    build,
    is_accepted,
    schema_element,
)
from twostage.metrics import Metrics
from twostage.storage.ranges import LOCAL
from written_files import Opened

ROWS = 600
INNER = pa.struct([("x", pa.int64()), ("l", pa.list_(pa.string()))])


def table_of() -> pa.Table:
    numbers = [None if i % 11 == 0 else i for i in range(ROWS)]
    structs = [None if i % 7 == 0 else {"x": n, "l": [str(i)] * (i % 3)} for i, n in enumerate(numbers)]
    return pa.table(
        {
            "long": pa.array(numbers),
            "text": pa.array([None if n is None else f"text {n % 50}" for n in numbers]),
            "required": pa.array(range(ROWS), pa.int32()),
            "struct": pa.array(structs, INNER),
            "list": pa.array(
                [None if i % 5 == 0 else [i, None][: i % 3] for i in range(ROWS)], pa.list_(pa.int64())
            ),
            "map": pa.array(
                [[(f"k{i}", i)] * (i % 3) for i in range(ROWS)], pa.map_(pa.string(), pa.int64())
            ),
            "decimal": pa.array(numbers, pa.int32()).cast(pa.decimal128(20, 2)),
            "time": pa.array(numbers, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "fixed": pa.array([bytes([i % 256, 7]) for i in range(ROWS)], pa.binary(2)),
        },
        schema=None,
    )


class File(Opened):
    """A file in small pages, and the pages of each leaf."""

    def __init__(self, **options: Any) -> None:
        self.table = table_of()
        given = {"data_page_size": 200, "write_batch_size": 40, "write_page_index": True}
        super().__init__(self.table, [], **(given | options))
        (self.group,) = self.footer.row_groups
        self.schema = VirtualSchema.of(self.footer)
        everything = range(len(self.footer.leaves))
        tables = PageTables(self.file, self.footer, (id(self),), LOCAL, Metrics())
        self.pages = tables.of(self.group, everything)
        assert list(self.pages) == list(everything)

    def column(self, leaf: int, numbers: list[int]) -> tuple[VirtualColumn, list[int]]:
        """Return some pages of a leaf, and their rows."""
        table = self.pages[leaf]
        parts: list[bytes] = []
        if table.dictionary is not None:
            parts.append(self.data[table.dictionary[0] :][: table.dictionary[1]])
        rows: list[int] = []
        for page in numbers:
            parts.append(self.data[table.offsets[page] :][: table.sizes[page]])
            first = int(table.first_rows[page])
            rows += range(first, first + int(table.row_counts[page]))
        virtual = VirtualColumn(
            leaf=self.footer.leaves[leaf],
            chunk=self.group.columns[leaf],
            num_values=self.group.columns[leaf].num_values,
            num_rows=len(rows),
            dictionary_size=len(parts[0]) if table.dictionary is not None else 0,
            parts=parts,
        )
        return virtual, rows


def alone(value: Any, path: tuple[str, ...]) -> Any:
    """Return a value cut to the leaf of a path; a map's leaf comes as a list."""
    if value is None or not path:
        return value
    match path[0]:
        case "list" | "key_value":
            if path[0] == "key_value":
                return [alone(pair[path[1] == "value"], path[2:]) for pair in value]
            return [alone(one, path[2:]) for one in value]
    return {path[0]: alone(value[path[0]], path[1:])}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zstd", "write_page_checksum": True},
        {"use_dictionary": False, "compression": "none"},
    ],
    ids=str,
)
def test_rows_of_some_pages(version: str, options: dict[str, Any]) -> None:
    """Each leaf is a column of its own; columns have different lengths, and are read one by one."""
    file = File(data_page_version=version, **options)
    pick = random.Random(f"{version} {options}")
    for share in (0.0, 0.3, 1.0):
        columns, expected = [], []
        for leaf in file.footer.leaves:
            count = len(file.pages[leaf.index])
            numbers = sorted(pick.sample(range(count), max(1, int(share * count))))
            virtual, rows = file.column(leaf.index, numbers)
            columns.append(virtual)
            values = file.table.column(leaf.path[0]).to_pylist()
            expected.append([alone(values[row], leaf.path[1:]) for row in rows])
        data = build(file.schema, columns)
        reader = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).reader
        for number, (column, values) in enumerate(zip(columns, expected, strict=True)):
            found = reader.read_column(number)
            assert len(found) == column.num_rows
            assert found.to_pylist() == values, column.leaf.path


def test_the_types_that_pyarrow_gives() -> None:
    """Of leaves outside structs and lists; asked for once."""
    file = File()
    types = pq.read_schema(file.file)
    found = file.schema.arrow_types()
    assert [found[leaf.index] for leaf in file.footer.leaves] == [
        types.field(leaf.path[0]).type if len(leaf.path) == 1 else None for leaf in file.footer.leaves
    ]
    assert file.schema.arrow_types() is found


def test_groups_and_elements_are_the_footers() -> None:
    file = File()
    names = [tuple(group.name for group in above) for above in file.schema.groups]
    assert names == [leaf.path[:-1] for leaf in file.footer.leaves]
    for leaf, element in zip(file.footer.leaves, file.schema.elements, strict=True):
        fields, used = read_struct(element)
        assert (fields[4].decode(), fields[1], used) == (leaf.path[-1], leaf.physical, len(element))
    assert all(file.schema.stand_alone)


def element(name: bytes, **fields: int) -> dict[int, tuple[str, Any]]:
    numbers = {"physical": 1, "repetition": 3, "children": 5, "converted": 6}
    made: dict[int, tuple[str, Any]] = {numbers[key]: ("i32", value) for key, value in fields.items()}
    return {**made, 4: ("binary", name)}


def schema_of(*elements: dict[int, tuple[str, Any]]) -> VirtualSchema:
    """Return the schema of a footer without row groups."""
    raw = thrift_writer.struct(
        {1: ("i32", 2), 2: ("list:struct", list(elements)), 3: ("i64", 0), 4: ("list:struct", [])}
    )
    data = b"PAR1" + raw + len(raw).to_bytes(4, "little") + b"PAR1"
    return VirtualSchema.of(read_footer(pa.BufferReader(data), len(data), "p"))


X, Y = element(b"x", physical=INT32, repetition=0), element(b"y", physical=INT64, repetition=1)
ROOT = element(b"root", children=1)


def test_an_old_list_of_two_levels_loses_its_meaning_with_one_field() -> None:
    """LogicalTypes.md, "Backward-compatibility rules": a repeated group of several fields is the element itself."""
    outer = element(b"c", children=1, repetition=1, converted=3)
    two = schema_of(ROOT, outer, element(b"array", children=2, repetition=2), X, Y)
    assert two.stand_alone == (False, False)
    one = schema_of(ROOT, outer, element(b"list", children=1, repetition=2), X)
    assert one.stand_alone == (True,)
    for converted in (1, 2):  # of a map, a repeated group has always two
        pairs = element(b"key_value", children=2, repetition=2)
        found = schema_of(ROOT, element(b"c", children=1, repetition=1, converted=converted), pairs, X, Y)
        assert found.stand_alone == (True, True)
    unannotated = schema_of(ROOT, element(b"c", children=2, repetition=2), X, Y)
    assert unannotated.stand_alone == (False, False)


@pytest.mark.parametrize(
    ("above", "stands"), [([], False), ([element(b"s", children=1, repetition=1)], True)]
)
def test_an_element_that_is_named_after_its_list_keeps_the_name_inside_a_struct_only(
    above: Any, stands: bool
) -> None:
    """Of Thrift's writers: ``c_tuple`` of ``c`` is the element, whatever it holds; a column is renamed to its number."""
    of_list = element(b"c", children=1, repetition=1, converted=3)
    for name in (b"c_tuple", b"0_tuple"):
        found = schema_of(ROOT, *above, of_list, element(name, children=1, repetition=2), X)
        assert found.stand_alone == (stands,)


def test_more_than_fourteen_columns() -> None:
    """From fifteen items on, Thrift writes a list's length in another way."""
    table = pa.table({f"c{i}": np.arange(3) + i for i in range(20)})
    opened = Opened(table, [], use_dictionary=False)
    (group,) = opened.footer.row_groups
    columns = [
        VirtualColumn(
            leaf=leaf,
            chunk=chunk,
            num_values=3,
            num_rows=3,
            dictionary_size=0,
            parts=[opened.data[chunk.start :][: chunk.compressed_size]],
        )
        for leaf, chunk in zip(opened.footer.leaves, group.columns, strict=True)
    ]
    for count in (14, 15, 20):
        data = build(VirtualSchema.of(opened.footer), columns[:count])
        assert pq.read_table(pa.BufferReader(data)).equals(table.select(range(count)))


@pytest.mark.parametrize(
    ("fields", "accepted"),
    [
        ({1: INT32, 3: 0, 4: b"c"}, True),
        ({1: BYTE_ARRAY, 3: 1, 4: "é".encode(), 6: 0}, True),
        ({1: INT32, 3: 0, 4: b"c", 6: 0}, False),
        ({1: INT64, 3: 0, 4: b"c", 6: 6}, False),
    ],
)
def test_schema_elements_that_arrow_accepts(fields: dict[int, int | bytes], accepted: bool) -> None:  # noqa: FBT001
    """Text is no number (converted type 0), and a date has 32 bits (6)."""
    element = schema_element(fields)
    assert read_struct(element) == (fields, len(element))
    assert is_accepted(element) == accepted


def test_who_created_the_file_is_told() -> None:
    """pyarrow distrusts some writers."""
    file = File()
    data = build(file.schema, [file.column(0, [0])[0]])
    theirs = pq.read_metadata(io.BytesIO(data))
    assert theirs.created_by == pq.read_metadata(io.BytesIO(file.data)).created_by
    assert (theirs.num_row_groups, theirs.num_columns) == (1, 1)
