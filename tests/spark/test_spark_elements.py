"""`array_contains` and `map_contains_key`: taken over, and true, false and NULL as Spark's own."""

from __future__ import annotations

import datetime
import random
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

import twostage
from lakehouse import canonical, executed_plan

EPOCH = datetime.datetime(2024, 1, 1)
POOLS = {
    "flags": (pa.bool_(), [True, False]),
    "ints": (pa.int32(), list(range(6))),
    "longs": (pa.int64(), [-1, 0, 1, 2**40, -(2**63)]),
    "floats": (pa.float32(), [0.0, -0.0, 1.5, float("nan"), float("inf")]),
    "doubles": (pa.float64(), [0.0, -0.0, 0.1, float("nan"), float("-inf")]),
    "decimals": (pa.decimal128(9, 2), [Decimal("0.00"), Decimal("1.25"), Decimal("-9.99")]),
    "days": (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(2024, 1, 1)]),
    "locals": (pa.timestamp("us"), [EPOCH, EPOCH + datetime.timedelta(microseconds=1)]),
    "moments": (
        pa.timestamp("us", tz="UTC"),
        [EPOCH.replace(tzinfo=datetime.UTC), EPOCH.replace(tzinfo=datetime.UTC, hour=5)],
    ),
    "texts": (pa.string(), ["", "a", "ä", "b" * 200]),
    "blobs": (pa.binary(), [b"", b"\x00", b"\xff"]),
}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("pad", pa.string()),
        *((name, pa.list_(kind)) for name, (kind, _) in POOLS.items()),
        ("inner", pa.struct([("tags", pa.list_(pa.string()))])),
        ("props", pa.map_(pa.string(), pa.int32())),
        ("nested", pa.list_(pa.list_(pa.int32()))),
    ]
)
NUM_ROWS = 600


def drawn(seed):
    rng = random.Random(seed)

    def listed(pool):
        if rng.random() < 0.15:
            return None
        return [None if rng.random() < 0.15 else rng.choice(pool) for _ in range(rng.randrange(4))]

    rows = []
    for number in range(NUM_ROWS):
        row = {"id": number, "pad": str(uuid.UUID(int=number))}
        row.update({name: listed(pool) for name, (_, pool) in POOLS.items()})
        row["inner"] = None if rng.random() < 0.1 else {"tags": listed(["a", "b", "c"])}
        row["props"] = (
            None if rng.random() < 0.1 else [(key, None) for key in rng.sample("abcd", rng.randrange(3))]
        )
        row["nested"] = [[1, 2], None]
        rows.append(row)
    return rows


