"""Shredded variants, written by Spark's own Parquet writer and compared with what its reader makes of the same file."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from figures import FULL
from shredded_tables import Shredded, table_of

ROUNDS = int(os.environ.get("TWOSTAGE_VARIANTS", "20" if FULL else "3"))
ROWS = 40
COPIES = 15
DEEP = {
    "type": "struct",
    "fields": [
        {
            "id": 50,
            "name": "l",
            "type": {"type": "list", "element-id": 51, "element": "variant", "element-required": False},
            "required": False,
        },
        {"id": 52, "name": "w", "type": "variant", "required": False},
    ],
}
MAPPING = [
    {"field-id": 1, "names": ["id"]},
    {"field-id": 2, "names": ["v"]},
    {
        "field-id": 3,
        "names": ["deep"],
        "fields": [
            {"field-id": 50, "names": ["l"], "fields": [{"field-id": 51, "names": ["element"]}]},
            {"field-id": 52, "names": ["w"]},
        ],
    },
]
SHOWN = """id, v IS NULL, to_json(v), schema_of_variant(v), is_variant_null(v), to_json(deep),
    transform(deep.l, x -> schema_of_variant(x)), schema_of_variant(deep.w)"""


@pytest.fixture
def shredded(spark):
    """Let Spark's writer shred variants."""
    confs = {
        "spark.sql.variant.writeShredding.enabled": "true",
        "spark.sql.variant.allowReadingShredded": "true",
        "spark.sql.variant.inferShreddingSchema": "false",
        # Spark's own reader, so that the oracle puts whole variants together.
        "spark.sql.variant.pushVariantIntoScan": "false",
    }
    for key, value in confs.items():
        spark.conf.set(key, value)
    yield spark
    for key in (*confs, "spark.sql.variant.forceShreddingSchemaForTest"):
        spark.conf.unset(key)


def write(spark, made: Shredded, folder: Path, schema: str) -> Path:
    """Write random variants, some of them NULL, in pages of a few rows; return the one file."""
    spark.conf.set("spark.sql.variant.forceShreddingSchemaForTest", schema)
    rows, source = [], made.source
    for number in range(ROWS):
        top, left, other = ("NULL" if source.random() < 0.1 else made.value() for _ in range(3))
        rows.append(f"({number}L, {top}, named_struct('l', array({left}, {other}), 'w', {other}))")
    columns = f"id + n * {ROWS} AS id, v, IF(id % 7 = 0, NULL, deep) AS deep"
    frame = spark.sql(
        f"SELECT {columns} FROM VALUES {', '.join(rows)} AS t(id, v, deep), (SELECT id AS n FROM range({COPIES})) "
        "ORDER BY id"
    )
    writer = frame.coalesce(1).write.option("parquet.page.row.count.limit", "20")
    writer.option("parquet.block.size", str(source.choice((2**27, 50_000)))).parquet(str(folder))
    (file,) = folder.glob("*.parquet")
    return file


@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_shredded_variants_are_those_that_spark_reads(shredded, tmp_path, round_number):
    seed = int(os.environ.get("TWOSTAGE_SEED", "4100")) + round_number
    source = random.Random(seed)
    made = Shredded(source)
    schema = made.kind()
    print(f"TWOSTAGE_SEED={seed}: {schema}")
    file = write(shredded, made, tmp_path / "plain", schema)
    metadata = table_of(tmp_path / "table", file, ROWS * COPIES, {"v": "variant", "deep": DEEP})
    raw = json.loads(metadata.read_text())
    raw["properties"] = {**raw.get("properties", {}), "schema.name-mapping.default": json.dumps(MAPPING)}
    metadata.write_text(json.dumps(raw))
    assert "typed_value" in str(pq.read_schema(file))
    shredded.read.parquet(str(tmp_path / "plain")).where("id <> 3").createOrReplaceTempView("oracle")
    reader = shredded.read.format("twostage")
    some = source.sample(range(ROWS * COPIES), 3)
    for pages in ("auto", "never"):
        reader.option("read.pages", pages).load(str(metadata)).createOrReplaceTempView("ours")
        for where in (
            "true",
            f"id IN ({', '.join(map(str, some))})",
            "v IS NULL",
            "deep IS NOT NULL AND id < 70",
        ):
            query = f"SELECT {SHOWN} FROM {{}} WHERE {where} ORDER BY id"
            assert (
                shredded.sql(query.format("ours")).collect() == shredded.sql(query.format("oracle")).collect()
            ), (seed, schema, pages, where)
