"""How plain values show themselves: as dataclasses do, with what looks like a secret masked.

Takes a dataclass instance; gives its text. The rule: a login inside a URI and a signature in a query string never
show, whichever field holds them; fields that hold secrets by nature say ``repr=False``.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from twostage.errors import mask


def masked_repr(value: Any) -> str:
    """Return ``Name(field=value, …)`` of a dataclass instance, masked.

    >>> from twostage.task import Storage
    >>> Storage(properties={"s3.session-token": "abc"}, root="s3://key:secret@lake/t")
    Storage(root='s3://***@lake/t', moved_from=None, allowed=())
    """
    shown = ", ".join(f"{one.name}={getattr(value, one.name)!r}" for one in fields(value) if one.repr)
    return mask(f"{type(value).__qualname__}({shown})")
