"""Elements of lists and keys of maps: in arrays with any offset, whatever lies behind a NULL list."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from twostage.errors import InternalError
from twostage.predicates.elements import any_of_each, elements_of


def cut(array, start, count):
    """Rows as they come from another place of the file, in the middle of an array."""
    return array.slice(start, count)


@pytest.mark.parametrize("kind", [pa.list_(pa.int32()), pa.large_list(pa.int32())], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_elements_are_those_of_the_rows(kind, seed):
    rng = random.Random(seed)
    rows = [
        None if rng.random() < 0.2 else [rng.choice([None, 1, 2, 3]) for _ in range(rng.randrange(4))]
        for _ in range(50)
    ]
    for start, count in ((0, 50), (7, 20), (49, 1), (50, 0), (0, 0)):
        offsets, elements = elements_of(cut(pa.array(rows, kind), start, count))
        assert len(offsets) == count + 1 or count == 0
        found = [elements.to_pylist()[a:b] for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
        assert found == [row or [] for row in rows[start : start + count]]


def test_keys_of_a_map_are_its_elements():
    array = pa.array([[("x", 1)], None, [("y", 2), ("z", None)], []], pa.map_(pa.string(), pa.int64()))
    offsets, keys = elements_of(array[1:])
    assert offsets.tolist() == [0, 0, 2, 2]
    assert keys.to_pylist() == ["y", "z"]


def test_a_null_list_may_have_elements_behind_it():
    array = pa.ListArray.from_arrays(
        pa.array([0, 2, 3], pa.int32()), pa.array([1, 2, 3]), mask=pa.array([True, False])
    )
    offsets, elements = elements_of(array)
    assert offsets.tolist() == [0, 2, 3]
    assert elements.to_pylist() == [1, 2, 3]


def test_flags_of_any_element():
    flags = np.array([True, False, False, True, True])
    assert any_of_each(flags, np.array([0, 0, 1, 3, 5, 5])).tolist() == [False, True, False, True, False]
    assert any_of_each(np.zeros(0, np.bool_), np.array([0])).tolist() == []


def test_other_arrays_have_no_elements():
    with pytest.raises(InternalError, match="BAD_PREDICATE"):
        elements_of(pa.array([1, 2]))
