"""Every command of README and docs runs as it stands there, in environments that have only what the text says.

The text itself is run, taken from the document, so a line that changes is tested as changed. What stands for the reader's
own tables and services is replaced by real ones. At nightly size pip installs for real, from this checkout and the package
index; else the environments hold links to what is installed here, and `pip` only says that it is there.
"""

from __future__ import annotations

import datetime
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest
from documents import DOCUMENTS, ROOT, commands, fences
from newcomer import SECONDS, base_python, configure, environment, shell
from read_only_catalog import read_only_catalog

from environments import linked_environment
from figures import FULL
from standalone import standalone
from tables import Table

NOT_RUN = {
    "README.md, What the report shows, 1": "what the demo printed, in part",
    "README.md, The two commands, 1": "two targets that .ci/run runs, on a clean clone",
    "docs/report.md, What the report shows, 1": "what the demo printed",
    "docs/how-it-works.md, The layers, 1": "a picture",
    "docs/advisor.md, An example, 1": "what the example printed, in part; test_examples runs it",
    "docs/advisor.md, The query log, 1": "a line of a log, broken and shortened",
    "docs/advisor.md, What is recommended, 1": "what the command printed, in part; test_command_line has the events",
    "docs/advisor.md, What if, 1": "what the example printed, in part; test_examples runs it",
    "docs/advisor.md, Building what is recommended, 1": "test_apply_command builds an index of a table; --catalog.uri names a service",
    "docs/advisor.md, Checking a prediction, 1": "test_check_command runs the command on a table; --catalog.uri names a service",
    "docs/advisor.md, In a session, 1": "test_spark_advise runs it on a table",
    "docs/advisor.md, What is known of the columns, 1": "test_collect runs the command on a table; --catalog.uri names a service",
}
"""Fences that no test here runs, with the reason."""
TYPED = (
    "pip install '.[spark,hive]'",
    "spark-submit job.py",
    "python -m twostage doctor",
)
"""Commands between backticks besides make's; `test_the_same_by_spark_submit` runs them in this order."""
SAME = {
    "docs/getting-started.md, Install, enable, load, 1": "README.md, Use, 1",
    "docs/getting-started.md, Install, enable, load, 2": "README.md, Use, 2",
    "docs/getting-started.md, SQL and catalogs, 1": "README.md, Use, 3",
}
"""Fences that stand in two places, the second of which is run."""
RUN: set[str] = set()
JOB = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
import twostage
twostage.enable(spark)
frame = spark.read.format("twostage").load({table!r}).where("user_id = 5")
print("ROWS", sorted(row.ts for row in frame.select("ts").collect()))
print("WORKERS", spark.sparkContext.parallelize([0], 1).map(lambda _: sys.prefix).collect())
print("READ BY", twostage.__file__, spark.sparkContext.master)
print("REPORTED", twostage.last_scan(spark).count("rows.considered"))
"""
FENCES = fences()


def runs(*names):
    """Say which fences a test runs; it gets them as an argument."""
    RUN.update(names)
    return pytest.mark.parametrize("told", [[FENCES[name] for name in names if name in FENCES]], ids=[""])


@pytest.fixture(scope="module")
def place():
    """A folder with a checkout, a warehouse, a home and a REST catalog; removed at once: environments are large."""
    folder = Path(tempfile.mkdtemp(prefix="twostage-documents-"))
    checkout = folder / "checkout"
    checkout.mkdir()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, checkout)
    for name in ("connector", "native"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    table = Table(
        folder / "warehouse" / "db" / "events",
        {"user_id": "long", "device_id": "string", "ts": "long", "payload": "string"},
        version=2,
    )
    for first in (0, 100):
        table.append(
            [
                {"user_id": n % 10, "device_id": "x" if n == 8 else "y", "ts": n, "payload": f"p{n}"}
                for n in range(first, first + 100)
            ]
        )
    table.tag("audit-tag")
    table.delete_equal(["ts"], [{"ts": 5}])
    metadata = table.write()
    _add_branch(metadata)
    (folder / "home").mkdir()
    with read_only_catalog(folder / "warehouse") as catalog:
        yield SimpleNamespace(
            folder=folder, checkout=checkout, table=str(folder / "warehouse/db/events"), catalog=catalog
        )
    shutil.rmtree(folder, ignore_errors=True)


def _add_branch(metadata):
    import json

    found = json.loads(metadata.read_text())
    found["refs"]["audit"] = {"snapshot-id": found["refs"].pop("audit-tag")["snapshot-id"], "type": "branch"}
    metadata.write_text(json.dumps(found))


@pytest.fixture(scope="module")
def index():
    """Skip where pip reaches no package index."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--dest",
        os.devnull + "x",
        "venv-pack",
    ]
    command[-2] = tempfile.mkdtemp()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    shutil.rmtree(command[-2])
    if done.returncode:
        pytest.skip(f"no package index here: {done.stderr[-200:]}")


