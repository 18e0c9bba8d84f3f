"""Tables pinned for the planner: the options that they were loaded with hold for each request."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tables import Table
from twostage.catalog import renewal
from twostage.errors import OptionError
from twostage.spark import pins
from twostage.spark.pins import Pins, UnknownPinError
from twostage.spark.source import parse_source_options, pin_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from twostage.options import ReadOptions
    from twostage.spark.answers import LoadAnswer
    from twostage.spark.pins import Pin
    from twostage.table.pinned import PinnedTable

ENDS = "s3.session-token-expires-at-ms"


def load(held: Pins, folder: Path, **raw: str) -> LoadAnswer:
    raw["path"] = str(folder)
    options = parse_source_options(raw)
    return held.add(pin_table(options), options, raw, {"spark.sql.caseSensitive": "true"})


def found(held: Pins, loaded: LoadAnswer) -> Pin:
    return held.find(loaded.pin, loaded.pinned)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = Table(tmp_path, {"id": "long"})
    table.append([{"id": 1}])
    table.write()
    return tmp_path


def test_names_in_the_option_filter_match_as_the_option_says(folder: Path) -> None:
    """Whatever the session says of names in queries: the table was loaded, and then each query failed."""
    held = Pins()
    assert str(found(held, load(held, folder, filter="ID = 1")).filter) == "id = 1"
    with pytest.raises(OptionError, match="Did you mean 'id'"):
        load(held, folder, filter="ID = 1", **{"case-sensitive": "true"})


def test_a_table_that_comes_back_counts_to_the_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "MAX_TABLES", 1)
    held = Pins()
    first, second = load(held, folder), load(held, folder, filter="id = 1")
    assert first.pin != second.pin
    with pytest.raises(UnknownPinError):
        held.find(first.pin, None)
    assert found(held, first).options.filter is None
    with pytest.raises(UnknownPinError):
        held.find(second.pin, None)


def test_some_files_of_a_table_are_a_pin_of_their_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "MAX_TABLES", 1)
    held = Pins()
    whole = load(held, folder)
    pinned = found(held, whole)
    first, second = (held.add_part(whole.pin, pinned, frozenset(only)) for only in (("a", "b"), ("a",)))
    assert len({whole.pin, first[0], second[0]}) == 3
    assert first[0] == held.add_part(whole.pin, pinned, frozenset(("b", "a")))[0]
    assert held.find(*second).table.only_files == {"a"}
    with pytest.raises(UnknownPinError):
        held.find(first[0], None)
    assert held.find(*first).table.only_files == {"a", "b"}
    assert found(held, whole).table.only_files is None


def test_credentials_are_renewed_once_for_the_requests_of_a_query(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even by a catalog whose credentials always end soon; tables without an end are left alone."""
    asked = []

    def renewed(table: PinnedTable, options: ReadOptions, confs: Mapping[str, str]) -> PinnedTable:
        asked.append((options.path, dict(confs)))
        return replace(table, storage=replace(table.storage, properties={ENDS: "2"}))

    monkeypatch.setattr(renewal, "renewed", renewed)
    held, raw, confs = Pins(), {"path": str(folder)}, {"spark.sql.catalog.r.uri": "x"}
    options = parse_source_options(raw)
    table = pin_table(options)
    lasting = held.add(table, options, raw, confs)
    assert not held.find_for_planning(lasting.pin, lasting.pinned).table.storage.properties
    assert asked == []
    vended = replace(table, storage=replace(table.storage, properties={ENDS: "1"}))
    loaded = held.add(vended, options, raw, confs)
    for _ in range(3):
        found = held.find_for_planning(loaded.pin, loaded.pinned)
        assert found.table.storage.properties == {ENDS: "2"}
    assert asked == [(str(folder), confs)]
    assert found.table.snapshot == table.snapshot


def test_sessions_with_logins_of_their_own_share_no_pin(folder: Path) -> None:
    """Of one catalog's name, and of one table at one snapshot: each query goes on with what its own session was given."""
    held, raw = Pins(), {"path": str(folder)}
    options = parse_source_options(raw)
    table = pin_table(options)
    given = [{"s3.access-key-id": user, "s3.endpoint": "http://one"} for user in ("ann", "bob", "ann")]
    tables = [replace(table, storage=replace(table.storage, properties=one)) for one in given]
    first, second, again = (held.add(one, options, raw, {}) for one in tables)
    assert first.pin == again.pin != second.pin
    for loaded, properties in ((first, given[0]), (second, given[1])):
        assert found(held, loaded).table.storage.properties == properties
    scoped = [replace(one, storage=replace(one.storage, scope="lake")) for one in tables[:2]]
    first, second = (held.add(one, options, raw, {}) for one in scoped)
    assert first.pin == second.pin, "what a catalog vends changes each time"
