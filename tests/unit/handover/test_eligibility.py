"""Each reason for which a scan is not handed to Spark's own Parquet reader, from literals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core_scan import open_table
from tables import Table
from twostage.formats.parquet.schema_tree import LogicalType
from twostage.handover import eligibility
from twostage.handover.file_facts import ColumnFacts, FileFacts
from twostage.handover.protocol import ScanDemand
from twostage.options import ReadOptions, ReadSettings
from twostage.schema import Field, Primitive, Schema, parse_type
from twostage.task import DeleteFile, ScanContext, ScanPlan, ScanTask, Storage, TaskGroup

LONG = Field(id=1, name="id", type=Primitive("long"))
QUERY = ScanDemand(columns=("id",), returned=("id",))


def task(**changes: Any) -> ScanTask:
    plain = ScanTask(
        path="/t/f.parquet", written_path="/t/f.parquet", format="parquet", file_size=100, record_count=10, start=0,
        length=100, sequence_number=1, spec_id=0, all_match=True,
    )  # fmt: skip
    return replace(plain, **changes)


def plan(*tasks: ScanTask, storage: Storage = Storage(root="/t"), as_is: bool = False) -> ScanPlan:
    """Return a plan of tasks; of those that begin one file, each gets a file of its own unless they are to stay `as_is`."""
    seen: set[tuple[str, int]] = set()
    for number, one in enumerate(tasks):
        if not as_is and (one.path, one.start) in seen:
            folder, _, name = one.path.rpartition("/")
            tasks = (*tasks[:number], replace(one, path=f"{folder}/{number}-{name}"), *tasks[number + 1 :])
        seen.add((one.path, one.start))
    context = ScanContext(
        scan_id="s", table="t", snapshot_id=1, schema=Schema(schema_id=0, fields=(LONG,)), projection=(LONG,),
        storage=storage, settings=ReadSettings(),
    )  # fmt: skip
    groups = (TaskGroup(index=0, context=context, tasks=tasks),) if tasks else ()
    return ScanPlan(context=context, groups=groups, estimated_rows=1, estimated_bytes=1)


def column(**changes: Any) -> ColumnFacts:
    plain = ColumnFacts(
        physical="INT64", logical=None, is_required=False, codecs=frozenset(("ZSTD",)), encodings=frozenset((0, 3, 8)),
        num_bytes=9,
    )  # fmt: skip
    return replace(plain, **changes)


def facts(**changes: Any) -> FileFacts:
    plain = FileFacts(
        file_size=100,
        num_rows=10,
        columns={1: column()},
        has_all_ids=True,
        has_legacy_calendar=False,
        has_row_index=False,
        has_ordered_chunks=True,
        single_values={},
    )
    return replace(plain, **changes)


# ---- the query


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    built = Table(tmp_path_factory.mktemp("t"), {"id": "long", "at": "time", "s": {"x": "int"}})
    built.append([{"id": 1}])
    return open_table(built.write()).table


QUERIES = {
    "never": ({"native_scans": False}, {}, "scan.native is never"),
    "filter": ({"filter": "id < 5"}, {}, "option filter"),
    "split_size": ({"split_size": 7}, {}, "split-size or parallelism"),
    "parallelism": ({"parallelism": 7}, {}, "split-size or parallelism"),
    "count": ({}, {"returned": ()}, "no column"),
    "limit": ({}, {"under_limit": True}, "limit"),
    "file_name": ({}, {"names_files": True}, "name of the file"),
    "rows": ({}, {"reads_vectors": False}, "enableVectorizedReader"),
    "type": ({}, {"columns": ("id", "at")}, "column at has the type time"),
    "struct": ({}, {"columns": ("s",)}, "column s has the type struct"),
    "metadata_column": ({}, {"columns": ("_pos",)}, "the table has no column _pos"),
}


@pytest.mark.parametrize("case", QUERIES)
def test_query_stays(table, case):
    options, query, expected = QUERIES[case]
    reason = eligibility.stays_by_query(table, ReadOptions(**options), replace(QUERY, **query))
    assert reason is not None
    assert expected in reason


def test_query_is_handed_over(table):
    assert eligibility.stays_by_query(table, ReadOptions(), QUERY) is None
    assert (
        eligibility.stays_by_query(replace(table, snapshot=None), ReadOptions(), QUERY)
        == "the table is empty"
    )
    rows = replace(table, metadata_table="files")
    assert eligibility.stays_by_query(rows, ReadOptions(), QUERY) == "it reads a metadata table"


# ---- the plan

DELETE = DeleteFile(
    content="position", format="parquet", path="/t/d", written_path="/t/d", file_size=1, record_count=1, sequence_number=2
)  # fmt: skip
EQUALITY = replace(DELETE, content="equality", path="/t/e")


SIXTY = tuple(replace(DELETE, path=f"/t/d{n}") for n in range(60))


def deleted(files: int, **changes: Any) -> ScanPlan:
    """Return a plan of files each of which has a delete file of its own."""
    return plan(*(task(deletes=(replace(DELETE, path=f"/t/d{n}"),), **changes) for n in range(files)))


PLANS = {
    "nothing": (plan(), "there is nothing to read"),
    "many_deleted": (plan(task(), task(deletes=(replace(DELETE, record_count=2**23 + 1),))), "8,388,608 rows are deleted"),
    "large_for_each": (plan(*[task(deletes=(replace(DELETE, record_count=5_000_000),))] * 2), "8,388,608 rows are deleted"),
    "many_rows": (plan(task(record_count=2**27), task(deletes=(DELETE,))), "with deletes have more than 134,217,728 rows"),
    "many_compiled": (plan(*[task(file_size=2**30, deletes=(EQUALITY,))] * 1_001), "compiled deletes of 1,001 files"),
    "small_compiled": (plan(*[task(file_size=2**20, deletes=(EQUALITY,))] * 65), "65 delete files of small files"),
    "small_with_deletes": (deleted(65, file_size=2**20), "65 delete files of small files"),
    "many_delete_files": (deleted(1_001, file_size=2**30), "more than 1,000 delete files"),
    "many_lookups": (plan(*[task(file_size=2**30, deletes=(DELETE, *SIXTY))] * 900), "looked up more than 50,000 times"),
    "orc_with_deletes": (plan(task(format="orc", deletes=(DELETE,))), "format orc"),
    "orc": (plan(task(), task(format="orc")), "format orc"),
    "twice": (plan(task(deletes=(EQUALITY,)), task(sequence_number=3), as_is=True), "in the snapshot twice"),
    "twice_on_hdfs": (plan(task(path="hdfs://n/t/f"), task(path="hdfs://n/t//f"), as_is=True), "in the snapshot twice"),
    "colon": (plan(task(path="/t/a:b/part-2024-01-01T00:00:00.parquet")), "a colon in its name"),
    "s3": (plan(task(path="s3a://lake/t/f.parquet")), "no file system for s3"),
    "azure": (plan(task(path="abfss://c@a.dfs.core.windows.net/f.parquet")), "no file system for abfs"),
    "hdfs_by_properties": (
        plan(task(path="hdfs://nn/t/f.parquet"), storage=Storage(root="hdfs://nn/t", properties={"hdfs.user": "me"})),
        "access to hdfs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANS)
def test_plan_stays(case):
    found, expected = PLANS[case]
    reason = eligibility.stays_by_plan(found)
    assert reason is not None
    assert expected in reason


def test_plan_is_handed_over():
    assert eligibility.stays_by_plan(plan(task(), task(start=50, all_match=True))) is None
    assert eligibility.stays_by_plan(plan(task(path="/t/a:b/f.parquet"))) is None
    assert (
        eligibility.stays_by_plan(plan(task(path="hdfs://nn/t/f"), storage=Storage(root="hdfs://nn/t")))
        is None
    )


@pytest.mark.parametrize(
    ("path", "file_systems", "expected"),
    [
        ("s3://lake/t/f", ["s3", "s3a"], "s3://lake/t/f"),
        ("s3://lake/t/f", ["s3a"], "s3a://lake/t/f"),
        ("s3a://lake/t/f", ["s3"], "s3://lake/t/f"),
        ("gs://lake/t/f", ["gcs"], "gcs://lake/t/f"),
        ("gs://lake/t/f", ["s3a"], None),
        ("abfss://c@a.dfs.core.windows.net/f", ["abfss"], "abfss://c@a.dfs.core.windows.net/f"),
        ("/t/f", [], "/t/f"),
    ],
)
def test_object_stores_that_spark_reads(path, file_systems, expected):
    assert eligibility.location_for_spark(path, file_systems) == expected
    reason = eligibility.stays_by_plan(plan(task(path=path)), file_systems)
    assert (reason is None) == (expected is not None), reason


@pytest.mark.parametrize(
    ("path", "files", "size", "stays"),
    [
        ("s3://lake/t/{}", 17, 2**20, True),
        ("s3://lake/t/{}", 16, 2**20, False),
        ("s3://lake/t/{}", 400, 2**25, False),
        ("gs://lake/t/{}", 400, 2**25 - 1, True),
        ("/t/{}", 400, 2**20, False),
        ("hdfs://nn/t/{}", 400, 2**20, False),
    ],
)
def test_many_small_files_of_an_object_store_stay(path, files, size, stays):
    tasks = [task(path=path.format(number), file_size=size) for number in range(files)]
    reason = eligibility.stays_by_store(plan(*tasks))
    assert (reason is not None) is stays
    if stays:
        assert reason.startswith(f"{files} small files in an object store")


@pytest.mark.parametrize("key", ["t//f", "t/./f", "t/../f", "t/f/"])
def test_keys_that_hadoop_reads_under_another_name(key):
    reason = eligibility.stays_by_plan(plan(task(path=f"s3://lake/{key}")), ["s3"])
    assert reason == f"Hadoop would read another name for the key /{key}"


def test_deleted_positions_are_handed_over():
    assert eligibility.stays_by_plan(plan(task(), task(deletes=(DELETE,)))) is None
    assert eligibility.stays_by_plan(deleted(64, file_size=1)) is None
    assert eligibility.stays_by_plan(deleted(1_000, file_size=2**30)) is None
    # One file that deletes in all of them counts once.
    one = replace(DELETE, record_count=2**22)
    full = replace(DELETE, path="/t/full", record_count=2**22)
    other = replace(DELETE, path="/t/e")
    assert eligibility.stays_by_plan(plan(task(deletes=(one, full)), task(deletes=(one, other)))) is not None
    assert eligibility.stays_by_plan(plan(task(deletes=(one, full)), task(deletes=(one,)))) is None
    # Of vectors bits count, not rows; whether equality deletes were compiled, reading tells.
    vector = replace(DELETE, content="vector", format="puffin", record_count=2**24)
    assert eligibility.stays_by_plan(plan(task(deletes=(vector,)), task(deletes=(EQUALITY,)))) is None
    assert eligibility.stays_by_plan(plan(task(deletes=(replace(EQUALITY, record_count=2**40),)))) is None


def test_columns_and_the_places_of_deleted_rows(monkeypatch):
    monkeypatch.setattr(eligibility, "MAX_COLUMNS", 2)
    assert eligibility.stays_by_plan(plan(task())) is None
    assert "with 1 columns" in str(eligibility.stays_by_plan(plan(task(deletes=(DELETE,)))))
    monkeypatch.setattr(eligibility, "MAX_COLUMNS", 3)
    assert eligibility.stays_by_plan(plan(task(deletes=(DELETE,)))) is None


def test_a_column_of_spark_s_name_for_places():
    reason = eligibility.stays_by_files([task(deletes=(DELETE,))], [facts(has_row_index=True)], [LONG])
    assert "name of Spark's row position column" in str(reason)
    assert eligibility.stays_by_files([task()], [facts(has_row_index=True)], [LONG]) is None


def test_a_file_in_ranges_is_handed_over_once():
    cut = plan(task(length=50), task(start=50, length=50), task(path="/t/g"))
    assert [one.path for one in eligibility.files_of(cut)] == ["/t/f.parquet", "/t/g"]
    assert [[one.start for one in parts] for parts in eligibility.ranges_of(cut)] == [[0, 50], [0]]


def test_ranges_of_files_in_any_order():
    """Tasks are packed by size: a file's first range need not come first."""
    cut = plan(task(start=50, length=50), task(path="/t/g"), task(length=50))
    ranges = [[(one.path, one.start) for one in parts] for parts in eligibility.ranges_of(cut)]
    assert ranges == [[("/t/g", 0)], [("/t/f.parquet", 50), ("/t/f.parquet", 0)]]
    assert [one.path for one in eligibility.files_of(cut)] == ["/t/g", "/t/f.parquet"]


