"""Storage that fails over HTTP: exact rows or a typed error, in bounded time, with no secret in its text.

Bounds: a failed request is made again a few times (`retry_budget`), by PyArrow three times in all; a request without a byte
for ``s3.request-timeout`` seconds ends. The timeout of the tests is the bound: a hang fails them. Obstore asks by GET alone;
where a HEAD fails, PyArrow reads.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from types import SimpleNamespace
from unittest import mock

import pytest

import oracle
from core_scan import Opened, scan
from figures import FULL, record
from s3_server import Fault, serve
from tables import Table
from twostage.catalog.load_table import load_table
from twostage.data_files import parquet_footers
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.files import columns, contents
from twostage.errors import CorruptFileError, MissingFileError, StorageError, TwoStageError
from twostage.options import parse_options
from twostage.reading.files_ahead import MAX_REQUESTS
from twostage.storage import immutable_files, retry_budget
from twostage.storage.retry_budget import PATIENCE_SECONDS

BUDGET = 3
RUNS = 10 if FULL else 1
ALWAYS = 10**6

pytestmark = pytest.mark.timeout(300)
each_run = pytest.mark.parametrize("run", range(RUNS))
"""Of the tests behind a cell of the scoreboard."""
CELLS = {
    "500": "HTTP 500 below the budget",
    "503": "HTTP 503 below the budget",
    "429": "HTTP 429 with Retry-After",
    "reset": "connection reset in a body",
    "short": "body cut short",
    "drip": "slow drip",
}


BY_PYARROW = {"object-store-client": "arrow"}


def reader_of(method):
    """Return the options with which a reader sends such requests."""
    return BY_PYARROW if method == "HEAD" else {}


def layout(seed):
    """Rows such that all seeds give files of one length and one layout: plain longs and texts of one width."""
    draw = random.Random(seed)
    return [{"id": 1_000_000 * (seed + 1) + n, "s": f"{draw.randrange(10**12):012}"} for n in range(900)]


PLAIN = {"row_group_size": 200, "dictionary": False, "compression": "none", "page_checksums": True}


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """A table of two data files, a positional and an equality delete, behind the server; `rows` is the oracle's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(retry_budget, "FIRST_PAUSE", 0.01)
    parquet_footers._footers.clear()
    parquet_footers._tails.clear()  # how much of a file's end is asked for first, by what its folder's files had
    CACHE.clear()  # every test's table is s3://lake/t: what is kept of its delete files would hide the fault
    table = Table(tmp_path / "t", {"id": "long", "s": "string"}, version=2)
    table.location = "s3://lake/t"
    first = table.append(layout(0), **PLAIN)
    table.append(layout(1), **PLAIN)
    table.delete_positions({first: [0, 5, 899]})
    table.delete_equal(["id"], [{"id": 2_000_003}])
    table.write()
    with serve(tmp_path) as s3:
        s3.table, s3.patience = table, 1.0
        yield s3


def open_lake(s3, **more):
    immutable_files.forget()  # a metadata file whose version is still the same would not be asked for
    options = parse_options({"path": "s3://lake/t", **s3.options, **more})
    return Opened(load_table(options), options)


def check(s3, **more):
    opened = open_lake(s3, **more)
    fields = opened.table.schema.fields
    expected = [oracle.project(row, fields) for row in oracle.live_rows(s3.table.content())]
    assert len(expected) == 1796
    assert not (problem := oracle.difference(scan(opened).rows, expected)), problem


def secret_in(s3, text):
    secrets = [
        s3.options[f"catalog.s3.{key}"] for key in ("secret-access-key", "session-token", "access-key-id")
    ]
    return [secret for secret in secrets if secret in text]


