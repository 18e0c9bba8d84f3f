"""Tables with a column of every type, deleted from by SQL; files of several row groups, with Bloom filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import predicates
from case import Case
from values import ddl, rows, value

if TYPE_CHECKING:
    from workshop import Workshop

SMALL_ROW_GROUPS = {
    "write__parquet__row_group_size_bytes": "1",
    "write__parquet__row_group_check_min_record_count": "10",
    "write__parquet__row_group_check_max_record_count": "10",
}
BLOOM = {
    f"write__parquet__bloom_filter_enabled__column__{name}": "true"
    for name in ("i", "l", "f", "d", "s", "bin", "dt", "ts", "st.t")
} | {"write__parquet__bloom_filter_max_bytes": "1024"}  # the default is a megabyte per column and row group
# Finding 3: pushdown by bounds drops NaN, which in Spark is greatest, and distinguishes 0.0 from -0.0.
ORC = "finding 5: ORC statistics of the greatest characters and of year 1"
NAN_AND_ZERO = "finding 3: NaN and -0.0 in pushed-down comparisons"
QUERIES = (
    "SELECT * FROM {t}",
    "SELECT count(*) FROM {t}",
    "SELECT count(*) FROM {t} WHERE i > 0 OR s LIKE 'a%'",
    "SELECT count(i), min(l), max(dt), count(DISTINCT s) FROM {t} WHERE b",
    "SELECT s FROM {t}",
    "SELECT d, f, dec FROM {t} WHERE id % 2 = 0",
    "SELECT st FROM {t} WHERE st.a > 1",
    "SELECT id, st.a FROM {t}",
    "SELECT st.deep.x, st.t FROM {t} WHERE st.deep.x IS NOT NULL",
    "SELECT id, st.deep FROM {t} WHERE s LIKE '%a%'",
    "SELECT st.deep.y FROM {t} WHERE i IS NULL",
    "SELECT la.p FROM {t} WHERE id < 30",
    "SELECT id, la[0].q FROM {t} WHERE size(la) > 0",
    "SELECT mp, ls FROM {t} WHERE l > 0",
    "SELECT mp['k'], id FROM {t} WHERE mp IS NOT NULL",
    "SELECT bin, dt, ts, tn FROM {t} WHERE ts > TIMESTAMP '1970-01-01 00:00:00'",
    "SELECT id, s FROM {t} ORDER BY id LIMIT 7",
    "SELECT id FROM {t} WHERE s = 'ab' ORDER BY id DESC LIMIT 3",
    "SELECT count(*) FROM (SELECT 1 FROM {t} WHERE i IS NOT NULL LIMIT 5)",
    "SELECT b, count(*), sum(id) FROM {t} GROUP BY b",
    "SELECT x.id, y.s FROM {t} x JOIN {t} y ON x.id = y.id + 1 WHERE x.i = 7",
    "SELECT x.id FROM {t} x WHERE x.id IN (SELECT y.id FROM {t} y WHERE y.s = 'a')",
    "SELECT id FROM {t} WHERE i = 7 UNION ALL SELECT id FROM {t} WHERE i = 42 UNION ALL SELECT id FROM {t}",
    "SELECT id, dec * 2, upper(s) FROM {t} WHERE dec > 0 AND length(s) = 2",
)

ZEROS_MISSED = ("f = 0.0", "f = -0.0", "f >= 0.0", "d = 0.0", "d = -0.0", "d IN (0.0, 1.5)")
LISTS = tuple(
    text
    for text in (*predicates.ZEROS, *predicates.EXTREMES, *predicates.MIXED)
    if text not in predicates.CORE_ONLY
)


def _delete_by_sql(workshop: Workshop, name: str) -> None:
    """60 rows in three commits, six row groups each, then DELETE, UPDATE and MERGE."""
    workshop.append(name, rows(0, 60), ddl())
    workshop.append(name, rows(60, 120), ddl())
    workshop.sql(
        f"DELETE FROM {name} WHERE id % 7 = 3",
        f"DELETE FROM {name} WHERE id BETWEEN 20 AND 29",  # a whole row group
        f"UPDATE {name} SET s = 'updated', i = 42, st = named_struct('a', 9, 't', 'new', 'deep', NULL) WHERE id IN (1, 61, 119)",
    )
    workshop.append(name, rows(120, 180), ddl())
    workshop.sql(
        f"MERGE INTO {name} t USING (SELECT explode(array(2, 62, 130, 500)) AS k) u ON t.id = u.k "
        "WHEN MATCHED AND k = 62 THEN DELETE WHEN MATCHED THEN UPDATE SET d = double('NaN'), ls = array('merged') "
        "WHEN NOT MATCHED THEN INSERT (id, s) VALUES (k, 'inserted')",
        f"DELETE FROM {name} WHERE id > 170 AND id < 175",
    )


LIVE = frozenset(
    {
        i
        for i in range(180)
        if not (i < 120 and (i % 7 == 3 or 20 <= i <= 29)) and i != 62 and not 170 < i < 175
    }
    | {500}
)


def _types(version: int, asked: tuple[str, ...], queries: tuple[str, ...]) -> Case:
    def build(workshop: Workshop, name: str) -> None:
        workshop.create(name, ddl(), version=version, **SMALL_ROW_GROUPS, **BLOOM)
        _delete_by_sql(workshop, name)

    return Case(
        name=f"types_v{version}",
        build=build,
        live=LIVE,
        predicates=asked,
        core_predicates=tuple(text for text in predicates.EVERYTHING if text not in asked),
        spark_predicates=predicates.SPARK_ONLY if version == 2 else (),
        queries=queries,
        columns=(("id",), ("s", "id"), ("st",), ("d", "f"), ("la", "mp", "ls"), ("ts", "tn", "dt", "bin")),
        iceberg_wrong={text: NAN_AND_ZERO for text in ZEROS_MISSED if text in asked},
    )


def _format_v1(file_format: str) -> Case:
    """Version 1 has no delete files: Iceberg rewrites data files."""

    def build(workshop: Workshop, name: str) -> None:
        names = ("i", "s", "d", "st")
        workshop.create(
            name,
            ddl(*names),
            version=1,
            write__delete__mode="copy-on-write",
            write__format__default=file_format,
        )
        workshop.append(name, rows(0, 60, *names), ddl(*names))
        workshop.sql(f"DELETE FROM {name} WHERE id % 5 = 0")

    all_asked = (*SHORT_PREDICATES, *predicates.representative_for_column("st.a"))
    return Case(
        name="format_v1" if file_format == "parquet" else f"format_v1_{file_format}",
        build=build,
        live=frozenset(i for i in range(60) if i % 5),
        predicates=all_asked if file_format == "parquet" else (),
        core_predicates=() if file_format == "parquet" else all_asked,
        queries=QUERIES[:3] if file_format == "parquet" else QUERIES[:2],
    )


def _build_codecs(workshop: Workshop, name: str) -> None:
    """One file of each codec, pages of version 2, a metadata file in gzip."""
    names = ("i", "l", "s", "d", "dec", "bin")
    workshop.create(
        name, ddl(*names), write__metadata__compression_codec="gzip", write__parquet__page_row_limit="7"
    )
    for number, codec in enumerate(("zstd", "gzip", "snappy", "uncompressed")):
        workshop.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.parquet.compression-codec'='{codec}')")
        workshop.append(name, rows(number * 50, number * 50 + 50, *names), ddl(*names))
    workshop.sql(
        f"ALTER TABLE {name} SET TBLPROPERTIES ('write.parquet.page-version'='v2')",
        f"DELETE FROM {name} WHERE id % 10 = 4",
    )
    workshop.append(name, rows(200, 250, *names), ddl(*names))


def _build_scheme(workshop: Workshop, name: str) -> None:
    """Paths written ``file:/…`` by the catalog, with deletes."""
    workshop.create(name, ddl("i", "s", "d"))
    workshop.append(name, rows(0, 60, "i", "s", "d"), ddl("i", "s", "d"))
    workshop.sql(f"DELETE FROM {name} WHERE id % 5 = 0")
    workshop.delete_equal(name, ["i"], "SELECT 7 AS i")


def _other_format(file_format: str, version: int = 2) -> Case:
    """Data files in ORC or Avro, with delete files of the same format, in version 3 with vectors."""

    def build(workshop: Workshop, name: str) -> None:
        workshop.create(name, ddl(), version=version, write__format__default=file_format)
        workshop.append(name, rows(0, 60), ddl())
        workshop.append(name, rows(60, 120), ddl())
        workshop.sql(f"DELETE FROM {name} WHERE id % 7 = 3")
        workshop.delete_equal(name, ["i"], "SELECT 42 AS i", file_format=file_format.upper())
        workshop.sql(
            f"ALTER TABLE {name} RENAME COLUMN b TO flag", f"ALTER TABLE {name} ADD COLUMN extra int"
        )

    through_spark = tuple(
        text
        for column in ("i", "s", "d", "ts", "st.a")
        for text in predicates.representative_for_column(column)
    )
    through_spark += ("s >= '\uffff'", "dt = DATE '0001-01-01'", "flag", "extra IS NULL")
    core = dict.fromkeys(
        (*predicates.REPRESENTATIVE, *predicates.ZEROS, *predicates.STRINGS, *predicates.EXTREMES)
    )
    core_only = tuple(text for text in core if text not in (*through_spark, *predicates.BOOLEAN))
    live = frozenset(i for i in range(120) if i % 7 != 3 and value(i, "i") != 42)
    if version == 3:
        return Case(
            name=f"data_{file_format}_v3",
            build=build,
            live=live,
            core_predicates=(*through_spark, *core_only),
            queries=QUERIES[:2],
            columns=(("id",), ("st", "la"), ("flag", "extra")),
        )
    return Case(
        name=f"data_{file_format}",
        build=build,
        live=live,
        predicates=through_spark,
        core_predicates=core_only,
        queries=tuple(query for query in QUERIES[:10] if " b" not in query),
        iceberg_wrong={"s >= '\uffff'": ORC, "dt = DATE '0001-01-01'": ORC} if file_format == "orc" else {},
        columns=(("id",), ("st", "la"), ("flag", "extra"), ("ts", "tn", "dt")),
    )


SHORT_PREDICATES = tuple(
    text for column in ("i", "s", "d") for text in predicates.representative_for_column(column)
)
CASES = (
    _types(2, tuple(dict.fromkeys((*predicates.REPRESENTATIVE, *LISTS, *predicates.STRINGS))), QUERIES),
    _types(3, predicates.MIXED, QUERIES[:8]),
    _other_format("orc"),
    _other_format("avro"),
    _other_format("orc", 3),
    _other_format("avro", 3),
    *map(_format_v1, ("parquet", "orc", "avro")),
    Case(
        name="codecs",
        build=_build_codecs,
        live=frozenset(i for i in range(250) if i >= 200 or i % 10 != 4),
        predicates=(
            *SHORT_PREDICATES,
            *predicates.representative_for_column("dec"),
            *predicates.representative_for_column("bin"),
        ),
        queries=("SELECT * FROM {t}", "SELECT count(*) FROM {t}", "SELECT s FROM {t} WHERE l = 7"),
        columns=(("bin", "id"),),
    ),
    Case(
        name="file_scheme",
        catalog="icefile",
        build=_build_scheme,
        live=frozenset(i for i in range(60) if i % 5 and value(i, "i") != 7),
        predicates=SHORT_PREDICATES,
        queries=("SELECT * FROM {t}",),
    ),
)
