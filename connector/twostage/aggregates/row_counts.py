"""Sum the record counts of a manifest's live files without decoding its entries to Python objects.

Takes a manifest's bytes; returns the number of live Parquet and ORC files and the sum of their record counts, or None
if the manifest is in any way unusual. Then, and if it is damaged, `manifest.py` reads it and reports what is wrong.

The Avro schema is compiled to a program of steps, an int64 array of shape (steps, 3), which the kernel
`twostage_native.avro_walk.walk_records` runs over each block. It stores the values of interest of each entry in an int64
array of shape (entries, `_SLOTS`): one slot for a number, two (offset and length) for bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.errors import TwoStageError
from twostage.formats.avro.compression import unpack
from twostage.formats.avro.container import MALFORMED, min_bytes, open_avro
from twostage.table.fixed_partitions import fixed_sizes
from twostage.table.manifest_fields import ENTRY_IDS, PARTITION, named_by_id
from twostage_native.avro_walk import (
    ABSENT,
    ARRAY,
    BYTES,
    END,
    JUMP,
    LONG,
    LOOP,
    SKIP,
    UNION,
    walk_records,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twostage.table.manifest_entry import ManifestFile
    from twostage.table.metadata import PartitionSpec

MAX_BLOCK_BYTES = 64 * 2**20
"""Uncompressed bytes of an Avro block."""
_STATUS, _CONTENT, _ROWS, _FORMAT, _KEY, _PATH, _SLOTS = 0, 1, 2, 3, 5, 7, 9
_KEPT = {"_0": _STATUS, "_134": _CONTENT, "_103": _ROWS, "_101": _FORMAT, "_131": _KEY, "_100": _PATH}
_NUMBERS = (_STATUS, _CONTENT, _ROWS)
_MAX_ROWS_PER_FILE = 2**63 // MAX_BLOCK_BYTES - 1
"""Record count of a file up to which the sum over a block cannot overflow."""
_FORMATS = (b"PARQUET", b"ORC")
_WIDTHS = {"boolean": 1, "float": 4, "double": 8, "null": 0}


def is_compiled() -> bool:
    """Compile the kernel, which takes a second if it is not cached on disk; return whether it can be used."""
    return walk_records.compiled(
        np.frombuffer(b"\0", np.uint8), np.zeros((1, 3), np.int64), np.zeros((1, _SLOTS), np.int64)
    )


def count_rows(data: bytes, manifest: ManifestFile, spec: PartitionSpec | None) -> tuple[int, int] | None:
    """Return the number of live files and the sum of their record counts; None if the manifest is unusual."""
    if spec is None:
        return None
    try:
        file = open_avro(data, path=manifest.path, code="CORRUPT_MANIFEST")
        steps: list[list[int]] = []
        schema = named_by_id(file.schema, ENTRY_IDS, spec)
        if min_bytes(schema) == 0 or fixed_sizes(schema):  # see `table/fixed_partitions.py`
            return None
        _compile(schema, steps)
        steps.append([END, 0, 0])
        program = np.array(steps, np.int64)
        files = rows = 0
        for count, packed in file.blocks:
            block = np.frombuffer(unpack(file.codec, packed, MAX_BLOCK_BYTES), np.uint8)
            if not 0 < count <= len(block) <= MAX_BLOCK_BYTES:
                return None
            kept = np.empty((count, _SLOTS), np.int64)
            if walk_records(block, program, kept) != len(block):
                return None
            found = _sum(block, kept)
            if found is None:
                return None
            files += found[0]
            rows += found[1]
    except (TwoStageError, *MALFORMED):
        return None
    return files, rows


def _sum(block: NDArray[np.uint8], kept: NDArray[np.int64]) -> tuple[int, int] | None:
    status = kept[:, _STATUS]
    live = kept[status != 2]
    contents = live[:, _CONTENT]
    plain = (
        bool(((status >= 0) & (status <= 2)).all())
        and bool(((contents == 0) | (contents == ABSENT)).all())
        and bool((live[:, _ROWS] > 0).all())
        and bool((live[:, _ROWS] <= _MAX_ROWS_PER_FILE).all())
        and bool((live[:, _KEY + 1] <= 0).all())
        and bool((live[:, _PATH + 1] > 0).all())
        and _are_formats(block, live)
    )
    return (len(live), int(live[:, _ROWS].sum())) if plain else None


def _are_formats(block: NDArray[np.uint8], live: NDArray[np.int64]) -> bool:
    """Return whether all files are Parquet or ORC."""
    known = 0
    for name in _FORMATS:
        starts = live[live[:, _FORMAT + 1] == len(name), _FORMAT]
        letters = block[starts[:, None] + np.arange(len(name))] & 0xDF  # upper case
        known += int((letters == np.frombuffer(name, np.uint8)).all(axis=1).sum())
    return known == len(live)


def _compile(schema: Any, steps: list[list[int]], slot: int = -1, *, keeps: bool = True) -> None:
    """Append the steps that walk one value of a schema.

    Args:
        schema: An Avro type.
        steps: The program to append to.
        slot: The slot to store the value in; -1 for none.
        keeps: Whether fields may be stored; False in the partition record, whose field ids mean something else.
    """
    if isinstance(schema, list):
        union = len(steps)
        steps.append([UNION, len(schema), 0])
        steps.extend([JUMP, 0, 0] for _ in schema)
        ends = []
        for place, branch in enumerate(schema):
            steps[union + 1 + place][1] = len(steps)
            _compile(branch, steps, slot, keeps=keeps)
            ends.append(len(steps))
            steps.append([JUMP, 0, 0])
        for end in ends:
            steps[end][1] = len(steps)
        return
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case dict() | list():
            _compile(kind, steps, slot, keeps=keeps)
        case "record":
            for field in schema["fields"]:
                kept = _KEPT.get(field["name"], -1) if keeps else -1
                _compile(field["type"], steps, kept, keeps=keeps and field["name"] != f"_{PARTITION}")
        case "array" | "map":
            start = len(steps)
            steps.append([ARRAY, 0, 0])
            if kind == "map":
                steps.append([BYTES, -1, 0])
            _compile(schema["items" if kind == "array" else "values"], steps, keeps=False)
            steps.append([LOOP, start + 1, 0])
            steps[start][1] = len(steps)
        case "int" | "long" | "enum":
            _check(kind, slot, slot < 0 or slot in _NUMBERS)
            steps.append([LONG, slot if kind != "enum" else -1, 0])
        case "bytes" | "string":
            _check(kind, slot, slot not in _NUMBERS)
            steps.append([BYTES, slot, 0])
        case "fixed":
            _check(kind, slot, 0 <= schema["size"] <= MAX_BLOCK_BYTES)
            steps.append([SKIP, schema["size"], 0])
        case _:
            steps.append([SKIP, _WIDTHS[kind], 0])


def _check(kind: Any, slot: int, is_right: bool) -> None:  # noqa: FBT001 - a condition, not a mode
    if not is_right:
        raise ValueError(f"type {kind} in slot {slot}")