def fails(s3, kind, *codes, **more):
    """Check that a query ends with a typed error of one of these codes; return it.

    Where the store throttles, patience ends after so many looks at the clock: by time, a machine that stands still would end it.
    """
    looks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: PATIENCE_SECONDS / 5 * next(looks))
    with mock.patch.object(retry_budget, "time", clock), pytest.raises(kind) as caught:
        check(s3, **more)
    text = f"{caught.value!s} {caught.value!r} {caught.value.__cause__!r}"
    assert caught.value.code in codes, text
    assert not secret_in(s3, text), text
    assert caught.value.path, text
    return caught.value


FILES = {
    "data": r"data/file",
    "deletes": r"data/(deletes|equality)",
    "manifest": r"manifest-",
    "metadata": r"json$",
}


@each_run
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("kind", CELLS)
def test_faults_below_the_budget_are_survived(lake, kind, method, run):  # noqa: ARG001
    if method == "HEAD" and not kind.isdigit():
        pytest.skip("a HEAD has no body")
    lake.faults = [
        Fault(kind, path=path, method=method, seconds=0.05)
        for path in (r"data/file-0", r"manifest-", "json$")
    ]
    check(lake, **reader_of(method))
    fired = sum(fault.fired for fault in lake.faults)
    assert fired == 3, "nothing went wrong"
    if method == "GET":
        record("R7", cell=CELLS[kind])


@each_run
def test_all_connections_reset_once(tmp_path, monkeypatch, run):  # noqa: ARG001
    """As many requests as a task has in flight break before the store has answered one for a data file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    table = Table(tmp_path / "t", {"id": "long", "s": "string"}, version=2)
    table.location = "s3://lake/t"
    for number in range(MAX_REQUESTS + 8):
        table.append([{"id": number, "s": f"{number:012}"}], **PLAIN)
    table.write()
    with serve(tmp_path) as s3:
        s3.faults = [Fault("reset", path=r"data/file", times=MAX_REQUESTS)]
        opened = open_lake(s3)
        fields = opened.table.schema.fields
        expected = [oracle.project(row, fields) for row in oracle.live_rows(table.content())]
        assert not (problem := oracle.difference(scan(opened).rows, expected)), problem
        assert s3.faults[0].fired == MAX_REQUESTS
    record("R7", cell="all connections reset once")


def test_two_failures_in_a_row_are_within_the_budget(lake):
    lake.faults = [Fault("503", path=r"data/file-0", times=BUDGET - 1)]
    check(lake)
    assert lake.faults[0].fired == BUDGET - 1


def test_delete_files_that_are_read_in_parts_survive_throttling(lake, monkeypatch):
    """More answers of 503 than PyArrow would bear, of files that are too large to be fetched whole."""
    for module in (contents, columns):
        monkeypatch.setattr(module, "MAX_WHOLE_FILE_BYTES", 0)
    lake.faults = [Fault("503", path=path, times=5) for path in (r"data/deletes", r"data/equality")]
    check(lake)
    assert [fault.fired for fault in lake.faults] == [5, 5]


@pytest.mark.parametrize("place", FILES)
@pytest.mark.parametrize("kind", ["500", "503", "429", "reset", "short"] if FULL else ["503", "reset"])
def test_faults_above_the_budget_are_typed(lake, kind, place):
    is_cell = (kind, place) == ("503", "data")
    for _ in range(RUNS if is_cell else 1):
        lake.faults = [Fault(kind, path=FILES[place], times=ALWAYS)]
        error = fails(lake, StorageError, "STORAGE_FAILED")
        assert error.transient
        assert lake.faults[0].fired >= BUDGET
        if is_cell:
            record("R7", cell="HTTP 503 above the budget: typed error")


@pytest.mark.parametrize("options", [{}, BY_PYARROW], ids=["auto", "arrow"])
def test_a_throttling_answer_whose_name_the_aws_library_does_not_know(lake, options):
    """Some gateways answer 429 with a name of their own, after which PyArrow itself does not try again."""
    lake.faults = [Fault("429", path=FILES["metadata"], times=3, code="TooManyRequests")]
    check(lake, **options)
    assert lake.faults[0].fired == 3
    lake.faults = [Fault("429", path=FILES["metadata"], times=ALWAYS, code="TooManyRequests")]
    assert fails(lake, StorageError, "STORAGE_FAILED", **options).transient


def test_a_server_that_is_silent_for_a_while(lake):
    """Past the request timeout the request is made again."""
    lake.faults = [Fault("hang", path=r"data/file-0", seconds=1.6)]
    check(lake)
    lake.faults = [Fault("hang", path=r"data/file-0", seconds=1.6, times=ALWAYS)]
    assert fails(lake, StorageError, "STORAGE_FAILED").transient


@pytest.mark.skipif(not FULL, reason="half a minute of waiting: nightly")
def test_a_drip_slower_than_the_timeout_ends(lake):
    """Exact rows or `StorageError`. Limit: curl's timeout is about silence; one byte a second never ends it."""
    lake.faults = [Fault("drip", path=r"data/file-0", seconds=1.6, times=3)]
    try:
        check(lake)
    except StorageError as error:
        assert error.transient


