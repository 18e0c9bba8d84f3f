"""Check twostage in a local Spark session: does it start, does the planner load, does a scan return the right rows?"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from twostage.doctor import spark_trial
from twostage.doctor.finding import failed, ok
from twostage.doctor.trial_table import write_trial_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.doctor.finding import Finding

_TIMEOUT_SECONDS = 180.0
_MENDS = {
    spark_trial.SESSION: "Fix what failed above. If this host's name does not resolve, set SPARK_LOCAL_IP=127.0.0.1.",
    spark_trial.PLANNER: "Please report this, with the versions above.",
    spark_trial.SCAN: "Fix what failed above; else please report this, with the versions above.",
}


def session() -> Iterator[Finding]:
    """Write a table of three rows and read it in a subprocess; yield a finding per step."""
    with tempfile.TemporaryDirectory(prefix="twostage-doctor-") as folder:
        table = Path(folder, "table")
        write_trial_table(table)
        command = [sys.executable, "-m", "twostage.doctor.spark_trial", str(table)]
        try:
            done = subprocess.run(  # noqa: S603 - this Python, and a module of ours
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS,
            )  # fmt: skip
            printed, why = done.stdout, _last_line(done.stderr) or f"it ended with code {done.returncode}"
        except subprocess.TimeoutExpired as error:
            printed = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else ""
            why = f"no answer within {_TIMEOUT_SECONDS:.0f} s"
    answers = [json.loads(line.partition(spark_trial.MARK)[2]) for line in printed.splitlines() if line.startswith(spark_trial.MARK)]  # fmt: skip
    for answer in answers:
        step = answer["step"]
        if not answer["done"]:
            yield failed(step, answer["found"], answer["hint"] or _MENDS[step])
            return
        yield ok(step, answer["found"])
    for step in spark_trial.STEPS[len(answers) :][:1]:
        yield failed(step, why, _MENDS[step])


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]
