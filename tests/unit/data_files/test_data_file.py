"""What every data file does whatever its format, by a format that holds its rows as an Arrow table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set as AbstractSet
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from declared.types import Column, Struct
from scan_values import context_of, schema_of, task_of
from twostage.data_files.computed_columns import DELETED, POSITION
from twostage.data_files.data_file import DataFile, descend, one_array
from twostage.data_files.row_group import RowGroup
from twostage.errors import CorruptFileError
from twostage.formats import file_schema, promotion
from twostage.metrics import Metrics
from twostage.predicates.predicate import TRUE, Column as Named
from twostage.predicates.top import TopRows
from twostage.schema import Field, Primitive, Schema
from twostage.selection import Selection
from twostage.storage import files

ROWS = 20
GROUP = RowGroup(index=3, first_row=100, num_rows=ROWS, num_bytes=1)
COLUMNS = [
    Column(1, "k", "long"),
    Column(2, "s", Struct((Column(3, "x", "long"), Column(4, "y", Struct((Column(5, "z", "string"),)))))),
    Column(6, "added", "string"),
]
SCHEMA = schema_of(COLUMNS)
STRUCTS = [None if n % 5 == 0 else {"x": n, "y": None if n % 3 == 0 else {"z": f"z{n}"}} for n in range(ROWS)]
OLD = Field(id=9, name="old", type=Primitive("long"), required=False)


def with_id(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, metadata={b"PARQUET:field_id": str(field_id).encode()})


def stored_rows() -> pa.Table:
    y = pa.struct([with_id("z", pa.string(), 5)])
    s = pa.struct([with_id("x", pa.int64(), 3), with_id("y", y, 4)])
    schema = pa.schema([with_id("k", pa.int64(), 1), with_id("s", s, 2), with_id("old", pa.int32(), 9)])
    return pa.Table.from_pydict({"k": range(ROWS), "s": STRUCTS, "old": range(ROWS)}, schema=schema)


class ArrowFile(DataFile):
    """A data file of one row group, which may decode other rows than it announces."""

    surplus = 0
    announced: int | None = None
    error: Exception | None = None

    def _open(self) -> None:
        self.rows = stored_rows()
        self._fields = file_schema.identify(self.rows.schema, None)
        if self.error is not None:
            raise self.error

    def row_groups(self) -> Iterator[RowGroup]:
        yield GROUP

    def num_rows(self) -> int | None:
        return self.announced

    def _pruned(self, array: pa.Array, field: file_schema.FileField, wanted: AbstractSet[int]) -> pa.Array:
        if not field.children:
            return array
        kept = [(place, child) for place, child in enumerate(field.children) if child.has_any(wanted)]
        children = [self._pruned(array.field(place), child, wanted) for place, child in kept]
        return pa.StructArray.from_arrays(children, [child.name for _, child in kept], mask=array.is_null())

    def _decode(self, row_group: RowGroup, wanted: AbstractSet[int], stage: str) -> list[pa.Array]:
        assert stage in ("filter", "fetch")
        self._metrics.add("bytes.read", 10)
        count = row_group.num_rows + self.surplus
        table = pa.concat_tables([self.rows, self.rows]).slice(0, count).combine_chunks()
        return [
            self._pruned(table.column(place).chunk(0), field, wanted)
            for place, field in enumerate(self._fields)
            if field.has_any(wanted)
        ]

    def _iterate(
        self, row_group: RowGroup, wanted: AbstractSet[int], batch_size: int
    ) -> Iterator[Sequence[pa.Array]]:
        arrays = self._decode(row_group, wanted, "fetch")
        for start in range(0, len(arrays[0]), batch_size):
            yield [array.slice(start, batch_size) for array in arrays]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("data") / "f.parquet"
    found.write_bytes(bytes(50))
    return found


def open_file(path: Path, *, schema: Schema = SCHEMA, task: Any = None, **changes: Any) -> ArrowFile:
    given = {"path": str(path), "file_size": 50, "length": 50, "record_count": ROWS, **(task or {})}
    context = context_of(path.parent, schema=schema, key_fields={9: OLD}, **changes)
    return ArrowFile(context, task_of(**given), Metrics())


EXPECTED = {1: list(range(ROWS)), 2: STRUCTS, 6: [None] * ROWS}


@settings(deadline=None, max_examples=60)
@given(
    mask=st.lists(st.booleans(), min_size=ROWS, max_size=ROWS),
    batch_size=st.integers(1, ROWS + 3),
    ids=st.lists(st.sampled_from([1, 2, 6]), unique=True),
)
def test_the_same_rows_whole_in_batches_and_selected(
    path: Path, mask: list[bool], batch_size: int, ids: list[int]
) -> None:
    targets = [SCHEMA.field(i) for i in ids]
    rows = Selection.of(np.array(mask))
    live = rows.indices().tolist()
    with open_file(path) as file:
        read = file.read(GROUP, targets, "fetch")
        some = file.read(GROUP, targets, "filter", rows)
        streamed = list(file.stream(GROUP, targets, batch_size))
        selected = list(file.select(GROUP, targets, rows, batch_size)) if targets else []
    assert all(0 < len(arrays[0]) <= batch_size for arrays in (*streamed, *selected) if arrays)
    for place, field_id in enumerate(ids):
        whole = EXPECTED[field_id]
        assert read[place].to_pylist() == whole
        assert some[place].to_pylist() == [whole[row] for row in live]
        assert [value for arrays in streamed for value in arrays[place].to_pylist()] == whole
        assert [value for arrays in selected for value in arrays[place].to_pylist()] == [
            whole[row] for row in live
        ]


@pytest.mark.parametrize(
    ("field_id", "expected"),
    [
        (1, list(range(ROWS))),
        (3, [row and row["x"] for row in STRUCTS]),
        (5, [row and row["y"] and row["y"]["z"] for row in STRUCTS]),
        (6, [None] * ROWS),
        (9, list(range(ROWS))),
    ],
)
def test_one_leaf_with_the_nulls_of_its_parents(path: Path, field_id: int, expected: list[Any]) -> None:
    """Of the schema or, as a delete key, of one before it; of all rows and of some."""
    some = Selection.all(ROWS).without(np.array([0, 3, 5]))
    with open_file(path) as file:
        array = file.read_leaf(GROUP, field_id)
        assert array.to_pylist() == expected
        assert not pa.types.is_nested(array.type)
        assert file.read_leaf(GROUP, field_id, some).to_pylist() == [expected[row] for row in some]
        assert file.read_filter_column(GROUP, field_id).to_pylist() == expected
    assert array.type == {5: pa.string(), 6: pa.string()}.get(field_id, pa.int64())


def test_the_column_that_leads_to_a_leaf_holds_nothing_else(path: Path) -> None:
    with open_file(path) as file:
        target, depth = file.leaf_target(5)
        assert (target.id, depth) == (2, 2)
        (inner,) = target.type.fields  # type: ignore[union-attr]
        assert (inner.id, [leaf.id for leaf in inner.type.fields]) == (4, [5])
        assert file.leaf_target(1) == (SCHEMA.field(1), 0)


@pytest.mark.parametrize("rows", [None, Selection.all(ROWS).without(np.arange(5))])
def test_a_dropped_key_that_the_file_lacks(path: Path, rows: Selection | None) -> None:
    """Its partition's value, or its initial default: what readers of its time saw."""
    count = ROWS if rows is None else rows.count
    absent = Field(id=8, name="absent", type=Primitive("long"), required=False, initial_default=7)
    with open_file(path) as file:
        file.context.key_fields[8] = absent  # type: ignore[index]
        assert file.read_leaf(GROUP, 8, rows).to_pylist() == [7] * count
    with open_file(path, task={"constants": {9: 4}}) as file:
        assert file.read_leaf(GROUP, 9, rows).to_pylist() == [4] * count


