"""Which kind of log is at a place, and how to open its bucket.

Takes places, the reader's options and Spark's confs; returns logs that can be iterated. The rule: a log in a
bucket is opened with what opens the table: the same ``catalog.*`` options and confs, and the table's own
storage properties.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from twostage.advisor.event_log import EventLogs
from twostage.advisor.query_log import SUFFIX, QueryLog
from twostage.catalog.load_table import load_table
from twostage.catalog.properties import file_properties, hadoop_properties
from twostage.errors import OptionError, TwoStageError
from twostage.storage import files
from twostage.storage.location import parse_location
from twostage.task import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from twostage.options import ReadOptions

Source = str | QueryLog | EventLogs
_EVENT = b'{"Event"'
"""The start of each line of Spark's event logs."""


def open_log(place: str, access: Storage | None = None) -> QueryLog | EventLogs:
    """Return the log at a place: a query log if its files have that suffix and not Spark's start, else event logs.

    Args:
        place: A file or a folder, local or in a bucket.
        access: How buckets are opened.

    Raises:
        StorageError: No access, no network.
    """
    access = access or Storage()
    storage = Storage(properties=access.properties, root=place, client=access.client)
    kind = QueryLog if _is_query_log(place, storage) else EventLogs
    return kind(place, storage.properties, client=storage.client)


def _is_query_log(place: str, storage: Storage) -> bool:
    if place.endswith(SUFFIX):
        return not _is_event_log(place, storage)
    if parse_location(place).is_local:
        return any(Path(parse_location(place).path).glob(f"*{SUFFIX}"))
    entries = files.list_folder(storage, place)
    if not entries:
        return not files.exists(storage, place)
    return any(not entry.is_folder and entry.name.endswith(SUFFIX) for entry in entries)


def _is_event_log(place: str, storage: Storage) -> bool:
    try:
        with files.open_file(storage, place) as file:
            return bytes(file.read(len(_EVENT))) == _EVENT
    except (TwoStageError, OSError):
        return False  # reading it will report what is wrong


def open_logs(log: Source | Iterable[Source], access: Storage | None = None) -> list[QueryLog | EventLogs]:
    """Return one log or several, each opened."""
    return [open_log(one, access) if isinstance(one, str) else one for one in sources_of(log)]


def query_logs(log: Source | Iterable[Source], access: Storage | None = None) -> list[QueryLog]:
    """Return logs, all of which must be twostage's own.

    Raises:
        NotFoundError: There is no log at one of the places.
        OptionError: One of them is Spark's.
    """
    opened = open_logs(log, access)
    for one in opened:
        if isinstance(one, EventLogs):
            one.applications()
    ours = [one for one in opened if isinstance(one, QueryLog)]
    if len(ours) < len(opened):
        raise OptionError(
            "BAD_OPTION",
            "This takes only twostage's query log, not Spark's event logs",
            stage="options",
            hint="Spark's event logs say neither what a filter's parts took nor which indexes were used.",
        )
    return ours


def sources_of(log: Source | Iterable[Source]) -> list[Source]:
    """Return one log or several as a list."""
    return [log] if isinstance(log, str | QueryLog | EventLogs) else list(log)


def log_access(log: Source | Iterable[Source], options: ReadOptions, confs: Mapping[str, str]) -> Storage:
    """Return how the buckets of logs are opened.

    Args:
        log: The logs; for local ones nothing is looked up.
        options: The reader's; ``path`` names the table, if any, whose storage properties are used, too.
        confs: Spark's, for catalogs and Hadoop's S3A.
    """
    places = [one for one in sources_of(log) if isinstance(one, str)]
    if all(parse_location(place).is_local for place in places):
        return Storage()
    properties = dict(hadoop_properties(confs))
    if options.path:
        with contextlib.suppress(TwoStageError):  # opening the table elsewhere reports why
            properties.update(load_table(options, confs).storage.properties)
    properties.update(file_properties(options.catalog, trusted=options.catalog))
    return Storage(properties=properties, client=options.settings.object_store_client)
