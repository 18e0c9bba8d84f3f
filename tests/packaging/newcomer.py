"""The machine of someone who has only what the documents say: environment variables, Spark's configuration, a shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SECONDS = 900


def environment(place, *folders, **more):
    """Return an environment like a new user's: these folders and the system's on the path, nothing of the tests'."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key in ("LANG", "LC_ALL", "TZ", "JAVA_HOME", "NUMBA_CACHE_DIR")
        or (key.startswith("PIP_") or key.lower().endswith("_proxy"))
    }
    java = shutil.which("java")
    path = [*map(str, folders), str(Path(java).parent) if java else "/usr/bin", "/usr/bin", "/bin"]
    confs = place.folder / "conf"
    confs.mkdir(exist_ok=True)
    return {
        **kept,
        "PATH": os.pathsep.join(path),
        "HOME": str(place.folder / "home"),
        "XDG_CACHE_HOME": str(place.folder / "cache"),
        "PIP_CACHE_DIR": pip_cache(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(confs),
        "JDK_JAVA_OPTIONS": JVM,
        **more,
    }


def pip_cache():
    """Return where the user's pip keeps what it built and fetched: the tests have another cache directory."""
    clean = {key: value for key, value in os.environ.items() if key != "XDG_CACHE_HOME"}
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    return done.stdout.strip() or str(Path(tempfile.gettempdir()) / "pip")


def configure(place, **confs):
    """Write Spark's configuration, which no line of the documents repeats."""
    confs = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.log.level": "WARN", **confs}
    text = "".join(f"{key} {value}\n" for key, value in confs.items())
    (place.folder / "conf").mkdir(exist_ok=True)
    (place.folder / "conf" / "spark-defaults.conf").write_text(text)


def shell(script, place, surroundings, *, given="", code=0):
    """Run a script as the reader would type it, in the checkout; return what it printed."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=surroundings, cwd=place.checkout, input=given, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    printed = done.stdout + done.stderr
    assert done.returncode == code, printed[-6000:]
    return printed


def base_python(folder):
    """Return a folder with nothing but ``python`` and ``python3``, those that this environment was made from."""
    folder.mkdir(exist_ok=True)
    real = Path(sysconfig.get_config_var("BINDIR")) / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for name in ("python", "python3"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(real)
    return folder
