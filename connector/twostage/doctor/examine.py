"""The checks, in the order in which one rests on another, and their table.

Takes what the command line names; gives findings, and prints them as they are found out. The rule: a module that a broken
installation cannot import is imported inside its check, so that it is a line of the table like everything else.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.doctor.finding import guarded
from twostage.options import ReadSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from twostage.doctor.finding import Finding

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "bold red"}


@dataclass(frozen=True, slots=True)
class Request:
    """What to look at besides the installation.

    Attributes:
        catalogs: Names; empty for all that are configured.
        confs: Spark confs, such as ``spark.sql.catalog.lake.uri``; secrets included: no repr of them.
        settings: Where the caches are.
        spark: Also start a local session.
    """

    catalogs: Sequence[str] = ()
    confs: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: ReadSettings = field(default_factory=ReadSettings)
    spark: bool = False


def findings(request: Request) -> Iterator[Finding]:
    """Yield what each check found, one after another; none raises anything."""
    with _quiet():
        yield from guarded("Installation", _installation)
        yield from guarded("Folders", lambda: _folders(request.settings))
        yield from guarded("Workers' Python", _workers)
        yield from guarded("Catalogs", lambda: _catalogs(request))
        if request.spark:
            yield from guarded("Spark session", _session)


def print_table(found: Sequence[Finding]) -> None:
    """Print the findings: a table where Rich is installed, else lines."""
    try:
        from rich import box  # noqa: PLC0415 - a Python without it has a doctor too
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
        table.add_column("how to mend it", overflow="fold", ratio=2)
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
    yield from guarded(folders.DELETES, lambda: folders.deletes(settings))


def _workers() -> Iterator[Finding]:
    from twostage.doctor import workers  # noqa: PLC0415

    yield from workers.workers()


def _catalogs(request: Request) -> Iterator[Finding]:
    from twostage.doctor import catalogs  # noqa: PLC0415

    yield from catalogs.catalogs(request.catalogs, request.confs)


def _session() -> Iterator[Finding]:
    from twostage.doctor import session  # noqa: PLC0415

    yield from session.session()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Let libraries print nothing meanwhile: their words may hold secrets, and the table says what matters."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