def test_constants_of_the_partition_come_before_what_the_file_holds(path: Path) -> None:
    with open_file(path, task={"constants": {1: 5, 6: "p"}}) as file:
        found = file.read(GROUP, [SCHEMA.field(1), SCHEMA.field(6)], "fetch")
    assert [array.to_pylist() for array in found] == [[5] * ROWS, ["p"] * ROWS]


def test_positions_and_deleted_rows_are_computed(path: Path) -> None:
    """A position counts from the file's first row, not the row group's."""
    position = Field(id=POSITION, name="_pos", type=Primitive("long"), required=False)
    deleted = Field(id=DELETED, name="_deleted", type=Primitive("boolean"), required=False)
    rows = Selection.of(np.arange(ROWS) % 3 == 1)
    marks = [n % 2 == 0 for n in range(ROWS)]
    with open_file(path) as file:
        file.show_deleted(lambda group: pa.array(marks if group is GROUP else []))
        for targets in ([position, deleted], [position, deleted, SCHEMA.field(1)]):  # without bytes, and with
            whole = file.read(GROUP, targets, "fetch")
            some = file.read(GROUP, targets, "fetch", rows)
            streamed = list(file.stream(GROUP, targets, 7))
            assert [array.to_pylist() for array in whole[:2]] == [list(range(100, 100 + ROWS)), marks]
            assert some[0].to_pylist() == [100 + row for row in rows]
            assert some[1].to_pylist() == [marks[row] for row in rows]
            for place in range(2):
                assert pa.concat_arrays([arrays[place] for arrays in streamed]) == whole[place]


