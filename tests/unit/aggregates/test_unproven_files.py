"""Answers that leave files out: they are those of the other files, and a scan of the table then reads the files left out."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import oracle
from aggregated_rows import aggregated
from core_scan import Opened, open_table, scan
from figures import FULL
from random_queries import random_query
from random_tables import random_table
from tables import Table
from twostage.aggregates import metadata_answer, unproven_files
from twostage.aggregates.file_proofs import COMPARED, COUNTED, GROUPED
from twostage.aggregates.metadata_answer import Aggregate, AggregateAnswer, answer
from twostage.predicates.predicate import TRUE
from twostage.schema import Primitive

if TYPE_CHECKING:
    from pathlib import Path


SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
TABLES = int(os.environ.get("TWOSTAGE_TABLES_MADE", "300" if FULL else "75"))
QUESTIONS = 8


@pytest.fixture(autouse=True)
def worth_it(monkeypatch):
    """Mix whatever the sizes."""
    monkeypatch.setattr(unproven_files, "MIN_PROVEN_BYTES_TO_MIX", 0)
    monkeypatch.setattr(unproven_files, "MIN_UNPROVEN_FILES_TO_WEIGH", 1_000)


@pytest.fixture(scope="module")
def seen() -> Any:
    """What was asked; at the end of a run of some length, enough was mixed."""
    found = Counter[str]()
    yield found
    if found["asked"] >= 500:
        print(f"\nmixed answers, seed {SEED}: {dict(found)}")
        for name in ("mixed", "groups", "filtered", "non-empty"):
            assert found[name] > 5, (name, found)


@pytest.mark.parametrize("seed", range(SEED, SEED + TABLES))
def test_both_parts_are_the_oracles(seed: int, tmp_path: Path, seen: Counter[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(unproven_files.UnprovenFiles, "_proves_half_of_bytes", lambda _: True)
    table, pools = random_table(seed, tmp_path)
    content = table.content()
    opened = open_table(tmp_path)
    schema = opened.table.schema
    live = oracle.live_rows(content)
    pick = random.Random(seed)
    identity = {part.source_id for spec in opened.table.metadata.specs.values() for part in spec.fields}
    fields = [field for field in schema.fields if isinstance(field.type, Primitive)]
    for index in range(QUESTIONS):
        query = random_query(seed * 1000 + index, schema, pools, live)
        predicate = TRUE if index % 2 else query.predicate
        groups = tuple(f for f in fields if f.id in identity and f.type.name in GROUPED and index % 3 == 0)
        aggregates = [Aggregate("rows")] if index % 4 else []
        for field in pick.sample(fields, min(len(fields), 1 + index % 2)):
            for function in pick.sample(("count", "min", "max"), 2):
                if field.type.name in (COUNTED if function == "count" else COMPARED | GROUPED):
                    aggregates.append(Aggregate(function, field))  # type: ignore[arg-type]
        asked = {"aggregates": tuple(aggregates), "groups": groups, "predicate": predicate}
        found = answer(opened.table, opened.options, **asked, mix=True)  # type: ignore[arg-type]
        seen["asked"] += 1
        if isinstance(found, str):
            assert answer(opened.table, opened.options, **asked) == found  # type: ignore[arg-type]
            continue
        if not found.unread:
            continue
        assert answer(opened.table, opened.options, **asked) == found.lacks  # type: ignore[arg-type]
        place = f"TWOSTAGE_SEED={seed}: {aggregates} BY {groups} WHERE {predicate}"
        sides = []
        for wanted in (False, True):
            files = [file for file in content.data if (file.path in found.unread) == wanted]
            rows = oracle.live_rows(replace(content, data=files))
            sides.append([row for row in rows if oracle.evaluate(predicate, row) is True])
        assert Counter(tuple(map(oracle.exact, row)) for row in found.rows) == aggregated(
            sides[0], aggregates, groups
        ), place
        rest = Opened(replace(opened.table, only_files=found.unread), opened.options)
        read = scan(rest, tuple(fields), predicate)
        expected = Counter(oracle.exact(oracle.project(row, fields)) for row in sides[1])
        assert Counter(map(oracle.exact, read.rows)) == expected, place
        assert read.metrics.counters["files.answered"] == found.files, place
        seen.update(
            {"mixed": 1, "groups": bool(groups), "filtered": predicate != TRUE, "non-empty": all(sides)}
        )
    shutil.rmtree(tmp_path)


def opened_with(folder: Path, files: int, unproven: int) -> Opened:
    """Return a table of files, some of which have equality deletes."""
    table = Table(folder, {"id": "long", "p": "int"}, partition=["p"])
    made = [table.append([{"id": 10 * n + i, "p": n} for i in range(10)]) for n in range(files)]
    for number, file in enumerate(made[:unproven]):
        table.delete_equal(["id"], [{"id": 10 * number}], like=file)
    return open_table(table.write())


def mixed(opened: Opened, *aggregates: Aggregate) -> AggregateAnswer | str:
    return answer(opened.table, opened.options, aggregates=aggregates, mix=True)


def test_a_file_leaves_no_trace_of_what_it_did_tell(tmp_path: Path) -> None:
    """Its rows are counted before its column turns out to be unknown."""
    table = Table(tmp_path, {"id": "long"})
    table.append([{"id": i} for i in range(10)])
    table.append([{"id": 50 + i} for i in range(5)], metrics="counts")
    opened = open_table(table.write())
    (field,) = opened.table.schema.fields
    found = mixed(opened, Aggregate("rows"), Aggregate("max", field))
    assert isinstance(found, AggregateAnswer)
    assert (found.rows, found.files, len(found.unread)) == (((10, 9),), 1, 1)
    assert found.lacks == "a file's metadata does not give the max of id"


def test_no_mixing_where_it_does_not_pay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = "a file has equality deletes"
    opened = opened_with(tmp_path / "t", 6, 2)
    found = mixed(opened, Aggregate("rows"))
    assert isinstance(found, AggregateAnswer)
    assert (found.rows, found.files, len(found.unread), found.lacks) == (((40,),), 4, 2, lacks)
    assert answer(opened.table, opened.options, aggregates=(Aggregate("rows"),)) == lacks
    assert mixed(opened_with(tmp_path / "most", 6, 4), Aggregate("rows")) == lacks
    monkeypatch.setattr(unproven_files, "MIN_PROVEN_BYTES_TO_MIX", 2**20)
    assert mixed(opened, Aggregate("rows")) == lacks
    monkeypatch.setattr(unproven_files, "MIN_PROVEN_BYTES_TO_MIX", 0)
    monkeypatch.setattr(unproven_files, "MAX_UNPROVEN_FILES", 1)
    assert mixed(opened, Aggregate("rows")) == lacks
    monkeypatch.setattr(unproven_files, "MAX_UNPROVEN_FILES", 2)
    monkeypatch.setattr(unproven_files, "MAX_PROVEN_FILES_TO_MIX", 3)
    assert mixed(opened, Aggregate("rows")) == lacks


def test_a_file_listed_twice_is_not_mixed(tmp_path: Path) -> None:
    """Its entries may have different deletes, and one name."""
    table = Table(tmp_path, {"id": "long"})
    table.append([{"id": i} for i in range(10)])
    twice = table.append([{"id": 10 + i} for i in range(10)])
    table.delete_equal(["id"], [{"id": 10}])
    table.append([{"id": 30 + i} for i in range(10)])
    table._change_files([twice], [])
    opened = open_table(table.write())
    found = mixed(opened, Aggregate("rows"))
    assert found == "a file has equality deletes", found


def test_many_files_are_counted_in_the_part_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short way over manifests knows nothing of the files left out."""
    monkeypatch.setattr(metadata_answer, "MIN_FILES_TO_SUM_COUNTS", 1)
    table = Table(tmp_path, {"id": "long"})
    files = [table.append([{"id": i} for i in range(10)]) for _ in range(3)]
    opened = open_table(table.write())
    part = replace(opened.table, only_files=frozenset((files[1].path,)))
    found = answer(part, opened.options, aggregates=(Aggregate("rows"),))
    assert isinstance(found, AggregateAnswer)
    assert found.rows == ((10,),)
