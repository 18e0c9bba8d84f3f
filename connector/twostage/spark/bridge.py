"""What the planner's Java asks the driver's Python: load, push, plan, read, list.

Takes JSON text, gives JSON text; Java calls it through py4j from whichever thread Spark plans in. Errors travel
as ``{"error": {"kind", "code", "message"}}``. The rule: a request is answered from what it says and brings along;
what is held here between requests, `pins` and `scans`, saves work and decides nothing.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twostage.errors import InternalError, TwoStageError, UnsupportedFeatureError
from twostage.predicates.predicate import TRUE, both, is_exact, weaken
from twostage.spark import catalogs
from twostage.spark.heard_tasks import SparkTasks, hear
from twostage.spark.pins import Pins, UnknownPinError
from twostage.spark.planned_scans import PlannedScans
from twostage.spark.report_listener import LISTENER_CONFS, listen
from twostage.spark.source import MAX_SCANS, ReportsParam, TwoStageReader, TwoStageSource, parse, pin
from twostage.spark.task_reports import TaskReports
from twostage.spark.usable_session import missing_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext

    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.schema import Field
    from twostage.spark.aggregates import Answers, FromMetadata
    from twostage.spark.heard_tasks import HeardTasks
    from twostage.spark.pins import Pin
    from twostage.spark.report_listener import ReportListener
    from twostage.task import ScanPlan

_NOT_FOUND = ("TABLE_NOT_FOUND", "NAMESPACE_NOT_FOUND")


class Bridge:
    """Answers the planner. One for the whole process; `connect` gives it each Spark context's accumulator.

    Args:
        reinstall: Installs all of this in another context than the one that is connected: Spark gives a session that
            follows a stopped one its planner, too, and reads with what was made for the stopped one's context.
    """

    def __init__(self, reinstall: Callable[[SparkContext], None] = lambda _: None) -> None:
        self._reinstall = reinstall
        self._lock = threading.Lock()
        self.pins = Pins()
        self.scans = PlannedScans()
        self._held_answers: Answers | None = None
        self._reports: TaskReports | None = None
        self._listeners: dict[tuple[str | None, ...], ReportListener | None] = {}
        self._listener: ReportListener | None = None
        self._context: SparkContext | None = None
        self._of_others: frozenset[str] = frozenset()
        """Scans of contexts that were connected before: Spark counts tasks anew in each."""
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
                conf = dict(context.getConf().getAll())
                self._listener = self._listen(conf)  # first: it may be refused
                self._context = context
                self._of_others = frozenset(plan.context.scan_id for plan in self.scans.started())
                address = None if self._listener is None else self._listener.address
                self._reports = TaskReports(context.accumulator({}, ReportsParam()), address)

    def _listen(self, conf: dict[str, str]) -> ReportListener | None:
        """Listen to this context's tasks: where one was made for another with the same configuration, that does it."""
        place = tuple(conf.get(name) for name in LISTENER_CONFS)
        if place not in self._listeners:
            self._listeners[place] = listen(conf, most_scans=MAX_SCANS)
        return self._listeners[place]

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
            return _failed(error)
        except ModuleNotFoundError as error:
            return _failed(missing_module(error))
        except Exception as error:  # noqa: BLE001 - a bug of ours must reach the user as an error, not as a hang
            wrapped = InternalError(
                "INTERNAL",
                f"Planning failed: {type(error).__name__}: {error}",
                stage="plan",
                hint="Please report this.",
            )
            return _failed(wrapped)

    def toString(self) -> str:  # noqa: N802 - Java's name
        """Return a name for Java's logs."""
        return "twostage.Bridge"

    class Java:
        """Tells py4j what the object is in Java."""

        implements = ("java.util.function.Function",)

    # tables

    def _follow(self) -> None:
        """Be connected to the context that lives now."""
        from pyspark import SparkContext  # noqa: PLC0415

        context = SparkContext._active_spark_context  # noqa: SLF001 - the public way to it makes one
        if context is not None and self._context not in (None, context):
            self._reinstall(context)

    def _load(self, message: dict[str, Any]) -> dict[str, Any]:
        self._follow()
        options = parse(message["options"])
        return self.pins.keep(pin(options, message["confs"]), options, message["options"], message["confs"])

    def _create(self, message: dict[str, Any]) -> dict[str, Any]:
        answer = self._load(message)
        source = TwoStageSource(message["options"])
        source.pinned = self.pins.held(answer).table
        return {**answer, "source": _text(pickle.dumps(source))}

    def _adopt(self, message: dict[str, Any]) -> dict[str, Any]:
        self._follow()
        source = pickle.loads(base64.b64decode(message["source"]))  # noqa: S301 - Spark's own pickle of our class
        raw = dict(source.options)
        options = parse(raw)
        table = source.pinned or pin(options, message["confs"])
        return {**self.pins.keep(table, options, raw, message["confs"]), "options": raw}

    # scans

    def _push(self, message: dict[str, Any]) -> dict[str, Any]:
        held = self.pins.held(message)
        bound = [held.bind(raw) for raw in message["predicates"]]
        filters = held.table.metadata_table is None  # metadata tables are small: Spark filters them
        return {"exact": [filters and is_exact(one) for one in bound], "texts": [str(one) for one in bound]}

    def _top(self, message: dict[str, Any]) -> dict[str, Any]:
        held = self.pins.held(message)
        top = held.bind_top(message["top"])
        return {"text": None if top is None else str(top)}

    def _plan(self, message: dict[str, Any]) -> dict[str, Any]:
        plan = self._planned(message)
        return {
            "scan": plan.context.scan_id,
            "rows": plan.estimated_rows,
            "bytes": plan.estimated_bytes,
            "thins": plan.may_leave_out,
        }

    def _planned(self, message: dict[str, Any]) -> ScanPlan:
        from twostage.columns import project_spark  # noqa: PLC0415

        held = self.pins.held(message)
        hints = [held.bind(raw) for raw in (*message["hints"], *message["runtime"])]
        plan = self.scans.plan(
            held,
            message,
            projection=project_spark(held.schema, json.loads(message["schema"])),
            predicate=both(held.filter, *(held.bind(raw) for raw in message["taken"])),
            hint=both(TRUE, *(weaken(one) for one in hints)),
            limit=message["limit"],
            top=held.bind_top(message["top"]),
        )
        if message.get("stays"):
            choice = f"Not handed to Spark's own Parquet reader: {message['stays']}."
            plan = replace(plan, choices=(*plan.choices, choice))
        self.scans.remember(plan)
        return plan

    def _native(self, message: dict[str, Any]) -> dict[str, Any]:
        """Tell whether Spark's own Parquet reader does a scan: why not, or the files and how to read them."""
        from twostage.handover.decide import hand_over  # noqa: PLC0415

        held = self.pins.held(message)
        if message.get("aggregates") and not isinstance(self._answer(held, message), str):
            return {"stays": "metadata answers its aggregates", "answers": True}

        def plan_scan(
            projection: tuple[Field, ...], predicate: Predicate, hint: Predicate, top: TopRows | None
        ) -> ScanPlan:
            return self.scans.plan_ahead(
                held, message, projection=projection, predicate=predicate, hint=hint, limit=None, top=top
            )

        found = hand_over(
            held.table,
            held.options,
            message,
            bind=held.bind,
            plan_scan=plan_scan,
            top=held.bind_top(message["top"]),
        )
        if isinstance(found, str):
            return {"stays": found}
        self.scans.drop_spare(found.plan.context.scan_id)
        self.scans.remember(found.plan)
        return {"stays": None, **found.answer}

    def _aggregate(self, message: dict[str, Any]) -> dict[str, Any]:
        """Tell whether metadata answers aggregates: why not, or the rows."""
        found = self._answer(self.pins.held(message), message, take=True)
        if isinstance(found, str):
            return {"lacks": found}
        self.scans.remember(found.plan)
        return {
            "lacks": None,
            "scan": found.plan.context.scan_id,
            "schema": json.dumps(found.schema),
            "rows": found.rows,
        }

    def _mixed(self, message: dict[str, Any]) -> dict[str, Any]:
        """Tell whether metadata answers aggregates for most files: why not, or the rows and the table of the others."""
        held = self.pins.held(message)
        found = self._answer(held, message, mix=True)
        if isinstance(found, str) or not found.unread:
            return {"lacks": found if isinstance(found, str) else "nothing"}
        rest = self.pins.keep_part(message["pin"], held, found.unread)
        return {"lacks": None, "schema": json.dumps(found.schema), "rows": found.rows, **rest}

    def _answer(
        self, held: Pin, message: dict[str, Any], *, take: bool = False, mix: bool = False
    ) -> FromMetadata | str:
        """Answer aggregates; the planner asks first for the scan's sake, and then to `take` the answer."""
        from twostage.spark.aggregates import Answers, with_own_names  # noqa: PLC0415

        if any(raw["form"] is None for raw in message["predicates"]):
            return "a filter is left to Spark"
        predicate = both(held.filter, *(held.bind(raw["form"]) for raw in message["predicates"]))
        with self._lock:
            answers = self._held_answers = self._held_answers or Answers()
        key, names = message["pin"], message["aggregates"]
        wanted = with_own_names(names, held.table.schema, case_sensitive=held.case_sensitive)
        return answers.find(key, held.table, held.options, wanted, predicate, take=take, mix=mix)

    def _started(self, message: dict[str, Any]) -> dict[str, Any]:
        """Note that Spark reads a scan that was handed over, or takes an answer from metadata."""
        scan = self.scans.find(message["scan"])
        if scan is not None and not scan.started:
            self.scans.remember(scan.plan, started=True)
        return {}

    def _read(self, message: dict[str, Any]) -> dict[str, Any]:
        scan = self.scans.find(message["scan"])
        plan = scan.plan if scan is not None and not scan.started else self._planned(message)
        function, partitions = self._pickle(plan, message["schema"])
        # What the report needs stays; the tasks are Spark's now.
        empty = tuple(replace(group, tasks=()) for group in plan.groups)
        self.scans.remember(replace(plan, groups=empty), started=True)
        return {"scan": plan.context.scan_id, "function": function, "partitions": partitions}

    def _pickle(self, plan: ScanPlan, schema: str) -> tuple[str, list[str]]:
        """Make what Spark's planning worker would send: the read function and the partitions, pickled."""
        from pyspark.serializers import read_int  # noqa: PLC0415
        from pyspark.sql.types import StructType  # noqa: PLC0415
        from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions  # noqa: PLC0415

        wanted = StructType.fromJson(json.loads(schema))
        sent = io.BytesIO()
        write_read_func_and_partitions(
            sent,
            reader=TwoStageReader(wanted, plan.groups, self._reports),
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

    def started_scans(
        self, tasks: Callable[[], SparkTasks], most: int | None = None
    ) -> list[tuple[ScanPlan, HeardTasks]]:
        """Return the last scans that Spark read, oldest first, each with what its tasks told.

        Args:
            tasks: Asks Spark of its own tasks.
            most: Scans; None for all. What tasks told of others is not looked at.
        """
        plans = self.scans.started()
        plans = plans if most is None else plans[-most:]
        with self._lock:
            listener, of_others = self._listener, self._of_others
            brought = dict(self._reports.accumulator.value) if self._reports is not None else {}
        before = [plan for plan in plans if plan.context.scan_id in of_others]
        own = [plan for plan in plans if plan.context.scan_id not in of_others]
        return [*hear(before, brought, listener, SparkTasks), *hear(own, brought, listener, tasks)]


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _failed(error: TwoStageError) -> str:
    return json.dumps({"error": {"kind": _kind(error), "code": error.code, "message": str(error)}})


def _kind(error: TwoStageError) -> str:
    if isinstance(error, UnknownPinError):
        return "unknown_pin"
    if error.code in _NOT_FOUND:
        return "table_not_found"
    if error.code == "INTERNAL":
        return "internal"
    return "unsupported" if isinstance(error, UnsupportedFeatureError) else "other"