@pytest.fixture(scope="module")
def own(place, request):
    """The programs of a new virtual environment: empty at nightly size, else with links to what is installed here."""
    if not FULL:
        return linked_environment(place.folder / "own")
    request.getfixturevalue("index")
    subprocess.run([sys.executable, "-m", "venv", str(place.folder / "own")], check=True)
    return place.folder / "own" / "bin"


@pytest.fixture
def newcomer(place, own):
    """That environment, active; Spark's configuration is as it comes, whichever test ran before."""
    configure(place)
    return environment(place, own)


@pytest.fixture(scope="module")
def with_twostage(place, own):
    """What README's first line does: the tests run in any order."""
    shell("pip install -q '.[spark]'", place, environment(place, own))


@pytest.fixture
def installed(newcomer, with_twostage):
    """The newcomer's environment with twostage in it."""
    return newcomer


def test_every_fence_is_run_or_listed():
    """A new fence belongs into a test here, or into the list of those that cannot run, with the reason."""
    assert not RUN & set(NOT_RUN)
    assert not set(SAME) & (RUN | set(NOT_RUN))
    assert set(FENCES) == RUN | set(NOT_RUN) | set(SAME)
    assert {one for one in commands() if not one.startswith("make ")} == set(TYPED)


@pytest.mark.parametrize("name", SAME)
def test_what_stands_twice_is_the_same(name):
    assert FENCES[name].text == FENCES[SAME[name]].text


def test_a_report_in_part_is_a_part_of_the_report():
    whole = FENCES["docs/report.md, What the report shows, 1"].text.splitlines()
    part = FENCES["README.md, What the report shows, 1"].text.splitlines()
    assert part == [line for line in whole if line in part]


