"""Selective reads of Apache Iceberg tables in Spark: filter columns first, the rest for the rows that live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twostage.spark.session import enable, last_scan, scans

__version__ = "0.1.0"
__all__ = ["__version__", "enable", "last_scan", "scans"]


def __getattr__(name: str) -> Any:
    # Executors import this package for every Python worker: what only the driver needs loads when it is used.
    if name in ("enable", "last_scan", "scans"):
        from twostage.spark import session  # noqa: PLC0415

        return getattr(session, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
