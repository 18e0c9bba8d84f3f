"""Which data files of a table can hold a key: one consolidated index of a column over many files.

Takes hashes of the distinct values of each data file; gives runs of sorted (hash, data file) pairs, and from these the data
files that may hold the values of a leaf. The rules: a data file that is in no run may hold anything; a run that is missing,
damaged or of another type covers nothing, nor does a run cover a local file that was replaced; and a run never changes: new files get runs of their own, and runs of about one
size are merged into a larger one, as in an LSM tree, which replaces them.

A run lists its data files in the order of their keys, and its name has a hash of that list, followed by one of local files' stamps:
a scan of just these files knows the list without reading it.

Measured: `benchmarks/index_costs.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from twostage.deletes.cache.memory import CACHE
from twostage.errors import MissingFileError, TwoStageError
from twostage.indexes.answer import LookupCost
from twostage.indexes.file_stamp import NO_STAMP, STAMP_BYTES, file_stamp, is_replaced, version_stamp
from twostage.indexes.place import run_name, warn
from twostage.indexes.puffin import BadIndexError, BlobReader, checked, read_footer
from twostage.indexes.sorted_pairs import SortedPairs
from twostage.indexes.wanted import wanted_of
from twostage.metrics import Metrics
from twostage.predicates.predicate import Compare, In
from twostage.schema import Primitive, parse_type
from twostage.storage import files
from twostage.storage.driver_reads import driver_reads
from twostage.storage.ranged_object import RangedObject
from twostage.storage.ranges import cost_of

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

    import pyarrow as pa

    from twostage.indexes.place import IndexPlace, IndexRun, TableIndexes
    from twostage.indexes.puffin import PuffinFooter
    from twostage.predicates.predicate import Leaf
    from twostage.task import ScanTask

FILES = "files"
"""The kind's name, in groups' names and in runs."""
KEY_BITS = 32
"""Bits of a hash: a look-up among 500 million pairs finds 0.1 wrong files."""
MEMBER_BYTES = 12
MAX_POINTS = 100_000
"""Values of an IN list; a longer one is not looked up."""
FANOUT = 4
"""Runs of one level that are merged into one."""


def file_key(task: ScanTask) -> bytes:
    """Return a data file's key in runs: 12 bytes of a hash of its path, size, rows, sequence number and time."""
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
    cost: LookupCost

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
        stamps: By key, of local files (`file_stamp`), and of objects whose ETags are known (`version_stamp`).
        digest: Of them, as in the name of a run that has just these.
    """

    keys: list[bytes]
    digest: str
    stamps: Mapping[bytes, bytes] = field(default_factory=dict)

    @staticmethod
    def of(keys: Iterable[bytes], stamps: Mapping[bytes, bytes] | None = None) -> ScannedFiles:
        """Return the files of some keys, with the stamps of those that have one."""
        ascending = sorted(set(keys))
        return ScannedFiles(ascending, digest_of(ascending), stamps or {})

    @staticmethod
    def at(paths: Mapping[bytes, str], versions: Mapping[str, bytes] | None = None) -> ScannedFiles:
        """Return the files of some keys, which are at these paths now.

        Args:
            paths: By key.
            versions: By path, the ETags that are known of objects.
        """
        known = versions or {}
        stamps = {key: file_stamp(path) for key, path in paths.items()}
        stamps |= {key: version_stamp(known[path]) for key, path in paths.items() if path in known}
        return ScannedFiles.of(paths, {key: stamp for key, stamp in stamps.items() if stamp != NO_STAMP})


def find_files(
    place: IndexPlace,
    indexes: TableIndexes,
    leaf: Leaf,
    metrics: Metrics,
    memory: int,
    scanned: ScannedFiles | None = None,
    bad: set[str] | None = None,
) -> FileAnswer | None:
    """Return which data files may hold a leaf's values.

    Args:
        place: Where the table's indexes are.
        indexes: What there is.
        leaf: ``=``, ``<=>`` or ``IN``; None is returned for any other, and for a column without runs.
        metrics: Gains ``indexes.ignored`` for a run that is bad.
        memory: Bytes that this process may keep of indexes.
        scanned: The data files in question, if known: then the list of a run of just these need not be read.
        bad: Names of runs that turned out bad, added to here: they are not read again, and warned about once.
    """
    bad = set() if bad is None else bad
    if not isinstance(leaf, Compare | In) or (isinstance(leaf, Compare) and leaf.op not in ("=", "<=>")):
        return None
    runs = [run for run in indexes.runs_of(leaf.column.field_id) if run.name not in bad]

    def ask(run: IndexRun) -> tuple[FileAnswer | None, Metrics]:
        own = Metrics()
        return _find_in(place, run, leaf, own, memory, scanned), own

    parallel = min(len(runs), cost_of(None, None, is_remote=place.is_remote).parallel)
    if parallel > 1:
        with ThreadPoolExecutor(parallel, "twostage-index") as pool:
            asked = list(pool.map(ask, runs))
    else:
        asked = [ask(run) for run in runs]
    found = []
    for run, (answer, own) in zip(runs, asked, strict=True):
        metrics.merge(own)
        if own.counters["indexes.ignored"]:
            bad.add(run.name)
        found += [] if answer is None else [answer]
    if len(found) < 2:
        return found[0] if found else None
    return FileAnswer(
        frozenset().union(*(answer.covered for answer in found)),
        frozenset().union(*(answer.holding for answer in found)),
        sum((answer.cost for answer in found), LookupCost()),
    )


def _find_in(
    place: IndexPlace,
    run: IndexRun,
    leaf: Compare | In,
    metrics: Metrics,
    memory: int,
    scanned: ScannedFiles | None,
) -> FileAnswer | None:
    """Return what one run says of a leaf; None if it does not answer."""
    opened = open_run(place, run, metrics, memory, scanned)
    if opened is None:
        return None
    wanted = wanted_of(leaf, opened.type)
    if wanted is None or wanted.points is None or len(wanted.points) > MAX_POINTS:
        return None
    try:
        with open_run_file(place, run.name) as file:
            reader = BlobReader(file, opened.footer, is_remote=place.is_remote)
            _, numbers = opened.pairs.find(wanted.points >> np.uint64(64 - KEY_BITS), reader)
        holding = frozenset(opened.keys[number] for number in np.unique(numbers).tolist())
    except MissingFileError:  # merged into another one since it was listed
        return None
    except (ValueError, LookupError, MemoryError, TwoStageError) as error:
        CACHE.drop(_cache_key(place, run))  # it may be built again
        warn(metrics, "ignored", f"an index was ignored: {error}")
        return None
    replaced = opened.replaced(scanned)
    cost = opened.first_cost + reader.cost
    opened.first_cost = LookupCost()
    return FileAnswer(opened.members - replaced if replaced else opened.members, holding, cost)


@dataclass(slots=True, eq=False)
class OpenRun:
    """A run whose directory is read.

    Attributes:
        keys: The data files, by ordinal; `members` the same as a set.
        stamps: By data file (`file_stamp`, `version_stamp`).
        first_cost: What opening it took, until that is counted.
    """

    type: Primitive
    footer: PuffinFooter
    pairs: SortedPairs
    keys: list[bytes]
    stamps: Mapping[bytes, bytes]
    first_cost: LookupCost
    members: frozenset[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.members = frozenset(self.keys)

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        return len(self.footer.tail) + 200 * (len(self.keys) + len(self.stamps)) + 10_000

    def replaced(self, scanned: ScannedFiles | None) -> frozenset[bytes]:
        """Return the data files that were replaced since."""
        now = scanned.stamps if scanned is not None and self.stamps else {}
        return frozenset(
            key for key, stamp in now.items() if is_replaced(self.stamps.get(key, NO_STAMP), stamp)
        )


def open_run(
    place: IndexPlace, run: IndexRun, metrics: Metrics, memory: int, scanned: ScannedFiles | None = None
) -> OpenRun | None:
    """Return a run, from this process's memory if it is there; None if it is missing or bad."""
    key = _cache_key(place, run)
    with CACHE.exclusive(key):
        found: OpenRun | None = CACHE.get(key)
        if found is None:
            try:
                found = read_run(place, run, scanned)
            except MissingFileError:
                return None
            except (ValueError, LookupError, MemoryError, TwoStageError) as error:
                warn(metrics, "ignored", f"an index was ignored: {error}")
                return None
            CACHE.put(key, found, found.nbytes, limit=memory)
    return found


