"""Which data files of a table can hold a key: one consolidated index of a column over many files.

Takes hashes of the distinct values of each data file; gives runs of sorted (hash, data file) pairs, and from these the data
files that may hold the values of a leaf. The rules: a data file that is in no run may hold anything; a run that is missing,
damaged or of another type covers nothing; and a run never changes: new files get runs of their own, and runs of about one
size are merged into a larger one, as in an LSM tree, which replaces them.

A run lists its data files in the order of their keys, and its name has a hash of that list: a scan of just these files knows
it without reading it.

Measured: `benchmarks/index_costs.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twostage.deletes.cache.memory import CACHE
from twostage.errors import MissingFileError, TwoStageError
from twostage.indexes.answer import Cost
from twostage.indexes.keys import distinct
from twostage.indexes.place import run_name, warn
from twostage.indexes.puffin import BadIndexError, BlobReader, IndexWriter, checked, read_footer
from twostage.indexes.sorted_pairs import PairSorter, SortedPairs, write_pairs
from twostage.indexes.wanted import wanted_of
from twostage.predicates.predicate import Compare, In
from twostage.schema import Primitive, parse_type
from twostage.storage import files
from twostage.storage.ranged_object import RangedObject
from twostage.storage.task_reads import TaskReads

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from twostage.indexes.keys import Hashes
    from twostage.indexes.place import IndexPlace, IndexRun, TableIndexes
    from twostage.indexes.puffin import Footer
    from twostage.metrics import Metrics
    from twostage.predicates.predicate import Leaf
    from twostage.task import ScanTask

FILES = "files"
"""The kind's name, in groups' names and in runs."""
KEY_BITS = 32
"""Of a hash: a look-up among 500 million pairs finds 0.1 wrong files."""
MEMBER_BYTES = 12
MAX_POINTS = 100_000
"""A list of more values is not looked up."""
FANOUT = 4
"""Runs of one level that are merged into one."""
_LEVEL_PAIRS = 2**16
_READ_BYTES = 4 * 2**20


def file_key(task: ScanTask) -> bytes:
    """Return what stands for a data file in a run: 12 bytes of a hash of its path, size, rows, sequence number and time."""
    facts = (
        task.path,
        files.modified(task.path),
        task.file_size,
        task.record_count,
        task.sequence_number,
    )
    return hashlib.blake2b(repr(facts).encode(), digest_size=MEMBER_BYTES).digest()


@dataclass(frozen=True, slots=True, eq=False)
class FileAnswer:
    """Which data files may hold a leaf's values.

    Attributes:
        covered: Data files that the runs know (`file_key`).
        holding: Those of them that may hold one of the values.
        cost: What was read.
    """

    covered: Collection[bytes]
    holding: frozenset[bytes]
    cost: Cost

    def may_hold(self, task: ScanTask) -> bool:
        """Tell whether a task's data file may hold one of the values; True for one that no run covers."""
        return self.may_hold_key(file_key(task))

    def may_hold_key(self, key: bytes) -> bool:
        """Tell the same of a data file by its `file_key`."""
        return key in self.holding or key not in self.covered


@dataclass(frozen=True, slots=True, eq=False)
class ScannedFiles:
    """The data files that a scan would open.

    Attributes:
        keys: Ascending (`file_key`).
        digest: Of them, as in the name of a run that has just these.
    """

    keys: list[bytes]
    digest: str

    @staticmethod
    def of(keys: Iterable[bytes]) -> ScannedFiles:
        """Return the files of some keys."""
        ascending = sorted(set(keys))
        return ScannedFiles(ascending, _digest(ascending))


def find_files(
    place: IndexPlace,
    indexes: TableIndexes,
    leaf: Leaf,
    metrics: Metrics,
    memory: int,
    scanned: ScannedFiles | None = None,
    bad: set[str] | None = None,
) -> FileAnswer | None:
    """Return which data files may hold the values that a leaf asks for.

    Args:
        place: Where the table's indexes are.
        indexes: What there is.
        leaf: ``=``, ``<=>`` or ``IN``; None is returned for any other, and for a column without runs.
        metrics: Gains ``indexes.ignored`` for a run that is bad.
        memory: Bytes that this process may keep of indexes.
        scanned: The data files in question, if they are known: spares reading the list of those of a run that has them all.
        bad: Names of runs that turned out bad, to which others are added: these are not read again, and warned of once.
    """
    bad = set() if bad is None else bad
    if not isinstance(leaf, Compare | In) or (isinstance(leaf, Compare) and leaf.op not in ("=", "<=>")):
        return None
    covered: list[frozenset[bytes]] = []
    holding: set[bytes] = set()
    cost = Cost()
    for run in indexes.runs_of(leaf.column.field_id):
        opened = None if run.name in bad else open_run(place, run, metrics, memory, scanned)
        if opened is None:
            bad.add(run.name)
            continue
        wanted = wanted_of(leaf, opened.type)
        if wanted is None or wanted.points is None or len(wanted.points) > MAX_POINTS:
            continue
        try:
            with _open(place, run.name) as file:
                reader = BlobReader(file, opened.footer, is_remote=place.is_remote)
                _, numbers = opened.pairs.find(wanted.points >> np.uint64(64 - KEY_BITS), reader)
            holding.update(opened.keys[number] for number in np.unique(numbers).tolist())
        except MissingFileError:  # merged into another one since it was listed
            continue
        except (ValueError, LookupError, MemoryError, TwoStageError) as error:
            warn(metrics, "ignored", f"an index was ignored: {error}")
            bad.add(run.name)
            continue
        covered.append(opened.members)
        cost += opened.first_cost + reader.cost
        opened.first_cost = Cost()
    if not covered:
        return None
    every = covered[0] if len(covered) == 1 else frozenset().union(*covered)
    return FileAnswer(every, frozenset(holding), cost)


