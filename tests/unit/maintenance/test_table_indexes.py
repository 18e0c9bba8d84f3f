"""``python -m twostage index``: what a table's owner does with indexes, and what is left when something fails."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from core_scan import open_table
from indexed_by_command import ROWS, append_events, column_of, make_events, opened_indexes, run_index
from tables import Table
from twostage.deletes.cache.memory import CACHE
from twostage.indexes.file_keys import find_files
from twostage.indexes.open_index import open_index
from twostage.indexes.place import IndexGroup
from twostage.maintenance import index_choice, index_files, table_indexes
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.predicates.predicate import Column, Compare
from twostage.schema import Primitive
from twostage.storage import files


def test_from_create_to_drop(tmp_path, capsys):
    table = make_events(tmp_path / "t")
    kinds = ("--kind", "values,postings,bins,files")
    assert run_index("create", table, "--columns", "key,country,price,s.x", *kinds) == 0
    assert "4 data files: 4 indexed" in capsys.readouterr().err
    context, tasks, place, indexes = opened_indexes(table)
    assert len(tasks) == 4
    (group,) = indexes.groups
    assert len(indexes.runs) == 4
    for task in tasks:
        index = open_index(context, place, group, task, Metrics())
        assert index.num_rows == ROWS
        assert set(index.field_ids) == set(group.field_ids)
    leaf = Compare("=", column_of(context, "key"), 10**9)
    assert not any(find_files(place, indexes, leaf, Metrics(), 2**20).may_hold(task) for task in tasks)
    assert run_index("list", table) == 0
    said = capsys.readouterr().err
    assert "key (values, postings, bins, files); country (" in said
    assert "s.x (" in said
    assert "4 of 4 data files" in said
    assert run_index("verify", table, "--all") == 0
    assert "4 data files compared: " in (said := capsys.readouterr().err)
    assert ", 0 wrong; 0 index files missing" in said
    assert run_index("drop", table) == 0
    assert not opened_indexes(table)[3]
    assert [path for path in Path(place.folder).rglob("*") if path.is_file()] == []
    assert run_index("list", table) == 0
    assert "no indexes" in capsys.readouterr().err


def test_refresh_extends_to_new_files_alone(tmp_path, capsys):
    table = make_events(tmp_path / "t")
    assert run_index("create", table, "--columns", "key", "--kind", "postings,files") == 0
    (run_before,) = opened_indexes(table)[3].runs
    append_events(table, 9, random.Random(9))
    table.write()
    _, tasks, place, indexes = opened_indexes(table)
    leaf = Compare("=", Column(indexes.runs[0].field_id, ("key",), Primitive("long")), 10**9)
    answer = find_files(place, indexes, leaf, Metrics(), 2**20)
    assert sum(answer.may_hold(task) for task in tasks) == 1, "a file without coverage may hold anything"
    capsys.readouterr()
    assert run_index("refresh", table) == 0
    assert "5 data files: 1 indexed, 4 already indexed" in capsys.readouterr().err
    _, tasks, place, indexes = opened_indexes(table)
    assert run_before in indexes.runs, "what was there is not written again"
    assert len(indexes.runs) == 2
    answer = find_files(place, indexes, leaf, Metrics(), 2**20)
    assert sum(answer.may_hold(task) for task in tasks) == 0
    assert run_index("refresh", table) == 0
    assert "0 indexed, 5 already indexed" in capsys.readouterr().err


def test_runs_of_one_level_are_merged(tmp_path):
    table = make_events(tmp_path / "t", 1)
    assert run_index("create", table, "--columns", "key", "--kind", "files") == 0
    for number in range(1, 6):
        append_events(table, number, random.Random(number))
        table.write()
        assert run_index("refresh", table) == 0
        assert len(opened_indexes(table)[3].runs) < 4
    _, tasks, place, indexes = opened_indexes(table)
    leaf = Compare("=", Column(indexes.runs[0].field_id, ("key",), Primitive("long")), 10**9)
    answer = find_files(place, indexes, leaf, Metrics(), 2**20)
    assert len(answer.covered) == len(tasks) == 6
    assert not any(answer.may_hold(task) for task in tasks)


def test_clean_removes_what_no_snapshot_has(tmp_path, capsys):
    table = make_events(tmp_path / "t")
    assert run_index("create", table, "--columns", "key,country", "--kind", "postings,files") == 0
    _, _, place, indexes = opened_indexes(table)
    foreign = Path(place.folder, indexes.groups[0].name, "0123.puffin")
    foreign.write_bytes(b"of a file that is no more")
    left = Path(place.folder, "columns-9.values")
    left.mkdir()
    (left / "x.puffin").write_bytes(b"left by an interrupted drop")
    capsys.readouterr()
    assert run_index("clean", table) == 0
    assert "2 files removed, 6 kept" in capsys.readouterr().err
    assert not foreign.exists()
    assert run_index("verify", table, "--all") == 0


def test_clean_removes_what_a_killed_builder_left(tmp_path, capsys, monkeypatch):
    """Also under the names of earlier versions; what another builder is writing stays, and so does what it has just begun."""
    table = make_events(tmp_path / "t")
    assert run_index("create", table, "--columns", "key", "--kind", "postings,files") == 0
    _, _, place, indexes = opened_indexes(table)
    top, group = Path(place.folder), Path(place.path(indexes.groups[0].name))
    names = (".twostage-k2_x91ab.part", "tmpk2_x91ab")
    old = [folder / name for folder in (top, group) for name in names]
    young = [path.with_name(path.name.replace("k2", "zz")) for path in old]
    for path in (*old, *young):
        path.write_bytes(b"half of an index")
    for path in old:
        os.utime(path, (time.time() - 2 * files.STALE_SECONDS,) * 2)
    listed = table_indexes.list_indexes

    def begin(*arguments):
        begun = IndexGroup(columns=((3, ("values",)),)).name
        (top / f"{begun}.json").write_text("{}")
        (top / begun).mkdir(exist_ok=True)
        (top / begun / "tmpabcdefgh").touch()
        return listed(*arguments)

    monkeypatch.setattr(table_indexes, "list_indexes", begin)
    capsys.readouterr()
    assert run_index("clean", table) == 0
    assert "4 files removed, 5 kept" in capsys.readouterr().err
    assert [path.exists() for path in (*old, *young)] == [False] * 4 + [True] * 4
    assert len(list(top.rglob("tmpabcdefgh"))) == 1


def test_an_interrupted_build_is_continued(tmp_path, monkeypatch):
    table = make_events(tmp_path / "t")
    monkeypatch.setattr(table_indexes, "_MAX_UNITS", 4)

    def interrupted(works):
        for number, work in enumerate(works):
            if number == 2:
                raise KeyboardInterrupt
            yield index_files.index_files(work)

    options = parse_options({"path": str(table.folder)})
    owned = table_indexes.OwnedIndexes(options, {}, interrupted, print)
    with pytest.raises(KeyboardInterrupt):
        owned.create(["key"], "postings,files")
    context, tasks, place, indexes = opened_indexes(table)
    found = [open_index(context, place, indexes.groups[0], task, Metrics()) for task in tasks]
    assert sum(one is not None for one in found) == 2
    assert run_index("refresh", table) == 0
    assert run_index("verify", table, "--all") == 0
    context, tasks, place, indexes = opened_indexes(table)
    answer = find_files(place, indexes, Compare("=", column_of(context, "key"), 10**9), Metrics(), 2**20)
    assert len(answer.covered) == 4


def test_two_builders_at_once_do_no_harm(tmp_path):
    table = make_events(tmp_path / "t")
    options = parse_options({"path": str(table.folder)})

    def with_another(works):
        for work in works:
            yield index_files.index_files(work)
            index_files.index_files(work)  # another builder did the same unit

    table_indexes.OwnedIndexes(options, {}, with_another, print).create(["key"], "postings,files")
    assert run_index("verify", table, "--all") == 0
    assert len(opened_indexes(table)[3].runs) == 1


def test_partition_columns_and_columns_that_a_file_lacks_need_no_index(tmp_path, capsys):
    table = Table(tmp_path / "t", {"id": "long", "region": "string"}, partition=["region"])
    table.append_all([{"id": number, "region": "ab"[number % 2]} for number in range(50)])
    table.add_column("late", "long")
    table.append_all([{"id": number, "region": "a", "late": number} for number in range(50)])
    table.write()
    assert run_index("create", table, "--columns", "region,late,id", "--kind", "values,files") == 0
    context, tasks, place, indexes = opened_indexes(table)
    found = [open_index(context, place, indexes.groups[0], task, Metrics()).field_ids for task in tasks]
    assert sorted(map(len, found)) == [1, 1, 2]
    assert run_index("verify", table, "--all") == 0
    assert run_index("refresh", table) == 0
    assert "0 indexed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--columns", "kye"), "UNKNOWN_COLUMN"),
        (("--columns", "s"), "NO_INDEX"),
        (("--columns", "key", "--kind", "tree"), "BAD_OPTION"),
        (("--columns", "key", "--kind", "auto,values"), "BAD_OPTION"),
        (("--columns", "key", "--index.location", "{folder}/indexes"), "BAD_OPTION"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path, capsys, arguments, code):
    table = make_events(tmp_path / "t", 1)
    assert run_index("create", table, *(text.format(folder=table.folder) for text in arguments)) == 1
    assert f"[TWOSTAGE.{code}]" in capsys.readouterr().err


def test_columns_are_indexed_once_and_dropped_together(tmp_path, capsys):
    table = make_events(tmp_path / "t", 1)
    assert run_index("refresh", table) == 1
    assert "[TWOSTAGE.NOT_INDEXED]" in capsys.readouterr().err
    assert run_index("create", table, "--columns", "key,country", "--kind", "values") == 0
    for kinds in ("values", "auto"):
        assert run_index("create", table, "--columns", "key", "--kind", kinds) == 1
        assert "[TWOSTAGE.INDEXED]" in capsys.readouterr().err
    assert run_index("drop", table, "--columns", "key") == 1
    assert "country" in capsys.readouterr().err
    assert run_index("drop", table, "--columns", "id") == 1
    assert run_index("drop", table, "--columns", "key,country") == 0


@pytest.mark.parametrize("names", ["", ",", " , "])
def test_no_column_is_not_all_columns(tmp_path, capsys, names):
    """`--columns "$COLUMNS"` of a variable that is not set dropped all indexes."""
    table = make_events(tmp_path / "t", 1)
    assert run_index("create", table, "--columns", "key", "--kind", "values") == 0
    for verb in ("drop", "create"):
        assert run_index(verb, table, "--columns", names) != 0
        assert "No column is named" in capsys.readouterr().err
    assert len(opened_indexes(table)[3].groups) == 1
    assert run_index("drop", table) == 0
    assert not opened_indexes(table)[3].groups


def test_an_index_beside_one_of_a_dropped_column_is_dropped_by_name(tmp_path):
    table = make_events(tmp_path / "t", 1)
    assert run_index("create", table, "--columns", "key,country", "--kind", "values") == 0
    table.drop_column("key")
    table.write()
    assert run_index("drop", table, "--columns", "country") == 0
    assert not opened_indexes(table)[3].groups


@pytest.mark.parametrize("count", ["-1", "0"])
def test_a_sample_has_at_least_one_file(tmp_path, capsys, count):
    with pytest.raises(SystemExit):
        run_index("verify", make_events(tmp_path / "t", 1), "--sample", count)
    assert "at least one" in capsys.readouterr().err


def test_indexes_are_where_the_option_says(tmp_path):
    table = make_events(tmp_path / "t", 1)
    elsewhere = tmp_path / "elsewhere"
    assert (
        run_index("create", table, "--columns", "key", "--kind", "values", "--index.location", str(elsewhere))
        == 0
    )
    (text,) = elsewhere.rglob("columns-*.json")
    assert json.loads(text.read_text())["columns"] == {"key": ["values"]}
    assert not (tmp_path / "_twostage_indexes").exists()
    assert not [path for path in Path(table.folder).rglob("*") if "puffin" in path.name]


def test_deletes_are_not_applied(tmp_path):
    table = Table(tmp_path / "t", {"id": "long"})
    file = table.append([{"id": row} for row in range(100)])
    table.delete_positions({file: [5]})
    table.write()
    assert run_index("create", table, "--columns", "id", "--kind", "values") == 0
    context, (task,), place, indexes = opened_indexes(table)
    index = open_index(context, place, indexes.groups[0], task, Metrics())
    assert list(index.find(Compare("=", column_of(context, "id"), 5), Metrics()).certain) == [5]
    assert open_table(table.folder).table.name


def test_auto_counts_what_earlier_calls_built(tmp_path, capsys, monkeypatch):
    table = make_events(tmp_path / "t")
    monkeypatch.setattr(index_choice, "MAX_SHARE_OF_TABLE", 50)
    assert run_index("create", table, "--columns", "price") == 0
    capsys.readouterr()
    _, tasks, place, _ = opened_indexes(table)
    stored = sum(path.stat().st_size for path in Path(place.folder).rglob("*") if path.is_file())
    monkeypatch.setattr(index_choice, "MAX_SHARE_OF_TABLE", stored / sum(task.file_size for task in tasks))
    assert run_index("create", table, "--columns", "key") != 0
    assert "indexes may take 0 more" in capsys.readouterr().err


def test_auto_looks_beyond_row_groups_without_rows(tmp_path, capsys):
    table = make_events(tmp_path / "t", 3)
    for number, path in enumerate(sorted(table.folder.rglob("*.parquet"))):
        read = pq.read_table(path)
        with pq.ParquetWriter(path, read.schema) as writer:
            writer.write_table(read.slice(0, 0))
            if number:
                writer.write_table(read)
        assert pq.ParquetFile(path).metadata.row_group(0).num_rows == 0
    table.write()
    run_index("create", table, "--columns", "country")
    assert "country: values: about 2 values" in capsys.readouterr().err


def test_refresh_builds_again_what_cannot_be_used(tmp_path, capsys):
    table = make_events(tmp_path / "t")
    assert run_index("create", table, "--columns", "key", "--kind", "postings,files") == 0
    _, tasks, place, indexes = opened_indexes(table)
    (run_file,) = (Path(place.path(one.name)) for one in indexes.runs)
    paths = [Path(place.index_file(indexes.groups[0], task)) for task in tasks]
    whole = [path.read_bytes() for path in (*paths, run_file)]
    paths[0].write_bytes(whole[0][:-20])
    paths[1].write_bytes(whole[2])
    paths[2].write_bytes(whole[2].replace(b'"format":"3"', b'"format":"1"'))
    run_file.write_bytes(whole[4][:-20])
    old = Path(place.path("files-2-0-abc.puffin"))
    old.write_bytes(b"a run of version 1")
    CACHE.clear()
    capsys.readouterr()
    assert run_index("refresh", table) == 0
    assert "4 data files: 4 indexed" in capsys.readouterr().err, "all lack a place in a run"
    assert [path.read_bytes() for path in (*paths, run_file)] == whole
    assert not old.exists()
    assert run_index("refresh", table) == 0
    assert "0 indexed" in capsys.readouterr().err


def test_a_column_gains_a_kind(tmp_path, capsys):
    """The columns that are indexed together with it are built again; nothing is without an index meanwhile."""
    table = make_events(tmp_path / "t")
    assert run_index("create", table, "--columns", "key,country", "--kind", "values,files") == 0
    assert run_index("create", table, "--columns", "price", "--kind", "bins") == 0
    runs = opened_indexes(table)[3].runs
    assert run_index("create", table, "--columns", "key,id", "--kind", "values,sorted") == 0
    context, tasks, place, indexes = opened_indexes(table)
    assert sorted(group.name for group in indexes.groups) == [
        "columns-2.values.files.sorted-3.values.files-1.values.sorted", "columns-4.bins",
    ]  # fmt: skip
    assert indexes.runs == runs
    (group,) = (group for group in indexes.groups if 2 in group.field_ids)
    for task in tasks:
        assert open_index(context, place, group, task, Metrics()).kinds(2) == ("values", "sorted")
    assert {path.name for path in Path(place.folder).iterdir() if path.is_dir() and any(path.iterdir())} == {
        one.name for one in indexes.groups
    }
    assert run_index("verify", table, "--all") == 0
    assert run_index("drop", table, "--columns", "key,country,id") == 0
    assert len(opened_indexes(table)[3].groups) == 1


def test_an_interrupted_addition_leaves_what_there_was(tmp_path):
    table = make_events(tmp_path / "t")
    assert run_index("create", table, "--columns", "key", "--kind", "values") == 0

    def interrupted(works):
        yield index_files.index_files(works[0])
        raise KeyboardInterrupt

    options = parse_options({"path": str(table.folder)})
    with pytest.raises(KeyboardInterrupt):
        table_indexes.OwnedIndexes(options, {}, interrupted, print).create(["key"], "sorted")
    assert len(opened_indexes(table)[3].groups) == 2
    assert run_index("refresh", table) == 0
    assert run_index("verify", table, "--all") == 0
    assert run_index("create", table, "--columns", "key", "--kind", "values,sorted,bins") == 0
    assert [group.name for group in opened_indexes(table)[3].groups] == ["columns-2.values.sorted.bins"]
