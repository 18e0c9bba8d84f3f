"""A task's reads: bytes in the order asked for, one object or an error, limits, repetitions, an end."""

from __future__ import annotations

import gc
import random
import threading
import time

import pytest

from fake_store import FakeStore
from twostage.errors import CorruptFileError, MissingFileError, ResourceLimitError, StorageError
from twostage.metrics import Metrics
from twostage.storage import request_window, retry_budget, task_reads
from twostage.storage.ranges import RequestCost
from twostage.storage.store_client import StoreAnswer
from twostage.storage.store_loop import event_loop
from twostage.storage.task_reads import TaskReads
from twostage.task import Storage

DATA = random.Random(1).randbytes(100_000)
NEAR = RequestCost(gap=10, parallel=1)
STORAGE = Storage(root="s3://lake/t", properties={"s3.secret-access-key": "canary-4711"})


@pytest.fixture
def store(monkeypatch):
    fake = FakeStore(
        {"lake/t/a": DATA, "lake/t/b": DATA[::-1], "lake/t/empty": b""}, key=(str(time.time_ns()),)
    )
    monkeypatch.setattr(task_reads, "client_of", lambda *_: fake)
    monkeypatch.setattr(retry_budget, "FIRST_PAUSE", 0.001)
    return fake


def wait_until(is_true):
    for _ in range(60_000):
        if is_true():
            return
        time.sleep(0.001)
    raise AssertionError("it did not happen within a minute")


def test_ranges_arrive_in_the_order_asked_for_and_near_ones_by_one_request(store):
    metrics = Metrics()
    with TaskReads(metrics, cost=NEAR) as reads:
        file = reads.file(STORAGE, "s3://lake/t/a", len(DATA))
        places = [(500, 10), (0, 20), (25, 5), (90_000, 10_000), (3, 0), (505, 2)]
        found = reads.ask(file, places).result()
    assert [bytes(view) for view in found] == [DATA[start : start + length] for start, length in places]
    assert sorted(request[1:3] for request in store.requests) == [(0, 30), (500, 510), (90_000, 100_000)]
    assert metrics.counters["store.requests"] == 3
    assert metrics.counters["store.bytes"] == 10_040
    assert metrics.counters["store.bytes.asked"] == 10_037
    assert 0 < metrics.counters["store.time.busy"] <= metrics.counters["store.time.requests"]


def test_round_trips_are_those_that_wait_for_one_another(store):
    metrics = Metrics()
    with TaskReads(metrics, cost=NEAR) as reads:
        file, other = (reads.file(STORAGE, f"s3://lake/t/{name}", len(DATA)) for name in "ab")
        store.is_held = True
        together = [reads.ask(file, [(0, 10)]), reads.ask(file, [(5_000, 10)]), reads.ask(other, [(0, 10)])]
        store.is_held = False
        assert [one.trip for one in together] == [1, 1, 1]
        together[0].result()
        assert reads.ask(other, [(0, 10)]).trip == 2  # whichever file's answer it was
        reads.ask(file, [(0, 10), (9_000, 10)]).result()
        reads.ask(file, [(90, 10)]).result()
        together[1].result()
        assert reads.ask(other, [(50, 10)]).trip == 4
    assert 3 <= metrics.counters["store.trips"] <= 4  # the last one's answer may not have come


def test_random_ranges(store):
    seed = time.time_ns() % 10**6
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(20):
        with TaskReads(cost=RequestCost(gap=draw.choice((0, 100, 5_000)), parallel=1)) as reads:
            file = reads.file(STORAGE, "s3://lake/t/a", len(DATA))
            places = [(draw.randrange(99_000), draw.randrange(1_000)) for _ in range(draw.randrange(12))]
            found = reads.ask(file, places).result()
            assert [bytes(view) for view in found] == [DATA[s : s + n] for s, n in places], f"seed {seed}"


