"""Text columns that pyarrow decodes as dictionary arrays, and the checks that it leaves out.

Takes dictionary arrays as pyarrow's Parquet reader returns them; returns one array whose codes and text are
valid. The rule: None if they are not, and the caller then reads the column without dictionaries, which
reports the
    damage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.formats.parquet.schema_tree import BYTE_ARRAY
from twostage.formats.promotion import MAX_TEXT_BYTES

if TYPE_CHECKING:
    from twostage.formats.parquet.schema_tree import Leaf


def is_text(leaf: Leaf) -> bool:
    """Tell whether pyarrow decodes a leaf to dictionary arrays on request: strings and byte strings outside of lists."""
    is_number = leaf.logical is not None and leaf.logical.name == "decimal"
    return leaf.physical == BYTE_ARRAY and leaf.max_repetition == 0 and not is_number


def decode_if_small(array: pa.Array) -> pa.Array | None:
    """Return the values of a dictionary array; None if they take more than `MAX_TEXT_BYTES`."""
    size = pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0
    return array.dictionary_decode() if size <= MAX_TEXT_BYTES else None


def checked_codes(column: pa.ChunkedArray) -> pa.Array | None:
    """Return a column of dictionary arrays as one array; None if a code has no value, or text is not UTF-8.

    pyarrow passes codes on unchecked; looking up one beyond the dictionary would read out of bounds.
    """
    try:
        for chunk in column.chunks:
            if isinstance(chunk, pa.DictionaryArray):
                chunk.dictionary.validate(full=True)
            if not _is_within(chunk):
                chunk.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_within(array: pa.Array) -> bool:
    """Tell whether all codes, also those of NULLs, have a value: in a sixth of the time of Arrow's `validate`."""
    if not isinstance(array, pa.DictionaryArray) or array.indices.type != pa.int32():
        return False
    codes = np.frombuffer(array.indices.buffers()[1] or b"", np.uint32)[array.offset :][: len(array)]
    return len(codes) == len(array) and int(codes.max(initial=0)) < len(array.dictionary)