@each_run
@pytest.mark.parametrize("place", ["data", "metadata"])
def test_a_drip_that_goes_on_for_ever_ends(lake, place, run):  # noqa: ARG001
    """It is never silent for longer than the timeout; three times a few seconds, not the hours that the bytes would take."""
    lake.faults = [Fault("drip", path=FILES[place], seconds=0.3, pieces=1_000, times=ALWAYS)]
    seconds = {"catalog.s3.connect-timeout": "0.5", "catalog.s3.request-timeout": "0.5"}
    began = time.monotonic()
    assert fails(lake, StorageError, "STORAGE_FAILED", **seconds).transient
    assert time.monotonic() - began < 30
    record("R7", cell="drip without end: typed error")


@each_run
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("place", ["data", "deletes", "manifest"])
def test_an_object_that_is_gone_names_its_snapshot(lake, place, method, run):  # noqa: ARG001
    opened = open_lake(lake)
    lake.faults = [Fault("404", path=FILES[place], times=ALWAYS, method=method)]
    error = fails(lake, MissingFileError, "MISSING_FILE", **reader_of(method))
    assert error.snapshot_id == opened.table.snapshot.snapshot_id
    assert f"snapshot {error.snapshot_id} is gone" in str(error)
    assert "s3://lake/t/" in error.path
    if (place, method) == ("data", "GET"):
        record("R7", cell="data file gone: typed error")


def test_a_table_that_is_not_there(lake):
    lake.faults = [Fault("404", path="json$", times=ALWAYS, method="HEAD")]
    with pytest.raises(MissingFileError):
        open_lake(lake, **BY_PYARROW)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("place", FILES)
def test_credentials_that_are_refused(lake, place, method):
    lake.faults = [Fault("403", path=FILES[place], times=ALWAYS, method=method)]
    assert not fails(lake, StorageError, "ACCESS_DENIED", **reader_of(method)).transient


@each_run
def test_credentials_that_expire_during_the_scan(lake, run):  # noqa: ARG001
    lake.faults = [
        Fault("403", path=r"data/file-2", times=ALWAYS, after=2),
        Fault("403", path=r"file-1", after=2),
    ]
    fails(lake, StorageError, "ACCESS_DENIED", **{"io.merge-gap": "1"})  # by several requests a file
    record("R7", cell="credentials expire: typed error")


@pytest.mark.parametrize("place", FILES)
def test_fewer_bytes_than_asked_for_are_noticed(lake, place):
    """Content-Length itself is wrong: HTTP sees nothing amiss. The bytes are missing all the same."""
    lake.faults = [Fault("lies", path=FILES[place], times=ALWAYS)]
    with pytest.raises((CorruptFileError, StorageError)) as caught:
        check(lake)
    assert not secret_in(lake, str(caught.value))


def other(lake):
    """Return the bytes of a file like file-0: same length, same layout, other rows."""
    folder = lake.root / "other"
    table = Table(folder, {"id": "long", "s": "string"}, version=2)
    table.append(layout(7), **PLAIN)
    return next(folder.glob("data/*.parquet")).read_bytes()


