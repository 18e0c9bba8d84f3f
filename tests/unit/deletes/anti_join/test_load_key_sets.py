"""Which delete files a key table is made of, within which memory, and what is refused."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from declared.types import Column, ListOf, Struct
from equality_keys import load
from scan_values import delete_of, write_keys
from twostage.deletes.cache.memory import CACHE
from twostage.errors import (
    CorruptFileError,
    InternalError,
    MissingFileError,
    ResourceLimitError,
    UnsupportedFeatureError,
)
from twostage.metrics import Metrics


def test_sequence_numbers_are_strict(tmp_path):
    column = Column(1, "k", "long")
    delete = write_keys(tmp_path / "d.parquet", [column], [{1: 3}, {1: None}], [1], sequence_number=5)
    data = pa.array([3, 4, None])
    for sequence, gone in ((4, [True, False, True]), (5, [False] * 3), (6, [False] * 3)):
        assert load(tmp_path, [column], [delete], sequence=sequence).deleted({1: data}, 3).tolist() == gone


def test_one_table_serves_all_data_files_and_opens_each_file_once(tmp_path):
    column = Column(1, "k", "long")
    files = [
        write_keys(
            tmp_path / f"d{n}.parquet", [column], [{1: n}, {1: 100}], [1], sequence_number=n, scope="global"
        )
        for n in range(1, 9)
    ]
    data = pa.array([*range(1, 9), 100, None])
    metrics = Metrics()
    for sequence in (5, 0, 7, 3):
        applied = [delete for delete in files if delete.sequence_number > sequence]
        found = load(tmp_path, [column], applied, sequence=sequence, metrics=metrics)
        gone = [number > sequence for number in range(1, 9)]
        assert found.deleted({1: data}, 10).tolist() == [*gone, True, False]
    assert metrics.counters["delete_files.opened"] == 8
    assert metrics.counters["delete_files.cached"] == 3 + 1 + 5
    assert metrics.counters["delete_keys.loaded"] == 16


def test_scopes_do_not_mix(tmp_path):
    """A delete of one partition must not reach another's rows, whatever was loaded before."""
    column = Column(1, "k", "long")
    for scopes in (("p=1", "p=2"), (None, None)):
        CACHE.clear()
        first, second = (
            write_keys(tmp_path / f"{n}.parquet", [column], [{1: n}], [1], scope=scope)
            for n, scope in enumerate(scopes)
        )
        data = pa.array([0, 1])
        assert load(tmp_path, [column], [first]).deleted({1: data}, 2).tolist() == [True, False]
        assert load(tmp_path, [column], [second]).deleted({1: data}, 2).tolist() == [False, True]
        assert load(tmp_path, [column], [first, second]).deleted({1: data}, 2).tolist() == [True, True]
        assert load(tmp_path, [column], [first]).deleted({1: data}, 2).tolist() == [True, False]


def test_another_snapshot_and_a_table_made_anew(tmp_path):
    column = Column(1, "k", "long")
    first = write_keys(tmp_path / "a.parquet", [column], [{1: 1}], [1], scope="global")
    second = write_keys(tmp_path / "b.parquet", [column], [{1: 2}], [1], scope="global", sequence_number=9)
    data = pa.array([1, 2, 3])
    assert load(tmp_path, [column], [first, second], snapshot_id=2).deleted({1: data}, 3).tolist() == [
        True,
        True,
        False,
    ]
    assert load(tmp_path, [column], [first], snapshot_id=1).deleted({1: data}, 3).tolist() == [
        True,
        False,
        False,
    ]
    again = write_keys(tmp_path / "a.parquet", [column], [{1: 3}, {1: 3}], [1], scope="global")
    assert load(tmp_path, [column], [again], snapshot_id=2).deleted({1: data}, 3).tolist() == [
        False,
        False,
        True,
    ]


def test_nothing_applies(tmp_path):
    found = load(tmp_path, [Column(1, "a", "long")], [])
    assert not found
    assert found.field_ids == ()
    assert found.deleted({}, 3).tolist() == [False] * 3
    empty = write_keys(tmp_path / "d.parquet", [Column(1, "a", "long")], [], [1])
    assert (
        load(tmp_path, [Column(1, "a", "long")], [empty]).deleted({1: pa.array([None, 1])}, 2).tolist()
        == [False] * 2
    )


