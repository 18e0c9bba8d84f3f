"""Time travel: the snapshot that a read sees, and its schema.

Takes a table's metadata and the reader's options; returns a snapshot (None for a table without data) and the schema to
read it under. A name or time that matches no snapshot is an error that suggests the nearest match, never the current
snapshot. A branch is read under the table's current schema, a snapshot chosen by id, tag or time under its own.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import zoneinfo
from dataclasses import replace
from typing import TYPE_CHECKING

from twostage.errors import NotFoundError, OptionError, nearest
from twostage.option_values import milliseconds as parse_milliseconds

if TYPE_CHECKING:
    from twostage.options import ReadOptions
    from twostage.schema import Schema
    from twostage.table.metadata import Snapshot, TableMetadata

MAIN = "main"
_MAX_SNAPSHOTS_SHOWN = 5
_MAX_EPOCH_SECONDS = 253_402_300_799
"""The last second of the year 9999."""
_MAX_EPOCH_DIGITS = 20
"""Digits beyond which a number is refused before it is parsed."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TIMESTAMP = re.compile(
    r"(?P<year>\d{4,6})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?:[T ](?:(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d{1,9}))?)?)?"
    r"\s*(?P<zone>[A-Za-z+\-][A-Za-z0-9_/:+\-]*)?)?)?)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT|Z)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2}))?(?::00)?")
_DIGITS = re.compile(r"[0-9]{1,19}")
"""Of a long, as Java reads one."""
_SELECTOR = re.compile(r"(branch|tag|snapshot_id|at_timestamp)_(.+)")


def select_snapshot(
    metadata: TableMetadata, options: ReadOptions, *, time_zone: str | None = "UTC"
) -> tuple[Snapshot | None, Schema]:
    """Return the snapshot that the options select and the schema to read it under.

    Args:
        metadata: The table metadata.
        options: At most one of the six options that select a snapshot is set; without any, the current one is read.
        time_zone: The session's time zone, for ``timestampAsOf`` without one; None if it is not known.

    Raises:
        NotFoundError: There is no such snapshot, branch or tag.
        OptionError: ``timestampAsOf`` is not a date, timestamp or number of seconds, or lacks a time zone.
    """
    if options.snapshot_id is not None:
        return _by_id(metadata, options.snapshot_id)
    if options.branch is not None:
        return _by_reference(metadata, options.branch, "branch")
    if options.tag is not None:
        return _by_reference(metadata, options.tag, "tag")
    if options.version_as_of is not None:
        return _by_version(metadata, options.version_as_of.strip())
    if options.as_of_timestamp is not None:
        return _by_time(metadata, options.as_of_timestamp)
    if options.timestamp_as_of is not None:
        note = "Digits alone are seconds since the epoch." if _is_seconds(options.timestamp_as_of) else None
        return _by_time(metadata, parse_timestamp(options.timestamp_as_of, time_zone), note)
    return metadata.current_snapshot, metadata.schema


def chooses_snapshot(options: ReadOptions) -> bool:
    """Return whether any option selects a snapshot."""
    chosen = (
        options.version_as_of,
        options.timestamp_as_of,
        options.snapshot_id,
        options.as_of_timestamp,
        options.branch,
        options.tag,
    )
    return any(value is not None for value in chosen)


def apply_selector(options: ReadOptions, name: str) -> ReadOptions | None:
    """Apply the selector at the end of a table's name (``branch_x``, ``tag_x``, ``snapshot_id_7``, ``at_timestamp_7``).

    Returns:
        The options with the selector's option set; None if `name` is not a selector.

    Raises:
        OptionError: The options select a snapshot already, or the timestamp is malformed.
    """
    match = _SELECTOR.fullmatch(name)
    if match is None or (match[1] in ("snapshot_id", "at_timestamp") and _DIGITS.fullmatch(match[2]) is None):
        return None
    if chooses_snapshot(options):
        raise OptionError(
            "CONFLICTING_OPTIONS",
            f"An option and the table's name both choose the snapshot: {name}",
            stage="options",
            hint="Keep one of them.",
        )
    match match[1]:
        case "branch":
            return replace(options, branch=match[2])
        case "tag":
            return replace(options, tag=match[2])
        case "snapshot_id":
            return replace(options, snapshot_id=int(match[2]))
        case _:
            try:
                return replace(options, as_of_timestamp=parse_milliseconds(match[2]))
            except ValueError as error:
                raise OptionError(
                    "BAD_OPTION",
                    f"The table's name has a bad time: {name}",
                    stage="options",
                    hint=f"Expected {error}.",
                ) from None


