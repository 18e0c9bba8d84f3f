"""What twostage uses of PySpark that PySpark does not document: these members and no others, and here only.

Takes PySpark's objects, gives what their members hold. The rule: where a member is missing, `UnsupportedFeatureError` with
the code ``SPARK_INTERNALS`` names it and this PySpark's version. Java's list is ``planner/SparkInternals.java``.

Checked on PySpark 4.1.4, 4.2.1 and 4.3.0 (`CHECKED`), all of:

In the driver:

- ``SparkContext._gateway``, ``._jsc``, ``._active_spark_context``, ``.pythonExec``
- ``SparkSession._sc``, ``._jsparkSession``, ``._instantiatedSession``
- ``pyspark.java_gateway.ensure_callback_server_started``
- ``pyspark.sql.udf._wrap_function``
- ``RDD._pickled``, ``.func``, ``._prev_jrdd_deserializer``, ``._jrdd_deserializer``
- ``pyspark.serializers.CloudPickleSerializer``
- ``pyspark.sql.worker.plan_data_source_read.write_read_func_and_partitions``, ``pyspark.serializers.read_int``

In workers:

- ``pyspark.sql.pandas.types.to_arrow_schema``, with a parameter ``timezone`` since 4.2
- ``pyspark.accumulators._accumulatorRegistry``
- ``pyspark.worker.main``: its variable ``infile``, the connection to Spark's JVM
- ``pyspark.daemon.manager``, and ``traceback`` as the daemon sees it
"""

from __future__ import annotations

import importlib
import inspect
import io
import sys
from typing import TYPE_CHECKING, Any

from twostage.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceReader
    from pyspark.sql.types import StructType

CHECKED = ("4.1.4", "4.2.1", "4.3.0")
"""The versions of PySpark that the tests run on."""


def member(owner: Any, name: str) -> Any:
    """Return an attribute of one of PySpark's objects or classes.

    Raises:
        UnsupportedFeatureError: It has none of this name (SPARK_INTERNALS).
    """
    try:
        return getattr(owner, name)
    except AttributeError:
        kind = owner if isinstance(owner, type) else type(owner)
        raise _missing(f"{kind.__module__}.{kind.__qualname__}.{name}") from None


def module_member(module: str, name: str) -> Any:
    """Return a function, class or value of one of PySpark's modules.

    Raises:
        UnsupportedFeatureError: There is no such module, or it has nothing of this name (SPARK_INTERNALS).
        ModuleNotFoundError: The module needs another library that is not installed.
    """
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("pyspark"):
            raise
        raise _missing(f"{module}.{name}") from None
    except AttributeError:
        raise _missing(f"{module}.{name}") from None


def _missing(name: str) -> UnsupportedFeatureError:
    import pyspark  # noqa: PLC0415

    return UnsupportedFeatureError(
        "SPARK_INTERNALS",
        f"PySpark {pyspark.__version__} has no member {name}",
        stage="options",
        hint=f"twostage was checked on PySpark {', '.join(CHECKED)}: use one of these, or a newer twostage.",
    )


# in the driver


def gateway_of(context: SparkContext) -> Any:
    """Return py4j's gateway to the driver's JVM."""
    return member(context, "_gateway")


def java_context(context: SparkContext) -> Any:
    """Return Spark's own ``SparkContext``."""
    return member(context, "_jsc").sc()


def java_session(session: SparkSession) -> Any:
    """Return Spark's own ``SparkSession``."""
    return member(session, "_jsparkSession")


def is_stopped(session: SparkSession) -> bool:
    """Tell whether a session's context was stopped."""
    return member(member(session, "_sc"), "_jsc") is None


def active_context() -> SparkContext | None:
    """Return the Spark context of this process; the public way would create one where there is none."""
    found: SparkContext | None = member(module_member("pyspark", "SparkContext"), "_active_spark_context")
    return found


def latest_session() -> SparkSession | None:
    """Return the session that was made last; what is active in the JVM may be a stopped one."""
    found: SparkSession | None = member(module_member("pyspark.sql", "SparkSession"), "_instantiatedSession")
    return found


def start_callbacks(gateway: Any) -> None:
    """Let the JVM call objects of this process."""
    module_member("pyspark.java_gateway", "ensure_callback_server_started")(gateway)


def java_function(context: SparkContext, source: type[DataSource]) -> Any:
    """Return a class as Spark's ``PythonFunction``: pickled, with the environment that it is to run in."""
    return module_member("pyspark.sql.udf", "_wrap_function")(context, source)


def worker_python(context: SparkContext) -> str:
    """Return the Python that workers run in."""
    return str(member(context, "pythonExec"))


def identity_command(context: SparkContext) -> bytes:
    """Return what a worker runs for the rows of ``createDataFrame``: a function that changes nothing, pickled."""
    rdd = member(context.parallelize([()]), "_pickled")()
    serializers = member(rdd, "_prev_jrdd_deserializer"), member(rdd, "_jrdd_deserializer")
    serializer = module_member("pyspark.serializers", "CloudPickleSerializer")()
    pickled: bytes = serializer.dumps((member(rdd, "func"), None, *serializers))  # None: no profiler
    return pickled


def pickle_reader(
    reader: DataSourceReader, source: DataSource, schema: StructType
) -> tuple[bytes, list[bytes]]:
    """Return what Spark's planning worker would send: the read function and the partitions, pickled."""
    write = module_member("pyspark.sql.worker.plan_data_source_read", "write_read_func_and_partitions")
    read_int = module_member("pyspark.serializers", "read_int")
    sent = io.BytesIO()
    write(
        sent,
        reader=reader,
        data_source=source,
        schema=schema,
        max_arrow_batch_size=10_000,  # for sources that yield rows; ours yield batches
        binary_as_bytes=True,
    )
    sent.seek(0)
    function = sent.read(read_int(sent))
    return function, [sent.read(read_int(sent)) for _ in range(read_int(sent))]


# in workers


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that this PySpark demands of a source's batches."""
    to_arrow_schema = module_member("pyspark.sql.pandas.types", "to_arrow_schema")
    # 4.2 added the parameter and made it matter; before, timestamps were in UTC without it.
    known = inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if "timezone" in known else to_arrow_schema(schema)


def accumulators() -> dict[int, Any]:
    """Return the accumulators of the worker's task by id; none before it has begun."""
    found: dict[int, Any] = module_member("pyspark.accumulators", "_accumulatorRegistry")
    return found


def worker_connection() -> int | None:
    """Return the file descriptor that this worker reads from Spark; None if this is no PySpark worker."""
    frame = sys._getframe()  # noqa: SLF001 - the worker keeps its connection to itself
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_code.co_varnames:
            try:
                return int(frame.f_locals["infile"].fileno())
            except (OSError, ValueError, KeyError, AttributeError):
                return None
        frame = frame.f_back  # type: ignore[assignment]
    return None
