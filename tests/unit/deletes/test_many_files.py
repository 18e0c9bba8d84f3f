"""Thousands of delete files: each opened once, several requests at a time, and no cost that grows with their square."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from check import check, ids
from core_scan import open_table, scan
from declared.types import Column
from figures import FULL, record
from scan_values import context_of, task_of, write_keys
from tables import Table
from twostage.deletes.anti_join.load_key_sets import load_equality
from twostage.deletes.cache.memory import CACHE, ByteCache
from twostage.deletes.files import contents
from twostage.deletes.positions import position_file
from twostage.metrics import Metrics
from twostage.storage.location import Location, parse_location

FILES = 10_000 if FULL else 400


class Store:
    """Local files that pass for remote ones, and answer only when `together` requests wait at the same time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, together: int) -> None:
        self.requests = 0
        self._lock = threading.Lock()
        self._barrier = threading.Barrier(together)
        read_all = contents.files.read_all

        def slow(*arguments: Any, **options: Any) -> bytes:
            with self._lock:
                self.requests += 1
            self._barrier.wait(30)
            return read_all(*arguments, **options)

        def remote(path: str) -> Location:
            return parse_location(f"s3://bucket{path}")

        monkeypatch.setattr(contents.files, "read_all", slow)
        monkeypatch.setattr(contents, "parse_location", remote)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_small_remote_delete_files_are_fetched_at_the_same_time(tmp_path, monkeypatch, file_format):
    column = Column(7, "k", "long")
    deletes = [
        write_keys(tmp_path / f"{number}.{file_format}", [column], [{7: number}], [7], scope="global")
        for number in range(16)
    ]
    store = Store(monkeypatch, together=4)
    context = context_of(tmp_path, [column], settings={"delete_cache": "worker", "parallel_requests": 4})
    metrics = Metrics()
    found = load_equality(context, task_of(*deletes), metrics)
    assert (store.requests, metrics.counters["delete_files.opened"]) == (16, 16)
    import pyarrow as pa

    assert found.deleted({7: pa.array([0, 15, 16])}, 3).tolist() == [True, True, False]


def test_positional_delete_files_of_one_data_file(tmp_path):
    table = Table(tmp_path, {"id": "long"}, version=2)
    file = table.append(ids(3 * FILES))
    table.append(ids(10, id=[-i - 1 for i in range(10)]))
    with table.transaction():
        for number in range(FILES):
            table.delete_positions({file: [3 * number]})
    left = [*(i for i in range(3 * FILES) if i % 3), *range(-10, 0)]
    result = check(table, left)
    counters = result.metrics.counters
    assert counters["delete_files.opened"] == FILES
    assert counters["rows.deleted.position"] == FILES
    record("R9", position_files=FILES, seconds_per_1000=round(counters["time.deletes"] / 1e6 / FILES, 2))


def test_equality_delete_files_of_many_data_files(tmp_path):
    table = Table(tmp_path, {"id": "long", "k": "long"})
    count = FILES // 10
    for number in range(20):
        table.append([{"id": 100 * number + i, "k": 100 * number + i} for i in range(100)], row_group_size=50)
    with table.transaction():
        for number in range(count):
            table.delete_equal(["k"], [{"k": 2000 // count * number}])
    gone = {2000 // count * number for number in range(count)}
    for mode in ("never", "always"):
        CACHE.clear()
        result = check(
            table,
            [i for i in range(2000) if i not in gone],
            **{"deletes.stream": mode, "deletes.cache": "worker"},
        )
        assert result.metrics.counters["delete_files.opened"] <= 2 * count
        assert result.metrics.counters["rows.deleted.equality"] == len(gone)


def test_who_reads_one_positional_delete_file_keeps_no_thread_waiting_that_reads_another(
    tmp_path, monkeypatch
):
    """Planning threads of one driver waited for each other, however different their tables."""
    opened = []
    for number in range(2):
        table = Table(tmp_path / str(number), {"id": "long"}, version=2)
        table.delete_positions({table.append(ids(5)): [number]})
        opened.append(open_table(table.write()))
    together, reads = threading.Barrier(2), []
    read = position_file.PositionReader.read

    def slow(self: Any, metrics: Metrics) -> Any:
        reads.append(self)
        together.wait(30)  # broken, and an error, unless both read at the same time
        return read(self, metrics)

    monkeypatch.setattr(position_file.PositionReader, "read", slow)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(scan, opened))
    assert [len(one.rows) for one in found] == [4, 4]
    assert len(reads) == 2


def test_a_value_that_several_threads_want_is_made_once():
    cache, made = ByteCache(), []

    def want(key: str) -> None:
        with cache.exclusive(key):
            if cache.get(key) is None:
                made.append(key)
                cache.put(key, key, 1, limit=100)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(want, [f"{number % 4}" for number in range(400)]))
    assert sorted(made) == ["0", "1", "2", "3"]
    assert not cache._key_locks


def test_putting_into_a_cache_does_not_look_at_what_is_there():
    """10,000 positional delete files are 10,000 entries: a list of them for each would be 10 s."""

    class Counted(dict[Any, Any]):
        walks = 0

        def __iter__(self) -> Any:
            Counted.walks += 1
            return super().__iter__()

    cache = ByteCache()
    cache._entries = Counted()
    for number in range(100):
        cache.put(number, number, 1, limit=100)
    assert Counted.walks == 0
    cache.make_room(90)
    assert (cache.nbytes, Counted.walks) == (90, 1)
