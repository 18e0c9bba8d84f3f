"""Schemas, branches and snapshots that changed, imported files, odd names, maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import predicates
from case import Case
from iceberg_java import add_column
from values import ddl, rows, value

if TYPE_CHECKING:
    from workshop import Workshop

SHORT = ("SELECT * FROM {t}", "SELECT count(*) FROM {t}")


def _build_evolved(workshop: Workshop, name: str) -> None:
    """Renamed, added, dropped, reordered and widened columns, with earlier equality deletes."""
    names = ("i", "f", "dec", "s", "l", "st")
    workshop.create(name, ddl(*names))
    workshop.append(name, rows(0, 60, *names), ddl(*names))
    workshop.delete_equal(name, ["i"], "SELECT 7 AS i")
    workshop.delete_equal(name, ["f"], "SELECT float('NaN') AS f")
    workshop.delete_equal(name, ["s"], "SELECT 'ab' AS s")
    workshop.delete_equal(name, ["l"], "SELECT CAST(NULL AS bigint) AS l")
    workshop.sql(
        f"DELETE FROM {name} WHERE id % 10 = 0",
        f"ALTER TABLE {name} ALTER COLUMN i TYPE bigint",
        f"ALTER TABLE {name} ALTER COLUMN f TYPE double",
        f"ALTER TABLE {name} ALTER COLUMN dec TYPE decimal(15,2)",
        f"ALTER TABLE {name} RENAME COLUMN s TO text",
        f"ALTER TABLE {name} DROP COLUMN l",
        f"ALTER TABLE {name} ADD COLUMN extra string FIRST",
        f"ALTER TABLE {name} ADD COLUMN st.more int",
        f"ALTER TABLE {name} RENAME COLUMN st.t TO word",
        f"ALTER TABLE {name} ALTER COLUMN dec AFTER text",
    )
    workshop.sql(
        f"INSERT INTO {name} (id, i, text, f, extra, st) VALUES "
        "(100, 7000000000, 'ab', 0.1D, 'new', named_struct('a', 1, 'word', 'w', 'deep', NULL, 'more', 5)), (101, 7, NULL, double('NaN'), NULL, NULL)"
    )
    workshop.delete_equal(name, ["i"], "SELECT 42L AS i")
    workshop.delete_equal(name, ["text", "extra"], "SELECT 'b' AS text, CAST(NULL AS string) AS extra")
    workshop.sql(f"INSERT INTO {name} (id, extra) VALUES (102, 'z')")


def _evolved_live() -> frozenset[int]:
    deleted = {
        i
        for i in range(60)
        if value(i, "i") in (7, 42)
        or value(i, "f") != value(i, "f")
        or value(i, "s") in ("ab", "b")
        or value(i, "l") is None
        or i % 10 == 0
    }
    return frozenset(set(range(60)) - deleted | {100, 101, 102})


EVOLVED = Case(
    name="evolved",
    build=_build_evolved,
    live=_evolved_live(),
    predicates=(
        "i = 0",
        "i > 2147483647",
        "i <= -2147483648",
        "i IN (3, 7000000000)",
        "f = 1.5",
        "f > 3E38",
        "f = 0.1",
        "dec = -1.50",
        "dec > 9999999.98",
        "dec IS NULL",
        "text = 'abc'",
        "text LIKE 'prefix%'",
        "text IS NULL",
        "extra IS NULL",
        "extra = 'new'",
        "extra <=> NULL AND i > 0",
        "st.word = 'one'",
        "st.more IS NULL",
        "st.more = 5",
        "st.a = 1 AND st.more <=> NULL",
    ),
    spark_predicates=("f = double('NaN')", "f > float(0.1)", "try_cast(i AS int) = 3"),
    queries=(
        *SHORT,
        "SELECT extra, st.more, st.word FROM {t}",
        "SELECT st FROM {t} WHERE text > 'a'",
        "SELECT id, dec FROM {t} WHERE dec < 0",
    ),
    columns=(("extra",), ("text", "dec"), ("st",)),
    iceberg_wrong=dict.fromkeys(
        ("f > 3E38", "f > float(0.1)"), "findings 2 and 3: NaN, as a deleted key and as a value"
    ),
)


def _build_versions(workshop: Workshop, name: str) -> None:
    """Snapshots, a tag and a branch, then a rename and a new column."""
    names = ("i", "s")
    workshop.create(name, ddl(*names))
    workshop.append(name, rows(0, 30, *names), ddl(*names))
    workshop.mark(name, "versions_first")
    workshop.sql(f"DELETE FROM {name} WHERE id % 5 = 1")
    workshop.mark(name, "versions_second")
    workshop.sql(
        f"ALTER TABLE {name} CREATE TAG `of deletes`",
        f"ALTER TABLE {name} CREATE BRANCH audit",
        f"DELETE FROM {name}.branch_audit WHERE id < 4",
    )
    workshop.delete_equal(name, ["s"], "SELECT 'a' AS s", branch="audit")
    workshop.append(name, rows(30, 40, *names), ddl(*names), branch="audit")
    workshop.sql(
        f"ALTER TABLE {name} RENAME COLUMN s TO text",
        f"ALTER TABLE {name} ADD COLUMN extra int",
        f"INSERT INTO {name} VALUES (50, 1, 'fifty', 5)",
        f"DELETE FROM {name} WHERE id = 2",
    )


_BRANCH = {i for i in range(40) if i >= 30 or (i % 5 != 1 and i >= 4 and value(i, "s") != "a")}
_OLD = ("i = 7", "s = 'abc'", "s LIKE 'a%'", "i IS NULL", "id > 10")
_NEW = ("i = 7", "text = 'abc'", "text LIKE 'a%'", "extra IS NULL", "extra = 5", "id > 10")
# Finding 7: a branch shows the table's current schema, and filters on the new names fail.
_ON_BRANCH = "raises: finding 7, a branch read after a rename"
VERSIONS = (
    Case(
        name="version_current",
        table="versions",
        build=_build_versions,
        live=frozenset({i for i in range(30) if i % 5 != 1 and i != 2} | {50}),
        predicates=_NEW,
        queries=SHORT,
    ),
    Case(
        name="version_first",
        table="versions",
        build=_build_versions,
        version="VERSION AS OF @versions_first",
        options={"versionAsOf": "@versions_first"},
        live=frozenset(range(30)),
        predicates=_OLD,
        queries=SHORT,
    ),
    Case(
        name="version_second_by_id",
        table="versions",
        build=_build_versions,
        version="VERSION AS OF @versions_second",
        options={"snapshot-id": "@versions_second"},
        live=frozenset(i for i in range(30) if i % 5 != 1),
        predicates=_OLD,
        queries=SHORT,
    ),
    Case(
        name="version_tag",
        table="versions",
        build=_build_versions,
        version="VERSION AS OF 'of deletes'",
        options={"tag": "of deletes"},
        live=frozenset(i for i in range(30) if i % 5 != 1),
        predicates=_OLD,
        queries=SHORT,
    ),
    Case(
        name="version_branch",
        table="versions",
        build=_build_versions,
        version="VERSION AS OF 'audit'",
        options={"branch": "audit"},
        live=frozenset(_BRANCH),
        predicates=_NEW,
        queries=SHORT,
        iceberg_wrong=dict.fromkeys((text for text in _NEW if "text" in text or "extra" in text), _ON_BRANCH),
    ),
)


def _build_widened(workshop: Workshop, name: str) -> None:
    """Version 3: columns with initial defaults, of types that Spark's DDL lacks."""
    workshop.create(name, ddl("i", "s"), version=3)
    workshop.append(name, rows(0, 30, "i", "s"), ddl("i", "s"))
    spark = workshop.spark
    add_column(spark, name, "n", "int", 5)
    add_column(spark, name, "word", "string", "default")
    add_column(spark, name, "rate", "double", 1.5)
    add_column(spark, name, "day", "date", "2024-02-29")
    add_column(spark, name, "price", "decimal(9,2)", "1.25")
    add_column(spark, name, "u", "uuid")
    add_column(spark, name, "x", "fixed[2]")
    workshop.sql(
        f"INSERT INTO {name} VALUES "
        "(100, 1, 'one', NULL, NULL, NULL, NULL, NULL, '00000000-0000-0000-0000-000000000001', X'0102'), "
        "(101, 2, 'two', 6, 'w', 0.0D, DATE '2000-01-01', 2.50, 'f0000000-0000-0000-0000-000000000002', X'FFFE'), "
        "(102, 3, 'three', 5, 'default', -0.0D, NULL, 1.25, NULL, NULL)",
        f"DELETE FROM {name} WHERE id % 10 = 5",
    )
    workshop.delete_equal(name, ["n", "i"], "SELECT 5 AS n, -1 AS i")
    workshop.delete_equal(name, ["u"], "SELECT 'f0000000-0000-0000-0000-000000000002' AS u")