def test_a_long_range_is_asked_for_in_parts_at_once(store):
    metrics = Metrics()
    cost = RequestCost(gap=10, parallel=1, part=1_000)
    with TaskReads(metrics, cost=cost) as reads:
        file = reads.file(STORAGE, "s3://lake/t/a", len(DATA))
        places = [(50_000, 10), (20_000, 3_500), (23_505, 2_000), (23_000, 100)]
        store.is_held = True
        pending = reads.ask(file, places)
        wait_until(lambda: store.in_flight == 7)
        store.is_held = False
        found = pending.result()
    assert [bytes(view) for view in found] == [DATA[start : start + length] for start, length in places]
    parts = sorted(request[1:3] for request in store.requests)
    assert parts[0][0] == 20_000
    assert parts[5][1] == 25_505
    assert all(end - start <= 1_000 for start, end in parts)
    assert metrics.counters["store.most"] == 7
    assert metrics.counters["store.bytes"] == 5_515


@pytest.mark.parametrize("kind", ["broken", "missing"])
def test_a_part_that_fails(store, kind):
    store.failures = [kind]
    with TaskReads(cost=RequestCost(gap=0, parallel=1, part=1_000)) as reads:
        pending = reads.ask(reads.file(STORAGE, "s3://lake/t/a", len(DATA)), [(0, 9_999)])
        if kind == "missing":
            with pytest.raises(MissingFileError):
                pending.result()
        else:
            assert bytes(pending.result()[0]) == DATA[:9_999]


def test_the_parts_of_a_range_are_of_one_object(store):
    store.changes = lambda _, answer: StoreAnswer(answer.data, f'"{len(store.requests) > 3}"', answer.size)
    with TaskReads(cost=RequestCost(gap=0, parallel=1, part=1_000), most_in_flight=1) as reads:
        pending = reads.ask(reads.file(STORAGE, "s3://lake/t/a", len(DATA)), [(0, 9_999)])
        with pytest.raises(CorruptFileError, match="FILE_CHANGED"):
            pending.result()


def test_nothing_is_asked_for_without_ranges(store):
    with TaskReads() as reads:
        file = reads.file(STORAGE, "s3://lake/t/a")
        assert reads.ask(file, []).result() == []
        assert [bytes(view) for view in reads.ask(file, [(5, 0)]).result()] == [b""]
    assert store.requests == []


def test_a_whole_file_of_unknown_size_takes_one_request(store):
    with TaskReads() as reads:
        file = reads.file(STORAGE, "s3://lake/t/a")
        assert bytes(reads.ask_whole(file, limit=len(DATA)).result()[0]) == DATA
        assert (file.size, file.etag) == (len(DATA), '"0"')
        assert bytes(reads.ask_whole(reads.file(STORAGE, "s3://lake/t/empty")).result()[0]) == b""
        with pytest.raises(ResourceLimitError, match="100000 bytes"):
            reads.ask_whole(reads.file(STORAGE, "s3://lake/t/a"), limit=99_999).result()
    assert len(store.requests) == 3


def test_every_later_request_is_for_the_object_that_the_first_answer_came_from(store):
    with TaskReads() as reads:
        file = reads.file(STORAGE, "s3://lake/t/a", len(DATA))
        reads.ask(file, [(0, 10)]).result()
        reads.ask(file, [(50, 10)]).result()
        store.etags["lake/t/a"] = '"other"'
        with pytest.raises(CorruptFileError) as caught:
            reads.ask(file, [(100, 10)]).result()
    assert caught.value.code == "FILE_CHANGED"
    assert caught.value.path == "s3://lake/t/a"
    assert [request[3] for request in store.requests] == [None, '"0"', '"0"']


def test_a_store_that_ignores_if_match_is_found_out_by_its_answer(store):
    with TaskReads() as reads:
        file = reads.file(STORAGE, "s3://lake/t/a", len(DATA))
        reads.ask(file, [(0, 10)]).result()
        store.changes = lambda _, answer: StoreAnswer(answer.data, '"other"', answer.size)
        with pytest.raises(CorruptFileError, match="FILE_CHANGED"):
            reads.ask(file, [(100, 10)]).result()