def test_footers_cost():
    assert eligibility.stays_by_footers(5_000, 64, 0) is None  # the rest is known
    assert eligibility.stays_by_footers(1_000, 1_000, 1_000 * eligibility.MIN_BYTES_PER_FOOTER) is None
    assert "small files" in str(eligibility.stays_by_footers(1_000, 1_000, 1_000))
    assert "1001 footers" in str(eligibility.stays_by_footers(1_001, 1_001, 2**60))


# ---- the files

DECIMAL = Primitive("decimal", precision=18, scale=2)


def decimal(physical: str, precision: int, width: int = 0) -> ColumnFacts:
    logical = LogicalType(name="decimal", precision=precision, scale=2)
    return column(physical=physical, width=width, logical=logical)


@pytest.mark.parametrize("width", [8, 16])
def test_decimals_that_spark_reads(width):
    """Of at most 18 digits it makes longs; of more it takes any width."""
    kind = replace(DECIMAL, precision=18 if width == 8 else 38)
    of_file = decimal("FIXED_LEN_BYTE_ARRAY", kind.precision, width=width)
    field = replace(LONG, type=kind)
    assert eligibility.stays_by_files([task()], [facts(columns={1: of_file})], [field]) is None
    of_bytes = facts(columns={1: decimal("BYTE_ARRAY", 20)})
    wide = replace(LONG, type=replace(DECIMAL, precision=20))
    assert eligibility.stays_by_files([task()], [of_bytes], [wide]) is None


