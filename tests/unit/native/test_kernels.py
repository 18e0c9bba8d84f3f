"""Each kernel, compiled and as NumPy twin, against plain Python one row at a time."""

from __future__ import annotations

import importlib
import math
import os
import pkgutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import twostage_native
from figures import FULL, record
from twostage_native import compare, masks, members, strings
from twostage_native._jit import KERNELS, Kernel

pytest.importorskip("numba")

for _module in pkgutil.iter_modules(twostage_native.__path__):
    importlib.import_module(f"twostage_native.{_module.name}")

EXTREMES = [0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**62, -(2**53) - 1]
int64s = st.sampled_from(EXTREMES) | st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)
int32s = st.integers(-(2**31), 2**31 - 1) | st.integers(-20, 20)
wides = st.sampled_from([*EXTREMES, 2**64, 2**64 - 1, -(2**64), 2**127 - 1, -(2**127), 2**126]) | st.integers(
    -(2**127), 2**127 - 1
)
floats = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.5]) | st.floats(width=32)
texts = (
    st.sampled_from(
        [b"", b"a", b"ab", b"abcdefg", b"abcdefgh", b"abcdefghi", b"\x00", b"\xff", "é€".encode()]
    )
    | st.binary(max_size=20)
    | st.text("ab", max_size=20).map(str.encode)
    | st.text("ab", min_size=7, max_size=9).map(lambda text: ("abcdefgh" + text).encode())
    | st.integers(100, 300).map(lambda length: b"x" * length)
)
EXAMPLES = 5_000 if FULL else 200
seeded = settings(max_examples=EXAMPLES, deadline=None, derandomize=True)


def frozen(array):
    array.flags.writeable = False
    return array


def words(values):
    raw = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
    return frozen(np.frombuffer(raw, np.int64).reshape(-1, 2).copy())


def layout(values, dtype=np.int32, before=b"", after=b""):
    """Lay out texts as Arrow does, with other bytes around them."""
    offsets = np.cumsum([len(before), *map(len, values)]).astype(dtype)
    return frozen(offsets), frozen(np.frombuffer(before + b"".join(values) + after, np.uint8).copy())


def sign(left, right):
    return (left > right) - (left < right)


COMPARED: Counter[str] = Counter()
"""By kernel, answers that were right."""


@pytest.fixture(scope="module", autouse=True)
def _figures():
    """Put the comparisons on the scoreboard, at the end of the module."""
    yield
    record("R4", kernels=len(COMPARED), examples=EXAMPLES, comparisons=COMPARED.total())


def check(kernel: Kernel, arguments, expected):
    assert kernel.compiled(*arguments), f"{kernel.name} does not compile"
    for run in (kernel, kernel.twin):
        answer = run(*arguments)
        kinds = {"sign": np.int8, "hash": np.uint64}
        assert answer.dtype == kinds.get(kernel.name[:4], np.bool_)
        assert answer.tolist() == expected, run
    COMPARED[kernel.name] += 1


TESTED: set[str] = set()


def covers(*kernels):
    TESTED.update(kernel.name for kernel in kernels)
    return lambda function: function


@covers(compare.sign_wide)
@seeded
@given(st.lists(wides, max_size=40), wides)
def test_sign_wide(values, literal):
    low, high = (np.int64(word) for word in words([literal])[0])
    check(compare.sign_wide, (words(values), high, low), [sign(value, literal) for value in values])


@covers(compare.sign_wide_columns)
@seeded
@given(st.lists(st.tuples(wides, wides) | wides.map(lambda value: (value, value)), max_size=40))
def test_sign_wide_columns(pairs):
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    check(compare.sign_wide_columns, (words(left), words(right)), [sign(a, b) for a, b in pairs])


@covers(members.in_integers)
@seeded
@given(st.data(), st.lists(int64s, max_size=60))
def test_in_integers(data, listed):
    pool = st.sampled_from(listed) | int64s if listed else int64s
    values = data.draw(st.lists(pool, max_size=60))
    expected = [value in set(listed) for value in values]
    asked = members.prepare_integers(np.unique(np.array(listed, np.int64)))
    check(members.in_integers, (frozen(np.array(values, np.int64)), *asked), expected)
    narrow = data.draw(st.lists(int32s, max_size=30)) + [
        value for value in listed if -(2**31) <= value < 2**31
    ]
    expected = [value in set(listed) for value in narrow]
    check(members.in_integers, (frozen(np.array(narrow, np.int32)), *asked), expected)


@pytest.mark.parametrize("count", [8, 9, 1_000, 8_192, 70_000])
@pytest.mark.parametrize("stride", [1, 2**16, 2**40])
def test_in_integers_with_many_members(count, stride):
    listed = np.arange(count, dtype=np.int64) * stride - 2**62
    values = frozen(np.concatenate([listed, listed + 1, [2**63 - 1, -(2**63)]]))
    known = set(listed.tolist())
    asked = members.prepare_integers(frozen(listed))
    check(members.in_integers, (values, *asked), [value in known for value in values.tolist()])


