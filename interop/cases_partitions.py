"""Partitioned tables: every transform, deletes scoped to partitions, specs that changed under the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import predicates
from case import Case
from cases_types import NAN_AND_ZERO
from values import ddl, rows, value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workshop import Workshop

NAMES = ("b", "i", "l", "d", "dec", "de", "s", "bin", "dt", "ts", "tn")
SHORT = ("SELECT * FROM {t}", "SELECT count(*) FROM {t}")


def _representative(*columns: str) -> tuple[str, ...]:
    return tuple(text for column in columns for text in predicates.representative_for_column(column))


def _transform_builder(partitioned: str) -> Callable[[Workshop, str], None]:
    def build(workshop: Workshop, name: str) -> None:
        workshop.create(name, ddl(*NAMES), partitioned=partitioned)
        workshop.append(name, rows(0, 70, *NAMES), ddl(*NAMES))
        workshop.sql(f"DELETE FROM {name} WHERE id % 9 = 4")
        workshop.delete_equal(
            name, ["i"], "SELECT * FROM VALUES (1), (CAST(NULL AS int)) AS v(i)", everywhere=True
        )
        workshop.append(name, rows(70, 90, *NAMES), ddl(*NAMES))

    return build


def _transforms(name: str, partitioned: str, *columns: str, wrong: Mapping[str, str] | None = None) -> Case:
    live = {i for i in range(70) if i % 9 != 4 and value(i, "i") not in (1, None)} | set(range(70, 90))
    return Case(
        name=f"partitioned_{name}",
        build=_transform_builder(partitioned),
        live=frozenset(live),
        predicates=tuple(dict.fromkeys(_representative(*columns, "i"))),
        queries=(*SHORT, f"SELECT {columns[0]}, count(*) FROM {{t}} GROUP BY {columns[0]}"),
        columns=(tuple(columns),),
        iceberg_wrong=wrong or {},
    )


def _build_changed(workshop: Workshop, name: str) -> None:
    """A field added, another dropped; each delete in the then current spec."""
    names = ("i", "s", "b")
    workshop.create(name, ddl(*names), partitioned="b")
    workshop.append(name, rows(0, 40, *names), ddl(*names))  # spec 0: b
    workshop.delete_equal(name, ["s"], "SELECT 'a' AS s", partition="b=true")
    workshop.sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(2, id)")
    workshop.append(name, rows(40, 80, *names), ddl(*names))  # spec 1: b, bucket
    workshop.sql(f"DELETE FROM {name} WHERE id % 8 = 5")
    workshop.delete_equal(name, ["s"], "SELECT '' AS s", everywhere=True)  # reaches spec 1 only
    workshop.sql(
        f"ALTER TABLE {name} DROP PARTITION FIELD b", f"ALTER TABLE {name} DROP PARTITION FIELD bucket(2, id)"
    )
    workshop.append(name, rows(80, 120, *names), ddl(*names))  # spec 2: none
    workshop.delete_equal(name, ["i"], "SELECT 42 AS i")  # global
    workshop.sql(f"DELETE FROM {name} WHERE id % 11 = 7")
    workshop.append(name, rows(120, 130, *names), ddl(*names))


def _changed_live() -> frozenset[int]:
    deleted = {i for i in range(40) if value(i, "b") is True and value(i, "s") == "a"}
    deleted |= {i for i in range(80) if i % 8 == 5}
    deleted |= {i for i in range(40, 80) if value(i, "s") == ""}
    deleted |= {i for i in range(120) if value(i, "i") == 42 or i % 11 == 7}
    return frozenset(set(range(130)) - deleted)


def _build_void(workshop: Workshop, name: str) -> None:
    """Version 1 turns a dropped partition field into void, and an upgrade keeps that spec."""
    names = ("i", "s", "b")
    workshop.create(name, ddl(*names), version=1, partitioned="b", write__delete__mode="copy-on-write")
    workshop.append(name, rows(0, 40, *names), ddl(*names))
    workshop.sql(
        f"ALTER TABLE {name} DROP PARTITION FIELD b",
        f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')",
    )
    workshop.append(name, rows(40, 80, *names), ddl(*names))
    workshop.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
    # Finding 10: in a spec whose fields are all void an equality delete is global.
    workshop.delete_equal(name, ["i"], "SELECT 7 AS i", everywhere=True)
    workshop.append(name, rows(80, 100, *names), ddl(*names))


def _build_nan_partition(workshop: Workshop, name: str) -> None:
    workshop.create(name, ddl("d", "f", "i"), partitioned="d")
    workshop.append(name, rows(0, 60, "d", "f", "i"), ddl("d", "f", "i"))
    workshop.sql(f"DELETE FROM {name} WHERE id % 7 = 1")


def _build_constant(workshop: Workshop, name: str) -> None:
    """Files whose own value of the partition column differs from the partition's, as in migrated tables."""
    workshop.create(
        f"{name}_source", "id bigint, p int, s string", write__metadata__metrics__column__p="none"
    )
    workshop.append(
        f"{name}_source", [(1, 1, "a"), (2, 2, "b"), (3, None, "c")], "id bigint, p int, s string"
    )
    workshop.create(name, "id bigint, p int, s string", partitioned="p")
    workshop.append(name, [(10, 5, "x")], "id bigint, p int, s string")
    from iceberg_java import append_file_as_partition

    append_file_as_partition(workshop.spark, name, f"{name}_source", "p=7")


