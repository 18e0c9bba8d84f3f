"""Files of event logs: whole, rolled, compacted, compressed, and cut in the middle."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard

from twostage.advisor.event_files import applications, lines
from twostage.advisor.query_log import Problems

TEXT = b"".join(b'{"Event":"number %d"}\n' % number for number in range(5000))


def lz4(data, block=30_000):
    """As lz4-java's LZ4BlockOutputStream: one block stored as it is, an empty one at the end."""
    out = b""
    for number, start in enumerate(range(0, len(data), block)):
        part = data[start : start + block]
        packed = part if number == 1 else pa.compress(part, "lz4_raw", asbytes=True)
        out += (
            struct.pack("<8sBiii", b"LZ4Block", 0x10 if number == 1 else 0x26, len(packed), len(part), 0)
            + packed
        )
    return out + struct.pack("<8sBiii", b"LZ4Block", 0x16, 0, 0, 0)


def snappy(data, block=30_000):
    """As snappy-java's SnappyOutputStream."""
    out = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for start in range(0, len(data), block):
        packed = pa.compress(data[start : start + block], "snappy", asbytes=True)
        out += struct.pack(">i", len(packed)) + packed
    return out


def zstd(data):
    half = len(data) // 2
    return zstandard.compress(data[:half]) + zstandard.compress(data[half:])


CODECS = {"app": lambda data: data, "app.zstd": zstd, "app.lz4.inprogress": lz4, "app.snappy": snappy}


def read(path):
    problems = Problems()
    return b"".join(line for files in applications(str(path)) for _, line in lines(files, problems)), problems


@pytest.mark.parametrize("name", CODECS)
def test_codecs(tmp_path, name):
    (tmp_path / name).write_bytes(CODECS[name](TEXT))
    text, problems = read(tmp_path)
    assert text == TEXT
    assert not problems.counts


@pytest.mark.parametrize("name", [name for name in CODECS if name != "app"])
def test_a_file_that_ends_in_the_middle_gives_what_is_before(tmp_path, name):
    data = CODECS[name](TEXT)
    (tmp_path / name).write_bytes(data[: len(data) * 3 // 4])
    text, problems = read(tmp_path)
    assert len(text) > len(TEXT) // 4
    assert TEXT.startswith(text)
    assert sum(problems.counts.values()) == (name != "app.zstd")


@pytest.mark.parametrize("name", [name for name in CODECS if name != "app"])
@pytest.mark.parametrize("data", [b"", b"not compressed at all" * 10, b"LZ4Block" + b"\xff" * 40])
def test_another_file_of_this_name_is_counted(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    text, problems = read(tmp_path)
    assert text == b""
    assert sum(problems.counts.values()) == bool(data) or name == "app.snappy"


def test_an_unknown_codec_is_named(tmp_path):
    (tmp_path / "app.lzf").write_bytes(b"ZV")
    assert "codec" in str(read(tmp_path)[1])


def test_rolled_files_are_in_order_and_compacted_ones_stand_for_those_before(tmp_path):
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    for number in (1, 2, 3, 10):
        (folder / f"events_{number}_app-1").write_text(f"{number}\n")
    (folder / "appstatus_app-1").write_text("")
    (tmp_path / ".hidden.crc").write_text("x")
    (tmp_path / "app-2").write_text("other\n")
    assert [[Path(path).name for path in files] for files in applications(str(tmp_path))] == [
        ["app-2"],
        [f"events_{number}_app-1" for number in (1, 2, 3, 10)],
    ]
    (folder / "events_2_app-1.compact").write_text("compacted\n")
    (files,) = applications(str(folder))
    assert [Path(path).name for path in files] == [
        "events_2_app-1.compact",
        "events_3_app-1",
        "events_10_app-1",
    ]
    assert read(tmp_path / "app-2")[0] == b"other\n"
    assert applications(str(tmp_path / "nowhere")) == []
