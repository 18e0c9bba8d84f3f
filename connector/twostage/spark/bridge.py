"""Answers the planner's Java: load, push, plan, read, list.

Takes the JSON of a request (`requests.py`), gives that of its answer (`answers.py`); Java calls it through py4j from
whichever thread Spark plans in. The rule: a request is answered from what it says and brings along; what is kept here
between requests, `pins` and `scans`, saves work and decides nothing.
"""

from __future__ import annotations

import base64
import json
import pickle
import threading
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from twostage.errors import InternalError, TwoStageError, UnsupportedFeatureError
from twostage.handover.protocol import KEYS_MAY_PRUNE
from twostage.planning.placement import place
from twostage.predicates.predicate import TRUE, both, conjuncts, is_exact, weaken
from twostage.spark import catalogs
from twostage.spark.answers import (
    AdoptAnswer,
    AggregateAnswer,
    CreateAnswer,
    EndedAnswer,
    Failure,
    HandOverAnswer,
    MetadataRows,
    MixedAnswer,
    PartialRows,
    PassesRowsOnAnswer,
    PlanAnswer,
    PushAnswer,
    ReadAnswer,
    StartedAnswer,
    TopAnswer,
)
from twostage.spark.context_reports import ContextReports
from twostage.spark.driver_rows import passes_rows_on
from twostage.spark.messages import parse_request, write_answer, write_failure
from twostage.spark.pins import Pins, UnknownPinError
from twostage.spark.planned_scans import PlannedScans
from twostage.spark.planning_requests import PlanningRequests
from twostage.spark.query_log import QueryLogWriter, is_logged
from twostage.spark.source import (
    TwoStageReader,
    TwoStageSource,
    parse_source_options,
    pin_table,
)
from twostage.spark.spark_internals import active_context, pickle_reader
from twostage.spark.usable_session import missing_module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark import SparkContext

    from twostage.handover.decide import AwaitsKeys
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.schema import Field
    from twostage.spark.aggregates import AnsweredAggregates, MetadataAnswers
    from twostage.spark.answers import LoadAnswer
    from twostage.spark.pins import Pin
    from twostage.spark.requests import (
        AdoptRequest,
        AggregateRequest,
        CreateRequest,
        EndedRequest,
        HandOverRequest,
        LoadRequest,
        MixedRequest,
        PassesRowsOnRequest,
        PinnedRequest,
        PlanRequest,
        PredicateForm,
        PushRequest,
        ReadRequest,
        StartedRequest,
        TopRequest,
        WantedAggregates,
    )
    from twostage.spark.task_outcomes import SparkTasks, TaskOutcomes
    from twostage.task import ScanPlan

_NOT_FOUND = ("TABLE_NOT_FOUND", "NAMESPACE_NOT_FOUND")


