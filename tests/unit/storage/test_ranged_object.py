"""An object read at places: its end once, the rest by requests made together, its size by whichever answer came first."""

from __future__ import annotations

import random

import pytest

from fake_store import FakeStore
from twostage.errors import MissingFileError
from twostage.metrics import Metrics
from twostage.storage import task_reads
from twostage.storage.ranged_object import RangedObject
from twostage.storage.ranges import RequestCost
from twostage.storage.task_reads import TaskReads
from twostage.task import Storage

DATA = random.Random(2).randbytes(50_000)
STORAGE = Storage(root="s3://lake/t")
NEAR = RequestCost(gap=10, parallel=1)


@pytest.fixture
def store(monkeypatch):
    fake = FakeStore({"lake/t/a": DATA, "lake/t/short": DATA[:300]}, key=("ranged",))
    monkeypatch.setattr(task_reads, "client_of", lambda *_: fake)
    return fake


def test_the_end_is_asked_for_once_and_serves_what_lies_in_it(store):
    with TaskReads(cost=NEAR) as reads:
        file = RangedObject(reads, STORAGE, "s3://lake/t/a")
        file.ask_end(1_000)
        file.ask_end(1_000)
        assert file.size() == len(DATA)
        assert file.read_at(10, 49_990) == DATA[-10:]
        assert file.read_at(1_000, 49_000) == DATA[-1_000:]
        assert file.read_at(50, 49_990) == DATA[-10:]
        assert file.read_at(10, 60_000) == b""
    assert [request[1:3] for request in store.requests] == [(-1_000, None)]


def test_what_lies_before_the_end_takes_requests_of_its_own_made_together(store):
    metrics = Metrics()
    with TaskReads(metrics, cost=NEAR) as reads:
        file = RangedObject(reads, STORAGE, "s3://lake/t/a")
        file.ask_end(1_000)
        assert file.read_at(2_000, 48_500) == DATA[48_500:]
        found = file.read_ranges([(7, 3), (20_000, 9), (12, 4)])
        assert [bytes(one) for one in found] == [DATA[7:10], DATA[20_000:20_009], DATA[12:16]]
    asked = [request[1:3] for request in store.requests]
    assert asked[:2] == [(-1_000, None), (48_500, 50_000)]
    assert sorted(asked[2:]) == [(7, 16), (20_000, 20_009)]
    assert {request[3] for request in store.requests[1:]} == {'"0"'}, (
        "each is for the object of the first answer"
    )
    assert metrics.counters["store.trips"] == 3


def test_nobody_needs_to_ask_for_the_end_of_a_short_object(store):
    with TaskReads(cost=NEAR) as reads:
        file = RangedObject(reads, STORAGE, "s3://lake/t/short")
        assert file.read_at(300, 0) == DATA[:300]
        assert file.size() == 300
    assert len(store.requests) == 1


def test_a_missing_object_is_known_when_it_is_needed(store):
    with TaskReads(cost=NEAR) as reads:
        file = RangedObject(reads, STORAGE, "s3://lake/t/absent")
        file.ask_end()
        with pytest.raises(MissingFileError):
            file.size()


def test_an_object_that_is_cut_short_on_its_way_is_asked_for_again(store):
    store.failures = ["broken"]
    with TaskReads(cost=NEAR) as reads:
        assert RangedObject(reads, STORAGE, "s3://lake/t/short").read_at(5, 3) == DATA[3:8]
    assert len(store.requests) == 2