@pytest.mark.parametrize("surplus", [-1, 1, ROWS])
def test_other_rows_than_the_row_group_has_are_an_error(path: Path, surplus: int) -> None:
    """Whichever way it is read: fewer rows would be lost, more would shift those of other columns."""
    targets = [SCHEMA.field(1)]
    some = Selection.all(ROWS).without(np.array([0]))
    with open_file(path) as file:
        file.surplus = surplus
        for read in (
            lambda: file.read(GROUP, targets, "fetch"),
            lambda: file.read(GROUP, targets, "filter", some),
            lambda: list(file.stream(GROUP, targets, 7)),
        ):
            with pytest.raises(
                CorruptFileError, match=f"holds {ROWS} rows, decoded {ROWS + surplus}"
            ) as caught:
                read()
            assert caught.value.code == "CORRUPT_DATA_FILE"
            assert caught.value.path == str(path)


def test_columns_of_constants_need_no_decoding(path: Path) -> None:
    metrics = Metrics()
    with open_file(path) as file:
        file._metrics = metrics
        file.read(GROUP, [SCHEMA.field(6)], "fetch")
        assert [len(arrays[0]) for arrays in file.stream(GROUP, [SCHEMA.field(6)], 8)] == [8, 8, 4]
    assert metrics.counters["bytes.read"] == 0


@settings(deadline=None)
@given(cuts=st.lists(st.integers(0, 50), max_size=5), stated=st.integers(1, 60), offset=st.integers(0, 70))
def test_each_row_group_belongs_to_one_range(path: Path, cuts: list[int], stated: int, offset: int) -> None:
    """Also one that begins beyond the size that the manifest states: the last range goes on to the real end."""
    edges = [0, *sorted(cut for cut in cuts if 0 < cut < stated), stated]
    owners = 0
    for start, end in zip(edges, edges[1:], strict=False):
        if start == end:
            continue
        with open_file(path, task={"file_size": stated, "start": start, "length": end - start}) as file:
            owners += file.is_in_range(offset)
    assert owners == 1


