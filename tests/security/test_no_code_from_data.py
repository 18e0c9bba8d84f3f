"""Nothing from storage is unpickled, compiled, executed or imported: files that hold a pickle are damaged files."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import fastavro
import pytest

from tables import Table

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


class Bomb:
    """Unpickled, it makes the file `mark`."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def make(folder, version=2, file_format="parquet"):
    table = Table(folder, {"id": "long", "s": "string"}, version=version)
    file = table.append([{"id": i, "s": f"s{i}"} for i in range(50)], format=file_format)
    if version == 3:
        table.delete_vectors({file: [1]})
    else:
        table.delete_positions({file: [1]}, file_format)
    table.delete_equal(["id"], [{"id": 2}], file_format)
    table.write()
    return table


def avro_with_pickle(path, payload):
    """Rewrite an Avro file with the pickle in its header, schema doc and every bytes or text field."""
    with path.open("rb") as opened:
        reader = fastavro.reader(opened)
        records, schema, metadata = list(reader), reader.writer_schema, dict(reader.metadata)
    text = payload.decode("latin-1")
    schema["doc"] = "!!python/object/apply:os.mkdir ['x']"
    kept = {key: value for key, value in metadata.items() if not key.startswith("avro.")}
    with path.open("wb") as opened:
        fastavro.writer(opened, schema, records, metadata={**kept, "pickle": text, "index": text})


PLACES = {
    "metadata": "metadata/*.metadata.json",
    "hint": "metadata/version-hint.text",
    "list": "metadata/snap-*.avro",
    "manifest": "metadata/manifest-*.avro",
    "data": "data/file-*",
    "delete": "data/deletes-*",
    "key": "data/equality-*",
    "vector": "data/vectors-*",
}


def planted(folder, place, payload, file_format):
    """A table with the payload instead of these files, or beside them."""
    table = make(folder, 3 if place == "vector" else 2, file_format)
    for path in list(table.folder.glob(PLACES[place])):
        path.write_bytes(payload)
    return table


def test_a_pickle_in_every_place(tmp_path):
    mark = tmp_path / "pwned"
    payload = pickle.dumps(Bomb(mark))
    with pytest.raises(FileExistsError):  # it does go off where it is unpickled
        mark.mkdir()
        pickle.loads(payload)
    mark.rmdir()
    bad, expected = [], []
    for file_format in ("parquet", "orc", "avro"):
        for place in PLACES:
            if file_format != "parquet" and place not in ("data", "delete", "key"):
                continue
            table = planted(tmp_path / f"{place}-{file_format}", place, payload, file_format)
            bad.append(table)
            expected.append("48 rows" if place == "hint" else "[TWOSTAGE.")
    zipped = make(tmp_path / "zipped")
    for path in zipped.folder.glob("metadata/*.metadata.json"):
        path.write_bytes(gzip.compress(payload))
    avro = make(tmp_path / "avro-header")
    for path in [*avro.folder.glob("metadata/*.avro")]:
        avro_with_pickle(path, payload)
    beside = make(tmp_path / "beside")
    for name in ("data/index.pkl", "metadata/index.bin", "metadata/__init__.py", "data/sitecustomize.py"):
        (beside.folder / name).write_bytes(payload)
    bad += [zipped, avro, beside]
    expected += ["[TWOSTAGE.", "48 rows", "48 rows"]
    properties = make(tmp_path / "properties")
    for path in properties.folder.glob("metadata/*.metadata.json"):
        raw = json.loads(path.read_text())
        raw["properties"] = {
            "py-io-impl": "os.mkdir",
            "py-catalog-impl": "os.mkdir",
            "s3.retry-strategy-impl": "os.mkdir",
            "write.object-storage.enabled": "__import__('os').mkdir('x')",
        }
        path.write_text(json.dumps(raw))
    bad.append(properties)
    expected.append("48 rows")
    good = [make(tmp_path / f"good-{kind}", 2, kind) for kind in ("parquet", "orc", "avro")]
    good.append(make(tmp_path / "good-3", 3))
    paths = [str(ROOT / "connector"), str(ROOT / "native"), str(TESTS / "shared")]
    done = subprocess.run(
        [
            sys.executable,
            str(TESTS / "security" / "watched.py"),
            os.pathsep.join(str(table.folder) for table in good),
            os.pathsep.join(str(table.folder) for table in bad),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TWOSTAGE_JIT": "0"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["seen"] == []
    assert found["good"] == ["48 rows"] * len(good)
    for table, result, wanted in zip(bad, found["results"], expected, strict=True):
        assert result.startswith(wanted), f"{table.folder.name}: {result}"
    assert not mark.exists()


def test_the_hook_sees_what_it_looks_for(tmp_path):
    """A program that does unpickle and compile is noticed."""
    code = (
        "import sys, pickle, os; sys.path[:0] = {folders!r}; seen = []\n"
        "import watched\n"
        "sys.addaudithook(lambda event, arguments: seen.append(event) if event.startswith(watched.SUSPECT) else None)\n"
        "pickle.loads(pickle.dumps(os.getcwd)); print(seen)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code.format(folders=[str(TESTS / "security"), str(TESTS / "shared")])],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pickle.find_class" in done.stdout


IMPORTS = """
import sys
import {baseline}
seen = []
def hook(event, arguments):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.mkdir", "os.rename", "os.remove", "os.putenv")):
        seen.append((event, repr(arguments)[:200]))
    if event == "open":
        path, mode = str(arguments[0]), arguments[1] or "r"
        source = path.endswith((".py", ".pyc", ".so", ".pth")) or path.endswith(".zip")
        if not source or set("wax+") & set(mode):
            seen.append((event, path, mode))
sys.addaudithook(hook)
import {module}
print(seen)
"""


@pytest.mark.parametrize(
    ("module", "baseline"),
    [
        ("pyspark_twostage", "pyspark.sql.datasource, pyspark.accumulators"),
        ("twostage", "typing"),
        ("twostage_native", "numpy"),
        ("twostage.options, twostage.storage.files, twostage.storage.location", "pyarrow"),
        (
            "twostage.catalog.load_table, twostage.planning.plan, twostage.reading.pipeline",
            "pyarrow.parquet, pyarrow.compute, fastavro, cachetools, mmh3, pyroaring, numpy, uuid, decimal, zoneinfo",
        ),
    ],
)
def test_importing_touches_no_file_and_no_network(module, baseline, tmp_path):
    """Beyond the modules' own code; what the libraries below do when they are imported is theirs."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", IMPORTS.format(module=module, baseline=baseline)],
        env={
            "PYTHONPATH": f"{ROOT / 'connector'}:{ROOT / 'native'}",
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
    assert list(tmp_path.iterdir()) == []
