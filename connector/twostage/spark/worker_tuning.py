"""Takes away what makes a short Python task long; changes nothing that other Python code there could notice.

PySpark does two things around each task that cost more than a needle's own work: before it, 4.1 lets the
import system read ``pyspark.zip`` again, once for each package path (Python 3.11); after it, it collects garbage,
which walks everything that was ever imported. TWOSTAGE_WORKER_TUNING=0 leaves both as they are.
"""

from __future__ import annotations

import functools
import gc
import os
import zipimport
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SWITCH = "TWOSTAGE_WORKER_TUNING"


@functools.cache
def tune_worker() -> None:
    """Tune this worker process, once; call it when what a task needs has been imported."""
    if os.environ.get(SWITCH) == "0":
        return
    gc.collect()
    gc.freeze()
    _keep_unchanged_archives()


def _keep_unchanged_archives() -> None:
    """Let an archive's directory be read again only if the archive is another one than before."""
    invalidate: Callable[[zipimport.zipimporter], None] = zipimport.zipimporter.invalidate_caches
    seen: dict[tuple[str, str], tuple[int, int]] = {}

    @functools.wraps(invalidate)
    def invalidate_changed(importer: zipimport.zipimporter) -> None:
        try:
            status = os.stat(importer.archive)  # noqa: PTH116 - runs before every task
        except OSError:
            invalidate(importer)
            return
        version = (status.st_mtime_ns, status.st_size)
        place = (importer.archive, importer.prefix)
        if seen.get(place) != version:
            seen[place] = version
            invalidate(importer)

    zipimport.zipimporter.invalidate_caches = invalidate_changed  # type: ignore[assignment]