@pytest.mark.parametrize("limit", ["limit", "top", None])
@pytest.mark.parametrize("announced", [None, ROWS - 1, ROWS, ROWS + 1])
def test_fewer_rows_than_planned_matter_under_a_limit(
    path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, announced: int | None
) -> None:
    top = TopRows(column=Named(1, ("k",), Primitive("long")), count=3, descending=True, nulls_first=False)
    changes = {"limit": {"limit": 3}, "top": {"top": top}, None: {}}[limit]
    monkeypatch.setattr(ArrowFile, "announced", announced)
    if limit is None or announced is None or announced >= ROWS:
        open_file(path, **changes).__exit__(None)
        return
    with pytest.raises(CorruptFileError, match="Manifest says 20 rows, the data file holds 19") as caught:
        open_file(path, **changes)
    assert caught.value.code == "CORRUPT_MANIFEST"


def test_a_file_that_cannot_be_opened_is_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    real = files.open_file
    monkeypatch.setattr(files, "open_file", lambda *given: opened.append(real(*given)) or opened[-1])
    monkeypatch.setattr(ArrowFile, "error", ValueError("bad"))
    with pytest.raises(CorruptFileError, match="bad"):
        open_file(path)
    assert [file.closed for file in opened] == [True]


@pytest.mark.parametrize("has_read", [True, False])
@pytest.mark.parametrize("error", [None, KeyError("k")])
def test_what_was_read_is_checked_to_be_of_one_version(
    path: Path, monkeypatch: pytest.MonkeyPatch, has_read: bool, error: Exception | None
) -> None:
    """Not where nothing was read since it was opened, nor in place of another error."""
    checked = []
    monkeypatch.setattr(files, "check_unchanged", lambda *given: checked.append(given))
    file = open_file(path)
    try:
        with file:
            if has_read:
                file.read(GROUP, [SCHEMA.field(1)], "fetch")
            if error is not None:
                raise error
    except KeyError:
        pass
    assert file._file.closed
    assert checked == ([(file.context.storage, str(path), b"")] if has_read and error is None else [])


def test_a_format_that_knows_nothing_proves_nothing(path: Path) -> None:
    with open_file(path) as file:
        assert file.bounds(GROUP, 1) is None
        assert file.page_bounds(GROUP, 1) is None
        assert file.cannot_match(GROUP, TRUE, probe_dictionaries=True) is None
        assert file.search(GROUP, TRUE, Selection.all(ROWS)) is None
        assert (file.decoded_bytes(GROUP, {1}), file.reads_windows(GROUP, {1}, 5)) == (0, False)
        assert [file.holds(field_id) for field_id in (1, 2, 9, 3, 6)] == [True, True, True, False, False]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_chunks_become_one_array(monkeypatch: pytest.MonkeyPatch, kind: pa.DataType) -> None:
    """Text whose bytes 32-bit offsets cannot count gets 64-bit ones."""
    chunks = [pa.array(["a", None], kind), pa.array(["b"], kind)]
    assert one_array(pa.chunked_array(chunks[:1])) is not None
    small = one_array(pa.chunked_array(chunks))
    assert (small.type, small.to_pylist()) == (kind, pa.chunked_array(chunks).to_pylist())
    monkeypatch.setattr(promotion, "MAX_TEXT_BYTES", 3)
    large = one_array(pa.chunked_array(chunks))
    assert large.type == {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}[kind]
    assert large.to_pylist() == small.to_pylist()


def test_numbers_keep_their_type_however_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "MAX_TEXT_BYTES", 3)
    found = one_array(pa.chunked_array([[1, 2], [3]]))
    assert (found.type, found.to_pylist()) == (pa.int64(), [1, 2, 3])


def test_descending_into_structs() -> None:
    inner = pa.StructArray.from_arrays([pa.array([1, 2, 3, None])], ["x"], mask=pa.array([False, True, False, False]))  # fmt: skip
    outer = pa.StructArray.from_arrays([inner], ["s"], mask=pa.array([False, False, True, False]))
    assert descend(outer, 2).to_pylist() == [1, None, None, None]
    assert descend(outer, 0) is outer
