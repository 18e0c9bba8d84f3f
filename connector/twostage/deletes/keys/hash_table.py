"""What the hash tables of keys share: load limits, growth within a budget, and kernel calls.

A table maps a key to the code of its highest sequence number: `word_table` holds keys of one 64-bit word,
`record_table` all others. The rules for both: the answer is exact, never probabilistic; a table never grows
past its budget; it can be restored from read-only arrays (of a mapped file, which take no private memory),
which are copied, within the budget, before a key is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage_native import probe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twostage.deletes.keys.budget import Budget
    from twostage_native._jit import Kernel

WORD_LOAD = 0.6
RECORD_LOAD = 0.5
"""For record tables: a search for an absent key takes 2.5 steps instead of 6, and 10 M slots take 46 MB
more."""
COPIED_LOAD = 0.8
"""A mapped table that stays below this load is copied at its size: filling a larger one takes three times as
long."""
MAX_LOAD = 0.9
"""A fuller table is refused: searches would probe ever longer runs of slots."""
MAX_RECORD_WORDS = 2**32 - 2
"""64-bit words of all records of a table, 32 GiB: 32 bits hold a record's start, and 32 bits its length in
bytes."""
GROWTH = 1.5
RECORD_GROWTH = 1.125
MIN_SLOTS = 1024
MIN_KEYS_TO_COMPILE = 2**20
"""From this many keys, the kernel is compiled at once: its NumPy twin would take a second and several times
the memory."""
MAX_KEYS_TO_COMPARE = 16
"""Up to this many keys are compared one by one: 0.2 ms for 50,000 rows, a tenth of the kernel's twin, and no
kernel is compiled if only a few rows of a scan remain."""
PROBE_ROWS = 2**18
"""Rows to probe at once: the NumPy twins temporarily take ten times the bytes of the rows."""


def run(kernel: Kernel, kernels: bool, *arguments: Any, keys: int = 0) -> Any:  # noqa: FBT001 - a switch, not a mode
    """Run a kernel, or its NumPy twin if kernels are switched off; with many `keys` it is compiled at once."""
    if not kernels:
        return kernel.twin(*arguments)
    if keys >= MIN_KEYS_TO_COMPILE:
        kernel.compiled(*arguments)
    return kernel(*arguments)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view of the same shape and dtype, so that probe kernels are compiled once for all tables."""
    array = array.view()
    array.flags.writeable = False
    return array


def plan_capacity(
    count: int, capacity: int, slot_bytes: int, extra: int, budget: Budget, load: float = WORD_LOAD
) -> int:
    """Return the number of slots for `count` keys: `capacity` while it holds them, else more.

    The old slots stay until the new ones are filled, so both must fit. Near the budget, the table grows only
    as needed, then fills up to MAX_LOAD, before more keys are refused.
    """
    if count <= capacity * load:
        return capacity
    needed = max(MIN_SLOTS, int(count / load) + 1)
    for slots in (max(needed, int(capacity * GROWTH)), needed):
        if budget.allows(slots * slot_bytes + extra):
            return slots
    if count < capacity * MAX_LOAD:
        return capacity
    raise budget.refuse(needed * slot_bytes + extra)


def scratch() -> NDArray[np.uint64]:
    """Return the prefetch buffer of `probe` kernels: 3 words for each of `probe.BLOCK_ROWS` rows."""
    return np.empty((3, probe.BLOCK_ROWS), np.uint64)
