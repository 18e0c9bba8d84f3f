"""Arrow's bitmaps as bools.

Takes the bytes of a bitmap, the bit that row 0 is at, and the number of rows; returns one bool a row. Plain
NumPy, which takes 0.05 ns a row while Numba's loop takes 0.66. (Positions of set rows stay
`np.flatnonzero` for the same reason: 0.23-0.45 ns a row against 0.42.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def unpack_bits(bits: NDArray[np.uint8], offset: int, length: int) -> NDArray[np.bool_]:
    """Return `length` bits (least significant first) from bit `offset` on, one bool each.

    >>> unpack_bits(np.array([0b0110], np.uint8), 1, 3)
    array([ True,  True, False])
    """
    first = offset // 8
    touched = bits[first : (offset + length + 7) // 8]
    unpacked = np.unpackbits(touched, bitorder="little")
    return unpacked[offset - 8 * first :][:length].view(np.bool_)
