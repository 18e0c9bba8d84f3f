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
    from twostage.options import ReadSettings
    from twostage.task import ScanContext, ScanTask

KIND = "footer"
FOOTERS = Purpose("footer_cache", "footers", "footers.cache-size")
FORMAT = 1
"""Version of the stored form: increment it when the form changes."""


class Footers:
    """The footers of a task's data files: those that this process has cached, and the host's.

    Args:
        context: The scan; its options may turn the host's footers off.
        metrics: Gains ``footer_cache.*``, and the reason if the host's directory is unusable.
    """

    def __init__(self, context: ScanContext, metrics: Metrics) -> None:
        self._metrics = metrics
        self._cache = _host_cache(context.settings, metrics)
        self._store = fingerprint.of_store(context.storage)

    def load(self, task: ScanTask) -> bytes | None:
        """Load the footer of a task's data file into this process, if the host has it; takes 0.1 ms.

        Returns:
            The ETag of the object whose footer this process has; None if it has none.
        """
        kept = parquet_footers.kept_version(task.path, task.file_size)
        if kept is None and self._cache is not None and task.format == "parquet":
            self._load(self._cache, task)
            kept = parquet_footers.kept_version(task.path, task.file_size)
        return kept

    def _load(self, cache: HostCache, task: ScanTask) -> None:
        name = self._name(task)
        file = cache.load(name, KIND)
        if file is None:
            return
        try:
            values = file.description.values
            version, size = bytes.fromhex(values["version"]), values["size"]
            (end,) = (array.tobytes() for array in file.arrays)
            parquet_footers.keep_end(task.path, task.file_size, version, size, end)
        except (KeyError, TypeError, ValueError, TwoStageError) as error:
            cache.ignore(name, str(error))
            return
        self._metrics.add("footer_cache.hits")

    def save(self, task: ScanTask) -> None:
        """Save the footer of a task's data file, which this process has read, for other workers; takes 0.2 ms."""
        if self._cache is None or task.format != "parquet":
            return
        kept = parquet_footers.kept_end(task.path, task.file_size)
        if kept is not None:
            version, size, end = kept
            values = {"version": version.hex(), "size": size}
            self._cache.save(self._name(task), KIND, values, [np.frombuffer(end, np.uint8)])

    def forget(self, task: ScanTask) -> None:
        """Forget the footer of an object that was replaced, here and for other workers."""
        parquet_footers.forget_footer(task.path, task.file_size)
        if self._cache is not None:
            self._cache.remove(self._name(task))

    def _name(self, task: ScanTask) -> str:
        return f"{KIND}-{fingerprint.digest(FORMAT, fingerprint.of_data_file(task), self._store)}{SUFFIX}"


def _host_cache(settings: ReadSettings, metrics: Metrics) -> HostCache | None:
    """Return the host's cache; None if the options turn it off, or the directory is unusable."""
    if settings.footer_cache != "host":
        return None
    directory, reason = first_usable(settings.footer_cache_dir, "footers")
    if directory is None:
        metrics.add(FOOTERS.counter("unusable"))
        metrics.choices[f"footers are not shared by the host's workers: {reason}"] += 1
        return None
    return HostCache(directory, settings.footer_cache_size, metrics, FOOTERS)
