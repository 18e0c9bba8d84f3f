"""Real tables of other writers: count, min and max of each column from metadata are those of the rows."""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from table_copies import ROOT, TABLES, folders

import oracle
from core_scan import open_table, scan
from twostage.aggregates.metadata_answer import Aggregate, AggregateAnswer, answer
from twostage.errors import TwoStageError
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core_scan import Opened
    from twostage.schema import Field

pytestmark = pytest.mark.skipif(not TABLES, reason="TWOSTAGE_TABLES is not set")


@pytest.fixture(scope="module")
def answered() -> Iterator[Counter[str]]:
    """What was asked and answered; most tables have metrics."""
    found = Counter[str]()
    yield found
    print(f"\nreal tables, answers from metadata: {dict(found)}")
    assert found["tables"] < 50 or min(found["rows"], found["count"], found["min"], found["max"]) >= 30, found


def values_of(opened: Opened, field: Field) -> list[Any] | None:
    """Return the live values of a column that are not NULL, told apart by exact form; None where it is refused."""
    try:
        rows = scan(opened, (field,)).rows
    except TwoStageError:
        return None
    return [row[0] for row in rows if row[0] is not None]


@pytest.mark.parametrize("entry", TABLES, ids=lambda entry: entry["table"])
def test_answers(entry: dict[str, Any], answered: Counter[str]) -> None:
    try:
        opened = open_table(ROOT / entry["metadata"], **folders(entry["table"]))
        rows = len(scan(opened, ()).rows)
    except TwoStageError:
        pytest.skip("refused")
    answered["tables"] += 1
    for field in (None, *opened.table.schema.fields):
        if field is not None and not isinstance(field.type, Primitive):
            continue
        functions = ("rows",) if field is None else ("count", "min", "max")
        present = None if field is None else values_of(opened, field)
        for function in functions:
            found = answer(opened.table, opened.options, aggregates=(Aggregate(function, field),))  # type: ignore[arg-type]
            answered["asked"] += 1
            if not isinstance(found, AggregateAnswer):
                continue
            ((value,),) = found.rows
            answered[function] += 1
            if field is None:
                assert value == rows
                continue
            assert present is not None, f"{field.name} is refused where it is read"
            if function == "count":
                assert value == len(present), field.name
            elif not present:
                assert value is None, field.name
            else:
                assert oracle.exact(value) == _extreme(present, function), (field.name, function)


def _extreme(present: list[Any], function: str) -> Any:
    def order(form: Any) -> Any:
        return struct.unpack("<d", form[1])[0] if form[0] == "float" else form[1]

    return min(present, key=order) if function == "min" else max(present, key=order)