class Bridge:
    """Answers the planner. One for the whole process, whatever the number of its Spark contexts.

    Args:
        reinstall: Does the work of `enable` again, in another Spark context than the connected one. A session that follows
            a stopped one inherits its planner, which would read with what was made for the stopped context.
    """

    def __init__(self, reinstall: Callable[[SparkContext], None] = lambda _: None) -> None:
        self._reinstall = reinstall
        self._lock = threading.Lock()
        self.pins = Pins()
        self.scans = PlannedScans()
        self._requests = PlanningRequests()
        self._metadata_answers: MetadataAnswers | None = None
        self._reports = ContextReports()
        self.query_log = QueryLogWriter(self._reports)
        self.calls: dict[str, int] = {}
        """How often each call came; tests count plans by it."""
        self._handlers: dict[str, Callable[[Any], Any]] = {
            "load": self._load,
            "create": self._create,
            "adopt": self._adopt,
            "push": self._push,
            "top": self._top,
            "hand_over": self._hand_over,
            "aggregate": self._aggregate,
            "passes_rows_on": _passes_rows_on,
            "started": self._started,
            "ended": self._ended,
            "plan": self._plan,
            "read": self._read,
            "mixed": self._mixed,
            "tables": catalogs.list_tables,
            "namespaces": catalogs.list_namespaces,
            "namespace": catalogs.check_namespace,
        }

    def connect(self, context: SparkContext) -> None:
        """Let the tasks of this context report from now on.

        Raises:
            OptionError: The conf of the listener's port is not a port.
        """
        self._reports.connect(context, self.scans.started())

    # java.util.function.Function

    def apply(self, text: str) -> str:
        """Answer one request: ``{"answer": …}`` or ``{"error": …}``; never raises."""
        try:
            call, request = parse_request(text)
            with self._lock:
                self.calls[call] = self.calls.get(call, 0) + 1
            return write_answer(self._handlers[call](request))
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

    def _reconnect(self) -> None:
        """Connect to the active Spark context, if another one is connected."""
        context = active_context()
        if context is not None and self._reports.context not in (None, context):
            self._reinstall(context)

    def _pin_of(self, request: PinnedRequest) -> Pin:
        return self.pins.find_for_planning(request.pin, request.pinned)

    def _load(self, request: LoadRequest) -> LoadAnswer:
        self._reconnect()
        options = parse_source_options(request.options)
        with self._requests.counted() as pin:
            answer = self.pins.add(pin_table(options, request.confs), options, request.options, request.confs)
            pin.append(answer.pin)
        return answer

    def _create(self, request: CreateRequest) -> CreateAnswer:
        loaded = self._load(request)
        source = TwoStageSource(request.options)
        source.pinned = self.pins.find(loaded.pin, loaded.pinned).table
        return CreateAnswer(source=_text(pickle.dumps(source)), schema=loaded.schema)

    def _adopt(self, request: AdoptRequest) -> AdoptAnswer:
        self._reconnect()
        source = pickle.loads(base64.b64decode(request.source))  # noqa: S301 - Spark's own pickle of our class
        raw = dict(source.options)
        options = parse_source_options(raw)
        with self._requests.counted() as pin:
            table = source.pinned or pin_table(options, request.confs)
            answer = self.pins.add(table, options, raw, request.confs)
            pin.append(answer.pin)
        return AdoptAnswer(**asdict(answer), options=raw)

    # scans

    def _push(self, request: PushRequest) -> PushAnswer:
        pin = self._pin_of(request)
        bound = [pin.bind(form) for form in request.predicates]
        filters = pin.table.metadata_table is None  # metadata tables are small: Spark filters them
        return PushAnswer(
            exact=tuple(filters and is_exact(one) for one in bound), texts=tuple(str(one) for one in bound)
        )

    def _top(self, request: TopRequest) -> TopAnswer:
        top = self._pin_of(request).bind_top(request.top)
        return TopAnswer(text=None if top is None else str(top))

    def _plan(self, request: PlanRequest) -> PlanAnswer:
        with self._requests.counted(request.pin):
            plan = self._plan_scan(request)
        return PlanAnswer(
            scan=plan.context.scan_id,
            rows=plan.estimated_rows,
            bytes=plan.estimated_bytes,
            prunable=plan.may_profit_from_keys,
            indexed=plan.indexed,
            placed=self._pin_of(request).options.executor_locality,
        )

    def _plan_scan(self, request: PlanRequest) -> ScanPlan:
        from twostage.columns import project_spark  # noqa: PLC0415

        pin = self._pin_of(request)
        exact = [pin.bind(form) for form in request.exact]
        hints = [pin.bind(form) for form in request.hints]
        # Rows that a limit counts must be those that it would count without the keys.
        filters = pin.filters_by_keys and request.limit is None and request.top is None
        keys = [pin.bind(form) for form in request.runtime]
        of_joins = [one for one in keys if filters and is_exact(one)]
        hints += [one for one in keys if one not in of_joins]
        plan = self.scans.plan(
            pin,
            request,
            projection=project_spark(pin.schema, json.loads(request.schema)),
            predicate=both(pin.filter, *exact, *of_joins),
            hint=both(TRUE, *(weaken(one) for one in hints)),
            limit=request.limit,
            top=pin.bind_top(request.top),
            **({"keys": conjuncts(both(*of_joins))} if of_joins else {}),
        )
        self.scans.remember(plan)
        return plan

    def _hand_over(self, request: HandOverRequest) -> HandOverAnswer:
        """Tell whether Spark's own Parquet reader does a scan: why not, or the files and how to read them."""
        from twostage.handover.decide import AwaitsKeys, hand_over  # noqa: PLC0415

        pin = self._pin_of(request)
        forms = [conjunct.form for conjunct in request.demand.predicates]
        if request.aggregates is not None:
            found = self._answer(pin, request.pin, request.aggregates, forms)
            if not isinstance(found, str):
                return _not_handed_over("metadata answers its aggregates", by_metadata=True)

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
            if request.planned is not None:
                return self.scans.plan_again(pin, request, request.planned, **wanted)
            return self.scans.plan_ahead(pin, request, **wanted)

        with self._requests.counted(request.pin):
            decided = hand_over(
                pin.table,
                pin.options,
                request.demand,
                bind=pin.bind,
                plan_scan=plan_scan,
                top=pin.bind_top(request.top),
                awaited_keys=request.planned is not None,
                has_keys=request.has_keys,
            )
        if isinstance(decided, AwaitsKeys):
            return _awaits_keys(decided)
        if isinstance(decided, str):
            return _not_handed_over(decided)
        self.scans.drop_ahead(decided.plan.context.scan_id)
        self.scans.remember(self._requests.take(request.pin, decided.plan))
        return HandOverAnswer(reason=None, handed_over=decided.scan)

    def _aggregate(self, request: AggregateRequest) -> AggregateAnswer:
        """Tell whether metadata answers aggregates: why not, or the rows."""
        pin = self._pin_of(request)
        found = self._answer(pin, request.pin, request.aggregates, request.predicates, take=True)
        if isinstance(found, str):
            return AggregateAnswer(reason=found, answered=None)
        self.scans.remember(self._requests.take(request.pin, found.plan))
        rows = MetadataRows(
            scan=found.plan.context.scan_id,
            schema=json.dumps(found.schema),
            rows=found.rows,
            source=found.source,
        )
        return AggregateAnswer(reason=None, answered=rows)

    def _mixed(self, request: MixedRequest) -> MixedAnswer:
        """Tell whether metadata answers aggregates for most files: why not, or the rows and the table of the others."""
        pin = self._pin_of(request)
        found = self._answer(pin, request.pin, request.aggregates, request.predicates, mix=True)
        if isinstance(found, str):
            return MixedAnswer(reason=found, answered=None)
        if not found.unread:
            return MixedAnswer(reason="metadata answers for all files", answered=None)
        part, pinned = self.pins.add_part(request.pin, pin, found.unread, found.by_index)
        self._requests.hand_on(request.pin, part)
        rows = PartialRows(schema=json.dumps(found.schema), rows=found.rows, pin=part, pinned=pinned)
        return MixedAnswer(reason=None, answered=rows)

    def _answer(
        self,
        pin: Pin,
        key: str,
        aggregates: WantedAggregates,
        forms: Sequence[PredicateForm | None],
        *,
        take: bool = False,
        mix: bool = False,
    ) -> AnsweredAggregates | str:
        """Answer aggregates; first to decide who reads the scan, and then to `take` the answer."""
        from twostage.spark.aggregates import MetadataAnswers, with_own_names  # noqa: PLC0415

        bound = [pin.bind(form) for form in forms if form is not None]
        if len(bound) < len(forms):
            return "a filter is left to Spark"
        with self._lock:
            answers = self._metadata_answers = self._metadata_answers or MetadataAnswers()
        wanted = with_own_names(aggregates, pin.table.schema, case_sensitive=pin.case_sensitive)
        predicate = both(pin.filter, *bound)
        with self._requests.counted(key):
            return answers.find(key, pin.table, pin.options, wanted, predicate, take=take, mix=mix)

    def _started(self, request: StartedRequest) -> StartedAnswer:
        """Note that Spark reads a scan that was handed over, or takes an answer from metadata."""
        scan = self.scans.find(request.scan)
        if scan is not None and not scan.started:
            self.scans.remember(scan.plan, started=True)
        return StartedAnswer()

    def _ended(self, request: EndedRequest) -> EndedAnswer:
        """Let the scans of a query that has ended be logged; Spark's listeners wait for this, so it must not wait for them."""
        found = [self.scans.find(scan_id) for scan_id in request.scans]
        self.query_log.add(
            request,
            [scan.plan for scan in found if scan is not None and scan.started and is_logged(scan.plan)],
        )
        return EndedAnswer()

    def _read(self, request: ReadRequest) -> ReadAnswer:
        scan = self.scans.find(request.scan)
        with self._requests.counted(request.pin):
            plan = scan.plan if scan is not None and not scan.started else self._plan_scan(request)
        plan = self._requests.take(request.pin, plan)
        plan, homes = place(plan, request.executors)
        function, partitions = self._pickle(plan, request.schema)
        # What the report needs stays; the tasks are Spark's now.
        empty = tuple(replace(group, tasks=()) for group in plan.groups)
        choices = (*plan.choices, *_why_here(request))
        self.scans.remember(replace(plan, groups=empty, choices=choices), started=True)
        executors = homes or ("",) * len(partitions)
        return ReadAnswer(
            scan=plan.context.scan_id, function=function, partitions=partitions, executors=executors
        )

    def _pickle(self, plan: ScanPlan, schema: str) -> tuple[str, tuple[str, ...]]:
        """Return what Spark's planning worker would send, in Base64: the read function and the partitions, pickled."""
        from pyspark.sql.types import StructType  # noqa: PLC0415

        wanted = StructType.fromJson(json.loads(schema))
        function, partitions = pickle_reader(
            TwoStageReader(wanted, plan.groups, self._reports.of_tasks), TwoStageSource({}), wanted
        )
        # Spark writes one empty partition where there is none; a task costs tens of milliseconds.
        return _text(function), tuple(_text(one) for one in partitions) if plan.groups else ()

    def started_scans(
        self, tasks: Callable[[], SparkTasks], max_scans: int | None = None
    ) -> list[tuple[ScanPlan, TaskOutcomes]]:
        """Return the last scans that Spark read, oldest first, each with what became of its tasks.

        Args:
            tasks: Returns what Spark's scheduler says of its tasks.
            max_scans: The latest only; None for all.
        """
        plans = self.scans.started()
        return self._reports.outcomes(plans if max_scans is None else plans[-max_scans:], tasks)


