"""Names of compiled entries: whatever could change the deleted rows changes the name, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from declared.types import Column, Struct
from scan_values import context_of, delete_of, schema_of, task_of
from twostage.deletes.cache import fingerprint
from twostage.deletes.cache.host import SUFFIX
from twostage.deletes.compiled.entry_name import (
    EntryName,
    entry_name,
    name_prefix,
    name_set,
    name_set_with_positions,
    whole_file_task,
)
from twostage.schema import Field, Primitive
from twostage.task import Storage

K, S = Column(1, "k", "long"), Column(2, "s", "string")
FIRST, SECOND = (
    delete_of(Path(f"/lake/{name}.parquet"), "equality", equality_ids=(1,), sequence_number=number)
    for number, name in enumerate("ab", start=5)
)
POSITIONS = delete_of(Path("/lake/p.parquet"), "position")
CONTEXT = context_of(Path("/lake"), [K, S], table_uuid="uuid")
TASK = task_of(FIRST, SECOND)


def name_of(context=CONTEXT, task=TASK):
    deletes = [delete for delete in task.deletes if delete.content == "equality"]
    return entry_name(context, task, deletes)


CHANGES = {
    "table": (replace(CONTEXT, table_uuid="another"), TASK),
    "folder": (replace(CONTEXT, storage=Storage(root="/copy")), TASK),
    "data file": (CONTEXT, replace(TASK, path="/lake/other.parquet")),
    "its size": (CONTEXT, replace(TASK, file_size=1001, length=1001)),
    "its sequence number": (CONTEXT, replace(TASK, sequence_number=2)),
    "fewer deletes": (CONTEXT, replace(TASK, deletes=(FIRST,))),
    "a delete's sequence number": (CONTEXT, replace(TASK, deletes=(FIRST, replace(SECOND, sequence_number=9)))),
    "a delete's ids": (CONTEXT, replace(TASK, deletes=(FIRST, replace(SECOND, equality_ids=(2,))))),
    "a key's type": (replace(CONTEXT, schema=schema_of([Column(1, "k", "int"), S])), TASK),
    "a key's name": (replace(CONTEXT, schema=schema_of([Column(1, "renamed", "long"), S])), TASK),
    "a dropped key": (replace(CONTEXT, schema=schema_of([S])), TASK),
    "a dropped key's type": (
        replace(
            CONTEXT,
            schema=schema_of([S]),
            key_fields={1: Field(id=1, name="k", type=Primitive("int"), required=False)},
        ),
        TASK,
    ),
    "first part": (CONTEXT, replace(TASK, length=500)),
    "second part": (CONTEXT, replace(TASK, start=500, length=500)),
    "name mapping": (replace(CONTEXT, name_mapping=({"field-id": 1, "names": ["k"]},)), TASK),
}  # fmt: skip


def test_whatever_an_entry_depends_on_is_in_its_name():
    names = [name_of(), *(name_of(*change) for change in CHANGES.values())]
    assert len({name.text for name in names}) == len(names)


def test_the_column_that_a_key_lies_in_is_in_the_name():
    """A key moved into a struct of another name is found by this name in files without ids."""
    structs = [Column(7, name, Struct((K,))) for name in ("s", "renamed")]
    schemas = [schema_of([K, S]), *(schema_of([struct, S]) for struct in structs)]
    assert len({name_of(replace(CONTEXT, schema=schema)).text for schema in schemas}) == 3


SAME = {
    "order of deletes": (CONTEXT, replace(TASK, deletes=(SECOND, FIRST))),
    "positional deletes": (CONTEXT, replace(TASK, deletes=(FIRST, POSITIONS, SECOND))),
    "snapshot": (replace(CONTEXT, snapshot_id=99), TASK),
    "a column that is no key": (replace(CONTEXT, schema=schema_of([K])), TASK),
    "columns to read": (replace(CONTEXT, projection=CONTEXT.schema.fields), TASK),
    "a length beyond the end": (CONTEXT, replace(TASK, length=5000)),
}


@pytest.mark.parametrize("case", SAME)
def test_what_changes_no_deleted_row_is_not_in_the_name(case):
    """So that later snapshots and other queries find the entry."""
    assert name_of(*SAME[case]) == name_of()


def test_a_name_is_read_back_and_tells_no_path():
    name = name_of()
    assert EntryName.parse(name.text) == name
    assert name.text.startswith(name_prefix(name))
    assert name_prefix(name) == name_prefix(name_of(task=replace(TASK, deletes=(FIRST,))))
    assert name_prefix(name) != name_prefix(name_of(task=replace(TASK, path="/lake/other.parquet")))
    assert "lake" not in name.text and "/" not in name.text


@pytest.mark.parametrize(
    "text",
    [
        f"keys-a-b-c-d{SUFFIX}",
        f"positions-a-b-c{SUFFIX}",
        f"positions-a-b-c-d-e{SUFFIX}",
        "positions-a-b-c-d",
        f"lock-7{SUFFIX}",
        "",
    ],
)
def test_other_files_names_are_no_entry_s(text):
    assert EntryName.parse(text) is None


def test_the_whole_file_of_any_part():
    parts = [replace(TASK, start=start, length=500) for start in (0, 500)]
    assert {whole_file_task(part) == TASK for part in parts} == {True}
    assert {name_of(task=whole_file_task(part)) for part in parts} == {name_of()}


def test_a_set_that_planning_has_cut_is_named_as_the_whole_one():
    whole = name_set(TASK, TASK.deletes)
    assert whole == fingerprint.of_set([fingerprint.of_delete(SECOND), fingerprint.of_delete(FIRST)])
    cut = replace(TASK, deletes=(FIRST,), delete_set=whole)
    assert name_set(cut, cut.deletes) == whole != name_set(replace(cut, delete_set=None), cut.deletes)
    assert name_of(task=cut).delete_set == whole
    assert entry_name(CONTEXT, TASK, TASK.deletes, "given").delete_set == "given"


def test_a_set_with_positions_depends_on_each_of_them():
    """A vector's place in its Puffin file too: one file has those of many data files."""
    vector = delete_of(Path("/lake/v.puffin"), "vector", content_offset=4, content_size=50)
    tasks = [
        TASK,
        replace(TASK, deletes=(*TASK.deletes, POSITIONS)),
        replace(TASK, deletes=(*TASK.deletes, vector)),
        replace(TASK, deletes=(*TASK.deletes, replace(vector, content_offset=54))),
        replace(TASK, deletes=(*TASK.deletes, POSITIONS, vector)),
    ]
    names = [name_set_with_positions(task, "set") for task in tasks]
    assert len({*names, name_set_with_positions(TASK, "another set")}) == len(tasks) + 1
    turned = replace(TASK, deletes=(vector, *TASK.deletes, POSITIONS))
    assert name_set_with_positions(turned, "set") == names[-1]
