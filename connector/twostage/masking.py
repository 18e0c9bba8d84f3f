"""A dataclass repr with secrets masked.

Credentials in a URI and signatures in a query string are masked in every field; fields that contain secrets by nature
are declared with ``repr=False``.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from twostage.errors import mask


def masked_repr(value: Any) -> str:
    """Return ``Name(field=value, …)`` for a dataclass instance, with credentials masked.

    >>> from twostage.task import Storage
    >>> Storage(properties={"s3.session-token": "abc"}, root="s3://key:secret@lake/t")
    Storage(root='s3://***@lake/t', moved_from=None, allowed=(), client='auto')
    """
    shown = ", ".join(f"{one.name}={getattr(value, one.name)!r}" for one in fields(value) if one.repr)
    return mask(f"{type(value).__qualname__}({shown})")
