"""Footers of remote Parquet files, shared by the workers of one user on one host.

Takes the path and size of a data file; loads its footer if another worker has read it, and saves the footers
that this worker reads. The rules: a footer is valid for one ETag, which every later request demands; and who
may write the host's files is decided as for deletes (`deletes.cache.host`).

Benefit: with several workers, a second query sends half as many requests (docs/object-stores.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twostage.data_files import parquet_footers
from twostage.deletes.cache import fingerprint
from twostage.deletes.cache.directory import first_usable
from twostage.deletes.cache.host import SUFFIX, HostCache, Purpose
from twostage.errors import TwoStageError

if TYPE_CHECKING:
    from twostage.metrics import Metrics
    from twostage.task import ScanContext, ScanTask, Storage

KIND = "footer"
FOOTERS = Purpose("footer_cache", "footers", "footers.cache-size")
FORMAT = 1
"""Version of the stored form: increment it when the form changes."""


class HostFooters:
    """A task's access to the host's footers.

    Args:
        cache: The host's cache.
        metrics: Gains ``footer_cache.*``.
        storage: Of the task's data files.
    """

    def __init__(self, cache: HostCache, metrics: Metrics, storage: Storage) -> None:
        self._cache = cache
        self._metrics = metrics
        self._store = fingerprint.of_store(storage)

    @staticmethod
    def find(context: ScanContext, metrics: Metrics) -> HostFooters | None:
        """Return the host's footers; None if the options turn them off, or the directory is unusable."""
        settings = context.settings
        if settings.footer_cache != "host":
            return None
        directory, reason = first_usable(settings.footer_cache_dir, "footers")
        if directory is None:
            metrics.add(FOOTERS.counter("unusable"))
            metrics.choices[f"footers are not shared by the host's workers: {reason}"] += 1
            return None
        cache = HostCache(directory, settings.footer_cache_size, metrics, FOOTERS)
        return HostFooters(cache, metrics, context.storage)

    def load(self, task: ScanTask) -> None:
        """Load the footer of a task's data file into this process, if the host has it; takes 0.1 ms."""
        if task.format != "parquet" or parquet_footers.kept_version(task.path, task.file_size) is not None:
            return
        name = self._name(task)
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

    def save(self, task: ScanTask) -> None:
        """Save the footer of a task's data file, which this process has read, for other workers; takes 0.2 ms."""
        kept = parquet_footers.kept_end(task.path, task.file_size) if task.format == "parquet" else None
        if kept is not None:
            version, size, end = kept
            values = {"version": version.hex(), "size": size}
            self._cache.save(self._name(task), KIND, values, [np.frombuffer(end, np.uint8)])

    def forget(self, task: ScanTask) -> None:
        """Remove the footer of an object that was replaced."""
        self._cache.remove(self._name(task))

    def _name(self, task: ScanTask) -> str:
        return f"{KIND}-{fingerprint.digest(FORMAT, fingerprint.of_data_file(task), self._store)}{SUFFIX}"
