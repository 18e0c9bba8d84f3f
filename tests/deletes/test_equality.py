from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scan_values import context_of, delete_of, schema_of, task_of, write_keys

from declared.types import Column, ListOf, Struct, arrow_array, column_json
from twostage.deletes.cache import CACHE
from twostage.deletes.equality import load_equality
from twostage.errors import (
    CorruptFileError,
    InternalError,
    MissingFileError,
    ResourceLimitError,
    UnsupportedFeatureError,
)
from twostage.metrics import Metrics

# Few values of each type, so that keys meet; with the ones at which types go wrong.
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [0, 1, -1, 2**31 - 1, -(2**31)],
    "long": [0, 1, -1, 2**63 - 1, -(2**63), 2**32],
    "float": [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, 1e-45],
    "double": [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 5e-324],
    "decimal(9,2)": [Decimal("0.00"), Decimal("-0.01"), Decimal("9999999.99"), Decimal("-9999999.99")],
    "decimal(18,3)": [Decimal("0.000"), Decimal("-1.000"), Decimal("999999999999999.999")],
    "decimal(38,10)": [
        Decimal(0),
        Decimal("-1E-10"),
        Decimal("9999999999999999999999999999.9999999999"),
        Decimal("1844674407.3709551616"),
    ],
    "string": ["", "a", "ab", "abc", "a" * 9, "a" * 8, "é", "\U0001f600", "12345678", "1234567\0"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "f79c3e09-677c-4bbd-a479-512f87f77b4e"],
    "binary": [b"", b"\0", b"\0\0", b"a", b"b" * 16, b"b" * 17],
    "fixed[4]": [b"\0\0\0\0", b"abcd", b"\xff\xff\xff\xff"],
    "date": [0, -1, 19_000, -719_162],
    "time": [0, 1, 86_399_999_999],
    "timestamp": [0, -1_000_000, 1_600_000_000_000_000, -62_135_596_800_000_000, 253_402_300_799_999_999],
    "timestamptz": [0, -1_000_000, 1_600_000_000_000_000],
}
ORC_TIMES = {
    name: [value for value in VALUES[name] if abs(value) < 2**62 // 1000]
    for name in VALUES
    if "stamp" in name
}


def canonical(kind: Any, value: Any) -> Any:
    """A key's meaning, without the product: NaN is one value, -0.0 is not 0.0."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


def key_of(columns: list[Column], ids: list[int], row: dict[int, Any]) -> tuple[Any, ...]:
    kinds = {column.id: column.type for column in columns}
    return tuple(canonical(kinds[field_id], row.get(field_id)) for field_id in sorted(ids))


def expected(
    columns: list[Column], rows: list[dict[int, Any]], deletes: list[Any], sequence: int
) -> list[bool]:
    """Brute force: deletes are (ids, sequence number, rows)."""
    keys = [
        (ids, {key_of(columns, ids, row) for row in gone})
        for ids, number, gone in deletes
        if number > sequence
    ]
    return [any(key_of(columns, ids, row) in gone for ids, gone in keys) for row in rows]


def data_columns(columns: list[Column], rows: list[dict[int, Any]]) -> dict[int, pa.Array]:
    """Data rows as the scan projects them: a uuid is text."""
    arrays = {}
    for column in columns:
        values = [row.get(column.id) for row in rows]
        arrays[column.id] = (
            pa.array(values, pa.string()) if column.type == "uuid" else arrow_array(column, values)
        )
    return arrays


def random_row(rng: random.Random, columns: list[Column], pools: dict[str, list[Any]]) -> dict[int, Any]:
    return {c.id: None if rng.random() < 0.15 else rng.choice(pools[c.type]) for c in columns}


def load(folder, columns, deletes, *, sequence=1, metrics=None, **changes):
    context = context_of(folder, columns, **changes)
    return load_equality(context, task_of(*deletes, sequence_number=sequence), metrics or Metrics())


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
        assert deleted.tolist() == expected([column], rows, [([7], 5, gone)], 1)
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
        assert found.deleted(keys, len(rows)).tolist() == expected(columns, rows, written, sequence), (
            f"seed {seed}"
        )


def test_zeros_nan_and_null(tmp_path):
    column = Column(1, "d", "double")
    payload = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    delete = write_keys(tmp_path / "d.parquet", [column], [{1: -0.0}, {1: math.nan}, {1: None}], [1])
    found = load(tmp_path, [column], [delete])
    data = pa.array([0.0, -0.0, math.nan, payload[0], payload[1], None, 1.0])
    assert found.deleted({1: data}, 7).tolist() == [False, True, True, True, True, True, False]


def test_sequence_numbers_are_strict(tmp_path):
    column = Column(1, "k", "long")
    delete = write_keys(tmp_path / "d.parquet", [column], [{1: 3}, {1: None}], [1], sequence_number=5)
    data = pa.array([3, 4, None])
    for sequence, gone in ((4, [True, False, True]), (5, [False] * 3), (6, [False] * 3)):
        assert load(tmp_path, [column], [delete], sequence=sequence).deleted({1: data}, 3).tolist() == gone


def test_one_table_serves_all_data_files_and_opens_each_file_once(tmp_path):
    column = Column(1, "k", "long")
    files = [
        write_keys(
            tmp_path / f"d{n}.parquet", [column], [{1: n}, {1: 100}], [1], sequence_number=n, scope="global"
        )
        for n in range(1, 9)
    ]
    data = pa.array([*range(1, 9), 100, None])
    metrics = Metrics()
    for sequence in (5, 0, 7, 3):
        applied = [delete for delete in files if delete.sequence_number > sequence]
        found = load(tmp_path, [column], applied, sequence=sequence, metrics=metrics)
        gone = [number > sequence for number in range(1, 9)]
        assert found.deleted({1: data}, 10).tolist() == [*gone, True, False]
    assert metrics.counters["delete_files.opened"] == 8
    assert metrics.counters["delete_files.cached"] == 3 + 1 + 5
    assert metrics.counters["delete_keys.loaded"] == 16


def test_scopes_do_not_mix(tmp_path):
    """A delete of one partition must not reach another's rows, whatever was loaded before."""
    column = Column(1, "k", "long")
    for scopes in (("p=1", "p=2"), (None, None)):
        CACHE.clear()
        first, second = (
            write_keys(tmp_path / f"{n}.parquet", [column], [{1: n}], [1], scope=scope)
            for n, scope in enumerate(scopes)
        )
        data = pa.array([0, 1])
        assert load(tmp_path, [column], [first]).deleted({1: data}, 2).tolist() == [True, False]
        assert load(tmp_path, [column], [second]).deleted({1: data}, 2).tolist() == [False, True]
        assert load(tmp_path, [column], [first, second]).deleted({1: data}, 2).tolist() == [True, True]
        assert load(tmp_path, [column], [first]).deleted({1: data}, 2).tolist() == [True, False]


def test_another_snapshot_and_a_table_made_anew(tmp_path):
    column = Column(1, "k", "long")
    first = write_keys(tmp_path / "a.parquet", [column], [{1: 1}], [1], scope="global")
    second = write_keys(tmp_path / "b.parquet", [column], [{1: 2}], [1], scope="global", sequence_number=9)
    data = pa.array([1, 2, 3])
    assert load(tmp_path, [column], [first, second], snapshot_id=2).deleted({1: data}, 3).tolist() == [
        True,
        True,
        False,
    ]
    assert load(tmp_path, [column], [first], snapshot_id=1).deleted({1: data}, 3).tolist() == [
        True,
        False,
        False,
    ]
    again = write_keys(tmp_path / "a.parquet", [column], [{1: 3}, {1: 3}], [1], scope="global")
    assert load(tmp_path, [column], [again], snapshot_id=2).deleted({1: data}, 3).tolist() == [
        False,
        False,
        True,
    ]


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
    """It has the column's initial default there, else NULL."""
    present = Column(1, "a", "long")
    delete = write_keys(tmp_path / f"d.{file_format}", [present], [{1: 1}], [1, 2, 3])
    for kind, default, other in (("string", "x", "y"), ("float", 0.5, 1.5), ("decimal(9,2)", "1.50", "2.50"),
                                 ("uuid", VALUES["uuid"][1], VALUES["uuid"][0]), ("date", "1970-01-02", 2)):  # fmt: skip
        CACHE.clear()
        columns = [present, Column(2, "b", kind), Column(3, "c", "long")]
        raw = [column_json(column) for column in columns]
        raw[1]["initial-default"] = default
        from twostage.schema import parse_schema

        schema = parse_schema({"schema-id": 0, "fields": raw})
        value = schema.field(2).initial_default
        stored = {"date": 1}.get(kind, Decimal(default) if "decimal" in kind else value)
        other_value = Decimal(other) if "decimal" in kind else other
        rows = [{1: 1, 2: stored}, {1: 1, 2: other_value}, {1: 1}, {1: 2, 2: stored}, {1: 1, 2: stored, 3: 0}]
        found = load(tmp_path, columns, [delete], schema=schema)
        assert found.deleted(data_columns(columns, rows), 5).tolist() == [True, False, False, False, False]


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
    """The file has ids and not this one: the column of the same name in it is another, the key is NULL."""
    delete = write_keys(
        tmp_path / "d.parquet", [Column(1, "a", "long"), Column(2, "k", "long")], [{1: 1, 2: 2}], [1, 3]
    )
    found = load(tmp_path, [Column(1, "a", "long"), Column(3, "k", "long")], [delete])
    assert found.deleted({1: pa.array([1, 1]), 3: pa.array([2, None])}, 2).tolist() == [False, True]


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


def test_nothing_applies(tmp_path):
    found = load(tmp_path, [Column(1, "a", "long")], [])
    assert not found
    assert found.field_ids == ()
    assert found.deleted({}, 3).tolist() == [False] * 3
    empty = write_keys(tmp_path / "d.parquet", [Column(1, "a", "long")], [], [1])
    assert (
        load(tmp_path, [Column(1, "a", "long")], [empty]).deleted({1: pa.array([None, 1])}, 2).tolist()
        == [False] * 2
    )


@pytest.mark.parametrize("kind", ["long", "string"])
def test_budget(tmp_path, kind):
    column = Column(1, "k", kind)
    keys = [{1: number if kind == "long" else f"{number:040}"} for number in range(20_000)]
    delete = write_keys(
        tmp_path / "d.avro", [column], keys, [1], record_count=10
    )  # metadata that understates
    settings = {"task_memory": 400_000 if kind == "string" else 250_000, "dense_keys": False}
    with pytest.raises(ResourceLimitError, match=r"task-memory") as caught:
        load(tmp_path, [column], [delete], settings=settings)
    assert caught.value.code == "DELETE_KEYS_TOO_LARGE"
    assert CACHE.nbytes == 0
    found = load(tmp_path, [column], [delete], settings={"task_memory": 8_000_000})
    assert found.deleted({1: pa.array([keys[0][1], keys[-1][1]])}, 2).all()


def test_overstated_record_count_allocates_within_the_budget(tmp_path):
    column = Column(1, "k", "long")
    delete = write_keys(tmp_path / "d.parquet", [column], [{1: 1}], [1], record_count=2**50)
    found = load(tmp_path, [column], [delete], settings={"task_memory": 10**6})
    assert found.deleted({1: pa.array([1, 2])}, 2).tolist() == [True, False]
    assert CACHE.nbytes <= 10**6


def test_cache_stays_within_its_bytes(tmp_path):
    column = Column(1, "k", "long")
    for number in range(5):
        delete = write_keys(tmp_path / f"{number}.parquet", [column], [{1: n} for n in range(3000)], [1])
        load(tmp_path, [column], [delete], snapshot_id=number, settings={"task_memory": 100_000})
    assert 0 < CACHE.nbytes <= 100_000


def test_more_than_65535_sequence_numbers():
    from twostage.deletes.budget import Budget
    from twostage.deletes.key_set import KeySet
    from twostage.deletes.keys import encode_column, group_by_nulls
    from twostage.schema import Primitive

    kind = Primitive("long")
    keys = KeySet(Budget(10**8, lambda: 0), kernels=False)
    for number in range(1, 66_001):
        if number % 1000 == 0 or number == 1:
            keys.insert(group_by_nulls([encode_column(pa.array([number]), kind)], 1), number, 66)
        else:
            keys._code(number)
    rows = pa.array([1, 1000, 65_000, 66_000, 7])
    probe = lambda sequence: keys.probe(group_by_nulls([encode_column(rows, kind)], 5), 5, sequence).tolist()
    assert probe(0) == [True, True, True, True, False]
    assert probe(65_000) == [False, False, False, True, False]


def test_refusals(tmp_path):
    column = Column(1, "k", "long")
    good = write_keys(tmp_path / "d.parquet", [column], [{1: 1}], [1])
    text = write_keys(tmp_path / "t.parquet", [Column(1, "k", "string")], [{1: "x"}], [1])
    twice = write_keys(tmp_path / "2.parquet", [column, Column(1, "l", "long")], [{1: 1}], [1])
    nested = write_keys(
        tmp_path / "n.parquet", [Column(1, "s", Struct((Column(2, "x", "long"),)))], [{1: {2: 1}}], [1]
    )
    (tmp_path / "bad.parquet").write_bytes(b"PAR1" + bytes(50))
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "d.parquet").read_bytes()[:-30])
    (tmp_path / "bad.orc").write_bytes(b"ORC" + bytes(50))
    (tmp_path / "bad.avro").write_bytes(b"Obj\x01" + bytes(50))
    bad = [
        delete_of(tmp_path / name, "equality", equality_ids=(1,))
        for name in ("bad.parquet", "cut.parquet", "bad.orc", "bad.avro")
    ]
    for delete in (text, twice, nested, *bad, delete_of(tmp_path / "d.parquet", "equality")):
        with pytest.raises(CorruptFileError) as caught:
            load(tmp_path, [column], [delete])
        assert (caught.value.path, caught.value.stage) == (delete.path, "deletes")
        assert "stage deletes" in str(caught.value)
    with pytest.raises(CorruptFileError, match="no schema: 9"):
        load(tmp_path, [column], [delete_of(tmp_path / "d.parquet", "equality", equality_ids=(9,))])
    with pytest.raises(MissingFileError):
        load(tmp_path, [column], [delete_of(tmp_path / "absent.parquet", "equality", equality_ids=(1,))])
    with pytest.raises(UnsupportedFeatureError, match="not of a primitive type"):
        load(tmp_path, [Column(1, "k", ListOf(Column(2, "element", "long")))], [good])
    with pytest.raises(InternalError):
        load(tmp_path, [column], [good]).deleted({}, 1)
    with pytest.raises(InternalError):
        load(tmp_path, [column], [good]).deleted({1: pa.array(["x"])}, 1)


@pytest.mark.parametrize("seed", range(20))
def test_bit_flips_give_the_rows_or_an_error(tmp_path, seed):
    """With page checksums no flip of a delete file's bytes changes the answer."""
    rng = random.Random(seed)
    column = Column(1, "k", "long")
    keys = [{1: n * 3} for n in range(200)]
    delete = write_keys(
        tmp_path / "d.parquet", [column], keys, [1], options={"page_checksums": True, "statistics": False}
    )
    raw = bytearray((tmp_path / "d.parquet").read_bytes())
    footer = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    rows = pa.array(range(600))
    right = [number % 3 == 0 for number in range(600)]
    for _ in range(10):
        CACHE.clear()
        flipped = bytearray(raw)
        flipped[rng.randrange(4, footer)] ^= 1 << rng.randrange(8)
        (tmp_path / "d.parquet").write_bytes(flipped)
        try:
            assert load(tmp_path, [column], [delete]).deleted({1: rows}, 600).tolist() == right
        except CorruptFileError:
            continue
