"""The keys of a join over several columns, tested together.

Takes what `planner/TuplesOfKeys.java` writes: a set (`key_set.py`) of the hashes of all key tuples, by
Spark's SQL function ``xxhash64``. Tells which rows may have one of these tuples. The rule: every row that
joins passes; others pass with a probability of 2**-64 per tuple.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.errors import InternalError
from twostage.predicates.key_bloom import HASHED_AS_LONG
from twostage.predicates.key_set import FLOATS, has_long, prepared
from twostage.predicates.lanes import Numbers, Text, Wide
from twostage.schema import Primitive
from twostage_native import members, spark_bloom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from twostage.predicates.lanes import Lane
    from twostage.predicates.predicate import JoinKeySet
    from twostage.schema import Type

    Hashes = NDArray[np.uint64]

_SEED = 42
"""Of Spark's function."""


def takes_tuples(kind: Type) -> bool:
    """Return whether values of a type can be part of a tuple."""
    return str(kind) in (*HASHED_AS_LONG, *FLOATS, "string") or has_long(kind)


def may_be_tuples(
    keys: JoinKeySet, lanes: Sequence[Lane], kinds: Sequence[Type], num_rows: int, *, kernels: bool
) -> NDArray[np.bool_]:
    """Return for each row whether it may have one of the tuples; arbitrary where a value is NULL.

    Args:
        keys: The tuples' hashes.
        lanes: The columns' values, in the order of the tuples' parts.
        kinds: The columns' types.
        num_rows: Of each lane.
        kernels: Run compiled kernels; False: their NumPy twins.

    Raises:
        InternalError: A lane holds values of another type.
    """
    hashes = np.full(num_rows, _SEED, np.uint64)
    for lane, kind in zip(lanes, kinds, strict=True):
        hashes.flags.writeable = False
        hashes = _hashed(lane, kind, hashes, kernels=kernels)
    hashed = hashes.view(np.int64)
    hashed.flags.writeable = False
    run: Any = members.in_integers if kernels else members.in_integers.twin
    found: NDArray[np.bool_] = run(hashed, *prepared(keys))
    return found


def _hashed(lane: Lane, kind: Type, before: Hashes, *, kernels: bool) -> Hashes:
    of_numbers: Any = spark_bloom.number_hashes if kernels else spark_bloom.number_hashes.twin
    of_texts: Any = spark_bloom.text_hashes if kernels else spark_bloom.text_hashes.twin
    found: Hashes
    match lane:
        case Numbers(values) if str(kind) in HASHED_AS_LONG and values.dtype.kind == "i":
            found = of_numbers(values, before, HASHED_AS_LONG[str(kind)])
            return found
        case Numbers(values) if str(kind) in FLOATS and values.dtype.kind == "f":
            found = of_numbers(_java_bits(values), before, values.dtype.itemsize == 8)
            return found
        case Wide(words, scale) if isinstance(kind, Primitive) and has_long(kind) and scale == kind.scale:
            low = np.ascontiguousarray(words[:, 0])
            low.flags.writeable = False
            found = of_numbers(low, before, True)
            return found
        case Text(offsets, data, True) if str(kind) == "string":
            found = of_texts(offsets, data, before)
            return found
    raise InternalError("BAD_PREDICATE", f"No tuple has keys of type {kind}", stage="filter")


def _java_bits(values: NDArray[Any]) -> NDArray[Any]:
    """Return the 32 or 64 bits of floats as Java does, with a single NaN, and 0.0 for -0.0."""
    normal = values + values.dtype.type(0)
    normal[np.isnan(normal)] = np.nan
    bits: NDArray[Any] = normal.view(np.int64 if values.dtype.itemsize == 8 else np.int32)
    bits.flags.writeable = False
    return bits
