"""Dense key tables: an array with one code for each number of a range.

Takes the array (which the caller owns), the range's lowest number as a 64-bit word, and keys as such words; sets
codes and gives bool answers. Code 0 is no key; of two codes for one key the one with the higher sequence number
stays. The rule: a word's place is its distance from the lowest one modulo 2**64, so that no difference of two
numbers overflows, and one whose place is past the array's end is no key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage_native import dense_reference as reference
from twostage_native._jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Codes = NDArray[Any]
    Integers = NDArray[np.int64]
    Bools = NDArray[np.bool_]


@kernel(reference.insert_dense)
def insert_dense(codes: Codes, lowest: np.uint64, words: Words, code: int, sequences: Integers) -> None:
    """Insert words, all of which lie in the range, under one code."""
    for row in range(len(words)):
        place = words[row] - lowest
        if sequences[codes[place]] < sequences[code]:
            codes[place] = code


@kernel(reference.probe_dense)
def probe_dense(codes: Codes, lowest: np.uint64, applies: Bools, words: Words) -> Bools:
    """Return which words are in the table under a code that applies."""
    length = np.uint64(len(codes))
    result = np.zeros(len(words), np.bool_)
    for row in range(len(words)):
        place = words[row] - lowest
        if place < length:
            result[row] = applies[codes[place]]
    return result
