"""What ``index verify`` finds: nothing where indexes are right; each lie and each damage where they are not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

from core_scan import Opened, open_table
from indexed_by_command import make_events, opened_indexes, run_index
from indexed_tables import index_table, place_of, tasks_of
from tables import Table
from twostage.deletes.cache.memory import CACHE
from twostage.indexes import bitmaps
from twostage.indexes.answer import IndexAnswer
from twostage.indexes.data_file_index import DataFileIndex
from twostage.indexes.kind import Found
from twostage.indexes.kinds import bit_slices, postings, sorted_rows
from twostage.indexes.place import list_indexes
from twostage.maintenance.verify_indexes import Verified, literal_of, verify_indexes
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.schema import Primitive

FILES = 3
ROWS = 200


@pytest.fixture
def table(tmp_path: Path) -> Opened:
    drawn = random.Random(1)
    made = Table(tmp_path / "t", {"id": "long", "key": "long", "word": "string", "day": "date"})
    for number in range(FILES):
        made.append(
            [
                {
                    "id": number * ROWS + row,
                    "key": None if row % 9 == 0 else drawn.randrange(40),
                    "word": drawn.choice(["a", "bb", None, "é"]),
                    "day": drawn.randrange(100),
                }
                for row in range(ROWS)
            ],
            row_group_size=60,
        )
    made.write()
    return open_table(made.folder)


KINDS: dict[str, tuple[str, ...]] = {
    "id": ("sorted",),
    "key": ("values", "postings"),
    "word": ("values",),
    "day": ("values", "slices"),
}


def verify(opened: Opened, sample: int | None = None, steps: list[tuple[int, int]] | None = None) -> Verified:
    plan = plan_scan(
        opened.table,
        opened.options,
        projection=(),
        predicate=TRUE,
        hint=TRUE,
        limit=None,
        parallelism=2,
        scan_id="x",
    )
    place = place_of(opened)
    seen = [] if steps is None else steps
    return verify_indexes(
        plan.context,
        tasks_of(opened),
        place,
        list_indexes(place, Metrics()),
        sample,
        lambda done, count: seen.append((done, count)),
        seed=7,
    )


def test_indexes_that_are_right(table: Opened) -> None:
    index_table(table, KINDS)
    steps: list[tuple[int, int]] = []
    found = verify(table, steps=steps)
    assert found.wrong == []
    assert (found.data_files, found.without_index) == (FILES, 0)
    # Of each kind `IS NULL`, five literals by three operators, prefixes, ranges and a list; ranges of most rows are not answered.
    num_kinds = sum(map(len, KINDS.values()))
    assert FILES * num_kinds * 8 < found.answers <= FILES * num_kinds * 31
    assert steps == [(number, FILES) for number in range(FILES + 1)]


def test_a_sample_of_the_data_files(table: Opened) -> None:
    index_table(table, KINDS)
    assert verify(table, sample=2).data_files == 2
    assert verify(table, sample=50).data_files == FILES


def test_data_files_without_an_index_are_counted(table: Opened) -> None:
    index_table(table, {"key": ("values",)}, only=lambda number: number == 1)
    found = verify(table)
    assert (found.data_files, found.without_index, found.wrong) == (FILES, FILES - 1, [])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rows: (rows - BitMap(rows[:1]), BitMap()),  # a row that matches is not possible
        lambda rows: (
            BitMap(range(ROWS)),
            rows | BitMap([min(set(range(ROWS)) - set(rows))]),
        ),  # one is certain that does not
    ],
    ids=["a row is missing", "a row is too many"],
)
def test_an_answer_that_does_not_bound_the_filter_is_named(
    table: Opened, monkeypatch: Any, wrong: Any
) -> None:
    index_table(table, {"key": ("values",)})
    find = DataFileIndex.find

    def lie(self: DataFileIndex, leaf: Any, metrics: Metrics, **more: Any) -> IndexAnswer | None:
        answer = find(self, leaf, metrics, **more)
        if answer is None or getattr(leaf, "op", "") != "=" or not answer.possible:
            return answer
        possible, certain = wrong(answer.possible)
        return IndexAnswer.of_leaf(ROWS, possible=possible, certain=certain, null=BitMap(), kinds=("values",))

    monkeypatch.setattr(DataFileIndex, "find", lie)
    found = verify(table)
    assert len(found.wrong) == FILES * 5
    assert all(sentence.endswith("is answered wrongly by values") for sentence in found.wrong)
    assert {sentence.partition(": ")[0].rpartition("/")[2] for sentence in found.wrong} == {
        Path(task.path).name for task in tasks_of(table)
    }


def test_every_byte_is_compared_with_its_checksum(table: Opened) -> None:
    """Also those of blobs that no drawn predicate would read."""
    drawn = random.Random(2)
    path, *_ = index_table(table, KINDS)
    clean = path.read_bytes()
    for _ in range(25):
        damaged = bytearray(clean)
        damaged[drawn.randrange(4, len(clean))] ^= 1 << drawn.randrange(8)
        path.write_bytes(damaged)
        found = verify(table)
        assert found.wrong or found.without_index == 1
    path.write_bytes(clean)
    assert verify(table).wrong == []


def test_a_data_file_that_is_gone_is_named_and_the_others_are_compared(table: Opened) -> None:
    index_table(table, {"key": ("values",)})
    Path(tasks_of(table)[0].path).unlink()
    found = verify(table)
    assert len(found.wrong) == 1
    assert found.data_files == FILES
    assert found.answers > 0


def test_literals_have_the_internal_form() -> None:
    assert literal_of(Primitive("date"), pa.scalar(3, pa.int32()).cast(pa.date32())) == 3
    assert literal_of(Primitive("timestamp"), pa.scalar(5, pa.timestamp("us"))) == 5
    assert literal_of(Primitive("string"), pa.scalar("x")) == "x"
    assert literal_of(Primitive("long"), pa.scalar(9)) == 9


def test_verify_finds_an_index_that_lies(tmp_path, capsys):
    """Its checksums are right: it was made of other values."""
    table = make_events(tmp_path / "t", 1)
    assert run_index("create", table, "--columns", "key,id", "--kind", "values") == 0
    _, (task,), place, indexes = opened_indexes(table)
    path = Path(place.index_file(indexes.groups[0], task))
    other = make_events(tmp_path / "u", 1)
    assert run_index("create", other, "--columns", "id,key", "--kind", "values") == 0
    _, (other_task,), other_place, other_indexes = opened_indexes(other)
    data = Path(other_place.index_file(other_indexes.groups[0], other_task)).read_bytes()
    path.write_bytes(data)
    capsys.readouterr()
    assert run_index("verify", table) == 1
    assert "it is of another data file" in capsys.readouterr().err
    path.write_bytes(data[:-100])
    assert run_index("verify", table) == 1


def test_verify_repairs_what_is_damaged_behind_the_footer(tmp_path, capsys):
    table = make_events(tmp_path / "t")
    assert run_index("create", table, "--columns", "key", "--kind", "postings,slices,sorted,files") == 0
    _, tasks, place, indexes = opened_indexes(table)
    paths = [Path(place.index_file(indexes.groups[0], tasks[0])), Path(place.path(indexes.runs[0].name))]
    whole = [path.read_bytes() for path in paths]
    for path in paths:
        data = bytearray(path.read_bytes())
        data[10] ^= 1
        path.write_bytes(data)
    CACHE.clear()
    assert run_index("refresh", table) == 0
    assert [path.read_bytes() for path in paths] != whole, "a footer does not tell"
    assert run_index("verify", table, "--all") == 1
    assert run_index("verify", table, "--all", "--repair") == 0
    assert run_index("verify", table, "--all") == 0
    assert [path.read_bytes() for path in paths] == whole


@pytest.mark.parametrize(
    ("owner", "name", "lie"),
    [
        (bit_slices.BitSlicesReader, "find", lambda *_: Found(bitmaps.whole(3), bitmaps.whole(3))),
        (bit_slices.SlicedColumn, "sum", lambda *_: 7),
        (sorted_rows.SortedRowsReader, "find", lambda *_: Found(bitmaps.whole(0), bitmaps.whole(0))),
        (postings.PostingsReader, "find", lambda *_: Found(bitmaps.whole(0), bitmaps.whole(0))),
    ],
)
def test_verify_asks_each_kind(tmp_path, capsys, monkeypatch, owner, name, lie):
    table = make_events(tmp_path / "t", 1)
    assert run_index("create", table, "--columns", "key", "--kind", "values,postings,slices,sorted") == 0
    monkeypatch.setattr(owner, name, lie)
    assert run_index("verify", table) == 1
    assert "answered wrongly by" in capsys.readouterr().err