@pytest.mark.parametrize("kind", ["long", "string"])
def test_budget(tmp_path, kind):
    column = Column(1, "k", kind)
    keys = [{1: number if kind == "long" else f"{number:040}"} for number in range(20_000)]
    delete = write_keys(
        tmp_path / "d.avro", [column], keys, [1], record_count=10
    )  # metadata that understates
    settings = {"task_memory": 400_000 if kind == "string" else 250_000, "dense_keys": False}
    with pytest.raises(ResourceLimitError, match=r"task-memory") as caught:
        load(tmp_path, [column], [delete], settings=settings)
    assert caught.value.code == "DELETE_KEYS_TOO_LARGE"
    assert CACHE.nbytes == 0
    found = load(tmp_path, [column], [delete], settings={"task_memory": 8_000_000})
    assert found.deleted({1: pa.array([keys[0][1], keys[-1][1]])}, 2).all()


def test_overstated_record_count_allocates_within_the_budget(tmp_path):
    column = Column(1, "k", "long")
    delete = write_keys(tmp_path / "d.parquet", [column], [{1: 1}], [1], record_count=2**50)
    found = load(tmp_path, [column], [delete], settings={"task_memory": 10**6})
    assert found.deleted({1: pa.array([1, 2])}, 2).tolist() == [True, False]
    assert CACHE.nbytes <= 10**6


def test_cache_stays_within_its_bytes(tmp_path):
    column = Column(1, "k", "long")
    for number in range(5):
        delete = write_keys(tmp_path / f"{number}.parquet", [column], [{1: n} for n in range(3000)], [1])
        load(tmp_path, [column], [delete], snapshot_id=number, settings={"task_memory": 100_000})
    assert 0 < CACHE.nbytes <= 100_000


def test_refusals(tmp_path):
    column = Column(1, "k", "long")
    good = write_keys(tmp_path / "d.parquet", [column], [{1: 1}], [1])
    text = write_keys(tmp_path / "t.parquet", [Column(1, "k", "string")], [{1: "x"}], [1])
    twice = write_keys(tmp_path / "2.parquet", [column, Column(1, "l", "long")], [{1: 1}], [1])
    nested = write_keys(
        tmp_path / "n.parquet", [Column(1, "s", Struct((Column(2, "x", "long"),)))], [{1: {2: 1}}], [1]
    )
    (tmp_path / "bad.parquet").write_bytes(b"PAR1" + bytes(50))
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "d.parquet").read_bytes()[:-30])
    (tmp_path / "bad.orc").write_bytes(b"ORC" + bytes(50))
    (tmp_path / "bad.avro").write_bytes(b"Obj\x01" + bytes(50))
    bad = [
        delete_of(tmp_path / name, "equality", equality_ids=(1,))
        for name in ("bad.parquet", "cut.parquet", "bad.orc", "bad.avro")
    ]
    for delete in (text, twice, nested, *bad, delete_of(tmp_path / "d.parquet", "equality")):
        with pytest.raises(CorruptFileError) as caught:
            load(tmp_path, [column], [delete])
        assert (caught.value.path, caught.value.stage) == (delete.path, "deletes")
        assert "stage deletes" in str(caught.value)
    with pytest.raises(CorruptFileError, match="no schema: 9"):
        load(tmp_path, [column], [delete_of(tmp_path / "d.parquet", "equality", equality_ids=(9,))])
    with pytest.raises(MissingFileError):
        load(tmp_path, [column], [delete_of(tmp_path / "absent.parquet", "equality", equality_ids=(1,))])
    with pytest.raises(UnsupportedFeatureError, match="not of a primitive type"):
        load(tmp_path, [Column(1, "k", ListOf(Column(2, "element", "long")))], [good])
    with pytest.raises(InternalError):
        load(tmp_path, [column], [good]).deleted({}, 1)
    with pytest.raises(InternalError):
        load(tmp_path, [column], [good]).deleted({1: pa.array(["x"])}, 1)


@pytest.mark.parametrize("seed", range(20))
def test_bit_flips_give_the_rows_or_an_error(tmp_path, seed):
    """With page checksums no flip of a delete file's bytes changes the answer."""
    rng = random.Random(seed)
    column = Column(1, "k", "long")
    keys = [{1: n * 3} for n in range(200)]
    delete = write_keys(
        tmp_path / "d.parquet", [column], keys, [1], options={"page_checksums": True, "statistics": False}
    )
    raw = bytearray((tmp_path / "d.parquet").read_bytes())
    footer = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    rows = pa.array(range(600))
    right = [number % 3 == 0 for number in range(600)]
    for _ in range(10):
        CACHE.clear()
        flipped = bytearray(raw)
        flipped[rng.randrange(4, footer)] ^= 1 << rng.randrange(8)
        (tmp_path / "d.parquet").write_bytes(flipped)
        try:
            assert load(tmp_path, [column], [delete]).deleted({1: rows}, 600).tolist() == right
        except (CorruptFileError, UnsupportedFeatureError):  # the latter of an encoding that the flip made
            continue