@covers(members.in_wide)
@seeded
@given(st.data(), st.lists(wides, max_size=40))
def test_in_wide(data, listed):
    values = data.draw(st.lists(st.sampled_from(listed) | wides if listed else wides, max_size=40))
    asked = members.prepare_wide(words(sorted(set(listed))))
    check(members.in_wide, (words(values), *asked), [value in listed for value in values])


def test_in_wide_with_many_members():
    """Some of them differ in one word only."""
    listed = [number << shift for number in range(1, 3_000) for shift in (0, 40, 64, 100)]
    values = [*listed[::3], *(value + 1 for value in listed[::7]), *(-value for value in listed[::11])]
    known = set(listed)
    asked = members.prepare_wide(words(sorted(known)))
    check(members.in_wide, (words(values), *asked), [value in known for value in values])


SEARCHES = {
    strings.equal_text: lambda value, literal: value == literal,
    strings.sign_text: sign,
    strings.starts_with: bytes.startswith,
    strings.ends_with: bytes.endswith,
}


@covers(*SEARCHES)
@seeded
@given(st.lists(texts, max_size=30), st.data(), st.sampled_from([np.int32, np.int64]), st.binary(max_size=9))
def test_searches(values, data, dtype, around):
    literal = data.draw(st.sampled_from(values) | texts if values else texts)
    cut = data.draw(st.integers(0, len(literal)))
    for sought in (literal, literal[:cut], literal[cut:]):
        arguments = (*layout(values, dtype, around, around), frozen(np.frombuffer(sought, np.uint8).copy()))
        for kernel, meaning in SEARCHES.items():
            check(kernel, arguments, [meaning(value, sought) for value in values])
        found = strings.contains(*arguments)
        assert found.tolist() == [sought in value for value in values]


def test_contains_across_blocks(monkeypatch):
    monkeypatch.setattr(strings, "_BLOCK_BYTES", 5)
    values = [b"aab", b"abaab", b"", b"aa", b"baab", b"b" * 12 + b"aab", b"a"] * 3
    offsets, data = layout(values)
    for sought in (b"aab", b"b", b"ba", b"bb", b"aabaab", b"", b"zz"):
        literal = np.frombuffer(sought, np.uint8)
        assert strings.contains(offsets, data, literal).tolist() == [sought in value for value in values]


@covers(strings.hash_texts)
@seeded
@given(st.lists(texts, max_size=20), st.binary(max_size=9), st.sampled_from([np.int32, np.int64]))
def test_hash_texts(values, after, dtype):
    check(strings.hash_texts, layout(values, dtype, b"xyz", after), [hash_of(value) for value in values])


