"""Writes pylock.toml: what the released wheel is tested with, each file by its hash. Run it with ``make lock``.

The lock has twostage's requirements and those of the extras `spark` and `sql`, as resolved for this Python on
this platform; `make release` installs them from it, so run both with the same one (3.11 on Linux, x86-64).
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("spark", "sql")


def locked_requirements() -> list[str]:
    """Return the requirements that the lock must satisfy."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *(text for extra in EXTRAS for text in extras[extra])]


def main() -> None:
    """Resolve them again."""
    command = [sys.executable, "-m", "pip", "lock", "-q", "-o", str(ROOT / "pylock.toml")]
    subprocess.run([*command, *locked_requirements()], check=True)


if __name__ == "__main__":
    main()