def created(folder, schema):
    """Create the table db.t by PyIceberg, in a folder of its own: the shared warehouse has the tables that tests list."""
    catalog = InMemoryCatalog("own", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    return catalog.create_table("db.t", schema=schema)


@pytest.fixture(scope="module")
def lists(spark, tmp_path_factory):
    """Views of the same rows: `lists` of the table, in three data files, and `plain_lists` of what Spark has in memory."""
    rows, folder = drawn(1), tmp_path_factory.mktemp("lists")
    table = created(folder, SCHEMA)
    for first in range(0, NUM_ROWS, 200):
        table.append(pa.Table.from_pylist(rows[first : first + 200], schema=SCHEMA))
    path = str(folder / "db" / "t")
    spark.read.format("twostage").load(path).createOrReplaceTempView("lists")
    as_spark = [
        tuple(
            dict(row[name]) if name == "props" and row[name] is not None else row[name]
            for name in SCHEMA.names
        )
        for row in rows
    ]
    made = spark.createDataFrame(as_spark, spark.table("lists").schema)
    made.createOrReplaceTempView("plain_lists")
    yield path
    for view in ("lists", "plain_lists"):
        spark.catalog.dropTempView(view)


TESTS = [
    "array_contains(flags, true)",
    "array_contains(ints, 3)",
    "array_contains(ints, 77)",
    "array_contains(longs, -9223372036854775808)",
    "array_contains(floats, float('NaN'))",
    "array_contains(floats, float('-0.0'))",
    "array_contains(doubles, 0.0D)",
    "array_contains(doubles, double('NaN'))",
    "array_contains(decimals, cast(1.25 AS decimal(9,2)))",
    "array_contains(days, DATE'1969-12-31')",
    "array_contains(locals, TIMESTAMP_NTZ'2024-01-01 00:00:00.000001')",
    "array_contains(moments, TIMESTAMP'2024-01-01 00:00:00Z')",
    "array_contains(texts, 'ä')",
    "array_contains(texts, '')",
    "array_contains(blobs, X'00')",
    "array_contains(inner.tags, 'b')",
    "map_contains_key(props, 'c')",
]


@pytest.mark.parametrize("test", TESTS)
def test_is_taken_over_with_three_values(spark, lists, test):
    for form in ("{}", "NOT {}", "({}) IS NULL OR id < 5", "coalesce({}, true)"):
        query = f"SELECT id FROM {{}} WHERE {form.format(test)}"
        frame = spark.sql(query.format("lists"))
        plan = executed_plan(frame).replace("RuntimeFilters", "")
        got = frame.collect()
        assert canonical(got) == canonical(spark.sql(query.format("plain_lists")).collect())
        if form in ("{}", "NOT {}"):
            assert "Filter" not in plan, plan
            assert twostage.last_scan(spark).columns == ("id",)


@pytest.mark.parametrize("test", TESTS)
def test_spark_evaluates_it_where_the_option_says_so(spark, lists, test):
    reader = spark.read.format("twostage").option("filter.elements", "false")
    for form in ("{}", "NOT {}"):
        frame = reader.load(lists).where(f"{form.format(test)} AND id < 500").select("id")
        assert "Filter" in executed_plan(frame).replace("RuntimeFilters", "")
        expected = spark.sql(f"SELECT id FROM plain_lists WHERE {form.format(test)} AND id < 500")
        assert canonical(frame.collect()) == canonical(expected.collect())
        assert twostage.last_scan(spark).columns != ("id",)


@pytest.mark.parametrize(
    "test",
    [
        *("array_contains(flags, true)", "array_contains(ints, 3)", "array_contains(ints, 77)"),
        *("array_contains(longs, -9223372036854775808)", "array_contains(floats, 1.5)"),
        *("array_contains(doubles, 0.0)", "array_contains(decimals, 1.25)", "array_contains(texts, 'ä')"),
        *("array_contains(days, DATE '1969-12-31')", "array_contains(blobs, X'ff')"),
        *("array_contains(`inner`.tags, 'b')", "map_contains_key(props, 'c')"),
    ],
)
def test_the_option_filter_takes_it_too(spark, lists, test):
    for form in ("{}", "NOT {}", "{} OR id < 5"):
        text = form.format(test)
        frame = spark.read.format("twostage").option("filter", text).load(lists).select("id")
        expected = spark.sql(f"SELECT id FROM plain_lists WHERE {text}")
        assert canonical(frame.collect()) == canonical(expected.collect()), text


def test_among_other_conditions(spark, lists):
    rng = random.Random(7)
    leaves = [*TESTS, "id % 3 = 0", "id < 300", "ints IS NULL", "upper(pad) LIKE '%0'"]
    sizes = []
    for _ in range(25):
        chosen = [f"{rng.choice(['', 'NOT '])}({leaf})" for leaf in rng.sample(leaves, 3)]
        where = (
            f"{chosen[0]} {rng.choice(['AND', 'OR'])} ({chosen[1]} {rng.choice(['AND', 'OR'])} {chosen[2]})"
        )
        query = f"SELECT id, texts FROM {{}} WHERE {where}"
        expected = canonical(spark.sql(query.format("plain_lists")).collect())
        assert canonical(spark.sql(query.format("lists")).collect()) == expected, where
        sizes.append(len(expected))
    assert 0 < sum(sizes) < 25 * NUM_ROWS


HANDED_BACK = [
    "array_contains(ints, 3L)",  # the list is cast
    "array_contains(ints, id)",
    "array_contains(nested, array(1, 2))",
    "array_contains(transform(ints, x -> x + 1), 3)",
    "array_contains(array(1, 2), cast(id AS int))",
]


@pytest.mark.parametrize("test", HANDED_BACK)
def test_other_forms_are_handed_back(spark, lists, test):
    query = f"SELECT id FROM {{}} WHERE {test}"
    frame = spark.sql(query.format("lists"))
    assert "Filter" in executed_plan(frame).replace("RuntimeFilters", "")
    assert canonical(frame.collect()) == canonical(spark.sql(query.format("plain_lists")).collect())


def test_null_is_contained_nowhere(spark, lists):
    for where in ("array_contains(ints, cast(NULL AS int))", "map_contains_key(props, cast(NULL AS string))"):
        for form in (where, f"NOT {where}"):
            assert spark.sql(f"SELECT id FROM lists WHERE {form}").collect() == []


def test_is_part_of_what_is_aggregated(spark, lists):
    for what in ("count(*)", "count(*), min(id), max(id)", "count(DISTINCT pad)"):
        for where in ("array_contains(ints, 3)", "array_contains(ints, 3) AND id < 400"):
            query = f"SELECT {what} FROM {{}} WHERE {where}"
            assert (
                spark.sql(query.format("lists")).collect() == spark.sql(query.format("plain_lists")).collect()
            )


@pytest.mark.parametrize(
    "options",
    [{"two-stage": "false"}, {"filter.cache": "memory"}, {"filter.kernels": "false"}, {"index": "off"}],
    ids=str,
)
def test_options_keep_the_rows(spark, lists, options):
    frame = spark.read.format("twostage").options(**options).load(lists)
    expected = canonical(
        spark.sql(
            "SELECT id, ints FROM plain_lists WHERE array_contains(ints, 3) AND NOT array_contains(texts, 'a')"
        ).collect()
    )
    where = "array_contains(ints, 3) AND NOT array_contains(texts, 'a')"
    for _ in range(2):
        assert canonical(frame.where(where).select("id", "ints").collect()) == expected


def test_explain_and_report_name_it(spark, lists):
    frame = spark.sql("SELECT id FROM lists WHERE array_contains(texts, 'ä')")
    assert "array_contains(texts, 'ä')]" in executed_plan(frame)
    frame.collect()
    assert "array_contains(texts, 'ä')" in twostage.last_scan(spark).predicate


@pytest.mark.parametrize("state", ["all", "part", "damaged"])
def test_an_index_of_elements_finds_the_rows(spark, tmp_path, state):
    schema = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.int64()))])
    table = created(tmp_path / "warehouse", schema)
    drawn, rows = np.random.default_rng(4), 60_000
    for first in (0, rows):
        values = pa.array(drawn.integers(0, 2**50, 3 * rows))
        lists = pa.ListArray.from_arrays(pa.array(range(0, 3 * rows + 1, 3), pa.int32()), values)
        table.append(pa.Table.from_arrays([pa.array(range(first, first + rows)), lists], schema=schema))
    sought = values[77].as_py()
    options = {"index.location": str(tmp_path / "indexes")}
    path = str(tmp_path / "warehouse" / "db" / "t")
    indexes = twostage.index(spark, path, options)
    indexes.create(["tags"], "elements")
    assert indexes.verify(None).wrong == []
    for number, file in enumerate(sorted((tmp_path / "indexes").rglob("*.puffin"))):
        if state == "part" and number:
            file.unlink()
        elif state == "damaged":
            data = bytearray(file.read_bytes())
            data[len(data) // 8 :: 64] = bytes(len(range(len(data) // 8, len(data), 64)))
            file.write_bytes(data)
    where = f"array_contains(tags, {sought}L)"
    for more in ({}, {"index": "off"}):
        frame = spark.read.format("twostage").options(**options, **more).load(path)
        assert [row.id for row in frame.where(where).select("id").collect()] == [rows + 25]
        used = twostage.last_scan(spark).count("indexes.used")
        assert used == (0 if more or state == "damaged" else 2 if state == "all" else 1)
        assert frame.where(f"NOT {where}").count() == 2 * rows - 1
        assert frame.where(f"{where} OR id = 5").count() == 2
