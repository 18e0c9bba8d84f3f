"""What the planner's Java asks the driver's Python: load, push, plan, read, list.

Takes JSON text, gives JSON text; Java calls it through py4j from whichever thread Spark plans in. Errors travel
as ``{"error": {"kind", "code", "message"}}``. The rule: nothing is kept that a request cannot bring back. The
tables held here are a cache; Java keeps each pinned table's own bytes as long as a query may need them.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import pickle
import threading
import time
import uuid
import zlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from twostage.errors import InternalError, TwoStageError, UnsupportedFeatureError, mask
from twostage.predicates.predicate import TRUE, both, is_exact, weaken
from twostage.spark import catalogs
from twostage.spark.source import (
    MAX_SCANS,
    MetricsParam,
    TwoStageReader,
    TwoStageSource,
    chosen_fields,
    option_filter,
    parse,
    pin,
    visible_schema,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark import Accumulator, SparkContext

    from twostage.metrics import Metrics
    from twostage.options import ReadOptions
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.schema import Field, Schema
    from twostage.spark.aggregates import Answers, FromMetadata
    from twostage.spark.source import ScanMetrics
    from twostage.table.catalog import PinnedTable
    from twostage.task import ScanPlan

MAX_SPARES = 8
"""Plans held for the scan that they were made for, between the planner's question who reads and Spark's own."""
MAX_TABLES = 64
"""Pinned tables held; an evicted one comes back with the request that needs it."""
_NOT_FOUND = ("TABLE_NOT_FOUND", "NAMESPACE_NOT_FOUND")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A table at its snapshot, with the options it is read by."""

    table: PinnedTable
    options: ReadOptions
    case_sensitive: bool
    schema: Schema
    """The table's columns, and the metadata columns behind them."""

    @property
    def filter(self) -> Predicate:
        """The option ``filter``."""
        return option_filter(self.table, self.options, case_sensitive=self.case_sensitive)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedScan:
    """A plan, and whether Spark asked for its partitions."""

    plan: ScanPlan
    started: bool = False


class UnknownPinError(InternalError):
    """The table was evicted: the request must bring it along."""