def hash_of(text):
    golden, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    mixed = len(text) * golden & mask
    for start in range(0, len(text) // 8 * 8 + 1, 8):
        mixed = (mixed ^ int.from_bytes(text[start : start + 8], "little")) * golden & mask
        mixed ^= mixed >> 32
    return mixed


@covers(strings.in_texts)
@seeded
@given(
    st.data(),
    st.lists(texts, max_size=40),
    st.sampled_from([b"", b"12345678"]),  # with it, none is shorter than a sample's word
    st.sampled_from([np.int32, np.int64]),
    st.binary(max_size=9),
)
def test_in_texts(data, listed, ahead, dtype, around):
    listed = [ahead + text for text in listed]
    values = data.draw(st.lists(st.sampled_from(listed) | texts if listed else texts, max_size=40))
    prepared = strings.prepare_texts(*layout(listed, np.int64))
    arguments = (*layout(values, dtype, around, around), *prepared)
    check(strings.in_texts, arguments, [value in listed for value in values])


def test_in_texts_with_many_members():
    listed = [b"user-%08d" % number for number in range(0, 20_000, 2)]
    values = [b"user-%08d" % number for number in range(5_000)] + [b"", b"user"]
    known = set(listed)
    arguments = (*layout(values), *strings.prepare_texts(*layout(listed, np.int64)))
    check(strings.in_texts, arguments, [value in known for value in values])


@pytest.mark.parametrize(
    "frame", ["%d", "%d-suffix-of-all", "prefix-of-all-%d", "prefix-of-all-%d-suffix-of-all"]
)
def test_in_texts_samples_them_where_they_differ(frame):
    listed = [(frame % number).encode() for number in range(10_000_000, 10_002_000, 2)]
    values = [(frame % number).encode() for number in range(9_999_000, 10_003_000)]
    prepared = strings.prepare_texts(*layout(listed, np.int64))
    back = int(prepared[5])
    samples = strings.hash_samples(*layout(listed, np.int64), back)
    assert len(np.unique(samples)) > len(listed) // 2
    known = set(listed)
    check(strings.in_texts, (*layout(values), *prepared), [value in known for value in values])


@covers(strings.equal_text_columns, strings.sign_text_columns)
@seeded
@given(
    st.lists(st.tuples(texts, texts) | texts.map(lambda text: (text, text)), max_size=30),
    st.sampled_from([np.int32, np.int64]),
    st.binary(max_size=9),
)
def test_text_columns(pairs, dtype, around):
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    arguments = (*layout(left, dtype, around), *layout(right, np.int32, b"", around))
    check(strings.equal_text_columns, arguments, [a == b for a, b in pairs])
    check(strings.sign_text_columns, arguments, [sign(a, b) for a, b in pairs])


GUARDED = """
import ctypes, mmap
import numpy as np
from twostage_native import strings

size = mmap.PAGESIZE
pages = mmap.mmap(-1, 2 * size)
start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
protect = ctypes.CDLL(None, use_errno=True).mprotect
protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
assert protect(start + size, size, 0) == 0

def at_the_edge(values):
    text = b"".join(values)
    pages[size - len(text) : size] = text
    data = np.frombuffer(pages, np.uint8, count=len(text), offset=size - len(text))
    return np.cumsum([0, *map(len, values)]).astype(np.int32), data

values = [b"abcdefgh", b"abc", b"abcdefghijk", b"", b"ab"]
offsets, data = at_the_edge(values)
plain = np.frombuffer(b"".join(values), np.uint8)
for sought in (b"ab", b"abc", b"abcdefgh", b"abcdefghijk", b"b", b""):
    literal = np.frombuffer(sought, np.uint8)
    for search in (strings.equal_text, strings.sign_text, strings.starts_with, strings.ends_with):
        assert search.compiled(offsets, data, literal)
        assert search(offsets, data, literal).tolist() == search.twin(offsets, plain, literal).tolist()
    assert strings.contains(offsets, data, literal).tolist() == [sought in value for value in values]
for kernel in (strings.equal_text_columns, strings.sign_text_columns):
    assert kernel(offsets, data, offsets, data).tolist() == kernel.twin(offsets, plain, offsets, plain).tolist()
for longer_than in (-1, 3):
    listed = [value for value in values if len(value) > longer_than]
    lengths = np.cumsum([0, *map(len, listed)])
    prepared = strings.prepare_texts(lengths, np.frombuffer(b"".join(listed), np.uint8))
    assert strings.in_texts.compiled(offsets, data, *prepared)
    assert strings.in_texts(offsets, data, *prepared).tolist() == [value in listed for value in values]
print("in bounds")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="mprotect is POSIX")
def test_no_byte_is_read_beyond_the_buffer():
    """The page after the text may not be read: a kernel that looks there dies."""
    run = [sys.executable, "-c", GUARDED]
    roots = str(Path(twostage_native.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": roots, "TWOSTAGE_JIT": "always"}
    done = subprocess.run(run, check=False, capture_output=True, text=True, env=environment, timeout=120)
    assert done.stdout.strip() == "in bounds", f"{done.returncode}: {done.stderr}"


def test_text_twin_in_blocks(monkeypatch):
    monkeypatch.setattr("twostage_native.reference._BLOCK_BYTES", 4)
    left = [b"", b"abcdefgh", b"ab", b"x", b"", b"same", b"longer text here"]
    right = [b"a", b"abcdefgi", b"ab", b"", b"", b"same", b"longer text hera"]
    answer = strings.sign_text_columns.twin(*layout(left), *layout(right))
    assert answer.tolist() == [sign(a, b) for a, b in zip(left, right, strict=True)]


def rank(value):
    """Order floats as Spark does: NaN last, zeros alike."""
    return (1, 0.0) if math.isnan(value) else (0, value + 0.0)


@seeded
@given(st.lists(st.tuples(floats, floats), max_size=40), floats, st.sampled_from([np.float32, np.float64]))
def test_orders_of_floats(pairs, literal, dtype):
    left, right = (np.array([pair[side] for pair in pairs], dtype) for side in (0, 1))
    meanings = {
        compare.equal: lambda a, b: rank(a) == rank(b),
        compare.less: lambda a, b: rank(a) < rank(b),
        compare.less_equal: lambda a, b: rank(a) <= rank(b),
    }
    for order, meaning in meanings.items():
        assert order(left, right).tolist() == [
            meaning(float(a), float(b)) for a, b in zip(left, right, strict=True)
        ]
        assert order(left, np.float64(literal)).tolist() == [meaning(float(a), literal) for a in left]
    bits = members.canonical_bits(left)
    for a, a_bits in zip(left.tolist(), bits.tolist(), strict=True):
        for b, b_bits in zip(left.tolist(), bits.tolist(), strict=True):
            assert (a_bits == b_bits) == (rank(a) == rank(b))


@seeded
@given(st.lists(st.booleans(), max_size=70), st.integers(0, 20), st.integers(0, 3))
def test_unpack_bits(flags, before, spare):
    number = sum(1 << (before + index) for index, flag in enumerate(flags) if flag) | ((1 << before) - 1)
    size = (before + len(flags) + 7) // 8 + spare
    bits = np.frombuffer(number.to_bytes(size, "little"), np.uint8)
    assert masks.unpack_bits(bits, before, len(flags)).tolist() == flags


def test_every_kernel_is_compared():
    ours = {"twostage_native.compare", "twostage_native.members", "twostage_native.strings"}
    assert {name for name, kernel in KERNELS.items() if kernel.source.__module__ in ours} == TESTED
    assert all(callable(kernel.twin) for kernel in KERNELS.values())
