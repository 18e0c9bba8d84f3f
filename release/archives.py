"""Checks a built wheel and a source distribution before release.

Takes the archives and the checkout that they were built from; yields what is wrong with them, a sentence
each. The rule: the wheel contains the sources and nothing else, the source distribution nothing that git does
not track, and both the licence.
"""

from __future__ import annotations

import email
import subprocess
import tarfile
import tomllib
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SOURCES = ("connector", "native")
_SUFFIXES = (".py", ".java", ".typed")


def wheel_faults(wheel: Path, root: Path) -> Iterator[str]:
    """Yield what is extra in a wheel, what it lacks, and errors in its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        about = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(about).decode()
        licence = about.replace("METADATA", "licenses/LICENSE")
        if licence not in names or archive.read(licence) != (root / "LICENSE").read_bytes():
            yield "the wheel has not this LICENSE"
    expected = {
        str(path.relative_to(root / source))
        for source in _SOURCES
        for path in (root / source).rglob("*")
        if path.suffix in _SUFFIXES
    }
    held = {name for name in names if ".dist-info/" not in name}
    yield from (f"the wheel holds {name}" for name in sorted(held - expected))
    yield from (f"the wheel lacks {name}" for name in sorted(expected - held))
    yield from metadata_faults(metadata, root)


def sdist_faults(sdist: Path, root: Path) -> Iterator[str]:
    """Yield what is extra in a source distribution, and what it lacks."""
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
        about = next(
            name for name in archive.getnames() if name.count("/") == 1 and name.endswith("/PKG-INFO")
        )
        file = archive.extractfile(about)
        metadata = file.read().decode() if file is not None else ""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split("\0")  # fmt: skip
    yield from (f"the source distribution holds {name}" for name in sorted(held - {*listed, "PKG-INFO"}))
    sources = {name for name in listed if name.partition("/")[0] in (*_SOURCES, "tests", "examples")}
    for name in sorted((sources | {"LICENSE", "README.md", "pyproject.toml", "Makefile"}) - held):
        yield f"the source distribution lacks {name}"
    yield from metadata_faults(metadata, root)


def metadata_faults(text: str, root: Path) -> Iterator[str]:
    """Yield where the metadata differs from pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    told = email.message_from_string(text)
    wanted = {"Name": "twostage", "Version": project["version"], "License-Expression": project["license"], "License-File": "LICENSE"}  # fmt: skip
    for key, value in wanted.items():
        if told[key] != value:
            yield f"the metadata's {key} is {told[key]}, and not {value}"