DEFAULTS = Case(
    name="defaults",
    build=_build_widened,
    live=frozenset({i for i in range(30) if i % 10 != 5 and value(i, "i") != -1} | {100, 102}),
    predicates=(
        "n = 5",
        "n <> 5",
        "n IS NULL",
        "n > 4 AND i = 7",
        "word = 'default'",
        "word LIKE 'def%'",
        "word IS NULL",
        "rate = 1.5",
        "rate = 0.0",
        "day = DATE '2024-02-29'",
        "day < DATE '2024-01-01'",
        "price = 1.25",
        "price > 2",
        "u = '00000000-0000-0000-0000-000000000001'",
        "u IS NULL",
        "u IS NOT NULL",
        "x = X'0102'",
        "x > X'7F'",
        "x IS NULL",
    ),
    spark_predicates=(
        "u > '80000000-0000-0000-0000-000000000000'",
        "u <> '00000000-0000-0000-0000-000000000001'",
        "u IN ('f0000000-0000-0000-0000-000000000002')",
        "u LIKE 'f%'",
    ),
    queries=(*SHORT, "SELECT n, word, price FROM {t}", "SELECT u, x FROM {t} WHERE id >= 100"),
    columns=(("n", "word"), ("u", "x"), ("day", "price", "rate")),
)


