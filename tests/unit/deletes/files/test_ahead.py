"""Work ahead in a thread: the same items, the same errors, and nothing left behind."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from declared.types import Column
from equality_keys import load
from scan_values import write_keys
from twostage.deletes.anti_join import load_key_sets
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.files.ahead import ahead
from twostage.errors import MissingFileError


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "twostage-decoded-ahead"]


def counting(count, ended, error=None):
    try:
        yield from range(count)
        if error is not None:
            raise error
    finally:
        ended.append(threading.current_thread().name)


@pytest.mark.parametrize("most", [1, 2, 100])
@pytest.mark.parametrize("count", [0, 1, 50])
def test_the_same_items(count, most):
    ended = []
    assert list(ahead(counting(count, ended), most)) == list(range(count))
    assert ended == ["twostage-decoded-ahead"]
    assert not threads()


def test_the_error_comes_after_the_items_before_it():
    ended, found = [], []
    with pytest.raises(KeyError, match="seventh"):
        found.extend(ahead(counting(6, ended, KeyError("seventh")), 2))
    assert found == list(range(6))
    assert not threads()


@pytest.mark.parametrize("taken", [1, 5])
def test_closing_ends_the_thread_and_the_iterator(taken):
    ended = []
    items = ahead(counting(10_000, ended), 3)
    for _ in range(taken):
        next(items)
    items.close()
    assert ended == ["twostage-decoded-ahead"]
    assert not threads()


@pytest.mark.parametrize("is_broken", [False, True])
def test_delete_files_decoded_ahead_give_the_same_keys_and_errors(tmp_path, monkeypatch, is_broken):
    monkeypatch.setattr(load_key_sets, "MIN_KEYS_TO_DECODE_AHEAD", 0)
    column = Column(1, "k", "long")
    files = [
        write_keys(tmp_path / f"{n}.parquet", [column], [{1: n}, {1: 2 * n}], [1], sequence_number=n + 1)
        for n in range(20)
    ]
    if is_broken:
        (tmp_path / "13.parquet").unlink()
        CACHE.clear()
        with pytest.raises(MissingFileError, match="13"):
            load(tmp_path, [column], files)
        assert not threads()
        return
    numbers = pa.array(range(40))
    for sequence in (0, 5, 19):
        keys = {value for n in range(sequence, 20) for value in (n, 2 * n)}
        CACHE.clear()
        found = load(tmp_path, [column], files, sequence=sequence).deleted({1: numbers}, 40)
        assert found.tolist() == [number in keys for number in range(40)]
    assert not threads()
