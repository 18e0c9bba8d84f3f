"""A Bloom filter of a join's keys, as Spark writes one.

Takes the bytes of Spark's ``BloomFilter.writeTo`` (``common/sketch``: big-endian version 1, number of hashes, number of
words, words; or version 2, with a seed before the number of words), possibly zlib-compressed; tells which
values of a lane may be keys.
"""

from __future__ import annotations

import functools
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.errors import InternalError
from twostage.predicates.lanes import Numbers, Text
from twostage_native import spark_bloom

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twostage.predicates.lanes import Lane
    from twostage.predicates.predicate import KeyBloom
    from twostage.schema import Type

HASHED_AS_LONG = {"int": False, "date": False, "long": True, "timestamp": True, "timestamptz": True}
"""Integer types: whether Spark hashes 64 bits or 32."""

_ZLIB = b"\x78"
"""First byte of compressed data; a version number begins with 0."""


def takes_bloom(kind: Type) -> bool:
    """Return whether we hash values of a type as Spark does."""
    return str(kind) in HASHED_AS_LONG or str(kind) == "string"


def may_be_keys(bloom: KeyBloom, lane: Lane, kind: Type, *, kernels: bool) -> NDArray[np.bool_]:
    """Return for each value of a lane whether it may be one of the keys; arbitrary where it is NULL.

    Raises:
        InternalError: The bytes are not a filter of a known version, or the lane holds values of another
            type.
    """
    words, num_hashes, seed, version = _read(bloom.data)
    form = (words, num_hashes, seed, version)
    result: NDArray[np.bool_]
    match lane:
        case Numbers(values) if str(kind) in HASHED_AS_LONG and values.dtype.kind == "i":
            run: Any = spark_bloom.numbers_in_bloom
            run = run if kernels else run.twin
            result = run(values, *form, HASHED_AS_LONG[str(kind)])
            return result
        case Text(offsets, data, True):
            run = spark_bloom.texts_in_bloom
            run = run if kernels else run.twin
            result = run(offsets, data, *form)
            return result
    raise InternalError("BAD_PREDICATE", f"No keys of type {kind} are hashed", stage="filter")


@functools.lru_cache(maxsize=16)
def _read(data: bytes) -> tuple[NDArray[np.uint64], int, int, int]:
    try:
        if data[:1] == _ZLIB:
            data = zlib.decompress(data)
        version, num_hashes = struct.unpack_from(">ii", data)
        seed = struct.unpack_from(">i", data, 8)[0] if version == 2 else 0
        start = 16 if version == 2 else 12
        (count,) = struct.unpack_from(">i", data, start - 4)
        words = np.frombuffer(data, ">u8", count, start).astype(np.uint64)
    except (struct.error, ValueError, zlib.error) as error:
        raise InternalError("BAD_PREDICATE", f"No Bloom filter: {error}", stage="filter") from error
    if version not in (1, 2) or count <= 0 or num_hashes <= 0:
        raise InternalError("BAD_PREDICATE", f"No Bloom filter of version {version}", stage="filter")
    words.flags.writeable = False
    return words, num_hashes, seed, version
