"""An object as a file of pyarrow's: exact bytes with few requests, of one version, whatever the store does meanwhile."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from late_store import Fault, serve_late
from twostage.errors import CorruptFileError, MissingFileError
from twostage.storage import ranged_object
from twostage.storage.files import check_unchanged, open_file, version_of
from twostage.task import Storage

DATA = random.Random(3).randbytes(300_000)
END = ranged_object.END_BYTES


@pytest.fixture
def lake(tmp_path):
    (tmp_path / "f").write_bytes(DATA)
    (tmp_path / "empty").write_bytes(b"")
    pq.write_table(pa.table({"x": list(range(100_000))}), tmp_path / "p.parquet", row_group_size=10_000)
    with serve_late(tmp_path) as store:
        yield store


def opened(lake, name="f", client="auto"):
    properties = {key.removeprefix("catalog."): value for key, value in lake.options.items()}
    return open_file(Storage(root="s3://lake", properties=properties, client=client), f"s3://lake/{name}")


@pytest.mark.parametrize("client", ["auto", "arrow"])
def test_it_reads_as_a_file_does(lake, client):
    with opened(lake, client=client) as file:
        assert file.size() == len(DATA)
        assert file.read_at(10, 5) == DATA[5:15]
        assert file.read_at(50, len(DATA) - 10) == DATA[-10:]
        assert file.read_at(10, len(DATA)) == b""
        file.seek(7)
        assert (file.read(5), file.tell()) == (DATA[7:12], 12)
        assert version_of(file).startswith(b'"')
        with ThreadPoolExecutor(8) as threads:
            places = [random.randrange(len(DATA)) for _ in range(50)]
            assert [*threads.map(lambda at: file.read_at(100, at), places)] == [
                DATA[at : at + 100] for at in places
            ]
    with pytest.raises(ValueError, match="closed"):
        file.read_at(1, 0)


@pytest.mark.parametrize("client", ["auto", "arrow"])
def test_whether_an_object_is_still_the_same_takes_a_byte(lake, tmp_path, client):
    """Each data file is asked for that, where the client cannot ask for a version."""
    properties = {key.removeprefix("catalog."): value for key, value in lake.options.items()}
    storage = Storage(root="s3://lake", properties=properties, client=client)
    with opened(lake, client=client) as file:
        version = version_of(file)
    lake.log.clear()
    check_unchanged(storage, "s3://lake/f", version)
    assert sum(one.sent for one in lake.log if one.method == "GET") == 1
    for replaced in (DATA[::-1], b""):
        (tmp_path / "f").write_bytes(replaced)
        with pytest.raises(CorruptFileError, match="FILE_CHANGED"):
            check_unchanged(storage, "s3://lake/f", version)
    (tmp_path / "f").unlink()
    check_unchanged(storage, "s3://lake/f", version)  # it was read whole before
    lake.log.clear()
    check_unchanged(storage, "s3://lake/f", b"")
    assert lake.log == []


def test_opening_takes_one_request_which_brings_the_end(lake):
    with opened(lake) as file:
        assert file.read_at(100, len(DATA) - END) == DATA[-END:][:100]
        assert [(one.method, one.sent) for one in lake.log] == [("GET", END)]
        file.read_at(10, 0)
        assert len(lake.log) == 2


@pytest.mark.parametrize("client", ["auto", "arrow"])
def test_an_object_without_bytes_and_one_that_is_not_there(lake, client):
    with opened(lake, "empty", client) as file:
        assert (file.size(), file.read_at(5, 0), file.read()) == (0, b"", b"")
    with pytest.raises(MissingFileError):
        opened(lake, "absent", client)


def test_pyarrow_reads_it_through_faults(lake):
    lake.faults = [Fault(kind, path="parquet", times=2, after=1) for kind in ("503", "reset", "500")]
    with opened(lake, "p.parquet") as file:
        assert pq.ParquetFile(file).read()["x"].to_pylist() == list(range(100_000))
    assert [fault.fired for fault in lake.faults] == [2, 2, 2]


def test_an_object_that_is_replaced_is_found_out(lake):
    with opened(lake) as file:
        lake.faults = [Fault("replaced", path="f", body=lambda data: data)]
        with pytest.raises(CorruptFileError, match="FILE_CHANGED"):
            file.read_at(10, 0)
