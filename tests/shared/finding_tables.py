"""Twelve tables whose queries Iceberg-Spark 1.12.0 answers wrongly, not at all, or by a rule worth pinning.

Each `Finding` declares a table (written by hand, so no Iceberg runtime is needed), its queries, the right
rows, worked out by hand, and Iceberg-Spark's answer. `tests/findings` queries the core; the interop tests
query Spark, once through Iceberg and once through twostage.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

SAME = "the same"
"""Iceberg-Spark returns the right rows."""
YEAR_1 = -62135596800000000
UUIDS = tuple(f"{first}000000-0000-0000-0000-000000000000" for first in ("00", "7f", "80", "f0"))


def one(*values: Any) -> list[tuple[Any, ...]]:
    """Return rows of one column."""
    return [(value,) for value in values]


@dataclass(frozen=True, kw_only=True)
class FindingQuery:
    """A query on a finding's table."""

    where: str = "true"
    columns: tuple[str, ...] = ("id",)
    right: list[tuple[Any, ...]]
    iceberg: list[tuple[Any, ...]] | str
    """Its wrong rows, `SAME`, or ``raises`` and text of its error."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Read options; ``@first`` is the id of the first snapshot."""
    only_spark: bool = False
    """Our option `columns` cannot express it: a field inside a struct."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A table and its queries."""

    number: int
    name: str
    build: Callable[[Path], Table]
    asked: tuple[FindingQuery, ...]

    def __str__(self) -> str:
        return f"finding_{self.number:02}_{self.name}"


def _struct_key(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "st": {"a": "int", "b": "string"}})
    table.append([{"id": i, "st": {"a": i % 3, "b": "x"}} for i in range(6)])
    table.delete_equal(["st.a"], [{"st": {"a": 1}}])
    return table


def _zero_deleted(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "k": "double"})
    table.append([{"id": 0, "k": 0.0}, {"id": 1, "k": -0.0}, {"id": 2, "k": 1.0}, {"id": 3, "k": math.nan}])
    table.delete_equal(["k"], [{"k": 0.0}, {"k": math.nan}])
    return table


def _floats(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "d": "double"})
    table.append([{"id": 1, "d": 1.0}, {"id": 2, "d": math.nan}])
    table.append([{"id": 3, "d": -0.0}])
    table.append([{"id": 4, "d": 0.0}])
    table.partition_by(["d"])
    table.append_all([{"id": 12, "d": math.nan}, {"id": 13, "d": -0.0}, {"id": 14, "d": 0.0}])
    return table


def _uuids(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "u": "uuid"})
    table.append([{"id": i, "u": text} for i, text in enumerate(UUIDS)])
    return table


def _orc(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "s": "string", "ts": "timestamptz", "day": "date"})
    rows = [
        {"id": 1, "s": "\uffff", "ts": YEAR_1, "day": -719162},
        {"id": 2, "s": "a", "ts": 0, "day": 0},
        {"id": 3, "s": "\U0001f600", "ts": 1, "day": 1},
    ]
    table.append(rows, format="orc", mixed=True)
    return table


def _key_name_again(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "k": "string"})
    table.append([{"id": 1, "k": "a"}, {"id": 2, "k": "b"}, {"id": 3}])
    table.delete_equal(["k"], [{"k": "a"}])
    table.drop_column("k")
    table.add_column("k", "string")
    table.append([{"id": 4, "k": "a"}])
    return table


def _branch(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "s": "string"})
    table.append([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}])
    table.on("audit")
    table.on("main")
    table.rename_column("s", "text")
    table.add_column("extra", "int")
    table.append([{"id": 3, "text": "a", "extra": 1}])
    return table


def _booleans(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "b": "boolean"})
    table.append([{"id": i, "b": i % 3 == 0} for i in range(6)], page_version="2.0")
    return table


def _renamed_and_named_again(folder: Path) -> Table:
    """A file without ids whose column was renamed, and another one added under the old name: the mapping
    decides."""
    mapping = [
        {"field-id": 1, "names": ["id"]},
        {"field-id": 2, "names": ["t"]},
        {"field-id": 3, "names": ["s"]},
    ]
    table = Table(
        folder,
        {"id": "long", "s": "string"},
        properties={"schema.name-mapping.default": json.dumps(mapping)},
    )
    table.append([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}], field_ids=False)
    table.rename_column("s", "t")
    table.add_column("s", "string")
    return table


def _void(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "p": "int", "k": "int"}, partition=["void(p)"])
    table.append([{"id": 0, "p": 0, "k": 1}, {"id": 1, "p": 1, "k": 2}])
    table.partition_by(["p"])
    table.append_all([{"id": 10, "p": 0, "k": 1}, {"id": 11, "p": 1, "k": 2}])
    table.delete_equal(["k"], [{"k": 1}])  # in the spec void(p)
    return table


def _two_snapshots(folder: Path) -> Table:
    table = Table(folder, {"id": "long"})
    table.append([{"id": 1}])
    table.tag("start")
    table.append([{"id": 2}])
    return table


def _time(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "t": "time"})
    table.append([{"id": 1, "t": 1}, {"id": 2}])
    return table


def _nanoseconds(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "n": "timestamp_ns"}, version=3)
    table.append([{"id": 1, "n": 1}, {"id": 2}])
    return table


def _orc_default(folder: Path) -> Table:
    table = Table(folder, {"id": "long"}, version=3)
    table.append([{"id": 1}], format="orc", mixed=True)
    table.add_column("m", "int", default=5)
    return table


