"""Index files: what is written is read back by ranges; whatever is cut short, changed or made up is refused."""

from __future__ import annotations

import io
import json
import random
import struct

import pyarrow as pa
import pytest

from twostage.indexes import puffin
from twostage.indexes.puffin import FORMAT, BadIndexError, BlobReader, IndexWriter, checked, read_footer


def example():
    stream = io.BytesIO()
    writer = IndexWriter(stream, {"rows": "12"})
    writer.add(3, "values", "directory", b"directory", at_end=True)
    writer.add(3, "values", "bitmaps", [b"abc", b"defgh"], count=2)
    writer.add(4, "nulls", "rows", b"")
    assert writer.close() == len(stream.getvalue())
    return stream.getvalue()


def opened(data, tail_bytes=puffin.TAIL_BYTES):
    file = pa.BufferReader(data)
    footer, cost = read_footer(file, tail_bytes)
    return BlobReader(file, footer), cost


@pytest.mark.parametrize("tail_bytes", [1, 20, 300, 65536])
def test_what_is_written_is_read_back(tail_bytes):
    data = example()
    if tail_bytes == 1:
        with pytest.raises(BadIndexError):
            opened(data, 1)
        return
    reader, cost = opened(data, tail_bytes)
    assert cost.requests == (1 if tail_bytes > 1000 else 2)
    assert reader.footer.properties == {"rows": "12", "format": str(FORMAT)}
    blob = reader.blob(3, "values", "bitmaps")
    assert reader.whole(blob) == b"abcdefgh"
    assert reader.read(blob, 2, 3) == b"cde"
    assert blob.properties == {"count": "2"}
    assert reader.whole(reader.blob(4, "nulls", "rows")) == b""
    directory = reader.blob(3, "values", "directory")
    assert reader.whole(directory) == b"directory"
    assert directory.offset > blob.offset, "what is looked at first stands beside the footer"


def test_the_tail_is_not_read_twice():
    reader, _ = opened(example())
    assert reader.whole(reader.blob(3, "values", "directory")) == b"directory"
    assert reader.cost.requests == 0
    assert reader.is_at_hand(reader.blob(3, "values", "directory"))


def test_it_is_a_puffin_file():
    """As the spec has it, read by hand."""
    data = example()
    assert data[:4] == data[-4:] == b"PFA1"
    (length,) = struct.unpack("<i", data[-12:-8])
    payload = json.loads(data[-12 - length : -12])
    assert data[-16 - length : -12 - length] == b"PFA1"
    first = payload["blobs"][0]
    assert first["fields"] == [3]
    assert first["type"] == f"twostage-index-values-bitmaps-v{FORMAT}"
    assert data[first["offset"] : first["offset"] + first["length"]] == b"abcdefgh"


def test_a_file_that_ends_early_is_refused():
    data = example()
    for length in range(len(data)):
        with pytest.raises(BadIndexError):
            opened(data[:length])


def test_any_flipped_bit_is_refused_or_changes_no_byte_that_is_used():
    seed = random.randrange(2**32)
    print("seed", seed)
    drawn, data = random.Random(seed), example()
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << drawn.randrange(8)
        try:
            reader, _ = opened(bytes(damaged))
            assert reader.whole(reader.blob(3, "values", "bitmaps")) == b"abcdefgh"
            assert reader.whole(reader.blob(3, "values", "directory")) == b"directory"
        except BadIndexError:
            continue
        assert place < 4, "the first magic alone is not looked at"


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain["blobs"][0].update(offset=-5),
        lambda plain: plain["blobs"][0].update(offset=2**62),
        lambda plain: plain["blobs"][0].update(length=2**62),
        lambda plain: plain["blobs"][0].update(length=-1),
        lambda plain: plain["blobs"][0].update(fields=[]),
        lambda plain: plain["blobs"][0]["properties"].pop("kind"),
        lambda plain: plain["properties"].update(format=str(FORMAT + 1)),
        lambda plain: plain.update(blobs=7),
        lambda plain: plain.update(properties=[]),
    ],
)
def test_made_up_footers_are_refused(change):
    """With a right checksum: whoever makes one up can do that too."""
    data = example()
    (length,) = struct.unpack("<i", data[-12:-8])
    plain = json.loads(data[-12 - length : -12])
    plain["properties"].pop("footer-crc32")
    change(plain)
    if isinstance(plain["properties"], dict):
        plain["properties"]["footer-crc32"] = str(puffin._crc_of({**plain}))
    payload = puffin._canonical(plain)
    end = struct.pack("<i4s4s", len(payload), bytes(4), b"PFA1")
    with pytest.raises(BadIndexError):
        opened(data[: -16 - length] + b"PFA1" + payload + end)


def test_a_footer_that_claims_any_size_is_refused_before_it_is_read():
    data = example()
    for claimed in (-1, 2**31 - 1, len(data)):
        with pytest.raises(BadIndexError):
            opened(data[:-12] + struct.pack("<i", claimed) + data[-8:])


def test_a_range_outside_its_blob_is_refused():
    reader, _ = opened(example())
    blob = reader.blob(3, "values", "bitmaps")
    for start, length in ((-1, 2), (0, 9), (8, 1), (3, -1)):
        with pytest.raises(BadIndexError):
            reader.read(blob, start, length)
    with pytest.raises(BadIndexError):
        reader.blob(9, "values", "bitmaps")
    with pytest.raises(BadIndexError):
        checked(b"abc", 1)