def test_a_file_that_is_known_is_asked_for_from_the_first_request_on(store):
    with TaskReads() as reads:
        with pytest.raises(CorruptFileError, match="FILE_CHANGED"):
            reads.ask(reads.file(STORAGE, "s3://lake/t/a", len(DATA), '"old"'), [(0, 10)]).result()
        file = reads.file(STORAGE, "s3://lake/t/a", len(DATA), '"0"')
        assert bytes(reads.ask(file, [(0, 10)]).result()[0]) == DATA[:10]


def test_the_first_answer_tells_the_true_size(store):
    with TaskReads() as reads:
        file = reads.file(STORAGE, "s3://lake/t/a", 7)
        reads.ask(file, [(0, 5)]).result()
        assert file.size == len(DATA)


@pytest.mark.parametrize("place", [(99_990, 20), (200_000, 5)])
def test_a_range_beyond_the_end_is_an_error(store, place):
    with TaskReads() as reads, pytest.raises(CorruptFileError, match="fewer bytes than its metadata says"):
        reads.ask(reads.file(STORAGE, "s3://lake/t/a", 300_000), [place]).result()


@pytest.mark.parametrize("kind", ["broken", "timeout", "throttled"])
def test_failures_that_pass_are_repeated(store, kind):
    metrics = Metrics()
    store.failures = [kind, kind]
    with TaskReads(metrics) as reads:
        assert bytes(reads.ask(reads.file(STORAGE, "s3://lake/t/a"), [(7, 3)]).result()[0]) == DATA[7:10]
    assert metrics.counters["store.retries"] == 2
    assert metrics.counters["store.requests"] == 3


def test_an_answer_that_is_too_short_is_repeated(store):
    turns = iter([True, False])
    store.changes = lambda _, answer: (
        StoreAnswer(answer.data[:5], answer.etag, answer.size) if next(turns) else answer
    )
    with TaskReads() as reads:
        assert bytes(reads.ask(reads.file(STORAGE, "s3://lake/t/a"), [(0, 50)]).result()[0]) == DATA[:50]
    assert len(store.requests) == 2


@pytest.mark.parametrize(
    ("kind", "error", "code", "times"),
    [
        ("missing", MissingFileError, "MISSING_FILE", 1),
        ("denied", StorageError, "ACCESS_DENIED", 1),
        ("other", StorageError, "STORAGE_FAILED", 1),
        ("timeout", StorageError, "STORAGE_FAILED", 3),
        ("broken", StorageError, "STORAGE_FAILED", 6),
    ],
)
def test_failures_that_stay_are_typed(store, kind, error, code, times):
    store.failures = [kind] * 100
    with TaskReads() as reads:
        pending = reads.ask(reads.file(STORAGE, "s3://lake/t/a"), [(0, 5)])
        with pytest.raises(error) as caught:
            pending.result()
        with pytest.raises(error):  # again, for whoever asks again
            pending.result()
    assert caught.value.code == code
    assert len(store.requests) == times


def test_a_store_that_throttles_for_ever_has_failed_after_a_while(store, monkeypatch):
    monkeypatch.setattr(retry_budget, "PATIENCE_SECONDS", 0.05)
    store.failures = ["throttled"] * 100_000
    with TaskReads() as reads, pytest.raises(StorageError) as caught:
        reads.ask(reads.file(STORAGE, "s3://lake/t/a"), [(0, 5)]).result()
    assert caught.value.transient


def test_many_requests_that_fail_share_a_budget(store):
    store.failures = ["broken"] * 10_000
    metrics = Metrics()
    with TaskReads(metrics, cost=RequestCost(gap=0, parallel=1), most_in_flight=8) as reads:
        file = reads.file(STORAGE, "s3://lake/t/a", len(DATA))
        asked = [reads.ask(file, [(10 * n, 5)]) for n in range(50)]
        for one in asked:
            with pytest.raises(StorageError):
                one.result()
    assert metrics.counters["store.retries"] == retry_budget.LEAST_RETRIES


