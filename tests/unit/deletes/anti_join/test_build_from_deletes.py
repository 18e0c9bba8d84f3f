"""Which rows equality keys delete: of every type, and where the schema changed since they were written."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from declared.types import Column, Struct, column_json
from equality_keys import ORC_TIMES, VALUES, data_columns, expected, load, random_row
from scan_values import context_of, delete_of, schema_of, task_of, write_keys
from twostage.deletes.anti_join.build_from_rows import StreamedDeletes
from twostage.deletes.anti_join.load_key_sets import load_equality
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.keys import key_set, prefilter
from twostage.errors import CorruptFileError
from twostage.metrics import Metrics
from twostage.schema import parse_schema


@pytest.fixture(autouse=True, params=["tables", "sieves"])
def _asked(request, monkeypatch):
    """Tables are asked about all rows, or only about those that their sieves let pass."""
    if request.param == "sieves":
        monkeypatch.setattr(key_set, "MIN_ROWS_TO_FILTER", 1)
        monkeypatch.setattr(key_set, "MIN_ROWS_PER_KEY", 0)
        monkeypatch.setattr(prefilter, "MAX_PASSING_FRACTION", 1.0)


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("kind", VALUES)
def test_every_type(tmp_path, kind, file_format, kernels):
    if kind == "time" and file_format == "orc":
        pytest.skip("pyarrow writes no time into ORC; see test_orc_forms")
    pools = VALUES | (ORC_TIMES if file_format == "orc" else {})
    column = Column(7, "k", kind)
    rows = [{7: value} for value in [*pools[kind], None]]
    for gone in (rows[::2], rows[1::2], rows):
        CACHE.clear()
        delete = write_keys(tmp_path / f"d{len(gone)}.{file_format}", [column], gone, [7])
        found = load(tmp_path, [column], [delete], settings={"kernels": kernels})
        assert found.field_ids == (7,)
        deleted = found.deleted(data_columns([column], rows), len(rows))
        assert deleted.tolist() == expected(rows, [([7], 5, gone)], 1)
        assert deleted.any()


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_random_composite_keys(tmp_path, seed, kernels):
    """Several id sets, several files, several sequence numbers, several data files, in any order."""
    rng = random.Random(seed)
    columns = [
        Column(i + 1, f"c{i}", kind) for i, kind in enumerate(rng.sample(list(VALUES), rng.randint(1, 5)))
    ]
    rows = [random_row(rng, columns, VALUES) for _ in range(rng.randint(1, 200))]
    written, files = [], []
    for number in range(rng.randint(1, 5)):
        ids = rng.sample([column.id for column in columns], rng.randint(1, len(columns)))
        sequence = rng.randint(1, 6)
        gone = [
            rng.choice(rows) if rng.random() < 0.3 else random_row(rng, columns, VALUES)
            for _ in range(rng.randint(0, 20))
        ]
        keys = [column for column in columns if column.id in ids]
        file_format = rng.choice(["parquet", "avro"])
        path = tmp_path / f"d{number}.{file_format}"
        files.append(
            write_keys(path, keys, gone, ids, sequence_number=sequence, scope=rng.choice([None, "global"]))
        )
        written.append((ids, sequence, gone))
    arrays = data_columns(columns, rows)
    for sequence in rng.sample(range(7), 4):
        applied = [delete for delete in files if delete.sequence_number > sequence]
        found = load(tmp_path, columns, applied, sequence=sequence, settings={"kernels": kernels})
        assert bool(found) == bool(applied)
        keys = {field_id: arrays[field_id] for field_id in found.field_ids}
        assert found.deleted(keys, len(rows)).tolist() == expected(rows, written, sequence), f"seed {seed}"


def test_zeros_nan_and_null(tmp_path):
    column = Column(1, "d", "double")
    payload = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    delete = write_keys(tmp_path / "d.parquet", [column], [{1: -0.0}, {1: math.nan}, {1: None}], [1])
    found = load(tmp_path, [column], [delete])
    data = pa.array([0.0, -0.0, math.nan, payload[0], payload[1], None, 1.0])
    assert found.deleted({1: data}, 7).tolist() == [False, True, True, True, True, True, False]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(
    ("older", "newer", "keys", "data", "gone"),
    [
        ("int", "long", [5, None], [5, 2**40, None], [True, False, True]),
        ("float", "double", [0.5, 0.1], [0.5, 0.1, 0.10000000149011612], [True, False, True]),
        (
            "decimal(9,2)",
            "decimal(18,2)",
            [Decimal("-1.25")],
            [Decimal("-1.25"), Decimal("1.25")],
            [True, False],
        ),
        (
            "decimal(9,2)",
            "decimal(38,2)",
            [Decimal("-1.25")],
            [Decimal("-1.25"), Decimal("1.25")],
            [True, False],
        ),
        ("date", "timestamp", [-1], [-86_400_000_000, -1], [True, False]),
    ],
)
def test_keys_of_older_types(tmp_path, file_format, older, newer, keys, data, gone):
    delete = write_keys(
        tmp_path / f"d.{file_format}", [Column(1, "old", older)], [{1: key} for key in keys], [1]
    )
    column = Column(1, "new", newer)
    found = load(tmp_path, [column], [delete])
    assert found.deleted(data_columns([column], [{1: value} for value in data]), len(data)).tolist() == gone


def test_a_wider_key_than_the_schema_reads(tmp_path):
    """An int column whose delete file already has longs (written after the snapshot's schema)."""
    delete = write_keys(tmp_path / "d.parquet", [Column(1, "k", "long")], [{1: 5}, {1: 2**32 + 6}], [1])
    found = load(tmp_path, [Column(1, "k", "int")], [delete])
    assert found.deleted({1: pa.array([5, 6], pa.int32())}, 2).tolist() == [True, False]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_key_missing_from_the_delete_file(tmp_path, file_format):
    """Neither NULL nor the column's initial default stands for it: that would be somebody else's row."""
    present = Column(1, "a", "long")
    columns = [present, Column(2, "b", "string"), Column(3, "c", "long")]
    delete = write_keys(tmp_path / f"d.{file_format}", [present, columns[2]], [{1: 1, 3: 2}], [1, 2, 3])
    raw = [column_json(column) for column in columns]
    for default in (None, "x"):
        raw[1]["initial-default"] = default
        schema = parse_schema({"schema-id": 0, "fields": raw})
        with pytest.raises(CorruptFileError) as raised:
            load(tmp_path, columns, [delete], schema=schema)
        assert raised.value.code == "MISSING_DELETE_KEY"
        assert "field id 2" in str(raised.value)
        assert "'b'" in str(raised.value)
        assert (raised.value.path, raised.value.stage) == (delete.path, "deletes")
        assert raised.value.hint


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_struct_with_the_key_missing_from_the_delete_file(tmp_path, file_format):
    column = Column(2, "s", Struct((Column(3, "x", "long"), Column(4, "y", "long"))))
    written = Column(2, "s", Struct((Column(4, "y", "long"),)))
    for one, rows in ((written, [{2: {4: 7}}]), (Column(1, "a", "long"), [{1: 1}])):
        delete = write_keys(tmp_path / f"{one.id}.{file_format}", [one], rows, [3])
        with pytest.raises(CorruptFileError, match=r"MISSING_DELETE_KEY.*field id 3.*'s\.x'"):
            load(tmp_path, [Column(1, "a", "long"), column], [delete])


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_file_without_keys_and_without_their_columns_deletes_nothing(tmp_path, file_format):
    delete = write_keys(tmp_path / f"d.{file_format}", [Column(1, "a", "long")], [], [2])
    found = load(tmp_path, [Column(1, "a", "long"), Column(2, "b", "long")], [delete])
    assert found.deleted({2: pa.array([1, None])}, 2).tolist() == [False, False]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_key_that_has_no_values_may_be_missing(tmp_path, file_format):
    """The spec's type unknown is always NULL, and files leave it out."""
    columns = [Column(1, "a", "long"), Column(2, "nothing", "unknown")]
    delete = write_keys(tmp_path / f"d.{file_format}", columns[:1], [{1: 5}], [1, 2])
    found = load(tmp_path, columns, [delete])
    assert found.deleted({1: pa.array([5, 6]), 2: pa.nulls(2)}, 2).tolist() == [True, False]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_struct_leaf(tmp_path, file_format):
    inner = Struct((Column(3, "x", "long"), Column(4, "y.z", Struct((Column(5, "deep", "string"),)))))
    columns = [Column(1, "a", "long"), Column(2, "s", inner)]
    rows = [
        {1: 1, 2: {3: 7, 4: {5: "q"}}},
        {1: 2, 2: None},
        {1: 3, 2: {3: 8, 4: None}},
    ]
    delete = write_keys(tmp_path / f"d.{file_format}", columns, rows, [5, 3])
    found = load(tmp_path, columns, [delete])
    assert found.field_ids == (3, 5)
    data = {3: pa.array([7, 7, None, 8, 8]), 5: pa.array(["q", None, None, None, "q"])}
    assert found.deleted(data, 5).tolist() == [True, False, True, True, False]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_files_without_ids(tmp_path, file_format):
    old, columns = Column(9, "old", "long"), [Column(1, "other", "long"), Column(2, "k", "long")]
    plain = write_keys(
        tmp_path / f"a.{file_format}", [Column(9, "k", "long")], [{9: 4}], [2], options={"field_ids": False}
    )
    mapped = write_keys(tmp_path / f"b.{file_format}", [old], [{9: 4}], [2], options={"field_ids": False})
    data = {2: pa.array([4, 5])}
    assert load(tmp_path, columns, [plain]).deleted(data, 2).tolist() == [True, False]
    mapping = ({"field-id": 2, "names": ["k", "old"]},)
    assert load(tmp_path, columns, [mapped], name_mapping=mapping).deleted(data, 2).tolist() == [True, False]


def test_ids_decide_not_names(tmp_path):
    """The column was renamed, and its old name given to another."""
    delete = write_keys(
        tmp_path / "d.parquet", [Column(1, "a", "long"), Column(2, "b", "long")], [{1: 1, 2: 2}], [1]
    )
    found = load(tmp_path, [Column(2, "a", "long"), Column(1, "b", "long")], [delete])
    assert found.deleted({1: pa.array([1, 2])}, 2).tolist() == [True, False]


def test_a_column_added_again_under_the_name_of_a_key(tmp_path):
    """The file has ids and not this one: the column of the same name in it is another."""
    delete = write_keys(
        tmp_path / "d.parquet", [Column(1, "a", "long"), Column(2, "k", "long")], [{1: 1, 2: 2}], [1, 3]
    )
    with pytest.raises(CorruptFileError, match=r"MISSING_DELETE_KEY.*field id 3"):
        load(tmp_path, [Column(1, "a", "long"), Column(3, "k", "long")], [delete])


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_key_renamed_since_a_file_without_ids(tmp_path, file_format):
    """Its name alone told which column it was."""
    delete = write_keys(
        tmp_path / f"d.{file_format}", [Column(2, "old", "long")], [{2: 4}], [2], options={"field_ids": False}
    )
    with pytest.raises(CorruptFileError, match=r"MISSING_DELETE_KEY.*field id 2.*'k'"):
        load(tmp_path, [Column(2, "k", "long")], [delete])


def test_dropped_key(tmp_path):
    old = schema_of([Column(4, "gone", "string")])
    delete = write_keys(tmp_path / "d.parquet", [Column(4, "gone", "string")], [{4: "x"}], [4])
    found = load(tmp_path, [Column(1, "a", "long")], [delete], key_fields={4: old.field(4)})
    assert found.field_ids == (4,)
    assert found.deleted({4: pa.array(["x", "y"])}, 2).tolist() == [True, False]


def test_orc_forms(tmp_path):
    """Java's ORC writer stores time as long, uuid and fixed as binary."""
    import pyarrow.orc

    fields = [pa.field(n, t, metadata={"iceberg.id": str(i)}) for i, n, t in ((1, "t", pa.int64()), (2, "u", pa.binary()), (3, "f", pa.binary()))]  # fmt: skip
    table = pa.table([[5], [bytes(16)], [b"abcd"]], schema=pa.schema(fields))
    pyarrow.orc.write_table(table, str(tmp_path / "d.orc"))
    columns = [Column(1, "t", "time"), Column(2, "u", "uuid"), Column(3, "f", "fixed[4]")]
    found = load(tmp_path, columns, [delete_of(tmp_path / "d.orc", "equality", equality_ids=(1, 2, 3))])
    rows = [{1: 5, 2: VALUES["uuid"][0], 3: b"abcd"}, {1: 5, 2: VALUES["uuid"][1], 3: b"abcd"}]
    assert found.deleted(data_columns(columns, rows), 2).tolist() == [True, False]


def test_data_in_other_arrow_forms(tmp_path):
    column = Column(1, "s", "string")
    delete = write_keys(tmp_path / "d.parquet", [column], [{1: "b"}, {1: None}], [1])
    found = load(tmp_path, [column], [delete])
    texts = pa.array(["a", "b", None, "b", "c"])
    for data in (texts, texts.cast(pa.large_string()), texts.dictionary_encode(), texts.cast(pa.string_view()), pa.concat_arrays([texts, texts])[5:]):  # fmt: skip
        assert found.deleted({1: data}, 5).tolist() == [False, True, True, True, False]
    assert found.deleted({1: texts[1:4]}, 3).tolist() == [True, True, True]
    assert found.deleted({1: texts[:0]}, 0).tolist() == []


def test_texts_are_kept_apart(tmp_path):
    """('a', 'bc') is not ('ab', 'c')."""
    columns = [Column(1, "a", "string"), Column(2, "b", "string")]
    delete = write_keys(
        tmp_path / "d.parquet", columns, [{1: "a", 2: "bc"}, {1: "", 2: None}, {1: None, 2: ""}], [2, 1]
    )
    found = load(tmp_path, columns, [delete])
    rows = [
        {1: "ab", 2: "c"},
        {1: "a", 2: "bc"},
        {1: "abc", 2: ""},
        {1: None, 2: None},
        {1: "", 2: None},
        {1: None, 2: ""},
    ]
    assert found.deleted(data_columns(columns, rows), 6).tolist() == [False, True, False, False, True, True]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("lacking", [1, 2, 3])
def test_few_values_past_a_file_without_one_of_the_key_columns(tmp_path, file_format, lacking):
    """It is refused whether its keys are kept or only looked through."""
    columns = [Column(1, "n", "long"), Column(2, "t", "string"), Column(3, "i", "int")]
    ids = [column.id for column in columns]
    written = [column for column in columns if column.id != lacking]
    gone = {1: 7, 2: "x", 3: 5}
    delete = write_keys(tmp_path / f"d.{file_format}", written, [gone], ids)
    rows = [gone | {lacking: None}, gone, {1: None, 2: None, 3: None}]
    context, task = context_of(tmp_path, columns), task_of(delete)
    streamed = StreamedDeletes(context, task, (delete,), Metrics())
    for answer in (
        lambda: streamed.deleted(data_columns(columns, rows), 3),
        lambda: load_equality(context, task, Metrics()),
    ):
        with pytest.raises(CorruptFileError, match=f"MISSING_DELETE_KEY.*field id {lacking}"):
            answer()
