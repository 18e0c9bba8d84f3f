"""What a scan may ask: only indexes of columns that its predicate reads, and nothing where they are off or absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from twostage.indexes import of_scan
from twostage.indexes.of_scan import indexes_of_scan
from twostage.indexes.place import IndexGroup, index_place, run_name
from twostage.metrics import Metrics
from twostage.options import ReadSettings
from twostage.predicates.predicate import TRUE, Column, Compare, both
from twostage.schema import Field, Primitive, Schema, Struct
from twostage.task import Storage

LONG = Primitive("long")


def column(field_id: int) -> Column:
    return Column(field_id, (f"c{field_id}",), Primitive("long"))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    storage = Storage(root=str(tmp_path / "t"))
    place = index_place(storage, ReadSettings(), "uuid")
    folder = Path(place.folder)
    folder.mkdir(parents=True)
    for group in (((1, ("values",)),), ((2, ("postings",)), (3, ("bins",)))):
        (folder / f"{IndexGroup(columns=group).name}.json").touch()
    (folder / (run_name(1, 0, "ab") + ".puffin")).touch()
    return storage


def test_only_columns_of_the_predicate(storage):
    def found(*ids: int, **settings):
        predicate = both(*(Compare("=", column(i), 5) for i in ids)) if ids else TRUE
        return indexes_of_scan(storage, ReadSettings(**settings), "uuid", predicate, Metrics())

    one = found(1)
    assert [group.field_ids for group in one.groups] == [(1,)]
    assert [run.field_id for run in one.runs] == [1]
    assert one.of_tasks.runs == ()
    assert one.of_tasks.groups == one.groups
    assert [group.field_ids for group in found(3).groups] == [(2, 3)]
    assert found(3).runs == ()
    assert len(found(1, 2).groups) == 2
    assert found() is found(1, index=False) is None
    other = found(9)  # asks none, and EXPLAIN says which there are
    assert (other.groups, other.runs, other.of_tasks) == ((), (), None)
    schema = Schema(
        schema_id=0,
        fields=(
            Field(id=1, name="a", type=LONG),
            Field(id=7, name="s", type=Struct((Field(id=2, name="b", type=LONG),))),
        ),
    )
    assert other.described(schema) == one.described(schema)
    assert sorted(one.described(schema).split(", ")) == ["a (values)", "s.b (postings)"], "3 was dropped"
    assert one.of_tasks.every == ()
    whole = found(1, two_stage=False)  # tasks read in one stage: only planning asks
    assert (whole.groups, whole.of_tasks) == ((), None)
    assert len(whole.runs) == 1


def test_a_table_that_was_made_anew_has_none(storage):
    predicate = Compare("=", column(1), 5)
    assert indexes_of_scan(storage, ReadSettings(), "another", predicate, Metrics()) is None


def test_an_empty_remote_place_is_listed_once_a_minute(monkeypatch):
    listed = []
    monkeypatch.setattr(
        of_scan, "list_indexes", lambda place, _: listed.append(place.folder) or of_scan.TableIndexes()
    )
    of_scan._empty.clear()
    storage = Storage(root="s3://lake/t")
    for _ in range(3):
        assert indexes_of_scan(storage, ReadSettings(), "uuid", Compare("=", column(1), 5), Metrics()) is None
    assert len(listed) == 1
    of_scan._empty.clear()