FILES = {
    "no_ids": ({}, {"has_all_ids": False}, {}, "without field ids"),
    "chunks": ({}, {"has_ordered_chunks": False}, {}, "do not begin with their first column"),
    "wide_decimal": ({}, {"columns": {1: decimal("FIXED_LEN_BYTE_ARRAY", 18, width=9)}}, {"type": DECIMAL}, "FIXED"),
    "decimal_of_bytes": ({}, {"columns": {1: decimal("BYTE_ARRAY", 9)}}, {"type": DECIMAL}, "BYTE_ARRAY"),
    "rows": ({}, {"num_rows": 9}, {}, "9 rows and its manifest says 10"),
    "missing_constant": ({"constants": {1: 5}}, {"columns": {}}, {}, "value from the partition"),
    "missing_default": ({}, {"columns": {}}, {"initial_default": 5}, "takes its default"),
    "missing_required": ({}, {"columns": {}}, {"required": True}, "is required and a file lacks it"),
    "nested": ({}, {"columns": {1: None}}, {}, "nested or repeated"),
    "unproven_constant": ({"constants": {1: 5}}, {}, {}, "not proven"),
    "other_constant": ({"constants": {1: 5}}, {"single_values": {1: 6}}, {}, "not proven"),
    "null_constant": ({"constants": {1: None}}, {}, {}, "not proven"),
    "optional": ({}, {}, {"required": True}, "may be NULL"),
    "codec": ({}, {"columns": {1: column(codecs=frozenset(("ZSTD", "LZO")))}}, {}, "compressed by LZO"),
    "encoding": ({}, {"columns": {1: column(encodings=frozenset((0, 9)))}}, {}, "encodings in a file"),
    "type": ({}, {"columns": {1: column(physical="DOUBLE")}}, {}, "is DOUBLE in a file and long in the table"),
    "calendar": (
        {}, {"has_legacy_calendar": True, "columns": {1: column(physical="INT32", logical=LogicalType(name="date"))}},
        {"type": Primitive("date")}, "Julian",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_file_stays(case):
    changed_task, changed_facts, changed_field, expected = FILES[case]
    field = replace(LONG, **changed_field)
    reason = eligibility.stays_by_files([task(**changed_task)], [facts(**changed_facts)], [field])
    if not changed_field:  # one such file is enough
        pair = eligibility.stays_by_files(
            [task(), task(**changed_task)], [facts(), facts(**changed_facts)], [field]
        )
        assert pair == reason
    assert reason is not None
    assert expected in reason
    assert reason.endswith(": f.parquet")


def test_file_is_handed_over():
    assert eligibility.stays_by_files([task()], [facts()], [LONG]) is None
    assert eligibility.stays_by_files([task()], [facts(columns={})], [LONG]) is None  # NULL stands in
    for value in (5, None):
        assert (
            eligibility.stays_by_files(
                [task(constants={1: value})], [facts(single_values={1: value})], [LONG]
            )
            is None
        )
    assert eligibility.stays_by_files([task()], [facts(has_legacy_calendar=True)], [LONG]) is None


def logical(name: str, **more: Any) -> LogicalType:
    return LogicalType(name=name, **more)


READS = [
    ("boolean", "BOOLEAN", None, True),
    ("int", "INT32", None, True),
    ("int", "INT32", logical("integer"), True),
    ("int", "INT32", logical("integer", signed=False), False),
    ("int", "INT64", None, False),
    ("long", "INT64", None, True),
    ("long", "INT32", None, True),
    ("long", "INT32", logical("date"), False),
    ("long", "INT64", logical("timestamp", unit="micros"), False),
    ("float", "FLOAT", None, True),
    ("float", "DOUBLE", None, False),
    ("double", "FLOAT", None, True),
    ("double", "FIXED_LEN_BYTE_ARRAY", logical("float16"), False),
    ("decimal(9,2)", "INT32", logical("decimal", precision=9, scale=2), True),
    ("decimal(9,2)", "FIXED_LEN_BYTE_ARRAY", logical("decimal", precision=5, scale=2), True),
    ("decimal(9,2)", "INT32", logical("decimal", precision=9, scale=3), False),
    ("decimal(9,2)", "INT64", logical("decimal", precision=10, scale=2), False),
    ("decimal(9,2)", "INT32", None, False),
    ("date", "INT32", logical("date"), True),
    ("date", "INT32", None, False),
    ("timestamp", "INT64", logical("timestamp", unit="micros"), True),
    ("timestamp", "INT64", logical("timestamp", unit="micros", utc=True), False),
    ("timestamp", "INT32", logical("date"), False),
    ("timestamptz", "INT64", logical("timestamp", unit="micros", utc=True), True),
    ("timestamptz", "INT64", logical("timestamp", unit="millis", utc=True), False),
    ("timestamptz", "INT64", logical("timestamp", unit="nanos", utc=True), False),
    ("timestamptz", "INT96", None, False),
    ("string", "BYTE_ARRAY", logical("string"), True),
    ("string", "BYTE_ARRAY", None, False),
    ("string", "BYTE_ARRAY", logical("enum"), False),
    ("binary", "BYTE_ARRAY", None, True),
    ("binary", "BYTE_ARRAY", logical("string"), False),
    ("binary", "FIXED_LEN_BYTE_ARRAY", None, False),
]


@pytest.mark.parametrize(("kind", "physical", "annotation", "read"), READS)
def test_file_types(kind, physical, annotation, read):
    known = facts(columns={1: column(physical=physical, logical=annotation)})
    reason = eligibility.stays_by_files([task()], [known], [replace(LONG, type=parse_type(kind))])
    assert (reason is None) == read
    delta = {"INT32": 5, "INT64": 5, "BYTE_ARRAY": 7}.get(physical)
    if read and delta is not None:  # Spark reads them under the file's own type
        known = facts(
            columns={1: column(physical=physical, logical=annotation, encodings=frozenset((delta,)))}
        )
        reason = eligibility.stays_by_files([task()], [known], [replace(LONG, type=parse_type(kind))])
        assert (reason is None) == ((kind, physical) != ("long", "INT32"))


@pytest.mark.parametrize(
    ("share", "expected"), [(0.1, "the filter drops rows: looked"), (0.9, None), (None, "it is unknown")]
)
def test_by_the_share_that_a_filter_keeps(share, expected):
    found = eligibility.stays_by_share(plan(task(all_match=False), task()), share, "looked")
    assert found is None if expected is None else expected in found
    assert eligibility.stays_by_share(plan(task(), task()), None, "") is None


@pytest.mark.parametrize(
    ("file_size", "num_bytes", "stays"),
    [
        (eligibility.MIN_BYTES_TO_PROBE // 2 - 1, 9, False), (eligibility.MIN_BYTES_TO_PROBE // 2, 9, False),
        (eligibility.MIN_BYTES_TO_PROBE // 2, eligibility.MAX_JOIN_COLUMN_BYTES // 2, False),
        (eligibility.MIN_BYTES_TO_PROBE // 2, eligibility.MAX_JOIN_COLUMN_BYTES // 2 + 1, True),
        (eligibility.MAX_JOIN_FILE_BYTES // 2 + 1, 9, False),
    ],
)  # fmt: skip
def test_sides_of_a_join_that_its_keys_may_prune(file_size, num_bytes, stays):
    """Of two files: columns of many bytes stay."""
    found = plan(task(file_size=file_size), task(path="/t/g", file_size=file_size))
    known = [facts(columns={1: column(num_bytes=num_bytes)})] * 2
    reasons = (eligibility.stays_by_join(found), eligibility.stays_by_join(found, known, [LONG]))
    assert any(reason == "join keys may prune it" for reason in reasons) == stays, reasons
    assert eligibility.stays_by_join(found, known, [LONG], 2 * num_bytes) is None
    assert eligibility.stays_by_join(found, known, [LONG], 2 * num_bytes - 1) is not None


def test_few_footers_of_large_sides_are_opened():
    """To learn the columns' bytes; more than a few only if the files are not large."""
    most, large = eligibility.MAX_JOIN_FOOTERS, eligibility.MAX_JOIN_FILE_BYTES
    for number, times, stays in ((most, 10, False), (most + 1, 10, True), (most + 1, 1, False)):
        found = plan(*(task(path=f"/t/{n}", file_size=times * large // number) for n in range(number)))
        assert eligibility.stays_by_join(found) == ("join keys may prune it" if stays else None)


def test_columns_that_spark_reads_fast():
    half = eligibility.MAX_PRUNED_COLUMN_BYTES // 2
    assert eligibility.is_read_fast([facts(columns={1: column(num_bytes=half)})] * 2, [LONG])
    assert not eligibility.is_read_fast([facts(columns={1: column(num_bytes=half + 1)})] * 2, [LONG])


def test_small_sides_of_joins():
    half = eligibility.MIN_BYTES_TO_PROBE // 2
    assert eligibility.is_small(plan(task(file_size=half - 1), task(path="/t/g", file_size=half)))
    assert not eligibility.is_small(plan(task(file_size=half), task(path="/t/g", file_size=half)))
    # Two ranges of one file count once.
    assert eligibility.is_small(plan(task(file_size=half), task(file_size=half, start=9, length=9)))


def test_small_files_are_not_looked_at():
    assert "small" in eligibility.stays_by_size(plan(task(all_match=False)))
    assert (
        eligibility.stays_by_size(plan(task(all_match=False, file_size=eligibility.MIN_BYTES_TO_PROBE)))
        is None
    )
    assert eligibility.stays_by_size(plan(task())) is None
