"""Selective reads of Apache Iceberg tables in Spark: filter columns first, the rest for the rows that live."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twostage.spark.session import enable, last_scan, scans

    __version__: str

if sys.version_info < (3, 11):  # noqa: UP036 - pip refuses it, a zip of `--py-files` does not
    raise ImportError(
        "[TWOSTAGE.PYTHON_VERSION] twostage needs Python 3.11 or newer, this is "
        + ".".join(str(part) for part in sys.version_info[:3])
    )

__all__ = ["__version__", "enable", "last_scan", "scans"]


def __getattr__(name: str) -> Any:
    # Executors import this package for every Python worker: what only the driver needs loads when it is used.
    if name in ("enable", "last_scan", "scans"):
        from twostage.spark import session  # noqa: PLC0415

        return getattr(session, name)
    if name == "__version__":
        return _version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    """Return the installed package's version; ``unknown`` where only the modules are on the path."""
    import importlib.metadata  # noqa: PLC0415

    try:
        return importlib.metadata.version("twostage")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
