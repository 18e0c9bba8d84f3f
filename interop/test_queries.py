"""Every query of every case: twostage's answer, against Spark's filter over the whole table, and Iceberg."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import cases_equality
import cases_evolution
import cases_partitions
import cases_types
import core_read
from comparison import Prepared, canonical_rows, difference

if TYPE_CHECKING:
    from collections.abc import Callable

    from case import Case

    Prepare = Callable[[Case], Prepared]

CASES = (
    *cases_types.CASES,
    *cases_equality.CASES,
    *cases_partitions.CASES,
    *cases_evolution.CASES,
)
each_case = pytest.mark.parametrize(
    "case",
    # One process runs all queries of a table, which is made only there.
    [pytest.param(case, id=case.name, marks=pytest.mark.xdist_group(case.identifier)) for case in CASES],
)


def test_no_case_twice() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


@each_case
def test_iceberg_reads_what_was_written(case: Case, prepare: Prepare) -> None:
    prepared = prepare(case)
    if case.live is not None:
        assert set(prepared.rows) == case.live


@each_case
def test_whole_table(case: Case, prepare: Prepare) -> None:
    prepared = prepare(case)
    table = core_read.read(prepared.location, prepared.options)
    assert tuple(table.column_names) == prepared.names
    assert not difference(Counter(prepared.rows.values()), Counter(canonical_rows(table)))


@each_case
def test_projections_of_the_core(case: Case, prepare: Prepare) -> None:
    prepared = prepare(case)
    wrong = {}
    for columns in case.columns:
        places = [prepared.names.index(column.strip("`")) for column in columns]
        expected = Counter(tuple(row[place] for place in places) for row in prepared.rows.values())
        table = core_read.read(prepared.location, {**prepared.options, "columns": ", ".join(columns)})
        if found := difference(expected, Counter(canonical_rows(table))):
            wrong[columns] = found
    assert not wrong, _listed(wrong)


@each_case
def test_predicates_of_the_core(case: Case, prepare: Prepare) -> None:
    prepared = prepare(case)
    wrong = {}
    for text in (*case.predicates, *case.core_predicates):
        expected = Counter(prepared.rows[row_id] for row_id in prepared.matches[text])
        try:
            table = core_read.read(prepared.location, {**prepared.options, "filter": text})
        except Exception as error:  # a list of all failures tells more than the first
            wrong[text] = f"{type(error).__name__}: {error}"
            continue
        if found := difference(expected, Counter(canonical_rows(table))):
            wrong[text] = found
    assert not wrong, _listed(wrong)


@each_case
def test_predicates_through_spark(case: Case, prepare: Prepare) -> None:
    prepared = prepare(case)
    texts = (*case.predicates, *case.spark_predicates)
    found = prepared.ids(prepared.ours, texts)
    wrong = {
        text: said for text in texts if (said := difference(Counter(prepared.matches[text]), found[text]))
    }
    assert not wrong, _listed(wrong)


@each_case
def test_queries_through_spark(case: Case, prepare: Prepare) -> None:
    prepared = prepare(case)
    wrong = {}
    for query in case.queries:
        expected = prepared.right(query)
        if said := difference(expected, prepared.answer(query, prepared.ours)):
            wrong[query] = said
    assert not wrong, _listed(wrong)


@each_case
def test_sql_catalog(case: Case, prepare: Prepare) -> None:
    prepared = prepare(case)
    assert not difference(
        Counter(prepared.rows.values()), prepared.answer("SELECT * FROM {t}", prepared.lake)
    )


@each_case
def test_iceberg_agrees(case: Case, prepare: Prepare) -> None:
    """Iceberg's own pushed-down answers are the same, except those listed, which must still differ."""
    prepared = prepare(case)
    texts = (*case.predicates, *case.spark_predicates)
    found = prepared.ids(prepared.iceberg, [text for text in texts if not _fails(case, text)])
    wrong = {
        text: said for text in found if (said := difference(Counter(prepared.matches[text]), found[text]))
    }
    for query in case.queries:
        if _fails(case, query):
            continue
        expected = prepared.right(query)
        if said := difference(expected, prepared.answer(query, prepared.iceberg)):
            wrong[query] = said
    listed = {text for text in case.iceberg_wrong if not _fails(case, text)}
    unlisted = {text: said for text, said in wrong.items() if text not in listed}
    assert not unlisted, _listed(unlisted)
    assert set(wrong) == listed, (
        f"Iceberg answers right what is listed as wrong: {sorted(listed - set(wrong))}"
    )


def _fails(case: Case, text: str) -> bool:
    """Tell whether Iceberg is listed as raising an error for this text, instead of answering wrongly."""
    return case.iceberg_wrong.get(text, "").startswith("raises")


def _listed(wrong: dict[object, str]) -> str:
    return f"{len(wrong)} wrong:\n" + "\n".join(f"  {text}: {said}" for text, said in wrong.items())
