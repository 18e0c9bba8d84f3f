"""Tables pinned at their snapshots, as the planner's requests name them.

Takes a table that was loaded, gives the planner's Java a key for it and its bytes; takes a request with the key, gives
the table back. The rule: nothing is kept that a request cannot bring back. The tables held here are a cache; Java keeps
each pinned table's own bytes as long as a query may need them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
import threading
import zlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from twostage.errors import InternalError, mask
from twostage.spark.source import chosen_fields, option_filter, visible_schema
from twostage.storage.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.options import ReadOptions
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.schema import Schema
    from twostage.table.pinned import PinnedTable

MAX_TABLES = 64
"""Pinned tables held; an evicted one comes back with the request that needs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A table at its snapshot, with the options it is read by."""

    table: PinnedTable
    options: ReadOptions
    case_sensitive: bool
    """How the names in queries match; those in options match as the option of that name says."""
    schema: Schema
    """The table's columns, and the metadata columns behind them."""

    @property
    def filter(self) -> Predicate:
        """The option ``filter``."""
        return option_filter(self.table, self.options)

    def bind(self, raw: Mapping[str, Any]) -> Predicate:
        """Make a predicate of the planner's JSON."""
        from twostage.predicates.bind import bind_predicate  # noqa: PLC0415

        return bind_predicate(raw, self.schema, case_sensitive=self.case_sensitive)

    def bind_top(self, raw: Mapping[str, Any] | None) -> TopRows | None:
        """Make the first rows by an order of the planner's JSON; None where they are not cut here."""
        from twostage.predicates.bind import bind_top  # noqa: PLC0415

        if raw is None or not self.options.top_n or self.table.metadata_table is not None:
            return None
        return bind_top(raw, self.table.schema, case_sensitive=self.case_sensitive)


class UnknownPinError(InternalError):
    """The table was evicted: the request must bring it along."""


class Pins:
    """The pinned tables of this process, by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, Pin] = OrderedDict()

    def keep(
        self, table: PinnedTable, options: ReadOptions, raw: Mapping[str, str], confs: Mapping[str, str]
    ) -> dict[str, Any]:
        """Hold a table and return what Java is told of it: a key, the table's bytes, columns and properties.

        Args:
            table: The table at its pinned snapshot.
            options: The reader's options.
            raw: The same as the user wrote them.
            confs: The session's.
        """
        from twostage.columns import spark_schema  # noqa: PLC0415
        from twostage.planning.name_mapping import NAME_MAPPING_PROPERTY as MAPPING  # noqa: PLC0415
        from twostage.table.metadata_columns import hidden_fields  # noqa: PLC0415

        held = Pin(
            table=table,
            options=options,
            case_sensitive=confs.get("spark.sql.caseSensitive") == "true",
            schema=visible_schema(table, options),
        )
        schema = json.dumps(spark_schema(chosen_fields(table, options)))
        option_filter(table, options)  # an error in it shows when the table is loaded
        snapshot, metadata = table.snapshot.snapshot_id if table.snapshot else None, table.metadata
        hidden = json.dumps(spark_schema(hidden_fields(table)))
        facts: list[Any] = [metadata.table_uuid, metadata.location, schema, hidden, held.case_sensitive]
        # A column dropped and added again under its name has another id, and no snapshot tells.
        facts += [snapshot, table.schema.fields, metadata.properties.get(MAPPING), sorted(raw.items())]
        if table.metadata_table is not None:  # a new tag changes refs, and no snapshot
            facts += [metadata.metadata_location, metadata.last_updated_ms]
        key = hashlib.sha256(repr(facts).encode()).hexdigest()
        with self._lock:
            self._hold(key, held)
        return {
            "pin": key,
            "key": key,
            "pinned": _packed(held),
            "schema": schema,
            "hidden": hidden,
            "name": table.name,
            "snapshot": str(snapshot) if snapshot is not None else "none",
            "properties": {
                "provider": "twostage",
                "location": mask(table.metadata.location),
                "format-version": str(table.metadata.format_version),
                "snapshot-id": str(snapshot) if snapshot is not None else "none",
            },
            "schemes": _schemes(table),
        }

    def keep_part(self, key: str, held: Pin, only: frozenset[str]) -> dict[str, Any]:
        """Hold `only` these data files of a table, the one of this `key`, and return their own key and bytes.

        Args:
            key: The whole table's.
            held: The whole table.
            only: The files, as the manifests write their paths.
        """
        part = replace(held, table=replace(held.table, only=only))
        part_key = hashlib.sha256(repr((key, sorted(only))).encode()).hexdigest()
        with self._lock:
            self._hold(part_key, part)
        return {"pin": part_key, "pinned": _packed(part)}

    def held(self, message: Mapping[str, Any]) -> Pin:
        """Return the table that a request names by ``pin``.

        Raises:
            UnknownPinError: It was evicted, and the request did not bring it along as ``pinned``.
        """
        key, pinned = message["pin"], message.get("pinned")
        with self._lock:
            held = self._tables.get(key)
            if held is None:
                if pinned is None:
                    raise UnknownPinError("UNKNOWN_PIN", "The pinned table was evicted", stage="plan")
                held = cast("Pin", pickle.loads(zlib.decompress(base64.b64decode(pinned))))  # noqa: S301 - our own bytes
            self._hold(key, held)
            return held

    def _hold(self, key: str, held: Pin) -> None:
        self._tables[key] = held
        self._tables.move_to_end(key)
        while len(self._tables) > MAX_TABLES:
            self._tables.popitem(last=False)


def _packed(held: Pin) -> str:
    """Return a pinned table's bytes, as a request brings them along."""
    return base64.b64encode(zlib.compress(pickle.dumps(held), 1)).decode("ascii")


def _schemes(table: PinnedTable) -> list[str]:
    """Return the schemes under which a table's files may be opened; the one that its metadata names may be gone."""
    storage = table.storage
    places = [storage.root, *storage.allowed]
    if storage.moved_from is None:
        places.append(table.metadata.location)
    return sorted({parse_location(place).scheme for place in places})