@dataclass(slots=True, eq=False)
class OpenRun:
    """A run whose directory is read.

    Attributes:
        keys: The data files, by ordinal; `members` the same as a set.
        first_cost: What reading it took, until it was counted.
    """

    type: Primitive
    footer: Footer
    pairs: SortedPairs
    keys: list[bytes]
    first_cost: Cost
    members: frozenset[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.members = frozenset(self.keys)

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        return len(self.footer.tail) + 200 * len(self.keys) + 10_000


def open_run(
    place: IndexPlace, run: IndexRun, metrics: Metrics, memory: int, scanned: ScannedFiles | None = None
) -> OpenRun | None:
    """Return a run, from this process's memory if it is there; None if it is missing or bad."""
    key = ("index-run", place.path(run.name))
    with CACHE.exclusive(key):
        found: OpenRun | None = CACHE.get(key)
        if found is None:
            try:
                with _open(place, run.name) as file:
                    found = _read(file, run, scanned)
            except MissingFileError:
                return None
            except (ValueError, LookupError, MemoryError, TwoStageError) as error:
                warn(metrics, "ignored", f"an index was ignored: {error}")
                return None
            CACHE.put(key, found, found.nbytes, limit=memory)
    return found


@contextlib.contextmanager
def _open(place: IndexPlace, name: str) -> Iterator[pa.NativeFile | RangedObject]:
    path = place.path(name)
    with files.translate_errors(path, "index"):
        if place.is_remote:
            with TaskReads() as reads:
                yield RangedObject(reads, place.storage, path)  # without a request for its size
        else:
            with files.open_file(place.storage, path) as file:
                yield file


def _read(file: pa.NativeFile | RangedObject, run: IndexRun, scanned: ScannedFiles | None) -> OpenRun:
    footer, cost = read_footer(file)
    reader = BlobReader(file, footer)
    blob = reader.blob(run.field_id, FILES, "members")
    kind = parse_type(blob.properties["type"])
    if not isinstance(kind, Primitive) or blob.length % MEMBER_BYTES:
        raise BadIndexError("a run of another form")
    if scanned is not None and run.name == run_name(run.field_id, run.level, scanned.digest):
        keys = scanned.keys
        checked(b"".join(keys), blob.crc)
    else:
        data = reader.whole(blob)
        keys = [data[at : at + MEMBER_BYTES] for at in range(0, len(data), MEMBER_BYTES)]
    pairs = SortedPairs(run.field_id, FILES, reader)
    if pairs.key_bits != KEY_BITS:
        raise BadIndexError("a run of other hashes")
    return OpenRun(kind, footer, pairs, keys, cost + reader.cost)


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

    def begin(self, key: bytes) -> None:
        """Go on with another data file (`file_key`); one without values holds none of any."""
        self.members.append(key)

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
            writer.close()
        name = run_name(self._field_id, level_of(total), _digest(self.members))
        with made.open("rb") as stream:
            files.write_stream(place.storage, place.path(name), iter(lambda: stream.read(_READ_BYTES), b""))
        made.unlink()
        return name


def level_of(num_pairs: int) -> int:
    """Return the level of a run of so many pairs: each level holds `FANOUT` times as many.

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
    """Merge runs of one column into one, and remove them; return its name, None if one of them is gone or bad.

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
    members = sorted({key for one in found for key in one.keys if live is None or key in live})
    ordinals = {key: ordinal for ordinal, key in enumerate(members)}
    with tempfile.TemporaryDirectory(prefix="twostage-index-") as folder:
        count = sum(one.pairs.count for one in found)
        builder = RunBuilder(runs[0].field_id, found[0].type, Path(folder), budget, len(ordinals), count)
        builder.members = members
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
    """Add a run's pairs to another one, their data files numbered as there."""
    numbers = np.array([ordinals.get(key, -1) for key in opened.keys], np.int64)
    bits = np.uint64(opened.pairs.number_bits)
    with _open(place, run.name) as file:
        for pairs in opened.pairs.parts(BlobReader(file, opened.footer)):
            own = numbers[(pairs & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)]
            kept = own >= 0
            builder.add_pairs((pairs >> bits)[kept], own[kept].astype(np.uint64))


def _digest(members: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(members)).hexdigest()[:24]


def _distinct(parts: Iterator[Hashes]) -> Iterator[Hashes]:
    """Yield sorted pairs without repetitions: a data file may be in two runs."""
    for part in parts:
        yield distinct(part)
