"""Tables pinned at their snapshots, as the planner's requests name them.

Takes a table that was loaded, gives the planner's Java a key for it and its bytes; takes the key, gives the table back.
The rule: nothing is kept that a request cannot bring back. The tables here are a cache; Java keeps each pinned table's
own bytes as long as a query may need them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
import threading
import time
import zlib
from collections import OrderedDict
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from twostage.errors import InternalError, mask
from twostage.spark.answers import LoadAnswer
from twostage.spark.source import chosen_fields, option_filter, visible_schema
from twostage.storage.expiry import expires_at
from twostage.storage.location import parse_location
from twostage.storage.store_identity import kept_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.options import ReadOptions
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.schema import Schema
    from twostage.spark.requests import FirstRows
    from twostage.table.pinned import PinnedTable

MAX_TABLES = 64
"""Pinned tables in the cache; an evicted one comes back with the request that needs it."""
RENEWAL_PAUSE_SECONDS = 10.0
"""A query asks the planner several times: a catalog whose credentials are good for minutes only is not asked each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A table at its snapshot, with the options it is read by."""

    table: PinnedTable
    options: ReadOptions
    case_sensitive: bool
    """How the names in queries match; those in options match as the option of that name says."""
    schema: Schema
    """The table's columns, then the metadata columns."""
    confs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The session's confs by which a table with short-lived credentials was loaded; empty for other tables."""
    asked_at: float = float("-inf")
    """When the catalog was last asked for new credentials, on the monotonic clock."""

    @property
    def filter(self) -> Predicate:
        """The option ``filter``."""
        return option_filter(self.table, self.options)

    def bind(self, raw: Mapping[str, Any]) -> Predicate:
        """Make a predicate of the planner's JSON."""
        from twostage.predicates.bind import bind_predicate  # noqa: PLC0415

        return bind_predicate(raw, self.schema, case_sensitive=self.case_sensitive)

    @property
    def filters_by_keys(self) -> bool:
        """Whether keys of a join may filter rows, not only prune."""
        return self.options.dynamic_filter and self.table.metadata_table is None

    def bind_top(self, first: FirstRows | None) -> TopRows | None:
        """Make a top-n of the planner's first rows; None where the scan leaves nothing out for it."""
        from twostage.predicates.bind import bind_top  # noqa: PLC0415

        if first is None or not self.options.top_n or self.table.metadata_table is not None:
            return None
        return bind_top(asdict(first), self.table.schema, case_sensitive=self.case_sensitive)


class UnknownPinError(InternalError):
    """The table was evicted: the request must bring it along."""


