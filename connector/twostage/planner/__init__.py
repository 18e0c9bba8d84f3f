"""Puts the Java half of the planner into a running Spark.

Takes a live session's JVM; leaves the classes of this folder on its class path, compiled by the Janino compiler
that Spark brings along (about 0.2 s, once for each JVM). They exist in the driver only: nothing that executors
receive may be an instance of one of them.
"""

from __future__ import annotations

import atexit
import importlib.resources
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twostage.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SOURCES = (
    "Bridge.java",
    "Predicates.java",
    "TwoStageTable.java",
    "Aggregates.java",
    "TwoStageAnswer.java",
    "TwoStageScanBuilder.java",
    "TwoStageScan.java",
    "TwoStageFiles.java",
    "Figures.java",
    "Above.java",
    "NativeScans.java",
    "Install.java",
    "TwoStageCatalog.java",
)
_INSTALLER = "twostage_planner.Install"
_FIGURES = "twostage_planner.Figures"


def load_installer(jvm: Any, gateway: Any) -> Any:
    """Return the class ``twostage_planner.Install`` of this JVM, compiled now if it is not there yet.

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
            f"Spark's class loader takes no more classes: {loader.getClass().getName()}",
            stage="options",
            hint="Use the options columns and filter without twostage.enable.",
        )
    # mkdtemp makes it readable for this user only: whoever could write there could run code in the driver.
    folder = tempfile.mkdtemp(prefix="twostage-planner-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _compile(jvm, gateway, loader, Path(folder))
    open_loader.addURL(jvm.java.io.File(folder).toURI().toURL())
    return loader.loadClass(_INSTALLER)


def install(
    installer: Any, gateway: Any, session: Any, callback: Any, source: Any, confs: Mapping[str, str]
) -> None:
    """Call ``Install.install`` by reflection: py4j looks names up in a loader that may not have ours."""
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


def spark_figures(jvm: Any, gateway: Any, session: Any) -> dict[str, dict[str, int]]:
    """Return Spark's own metrics of the last scans that were handed over, by scan id and by Spark's names.

    Waits until Spark has told them of all queries that ended before. Empty where nothing was installed.
    """
    figures = _find(jvm.java.lang.Thread.currentThread().getContextClassLoader(), _FIGURES)
    if figures is None:
        return {}
    types = gateway.new_array(jvm.java.lang.Class, 1)
    types[0] = jvm.java.lang.Class.forName("java.lang.Object")
    values = jvm.java.util.ArrayList()
    values.add(session)
    found: dict[str, dict[str, int]] = json.loads(
        figures.getMethod("take", types).invoke(None, values.toArray())
    )
    return found


def _compile(jvm: Any, gateway: Any, loader: Any, folder: Path) -> None:
    here = importlib.resources.files(__name__)  # a folder, or a place inside the zip of --py-files
    later = _find(loader, "org.apache.spark.sql.connector.catalog.TableContext") is not None
    sources = [here / name for name in _SOURCES]
    sources.append(here / "spark43" / "twostage.java" if later else here / "twostage.java")
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
