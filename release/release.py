"""Builds what a release uploads, and tries it as a new user would; uploads nothing. Run it with ``make release``.

Builds the source distribution, and the wheel from that; checks both; installs the wheel with the extras
`spark` and `sql` into an empty environment, everything else from pylock.toml by hash; runs the doctor and the
demo there, outside the checkout. Stops at the first error.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import archives
import lock

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"


def main() -> None:
    """Run all steps."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    shutil.rmtree(DIST, ignore_errors=True)
    say(f"Building twostage {version}")
    run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT), quiet=True)
    wheel, sdist = DIST / f"twostage-{version}-py3-none-any.whl", DIST / f"twostage-{version}.tar.gz"

    say("Checking both archives")
    run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist))
    faults = [*archives.wheel_faults(wheel, ROOT), *archives.sdist_faults(sdist, ROOT)]
    if faults:
        raise SystemExit("\n".join(faults))

    with tempfile.TemporaryDirectory(prefix="twostage-release-") as folder:
        try_wheel(wheel, version, Path(folder))

    say("Nothing was uploaded. To upload:")
    for path in (wheel, sdist):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"  {path.relative_to(ROOT)}  {path.stat().st_size:,} bytes  sha256 {digest}")
    print(f"  .venv-release/bin/twine upload dist/{wheel.name} dist/{sdist.name}")


def try_wheel(wheel: Path, version: str, folder: Path) -> None:
    """Install the wheel into an empty environment, and run the doctor and the demo with it."""
    say("Installing the wheel into an empty environment: its requirements by hash, from pylock.toml")
    run(sys.executable, "-m", "venv", str(folder / "own"))
    python = str(folder / "own" / "bin" / "python")
    run(python, "-m", "pip", "install", "-q", "-U", "pip>=26.1")
    run(python, "-m", "pip", "install", "-q", "-r", str(ROOT / "pylock.toml"))
    run(python, "-m", "pip", "install", "-q", "--no-index", f"{wheel}[{','.join(lock.EXTRAS)}]")
    run(python, "-m", "pip", "check")

    away = folder / "away"
    shutil.copytree(
        ROOT / "examples", away / "examples", ignore=shutil.ignore_patterns("__pycache__")
    )  # the demo is not part of the wheel
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "JAVA_HOME", "LANG", "TZ")}
    new_user = {**kept, "HOME": str(folder), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1"}
    place = run(
        python, "-c", "import twostage; print(twostage.__file__)", folder=away, env=new_user, quiet=True
    )
    if not Path(place.strip()).is_relative_to(folder):
        raise SystemExit(f"twostage was imported from {place}")
    told = run(python, "-m", "twostage", "--version", folder=away, env=new_user, quiet=True)
    if told.strip() != f"twostage {version}":
        raise SystemExit(f"pyproject.toml says {version}, and the installed package: {told}")
    say("The doctor and the demo, from there")
    run(python, "-m", "twostage", "doctor", "--spark", folder=away, env=new_user)
    run(python, "examples/demo.py", folder=away, env=new_user)


def run(*command: str, folder: Path = ROOT, env: dict[str, str] | None = None, quiet: bool = False) -> str:
    """Run a command; stop if it fails. Quiet: return its output, which is shown only if it fails."""
    sys.stdout.flush()
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet and env is None else None,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout or ''}\n{' '.join(command)} ended with code {done.returncode}")
    return done.stdout or ""


def say(text: str) -> None:
    """Print the next step."""
    print(f"\n=== {text}", flush=True)


if __name__ == "__main__":
    main()