class Bridge:
    """Answers the planner. One for the whole process; `connect` gives it each Spark context's accumulator."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, Pin] = OrderedDict()
        self._scans: OrderedDict[str, PlannedScan] = OrderedDict()
        self._spares: list[tuple[Any, ScanPlan]] = []
        self._held_answers: Answers | None = None
        self._metrics: Accumulator[ScanMetrics] | None = None
        self._context: SparkContext | None = None
        self.calls: dict[str, int] = {}
        """How often each call came: tests count plans by it."""
        self._answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "load": self._load,
            "create": self._create,
            "adopt": self._adopt,
            "push": self._push,
            "top": self._top,
            "native": self._native,
            "aggregate": self._aggregate,
            "started": self._started,
            "plan": self._plan,
            "read": self._read,
            "mixed": self._mixed,
            "tables": catalogs.list_tables,
            "namespaces": catalogs.list_namespaces,
            "namespace": catalogs.check_namespace,
        }

    def connect(self, context: SparkContext) -> None:
        """Use this context's accumulator from now on; one accumulator for each context."""
        with self._lock:
            if self._context is not context:
                self._context = context
                self._metrics = context.accumulator({}, MetricsParam())

    # java.util.function.Function

    def apply(self, request: str) -> str:
        """Answer one request; never raises."""
        try:
            message = json.loads(request)
            call = message["call"]
            with self._lock:
                self.calls[call] = self.calls.get(call, 0) + 1
            return json.dumps(self._answers[call](message))
        except TwoStageError as error:
            return json.dumps({"error": {"kind": _kind(error), "code": error.code, "message": str(error)}})
        except Exception as error:  # noqa: BLE001 - a bug of ours must reach the user as an error, not as a hang
            wrapped = InternalError(
                "INTERNAL",
                f"Planning failed: {type(error).__name__}: {error}",
                stage="plan",
                hint="Please report this.",
            )
            return json.dumps({"error": {"kind": "internal", "code": wrapped.code, "message": str(wrapped)}})

    def toString(self) -> str:  # noqa: N802 - Java's name
        """Return a name for Java's logs."""
        return "twostage.Bridge"

    class Java:
        """Tells py4j what the object is in Java."""

        implements = ("java.util.function.Function",)

    # tables

    def _load(self, message: dict[str, Any]) -> dict[str, Any]:
        options = parse(message["options"])
        return self._keep(pin(options, message["confs"]), options, message["options"], message["confs"])

    def _create(self, message: dict[str, Any]) -> dict[str, Any]:
        answer = self._load(message)
        source = TwoStageSource(message["options"])
        source.pinned = self._held(answer["pin"]).table
        return {**answer, "source": _text(pickle.dumps(source))}

    def _adopt(self, message: dict[str, Any]) -> dict[str, Any]:
        source = pickle.loads(base64.b64decode(message["source"]))  # noqa: S301 - Spark's own pickle of our class
        raw = dict(source.options)
        options = parse(raw)
        table = source.pinned or pin(options, message["confs"])
        return {**self._keep(table, options, raw, message["confs"]), "options": raw}

    def _keep(
        self, table: PinnedTable, options: ReadOptions, raw: Mapping[str, str], confs: Mapping[str, str]
    ) -> dict[str, Any]:
        from twostage.columns import spark_schema  # noqa: PLC0415
        from twostage.metadata_columns import hidden_fields  # noqa: PLC0415
        from twostage.planning.name_mapping import NAME_MAPPING_PROPERTY as MAPPING  # noqa: PLC0415

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
            self._tables[key] = held
            self._tables.move_to_end(key)
            while len(self._tables) > MAX_TABLES:
                self._tables.popitem(last=False)
        return {
            "pin": key,
            "key": key,
            "pinned": _text(zlib.compress(pickle.dumps(held), 1)),
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
        }

    def _held(self, key: str, pinned: str | None = None) -> Pin:
        with self._lock:
            held = self._tables.get(key)
            if held is None and pinned is not None:
                held = cast("Pin", pickle.loads(zlib.decompress(base64.b64decode(pinned))))  # noqa: S301 - our own bytes
                self._tables[key] = held
            if held is None:
                raise UnknownPinError("UNKNOWN_PIN", "The pinned table was evicted", stage="plan")
            self._tables.move_to_end(key)
            return held

    # scans

    def _push(self, message: dict[str, Any]) -> dict[str, Any]:
        held = self._held(message["pin"], message.get("pinned"))
        bound = [_bind(raw, held) for raw in message["predicates"]]
        filters = held.table.metadata_table is None  # metadata tables are small: Spark filters them
        return {"exact": [filters and is_exact(one) for one in bound], "texts": [str(one) for one in bound]}

    def _top(self, message: dict[str, Any]) -> dict[str, Any]:
        held = self._held(message["pin"], message.get("pinned"))
        top = _bind_top(message["top"], held)
        return {"text": None if top is None else str(top)}

    def _plan(self, message: dict[str, Any]) -> dict[str, Any]:
        plan = self._planned(message)
        return {
            "scan": plan.context.scan_id,
            "rows": plan.estimated_rows,
            "bytes": plan.estimated_bytes,
        }

    def _planned(self, message: dict[str, Any]) -> ScanPlan:
        from twostage.columns import project_spark  # noqa: PLC0415

        held = self._held(message["pin"], message.get("pinned"))
        hints = [_bind(raw, held) for raw in (*message["hints"], *message["runtime"])]
        plan = self._plan_scan(
            held,
            message,
            projection=project_spark(held.schema, json.loads(message["schema"])),
            predicate=both(held.filter, *(_bind(raw, held) for raw in message["taken"])),
            hint=both(TRUE, *(weaken(one) for one in hints)),
            limit=message["limit"],
            top=_bind_top(message["top"], held),
        )
        if message.get("stays"):
            choice = f"Not handed to Spark's own Parquet reader: {message['stays']}."
            plan = replace(plan, choices=(*plan.choices, choice))
        self._remember(PlannedScan(plan=plan))
        return plan

    def _plan_scan(self, held: Pin, message: dict[str, Any], **wanted: Any) -> ScanPlan:
        """Plan a scan, unless the same one was planned just now to ask who reads it."""
        from twostage.planning.plan import plan_scan  # noqa: PLC0415

        started = time.perf_counter_ns()
        key = (message["pin"], message["parallelism"], wanted)
        with self._lock:
            place = next((n for n, (known, _) in enumerate(self._spares) if known == key), None)
            if place is not None:
                return self._spares.pop(place)[1]
        scan_id = uuid.uuid4().hex
        plan = plan_scan(
            held.table, held.options, **wanted, parallelism=message["parallelism"], scan_id=scan_id
        )
        return replace(plan, counters={"time.planning": time.perf_counter_ns() - started, **plan.counters})

    def _native(self, message: dict[str, Any]) -> dict[str, Any]:
        """Tell whether Spark's own Parquet reader does a scan: why not, or the files and how to read them."""
        from twostage.spark.native_scan import hand_over  # noqa: PLC0415

        held = self._held(message["pin"], message.get("pinned"))
        if message.get("aggregates") and not isinstance(self._answer(held, message), str):
            return {"stays": "metadata answers its aggregates"}

        def plan_scan(
            projection: tuple[Field, ...], predicate: Predicate, hint: Predicate, top: TopRows | None
        ) -> ScanPlan:
            wanted = {
                "projection": projection,
                "predicate": predicate,
                "hint": hint,
                "limit": None,
                "top": top,
            }
            plan = self._plan_scan(held, message, **wanted)
            with self._lock:
                self._spares = [*self._spares, ((message["pin"], message["parallelism"], wanted), plan)]
                self._spares = self._spares[-MAX_SPARES:]
            return plan

        found = hand_over(
            held.table,
            held.options,
            message,
            bind=lambda raw: _bind(raw, held),
            plan_scan=plan_scan,
            top=_bind_top(message["top"], held),
        )
        if isinstance(found, str):
            return {"stays": found}
        with self._lock:
            scan_id = found.plan.context.scan_id
            self._spares = [spare for spare in self._spares if spare[1].context.scan_id != scan_id]
        self._remember(PlannedScan(plan=found.plan))
        return {"stays": None, **found.answer}

    def _aggregate(self, message: dict[str, Any]) -> dict[str, Any]:
        """Tell whether metadata answers aggregates: why not, or the rows."""
        found = self._answer(self._held(message["pin"], message.get("pinned")), message, take=True)
        if isinstance(found, str):
            return {"lacks": found}
        self._remember(PlannedScan(plan=found.plan))
        return {
            "lacks": None,
            "scan": found.plan.context.scan_id,
            "schema": json.dumps(found.schema),
            "rows": found.rows,
        }

    def _mixed(self, message: dict[str, Any]) -> dict[str, Any]:
        """Tell whether metadata answers aggregates for most files: why not, or the rows and the table of the others."""
        held = self._held(message["pin"], message.get("pinned"))
        found = self._answer(held, message, mix=True)
        if isinstance(found, str) or not found.unread:
            return {"lacks": found if isinstance(found, str) else "nothing"}
        rest = replace(held, table=replace(held.table, only=found.unread))
        key = hashlib.sha256(repr((message["pin"], sorted(found.unread))).encode()).hexdigest()
        with self._lock:
            self._tables[key] = rest
        pinned = _text(zlib.compress(pickle.dumps(rest), 1))
        schema = json.dumps(found.schema)
        return {"lacks": None, "schema": schema, "rows": found.rows, "pin": key, "pinned": pinned}

    def _answer(
        self, held: Pin, message: dict[str, Any], *, take: bool = False, mix: bool = False
    ) -> FromMetadata | str:
        """Answer aggregates; the planner asks first for the scan's sake, and then to `take` the answer."""
        from twostage.spark.aggregates import Answers  # noqa: PLC0415

        if any(raw["form"] is None for raw in message["predicates"]):
            return "a filter is left to Spark"
        predicate = both(held.filter, *(_bind(raw["form"], held) for raw in message["predicates"]))
        with self._lock:
            answers = self._held_answers = self._held_answers or Answers()
        wanted = message["aggregates"]
        pin = message["pin"]
        return answers.find(pin, held.table, held.options, wanted, predicate, take=take, mix=mix)

    def _started(self, message: dict[str, Any]) -> dict[str, Any]:
        """Note that Spark reads a scan that was handed over, or takes an answer from metadata."""
        with self._lock:
            scan = self._scans.get(message["scan"])
        if scan is not None and not scan.started:
            self._remember(replace(scan, started=True))
        return {}

    def _remember(self, scan: PlannedScan) -> None:
        with self._lock:
            self._scans[scan.plan.context.scan_id] = scan
            self._scans.move_to_end(scan.plan.context.scan_id)
            while len(self._scans) > MAX_SCANS:
                self._scans.popitem(last=False)

    def _read(self, message: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            scan = self._scans.get(message["scan"])
        plan = scan.plan if scan is not None and not scan.started else self._planned(message)
        function, partitions = self._pickle(plan, message["schema"])
        # What the report needs stays; the tasks are Spark's now.
        empty = tuple(replace(group, tasks=()) for group in plan.groups)
        self._remember(PlannedScan(plan=replace(plan, groups=empty), started=True))
        return {"function": function, "partitions": partitions}

    def _pickle(self, plan: ScanPlan, schema: str) -> tuple[str, list[str]]:
        """Make what Spark's planning worker would send: the read function and the partitions, pickled."""
        from pyspark.serializers import read_int  # noqa: PLC0415
        from pyspark.sql.types import StructType  # noqa: PLC0415
        from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions  # noqa: PLC0415

        wanted = StructType.fromJson(json.loads(schema))
        sent = io.BytesIO()
        write_read_func_and_partitions(
            sent,
            reader=TwoStageReader(wanted, plan.groups, self._metrics),
            data_source=TwoStageSource({}),
            schema=wanted,
            max_arrow_batch_size=10_000,  # for sources that yield rows; ours yield batches
            binary_as_bytes=True,
        )
        sent.seek(0)
        function = sent.read(read_int(sent))
        partitions = [sent.read(read_int(sent)) for _ in range(read_int(sent))]
        # Spark writes one partition of nothing where there is none; a task costs tens of milliseconds.
        return _text(function), [_text(one) for one in partitions] if plan.groups else []

    def started_scans(self) -> list[tuple[ScanPlan, list[Metrics]]]:
        """Return the scans that Spark read, oldest first, each with the metrics of the tasks that finished."""
        with self._lock:
            plans = [scan.plan for scan in self._scans.values() if scan.started]
            tasks = dict(self._metrics.value) if self._metrics is not None else {}
        return [
            (plan, [one for _, one in sorted(tasks.get(plan.context.scan_id, {}).items())]) for plan in plans
        ]


def _bind(raw: Mapping[str, Any], held: Pin) -> Predicate:
    from twostage.predicates.bind import bind_predicate  # noqa: PLC0415

    return bind_predicate(raw, held.schema, case_sensitive=held.case_sensitive)


def _bind_top(raw: Mapping[str, Any] | None, held: Pin) -> TopRows | None:
    from twostage.predicates.bind import bind_top  # noqa: PLC0415

    if raw is None or not held.options.top_n or held.table.metadata_table is not None:
        return None
    return bind_top(raw, held.table.schema, case_sensitive=held.case_sensitive)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _kind(error: TwoStageError) -> str:
    if isinstance(error, UnknownPinError):
        return "unknown_pin"
    if error.code in _NOT_FOUND:
        return "table_not_found"
    return "unsupported" if isinstance(error, UnsupportedFeatureError) else "other"
