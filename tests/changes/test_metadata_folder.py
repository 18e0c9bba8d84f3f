"""A table's folder in which metadata files, the version hint or the whole table come and go while it is looked up."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from changing import ChangingTable, before_opening, says_what_happened

import oracle
from core_scan import open_table, scan
from tables import Table
from twostage.catalog import path_table
from twostage.errors import MissingFileError, NotFoundError
from twostage.predicates.predicate import TRUE


def version_of(opened):
    return Path(opened.table.metadata.metadata_location).name


def check(changing, opened):
    expected = changing.expected(opened.table, TRUE)
    assert not (problem := oracle.difference(scan(opened).rows, expected)), problem


@pytest.fixture
def changing(tmp_path):
    made = ChangingTable(tmp_path / "t", random.Random(11))
    for kind in ("append", "add", "equality"):
        made.change(kind)
    return made


@pytest.fixture
def hint(changing):
    return changing.folder / "metadata" / "version-hint.text"


def consecutive(changing):
    """Rename the metadata files to v1, v2, …, as a Hadoop table has them; return how many there are."""
    folder = changing.folder / "metadata"
    for number, old in enumerate(list(changing.versions), 1):
        new = folder / f"v{number}.metadata.json"
        if old != str(new):
            assert not new.exists()
            Path(old).rename(new)
        changing.versions[str(new)] = changing.versions.pop(old)
    return len(changing.versions)


@pytest.mark.parametrize("text", ["late", "ahead", "missing", "empty", "half", "folder"])
def test_a_hint_that_is_wrong_for_a_moment(changing, hint, text):
    """A hint that is behind is a lower bound; one that names no file, or none at all, leaves the newest version."""
    last = consecutive(changing)
    hint.unlink()
    if text == "folder":
        hint.mkdir()
    elif text != "missing":
        hint.write_text({"late": "1", "ahead": str(last + 3), "empty": "", "half": "v"}[text])
    opened = open_table(changing.folder)
    assert version_of(opened) == f"v{last}.metadata.json"
    check(changing, opened)


def test_the_hint_is_replaced_by_delete_and_rename(changing, hint, monkeypatch):
    """Hadoop tables do it so: the hint may be gone between listing the folder and reading it."""
    last = consecutive(changing)
    hint.write_text(str(last))
    listed = path_table.list_folder

    def then_delete(storage, path):
        found = listed(storage, path)
        hint.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(path_table, "list_folder", then_delete)
    opened = open_table(changing.folder)
    assert version_of(opened) == f"v{last}.metadata.json"
    check(changing, opened)


def test_versions_that_come_while_the_table_is_looked_up(changing, hint, monkeypatch):
    """Each version that the reader may find was current at that time; its rows are that version's."""
    turns = iter(("append", "rename", "rewrite"))
    before = len(changing.versions)

    def commit():
        if kind := next(turns, None):
            changing.change(kind)

    with before_opening(monkeypatch, commit):
        opened = open_table(changing.folder)
    place = list(changing.versions).index(opened.table.metadata.metadata_location)
    assert place >= before - 1
    check(changing, opened)


def test_the_metadata_file_is_removed_before_it_is_read(changing, hint, monkeypatch):
    """With write.metadata.delete-after-commit.enabled a commit removes old metadata files: the reader looks again."""
    hint.unlink()
    found = path_table._newest
    done = []

    def then_commit(storage, folder, entries):
        name = found(storage, folder, entries)
        if name and not done:
            done.append(name)
            changing.change("append")
            (changing.folder / "metadata" / name).unlink()
        return name

    monkeypatch.setattr(path_table, "_newest", then_commit)
    opened = open_table(changing.folder)
    assert opened.table.metadata.metadata_location == list(changing.versions)[-1]
    check(changing, opened)


def test_a_metadata_file_that_keeps_vanishing_is_an_error(changing, monkeypatch):
    monkeypatch.setattr(path_table, "exists", lambda *_: True)
    with pytest.raises(MissingFileError):
        open_table(changing.folder / "metadata" / "v99.metadata.json")


def test_a_table_dropped_and_made_anew_in_the_same_folder(tmp_path):
    """The old pin is an error, or its own rows; the new table's rows never come out of it. Names and sizes are alike."""
    folder = tmp_path / "t"

    def make(first):
        table = Table(folder, {"id": "long", "k": "long"}, version=2)
        for start in (0, 100):
            data = table.append([{"id": start + i, "k": first + i} for i in range(50)], dictionary=False)
        table.delete_positions({data: [first, first + 1]})
        table.delete_equal(["id"], [{"id": first + 5}])
        table.write()
        return table

    old = make(0)
    opened = open_table(folder)
    expected = [oracle.project(row, opened.table.schema.fields) for row in oracle.live_rows(old.content())]
    assert not oracle.difference(scan(opened).rows, expected)  # footers, positions and keys are cached now
    shutil.rmtree(folder)
    with pytest.raises(MissingFileError) as caught:
        scan(opened)
    assert says_what_happened(caught.value, opened.table.snapshot.snapshot_id)
    with pytest.raises(NotFoundError):
        open_table(folder)
    new = make(7)
    again = open_table(folder)
    rows = [oracle.project(row, again.table.schema.fields) for row in oracle.live_rows(new.content())]
    assert not (problem := oracle.difference(scan(again).rows, rows)), problem


def test_half_of_an_old_table_that_is_left_in_the_folder(tmp_path):
    """The manifest list is still there, or a backup's copy of it, and its manifest is not: an error, never no rows."""
    folder = tmp_path / "t"
    table = Table(folder, {"id": "long"}, version=2)
    table.append([{"id": i} for i in range(10)])
    table.write()
    opened = open_table(folder)
    (listed,) = folder.glob("metadata/snap-*.avro")
    content = listed.read_bytes()
    shutil.rmtree(folder)
    listed.parent.mkdir(parents=True)
    listed.write_bytes(content)
    with pytest.raises(MissingFileError) as caught:
        scan(opened)
    assert says_what_happened(caught.value, opened.table.snapshot.snapshot_id)
