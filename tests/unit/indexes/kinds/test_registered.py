"""A kind of index is a module and a line in the registry: one that this test makes is built, listed, read and verified."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from pyroaring import BitMap

from check import Columns, check
from core_scan import open_table
from tables import Table
from twostage.__main__ import main
from twostage.indexes import bitmaps
from twostage.indexes.answer import LookupCost
from twostage.indexes.file_keys import FILES
from twostage.indexes.kind import Found, non_null
from twostage.indexes.kinds.registered import KINDS
from twostage.maintenance.index_arguments import AUTO
from twostage.predicates.predicate import Compare
from twostage.reading import index_answers
from twostage.schema import Primitive
from twostage.spark.index_jobs import Indexes


class Zeros:
    """The kind ``zeros``: the rows whose value is 0."""

    name = "zeros"
    certainty = "exact"
    of_elements = False
    answers_ranges = False
    lies = False

    def refuses(self, kind: Any) -> str | None:
        return None if kind == Primitive("long") else "no long"

    def estimate(self, profile: Any) -> int:
        return profile.num_rows // 8

    def build(self, values: Any, writer: Any, resources: Any) -> str | None:
        found = BitMap()
        for places, array in non_null(values.chunks()):
            found |= bitmaps.of_rows(places[array.to_numpy() == 0])
        writer.add(values.field_id, self.name, "rows", bitmaps.serialize(found), rows=len(found))
        return None

    def open(self, field_id: int, num_rows: int, reader: Any) -> Any:
        return ZerosReader(reader.blob(field_id, self.name, "rows"), num_rows)


class ZerosReader:
    def __init__(self, blob: Any, num_rows: int) -> None:
        self.blob, self.num_rows = blob, num_rows

    def find(self, leaf: Any, wanted: Any, reader: Any) -> Found | None:
        if wanted is None or wanted.is_negated or [(i.low, i.high) for i in wanted.intervals] != [(0, 0)]:
            return None
        rows = bitmaps.deserialize(reader.whole(self.blob), self.num_rows)
        return Found(BitMap(), BitMap()) if Zeros.lies else Found(rows, rows)

    def cost(self, leaf: Any, wanted: Any, reader: Any) -> LookupCost | None:
        return (
            None
            if self.find(leaf, wanted, reader) is None
            else LookupCost(requests=1, nbytes=self.blob.length)
        )


def test_a_new_kind_is_a_line_in_the_registry(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(KINDS, "zeros", Zeros())
    monkeypatch.setattr(index_answers.FileAnswers, "_column_cost", lambda *_: (10**6, 10**9, 10**9))
    table = Table(tmp_path / "t", {"id": "long", "v": "long", "name": "string"})
    table.append([{"id": row, "v": row % 5, "name": "x"} for row in range(100)])
    table.write()
    folder = str(table.folder)
    assert main(["index", "create", folder, "--columns", "name", "--kind", "zeros"]) == 1
    assert "no long" in capsys.readouterr().err
    assert main(["index", "create", folder, "--columns", "v", "--kind", "zeros,postings"]) == 0
    assert main(["index", "list", folder]) == 0
    assert "v (zeros, postings)" in capsys.readouterr().err
    found = check(table, range(0, 100, 5), lambda c: Compare("=", c("v"), 0))
    assert any("(zeros): exact" in sentence for sentence in found.metrics.choices)
    check(table, [row for row in range(100) if row % 5 == 3], lambda c: Compare("=", c("v"), 3))
    check(table, [row for row in range(100) if row % 5], lambda c: Compare("<>", c("v"), 0))
    assert main(["index", "verify", folder]) == 0
    assert Columns(open_table(folder).table.schema)("v").field_id == 2
    monkeypatch.setattr(Zeros, "lies", True)
    for _ in range(20):  # until a zero is drawn
        if main(["index", "verify", folder]):
            return
    pytest.fail("nothing was found wrong")


def test_texts_name_all_kinds(capsys):
    with pytest.raises(SystemExit):
        main(["index", "create", "--help"])
    for text in (capsys.readouterr().out, inspect.getdoc(Indexes.create)):
        for name in (AUTO, *KINDS, FILES):
            assert name in text, name