STRUCT_KEY_ROWS = [(0,), (2,), (3,), (5,)]
FINDINGS = (
    Finding(
        number=1,
        name="equality_delete_on_a_struct_field_not_projected",
        build=_struct_key,
        asked=(
            FindingQuery(right=STRUCT_KEY_ROWS, iceberg=[]),
            FindingQuery(columns=("count(*)",), right=[(4,)], iceberg=[(0,)], only_spark=True),
            FindingQuery(
                columns=("id", "st.b"),
                right=[(i, "x") for (i,) in STRUCT_KEY_ROWS],
                iceberg=[],
                only_spark=True,
            ),
            FindingQuery(
                columns=("id", "st.a"), right=[(0, 0), (2, 2), (3, 0), (5, 2)], iceberg=SAME, only_spark=True
            ),
        ),
    ),
    Finding(
        number=2,
        name="predicate_brings_deleted_rows_back",
        build=_zero_deleted,
        asked=(
            FindingQuery(right=one(1, 2), iceberg=SAME),
            FindingQuery(where="k = -0.0D", right=one(1), iceberg=one(0, 1)),
            FindingQuery(where="k > 0.5D", right=one(2), iceberg=one(2, 3)),
        ),
    ),
    Finding(
        number=3,
        name="nan_and_negative_zero_in_comparisons",
        build=_floats,
        asked=(
            FindingQuery(where="d > 5", right=one(2, 12), iceberg=[]),
            FindingQuery(where="d = 0.0D", right=one(3, 4, 13, 14), iceberg=one(4, 14)),
            FindingQuery(where="d = -0.0D", right=one(3, 4, 13, 14), iceberg=one(3, 13)),
        ),
    ),
    Finding(
        number=4,
        name="uuid_predicates_lose_rows",
        build=_uuids,
        asked=(
            *(FindingQuery(where=f"u = '{text}'", right=one(i), iceberg=[]) for i, text in enumerate(UUIDS)),
            FindingQuery(where=f"u > '{UUIDS[1]}'", right=one(2, 3), iceberg=[]),
        ),
    ),
    Finding(
        number=5,
        name="orc_statistics_of_great_characters_and_year_one",
        build=_orc,
        asked=(
            FindingQuery(where="s > '\uffff'", right=one(3), iceberg=[]),
            FindingQuery(where="s = '\uffff'", right=one(1), iceberg=[]),
            FindingQuery(where="ts IN (TIMESTAMP '0001-01-01 00:00:00+00:00')", right=one(1), iceberg=[]),
            FindingQuery(where="day = DATE '0001-01-01'", right=one(1), iceberg=[]),
        ),
    ),
    Finding(
        number=6,
        name="equality_key_dropped_and_its_name_used_again",
        build=_key_name_again,
        asked=(
            FindingQuery(right=one(2, 3, 4), iceberg=SAME),
            FindingQuery(columns=("id", "k"), right=[(2, None), (3, None), (4, "a")], iceberg="raises "),
            FindingQuery(where="k = 'a'", right=one(4), iceberg="raises "),
        ),
    ),
    Finding(
        number=7,
        name="branch_after_a_rename",
        build=_branch,
        asked=(
            FindingQuery(
                columns=("id", "text"), right=[(1, "a"), (2, "b")], iceberg=SAME, options={"branch": "audit"}
            ),
            FindingQuery(
                where="text = 'a'",
                right=one(1),
                iceberg="raises Cannot find field 'text'",
                options={"branch": "audit"},
            ),
            FindingQuery(
                where="extra IS NULL",
                right=one(1, 2),
                iceberg="raises Cannot find field 'extra'",
                options={"branch": "audit"},
            ),
        ),
    ),
    Finding(
        number=8,
        name="booleans_in_parquet_v2_pages",
        build=_booleans,
        asked=(
            FindingQuery(right=one(*range(6)), iceberg=SAME),
            FindingQuery(where="b", right=one(0, 3), iceberg="raises "),
        ),
    ),
    Finding(
        number=9,
        name="name_mapping_gives_an_old_name_to_a_new_column",
        build=_renamed_and_named_again,
        asked=(
            FindingQuery(columns=("id", "t", "s"), right=[(1, None, "a"), (2, None, "b")], iceberg=SAME),
            FindingQuery(where="t IS NULL", right=one(1, 2), iceberg=[]),
        ),
    ),
    Finding(
        number=10,
        name="equality_delete_in_a_spec_of_void_fields_is_global",
        build=_void,
        asked=(FindingQuery(right=one(1, 11), iceberg=SAME),),
    ),
    Finding(
        number=11,
        name="options_snapshot_id_and_tag",
        build=_two_snapshots,
        asked=(
            FindingQuery(
                right=one(1), iceberg="raises no longer supported", options={"snapshot-id": "@first"}
            ),
            FindingQuery(right=one(1), iceberg="raises no longer supported", options={"tag": "start"}),
            FindingQuery(right=one(1), iceberg=SAME, options={"versionAsOf": "start"}),
        ),
    ),
    Finding(
        number=12,
        name="a_time_column_in_the_table",
        build=_time,
        asked=(
            FindingQuery(right=one(1, 2), iceberg="raises Spark does not support time fields"),
            FindingQuery(
                where="t IS NULL", right=one(2), iceberg="raises Spark does not support time fields"
            ),
        ),
    ),
    Finding(
        number=12,
        name="a_column_of_nanoseconds_in_the_table",
        build=_nanoseconds,
        asked=(
            FindingQuery(
                right=one(1, 2), iceberg="raises Cannot convert unsupported type to Spark: timestamp_ns"
            ),
        ),
    ),
    Finding(
        number=12,
        name="orc_file_and_a_default",
        build=_orc_default,
        asked=(FindingQuery(columns=("id", "m"), right=[(1, 5)], iceberg="raises "),),
    ),
)
