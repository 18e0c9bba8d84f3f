"""Values picked out of hybrids of runs and packed bits, against hybrids that the test lays out itself."""

from __future__ import annotations

import random

import numpy as np
import pytest

from figures import FULL
from twostage_native import page_values

pytest.importorskip("numba")

SEEDS = range(8)
EXAMPLES = 2_000 if FULL else 100


def check(kernel, arguments, expected):
    """Compare machine code and twin with what is expected."""
    assert kernel.compiled(*arguments), f"{kernel.name} does not compile"
    for run in (kernel, kernel.twin):
        answer = run(*arguments)
        assert answer.dtype == np.int64
        assert answer.tolist() == expected, run


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def hybrid(values, width, pick):
    """Lay out values in runs of either kind, as a writer may."""
    out, at = b"", 0
    while at < len(values):
        same = next((i for i in range(at, len(values)) if values[i] != values[at]), len(values)) - at
        if same >= 8 or (same >= 1 and pick.random() < 0.2):
            taken = pick.randint(1, same)
            out += varint(taken << 1) + values[at].to_bytes(-(-width // 8), "little")
        else:
            groups = pick.randint(1, 4)
            taken = min(groups * 8, len(values) - at)
            packed = 0
            for place, value in enumerate(values[at : at + taken]):
                packed |= value << place * width
            out += varint(groups << 1 | 1) + packed.to_bytes(groups * width, "little")
        at += taken
    return out


def bytes_of(raw):
    return np.frombuffer(raw, np.uint8)


def longs(values):
    return np.array(values, np.int64)


def drawn(pick, width):
    """Return values that repeat here and there."""
    values = []
    while len(values) < pick.randint(0, 200):
        values += [pick.getrandbits(width)] * pick.choice((1, 1, 1, 9, 30))
    return values


@pytest.mark.parametrize("width", [0, 1, 2, 3, 7, 8, 9, 13, 16, 17, 24, 31, 32])
def test_codes_at(width):
    pick = random.Random(width)
    for _ in range(EXAMPLES):
        values = drawn(pick, width)
        places = sorted(pick.sample(range(len(values)), pick.randint(0, len(values))))
        arguments = (bytes_of(hybrid(values, width, pick)), width, len(values), longs(places))
        check(page_values.codes_at, arguments, [values[place] for place in places])


@pytest.mark.parametrize("seed", SEEDS)
def test_ranks_at(seed):
    pick = random.Random(seed)
    for _ in range(EXAMPLES):
        levels = [level if seed % 3 else seed % 2 for level in drawn(pick, 1)]
        places = sorted(pick.sample(range(len(levels)), pick.randint(0, len(levels))))
        expected = [sum(levels[:place]) if levels[place] else -1 for place in places]
        arguments = (bytes_of(hybrid(levels, 1, pick)), len(levels), longs(places))
        check(page_values.ranks_at, arguments, [*expected, sum(levels)])


@pytest.mark.parametrize("seed", SEEDS)
def test_text_ends(seed):
    pick = random.Random(seed)
    for _ in range(EXAMPLES):
        lengths = (1, 5, 255) if seed % 2 else (0, 1, 5, 300)  # the twin finds short ones at once
        texts = [pick.randbytes(pick.choice(lengths)) for _ in range(pick.randint(0, 20))]
        plain = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
        ends = np.cumsum([4 + len(text) for text in texts]).tolist()
        check(page_values.text_ends, (bytes_of(plain), len(texts)), ends)
        for other in (plain + b"\0", plain[:-1]):
            if other != plain:
                check(page_values.text_ends, (bytes_of(other), len(texts)), [])
    check(page_values.text_ends, (bytes_of(b"\xff\xff\xff\xff"), 1), [])


def test_ends_of_texts_that_look_like_lengths():
    texts = [b"a\1\0\0\0b", b"\0\0\0", b"x", b"", b"\3\0\0", b"yy"]
    for count in range(len(texts) + 1):
        plain = b"".join(len(text).to_bytes(4, "little") + text for text in texts[:count])
        ends = np.cumsum([4 + len(text) for text in texts[:count]]).tolist()
        check(page_values.text_ends, (bytes_of(plain), count), ends)
        check(page_values.text_ends, (bytes_of(plain), count + 1), [])


@pytest.mark.parametrize("seed", SEEDS)
def test_any_bytes_give_what_the_twin_gives(seed):
    """Malformed bytes are told, in the same way, and none beyond them is read."""
    pick = random.Random(seed)
    for _ in range(EXAMPLES):
        width = pick.randint(0, 32)
        raw = bytearray(
            hybrid(drawn(pick, width), width, pick) if pick.random() < 0.7 else pick.randbytes(12)
        )
        for _ in range(pick.randint(0, 2)):
            if raw:
                raw[pick.randrange(len(raw))] = pick.getrandbits(8)
        data = bytes_of(bytes(raw[: pick.randint(0, len(raw))]))
        count = pick.choice((1, 50, 250, 2**31))
        places = longs(sorted({pick.randrange(count) for _ in range(9)}))
        for kernel, arguments in (
            (page_values.codes_at, (data, width, count, places)),
            (page_values.ranks_at, (data, count, places)),
            (page_values.text_ends, (data, pick.randint(0, 5))),
        ):
            check(kernel, arguments, kernel.twin(*arguments).tolist())


def test_a_place_beyond_the_last_value_is_told():
    data = bytes_of(hybrid([1] * 20, 1, random.Random(0)))
    assert page_values.codes_at(data, 1, 20, longs([19, 20])).tolist() == [1, -1]
    assert page_values.ranks_at(data, 20, longs([20])).tolist()[-1] == -1
