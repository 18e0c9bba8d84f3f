"""Undocumented members of PySpark: those that are listed are there, and one that is missing is named."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pyspark = pytest.importorskip("pyspark")

from twostage.errors import UnsupportedFeatureError  # noqa: E402
from twostage.spark import spark_internals  # noqa: E402

FOLDER = Path(spark_internals.__file__).parent
PRIVATE = re.compile(
    r"^_(gateway|jsc|sc|jvm|j[a-z]+|active\w+|instantiated\w+|wrap_function|accumulator\w+)$"
)


def test_what_is_listed_is_there() -> None:
    for module, name in (
        ("pyspark", "SparkContext"),
        ("pyspark.sql", "SparkSession"),
        ("pyspark.java_gateway", "ensure_callback_server_started"),
        ("pyspark.sql.udf", "_wrap_function"),
        ("pyspark.sql.worker.plan_data_source_read", "write_read_func_and_partitions"),
        ("pyspark.serializers", "read_int"),
        ("pyspark.sql.pandas.types", "to_arrow_schema"),
        ("pyspark.accumulators", "_accumulatorRegistry"),
        ("pyspark.daemon", "manager"),
        ("pyspark.daemon", "traceback"),
    ):
        assert spark_internals.module_member(module, name) is not None
        assert name in str(spark_internals.__doc__)
    assert spark_internals.active_context() is spark_internals.active_context()
    assert spark_internals.latest_session() is spark_internals.latest_session()
    assert spark_internals.worker_connection() is None


def test_the_installed_version_was_checked() -> None:
    assert pyspark.__version__ in spark_internals.CHECKED


@pytest.mark.parametrize(
    ("module", "name"),
    [("pyspark.sql.udf", "_wrap_it"), ("pyspark.no_such_module", "f"), ("pyspark.sql.udf.deeper", "f")],
)
def test_what_a_module_lacks_is_named(module: str, name: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        spark_internals.module_member(module, name)
    assert caught.value.code == "SPARK_INTERNALS"
    assert f"PySpark {pyspark.__version__} has no member {module}.{name}" in str(caught.value)
    assert "twostage was checked on PySpark 4.1.4, 4.2.1, 4.3.0" in str(caught.value)


def test_what_an_object_lacks_is_named() -> None:
    from pyspark import SparkContext

    with pytest.raises(UnsupportedFeatureError, match=r"has no member pyspark\.\S*SparkContext\._gate;"):
        spark_internals.member(SparkContext, "_gate")


def test_no_other_module_reaches_into_pyspark() -> None:
    for path in FOLDER.rglob("*.py"):
        names = {
            node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)
        }
        assert path.name == "spark_internals.py" or not {name for name in names if PRIVATE.match(name)}, (
            path.name
        )
