"""Avro data files: runs of blocks as row groups, ranges that share them out, and blocks that lie about themselves."""

from __future__ import annotations

import io
import random
from pathlib import Path

import fastavro
import pytest

from declared.types import Column
from opened import open_file, schema_of
from twostage.data_files import avro_file
from twostage.errors import CorruptFileError, ResourceLimitError, TwoStageError, UnsupportedFeatureError
from twostage.formats.varint import write_zigzag
from twostage.metrics import Metrics

SCHEMA = schema_of([Column(1, "id", "long"), Column(2, "text", "string")])
RECORD = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "id", "type": "long", "field-id": 1},
        {"name": "text", "type": "string", "field-id": 2},
    ],
}
SYNC = bytes(range(16))


def written(path: Path, blocks: list[int], codec: str = "null") -> Path:
    """Write blocks of so many records each, whose ids count up from 0."""
    out, start = io.BytesIO(), 0
    fastavro.writer(out, RECORD, [], codec=codec, sync_marker=SYNC)
    for count in blocks:
        rows = [{"id": number, "text": f"text {number}"} for number in range(start, start + count)]
        block = io.BytesIO()
        fastavro.writer(block, RECORD, rows, codec=codec, sync_marker=SYNC, sync_interval=2**30)
        data = block.getvalue()
        out.write(data[data.index(SYNC) + 16 :])
        start += count
    path.write_bytes(out.getvalue())
    return path


def ids(file) -> list[int]:
    return [
        number
        for group in file.row_groups()
        for (array, _) in [file.read(group, SCHEMA.fields, "fetch")]
        for number in array.to_pylist()
    ]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2"])
def test_row_groups_are_runs_of_blocks(tmp_path, monkeypatch, codec):
    drawn = random.Random(codec)
    blocks = [drawn.randrange(1, 40) for _ in range(60)]
    path = written(tmp_path / "x.avro", blocks, codec)
    for most in (1, 50, 10**6):
        monkeypatch.setattr(avro_file, "GROUP_ROWS", most)
        expected, rows = [], 0
        for count in blocks:
            rows += count
            if rows >= most:
                expected.append(rows)
                rows = 0
        expected += [rows] if rows else []
        with open_file(path, SCHEMA) as file:
            groups = list(file.row_groups())
            assert [group.num_rows for group in groups] == expected
            assert [group.first_row for group in groups] == [sum(expected[:n]) for n in range(len(expected))]
            assert ids(file) == list(range(sum(blocks)))


def test_groups_end_by_their_bytes_too(tmp_path, monkeypatch):
    path = written(tmp_path / "x.avro", [10] * 20)
    monkeypatch.setattr(avro_file, "GROUP_BYTES", 1)
    with open_file(path, SCHEMA) as file:
        assert [group.num_rows for group in file.row_groups()] == [10] * 20


@pytest.mark.parametrize("window", [64, 1000, 2**20])
def test_ranges_read_each_block_once(tmp_path, monkeypatch, window):
    monkeypatch.setattr(avro_file, "WINDOW_BYTES", window)
    drawn = random.Random(window)
    path = written(tmp_path / "x.avro", [drawn.randrange(1, 30) for _ in range(50)])
    size = path.stat().st_size
    for _ in range(10):
        cuts = [0, *sorted(drawn.sample(range(1, size), 4)), size]
        found: list[int] = []
        for start, end in zip(cuts, cuts[1:], strict=False):
            with open_file(path, SCHEMA, start=start, length=end - start) as file:
                groups = list(file.row_groups())
                own = ids(file)
            assert not own or (groups[0].first_row, len(own)) == (own[0], own[-1] - own[0] + 1)
            found += own
        assert found == list(range(len(found)))
        assert len(found) > 50


def test_one_batch_after_another(tmp_path):
    path = written(tmp_path / "x.avro", [100, 100])
    with open_file(path, SCHEMA) as file:
        (group,) = file.row_groups()
        batches = [array for (array,) in file.stream(group, [SCHEMA.fields[0]], 64)]
    assert [len(batch) for batch in batches] == [64, 64, 64, 8]
    assert [number for batch in batches for number in batch.to_pylist()] == list(range(200))


def test_a_block_is_unpacked_once_for_all_columns(tmp_path):
    path = written(tmp_path / "x.avro", [500], "deflate")
    metrics = Metrics()
    with open_file(path, SCHEMA, metrics=metrics) as file:
        (group,) = file.row_groups()
        file.read(group, SCHEMA.fields[:1], "filter")
        file.read(group, SCHEMA.fields[1:], "fetch")
    assert metrics.counters["bytes.filter"] == group.num_bytes
    assert "bytes.fetch" not in metrics.counters


def test_a_file_without_records(tmp_path):
    for blocks in ([], [0], [0, 0]):
        with open_file(written(tmp_path / "x.avro", blocks), SCHEMA) as file:
            assert list(file.row_groups()) == []


def test_a_header_longer_than_the_first_read(tmp_path, monkeypatch):
    path = written(tmp_path / "x.avro", [3])
    monkeypatch.setattr(avro_file, "HEADER_BYTES", 20)
    with open_file(path, SCHEMA) as file:
        assert ids(file) == [0, 1, 2]


def test_what_a_block_may_unpack_to_is_bounded(tmp_path):
    path = written(tmp_path / "x.avro", [20_000], "deflate")
    with open_file(path, SCHEMA, task_memory=50_000) as file, pytest.raises(ResourceLimitError):
        ids(file)


LIES = {
    "a negative length": write_zigzag(5) + write_zigzag(-1),
    "longer than the file": write_zigzag(5) + write_zigzag(10**9),
    "a negative number of records": write_zigzag(-5) + write_zigzag(10),
    "records without bytes": write_zigzag(5) + write_zigzag(0) + SYNC,
    "no sync marker": write_zigzag(1) + write_zigzag(3) + b"\2\2a" + bytes(16),
    "a number that does not end": b"\xff" * 11,
    "cut off": b"\x80",
    "more records than it has": write_zigzag(9) + write_zigzag(3) + b"\2\2a" + SYNC,
    "bytes behind its records": write_zigzag(1) + write_zigzag(5) + b"\2\2abc" + SYNC,
}


@pytest.mark.parametrize("lie", LIES)
def test_blocks_that_lie_are_refused(tmp_path, lie):
    path = written(tmp_path / "x.avro", [4])
    path.write_bytes(path.read_bytes() + LIES[lie])
    with pytest.raises(CorruptFileError) as error, open_file(path, SCHEMA) as file:
        ids(file)
    assert error.value.code == "CORRUPT_AVRO"


def test_an_unknown_codec_is_named(tmp_path):
    path = written(tmp_path / "x.avro", [4])
    path.write_bytes(path.read_bytes().replace(b"\x08null", b"\x08lzma", 1))
    with pytest.raises(UnsupportedFeatureError, match="lzma"), open_file(path, SCHEMA) as file:
        ids(file)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_any_file_that_is_cut_ends_in_an_error_or_in_fewer_whole_blocks(tmp_path, codec):
    path = written(tmp_path / "x.avro", [5, 6, 7], codec)
    data, seen = path.read_bytes(), set()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        try:
            with open_file(path, SCHEMA) as file:
                seen.add(len(ids(file)))
        except TwoStageError:
            continue
    assert seen == {0, 5, 11}
