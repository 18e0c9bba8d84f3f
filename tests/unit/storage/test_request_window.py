"""A store's window: it grows with answers, is halved by throttling, and always lets one request through."""

from __future__ import annotations

import asyncio

import pytest

from twostage.storage import request_window
from twostage.storage.request_window import QUIET_SECONDS, RequestWindow, window_of


async def fill(window, count):
    tasks = [asyncio.create_task(window.enter()) for _ in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


def test_it_grows_by_one_with_each_answer():
    async def run():
        window = RequestWindow(first=4, most=20)
        waiting = await fill(window, 30)
        assert window.in_flight == 4
        for _ in range(4):
            window.leave(0.0, answered=True, throttled=False)
        await asyncio.sleep(0)
        assert window.in_flight == 8, "twice as many after a round trip"
        for _ in range(100):
            window.leave(0.0, answered=True, throttled=False)
            window.in_flight += 1
        assert window.size == 20
        for task in waiting:
            task.cancel()

    asyncio.run(run())


def test_throttling_halves_it_once_for_what_was_in_flight(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(request_window.time, "monotonic", lambda: now[0])

    async def run():
        window = RequestWindow(first=16)
        entered = [await task for task in await fill(window, 16)]
        now[0] += 0.03
        for one in entered[:5]:
            window.leave(one, answered=False, throttled=True)
        assert window.size == 8, "once for all that were sent before"
        for one in entered[5:]:
            window.leave(one, answered=False, throttled=False)
        now[0] += 0.03
        later = await window.enter()
        window.leave(later, answered=False, throttled=True)
        assert window.size == 4
        for _ in range(40):  # from there on slowly
            window.leave(await window.enter(), answered=True, throttled=False)
        assert 5 < window.size < 7

    asyncio.run(run())


def test_it_grows_fast_again_after_a_quiet_time(monkeypatch):
    """Twice the size that was too much, each time; throttling in between begins the time anew."""
    now = [100.0]
    monkeypatch.setattr(request_window.time, "monotonic", lambda: now[0])

    async def run():
        window = RequestWindow(first=64, most=256)

        async def answers(count):
            for _ in range(count):
                window.leave(await window.enter(), answered=True, throttled=False)

        for _ in range(3):
            now[0] += 1
            entered = await window.enter()
            now[0] += 1
            window.leave(entered, answered=False, throttled=True)
        assert window.size == 8
        now[0] += QUIET_SECONDS - 1
        await answers(100)
        assert 10 < window.size < 12, "slowly"
        now[0] += 1
        await answers(100)
        assert 16 < window.size < 19, "by one each up to twice of what was too much, then slowly again"
        now[0] += QUIET_SECONDS - 1
        entered = await window.enter()
        now[0] += 0.5
        window.leave(entered, answered=False, throttled=True)
        size = window.size
        now[0] += QUIET_SECONDS - 1
        await answers(20)
        assert size < window.size < size + 1, "throttling begins the quiet time anew"
        for _ in range(6):
            now[0] += QUIET_SECONDS
            await answers(256)
        assert window.size == 256

    asyncio.run(run())


def test_one_request_is_always_let_through(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(request_window.time, "monotonic", lambda: now[0])

    async def run():
        window = RequestWindow(first=1)
        for _ in range(10):
            entered = await window.enter()
            now[0] += 10
            window.leave(entered, answered=False, throttled=True)
        assert window.size == 1
        await asyncio.wait_for(window.enter(), 1)

    asyncio.run(run())


def test_failures_of_another_kind_leave_it_as_it_is():
    async def run():
        window = RequestWindow(first=2)
        await fill(window, 2)
        window.leave(0.0, answered=False, throttled=False)
        assert (window.size, window.in_flight) == (2, 1)

    asyncio.run(run())


@pytest.mark.parametrize("is_admitted", [False, True])
def test_whoever_is_cancelled_leaves_its_place_to_the_next(is_admitted):
    async def run():
        window = RequestWindow(first=1)
        await window.enter()
        first, second = await fill(window, 2)
        if is_admitted:  # between the place and its use
            window.leave(0.0, answered=False, throttled=False)
            first.cancel()
        else:
            first.cancel()
            await asyncio.sleep(0)
            window.leave(0.0, answered=False, throttled=False)
        await asyncio.wait_for(second, 1)
        assert window.in_flight == 1
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(run())


def test_stores_have_their_own():
    one, other = window_of(("s3", "http://h", "one")), window_of(("s3", "http://h", "other"))
    assert one is not other
    assert window_of(("s3", "http://h", "one")) is one
