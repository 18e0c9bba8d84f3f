"""What ``advise collect`` keeps between calls: samples of a table's columns, and the data files they represent.

Takes a place for indexes or a local file; returns `Collected`, which is stored in the JSON of
`TableColumns.json`, under ``collected``. The rule: what cannot be parsed counts as missing, and is collected
again.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.advisor.column_sample import ColumnSample
from twostage.errors import NotFoundError, TwoStageError
from twostage.indexes.kind import CountedValues
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from twostage.advisor.column_metadata import TableColumns
    from twostage.indexes.place import IndexPlace

NAME = "column-metadata.json"
"""The file beside the indexes."""
KEY = "collected"
MAX_BYTES = 256 * 2**20
"""A larger file is not ours: 1,000 columns and 1,000,000 data files take 55 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Samples of a table's columns.

    Attributes:
        data_files: Hashes of the data files that the samples represent, read or not: uint64, ascending.
        samples: By field id.
    """

    data_files: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    samples: Mapping[int, ColumnSample] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        packed = zlib.compress(self.data_files.astype("<u8").tobytes())
        return {
            "data_files": base64.b64encode(packed).decode("ascii"),
            "samples": {str(field_id): one.as_dict() for field_id, one in self.samples.items()},
        }

    @staticmethod
    def of_dict(raw: Any) -> Collected:
        """Parse the output of `as_dict`.

        Raises:
            ValueError: It is something else.
        """
        try:
            limited = zlib.decompressobj()
            packed = limited.decompress(base64.b64decode(raw["data_files"], validate=True), MAX_BYTES)
            if not limited.eof:
                raise ValueError("no samples of columns: the names of data files are cut short")
            return Collected(
                data_files=np.unique(np.frombuffer(packed, "<u8").astype(np.uint64)),
                samples={
                    int(field_id): ColumnSample.of_dict(one) for field_id, one in raw["samples"].items()
                },
            )
        except (KeyError, TypeError, AttributeError, binascii.Error, zlib.error) as error:
            raise ValueError(f"no samples of columns: {error}") from None


def kept_in(place: IndexPlace | None, out: str | None = None) -> Collected | None:
    """Return what was kept about a table, in the file `out` or beside its indexes; None if unusable."""
    try:
        if out is not None:
            text = Path(out).read_bytes()
        elif place is not None:
            text = files.read_all(place.storage, place.path(NAME), limit=MAX_BYTES)
        else:
            return None
        raw = json.loads(text)
        return Collected.of_dict(raw[KEY]) if isinstance(raw, dict) and KEY in raw else None
    except (NotFoundError, TwoStageError, OSError, ValueError):
        return None


def counted_values(place: IndexPlace) -> dict[int, CountedValues]:
    """Return the counts of distinct values of each column that has values; empty if none were kept."""
    kept = kept_in(place)
    found = {}
    for field_id, sample in () if kept is None else kept.samples.items():
        entries = sum(group for group, _ in sample.row_groups)
        distinct = sum(group for _, group in sample.row_groups)
        all_distinct, _ = sample.distinct
        if entries and distinct and all_distinct:
            number = len(sample.row_groups)
            found[field_id] = CountedValues(
                entries=entries / number,
                distinct=distinct / number,
                all_entries=max(entries, sample.entries),
                all_distinct=all_distinct,
            )
    return found


def with_samples(metadata: TableColumns, collected: Collected) -> str:
    """Return the JSON of a table's metadata, with what the next call can continue from."""
    return json.dumps({**json.loads(metadata.json()), KEY: collected.as_dict()}, indent=1)


def keep(place: IndexPlace, text: str) -> str:
    """Write `with_samples` beside a table's indexes; return where.

    Raises:
        StorageError: No access, no network, no space.
    """
    path = place.path(NAME)
    files.write_all(place.storage, path, text.encode())
    return path
