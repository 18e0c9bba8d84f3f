"""Selective reads of Apache Iceberg tables in Spark: filter columns first, the others for live rows only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twostage.advisor.query_log import query_log
    from twostage.spark.advise_table import advise
    from twostage.spark.index_jobs import index
    from twostage.spark.session import enable, last_scan, scans

    __version__: str

if sys.version_info < (3, 11):  # noqa: UP036 - pip refuses it, a zip of `--py-files` does not
    raise ImportError(
        "[TWOSTAGE.PYTHON_VERSION] twostage needs Python 3.11 or newer, this is "
        + ".".join(str(part) for part in sys.version_info[:3])
    )

__all__ = ["__version__", "advise", "enable", "index", "last_scan", "query_log", "scans"]


def __getattr__(name: str) -> Any:
    # Every Python worker imports this package, so what only the driver needs is imported on first use.
    if name in ("enable", "last_scan", "scans"):
        from twostage.spark import session  # noqa: PLC0415

        return getattr(session, name)
    if name == "query_log":
        from twostage.advisor.query_log import query_log  # noqa: PLC0415

        return query_log
    if name == "advise":
        from twostage.spark.advise_table import advise  # noqa: PLC0415

        return advise
    if name == "index":
        from twostage.spark.index_jobs import index  # noqa: PLC0415

        return index
    if name == "__version__":
        return _version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    """Return the installed package's version; ``unknown`` if only the modules are on the path."""
    import importlib.metadata  # noqa: PLC0415

    try:
        return importlib.metadata.version("twostage")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