def _build_names(workshop: Workshop, name: str) -> None:
    columns = "id bigint, `a.b` int, `sp ace` string, `tick``s` int, `naïve` string, `select` int, `MiXed` int, `in.side` struct<`x.y`: int, `z z`: string>"
    workshop.create(name, columns)
    made = [(i, i % 3, "ab"[i % 2], i, "ü", i % 4, -i, (i % 5, "q")) for i in range(40)]
    workshop.append(name, made, columns)
    workshop.sql(f"DELETE FROM {name} WHERE `a.b` = 1")
    workshop.delete_equal(name, ["sp ace", "select"], "SELECT 'b' AS `sp ace`, 3 AS `select`")


NAMES = Case(
    name="names",
    build=_build_names,
    live=frozenset(i for i in range(40) if i % 3 != 1 and i % 4 != 3),
    predicates=(
        "`a.b` = 2",
        "`sp ace` = 'a'",
        "`tick``s` > 20",
        "`naïve` = 'ü'",
        "`select` IN (1, 2)",
        "MiXed < -10",
        "mixed < -10",
        "`in.side`.`x.y` = 3",
        "`in.side`.`z z` = 'q' AND id < 9",
        "`a.b` = `select`",
    ),
    queries=(
        *SHORT,
        "SELECT `a.b`, `sp ace`, `tick``s` FROM {t}",
        "SELECT `in.side`.`x.y`, `MIXED` FROM {t} WHERE `naïve` > 'a'",
    ),
    columns=(("`a.b`", "`sp ace`"), ("`in.side`",), ("`select`", "MiXed")),
)


def _build_maintained(workshop: Workshop, name: str) -> None:
    """Compaction between deletes: rewritten data keeps the sequence numbers of what it replaces."""
    names = ("i", "s", "d")
    workshop.create(name, ddl(*names))
    for start in (0, 20, 40):
        workshop.append(name, rows(start, start + 20, *names), ddl(*names))
    workshop.sql(f"DELETE FROM {name} WHERE id % 9 = 1", f"DELETE FROM {name} WHERE id % 9 = 2")
    workshop.delete_equal(name, ["i"], "SELECT 7 AS i")
    table = name.partition(".")[2]
    workshop.sql(
        f"CALL ice.system.rewrite_position_delete_files(table => '{table}', options => map('rewrite-all', 'true'))",
        f"CALL ice.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true', 'use-starting-sequence-number', 'true'))",
    )
    workshop.append(name, rows(60, 80, *names), ddl(*names))
    workshop.delete_equal(name, ["s"], "SELECT 'abc' AS s")
    workshop.sql(
        f"DELETE FROM {name} WHERE id > 75",
        f"CALL ice.system.rewrite_manifests('{table}')",
    )


MAINTAINED = Case(
    name="maintained",
    build=_build_maintained,
    live=frozenset(
        i
        for i in range(76)
        if not (i < 60 and (i % 9 in (1, 2) or value(i, "i") == 7)) and value(i, "s") != "abc"
    ),
    predicates=tuple(text for column in ("i", "s") for text in predicates.representative_for_column(column)),
    queries=SHORT,
)


def _build_imported(workshop: Workshop, name: str) -> None:
    """Parquet files written by Spark, without field ids, in Hive-style folders; a rename after the import."""
    spark = workshop.spark
    folder = f"{spark.conf.get('interop.warehouse')}/imported_files"
    frame = spark.createDataFrame(rows(0, 40, "i", "s", "st", "ls", "b"), ddl("i", "s", "st", "ls", "b"))
    frame.coalesce(1).write.partitionBy("b").parquet(folder)
    workshop.create(name, ddl("i", "s", "st", "ls", "b"), partitioned="b")
    workshop.sql(
        f"CALL ice.system.add_files(table => '{name.partition('.')[2]}', source_table => '`parquet`.`{folder}`')",
        f"DELETE FROM {name} WHERE id % 10 = 3",
        f"ALTER TABLE {name} RENAME COLUMN s TO text",
    )
    workshop.delete_equal(name, ["text"], "SELECT 'ab' AS text", partition="b=true")
    workshop.append(
        name,
        [(50, 7, "late", None, ["x"], True)],
        ddl("i", "s", "st", "ls", "b").replace("s string", "text string"),
    )


IMPORTED = Case(
    name="imported",
    build=_build_imported,
    predicates=(
        "i = 7",
        "text = 'abc'",
        "text LIKE 'a%'",
        "st.t = 'one'",
        "b",
        "b IS NULL",
        "NOT b AND i > 0",
        "text IS NULL",
    ),
    queries=(*SHORT, "SELECT text, b FROM {t} WHERE i > 0", "SELECT st.a, ls FROM {t}"),
    columns=(("text", "b"), ("ls", "st")),
)

CASES = (EVOLVED, *VERSIONS, DEFAULTS, NAMES, MAINTAINED, IMPORTED)
