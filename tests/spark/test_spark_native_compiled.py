"""Equality deletes in scans that Spark's own Parquet reader does: it leaves out the rows that compiled deletes name."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import oracle
import twostage
from figures import FULL
from lakehouse import canonical, executed_plan
from native_scans import is_native, load, reason
from session_settings import CONFS, settings
from tables import Table
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.compiled import for_planning
from twostage.handover import deleted_bits, eligibility
from twostage.maintenance import compile_deletes
from twostage.options import parse_options
from twostage.planning import splits

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
ROWS = 300


@pytest.fixture(autouse=True)
def look_at_small_files(monkeypatch):
    """Hand over what any filter keeps, and begin with nothing in memory."""
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
    monkeypatch.setattr(eligibility, "MIN_KEPT_SHARE", 0)
    CACHE.clear()


@pytest.fixture(params=["host", "chosen"])
def options(request, tmp_path):
    """Where compiled deletes lie: in the host's cache or in a folder of the user's."""
    if request.param == "host":
        return {"deletes.cache-dir": str(tmp_path / "cache")}
    return {"deletes.cache": "worker", "deletes.compiled-dir": str(tmp_path / "compiled")}


def build(folder: Path, version: int = 2) -> Table:
    """Make a table of four files: with equality deletes, those and positions or a vector, none, and one more."""
    print("seed", SEED)
    pick = random.Random(f"native compiled {SEED}")
    table = Table(folder, {"id": "long", "k": "long", "name": "string"}, version=version)

    def rows(number):
        return [
            {"id": 1000 * number + i, "k": None if i % 41 == 0 else i % 30, "name": f"n{pick.randrange(9)}"}
            for i in range(ROWS + number)
        ]

    first, second = table.append(rows(0), row_group_size=100), table.append(rows(1), page_size=60)
    table.delete_equal(["k"], [{"k": 3}, {"k": None}, {"k": 29}])
    table.append(rows(2))
    table.delete_equal(["k", "name"], [{"k": 4, "name": "n5"}, {"k": 5, "name": "n1"}])
    gone = {second: sorted(pick.sample(range(ROWS), 40)), first: [0, 3, 33, 299]}
    (table.delete_vectors if version == 3 else table.delete_positions)(gone)
    table.append(rows(3))  # under no deletes at all
    return table


def compile_all(path, options) -> None:
    """Keep the compiled deletes of a table where the options say."""
    parsed = parse_options({"path": str(path), **options})
    assert sum(m.counters["delete_compiled.made"] for m in compile_deletes.compile_files(
        compile_deletes.plan_compiling(parsed, {})))  # fmt: skip


def entries(options) -> list[Path]:
    folder = Path(options.get("deletes.compiled-dir") or options["deletes.cache-dir"])
    return sorted(folder.glob("positions-*"))


def live(table: Table) -> list[tuple]:
    """Return the rows of the table as the oracle sees them."""
    return sorted(tuple(row.values()) for row in oracle.live_rows(table.content()))


def check(spark, table, path, options, where="true", select=("id", "k", "name"), handed=True):
    """Compare both readers, and with no filter the oracle; return the report of the first."""
    found = []
    for setting in ("auto", "never"):
        frame = load(spark, path, **options, **{"scan.native": setting}).where(where).selectExpr(*select)
        assert is_native(frame) == (handed and setting == "auto"), executed_plan(frame)
        found.append(frame.collect())
        if setting == "auto":
            report = twostage.last_scan(spark)
    assert canonical(found[0]) == canonical(found[1])
    if where == "true" and select == ("id", "k", "name"):
        key = lambda row: row[0]  # noqa: E731
        assert sorted(map(tuple, found[0]), key=key) == sorted(live(table), key=key)
    return report


@pytest.mark.parametrize("version", [2, 3])
def test_rows_filters_and_aggregates(spark, tmp_path, options, version):
    table = build(tmp_path / "t", version)
    path = table.write()
    compile_all(path, options)
    report = check(spark, table, path, options)
    assert report.count("delete_compiled.hits") == len(entries(options)) == 3
    uses = report.count("delete_files.opened") + report.count("delete_files.cached")
    assert uses == 2  # of the position delete file, or of the two vectors
    everything = sum(ROWS + number for number in range(4))
    assert report.count("handed_over.deleted") == everything - len(live(table))
    by_position = report.count("rows.deleted.position") + report.count("rows.deleted.vector")
    assert by_position == 44
    assert report.count("rows.deleted.compiled") == report.count("handed_over.deleted") - 44
    assert f"{report.count('rows.deleted.compiled')} of them by compiled equality deletes" in str(report)
    assert "3 data files by compiled deletes" in str(report)
    for where in (
        "k >= 3",
        "k IS NULL OR name = 'n1'",
        "id % 7 = 3 AND k < 20",
        "id IN (0, 3, 1004, 2298, 3003)",
    ):
        check(spark, table, path, options, where)
    check(spark, table, path, options, select=("count(1)", "sum(id)", "max(name)", "count(DISTINCT k)"))
    check(spark, table, path, options, select=("name",))
    assert load(spark, path, **options).count() == len(live(table))
    assert "a limit ends it early" in reason(spark, load(spark, path, **options).limit(3))
    ordered = load(spark, path, **options).orderBy("id").limit(5)
    assert is_native(ordered)
    assert [row.id for row in ordered.collect()] == sorted(row[0] for row in live(table))[:5]


@pytest.mark.parametrize(
    "confs", ["no_whole_stage", "no_codegen", "no_adaptive", "no_field_ids", "small_batches"]
)
def test_settings_of_the_session_change_nothing(spark, tmp_path, confs):
    options = {"deletes.cache-dir": str(tmp_path / "cache")}
    table = build(tmp_path / "t")
    path = table.write()
    compile_all(path, options)
    with settings(spark, **CONFS[confs]):
        check(spark, table, path, options)
        check(spark, table, path, options, "k >= 3 AND id % 2 = 1")


def test_a_full_scan_compiles_for_the_next(spark, tmp_path):
    options = {"deletes.compiled-dir": str(tmp_path / "compiled")}
    table = build(tmp_path / "t")
    file = table.content().data[0]
    table.delete_equal(["name"], [{"name": "n7"}])
    path = table.write()
    frame = load(spark, path, **options)
    said = reason(spark, frame)
    assert "4 of 4 files have equality deletes, not compiled: file-" in said
    # Of the first two files beside their positions, about which nobody asked.
    assert twostage.last_scan(spark).count("delete_compiled.written") == 4
    check(spark, table, path, options)
    table.delete_positions({file: [7, 8]})
    path = table.write()
    said = reason(spark, load(spark, path, **options))
    assert "4 of 4 files have equality deletes, compiled for other deletes, or not all of it: file-" in said
    check(spark, table, path, options)
    clean = Table(tmp_path / "c", {"id": "long", "k": "long", "name": "string"})
    clean.append([{"id": i, "k": i % 5, "name": "n"} for i in range(ROWS)])
    clean.delete_equal(["k"], [{"k": 2}])
    path = clean.write()
    assert "not compiled" in reason(spark, load(spark, path, **options))
    check(spark, clean, path, options)


def test_stale_entries(spark, tmp_path, options):
    table = build(tmp_path / "t")
    path = table.write()
    compile_all(path, options)
    table.delete_equal(["k"], [{"k": 11}])
    path = table.write()
    said = reason(spark, load(spark, path, **options))
    assert "4 of 4 files have equality deletes, compiled for other deletes, or not all of it: file-" in said
    compile_all(path, options)
    check(spark, table, path, options)


def test_damaged_entries(spark, tmp_path, options):
    table = build(tmp_path / "t")
    path = table.write()
    compile_all(path, options)
    good = {entry: entry.read_bytes() for entry in entries(options)}
    pick = random.Random(SEED)
    for entry, content in good.items():
        bad = bytearray(content)
        place = pick.choice([number for number, byte in enumerate(content) if byte])  # zeros fill gaps
        bad[place] ^= 1 << pick.randrange(8)
        entry.write_bytes(bad)
        CACHE.clear()
        said = reason(spark, load(spark, path, **options))
        assert (
            "3 of 4 files have equality deletes, whose compiled ones are damaged or unreadable: file-" in said
        ), place
        # The workers that read it here may have made it again, or what serves beside the same positions.
        for other in set(entries(options)) - set(good):
            other.unlink()
        entry.write_bytes(content[:-1])
        os.chmod(entry, 0o600)
        CACHE.clear()
        check(spark, table, path, options, handed=False)
        for other in set(entries(options)) - set(good):
            other.unlink()
        entry.write_bytes(content)
        os.chmod(entry, 0o600)
    CACHE.clear()
    check(spark, table, path, options)


def test_delete_files_are_not_read_while_planning(spark, tmp_path, options):
    """Their names and times are asked for, their bytes not."""
    table = build(tmp_path / "t")
    path = table.write()
    compile_all(path, options)
    for delete in (tmp_path / "t" / "data").glob("equality-*"):
        status = delete.stat()
        delete.write_bytes(bytes(status.st_size))
        os.utime(delete, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert [tuple(row) for row in load(spark, path, **options).orderBy("id").collect()] == sorted(
        live(table), key=lambda row: row[0]
    )
    assert twostage.last_scan(spark).is_handed_over


LIMITS = {
    "bytes": (for_planning, "MAX_BYTES_OF_ALL", 300, "compiled ones of more than 300 bytes"),
    "lookups": (for_planning, "MAX_LOOKUPS", 2, "finding compiled ones takes more than 2 lookups"),
    "bits": (eligibility, "MAX_DELETED_BITS", 1000, "its files with deletes have more than 1,000 rows"),
    "positions": (eligibility, "MAX_DELETED_POSITIONS", 43, "more than 43 rows are deleted"),
    "entries": (eligibility, "MAX_FOOTERS", 2, "compiled deletes of 3 files would have to be read first"),
    "small_files": (
        eligibility,
        "MAX_FOOTERS_AT_ANY_SIZE",
        3,
        "4 delete files of small files would have to be read first",
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_limits(spark, tmp_path, options, limit, monkeypatch):
    table = build(tmp_path / "t")
    path = table.write()
    compile_all(path, options)
    module, name, value, expected = LIMITS[limit]
    with monkeypatch.context() as patched:
        patched.setattr(module, name, value)
        assert expected in reason(spark, load(spark, path, **options))
        check(spark, table, path, options, handed=False)
    check(spark, table, path, options)


def test_without_a_place(spark, tmp_path):
    path = build(tmp_path / "t").write()
    said = reason(spark, load(spark, path, **{"deletes.cache": "worker"}))
    assert "3 of 4 files have equality deletes, and there is no place for compiled ones" in said


def test_entries_of_the_parts_of_a_file(spark, tmp_path, monkeypatch):
    """A scan that cuts a file keeps an entry of each part; all of them together serve."""
    monkeypatch.setattr(splits, "MIN_GROUP_BYTES", 100)
    options = {"deletes.compiled-dir": str(tmp_path / "compiled"), "deletes.cache": "worker"}
    table = Table(tmp_path / "t", {"id": "long", "k": "long", "name": "string"})
    with table.transaction():
        file = table.append([{"id": i, "k": i % 7, "name": f"n{i}"} for i in range(ROWS)], row_group_size=30)
        groups = pq.ParquetFile(file.path).metadata
        places = [groups.row_group(n).column(0) for n in range(groups.num_row_groups)]
        file.entry["split_offsets"] = [c.dictionary_page_offset or c.data_page_offset for c in places]
    table.delete_equal(["k"], [{"k": 3}])
    path = table.write()
    assert "not compiled" in reason(spark, load(spark, path, **options))
    assert twostage.last_scan(spark).count("delete_compiled.written") == len(entries(options)) > 1
    check(spark, table, path, options)
    entries(options)[0].unlink()
    CACHE.clear()
    assert "compiled for other deletes, or not all of it" in reason(spark, load(spark, path, **options))


def test_scans_of_other_deletes_are_not_the_same(spark, tmp_path, options):
    table = Table(tmp_path / "t", {"id": "long", "k": "long", "name": "string"})
    table.append([{"id": i, "k": i % 10, "name": f"n{i % 3}"} for i in range(ROWS)])
    for key in (3, 4):
        table.delete_equal(["k"], [{"k": key}])
        compile_all(table.write(), options)
    old, new = (load(spark, table.write(), versionAsOf=str(s.id), **options) for s in table.snapshots[-2:])
    gone = old.join(new, "id", "left_anti")
    assert "TwoStageFiles" in executed_plan(gone)
    assert {row.k for row in gone.collect()} == {4}
    kept = old.cache()
    try:
        assert kept.count() == 270
        assert new.count() == 240
        assert len(new.collect()) == 240
        assert not new._jdf.queryExecution().logical().sameResult(old._jdf.queryExecution().logical())
    finally:
        kept.unpersist()
    new.createOrReplaceTempView("fresh")
    with settings(spark, **{"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        frame = spark.sql(
            "WITH g AS (SELECT name, sum(id) n FROM fresh GROUP BY name) SELECT a.n, b.n FROM g a JOIN g b USING (name)"
        )
        assert len(frame.collect()) == 3
        assert "ReusedExchange" in executed_plan(frame)


def test_executors_get_spark_s_classes_only(spark, tmp_path):
    options = {"deletes.cache-dir": str(tmp_path / "cache")}
    path = build(tmp_path / "t").write()
    compile_all(path, options)
    frame = load(spark, path, **options)
    assert is_native(frame)
    plan = executed_plan(frame)
    assert "NOT invoke(org.apache.spark.util.collection.BitSet" in plan
    rdd = frame._jdf.queryExecution().toRdd()
    sent = spark._jvm.java.io.ByteArrayOutputStream()
    spark._jvm.java.io.ObjectOutputStream(sent).writeObject(rdd)
    assert b"org.apache.spark.util.collection.BitSet" in bytes(sent.toByteArray())
    assert b"twostage_planner" not in bytes(sent.toByteArray())


def test_many_and_odd_bits_travel(spark, tmp_path, options, monkeypatch):
    """Bits that do not compress, in several texts, of every chunk."""
    monkeypatch.setattr(deleted_bits, "_BYTES_PER_TEXT", 5)
    monkeypatch.setattr(deleted_bits, "_ROWS_PER_CHUNK", 64)
    table = Table(tmp_path / "t", {"id": "long", "k": "long", "name": "string"})
    pick = random.Random(SEED)
    for start in (0, 2000):
        table.append([{"id": start + i, "k": pick.randrange(2), "name": "n"} for i in range(1001)])
    table.delete_equal(["k"], [{"k": 1}])
    path = table.write()
    compile_all(path, options)
    check(spark, table, path, options)


def test_random_tables(spark, tmp_path):
    """Files, deletes of every kind and their order are drawn; some tables have entries in both places."""
    print("seed", SEED)
    pick = random.Random(f"native compiled tables {SEED}")
    for number in range(40 if FULL else 8):
        version = pick.choice([2, 3])
        table = Table(tmp_path / f"t{number}", {"id": "long", "k": "long", "name": "string"}, version=version)
        files = []
        for step in range(pick.randrange(3, 8)):
            kind = pick.choice(["append", "keys", "names", "both", "rows"]) if files else "append"
            if kind == "append":
                rows = [
                    {
                        "id": 1000 * step + i,
                        "k": pick.choice([None, *range(9)]),
                        "name": f"n{pick.randrange(9)}",
                    }
                    for i in range(pick.randrange(1, 70))
                ]
                files.append((table.append(rows, row_group_size=pick.choice([10, 1000])), len(rows)))
            elif kind == "rows":
                chosen = pick.sample(files, pick.randrange(1, len(files) + 1))
                gone = {
                    file: sorted(pick.sample(range(rows), pick.randrange(1, rows + 1)))
                    for file, rows in chosen
                }
                (table.delete_vectors if version == 3 else table.delete_positions)(gone)
            else:
                columns = {"keys": ["k"], "names": ["name"], "both": ["name", "k"]}[kind]
                keys = [{"k": pick.choice([None, 1, 2]), "name": f"n{pick.randrange(9)}"} for _ in range(2)]
                table.delete_equal(columns, [{name: key[name] for name in columns} for key in keys])
        table.append([{"id": 99_000, "k": 1, "name": "n1"}])
        path = table.write()
        options = {"deletes.cache-dir": str(tmp_path / "cache")}
        if pick.random() < 0.5:
            options["deletes.compiled-dir"] = str(tmp_path / "chosen")
        list(
            compile_deletes.compile_files(
                compile_deletes.plan_compiling(parse_options({"path": str(path), **options}), {})
            )
        )
        if pick.random() < 0.5:
            CACHE.clear()
        check(spark, table, path, options)
        check(
            spark,
            table,
            path,
            options,
            pick.choice(["k <= 5", "name <> 'n1' AND id % 3 = 1", "k IS NULL OR id < 2000"]),
        )


def test_few_keys_are_compiled_when_asked(spark, tmp_path):
    """A scan keeps no entry of so few in the host's cache; one that is there serves."""
    options = {"deletes.cache-dir": str(tmp_path / "cache")}
    table = Table(tmp_path / "t", {"id": "long", "k": "long", "name": "string"})
    table.append([{"id": i, "k": i % 5, "name": "n"} for i in range(ROWS)])
    table.delete_equal(["k"], [{"k": 2}])
    path = table.write()
    for _ in range(2):
        assert "not compiled" in reason(spark, load(spark, path, **options))
    assert not entries(options)
    compile_all(path, options)
    check(spark, table, path, options)
