"""Entries on their way: as many as there is room for, all of them before the task ends, none for a task that failed."""

from __future__ import annotations

import pytest

from twostage.deletes.compiled.writes import MAX_WRITES_IN_FLIGHT, WRITES_BUDGET_DIVISOR, EntryWrites


class Entry:
    """An entry of so many bytes; `waited` lists those that were waited for, and how."""

    waited: list[tuple[Entry, object]]

    def __init__(self, size: int = 10) -> None:
        self.size = size

    def is_kept(self, wait: object) -> bool:
        Entry.waited.append((self, wait))
        return True


@pytest.fixture(autouse=True)
def _nothing_waited():
    Entry.waited = []


def turn(_):
    pass


def waited():
    return [entry for entry, _ in Entry.waited]


def test_entries_are_waited_for_at_the_end_in_order():
    writes, entries = EntryWrites(2**20), [Entry() for _ in range(MAX_WRITES_IN_FLIGHT)]
    with writes.together(turn):
        for entry in entries:
            writes.add(entry)
        assert waited() == []
    assert Entry.waited == [(entry, turn) for entry in entries]


def test_outside_of_the_block_nothing_is_left_on_its_way():
    writes, entry = EntryWrites(2**20), Entry()
    writes.add(entry)
    assert waited() == [entry]


def test_the_oldest_is_waited_for_where_there_are_too_many():
    writes, entries = EntryWrites(2**20), [Entry() for _ in range(MAX_WRITES_IN_FLIGHT + 3)]
    with writes.together():
        for entry in entries:
            writes.add(entry)
        assert waited() == entries[:3]
    assert waited() == entries


def test_their_bytes_are_bounded_but_for_a_single_one():
    writes, entries = EntryWrites(100 * WRITES_BUDGET_DIVISOR), [Entry(60), Entry(40), Entry(1), Entry(1000)]
    with writes.together():
        writes.add(entries[0])
        writes.add(entries[1])
        assert waited() == []
        writes.add(entries[2])
        assert waited() == entries[:1]
        writes.add(entries[3])
        assert waited() == entries[:3]
    assert waited() == entries


def test_a_task_that_failed_waits_for_none():
    writes = EntryWrites(2**20)
    with pytest.raises(KeyError), writes.together():
        writes.add(Entry())
        raise KeyError
    assert waited() == []
    writes.add(Entry())
    assert len(waited()) == 1


def test_a_reader_that_has_enough_rows_waits_for_those_that_are_done():
    writes = EntryWrites(2**20)

    def rows():
        with writes.together():
            writes.add(Entry())
            yield 1
            yield 2

    read = rows()
    next(read)
    read.close()
    assert len(waited()) == 1
