"""A query log: files of JSON lines in a folder or bucket, one line for each scan.

Takes scans and appends them; reads back what any number of drivers wrote. The rules: a file belongs to one
driver, so there is no lock to wait for; a line that cannot be read is counted and named, never fatal; and
nothing in a log is executed.
"""

from __future__ import annotations

import datetime
import io
import os
import secrets
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twostage.advisor.logged_scan import REQUIRED_TEXTS, VERSION, LoggedScan, parse_scan
from twostage.errors import NotFoundError, TwoStageError
from twostage.storage import files
from twostage.storage.location import join, parse_location
from twostage.task import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SUFFIX = ".jsonl"
DEFAULT_FILE_BYTES = 64 << 20
"""Of a local file, at which the next one is started."""
MAX_OBJECT_BYTES = 1 << 20
"""Of an object in a bucket, up to which it is rewritten, since it cannot be appended to."""
_MAX_OBJECT_READ = 1 << 30
_MAX_LINE_BYTES = 4 << 20
_MAX_EXAMPLES = 5
DATAFRAME_SCHEMA = (
    "time TIMESTAMP, scan STRING, table STRING, reader STRING, snapshot BIGINT, columns ARRAY<STRING>, text STRING, "
    "predicate STRING, hint STRING, `limit` BIGINT, top STRING, failed BOOLEAN, scans INT, "
    "entries_in_filter BIGINT, entries_after_filter BIGINT, query_milliseconds BIGINT, counters MAP<STRING, BIGINT>, "
    "application STRING, application_name STRING, user STRING, query BIGINT, description STRING"
)
"""The schema of `QueryLog.dataframe`: the fields of `LoggedScan`; predicates as JSON text."""


class QueryLogFile:
    """The files that one driver writes, one after another. Not thread-safe."""

    def __init__(
        self, location: str, properties: Mapping[str, str], *, file_bytes: int = DEFAULT_FILE_BYTES
    ) -> None:
        self._storage = Storage(properties=properties, root=location)
        self._is_local = parse_location(location).is_local
        self._file_bytes = file_bytes if self._is_local else min(file_bytes, MAX_OBJECT_BYTES)
        started = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        self._name = f"scans-{started}-{secrets.token_hex(4)}"
        self._number = 0
        self._written = 0
        self._object = bytearray()
        self._is_torn = False

    @property
    def path(self) -> str:
        """The file that is being written."""
        return join(self._storage.root, f"{self._name}-{self._number:05}{SUFFIX}")

    def append(self, scans: Iterable[LoggedScan]) -> None:
        """Append scans, and begin the next file when this one is large enough.

        Raises:
            StorageError: No access, no space, no network.
        """
        data = "".join(f"{scan.json()}\n" for scan in scans).encode("utf-8", "replace")
        if self._written and self._written + len(data) > self._file_bytes:
            self._number += 1
            self._written = 0
            self._object.clear()
        if self._is_local:
            with files.translate_errors(self.path, "storage", storage=self._storage):
                path = Path(parse_location(self.path).path)
                path.parent.mkdir(parents=True, exist_ok=True)
                # With O_APPEND: a driver that is killed leaves whole lines, or a broken last one.
                handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
                try:
                    self._write(handle, data)
                finally:
                    os.close(handle)
        else:
            self._object += data
            files.write_all(self._storage, self.path, bytes(self._object))
        self._written += len(data)

    def _write(self, handle: int, data: bytes) -> None:
        """Write all of it: one call may write less. After a failure, the next lines do not continue the broken one."""
        rest = memoryview(b"\n" + data if self._is_torn else data)
        while rest:
            written = os.write(handle, rest)
            rest = rest[written:]
            self._is_torn = bool(rest)