def _passes_rows_on(request: PassesRowsOnRequest) -> PassesRowsOnAnswer:
    return PassesRowsOnAnswer(unchanged=passes_rows_on(base64.b64decode(request.command), active_context()))


def _why_here(request: ReadRequest) -> tuple[str, ...]:
    """Return why Spark's own reader does not do a scan, now that it is known whether a join gave it keys."""
    if not request.reason:
        return ()
    came = request.reason == KEYS_MAY_PRUNE and request.runtime
    why = "join keys filter it" if came else request.reason
    return (f"Not handed to Spark's own Parquet reader: {why}.",)


def _not_handed_over(reason: str, *, by_metadata: bool = False) -> HandOverAnswer:
    awaits_keys = reason == KEYS_MAY_PRUNE
    return HandOverAnswer(reason=reason, by_metadata=by_metadata, awaits_keys=awaits_keys, handed_over=None)


def _awaits_keys(decided: AwaitsKeys) -> HandOverAnswer:
    return replace(
        _not_handed_over(KEYS_MAY_PRUNE),
        key_columns=decided.columns,
        only_key_columns=decided.only_these,
    )


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _failed(error: TwoStageError) -> str:
    return write_failure(Failure(kind=_kind(error), code=error.code, message=str(error)))


def _kind(error: TwoStageError) -> str:
    if isinstance(error, UnknownPinError):
        return "unknown_pin"
    if error.code in _NOT_FOUND:
        return "table_not_found"
    if error.code == "INTERNAL":
        return "internal"
    return "unsupported" if isinstance(error, UnsupportedFeatureError) else "other"
