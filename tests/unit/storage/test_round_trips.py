"""The longest chain of requests that wait one for another, whatever the order of answers."""

from __future__ import annotations

import threading

from twostage.storage.round_trips import RoundTrips


def test_each_thread_has_its_own_count():
    trips, seen = RoundTrips(), []
    trips.reach(3)

    def other():
        seen.append(trips.behind)
        trips.reach(7)
        trips.reach(5)
        seen.append(trips.behind)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [0, 7]
    assert trips.behind == 3


def test_tasks_have_clocks_of_their_own():
    one, other = RoundTrips(), RoundTrips()
    one.reach(2)
    assert (one.behind, other.behind) == (2, 0)
