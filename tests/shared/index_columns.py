"""Columns with indexes, made without a table: values in, an open `DataFileIndex` out; and leaves to look
up."""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twostage.indexes.build import build_index, describe
from twostage.indexes.data_file_index import DataFileIndex
from twostage.indexes.kinds.registered import KINDS
from twostage.indexes.puffin import read_footer
from twostage.metrics import Metrics
from twostage.predicates.evaluate import evaluate
from twostage.predicates.predicate import Column, Compare, CompareLength, In, IsNull, StringMatch
from twostage.schema import Primitive
from twostage.task import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FIELD = 7
PLAIN_KINDS = [name for name, kind in KINDS.items() if kind.refuses(Primitive("long")) is None]
"""Kinds of indexes for columns that are neither lists nor maps."""


@dataclass
class Values:
    """An array as a data file's column, in chunks."""

    array: pa.Array
    type: Primitive
    field_id: int = FIELD
    chunk: int = 1000

    @property
    def num_rows(self) -> int:
        return len(self.array)

    def chunks(self) -> Iterator[pa.Array]:
        for start in range(0, len(self.array), self.chunk):
            yield self.array.slice(start, self.chunk)


def build(
    folder: Path, values: Values, kinds: tuple[str, ...], budget: int = 2**28, name: str = "x.puffin"
) -> Path:
    """Build an index file; return its path."""
    path = folder / name
    build_index(
        Storage(root=str(folder)),
        str(path),
        [(values, kinds)],
        describe("f", "/t/data.parquet", values.num_rows, 1000, b""),
        budget,
    )
    return path


def opened(path: Path) -> DataFileIndex:
    """Open an index file."""
    with pa.OSFile(str(path)) as file:
        footer, _ = read_footer(file)
    return DataFileIndex(Storage(root=str(path.parent)), str(path), footer)


def check(index: DataFileIndex, leaf: Any, array: pa.Array) -> Any:
    """Compare an answer with the filter's; return it."""
    metrics = Metrics()
    answer = index.find(leaf, metrics)
    assert not metrics.counters, metrics.choices
    assert (answer is None) == (index.cost(leaf, metrics) is None)
    if answer is None:
        return None
    truth = evaluate(leaf, {FIELD: array}, len(array))
    true, not_false = (
        {row for row, flag in enumerate(flags.tolist()) if flag} for flags in (truth.true, truth.not_false)
    )
    assert set(answer.certain) <= true <= set(answer.possible), leaf
    assert set(answer.certain_not_false) <= not_false <= set(answer.possible_not_false), leaf
    return answer


def leaves(column: Column, literals: list[Any], drawn: random.Random) -> Iterator[Any]:
    """Yield leaves of all kinds with these literals."""
    for op in ("=", "<>", "<", "<=", ">", ">=", "<=>"):
        for value in literals:
            yield Compare(op, column, value)
    yield IsNull(column)
    for has_null in (False, True):
        listed = tuple(dict.fromkeys(drawn.sample(literals, min(len(literals), 5))))
        yield In(column, listed, has_null=has_null)
    if column.type == Primitive("string"):
        for value in literals:
            for kind in ("prefix", "suffix", "contains"):
                yield StringMatch(kind, column, value[: drawn.randrange(0, len(value) + 1)])
        for length in (0, 1, 5, 40):
            for op in ("=", "<", ">=", "<>"):
                yield CompareLength(op, column, length)


def literals_of(array: pa.Array, kind: Primitive, drawn: random.Random) -> list[Any]:
    """Return literals in internal form: some values of the array, and some that it does not have."""
    present = array.drop_null()
    picked = [present[drawn.randrange(len(present))] for _ in range(min(6, len(present)))]
    match kind.name:
        case "date" | "timestamp" | "timestamptz" | "timestamp_ns" | "timestamptz_ns":
            found: list[Any] = [one.value for one in picked]
            return [*found, *(one + 1 for one in found), -(2**31), 2**31 - 1, 0]
        case "int" | "long":
            found = [one.as_py() for one in picked]
            return [*found, *(one + 1 for one in found), 0, -1, 2**31 - 1]
        case "float" | "double":
            found = [one.as_py() for one in picked]
            return [*found, 0.0, -0.0, float("nan"), float("inf"), float("-inf"), 0.1, 1e300]
        case "decimal":
            step = Decimal(1).scaleb(-kind.scale)
            found = [one.as_py() for one in picked]
            return [*found, *(one + step for one in found), Decimal("0.001"), Decimal(0)]
        case "boolean":
            return [True, False]
        case "fixed" | "binary":
            return [*(one.as_py() for one in picked), b"", b"\xff\xff", b"ab"]
    return [*(one.as_py() for one in picked), "", "zz", "a", "é", "prefix-0"]


def times_ignored(
    path: Path, drawn: random.Random, times: int, leaves: Sequence[Any], array: pa.Array
) -> int:
    """Flip one bit of an index, again and again; return how often that was noticed, once each time. Answers must be right."""
    clean, ignored = path.read_bytes(), 0
    for _ in range(times):
        damaged = bytearray(clean)
        damaged[drawn.randrange(4, len(clean))] ^= 1 << drawn.randrange(8)
        path.write_bytes(damaged)
        try:
            index = opened(path)
        except ValueError:
            ignored += 1
            continue
        metrics = Metrics()
        for leaf in leaves:
            if index.find(leaf, metrics) is not None:
                check(index, leaf, array)
        assert metrics.counters["indexes.ignored"] == int(index.is_bad)
        ignored += index.is_bad
    return ignored
