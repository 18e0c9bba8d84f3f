"""Keys of joins that are texts compared otherwise than byte by byte: collations, and the padding of CHAR(n).

The rows are those of the same session without dynamic filters; such keys filter nothing that they may not.
"""

from __future__ import annotations

import pytest

import twostage
from joined_tables import confs
from native_scans import load
from tables import Table

TEXTS = ("", "a", "A", "ab", "AB", "Ab", "ab   ", "ab\t", "ä", "Ä", "a\u0308", "ß", "ss", "İ", "i", None)
COLLATED = "SELECT /*+ BROADCAST(d) */ f.id, d.k FROM text_fact f JOIN {side} d ON {on}"
COLLATIONS = ("UTF8_LCASE", "UNICODE", "UNICODE_CI_AI", "UTF8_BINARY_RTRIM")
OFF = {"sql_optimizer_dynamicPartitionPruning_enabled": "false", "twostage_dynamicFilter_enabled": "false"}
CASES = {
    "plain": ("text_keys", "f.s = d.k"),
    **{f"one side {name}": ("text_keys", f"f.s COLLATE {name} = d.k") for name in COLLATIONS},
    "the other side": ("text_keys", "f.s = d.k COLLATE UTF8_LCASE"),
    "collated column": ("collated_keys", "f.s COLLATE UTF8_LCASE = d.k"),
    "collated, cast back": ("collated_keys", "f.s = d.k COLLATE UTF8_BINARY"),
    "with another key": ("collated_keys", "f.s COLLATE UTF8_LCASE = d.k AND f.n = d.n"),
    "CHAR": ("char_keys", "f.s = d.k"),
    "CHAR, padded here": ("char_keys", "rpad(f.s, 5, ' ') = d.k"),
    "CHAR, trimmed": ("char_keys", "f.s = rtrim(d.k)"),
}
"""By name: the side that gives keys, and the condition of the join."""
FILTERED = {"plain", "collated, cast back", "CHAR", "CHAR, trimmed"}
"""The cases in which the texts are compared byte by byte, so that they filter the scan."""


@pytest.fixture(scope="module")
def sides(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    table = Table(folder / "fact", {"id": "int", "n": "int", "s": "string"})
    rows = [{"id": place, "n": place % 3, "s": TEXTS[place % len(TEXTS)]} for place in range(96)]
    for first in range(0, 96, 32):
        table.append(rows[first : first + 32], row_group_size=8)
    load(spark, table.write(), **{"scan.native": "never"}).createOrReplaceTempView("text_fact")
    keys = [("ab", 0), ("Ä", 1), ("ss", 2), ("I", 0), (None, 1)]
    spark.createDataFrame(keys, "k string, n int").createOrReplaceTempView("text_keys")
    spark.createDataFrame(keys, "k string collate UTF8_LCASE, n int").createOrReplaceTempView("collated_keys")
    spark.sql(f"CREATE TABLE char_keys (k CHAR(5), n INT) USING parquet LOCATION '{folder / 'char'}'")
    spark.sql("INSERT INTO char_keys VALUES ('ab', 0), ('Ä', 1), ('ss', 2), (NULL, 1)")
    yield
    spark.sql("DROP TABLE char_keys")


@pytest.mark.parametrize("limits", [{}, {"maxKeys": "0"}], ids=["list", "many"])
@pytest.mark.parametrize("hint", ["BROADCAST", "MERGE"])
@pytest.mark.parametrize("case", sorted(CASES))
def test_texts_join_as_without_filters(spark, sides, bridge, case, hint, limits):
    side, on = CASES[case]
    query = COLLATED.format(side=side, on=on).replace("BROADCAST", hint)
    with confs(spark, "spark.", **OFF):
        expected = sorted(tuple(row) for row in spark.sql(query).collect())
    assert expected
    seen = {report.scan_id for report in twostage.scans(spark)}
    with confs(spark, "spark.twostage.dynamicFilter.", maxBuildShare="1000", **limits):
        found = sorted(tuple(row) for row in spark.sql(query).collect())
    assert found == expected
    (report,) = [report for report in twostage.scans(spark) if report.scan_id not in seen]
    keys = "s IN Bloom filter of" if limits else "s IN ("
    assert (keys in report.predicate) == (case in FILTERED), report.predicate