def _by_id(metadata: TableMetadata, snapshot_id: int) -> tuple[Snapshot, Schema]:
    snapshot = metadata.snapshots.get(snapshot_id)
    if snapshot is None:
        raise _not_found(metadata, f"Table has no snapshot with this id: {snapshot_id}", str(snapshot_id))
    return snapshot, metadata.schema_of(snapshot)


def _by_reference(metadata: TableMetadata, name: str, kind: str) -> tuple[Snapshot | None, Schema]:
    reference = metadata.refs.get(name)
    if reference is None and kind == "branch" and name == MAIN:
        return metadata.current_snapshot, metadata.schema
    if reference is None or reference.kind != kind:
        others = [other for other, found in metadata.refs.items() if found.kind == kind]
        raise NotFoundError(
            f"{kind.upper()}_NOT_FOUND",
            f"Table has no {kind} of this name: {name}",
            path=metadata.metadata_location,
            stage="catalog",
            hint=f"It is a {reference.kind}: use the option {reference.kind!r}."
            if reference is not None
            else nearest(name, others)
            if others
            else f"The table has no {'tag' if kind == 'tag' else 'branch other than main'}.",
        )
    snapshot, schema = _by_id(metadata, reference.snapshot_id)
    return snapshot, metadata.schema if kind == "branch" else schema


def _by_version(metadata: TableMetadata, version: str) -> tuple[Snapshot | None, Schema]:
    """Select as SQL's ``VERSION AS OF`` does: by snapshot id, else by the name of a branch or tag."""
    is_id = re.fullmatch(r"-?[0-9]{1,19}", version) is not None
    if is_id and int(version) in metadata.snapshots:
        return _by_id(metadata, int(version))
    if version in metadata.refs or version == MAIN:
        kind = metadata.refs[version].kind if version in metadata.refs else "branch"
        return _by_reference(metadata, version, kind)
    if is_id:
        return _by_id(metadata, int(version))
    raise NotFoundError(
        "VERSION_NOT_FOUND",
        f"Table has no snapshot, branch or tag of this name: {version}",
        path=metadata.metadata_location,
        stage="catalog",
        hint=nearest(version, metadata.refs),
    )


def _by_time(metadata: TableMetadata, milliseconds: int, note: str | None = None) -> tuple[Snapshot, Schema]:
    """Select the snapshot that was current at a time: the last entry of the snapshot log at or before it.

    `note` is added to the hint of an error; it explains how the option's text was read.
    """
    log = metadata.snapshot_log or _ancestry(metadata)
    chosen = None
    for moment, snapshot_id in log:
        if moment <= milliseconds:
            chosen = snapshot_id
    if chosen is None:
        first = f"The first snapshot is from {_iso(min(log)[0])}." if log else "The table has no snapshot."
        raise NotFoundError(
            "SNAPSHOT_NOT_FOUND",
            f"Table has no snapshot as old as {_iso(milliseconds)}",
            path=metadata.metadata_location,
            stage="catalog",
            hint=f"{first} {note}" if note else first,
        )
    if chosen not in metadata.snapshots:
        raise _not_found(metadata, f"The snapshot of {_iso(milliseconds)} has expired: {chosen}", str(chosen))
    return _by_id(metadata, chosen)