@pytest.mark.parametrize("in_flight", [1, 64, 200])
def test_requests_that_all_break_once_before_the_first_answer(store, in_flight):
    """A connection through which all of them go, or a store that starts anew."""
    store.failures = ["broken"] * in_flight
    metrics = Metrics()
    cost = RequestCost(gap=0, parallel=1)
    with TaskReads(metrics, cost=cost, most_in_flight=in_flight) as reads:
        file = reads.file(STORAGE, "s3://lake/t/a", len(DATA))
        asked = [reads.ask(file, [(10 * n, 5)]) for n in range(in_flight)]
        assert [bytes(one.result()[0]) for one in asked] == [
            DATA[10 * n : 10 * n + 5] for n in range(in_flight)
        ]
    assert metrics.counters["store.retries"] == in_flight


def test_a_secret_in_a_failure_is_masked(store):
    store.failures = ["canary-4711"]
    with TaskReads() as reads:
        file = reads.file(STORAGE, "s3://lake/t/a")
        assert "canary" not in repr(file)
        with pytest.raises(StorageError) as caught:
            reads.ask(file, [(0, 5)]).result()
    assert "told to be ***" in str(caught.value)


def test_no_more_requests_are_in_flight_than_the_task_may_have(store):
    with TaskReads(cost=RequestCost(gap=0, parallel=1), most_in_flight=3) as reads:
        file = reads.file(STORAGE, "s3://lake/t/a", len(DATA))
        asked = [reads.ask(file, [(10 * n, 5)]) for n in range(30)]
        assert [bytes(one.result()[0]) for one in asked] == [DATA[10 * n : 10 * n + 5] for n in range(30)]
    assert store.most_in_flight == 3


def test_a_window_that_throttling_closed_lets_requests_through_one_by_one(store):
    store.failures = ["throttled"] * 60
    with TaskReads(cost=RequestCost(gap=0, parallel=1)) as reads:
        file = reads.file(STORAGE, "s3://lake/t/a", len(DATA))
        asked = [reads.ask(file, [(10 * n, 5)]) for n in range(40)]
        assert [bytes(one.result()[0]) for one in asked] == [DATA[10 * n : 10 * n + 5] for n in range(40)]
    assert request_window.window_of(store.key).in_flight == 0


def test_bytes_are_asked_for_ahead_up_to_a_budget_and_more_when_they_are_released(store):
    with TaskReads(cost=RequestCost(gap=0, parallel=1), most_bytes=1_000) as reads:
        file = reads.file(STORAGE, "s3://lake/t/a", len(DATA))
        asked = [reads.ask(file, [(1_000 * n, 400)]) for n in range(6)]
        wait_until(asked[1].done)
        assert len(store.requests) == 2
        view = asked[0].result()[0]
        asked[0].release()
        wait_until(asked[2].done)
        assert bytes(view) == DATA[:400], "bytes that were handed out stay"
        del asked[1], view
        gc.collect()
        wait_until(lambda: len(store.requests) == 4)
        # What somebody waits for is sent whatever the budget says, and before the others.
        assert bytes(asked[-1].result()[0]) == DATA[5_000:5_400]
        assert store.requests[4][1] == 5_000
        assert not asked[-2].done()