def test_what_is_not_run_here_is_run_by_ci():
    steps = (ROOT / ".ci" / "run").read_text().splitlines() if (ROOT / ".ci" / "run").exists() else None
    for line in FENCES["README.md, The two commands, 1"].text.splitlines():
        command = line.partition("#")[0].strip()
        assert steps is None or command in steps
        assert command.startswith("make ")


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("command", sorted(one for one in commands() if one.startswith("make ")))
def test_a_make_target_is_there(command):
    """They take minutes to hours, so make only says what it would run; names of pages and rows are looked up."""
    if not (ROOT / "Makefile").exists():
        pytest.skip("no Makefile here")
    done = subprocess.run(["bash", "-c", command.replace("make ", "make -n ", 1)], cwd=ROOT, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    benchmarks = "\n".join(path.read_text() for path in (ROOT / "benchmarks").glob("*.py"))
    for names in re.findall(r"(?:PAGES|ROWS)=(\"[^\"]*\"|\S+)", command):
        for name in names.strip('"').split():
            assert f'"{name}"' in benchmarks, name


def test_every_extra_that_is_named_is_there():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = "\n".join(document.read_text() for document in DOCUMENTS)
    named = {
        one for given in re.findall(r"'\.\[([\w,-]+)\]'", text) for one in given.split(",")
    }  # pip takes unknown ones with a warning
    assert {"spark", "hive"} <= named <= set(extras)
    assert [extra for extra in extras if f"`{extra}`" not in text and extra not in named] == []


CATALOGS = "docs/catalogs-and-clusters.md"


@runs(*(f"README.md, Use, {number}" for number in (1, 2, 3)), f"{CATALOGS}, Catalogs, 1")
@pytest.mark.timeout(2 * SECONDS)
def test_the_first_minutes(told, place, newcomer):
    """pip, the pyspark shell, a table's folder, a catalog: as a newcomer types it, in this order."""
    install, first, sql, catalog = told
    typed = first.put({"/warehouse/db/events": place.table})
    typed += sql.put({"/warehouse/db/events": place.table, "http://catalog:8181": place.catalog})
    typed += catalog.put({"http://catalog:8181": place.catalog})
    typed += "print('COUNTED', df.count(), spark.sql('SELECT count(*) FROM e').collect()[0][0])\n"
    typed += (
        "print('DIR', [name for name in dir(twostage) if name in twostage.__all__], twostage.__version__)\n"
    )
    interactive = {"PYSPARK_DRIVER_PYTHON_OPTS": "-i"}  # there is no terminal here
    printed = shell(install.text, place, newcomer | interactive, given=typed)
    assert "Traceback" not in printed, printed[-6000:]
    assert re.search(r"\|\s*7\|\s*p7\|", printed), printed[-6000:]  # show()'s first rows
    now, _, then = printed.partition("twostage scan of")
    row = re.compile(r"\|\s*5\|\s*p5\|")
    assert not row.search(now), "a delete of after the branch"
    assert row.search(then), "VERSION AS OF 'audit'"
    assert f"twostage scan of {place.table}" in printed
    assert "considered" in printed
    assert re.search(r"\|\s*snapshot_id\|operation\|", printed), printed[-6000:]
    assert "COUNTED 199 200" in printed, printed[-6000:]
    assert "DIR ['__version__', 'advise', 'enable', 'index', 'last_scan', 'query_log', 'scans'] 0." in printed


@pytest.mark.timeout(SECONDS)
def test_the_same_by_spark_submit(place, newcomer):
    """And the other commands that the text names: an extra, the doctor."""
    (place.checkout / "job.py").write_text(JOB.format(table=place.table))
    installed, submitted, told = (shell(command, place, newcomer) for command in TYPED)
    assert "Successfully installed" in installed
    assert f"ROWS {list(range(15, 200, 10))}" in submitted, submitted[-6000:]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(rf"twostage +ok +{re.escape(version)}", told), told
    if FULL:
        shell("python -c 'import thrift'", place, newcomer)


@pytest.mark.timeout(SECONDS)
def test_an_environment_that_is_not_active(place, installed):
    """The workers run in the program's own Python, though another one, without twostage, is the first on the path."""
    (place.checkout / "job.py").write_text(JOB.format(table=place.table))
    surroundings = environment(place, base_python(place.folder / "bare"))
    printed = shell(f"{place.folder}/own/bin/python job.py", place, surroundings)
    assert f"ROWS {list(range(15, 200, 10))}" in printed, printed[-6000:]
    assert f"WORKERS ['{place.folder}/own']" in printed
    cache = place.folder / "compiled-there"
    printed = shell(
        f"{place.folder}/own/bin/python -m twostage compile-deletes {place.table} --spark --compiled-dir {cache}",
        place, surroundings,
    )  # fmt: skip
    # Another test's scan may have compiled it into the host's cache: then it is copied.
    assert "1 data files with equality deletes:" in printed
    assert any(path.is_file() for path in cache.rglob("*"))
    assert "Traceback" not in printed


@runs(f"{CATALOGS}, Without the planner, 1", f"{CATALOGS}, Spark Connect, 1")
@pytest.mark.timeout(SECONDS)
def test_without_the_planner_and_a_connect_server(told, place, installed):
    by_hand, server = told
    assert "spark = " in server.text
    job = server.text.replace("twostage.enable(spark)\n", "")
    job += f"frame = {by_hand.put({'…': place.table})}"
    job += "print('ROWS', sorted(row.ts for row in frame.collect())[:3], frame.columns)\n"
    job += "import twostage\ntwostage.enable(spark)\n"
    job += f"frame = {by_hand.put({'…': place.table})}"
    job += "print('AGAIN', sorted(row.ts for row in frame.collect())[:3], frame.columns)\n"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    job += (
        f"import socket\nprint('LISTENS', socket.create_connection(('127.0.0.1', {port}), 60) is not None)\n"
    )
    (place.checkout / "server.py").write_text(job)
    where = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    configure(place, **where)
    try:
        printed = shell("spark-submit server.py", place, installed)
    finally:
        configure(place)
    assert "ROWS [7, 15, 17] ['ts', 'payload']" in printed, printed[-6000:]
    assert "AGAIN [7, 15, 17] ['ts', 'payload']" in printed
    assert "LISTENS True" in printed


READ_LOG = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""


@runs("docs/advisor.md, The advisor, 1", "docs/advisor.md, Reading it, 1")
def test_the_advisor(told, tmp_path):
    from twostage.advisor.logged_predicate import LoggedPredicate
    from twostage.advisor.logged_scan import LoggedScan
    from twostage.advisor.query_log import QueryLogFile

    equal = LoggedPredicate(op="=", columns=("a",), count=1, text="a = 5", rows_in=1000, rows_out=10)
    scan = LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table="lake.db.t", predicate=equal,
        counters={"rows.considered": 1000},
    )  # fmt: skip
    QueryLogFile(str(tmp_path), {}).append([scan] * 3)
    shell, program = (fence.put({"/logs/queries": str(tmp_path)}) for fence in told)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment["PYTHONPATH"] = f"{ROOT / 'connector'}:{ROOT / 'native'}"
    done = subprocess.run(
        ["bash", "-ec", shell], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Index a" in done.stdout
    assert "entries in filter" in done.stdout
    done = subprocess.run(
        [sys.executable, "-c", READ_LOG + program],
        env=environment, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "lake.db.t a = 5 1000" in done.stdout
    assert re.search(r"\|lake\.db\.t\|\s+3000\|", done.stdout), done.stdout


@runs("docs/deletes.md, Compiled deletes, 1")
@pytest.mark.timeout(SECONDS)
def test_compiling_and_cleaning(told, place, installed):
    compiled = place.folder / "compiled"
    script = told[0].put({"s3://lake-cache/events": str(compiled), "http://…": place.catalog})
    printed = shell(script, place, installed | {"XDG_CACHE_HOME": str(place.folder / "other-cache")})
    assert "1 data files with equality deletes: 1 compiled" in printed, printed
    assert re.search(r"0 files removed, \d+ kept", printed), printed
    assert len(list(compiled.iterdir())) == 1


@runs("docs/indexes.md, Indexes, 1")
@pytest.mark.timeout(SECONDS)
def test_indexing(told, place, installed):
    printed = shell(told[0].put({"http://…": place.catalog}), place, installed)
    assert "2 data files: 2 indexed" in printed, printed
    assert "device_id (values, files); user_id (values, files): 2 of 2 data files" in printed, printed
    assert ", 0 wrong; 0 index files missing" in printed, printed
    assert "5 files removed" in printed, printed
    assert "no indexes" in printed, printed


@pytest.fixture(scope="module")
def cluster(place):
    """A standalone cluster of two hosts whose own Python has nothing installed."""
    bare = base_python(place.folder / "bare")
    home = Path(pyspark.__file__).parent
    surroundings = environment(place, bare, home / "bin", SPARK_HOME=str(home))
    logs = place.folder / "cluster"
    logs.mkdir()
    (place.checkout / "job.py").write_text(JOB.format(table=place.table))
    with standalone(logs, surroundings) as master:
        configure(
            place,
            **{
                "spark.master": master,
                "spark.executor.memory": "512m",
                "spark.executor.cores": "1",
                "spark.cores.max": "2",
            },
        )
        yield surroundings


@runs(f"{CATALOGS}, On a cluster, 1", f"{CATALOGS}, On a cluster, 2")
@pytest.mark.timeout(2 * SECONDS)
def test_on_a_cluster(told, place, cluster, request):
    """Client mode on a standalone cluster: the environment as an archive; then a zip beside installed dependencies.

    Packing half a gigabyte, and unpacking it on each host, takes minutes: nightly.
    """
    archive, alone = told
    if FULL:
        request.getfixturevalue("index")
        on_a_cluster_as_an_archive(archive, place, cluster)
    else:
        linked_environment(place.checkout / "env", without=("twostage", "_twostage"))
    python = f"{place.checkout}/env/bin/python"
    shell(f"! {python} -c 'import twostage'", place, cluster)
    installed = cluster | {"PATH": f"{place.checkout}/env/bin:{cluster['PATH']}", "PYSPARK_PYTHON": python}
    printed = shell(alone.text, place, installed)
    assert f"ROWS {list(range(15, 200, 10))}" in printed, printed[-6000:]
    assert re.search(r"READ BY \S*twostage.zip/twostage/__init__.py spark://", printed), printed[-6000:]
    assert "REPORTED 200" in printed


def on_a_cluster_as_an_archive(archive, place, cluster):
    printed = shell(archive.text, place, cluster)
    assert f"ROWS {list(range(15, 200, 10))}" in printed, printed[-6000:]
    assert re.search(r"WORKERS \['[^']*/environment'\]", printed), printed[-6000:]
    assert "spark://" in printed
    shell(f"{place.checkout}/env/bin/python -m pip uninstall -q -y twostage", place, cluster)


@pytest.mark.timeout(SECONDS)
def test_without_pyspark(place, request):
    """`pip install .` into a Python without Spark: importing works, and what is missing is said."""
    if FULL:
        request.getfixturevalue("index")
        subprocess.run([sys.executable, "-m", "venv", str(place.folder / "sparkless")], check=True)
    else:
        linked_environment(place.folder / "sparkless", without=("pyspark",))
    surroundings = environment(place, place.folder / "sparkless" / "bin")
    shell("pip install -q .", place, surroundings)
    code = "import twostage; print(twostage.__version__, dir(twostage)); twostage.enable(None)"
    printed = shell(f'python -c "{code}"', place, surroundings, code=1)
    assert "'enable'" in printed
    assert "[TWOSTAGE.NO_SPARK] PySpark is not installed in this Python" in printed
    printed = shell(f"python -m twostage compile-deletes {place.table} --spark", place, surroundings, code=1)
    assert "\n[TWOSTAGE.NO_SPARK]" in printed
    assert "Traceback" not in printed
    shell(
        f"python -m twostage compile-deletes {place.table} --compiled-dir {place.folder}/kept",
        place,
        surroundings,
    )
