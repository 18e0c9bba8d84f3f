"""The contents of a task's remote delete files, each requested once, before it is needed.

Takes delete files; returns their bytes. Data files that share a delete file share its request, and so do
deletion vectors that are close together in one Puffin file. The rule: a thread that waits here holds no lock,
or keeps its turn, because other data files of the task are read meanwhile.
"""

from __future__ import annotations

from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.storage import files
from twostage.storage.location import parse_location
from twostage.storage.ranges import cost_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from twostage.storage.pending_ranges import PendingRanges
    from twostage.storage.task_reads import TaskReads
    from twostage.task import DataFileWithDeletes, DeleteFile, Storage, TableContext

MAX_WHOLE_FILE_BYTES = 8 * 2**20
"""Size up to which a file is fetched in one request: the wanted columns are most of it anyway."""
MAX_LOADED_BYTES = 64 * 2**20
"""The same for files whose keys are all loaded, which hold little else."""
LOADED_BUDGET_DIVISOR = 16
"""Such a file may take the task's memory divided by this, if that exceeds `MAX_WHOLE_FILE_BYTES`; the files
fetched ahead, twice that."""
MAX_VECTOR_BYTES = 4 * 2**20
"""Of deletion vectors of one Puffin file that are requested together, for this data file and later ones."""
MAX_BYTES_AHEAD = 32 * 2**20
"""Bytes to fetch ahead of delete files that are read one after another."""


@dataclass(frozen=True, slots=True)
class DeletesAhead:
    """How a task that reads several data files at the same time reads its delete files."""

    contents: DeleteContents
    keep_turn: Callable[[], AbstractContextManager[None]]
    """Within its block no other data file is read; for threads that hold a lock."""


@dataclass(slots=True)
class _Vectors:
    """A Puffin file: the ranges that the task will need, in the order of its data files, and those requested."""

    ranges: dict[tuple[int, int], None] = field(default_factory=dict)
    """In order, the ranges that have not been requested."""
    users: Counter[tuple[int, int]] = field(default_factory=Counter)
    """By range: how many data files, or parts of one, have not been read yet."""
    asked: dict[tuple[int, int], tuple[PendingRanges, int]] = field(default_factory=dict)
    """By range: the read that it is part of, and its index there."""


