"""Puts the Java half of the planner into a running Spark.

Takes a live session's JVM; leaves the classes of this folder on its class path, compiled by the Janino compiler that
Spark ships (about 0.2 s, once for each JVM). The folders ``spark41`` and ``spark43`` have the class that users
name, ``twostage``, for Spark from 4.1 and from 4.3 on. The rule: these classes exist in the driver only, so nothing that
executors receive may be an instance of one of them.

Janino ignores type arguments: write collections raw and cast what they return; no lambdas. ``make lint-java`` compiles the
same sources with javac.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.resources
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from twostage.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Mapping

_INSTALLER = "twostage_planner.PlannerInstaller"
_SCAN_METRICS = "twostage_planner.SparkScanMetrics"
_PREFIX = "twostage-planner-"


def load_installer(jvm: Any, gateway: Any) -> Any:
    """Return the class ``twostage_planner.PlannerInstaller`` of this JVM, compiled now if it is not there yet.

    Raises:
        UnsupportedFeatureError: This Spark's class loader takes no classes, or its Janino is missing.
    """
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    installed = _find(loader, _INSTALLER)
    if installed is not None:
        return installed
    open_loader = loader
    while open_loader is not None and not _takes_urls(open_loader):
        open_loader = open_loader.getParent()
    if open_loader is None:
        raise UnsupportedFeatureError(
            "NO_PLANNER",
            f"Spark's class loader accepts no more classes: {loader.getClass().getName()}",
            stage="options",
            hint="Leave out twostage.enable, and use the options columns and filter instead.",
        )
    folder = _folder()
    # Both processes remove it when they end in order, since either may be killed.
    jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(jvm.java.io.File(folder))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _compile(jvm, gateway, loader, Path(folder))
    open_loader.addURL(jvm.java.io.File(folder).toURI().toURL())
    for path in Path(folder).rglob("*.class"):
        # All at once: a cleaner of temporary folders may remove this one while the driver runs.
        loader.loadClass(".".join(path.relative_to(folder).with_suffix("").parts))
    return loader.loadClass(_INSTALLER)


def install(
    installer: Any, gateway: Any, session: Any, callback: Any, source: Any, confs: Mapping[str, str]
) -> None:
    """Call ``PlannerInstaller.install`` by reflection: py4j looks names up in a loader that may not have ours."""
    jvm = gateway.jvm
    settings = jvm.java.util.HashMap()
    for key, value in confs.items():
        settings.put(key, value)
    values = jvm.java.util.ArrayList()  # py4j's arrays take no Python callbacks
    for value in (session, callback, source, settings):
        values.add(value)
    names = ("java.lang.Object", "java.util.function.Function", "java.lang.Object", "java.util.Map")
    types = gateway.new_array(jvm.java.lang.Class, len(names))
    for place, name in enumerate(names):
        types[place] = jvm.java.lang.Class.forName(name)
    installer.getMethod("install", types).invoke(None, values.toArray())


def spark_metrics(
    jvm: Any, gateway: Any, session: Any, what: Literal["scanMetrics", "taskStates"]
) -> dict[str, Any]:
    """Return what `SparkScanMetrics.java` gathered from Spark's listeners; nothing where the planner is not installed.

    Waits until the listeners were told of all queries that ended before.

    Args:
        jvm: The driver's.
        gateway: py4j's gateway to it.
        session: Spark's own ``SparkSession``.
        what: ``scanMetrics``: what Spark measured of the last scans and of planning their queries, numbers by Spark's
            names by scan id. ``taskStates``: the attempts that are ``running``, and how those ended that were ``lost``.
    """
    metrics = _find(jvm.java.lang.Thread.currentThread().getContextClassLoader(), _SCAN_METRICS)
    if metrics is None:
        return {}
    types = gateway.new_array(jvm.java.lang.Class, 1)
    types[0] = jvm.java.lang.Class.forName("java.lang.Object")
    values = jvm.java.util.ArrayList()
    values.add(session)
    found: dict[str, Any] = json.loads(metrics.getMethod(what, types).invoke(None, values.toArray()))
    return found


def _folder() -> str:
    """Return a new folder for the classes, locked while this process runs; remove those of drivers that were killed."""
    _remove_abandoned()
    while True:
        # mkdtemp gives it to this user alone: who can write there can run code in the driver.
        folder = tempfile.mkdtemp(prefix=_PREFIX)
        try:
            _lock(folder)
        except (FileNotFoundError, BlockingIOError):
            continue  # another driver, which starts now, took it for an abandoned one
        except (ImportError, OSError):
            pass  # no locks here: then nobody will remove it as abandoned, either
        return folder


def _remove_abandoned() -> None:
    """Remove this user's folders that no process holds locked: their driver was killed, and its JVM with it."""
    if not hasattr(os, "getuid"):
        return  # such a platform has no locks, either
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(ImportError, OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                        lock = _lock(entry.path)
                        shutil.rmtree(entry.path, ignore_errors=True)
                        os.close(lock)


def _lock(folder: str) -> int:
    """Lock a folder until the descriptor is closed or the process ends.

    Raises:
        ImportError: This platform has no such locks.
        OSError: BlockingIOError if another process has it, FileNotFoundError if the folder was removed, or the file
            system's own.
    """
    import fcntl  # noqa: PLC0415 - not on every platform

    handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.lstat(folder)  # it may have been removed since it was opened
    except OSError:
        os.close(handle)
        raise
    return handle


def _compile(jvm: Any, gateway: Any, loader: Any, folder: Path) -> None:
    here = importlib.resources.files(__name__)  # a folder, or a place inside the zip of --py-files
    later = _find(loader, "org.apache.spark.sql.connector.catalog.TableContext") is not None
    sources = sorted(
        (entry for entry in here.iterdir() if entry.name.endswith(".java")), key=lambda entry: entry.name
    )
    sources.append(here / ("spark43" if later else "spark41") / "twostage.java")
    resources = gateway.new_array(jvm.org.codehaus.commons.compiler.util.resource.Resource, len(sources))
    for place, source in enumerate(sources):
        resources[place] = jvm.org.codehaus.commons.compiler.util.resource.StringResource(
            source.name, source.read_text(encoding="utf-8")
        )
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    compiler.setSourceVersion(8)
    compiler.setTargetVersion(8)
    compiler.setDestinationDirectory(jvm.java.io.File(str(folder)), False)
    compiler.compile(resources)


def _find(loader: Any, name: str) -> Any | None:
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415

    try:
        return loader.loadClass(name)
    except Py4JJavaError:
        return None


def _takes_urls(loader: Any) -> bool:
    return any(
        method.getName() == "addURL" and "public" in method.toString().split()
        for method in loader.getClass().getMethods()
    )
