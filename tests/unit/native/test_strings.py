"""Text kernels and what prepares members for them, against Python's bytes; `test_kernels` draws more and compares twins."""

from __future__ import annotations

import random

import numpy as np
import pytest

from twostage_native import strings

POOL = [
    b"",
    b"\0",
    b"a",
    b"ab",
    b"\xff",
    b"abcdefgh",
    b"abcdefgi",
    b"abcdefghabcdefgh",
    b"x" * 100,
    "é€😀".encode(),
]


def layout(values: list[bytes], dtype: type = np.int32, before: bytes = b"") -> tuple[np.ndarray, np.ndarray]:
    """Lay texts out as Arrow does, behind others that a slice has left out."""
    offsets = np.cumsum([len(before), *map(len, values)]).astype(dtype)
    return offsets, np.frombuffer(before + b"".join(values) + b"", np.uint8)


def drawn_texts(drawn: random.Random, count: int) -> list[bytes]:
    return [
        drawn.choice(POOL) if drawn.random() < 0.5 else bytes(drawn.choices(b"ab\xff", k=drawn.randrange(30)))
        for _ in range(count)
    ]


def sign(left: bytes, right: bytes) -> int:
    return (left > right) - (left < right)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("seed", range(4))
def test_searches_and_comparisons(seed, dtype):
    drawn = random.Random(f"strings {seed}")
    values = drawn_texts(drawn, 300)
    offsets, data = layout(values, dtype, b"left out" * drawn.randrange(2))
    for literal in [*POOL, *drawn_texts(drawn, 10)]:
        given = np.frombuffer(literal, np.uint8)
        expected = {
            strings.equal_text: [value == literal for value in values],
            strings.starts_with: [value.startswith(literal) for value in values],
            strings.ends_with: [value.endswith(literal) for value in values],
            strings.sign_text: [sign(value, literal) for value in values],
        }
        for kernel, answers in expected.items():
            assert kernel(offsets, data, given).tolist() == answers, (kernel, literal)
            assert kernel.twin(offsets, data, given).tolist() == answers, (kernel, literal)
        assert strings.contains(offsets, data, given).tolist() == [literal in value for value in values]


def test_a_text_that_runs_into_the_next_is_not_found(monkeypatch):
    offsets, data = layout([b"xa", b"bx", b"ab", b"a", b"b"])
    for block in (1, 2, 1 << 20):
        monkeypatch.setattr(strings, "_BLOCK_BYTES", block)
        found = strings.contains(offsets, data, np.frombuffer(b"ab", np.uint8))
        assert found.tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("seed", range(4))
def test_columns_beside_each_other(seed):
    drawn = random.Random(f"columns {seed}")
    left = drawn_texts(drawn, 300)
    right = [
        value if drawn.random() < 0.3 else other
        for value, other in zip(left, drawn_texts(drawn, 300), strict=True)
    ]
    arguments = (*layout(left, np.int64), *layout(right, np.int32, b"???"))
    for run in (strings.equal_text_columns, strings.equal_text_columns.twin):
        assert run(*arguments).tolist() == [a == b for a, b in zip(left, right, strict=True)]
    for run in (strings.sign_text_columns, strings.sign_text_columns.twin):
        assert run(*arguments).tolist() == [sign(a, b) for a, b in zip(left, right, strict=True)]


@pytest.mark.parametrize("length", [1, 7, 8, 9, 40])
@pytest.mark.parametrize("shared", [0, 30], ids=["different", "alike but for the middle"])
def test_members_of_a_list(length, shared):
    drawn = random.Random(f"members {length} {shared}")
    draw = lambda: b"p" * shared + bytes(drawn.choices(b"abcdefgh", k=length)) + b"s" * shared
    members = sorted({draw() for _ in range(200)} | {b""} | {b"short"})
    values = [*members, *(draw() for _ in range(300)), *(value[:-1] for value in members), b"", b"shorter"]
    prepared = strings.prepare_texts(*layout(members, np.int64))
    for run in (strings.in_texts, strings.in_texts.twin):
        assert run(*layout(values), *prepared).tolist() == [value in members for value in values]
    back, is_short = int(prepared[5]), bool(prepared[6])
    assert back in strings._SAMPLE_DISTANCES
    assert is_short


def test_equal_texts_have_equal_hashes_wherever_they_lie():
    drawn = random.Random("hashes")
    values = drawn_texts(drawn, 200)
    one = strings.hash_texts(*layout(values, np.int32))
    for other in (
        strings.hash_texts(*layout(values, np.int64, b"somewhere else")),
        strings.hash_texts.twin(*layout(values, np.int32)),
    ):
        assert one.tolist() == other.tolist()
    assert len(set(one.tolist())) == len(set(values))
    samples = strings.hash_samples(*layout(values), 8).tolist()
    by_text = {value: number for value, number in zip(values, samples, strict=True)}
    assert [by_text[value] for value in values] == samples
