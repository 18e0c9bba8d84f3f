"""Which columns a scan returns: names, nested pruning, Spark's and Arrow's types."""

from __future__ import annotations

import pytest

from twostage.columns import arrow_schema, find_column, project_names, project_spark, spark_schema
from twostage.errors import OptionError, UnsupportedFeatureError
from twostage.schema import Field, Primitive, Struct, parse_schema

SCHEMA = parse_schema(
    {
        "schema-id": 0,
        "fields": [
            {"id": 1, "name": "id", "type": "long", "required": True},
            {"id": 2, "name": "a.b", "type": "string"},
            {
                "id": 3,
                "name": "st",
                "type": {
                    "type": "struct",
                    "fields": [
                        {"id": 4, "name": "x", "type": "int"},
                        {"id": 5, "name": "y z", "type": "uuid"},
                    ],
                },
            },
            {"id": 6, "name": "nanos", "type": "timestamp_ns"},
        ],
    }
)


def test_a_column_of_an_unsupported_type_is_refused_only_when_wanted():
    assert [field.name for field in project_names(SCHEMA, ["id", "st"])] == ["id", "st"]
    with pytest.raises(UnsupportedFeatureError, match="nanos"):
        project_names(SCHEMA, None)


def test_dotted_names():
    fields = project_names(SCHEMA, ["st.`y z`", "`a.b`", "a.b", "ID"])
    assert [field.name for field in fields] == ["st", "a.b", "id"]
    assert [child.name for child in fields[0].type.fields] == ["y z"]


def test_what_a_log_calls_a_column_in_backticks_is_found():
    """It separates the parts of a name and dots in it alike, and a command has each part in backticks that needs it."""
    schema = parse_schema({"schema-id": 0, "fields": [{"id": 1, "name": "a.b,c", "type": "int"}]})
    assert find_column(schema, "a.`b,c`").id == find_column(schema, "a.b,c").id == 1
    with pytest.raises(OptionError, match=r"goes in backticks: `a\.b,c`"):
        find_column(schema, "c")


def test_a_wrong_name_gets_the_nearest_right_one():
    with pytest.raises(OptionError, match=r"Did you mean 'st\.x'"):
        project_names(SCHEMA, ["st.xx"])


def test_sparks_pruned_schema():
    wanted = spark_schema(project_names(SCHEMA, ["st.x", "id"]))
    fields = project_spark(SCHEMA, wanted)
    assert spark_schema(fields) == wanted
    assert str(fields[0].type) == "struct<x: int>"


def test_arrow_types_are_what_pyspark_expects():
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    types = ["boolean", "int", "long", "float", "double", "decimal(38,9)", "date", "timestamp"]
    types += ["timestamptz", "string", "uuid", "fixed[3]", "binary"]
    fields = [
        {"id": i, "name": f"c{i}", "type": kind, "required": i % 2 == 0} for i, kind in enumerate(types)
    ]
    nested = {
        "type": "map",
        "key-id": 101,
        "key": "string",
        "value-id": 102,
        "value-required": True,
        "value": {
            "type": "list",
            "element-id": 103,
            "element-required": False,
            "element": {
                "type": "struct",
                "fields": [{"id": 104, "name": "q", "type": "date", "required": True}],
            },
        },
    }
    fields.append({"id": 100, "name": "m", "type": nested})
    schema = parse_schema({"schema-id": 0, "fields": fields})
    spark = StructType.fromJson(spark_schema(schema.fields))
    assert arrow_schema(schema.fields).equals(to_arrow_schema(spark, timezone="UTC"))


@pytest.mark.parametrize("default", [None, {4: 7}])
def test_equal_columns_have_one_arrow_schema(default):
    """But where a default cannot be hashed, which changes no type."""

    def columns(name, required):
        inner = Field(id=4, name="x", type=Primitive("int"), required=required)
        return [Field(id=3, name=name, type=Struct((inner,)), initial_default=default)]

    found = arrow_schema(columns("st", required=False))
    again = arrow_schema(columns("st", required=False))
    assert again.equals(found)
    assert default is not None or again is found
    assert not arrow_schema(columns("other", required=False)).equals(found)
    assert not arrow_schema(columns("st", required=True)).equals(found)