class DeleteContents:
    """The delete files that a task has requested.

    Args:
        reads: The task's reads.
        storage: The scan's storage.
        tasks: The task's data files.
        memory_budget: The task's memory, in bytes.
    """

    def __init__(
        self,
        reads: TaskReads,
        storage: Storage,
        tasks: Iterable[DataFileWithDeletes],
        memory_budget: int = 0,
    ) -> None:
        self._reads = reads
        self._largest_loaded = max(
            MAX_WHOLE_FILE_BYTES, min(MAX_LOADED_BYTES, memory_budget // LOADED_BUDGET_DIVISOR)
        )
        self._storage = storage
        self._whole: dict[str, PendingRanges] = {}
        self._users: Counter[str] = Counter()
        """By positional delete file: how many data files have not been read yet."""
        self._vectors: dict[str, _Vectors] = {}
        for task in tasks:
            for delete in task.deletes:
                if delete.content == "vector" and self.has(delete):
                    found = self._vectors.setdefault(delete.path, _Vectors())
                    place = delete.content_offset, delete.content_size
                    found.ranges[place] = None
                    found.users[place] += 1
                elif delete.content == "position":
                    self._users[delete.path] += 1

    @staticmethod
    def has(delete: DeleteFile) -> bool:
        """Tell whether a delete file is remote: local ones are read when they are needed."""
        return not parse_location(delete.path).is_local

    @staticmethod
    def is_sound(delete: DeleteFile) -> bool:
        """Tell whether the manifest says that a vector is small and within its file; others fail when read."""
        return _is_sound((delete.content_offset, delete.content_size), delete.file_size)

    def ask(self, deletes: Iterable[DeleteFile], *, are_loaded: bool = False) -> None:
        """Request the small ones of these delete files, each whole; returns at once.

        Args:
            deletes: The files.
            are_loaded: Whether all of their keys are read: then larger files count as small.
        """
        largest = self._largest_loaded if are_loaded else MAX_WHOLE_FILE_BYTES
        for delete in deletes:
            if delete.path not in self._whole and self._is_small(delete, largest):
                file = self._reads.file(self._storage, delete.path)
                limit = 2 * largest
                self._whole[delete.path] = self._reads.ask_whole(file, limit, expected=delete.file_size)

    def ask_beside(self, storage: Storage, path: str, limit: int, expected: int) -> PendingRanges:
        """Request a whole file that replaces delete files and has its own storage; returns at once.

        Args:
            storage: The file's storage.
            path: Its location.
            limit: Bytes; a larger file raises `ResourceLimitError`.
            expected: The bytes that it probably does not exceed.
        """
        return self._reads.ask_whole(self._reads.file(storage, path), limit, expected=expected)

    def await_whole(self, deletes: Sequence[DeleteFile]) -> None:
        """Wait for the small ones of these delete files, which are loaded next by `in_order` without waiting.

        If they exceed the bytes that may be fetched ahead, only the first ones are waited for: the others
        arrive while keys are inserted.

        Raises:
            MissingFileError: A file is not in storage.
            StorageError: The transport failed.
        """
        first: list[DeleteFile] = []
        size = 0
        for delete in deletes:
            size += delete.file_size if self._is_small(delete, self._largest_loaded) else 0
            if size > self._most_ahead(are_loaded=True):
                break
            first.append(delete)
        self.ask(first, are_loaded=True)
        for pending in [self._whole[delete.path] for delete in first if delete.path in self._whole]:
            pending.result()

    def forget(self, delete: DeleteFile) -> None:
        """Drop a file's bytes, which were decoded or are not needed."""
        # Another data file's thread may still wait for them: they are freed with the last one.
        self._whole.pop(delete.path, None)

    def leave(self, task: DataFileWithDeletes) -> None:
        """Drop the positions of a data file that was read or pruned, unless another data file needs them."""
        for delete in task.deletes:
            if delete.content == "position":
                self._users[delete.path] -= 1
                if not self._users[delete.path]:
                    self.forget(delete)
            elif delete.content == "vector" and delete.path in self._vectors:
                vectors, place = self._vectors[delete.path], (delete.content_offset, delete.content_size)
                vectors.users[place] -= 1
                if not vectors.users[place]:
                    vectors.ranges.pop(place, None)
                    vectors.asked.pop(place, None)

    def in_order(
        self, deletes: Sequence[DeleteFile], *, are_loaded: bool = False
    ) -> Generator[tuple[DeleteFile, memoryview | None], None, None]:
        """Yield delete files with their bytes; None for files that are too large to be read at once, or local.

        The next files are requested meanwhile; the bytes yielded are dropped. For `are_loaded` see `ask`.

        Raises:
            MissingFileError: A file is not in storage.
            StorageError: The transport failed.
        """
        ahead: deque[tuple[DeleteFile, PendingRanges | None, int]] = deque()
        upcoming, size, most = deque(deletes), 0, self._most_ahead(are_loaded=are_loaded)
        while True:
            while upcoming and (not size or size + upcoming[0].file_size <= most):
                delete = upcoming.popleft()
                self.ask([delete], are_loaded=are_loaded)
                pending = self._whole.get(delete.path)
                ahead.append((delete, pending, 0 if pending is None else delete.file_size))
                size += ahead[-1][2]
            if not ahead:
                return
            delete, pending, num_bytes = ahead.popleft()
            try:
                yield delete, None if pending is None else pending.result()[0]
            finally:
                self.forget(delete)
            size -= num_bytes

    def vector(self, delete: DeleteFile) -> bytes:
        """Return a deletion vector's blob, and drop it unless another part of the data file needs it.

        Raises:
            CorruptFileError: The Puffin file ends before the blob does.
            MissingFileError: It is not in storage.
        """
        pending, number = self.ask_vector(delete)
        blob = bytes(pending.result()[number])
        vectors, place = self._vectors[delete.path], (delete.content_offset, delete.content_size)
        if vectors.users[place] <= 1:
            vectors.asked.pop(place, None)
        return blob

    def ask_vector(self, delete: DeleteFile) -> tuple[PendingRanges, int]:
        """Request a deletion vector, and others in its file that the task will need; returns at once.

        Returns:
            The read, and the vector's index in it.
        """
        place = delete.content_offset, delete.content_size
        vectors = self._vectors.setdefault(delete.path, _Vectors())
        if place not in vectors.asked:
            wanted, size = {place: None}, 0
            while vectors.ranges and size < MAX_VECTOR_BYTES:
                following = next(iter(vectors.ranges))
                del vectors.ranges[following]
                if following not in vectors.asked and _is_sound(following, delete.file_size):
                    wanted[following] = None
                    size += following[1]
            file = self._reads.file(self._storage, delete.path, delete.file_size or None)
            pending = self._reads.ask(file, list(wanted))
            vectors.asked.update({one: (pending, number) for number, one in enumerate(wanted)})
        return vectors.asked[place]

    def num_bytes(self, delete: DeleteFile) -> int:
        """Return how many bytes a file's positions take until they are decoded, if they are requested ahead."""
        if delete.content == "vector":
            return delete.content_size if self.has(delete) and self.is_sound(delete) else 0
        is_ahead = delete.content == "position" and self._is_small(delete, MAX_WHOLE_FILE_BYTES)
        return delete.file_size if is_ahead else 0

    def _most_ahead(self, *, are_loaded: bool) -> int:
        return max(MAX_BYTES_AHEAD, 2 * self._largest_loaded) if are_loaded else MAX_BYTES_AHEAD

    def _is_small(self, delete: DeleteFile, largest: int) -> bool:
        return 0 < delete.file_size <= largest and self.has(delete)


def _is_sound(place: tuple[int, int], file_size: int) -> bool:
    return place[0] >= 0 and 0 < place[1] <= MAX_VECTOR_BYTES and place[0] + place[1] <= file_size


def are_remote(deletes: Sequence[DeleteFile]) -> bool:
    """Tell whether these files are in an object store, where each request has a high latency."""
    return any(not parse_location(delete.path).is_local for delete in deletes[:1])


def fetch_ahead(
    context: TableContext,
    deletes: Sequence[DeleteFile],
    contents: DeleteContents | None = None,
    *,
    are_loaded: bool = False,
) -> Generator[tuple[DeleteFile, bytes | memoryview | None], None, None]:
    """Yield delete files in order, small remote ones with their content, fetched by many concurrent requests.

    For a small file, an object store's latency exceeds the transfer time, and there may be thousands of
    files. `contents` reads them, if the task schedules its own reads. With `are_loaded`, all of their keys
    are read: then it also fetches larger files.
    """
    if contents is not None:
        yield from contents.in_order(deletes, are_loaded=are_loaded)
        return
    cost = cost_of(None, context.settings.parallel_requests, is_remote=True)
    if not are_remote(deletes) or len(deletes) < 2 or cost.parallel < 2:
        for delete in deletes:
            yield delete, None
        return

    def fetch(delete: DeleteFile) -> bytes | None:
        if not 0 < delete.file_size <= MAX_WHOLE_FILE_BYTES:
            return None
        return files.read_all(context.storage, delete.path, limit=2 * MAX_WHOLE_FILE_BYTES)

    waiting: deque[tuple[DeleteFile, Future[bytes | None]]] = deque()
    pool = ThreadPoolExecutor(min(cost.parallel, len(deletes)), "twostage-deletes")
    try:
        for delete in deletes:
            waiting.append((delete, pool.submit(fetch, delete)))
            if len(waiting) > cost.parallel:
                first, fetched = waiting.popleft()
                yield first, fetched.result()
        while waiting:
            first, fetched = waiting.popleft()
            yield first, fetched.result()
    finally:
        pool.shutdown(cancel_futures=True)