@dataclass(slots=True)
class Problems:
    """What could not be read in a log: counts and first places, by reason."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, place: str) -> None:
        """Count one, at a file and line."""
        self.counts[reason] += 1
        known = self.examples.setdefault(reason, [])
        if len(known) < _MAX_EXAMPLES:
            known.append(place)

    def __str__(self) -> str:
        return "\n".join(
            f"{count:,} skipped, {reason}: {', '.join(self.examples.get(reason, []))}"
            for reason, count in self.counts.most_common()
        )


class QueryLog:
    """The scans of a query log; iterating reads the files anew, line by line.

    Attributes:
        location: A folder, a bucket, or one file.
        problems: What the last iteration skipped.

    Examples:
        >>> for scan in twostage.query_log("/logs/queries"):  # doctest: +SKIP
        ...     print(scan.time, scan.table, scan.text, scan.entries_in_filter)
    """

    def __init__(
        self, location: str, properties: Mapping[str, str] | None = None, *, client: str = "auto"
    ) -> None:
        self.location = location
        self.problems = Problems()
        self._storage = Storage(properties=dict(properties or {}), root=location, client=client)

    def files(self) -> list[str]:
        """Return the log's files by name, that is, by the start time of their driver.

        Raises:
            NotFoundError: There are none.
        """
        if self.location.endswith(SUFFIX):
            return [self.location]
        found = [
            join(self.location, entry.name)
            for entry in files.list_folder(self._storage, self.location)
            if not entry.is_folder and entry.name.endswith(SUFFIX)
        ]
        if not found:
            raise NotFoundError(
                "NO_QUERY_LOG",
                "There is no query log",
                path=self.location,
                stage="advisor",
                hint=f"Its files end in {SUFFIX}; spark.twostage.query-log makes drivers write them.",
            )
        return found

    def __iter__(self) -> Iterator[LoggedScan]:
        self.problems = Problems()
        for path in self.files():
            for number, line in enumerate(self._lines(path), start=1):
                if not line.strip():
                    continue
                place = f"{path}:{number}"
                if not line.endswith(b"\n") and len(line) >= _MAX_LINE_BYTES:
                    self.problems.add("a line that is too long", place)
                    continue
                try:
                    yield parse_scan(line)
                except ValueError as error:
                    self.problems.add(_reason(error), place)

    def _lines(self, path: str) -> Iterator[bytes]:
        try:
            location = parse_location(path)
            if location.is_local:
                with (
                    files.translate_errors(path, "storage", storage=self._storage),
                    Path(location.path).open("rb") as file,
                ):
                    yield from _limited_lines(file)
            else:
                data = files.read_all(self._storage, path, limit=_MAX_OBJECT_READ)
                yield from _limited_lines(io.BytesIO(data))
        except TwoStageError as error:
            self.problems.add(f"[TWOSTAGE.{error.code}]", path)

    def dataframe(self, spark: Any) -> Any:
        """Return the log as a Spark DataFrame with the columns of `DATAFRAME_SCHEMA`, read by Spark's own JSON reader.

        Broken lines, foreign JSON and lines of later versions are left out, as when the log is iterated, but not counted.

        Args:
            spark: The session; for a bucket it has Hadoop's properties for it.
        """
        lines = (
            spark.read.schema(f"v INT, {DATAFRAME_SCHEMA}")
            .option("mode", "DROPMALFORMED")
            .option("pathGlobFilter", f"*{SUFFIX}")
            .json(self.location)
        )
        needed = " AND ".join(f"{name} IS NOT NULL" for name in ("time", *REQUIRED_TEXTS))
        return lines.where(f"v <= {VERSION} AND {needed}").drop("v")


def _limited_lines(file: Any) -> Iterator[bytes]:
    """Yield lines; one that is longer than `_MAX_LINE_BYTES` in parts."""
    while line := file.readline(_MAX_LINE_BYTES):
        yield line


def _reason(error: ValueError) -> str:
    return "no JSON" if type(error).__name__ == "JSONDecodeError" else str(error)[:100]


def query_log(path: str, properties: Mapping[str, str] | None = None) -> QueryLog:
    """Return the scans that drivers logged in a folder or bucket; see ``spark.twostage.query-log``.

    Args:
        path: A folder, a bucket, or one file.
        properties: FileIO properties for a bucket, as a catalog's: ``s3.endpoint``, ``s3.access-key-id`` …

    Examples:
        >>> log = twostage.query_log("/logs/queries")  # doctest: +SKIP
        >>> log.dataframe(spark).groupBy("table").sum("entries_in_filter").show()  # doctest: +SKIP
    """
    return QueryLog(path, properties)