def _ancestry(metadata: TableMetadata) -> tuple[tuple[int, int], ...]:
    """Return the current snapshot's ancestors as a snapshot log, for tables whose writer keeps none."""
    entries: list[tuple[int, int]] = []
    snapshot, seen = metadata.current_snapshot, set[int]()
    while snapshot is not None and snapshot.snapshot_id not in seen:
        seen.add(snapshot.snapshot_id)
        entries.append((snapshot.timestamp_ms, snapshot.snapshot_id))
        snapshot = metadata.snapshots.get(snapshot.parent_id) if snapshot.parent_id is not None else None
    return tuple(reversed(entries))


def _not_found(metadata: TableMetadata, message: str, wanted: str) -> NotFoundError:
    known = [str(snapshot_id) for snapshot_id in metadata.snapshots]
    hint = nearest(wanted, known)
    if not hint.startswith("Did"):
        recent = sorted(metadata.snapshots.values(), key=lambda one: -one.timestamp_ms)[:_MAX_SNAPSHOTS_SHOWN]
        shown = ", ".join(f"{one.snapshot_id} ({_iso(one.timestamp_ms)})" for one in recent)
        hint = f"The latest: {shown}." if shown else "The table has no snapshot."
    return NotFoundError(
        "SNAPSHOT_NOT_FOUND", message, path=metadata.metadata_location, stage="catalog", hint=hint
    )


def _iso(milliseconds: int) -> str:
    try:
        moment = _EPOCH + datetime.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03} UTC"


def parse_timestamp(text: str, time_zone: str | None = "UTC") -> int:
    """Parse a date or timestamp in the forms that Spark casts, to milliseconds since the epoch.

    Digits alone are seconds since the epoch, as in Spark. Beyond the year 9999 they are refused: they are probably
    milliseconds, which Spark would read as a time after every snapshot.

    Args:
        text: The option's value.
        time_zone: The time zone of a text without one; None if it is not known.

    Raises:
        OptionError: The text has none of these forms, or needs a time zone that is not known.

    >>> parse_timestamp("1970-01-02"), parse_timestamp("1970-01-01 01:00:00.5", "+01:00"), parse_timestamp("60")
    (86400000, 500, 60000)
    """
    hint = "Expected a date or timestamp such as 2024-05-06 07:08:09.123 or 2024-05-06T07:08:09+02:00, or seconds since the epoch."
    if _is_seconds(text):
        if len(text.strip()) < _MAX_EPOCH_DIGITS and int(text) <= _MAX_EPOCH_SECONDS:
            return int(text) * 1000
        hint = "Digits alone are seconds since the epoch; use as-of-timestamp for milliseconds."
    elif (match := _TIMESTAMP.fullmatch(text.strip())) is not None:
        if match["zone"] is None and time_zone is None:
            hint = "Add its zone, such as 2024-05-06 07:08:09Z: without twostage.enable(spark) the session's is not known."
        else:
            with contextlib.suppress(ValueError, OverflowError, zoneinfo.ZoneInfoNotFoundError):
                return (_moment(match, time_zone or "UTC") - _EPOCH) // datetime.timedelta(milliseconds=1)
    raise OptionError(
        "BAD_OPTION", f"Option 'timestampAsOf' has a bad value: {text!r}", stage="options", hint=hint
    )


def _is_seconds(text: str) -> bool:
    return text.strip().isdigit() and text.isascii()


def _moment(match: re.Match[str], time_zone: str) -> datetime.datetime:
    return datetime.datetime(
        int(match["year"]),
        int(match["month"] or 1),
        int(match["day"] or 1),
        int(match["hour"] or 0),
        int(match["minute"] or 0),
        int(match["second"] or 0),
        int((match["fraction"] or "").ljust(6, "0")[:6]),
        tzinfo=_zone(match["zone"] or time_zone),
    )


def _zone(name: str) -> datetime.tzinfo:
    if match := _OFFSET.fullmatch(name):
        offset = datetime.timedelta(hours=int(match["hours"]), minutes=int(match["minutes"] or 0))
        return datetime.timezone(-offset if match["sign"] == "-" else offset)
    return datetime.UTC if name.upper() in ("Z", "UTC", "GMT", "UT") else zoneinfo.ZoneInfo(name)
