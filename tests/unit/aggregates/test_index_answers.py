"""Answers from indexes: on random tables with indexes of all, some, or damaged files they are the oracle's."""

from __future__ import annotations

import math
import os
import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import oracle
from aggregated_rows import aggregated
from check import Columns
from core_scan import open_table, with_options
from figures import FULL
from indexed_tables import built, place_of
from random_queries import random_query
from random_tables import random_table
from tables import Table
from twostage.aggregates import index_answers, metadata_answer, unproven_files
from twostage.aggregates.indexed_groups import COMPARED_BY_INDEX, GROUPED_BY_INDEX
from twostage.aggregates.metadata_answer import answer
from twostage.aggregates.sums import is_summed
from twostage.aggregates.totals import Aggregate
from twostage.errors import OptionError
from twostage.indexes.data_file_index import DataFileIndex
from twostage.indexes.keys import key_class
from twostage.indexes.kinds.bit_slices import BitSlices
from twostage.planning.choose_files import Planning
from twostage.predicates.predicate import TRUE, And, Compare
from twostage.schema import Primitive

if TYPE_CHECKING:
    from twostage.schema import Field

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
TABLES = int(os.environ.get("TWOSTAGE_TABLES_MADE", "300" if FULL else "40"))
QUESTIONS = 12


@pytest.fixture(autouse=True)
def worth_it(monkeypatch):
    """Mix whatever the sizes."""
    monkeypatch.setattr(unproven_files, "MIN_PROVEN_BYTES_TO_MIX", 0)
    monkeypatch.setattr(unproven_files.UnprovenFiles, "_proves_half_of_bytes", lambda _: True)


@pytest.fixture(scope="module")
def answered() -> Any:
    """What was answered; at the end of a run of some length, neither nothing nor everything."""
    found = Counter[str]()
    yield found
    print(f"\nanswers from indexes, seed {SEED}: {dict(found)}")
    if found["asked"] >= 400:
        for name in (
            "by index", "mixed", "refused", "rows", "count", "distinct", "min", "max", "sum", "groups", "filtered",
            "deleted by equality", "deleted by vector", "deleted by position", "non-empty", "warned",
        ):  # fmt: skip
            assert found[name] > 0, (name, found)


