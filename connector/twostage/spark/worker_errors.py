"""Lets an error of ours reach the user with its own text first.

Takes what is raised in Spark's Python workers, which send it to the driver as text. Spark would put the Python traceback
first, so that code, message and hint came last, before Spark's own stack trace. The rule: where the fault may be ours, the
traceback follows the message.
"""

from __future__ import annotations

import contextlib
import os
import re
import traceback
from typing import TYPE_CHECKING

from twostage.errors import CorruptFileError, InternalError, OptionError, TwoStageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_HIDE = "SPARK_HIDE_TRACEBACK"
"""What Spark's conf ``spark.sql.execution.pyspark.udf.hideTraceback.enabled`` sets in the environment of workers."""
_WORKER = "PYTHON_WORKER_FACTORY_"
"""Prefix of the variables by which Spark tells a worker process where to connect."""

_OURS = re.compile(r"\[TWOSTAGE\.([A-Z_]+)\] (.+)")


@contextlib.contextmanager
def text_first() -> Iterator[None]:
    """Let the text of a `TwoStageError` that leaves the block be what Spark shows first.

    Elsewhere than in a worker nothing changes. A worker ends once it has sent an error, so no other error's
    traceback is hidden by what this one sets.
    """
    try:
        yield
    except TwoStageError as error:
        if any(name.startswith(_WORKER) for name in os.environ):
            if isinstance(error, (CorruptFileError, InternalError)):
                error.add_note("".join(traceback.format_exception(error)))
            os.environ[_HIDE] = "1"
        raise


def error_of_worker(error: BaseException, python: str) -> TwoStageError | None:
    """Return the error of ours that Spark reports as a failed task; None where there is none in its text.

    Args:
        error: What a Spark action raised.
        python: The workers' Python.
    """
    text = str(error)
    found = _OURS.search(text)
    if found is not None:
        return TwoStageError(found[1], found[2])
    if "No module named 'twostage'" in text:
        return OptionError(
            "NOT_ON_WORKERS",
            f"The workers' Python has no twostage: {python}",
            stage="options",
            hint="Set PYSPARK_PYTHON to one that has it; docs/catalogs-and-clusters.md says how to ship one.",
        )
    return None
