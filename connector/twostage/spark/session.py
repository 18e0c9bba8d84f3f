"""Switches twostage on in a Spark session, and reports what its scans did.

Takes a session; leaves it with the planner, the source and, if given, SQL catalogs. Calling `enable` again
changes nothing; sessions made from an enabled one have it too.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from twostage.errors import NotFoundError
from twostage.spark import spark_internals
from twostage.spark.query_log import QUERY_LOG, check_location
from twostage.spark.usable_session import check_reports, check_session, missing_module
from twostage.spark.worker_errors import error_of_worker
from twostage.spark.worker_tuning import SWITCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from twostage.report.scan_report import ScanReport
    from twostage.spark.bridge import Bridge
    from twostage.spark.task_outcomes import SparkTasks

_DOMAIN_SOCKET = "spark.python.unix.domain.socket.enabled"
_DAEMON = "spark.python.daemon.module"
_OUR_DAEMON = "twostage.spark.worker_daemon"
_IMPORT_SECONDS = 10.0
_MAX_SOCKET_FOLDER_BYTES = 55
"""Bytes: a socket's path has at most 103 on macOS (107 on Linux), of which Spark's file name takes 43."""
_REDACTED = "spark.sql.redaction.options.regex"
_CATALOG_OPTIONS = (
    r"^(?i:catalog\.)"
    r"|^(?i:spark\.sql\.catalog\..*(?:key|credential|authorization|sas-token|connection-string|passphrase))"
    r"|://[^/\s]*:[^/\s]*@"
)
_POLL_SECONDS = 0.2
_LOG_SECONDS = 10.0
"""Seconds that the process waits for the query log when it ends."""
Item = TypeVar("Item")
Result = TypeVar("Result")
_lock = threading.Lock()
_bridge: Bridge | None = None


def enable(
    spark: SparkSession,
    catalogs: Mapping[str, Mapping[str, str]] | None = None,
    *,
    query_log: str | None = None,
) -> None:
    """Install the planner and the source in a live session.

    Args:
        spark: The session; sessions made from it later have twostage too.
        catalogs: SQL catalogs by name, each with its properties (``type``, ``uri``, ``warehouse`` …), as in the
            confs ``spark.sql.catalog.<name>.<property>``.
        query_log: A folder or bucket where the scans of each query are logged when it ends, for `query_log` and
            ``python -m twostage advise``; as the conf ``spark.twostage.query-log``. None: there is no log unless
            that conf is set.

    Raises:
        OptionError: The log's location is not a folder or bucket; PySpark, or a package that twostage needs, is not installed; the
            session was stopped, or is a Spark Connect client's, which has no JVM to install a planner in.
        UnsupportedFeatureError: PySpark is older than 4.1.

    Examples:
        >>> twostage.enable(spark, catalogs={"lake": {"type": "rest", "uri": "http://…"}})  # doctest: +SKIP
        >>> spark.sql("SELECT * FROM lake.db.events VERSION AS OF 'audit'")  # doctest: +SKIP
    """
    check_session(spark)
    session: Any = spark
    confs = {} if query_log is None else {QUERY_LOG: check_location(query_log)}
    try:
        _install(session, catalogs or {}, confs)
    except ModuleNotFoundError as error:
        raise missing_module(error) from None


def _install(session: Any, catalogs: Mapping[str, Mapping[str, str]], more_confs: Mapping[str, str]) -> None:
    from twostage import planner  # noqa: PLC0415
    from twostage.spark.source import TwoStageSource  # noqa: PLC0415

    context = session.sparkContext
    gateway = spark_internals.gateway_of(context)
    jvm = gateway.jvm
    _use_own_python(context)
    with _lock, _own_daemon(context):
        bridge = _the_bridge()
        bridge.connect(context)
        spark_internals.start_callbacks(gateway)
        installer = planner.load_installer(jvm, gateway)
        java_source = getattr(
            jvm, "org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource"
        )(spark_internals.java_function(context, TwoStageSource))
        confs = {
            f"spark.sql.catalog.{name}{suffix}": value
            for name, properties in catalogs.items()
            for suffix, value in (
                ("", "twostage"),
                *((f".{key}", str(text)) for key, text in properties.items()),
            )
        } | dict(more_confs)
        _redact_options(session)
        _use_domain_sockets(context)
        java_session = spark_internals.java_session(session)
        planner.install(installer, gateway, java_session, bridge, java_source, confs)


def _use_own_python(context: Any) -> None:
    """Let the workers of a local session run in this Python unless the user chose one.

    Spark would take the first ``python3`` of the search path, which may be another one, without twostage.
    """
    if _is_local(context) and sys.executable and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def _use_domain_sockets(context: Any) -> None:
    """Let the workers of a local session be reached through a Unix domain socket.

    Over TCP, delayed acknowledgements add about 40 ms to a task. Spark reads the conf when it first starts workers; on a
    cluster it belongs in the session's configuration.
    """
    folder = str(spark_internals.gateway_of(context).jvm.System.getProperty("java.io.tmpdir"))
    if _may_set(context, _DOMAIN_SOCKET) and len(os.fsencode(folder)) <= _MAX_SOCKET_FOLDER_BYTES:
        _live_conf(context).set(_DOMAIN_SOCKET, "true")


@contextlib.contextmanager
def _own_daemon(context: Any) -> Iterator[None]:
    """Let the next workers of a local session be forked from our daemon, if their Python can import it: tried in the background.

    That it can be imported here proves nothing: there may be two Pythons, or a changed ``sys.path``. And if Spark could not
    start its daemon, no Python task of the session would run at all.
    """
    if not sys.platform.startswith("linux") or not _may_set(context, _DAEMON):
        yield
        return
    command = [spark_internals.worker_python(context), "-c", f"import {_OUR_DAEMON}"]
    quiet = subprocess.DEVNULL
    try:
        trial = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)  # noqa: S603 - Spark runs it too
    except OSError:
        yield
        return
    try:
        yield
    finally:
        try:
            found = trial.wait(_IMPORT_SECONDS)
        except subprocess.TimeoutExpired:
            trial.kill()
            found = trial.wait()
        if found == 0:
            _live_conf(context).set(_DAEMON, _OUR_DAEMON)


def _may_set(context: Any, key: str) -> bool:
    """Return whether the session is local and its user has not set the conf."""
    return _is_local(context) and os.environ.get(SWITCH) != "0" and not _live_conf(context).contains(key)


def _is_local(context: Any) -> bool:
    master = str(_live_conf(context).get("spark.master", ""))
    return master == "local" or master.startswith("local[")


def _live_conf(context: Any) -> Any:
    return spark_internals.java_context(context).conf()  # the one that SparkEnv shares


def _redact_options(session: Any) -> None:
    """Let Spark hide ``catalog.*`` options and catalogs' secrets in plans and in its UI, in addition to what it hides itself.

    Its own pattern knows ``secret``, ``password`` and ``token``, not ``access-key-id``, ``credential``, a header
    or a login inside a URI.
    """
    pattern = session.conf.get(_REDACTED, None) or "(?i)url"
    if _CATALOG_OPTIONS not in pattern:
        session.conf.set(_REDACTED, f"{pattern}|{_CATALOG_OPTIONS}")


def scans(spark: SparkSession) -> list[ScanReport]:
    """Return the reports of the last scans that Spark read, oldest first, at most 100.

    Raises:
        OptionError: A Spark Connect session; the reports are in the driver's Python.
    """
    return _reports(spark)


def _reports(spark: SparkSession, max_scans: int | None = None) -> list[ScanReport]:
    check_reports(spark)
    from twostage.report.scan_report import ScanReport  # noqa: PLC0415

    started = _the_bridge().started_scans(lambda: _spark_tasks(spark), max_scans)
    measured: Mapping[str, Mapping[str, Any]] = _spark_metrics(spark, "scanMetrics") if started else {}
    return [
        ScanReport.build(plan, outcomes.metrics, measured.get(plan.context.scan_id), outcomes.states)
        for plan, outcomes in started
    ]


def _spark_metrics(spark: SparkSession, what: Literal["scanMetrics", "taskStates"]) -> dict[str, Any]:
    """Return what Spark's listeners were told of scans and of planning their queries, or of tasks."""
    from twostage import planner  # noqa: PLC0415

    gateway = spark_internals.gateway_of(spark.sparkContext)
    return planner.spark_metrics(gateway.jvm, gateway, spark_internals.java_session(spark), what)


