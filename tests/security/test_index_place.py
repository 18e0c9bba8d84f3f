"""Who may write the place of indexes decides which rows are returned; a table's own writers may not, and sizes there bind no memory."""

from __future__ import annotations

import random
import shutil
import tracemalloc
from pathlib import Path

import pytest

from check import Columns
from core_scan import open_table, scan, with_options
from indexed_tables import built, everything_pays, place_of
from mutations import reseal
from tables import Table
from twostage.deletes.cache.memory import CACHE
from twostage.errors import OptionError, TwoStageError
from twostage.predicates.predicate import And, Compare
from twostage.storage.location import is_under

ROWS = 3_000
KINDS = "values,postings,sorted,bins,slices,files"


@pytest.fixture(autouse=True)
def _asked():
    CACHE.clear()
    with everything_pays():
        yield
    CACHE.clear()


def make(folder: Path, add: int = 0) -> Table:
    table = Table(folder, {"id": "long", "k": "long"})
    for first in (0, ROWS):
        table.append([{"id": first + n, "k": add + (first + n) * 7919 % 1000} for n in range(ROWS)])
    table.write()
    return table


def ids(table: Table, **options: str):
    opened = open_table(table.folder, **options)
    column = Columns(opened.table.schema)
    found = scan(opened, predicate=And((Compare("=", column("k"), 77), Compare("<", column("id"), 2 * ROWS))))
    return sorted(row[0] for row in found.rows), found.metrics.counters


def test_indexes_inside_the_table_are_never_read_nor_made(tmp_path):
    """Whoever may write data files there is not thereby one who may say which rows match."""
    table = make(tmp_path / "t")
    opened = open_table(table.folder)
    place = place_of(opened)
    assert not is_under(opened.table.storage.root, place.folder)
    built(opened, ["k"], KINDS)
    inside = Path(table.folder, "_twostage_indexes")
    shutil.move(tmp_path / "_twostage_indexes", inside)
    expected, counters = ids(table)
    assert len(expected) == 2 * ROWS // 1000
    assert counters["indexes.asked"] == counters["indexes.used"] == 0
    for location in (inside, tmp_path):
        with pytest.raises(OptionError, match=r"index\.location"):
            built(with_options(opened, {"index.location": str(location)}), ["k"], KINDS)


def test_indexes_of_another_table_or_data_file_serve_none(tmp_path):
    """Copied to where ours are: their names are fingerprints, and their footers say of what they are."""
    ours, other = make(tmp_path / "a" / "t"), make(tmp_path / "b" / "t", add=5)
    for table in (ours, other):
        built(open_table(table.folder), ["k"], "postings,files")
    (folder,) = (tmp_path / "a" / "_twostage_indexes").iterdir()
    (theirs,) = (tmp_path / "b" / "_twostage_indexes").iterdir()
    (group,) = folder.glob("columns-*/")
    mine, foreign = sorted(group.iterdir()), sorted((theirs / group.name).iterdir())
    for to, source in zip(mine, foreign, strict=True):
        shutil.copy(source, to)
    for run in folder.glob("files-*.puffin"):
        run.unlink()
    for run in theirs.glob("files-*.puffin"):
        shutil.copy(run, folder)
    expected, _ = ids(ours, index="off")
    found, counters = ids(ours)
    assert found == expected
    assert counters["indexes.used"] == counters["files.pruned.index"] == 0
    assert counters["indexes.ignored"] == len(mine)


def test_hostile_sizes_take_no_memory_and_end_no_scan(tmp_path):
    """Numbers of a footer that its own checksum covers: of offsets, lengths, counts and widths."""
    seed = random.randrange(2**32)
    print("seed", seed)
    drawn = random.Random(seed)
    table = make(tmp_path / "t")
    built(open_table(table.folder), ["k"], KINDS)
    paths = sorted(Path(place_of(open_table(table.folder)).folder).rglob("*.puffin"))
    ids(table)
    ignored = 0
    for _ in range(60):
        path = drawn.choice(paths)
        data = path.read_bytes()
        path.write_bytes(reseal(data, drawn))
        CACHE.clear()
        tracemalloc.start()
        try:
            _, counters = ids(table)
        except TwoStageError as error:
            pytest.fail(f"an index ended the scan: {error}")
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            path.write_bytes(data)
        assert peak < 64 * 2**20
        assert counters["indexes.ignored"] <= 1
        ignored += counters["indexes.ignored"]
    assert ignored > 5
