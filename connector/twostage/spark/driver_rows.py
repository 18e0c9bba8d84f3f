"""Whether a function of PySpark's passes the rows of ``createDataFrame`` on unchanged.

Takes the pickled function of a ``PythonRDD``; the planner's ``DriverRows.java`` asks. ``createDataFrame`` sends its rows
through a function of PySpark's own that changes nothing; ``sc.parallelize(…).map(f).toDF()`` looks the same in Spark's plan,
and may return any number of any rows, different ones each time. The rule: in doubt, it changes them.
"""

from __future__ import annotations

import pickletools
from typing import TYPE_CHECKING

from twostage.errors import UnsupportedFeatureError
from twostage.spark.spark_internals import identity_command

if TYPE_CHECKING:
    from pyspark import SparkContext


def passes_rows_on(command: bytes, context: SparkContext | None) -> bool:
    """Tell whether a pickled function is that of ``createDataFrame``, by comparing the two.

    Nothing is unpickled. All texts and bytes of the two pickles, among them the functions' names and byte code, must be the
    same; numbers are not compared: one of them says how many rows are pickled together.

    Args:
        command: A function with its serializers, as PySpark pickles them for its workers.
        context: The context to make the other in; None says no.
    """
    if context is None:
        return False
    try:
        return _texts(command) == _texts(identity_command(context))
    except (UnsupportedFeatureError, ValueError):  # another PySpark; no pickle
        return False


def _texts(pickled: bytes) -> list[tuple[str, str | bytes | bytearray]]:
    return [
        (opcode.name, value)
        for opcode, value, _ in pickletools.genops(pickled)
        if isinstance(value, (str, bytes, bytearray))
    ]