class Pins:
    """The pinned tables of this process, by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, Pin] = OrderedDict()

    def add(
        self, table: PinnedTable, options: ReadOptions, raw: Mapping[str, str], confs: Mapping[str, str]
    ) -> LoadAnswer:
        """Remember a table and return what Java is told about it.

        Args:
            table: The table at its pinned snapshot.
            options: The reader's options.
            raw: The same as the user wrote them.
            confs: The session's.
        """
        from twostage.columns import spark_schema  # noqa: PLC0415
        from twostage.planning.name_mapping import NAME_MAPPING_PROPERTY as MAPPING  # noqa: PLC0415
        from twostage.table.metadata_columns import hidden_fields  # noqa: PLC0415

        pinned = Pin(
            table=table,
            options=options,
            case_sensitive=confs.get("spark.sql.caseSensitive") == "true",
            schema=visible_schema(table, options),
            confs=dict(confs) if expires_at(table.storage.properties) is not None else {},
        )
        schema = json.dumps(spark_schema(chosen_fields(table, options)))
        option_filter(table, options)  # an error in it shows when the table is loaded
        snapshot, metadata = table.snapshot.snapshot_id if table.snapshot else None, table.metadata
        hidden = json.dumps(spark_schema(hidden_fields(table)))
        facts: list[Any] = [metadata.table_uuid, metadata.location, schema, hidden, pinned.case_sensitive]
        # A column dropped and added again under its name has another id, and no snapshot tells.
        facts += [snapshot, table.schema.fields, metadata.properties.get(MAPPING), sorted(raw.items())]
        # Sessions may configure a catalog or a store of one name differently, logins included.
        facts.append(kept_for(table.storage))
        if table.metadata_table is not None:  # a new tag changes refs, and no snapshot
            facts += [metadata.metadata_location, metadata.last_updated_ms]
        key = hashlib.sha256(repr(facts).encode()).hexdigest()
        with self._lock:
            self._remember(key, pinned)
        return LoadAnswer(
            pin=key,
            key=key,
            pinned=_to_text(pinned),
            schema=schema,
            hidden=hidden,
            name=table.name,
            snapshot=str(snapshot) if snapshot is not None else "none",
            properties={
                "provider": "twostage",
                "location": mask(table.metadata.location),
                "format-version": str(table.metadata.format_version),
                "snapshot-id": str(snapshot) if snapshot is not None else "none",
            },
            schemes=_schemes(table),
        )

    def add_part(self, key: str, whole: Pin, only: frozenset[str], by_index: int = 0) -> tuple[str, str]:
        """Remember `only` these data files of a table, and return their own key and bytes.

        Args:
            key: The whole table's.
            whole: The whole table.
            only: The files, as the manifests write their paths.
            by_index: How many of the other files indexes answered for.
        """
        part = replace(whole, table=replace(whole.table, only_files=only, answered_by_index=by_index))
        part_key = hashlib.sha256(repr((key, sorted(only), by_index)).encode()).hexdigest()
        with self._lock:
            self._remember(part_key, part)
        return part_key, _to_text(part)

    def find(self, key: str, text: str | None) -> Pin:
        """Return the table of a key.

        Args:
            key: What `add` named the table by.
            text: The table's bytes, if the request brings them along.

        Raises:
            UnknownPinError: It was evicted, and `text` is None.
        """
        with self._lock:
            pinned = self._tables.get(key)
            if pinned is None:
                if text is None:
                    raise UnknownPinError("UNKNOWN_PIN", "The pinned table was evicted", stage="plan")
                pinned = cast("Pin", pickle.loads(zlib.decompress(base64.b64decode(text))))  # noqa: S301 - our own bytes
            self._remember(key, pinned)
            return pinned

    def find_for_planning(self, key: str, text: str | None) -> Pin:
        """Return the table of a key as `find` does, with new credentials where those that its catalog vended expire soon.

        Raises:
            UnknownPinError: See `find`.
        """
        from twostage.catalog.renewal import ends_soon, renewed  # noqa: PLC0415

        pinned = self.find(key, text)
        now = time.monotonic()
        if not pinned.confs or now - pinned.asked_at < RENEWAL_PAUSE_SECONDS or not ends_soon(pinned.table):
            return pinned
        table = renewed(pinned.table, pinned.options, pinned.confs)
        pinned = replace(pinned, table=table, asked_at=now)
        with self._lock:
            self._remember(key, pinned)
        return pinned

    def _remember(self, key: str, pinned: Pin) -> None:
        self._tables[key] = pinned
        self._tables.move_to_end(key)
        while len(self._tables) > MAX_TABLES:
            self._tables.popitem(last=False)


def _to_text(pinned: Pin) -> str:
    """Return a pinned table's bytes, as a request brings them along."""
    return base64.b64encode(zlib.compress(pickle.dumps(pinned), 1)).decode("ascii")


def _schemes(table: PinnedTable) -> tuple[str, ...]:
    """Return the URI schemes under which a table's files may be opened; for a moved table not that of its metadata."""
    storage = table.storage
    places = [storage.root, *storage.allowed]
    if storage.moved_from is None:
        places.append(table.metadata.location)
    return tuple(sorted({parse_location(place).scheme for place in places}))