def _spark_tasks(spark: SparkSession) -> SparkTasks:
    from twostage.spark.task_outcomes import SparkTasks  # noqa: PLC0415

    found = _spark_metrics(spark, "taskStates")
    lost = {int(attempt): str(end) for attempt, end in found.get("lost", {}).items()}
    return SparkTasks(running=frozenset(found.get("running", ())), lost=lost)


def last_scan(spark: SparkSession) -> ScanReport:
    """Return the report of the last scan that Spark read.

    Raises:
        NotFoundError: No scan has been read since ``enable``.
        OptionError: A Spark Connect session; the reports are in the driver's Python.
    """
    reports = _reports(spark, 1)
    if not reports:
        raise NotFoundError(
            "NO_SCAN",
            "No scan has been read yet",
            hint="Call twostage.enable(spark) before the query; without it scans are not reported.",
        )
    return reports[-1]


def run_job(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    progress: Callable[[int], None],
    description: str,
) -> Iterator[Result]:
    """Yield ``work(item)`` of each item, done by a Spark job; see `run_job_by_task`."""
    return run_job_by_task(partial(map, work), items, progress, description)


def run_job_by_task(
    work: Callable[[Iterable[Item]], Iterable[Result]],
    items: Sequence[Item],
    progress: Callable[[int], None],
    description: str,
) -> Iterator[Result]:
    """Yield what `work` gives for the items of each task of a Spark job; `progress` is told how many are done meanwhile.

    Raises:
        TwoStageError: `work` raised it in a worker; or the workers' Python has no twostage (NOT_ON_WORKERS).
    """
    from pyspark import InheritableThread  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    context = SparkSession.builder.getOrCreate().sparkContext
    _use_own_python(context)
    results: list[Result] = []
    errors: list[BaseException] = []
    group = uuid.uuid4().hex
    slices = max(1, min(len(items), 4 * context.defaultParallelism))

    def run() -> None:
        context.setJobGroup(group, description, interruptOnCancel=True)
        try:
            results.extend(context.parallelize(items, slices).mapPartitions(work).collect())
        except Exception as error:  # noqa: BLE001 - raised again below, in the caller's thread
            errors.append(error)

    thread = InheritableThread(target=run)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
            tracker = context.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
            stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
            progress(sum(stage.numCompletedTasks for stage in stages if stage) * len(items) // slices)
    except BaseException:
        context.cancelJobGroup(group)
        thread.join()
        raise
    if errors:
        raise error_of_worker(errors[0], spark_internals.worker_python(context)) or errors[0]
    yield from results


def _the_bridge() -> Bridge:
    global _bridge  # noqa: PLW0603 - one for the process: PySpark has one JVM, whatever its sessions
    if _bridge is None:
        from twostage.spark.bridge import Bridge  # noqa: PLC0415

        _bridge = Bridge(_reinstall)
        atexit.register(_finish_query_log, _bridge)
    return _bridge


def _finish_query_log(bridge: Bridge) -> None:
    """Let what was read be logged before the process ends, and the JVM with it: its listeners may not have been told yet."""
    with contextlib.suppress(Exception):
        session: Any = spark_internals.latest_session()
        is_live = session is not None and not spark_internals.is_stopped(session)
        if is_live and bridge.scans.started() and session.conf.get(QUERY_LOG, ""):
            _spark_metrics(session, "taskStates")
    bridge.query_log.flush(_LOG_SECONDS)


def _reinstall(context: SparkContext) -> None:
    """Do again what `enable` did, in the session that was made after another one was stopped."""
    session = spark_internals.latest_session()
    if session is not None and session.sparkContext is context:
        _install(session, {}, {})
