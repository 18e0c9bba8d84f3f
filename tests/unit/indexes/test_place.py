"""Where indexes are: beside the table or where the option says; what a listing of it means."""

from __future__ import annotations

import pytest

from twostage.indexes.place import (
    IndexGroup,
    IndexRun,
    index_place,
    list_indexes,
    run_name,
)
from twostage.metrics import Metrics
from twostage.options import ReadSettings
from twostage.storage.location import is_under
from twostage.task import Storage


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("/lake/db/t", "/lake/db/_twostage_indexes"),
        ("s3://lake/db/t/", "s3://lake/db/_twostage_indexes"),
        ("s3://lake/t", "s3://lake/_twostage_indexes"),
        ("s3://lake", None),
        ("s3://lake/", None),
        ("/", None),
    ],
)
def test_beside_the_table(root, expected):
    place = index_place(Storage(root=root), ReadSettings(), "uuid")
    assert (place and place.storage.root) == expected
    if place is not None:
        assert not is_under(root, place.folder)
        assert is_under(place.storage.root, place.folder)


def test_not_where_the_table_keeps_data():
    assert index_place(Storage(root="/lake/db/t"), ReadSettings(), "u", ["/lake/db", None]) is None


def test_where_the_option_says():
    place = index_place(Storage(root="s3://lake/t"), ReadSettings(index_location="s3://other/x"), "uuid")
    assert place is not None
    assert place.is_remote
    assert place.folder.startswith("s3://other/x/")
    assert "lake" not in place.folder, "names are fingerprints"


def test_tables_have_folders_of_their_own():
    made = {
        index_place(Storage(root=root), ReadSettings(), table).folder
        for root in ("/db/t", "/db/u")
        for table in ("one", "two")
    }
    assert len(made) == 4


def test_names_round_trip(tmp_path):
    group = IndexGroup(columns=((3, ("postings", "bins")), (11, ("values",))))
    assert group.name == "columns-3.postings.bins-11.values"
    assert IndexGroup.parse(f"{group.name}.json") == group
    for other in ("columns.json", "columns-3.json", "columns-x.values.json", "columns-3.values", "a.json"):
        assert IndexGroup.parse(other) is None
    place = index_place(Storage(root=str(tmp_path / "t")), ReadSettings(), "uuid")
    assert not list_indexes(place, Metrics())
    folder = tmp_path / place.folder
    folder.mkdir(parents=True)
    (folder / f"{group.name}.json").write_text("{}")
    (folder / group.name).mkdir()
    (folder / (run_name(3, 1, "ab12") + ".puffin")).write_text("")
    (folder / "files-3.puffin").write_text("")
    (folder / "files-3-1-ab12.puffin").write_text("")  # of version 1
    found = list_indexes(place, Metrics())
    assert found.groups == (group,)
    assert found.runs == (IndexRun(field_id=3, level=1, name="files-v2-3-1-ab12.puffin"),)
    assert found.runs_of(3)
    assert not found.runs_of(4)


def test_a_place_that_cannot_be_listed_is_a_warning(tmp_path):
    (tmp_path / "_twostage_indexes").symlink_to("/proc/self/mem")
    metrics = Metrics()
    place = index_place(Storage(root="nowhere://x/y/t"), ReadSettings(), "uuid")
    assert not list_indexes(place, metrics)
    assert metrics.counters["indexes.failed"] == 1
