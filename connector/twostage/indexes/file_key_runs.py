"""Writes the runs of a table-wide index, and merges them: see `indexes.file_keys`, which reads them.

Takes hashes of the distinct values of data files, or runs; gives a new run at its place. The rules: a run is published whole or not at
all, the same data files give the same name, and merged runs are removed only when the new run is there.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twostage.errors import MissingFileError
from twostage.indexes.file_keys import FANOUT, FILES, KEY_BITS, digest_of, open_run, open_run_file
from twostage.indexes.file_stamp import NO_STAMP, is_replaced
from twostage.indexes.keys import distinct
from twostage.indexes.place import SUFFIX, run_name, warn
from twostage.indexes.puffin import BlobReader, IndexWriter
from twostage.indexes.sorted_pairs import PairSorter, write_pairs
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from twostage.indexes.file_keys import OpenRun
    from twostage.indexes.keys import Hashes
    from twostage.indexes.place import IndexPlace, IndexRun
    from twostage.metrics import Metrics
    from twostage.schema import Primitive

_LEVEL_PAIRS = 2**16
_READ_BYTES = 4 * 2**20


class RunBuilder:
    """Builds one run from the distinct values of some data files.

    Args:
        field_id: The column.
        kind: Its type.
        folder: For what exceeds the budget.
        budget: Bytes of memory.
        num_files: How many data files will be added, at most.
        num_pairs: About how many values they have together.
    """

    def __init__(
        self, field_id: int, kind: Primitive, folder: Path, budget: int, num_files: int, num_pairs: int
    ) -> None:
        self._field_id = field_id
        self._kind = kind
        self._number_bits = max(1, (num_files - 1).bit_length())
        self._sorter = PairSorter(KEY_BITS, self._number_bits, folder, budget, num_pairs)
        self._folder = folder
        self.members: list[bytes] = []
        self.stamps: list[bytes] = []

    def begin(self, key: bytes, stamp: bytes = NO_STAMP) -> None:
        """Start the next data file (`file_key`, `file_stamp`); without values it can hold none."""
        self.members.append(key)
        self.stamps.append(stamp)

    def add(self, hashes: Hashes) -> None:
        """Add hashes of the current data file's values, in any order, perhaps repeated."""
        keys = distinct(np.sort(hashes >> np.uint64(64 - KEY_BITS)))
        self.add_pairs(keys, np.full(len(keys), len(self.members) - 1, np.uint64))

    def add_pairs(self, keys: Hashes, ordinals: Hashes) -> None:
        """Add pairs of cut hashes and ordinals of `members`."""
        self._sorter.add(keys, ordinals)

    def publish(self, place: IndexPlace) -> str:
        """Write the run; return its name. The same data files give the same name.

        Raises:
            StorageError: It could not be written.
        """
        made = self._folder / f"run-{id(self):x}"
        with made.open("wb") as stream:
            writer = IndexWriter(stream, {"files": str(len(self.members))})
            parts = _distinct(self._sorter.sorted_parts())
            total = write_pairs(writer, self._field_id, FILES, parts, KEY_BITS, self._number_bits)
            writer.add(self._field_id, FILES, "members", b"".join(self.members), type=self._kind)
            is_stamped = any(stamp != NO_STAMP for stamp in self.stamps)
            if is_stamped:
                writer.add(self._field_id, FILES, "stamps", b"".join(self.stamps))
            writer.close()
        key = digest_of(self.members) + (digest_of(self.stamps)[:8] if is_stamped else "")
        name = run_name(self._field_id, level_of(total), key) + SUFFIX
        with made.open("rb") as stream:
            files.write_stream(place.storage, place.path(name), iter(lambda: stream.read(_READ_BYTES), b""))
        made.unlink()
        return name


def level_of(num_pairs: int) -> int:
    """Return the level of a run of this many pairs: each level holds `FANOUT` times as many.

    >>> level_of(1_000), level_of(2**18), level_of(2**28)
    (0, 1, 6)
    """
    level = 0
    while num_pairs >= _LEVEL_PAIRS * FANOUT ** (level + 1):
        level += 1
    return level


def merge_runs(
    place: IndexPlace,
    runs: Sequence[IndexRun],
    budget: int,
    metrics: Metrics,
    live: Collection[bytes] | None = None,
) -> str | None:
    """Merge runs of one column into one, and remove them; return its name, None if one of them is missing or bad.

    Args:
        place: Where they are.
        runs: Of one column.
        budget: Bytes of memory.
        metrics: Gains warnings.
        live: Data files to keep; None: all.
    """
    opened = [open_run(place, run, metrics, budget) for run in runs]
    found = [one for one in opened if one is not None]
    if len(found) < len(runs) or not found or any(one.type != found[0].type for one in found):
        return None
    stamps: dict[bytes, bytes] = {}
    replaced = set()
    for one in found:
        for key in one.keys:
            stamp = one.stamps.get(key, NO_STAMP)
            if is_replaced(
                stamps.get(key, NO_STAMP), stamp
            ):  # which of the two is there now is not known here
                replaced.add(key)
            elif stamp != NO_STAMP or key not in stamps:
                stamps[key] = stamp
    members = sorted(key for key in stamps if key not in replaced and (live is None or key in live))
    ordinals = {key: ordinal for ordinal, key in enumerate(members)}
    with tempfile.TemporaryDirectory(prefix="twostage-index-") as folder:
        count = sum(one.pairs.count for one in found)
        builder = RunBuilder(runs[0].field_id, found[0].type, Path(folder), budget, len(ordinals), count)
        builder.members = members
        builder.stamps = [stamps[key] for key in members]
        try:
            for run, one in zip(runs, found, strict=True):
                _copy(place, run, one, ordinals, builder)
        except (ValueError, LookupError, MissingFileError) as error:
            if not isinstance(error, MissingFileError):
                warn(metrics, "ignored", f"an index was ignored: {error}")
            return None
        name = builder.publish(place)
    for run in runs:
        if run.name != name:
            files.remove(place.storage, place.path(run.name))
    return name


def _copy(
    place: IndexPlace, run: IndexRun, opened: OpenRun, ordinals: dict[bytes, int], builder: RunBuilder
) -> None:
    """Add a run's pairs to the builder's, with its ordinals of their data files."""
    numbers = np.array([ordinals.get(key, -1) for key in opened.keys], np.int64)
    bits = np.uint64(opened.pairs.number_bits)
    with open_run_file(place, run.name) as file:
        for pairs in opened.pairs.parts(BlobReader(file, opened.footer)):
            own = numbers[(pairs & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)]
            kept = own >= 0
            builder.add_pairs((pairs >> bits)[kept], own[kept].astype(np.uint64))


def _distinct(parts: Iterator[Hashes]) -> Iterator[Hashes]:
    """Yield sorted pairs without repetitions: a data file may be in two runs."""
    for part in parts:
        yield distinct(part)
