"""The doctor's checks, in the order in which they depend on each other, and the table of their findings.

Takes an `Examination` from the command line; yields findings and prints them. Modules that a broken installation cannot
import are imported inside their check, so that the failure is a finding too.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from twostage.doctor.finding import guarded
from twostage.options import ReadSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from twostage.doctor.finding import Finding

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "bold red"}


@dataclass(frozen=True, slots=True)
class Examination:
    """What to check in addition to the installation.

    Attributes:
        catalogs: Names of catalogs; empty for all that are configured.
        confs: Spark confs, such as ``spark.sql.catalog.lake.uri``; they contain secrets, so the repr omits them.
        settings: The reader's settings, for the locations of the caches.
        spark: Whether to start a local session too.
    """

    catalogs: Sequence[str] = ()
    confs: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: ReadSettings = field(default_factory=ReadSettings)
    spark: bool = False


def findings(examination: Examination) -> Iterator[Finding]:
    """Run the checks and yield their findings; exceptions are findings too."""
    with _quiet():
        yield from guarded("Installation", _installation)
        yield from guarded("Folders", lambda: _folders(examination.settings))
        yield from guarded("Workers' Python", _workers)
        yield from guarded("Catalogs", lambda: _catalogs(examination))
        if examination.spark:
            yield from guarded("Spark session", _session)


def print_table(found: Sequence[Finding]) -> None:
    """Print the findings as a table if Rich is installed, otherwise as lines."""
    try:
        from rich import box  # noqa: PLC0415 - the doctor works without it
        from rich.console import Console  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415
    except ImportError:
        for one in found:
            print(one.check, one.state, one.found, one.mend, sep="\t")  # noqa: T201
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("check", overflow="fold")
    table.add_column("", no_wrap=True)
    table.add_column("found", overflow="fold", ratio=3)
    if any(one.mend for one in found):
        table.add_column("how to fix it", overflow="fold", ratio=2)
    for one in found:
        cells = [Text(one.check), Text(one.state, style=_COLOURS[one.state]), Text(one.found), Text(one.mend)]
        table.add_row(*cells[: len(table.columns)])
    Console(highlight=False).print(table)


def _installation() -> Iterator[Finding]:
    from twostage.doctor import installation  # noqa: PLC0415

    for check, examine in (
        ("Python", installation.python),
        ("twostage", installation.twostage_itself),
        ("Libraries", installation.libraries),
        ("Java", installation.java),
        ("PySpark", installation.pyspark),
    ):
        yield from guarded(check, examine)


def _folders(settings: ReadSettings) -> Iterator[Finding]:
    from twostage.doctor import folders  # noqa: PLC0415

    yield from guarded(folders.KERNELS, folders.kernels)
    for cache in folders.HOST_CACHES:
        yield from guarded(cache.check, partial(folders.host_cache, cache, settings))


def _workers() -> Iterator[Finding]:
    from twostage.doctor import workers  # noqa: PLC0415

    yield from workers.workers()


def _catalogs(examination: Examination) -> Iterator[Finding]:
    from twostage.doctor import catalogs  # noqa: PLC0415

    yield from catalogs.catalogs(examination.catalogs, examination.confs)


def _session() -> Iterator[Finding]:
    from twostage.doctor import session  # noqa: PLC0415

    yield from session.session()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence logging and warnings of libraries, which may contain secrets."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
