"""Ends of remote Parquet files that the workers of one user on one host share.

Takes the path and size of a data file; lets this worker know its footer if another one has read it, and others know what this
one read. The rules: a footer serves the object of one ETag, which every later request asks for; and who may write the
host's files is decided as for deletes (`deletes.cache.host`).

Earns: half of the requests of a second query, where more workers than one read (docs/object-stores.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twostage.data_files import parquet_footers
from twostage.deletes.cache import fingerprint
from twostage.deletes.cache.directory import first_usable
from twostage.deletes.cache.host import SUFFIX, HostCache, Purpose
from twostage.errors import TwoStageError
from twostage.storage.store_identity import stores_of

if TYPE_CHECKING:
    from twostage.metrics import Metrics
    from twostage.task import ScanContext, ScanTask

KIND = "footer"
FOOTERS = Purpose("footer_cache", "footers", "footers.cache-size")
FORMAT = 1
"""Of what is written: raise it when its meaning changes."""


class HostFooters:
    """The host's footers as a task uses them.

    Args:
        cache: Of the host.
        metrics: Gains ``footer_cache.*``.
    """

    def __init__(self, cache: HostCache, metrics: Metrics) -> None:
        self._cache = cache
        self._metrics = metrics

    @staticmethod
    def find(context: ScanContext, metrics: Metrics) -> HostFooters | None:
        """Return the footers that the options name; None where they name none, or the directory is unusable."""
        settings = context.settings
        if settings.footer_cache != "host":
            return None
        directory, reason = first_usable(settings.footer_cache_dir, "footers")
        if directory is None:
            metrics.add(FOOTERS.counter("unusable"))
            metrics.choices[f"footers are not shared by the host's workers: {reason}"] += 1
            return None
        return HostFooters(HostCache(directory, settings.footer_cache_size, metrics, FOOTERS), metrics)

    def bring(self, context: ScanContext, task: ScanTask) -> None:
        """Let this worker know the footer of a task's data file, if the host has it; takes 0.1 ms."""
        if task.format != "parquet" or parquet_footers.kept_version(task.path, task.file_size) is not None:
            return
        name = _name(context, task)
        file = self._cache.load(name, KIND)
        if file is None:
            return
        try:
            values = file.description.values
            version, size = bytes.fromhex(values["version"]), values["size"]
            (end,) = (array.tobytes() for array in file.arrays)
            parquet_footers.keep_end(task.path, task.file_size, version, size, end)
        except (KeyError, TypeError, ValueError, TwoStageError) as error:
            self._cache.ignore(name, str(error))
            return
        self._metrics.add("footer_cache.hits")

    def share(self, context: ScanContext, task: ScanTask) -> None:
        """Let other workers know the footer of a task's data file, which this one has read; takes 0.2 ms."""
        kept = parquet_footers.kept_end(task.path, task.file_size) if task.format == "parquet" else None
        if kept is not None:
            version, size, end = kept
            values = {"version": version.hex(), "size": size}
            self._cache.save(_name(context, task), KIND, values, [np.frombuffer(end, np.uint8)])

    def forget(self, context: ScanContext, task: ScanTask) -> None:
        """Remove the footer of an object that was replaced."""
        self._cache.remove(_name(context, task))


def _name(context: ScanContext, task: ScanTask) -> str:
    stores = stores_of(context.storage.properties)
    return f"{KIND}-{fingerprint.digest(FORMAT, fingerprint.of_data_file(task), stores)}{SUFFIX}"