def _cache_key(place: IndexPlace, run: IndexRun) -> Hashable:
    return "index-run", place.store, place.path(run.name)


def read_run(place: IndexPlace, run: IndexRun, scanned: ScannedFiles | None = None) -> OpenRun:
    """Read a run's directory.

    Raises:
        MissingFileError: It is not there any more.
        StorageError: The store failed.
        CorruptFileError: It is not a usable run; so do ValueError and LookupError.
    """
    with open_run_file(place, run.name) as file:
        return _read(file, run, scanned)


@contextlib.contextmanager
def open_run_file(place: IndexPlace, name: str) -> Iterator[pa.NativeFile | RangedObject]:
    """Open a run's file for ranged reads."""
    path = place.path(name)
    with files.translate_errors(path, "index"):
        if place.is_remote:
            with driver_reads() as reads:
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
    if scanned is not None and run.name.startswith(run_name(run.field_id, run.level, scanned.digest)):
        keys = scanned.keys
        checked(b"".join(keys), blob.crc)
    else:
        data = reader.whole(blob)
        keys = [data[at : at + MEMBER_BYTES] for at in range(0, len(data), MEMBER_BYTES)]
    pairs = SortedPairs(run.field_id, FILES, reader)
    if pairs.key_bits != KEY_BITS:
        raise BadIndexError("a run of other hashes")
    stamps: dict[bytes, bytes] = {}
    if (run.field_id, FILES, "stamps") in footer.blobs:
        data = reader.whole(reader.blob(run.field_id, FILES, "stamps"))
        if len(data) != STAMP_BYTES * len(keys):
            raise BadIndexError("a run of another form")
        each = (data[at : at + STAMP_BYTES] for at in range(0, len(data), STAMP_BYTES))
        stamps = {key: stamp for key, stamp in zip(keys, each, strict=True) if stamp != NO_STAMP}
    return OpenRun(kind, footer, pairs, keys, stamps, cost + reader.cost)


def digest_of(members: Iterable[bytes]) -> str:
    """Return the digest of a list of data files or stamps in a run's name."""
    return hashlib.sha256(b"".join(members)).hexdigest()[:24]