def _index(opened: Any, pick: random.Random) -> str:
    """Index most columns; leave out or damage some files; return what was done."""
    fields = [field for field in opened.table.schema.fields if key_class(field.type) is not None]
    for field in fields:
        if pick.random() < 0.85:
            kinds = pick.choice(("values", "values", "values", "values,postings", "postings", "bins"))
            if BitSlices().refuses(field.type) is None and pick.random() < 0.4:
                kinds = pick.choice(("slices", "slices", "values,slices", "postings,slices"))
            built(opened, [field.name], kinds if field.type.name != "boolean" else "values")
    made = sorted(Path(place_of(opened).folder).rglob("*.puffin"))
    state = pick.choice(("all", "all", "part", "damaged"))
    for path in made:
        if state == "part" and pick.random() < 0.4:
            path.unlink()
        elif state == "damaged" and pick.random() < 0.5:
            data = bytearray(path.read_bytes())
            for _ in range(pick.choice((1, 3, 50))):
                data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
            path.write_bytes(data[: pick.choice((len(data), len(data), len(data) // 2))])
    return state


def _question(pick: random.Random, schema: Any) -> tuple[tuple[Aggregate, ...], tuple[Field, ...]]:
    fields = [field for field in schema.fields if isinstance(field.type, Primitive)]
    groups = [field for field in fields if field.type.name in GROUPED_BY_INDEX]
    by = tuple(pick.sample(groups, min(len(groups), pick.choice((0, 0, 1, 1, 2)))))
    aggregates = [Aggregate("rows")] if pick.random() < 0.7 else []
    for field in pick.sample(fields, min(len(fields), pick.choice((0, 1, 2)))):
        allowed = ["count"]
        allowed += ["min", "max"] if field.type.name in COMPARED_BY_INDEX else []
        allowed += ["sum", "sum"] if is_summed(field.type) else []
        allowed += ["distinct"] if field.type.name in GROUPED_BY_INDEX else []
        aggregates += [
            Aggregate(one, field) for one in dict.fromkeys(pick.sample(allowed, min(2, len(allowed))))
        ]  # type: ignore[arg-type]
    return tuple(aggregates) or (Aggregate("rows"),), by


@pytest.mark.parametrize("seed", range(SEED, SEED + TABLES))
def test_answers_are_the_oracles(seed: int, tmp_path: Path, answered: Counter[str]) -> None:
    table, pools = random_table(seed, tmp_path / "t")
    opened = open_table(tmp_path / "t")
    pick = random.Random(f"index answers {seed}")
    deleted = Counter[str]()
    live = oracle.live_rows(table.content(), deleted)
    try:
        state = _index(opened, pick)
        schema = opened.table.schema
        for number in range(QUESTIONS):
            query = random_query(seed * 1000 + number, schema, pools, live)
            predicate = TRUE if number % 3 == 0 else query.predicate
            aggregates, groups = _question(pick, schema)
            place = f"TWOSTAGE_SEED={seed} ({state}): {aggregates} BY {groups} WHERE {predicate}"
            answered["asked"] += 1
            found = answer(
                opened.table, opened.options, aggregates=aggregates, groups=groups, predicate=predicate,
                mix=not any(part.function == "distinct" for part in aggregates),
            )  # fmt: skip
            without = answer(
                opened.table, with_options(opened, {"index": "off"}).options, aggregates=aggregates,
                groups=groups, predicate=predicate,
            )  # fmt: skip
            assert isinstance(without, str) or without.by_index == 0
            if isinstance(found, str):
                assert isinstance(without, str), place
                answered["refused"] += 1
                continue
            rows = map(_normal, _rows_of_others(table, found.unread))
            covered = [row for row in rows if oracle.evaluate(predicate, row) is True]
            got = Counter(tuple(map(oracle.exact, row)) for row in found.rows)
            assert got == aggregated(covered, aggregates, groups), place
            answered["warned"] += found.counters.get("indexes.ignored", 0)
            if found.by_index:
                answered.update(["by index", *(part.function for part in aggregates)])
                answered.update({"groups": bool(groups), "filtered": predicate != TRUE})
                answered.update({"mixed": bool(found.unread), "non-empty": bool(covered)})
                answered.update({f"deleted by {kind}": bool(count) for kind, count in deleted.items()})
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)


def _rows_of_others(table: Any, unread: frozenset[str]) -> list[dict[int, Any]]:
    """Return the live rows of the data files that are not among some paths."""
    content = table.content()
    read = [file for file in content.data if file.path not in unread]
    return oracle.live_rows(replace(content, data=read))


def _normal(row: dict[int, Any]) -> dict[int, Any]:
    """Return a row with one zero and one NaN, as groups and different values have them."""
    return {
        key: math.nan
        if isinstance(value, float) and math.isnan(value)
        else value + 0.0
        if isinstance(value, float)
        else value
        for key, value in row.items()
    }


# ---- many files


def many(folder: Path, files: int) -> Any:
    """A table of some files of ten rows: `a` is indexed in all, `k` by keys, `y` not at all."""
    table = Table(folder, {"id": "long", "a": "int", "k": "long", "y": "int"})
    for number in range(files):
        rows = [{"id": 10 * number + i, "a": i % 3, "k": 10 * number + i, "y": i} for i in range(10)]
        table.append(rows, metrics="none")
    opened = open_table(table.write())
    built(opened, ["a"], "values")
    built(opened, ["k"], "postings,files")
    return opened


def counted(opened: Any, where: Any, **wanted: Any) -> Any:
    aggregates = (Aggregate("rows"),)
    predicate = where(Columns(opened.table.schema))
    return answer(opened.table, opened.options, aggregates=aggregates, predicate=predicate, **wanted)


def test_a_table_wide_index_leaves_few_files_to_ask(tmp_path: Path) -> None:
    opened = many(tmp_path / "t", 20)
    found = counted(opened, lambda c: Compare("=", c("k"), -1))
    assert (found.rows, found.by_index, found.counters.get("indexes.asked", 0)) == (((0,),), 20, 0)
    found = counted(opened, lambda c: And((Compare("=", c("k"), 77), Compare("=", c("a"), 1))), mix=True)
    assert (found.rows, found.by_index, len(found.unread)) == (((0,),), 19, 1)
    assert found.counters["indexes.asked"] == 1
    assert found.lacks == "an index of a file leaves rows to check for k = 77 AND a = 1"


def test_files_are_not_asked_when_the_first_were_in_vain(tmp_path: Path, monkeypatch) -> None:
    opened = many(tmp_path / "t", 20)
    asked = []
    real = index_answers.select_rows
    monkeypatch.setattr(index_answers, "select_rows", lambda *given: asked.append(1) or real(*given))
    assert counted(opened, lambda c: Compare("=", c("y"), 1)) == "no index of a file decides y = 1"
    assert len(asked) == 1
    found = counted(opened, lambda c: Compare("=", c("y"), 1), mix=True)
    assert (found.lacks, len(found.unread)) == ("no index of a file decides y = 1", 20)
    assert len(asked) == 1 + index_answers.MAX_IN_VAIN
    monkeypatch.setattr(index_answers, "MAX_FILES", 5)
    found = counted(opened, lambda c: Compare("=", c("a"), 1), mix=True)
    assert (found.rows, found.by_index, len(found.unread)) == (((15,),), 5, 15)
    monkeypatch.setattr(metadata_answer, "MAX_WAITING_FILES", 5)
    assert (
        counted(opened, lambda c: Compare("=", c("a"), 1), mix=True) == "the filter splits the rows of a file"
    )


def test_a_place_in_the_table_is_no_place_for_indexes_and_a_name_mapping_does_not_matter(
    tmp_path: Path,
) -> None:
    opened = many(tmp_path / "t", 2)
    inside = with_options(opened, {"index.location": str(tmp_path / "t" / "x")})
    with pytest.raises(OptionError, match="lies inside the table"):
        counted(inside, lambda c: Compare("=", c("a"), 1))
    elsewhere = with_options(opened, {"index.location": str(tmp_path / "x")})
    assert counted(elsewhere, lambda c: Compare("=", c("a"), 1)) == "the filter splits the rows of a file"
    metadata = opened.table.metadata
    properties = {**metadata.properties, "schema.name-mapping.default": "[]"}
    mapped = replace(opened, table=replace(opened.table, metadata=replace(metadata, properties=properties)))
    assert counted(mapped, lambda c: Compare("=", c("a"), 1)).rows == ((6,),)
    assert counted(opened, lambda c: Compare("=", c("a"), 1)).rows == ((6,),)


def test_columns_without_values_are_refused_before_manifests_are_read(tmp_path: Path, monkeypatch) -> None:
    opened = many(tmp_path / "t", 2)
    fields = {field.name: field for field in opened.table.schema.fields}
    monkeypatch.setattr(Planning, "files", None)
    found = answer(opened.table, opened.options, aggregates=(Aggregate("rows"),), groups=(fields["k"],))
    assert found == "k is not an identity partition"


def test_a_file_that_was_replaced_has_no_answer(tmp_path: Path) -> None:
    opened = many(tmp_path / "t", 2)
    data = min((tmp_path / "t").rglob("*.parquet"))
    os.utime(data, (1, 1))
    assert counted(opened, lambda c: Compare("=", c("a"), 1)) == "no index of a file decides a = 1"


def test_an_object_that_was_replaced_has_no_answer(tmp_path: Path, monkeypatch) -> None:
    """The index names the ETag that it was made of; the store says which one there is now."""
    opened = many(tmp_path / "t", 2)
    assert counted(opened, lambda c: Compare("=", c("a"), 1)).by_index == 2
    monkeypatch.setattr(DataFileIndex, "is_of", lambda *_: False)
    assert counted(opened, lambda c: Compare("=", c("a"), 1)) == "no index of a file decides a = 1"
