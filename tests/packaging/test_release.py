"""What `make release` looks at in the archives that it builds; the whole target takes minutes, and is run by hand and by CI."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "release"))
import archives

ROOT = Path(archives.__file__).parents[1]

BUILD = "import sys; from hatchling.build import build_sdist, build_wheel; print(build_sdist(sys.argv[1]), build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source distribution of this checkout."""
    pytest.importorskip("hatchling", reason="the build backend is in the test group of pyproject.toml")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def test_the_wheel_holds_every_source_the_licence_and_nothing_else(built):
    wheel, _ = built
    assert list(archives.wheel_faults(wheel, ROOT)) == []
    held = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == {"pyspark_twostage.py", "twostage", "twostage_native"}


def test_the_source_distribution_holds_the_licence_and_what_a_build_needs(built, tmp_path):
    _, sdist = built
    if subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip("not a checkout")
    faults = [one for one in archives.sdist_faults(sdist, ROOT) if " holds " not in one]
    assert faults == []  # a file that is not added to git yet is no fault here
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path)], cwd=unpacked, check=True, capture_output=True
    )
    (again,) = tmp_path.glob("*.whl")
    assert list(archives.wheel_faults(again, ROOT)) == []


def test_faults_of_a_wheel_are_found(built, tmp_path):
    wheel, _ = built
    other = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            if name.endswith(("licenses/LICENSE", "twostage/options.py")):
                continue
            text = old.read(name)
            if name.endswith("/METADATA"):
                version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
                text = text.replace(f"Version: {version}\n".encode(), b"Version: 9.9\n", 1)
                text = text.replace(b"License-File: LICENSE\n", b"")
            new.writestr(name, text)
        new.writestr("twostage/secrets.env", "password")
    assert len(list(archives.wheel_faults(other, ROOT))) == 5
    assert "the wheel holds twostage/secrets.env" in list(archives.wheel_faults(other, ROOT))


def test_faults_of_a_source_distribution_are_found(built, tmp_path):
    _, sdist = built
    if subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip("not a checkout")
    other = tmp_path / sdist.name
    with tarfile.open(sdist) as old, tarfile.open(other, "w:gz") as new:
        for member in old.getmembers():
            if not member.name.endswith("/LICENSE"):
                new.addfile(member, old.extractfile(member))
        added = tarfile.TarInfo(f"{sdist.name.removesuffix('.tar.gz')}/notes.txt")
        new.addfile(added, io.BytesIO(b""))
    faults = list(archives.sdist_faults(other, ROOT))
    assert "the source distribution lacks LICENSE" in faults
    assert "the source distribution holds notes.txt" in faults


def test_the_version_stands_in_one_place(built):
    """The package reads it from its metadata, and those come from pyproject.toml."""
    wheel, _ = built
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert wheel.name == f"twostage-{version}-py3-none-any.whl"
    sources = [path for folder in ("connector", "native") for path in (ROOT / folder).rglob("*.py")]
    assert sources
    assert [path for path in sources if f'"{version}"' in path.read_text()] == []