DOUBLES = tuple(
    dict.fromkeys(
        (*_representative("d"), *(text for text in predicates.ZEROS if text.startswith(("d ", "NOT (d"))))
    )
)
CASES = (
    _transforms("identity", "b, dt", "b", "dt"),
    _transforms("string", "s", "s"),
    _transforms("bucket", "bucket(3, s), bucket(2, dec)", "s", "dec"),
    _transforms(
        "truncate",
        "truncate(2, s), truncate(10, i)",
        "s",
        "i",
        # The partition of the least int overflows to a positive number, with which Iceberg then prunes.
        wrong={"i <= 7": "truncate(10, -2147483648) overflows"},
    ),
    _transforms("truncate_more", "truncate(1, bin), truncate(100, de)", "bin", "de"),
    _transforms("times", "days(ts), months(dt)", "ts", "dt"),
    _transforms("hours", "hours(tn), bucket(2, ts)", "tn", "ts"),
    Case(
        name="partitioned_double",
        build=_build_nan_partition,
        live=frozenset(i for i in range(60) if i % 7 != 1),
        predicates=DOUBLES,
        spark_predicates=("d = double('NaN')", "d <> double('NaN')"),
        queries=SHORT,
        columns=(("d",), ("i", "d")),
        iceberg_wrong=dict.fromkeys(
            (
                "d > 0.1D",
                "d = 0.0",
                "d = -0.0",
                "d > 1.5",
                "d > 1E300",
                "NOT (d < 1E308)",
                "d IN (0.0, 1.5)",
                "d NOT IN (-0.0)",
            ),
            NAN_AND_ZERO,
        ),
    ),
    Case(
        name="specs_changed",
        build=_build_changed,
        live=_changed_live(),
        predicates=(*_representative("i", "s", "b"), "id < 50", "id IN (3, 44, 99)"),
        queries=SHORT,
        columns=(("b",), ("s", "b")),
    ),
    Case(
        name="void",
        build=_build_void,
        live=frozenset(i for i in range(100) if i >= 80 or (i % 10 != 3 and value(i, "i") != 7)),
        predicates=_representative("i", "b"),
        queries=SHORT,
    ),
    Case(
        name="constant",
        build=_build_constant,
        live=frozenset({1, 2, 3, 10}),
        predicates=("p = 7", "p = 1", "p IS NULL", "p > 5", "p <> 5", "s = 'b' AND p = 7"),
        queries=(*SHORT, "SELECT p, count(*) FROM {t} GROUP BY p"),
        columns=(("p",),),
    ),
)
