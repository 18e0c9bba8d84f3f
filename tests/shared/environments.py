"""Environments with all or part of what is installed here, made in a tenth of a second from links, not
copies."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import venv
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPARK = (
    *("find-spark-home", "find_spark_home.py", "load-spark-env.sh"),
    *("pyspark", "spark-class", "spark-submit"),
)
_PIP = f"""#!/bin/sh
if [ "$1" = wheel ]; then exec {sys.executable} -c "from hatchling.build import build_wheel; build_wheel('.')"; fi
echo "Successfully installed nothing: it is there"
"""


def linked_environment(folder: Path, without: Iterable[str] = ()) -> Path:
    """Make a virtual environment of the installed packages without those prefixes; return its ``bin``.

    It has PySpark's commands, and a ``pip`` that installs nothing and builds wheels of the working directory.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    (theirs,) = folder.glob("lib/python*/site-packages")
    for one in Path(sysconfig.get_path("purelib")).iterdir():
        if not one.name.startswith(tuple(without)) and one.name != "__pycache__":
            (theirs / one.name).symlink_to(one)
    scripts = folder / "bin"
    for name in _SPARK:
        source = Path(sys.executable).with_name(name)
        if source.exists():
            shutil.copy(source, scripts)
    (scripts / "pip").write_text(_PIP)
    (scripts / "pip").chmod(0o755)
    return scripts
