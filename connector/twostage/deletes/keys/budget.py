"""The bytes that the key tables of one task may take.

Takes a limit and a function that returns the bytes in use; tells whether more fit. The rule: tables check it
before they allocate, and its error names the option to raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.errors import ResourceLimitError

if TYPE_CHECKING:
    from collections.abc import Callable


class Budget:
    """The bytes that the tables of one task may take; checked before each allocation.

    Args:
        limit: Bytes.
        in_use: Returns the bytes in use.
    """

    def __init__(self, limit: int, in_use: Callable[[], int]) -> None:
        self.limit = limit
        self.in_use = in_use

    def allows(self, more: int) -> bool:
        """Tell whether `more` bytes fit."""
        return self.in_use() + more <= self.limit

    def refuse(self, more: int) -> ResourceLimitError:
        """Return the error for `more` bytes that do not fit."""
        return ResourceLimitError(
            "DELETE_KEYS_TOO_LARGE",
            f"Equality-delete keys need more memory than the task's budget of {self.limit} bytes: "
            f"{self.in_use() + more}",
            stage="deletes",
            hint="Raise the option 'task-memory', or compact the table's deletes.",
        )