@pytest.mark.parametrize("after", [1, 2])
def test_an_object_replaced_while_pyarrow_reads_is_noticed_in_the_end(lake, after):
    """PyArrow asks for no version: what was read is compared with the object when the file is closed.

    Before that, pages of one object may make no sense in the other: which are read first is left to chance.
    """
    data = other(lake)
    lake.faults = [Fault("replaced", path=r"data/file-0", after=after, body=lambda _: data)]
    codes = "FILE_CHANGED", "CORRUPT_FILE"
    found = fails(lake, CorruptFileError, *codes, **{"io.merge-gap": "1"}, **BY_PYARROW)
    assert found.path.endswith("file-0.parquet")
    assert lake.faults[0].fired == 1


@each_run
@pytest.mark.parametrize("after", [1, 2, 3])
def test_an_object_replaced_between_two_ranged_reads_is_noticed_by_its_etag(lake, after, run):  # noqa: ARG001
    """Same length, same layout, valid page checksums: only the storage's own version of the object tells."""
    data = other(lake)
    assert len(data) == (lake.root / "t/data/file-0.parquet").stat().st_size
    assert data != (lake.root / "t/data/file-0.parquet").read_bytes()
    lake.faults = [Fault("replaced", path=r"data/file-0", after=after, body=lambda _: data)]
    # Without a gap the file is read by several requests: its end with the last row group,
    # and the columns of each other one.
    found = fails(lake, CorruptFileError, "FILE_CHANGED", **{"io.merge-gap": "1"})
    assert found.path.endswith("file-0.parquet")
    assert lake.faults[0].fired == 1
    if after == 1:
        record("R7", cell="object replaced between reads: typed error")


def test_a_replaced_object_of_another_layout_is_noticed_without_an_etag(lake):
    """Where the storage gives no ETag, the footer's row counts, page headers and checksums are what tells.

    Limit: another object with the same layout is not told apart then. Iceberg never writes a name twice.
    """
    lake.etags = False
    data = other(lake)
    lake.faults = [Fault("replaced", path=r"data/file-0", after=2, body=lambda old: data[500:] + data[:500])]
    with pytest.raises(CorruptFileError):
        check(lake, **{"io.merge-gap": "1"})
    assert lake.faults[0].fired == 1


def test_what_is_cached_of_a_replaced_object_is_not_used(lake):
    """A table made anew under the same names, between two queries of one worker process."""
    check(lake)
    (lake.root / "t/data/file-0.parquet").write_bytes(other(lake))
    opened = open_lake(lake)
    found = {row[0] for row in scan(opened, opened.table.schema.fields[:1]).rows}
    assert ("int", 8_000_001) in found
    assert ("int", 1_000_001) not in found


@pytest.mark.timeout(900 if FULL else 300)
def test_random_faults(lake):
    """Any mixture of faults: exact rows, or one of our errors and no secret in it."""
    seed = time.time_ns() % 10**6
    print(f"seed {seed}")
    draw = random.Random(seed)
    outcomes: Counter[str] = Counter()
    for _ in range(60 if FULL else 8):
        lake.faults = [
            Fault(
                draw.choice(("500", "503", "429", "reset", "short", "404", "403")),
                path=draw.choice(list(FILES.values())),
                times=draw.choice((1, 1, 2)),
                after=draw.randrange(4),
                method=draw.choice(("GET", "GET", "HEAD")),
            )
            for _ in range(draw.randint(1, 2))
        ]
        try:
            check(lake, **draw.choice(({}, BY_PYARROW)))
        except TwoStageError as error:
            assert not secret_in(lake, str(error)), f"seed {seed}"
            assert isinstance(error, StorageError | MissingFileError), f"seed {seed}: {error}"
            outcomes[type(error).__name__] += 1
        else:
            outcomes["exact"] += 1
    record("R7", **{f"random_{name}": number for name, number in outcomes.items()})
    assert outcomes["exact"], f"seed {seed}: {outcomes}"