def test_threads_that_ask_and_let_go_at_the_same_time(store):
    """Nothing that is told is lost: a request that waits for bytes to be let go of is sent when they are."""
    wrong = []

    def read(number, reads, file):
        draw = random.Random(number)
        for _ in range(20):
            places = [draw.randrange(90_000) for _ in range(6)]
            asked = [reads.ask(file, [(place, 400)]) for place in places]
            draw.shuffle(order := list(range(6)))
            for one in order:
                if bytes(asked[one].result()[0]) != DATA[places[one] : places[one] + 400]:
                    wrong.append(places[one])
                asked[one].release()

    with TaskReads(cost=RequestCost(gap=0, parallel=1), most_bytes=1_000, most_in_flight=8) as reads:
        file = reads.file(STORAGE, "s3://lake/t/a", len(DATA))
        threads = [threading.Thread(target=read, args=(number, reads, file)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        assert wrong == []
        last = reads.ask(file, [(0, 5)])  # its budget has room again, though nobody waits for it
        wait_until(last.done)


def test_the_event_loop_is_woken_once_for_all_that_it_is_told_meanwhile(store, monkeypatch):
    woken = []
    do_told = TaskReads._do_told
    monkeypatch.setattr(TaskReads, "_do_told", lambda reads: (woken.append(1), do_told(reads)))
    may_go_on = threading.Event()
    event_loop().call_soon_threadsafe(may_go_on.wait)
    with TaskReads(cost=RequestCost(gap=0, parallel=1)) as reads:
        file = reads.file(STORAGE, "s3://lake/t/a", len(DATA))
        asked = [reads.ask(file, [(10 * n, 5)]) for n in range(50)]
        may_go_on.set()
        wait_until(lambda: all(one.is_sent for one in asked))
        for one in asked:
            one.result()
            one.release()
        assert woken == [1], "neither to wait for what was sent nor to let go of bytes that nobody waits for"


def test_a_range_larger_than_the_budget_is_read_all_the_same(store):
    with TaskReads(most_bytes=10) as reads:
        assert (
            bytes(reads.ask(reads.file(STORAGE, "s3://lake/t/a"), [(0, 5_000)]).result()[0]) == DATA[:5_000]
        )


def test_closing_cancels_what_is_in_flight_and_what_waits(store):
    store.is_held = True
    with TaskReads(cost=RequestCost(gap=0, parallel=1), most_in_flight=2) as reads:
        file = reads.file(STORAGE, "s3://lake/t/a", len(DATA))
        asked = [reads.ask(file, [(10 * n, 5)]) for n in range(4)]
        caught: list[BaseException] = []

        def read():
            try:
                asked[0].result()
            except StorageError as error:
                caught.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        wait_until(lambda: store.in_flight == 2)
    reader.join(60)
    assert [error.code for error in caught] == ["READ_CANCELLED"]
    for one in asked:
        with pytest.raises(StorageError, match="READ_CANCELLED"):
            one.result()
    wait_until(lambda: store.cancelled == 2)
    assert len(store.requests) == 2
    assert store.released == ["lake/t/a"]
    with pytest.raises(StorageError, match="READ_CANCELLED"):
        reads.ask(file, [(0, 5)]).result()


def test_whoever_waits_may_hand_the_turn_on(store):
    waited = []
    store.is_held = True

    def wait(pending):
        waited.append(pending)
        store.is_held = False
        pending.block()

    with TaskReads(wait=wait) as reads:
        pending = reads.ask(reads.file(STORAGE, "s3://lake/t/a"), [(0, 5)])
        assert bytes(pending.result()[0]) == DATA[:5]
        assert waited == [pending]
        pending.result()
        assert waited == [pending], "nobody waits for what is there"


def test_a_callback_is_called_when_the_bytes_are_there(store):
    store.is_held = True
    called = threading.Event()
    with TaskReads() as reads:
        pending = reads.ask(reads.file(STORAGE, "s3://lake/t/a"), [(0, 5)])
        pending.on_done(called.set)
        assert not called.is_set()
        store.is_held = False
        assert called.wait(60)
        again = threading.Event()
        pending.on_done(again.set)
        assert again.is_set()


def test_the_policy_holds(store):
    from twostage.errors import ForbiddenLocationError

    with TaskReads() as reads:
        for path in ("s3://other/t/a", "/etc/passwd", "s3://lake/t/../u"):
            with pytest.raises(ForbiddenLocationError):
                reads.file(STORAGE, path)
    assert store.requests == []
