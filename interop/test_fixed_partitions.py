"""Identity partitions of ``fixed`` columns: Iceberg's library writes their values with lengths that its
headers do not declare.

Values are chosen so that the bytes, read as declared, look valid, or nearly so (issue 11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import core_read
import iceberg_java

if TYPE_CHECKING:
    from comparison import Workshop

ENDS = ["00", "7F", "80", "81", "FE", "FF"]
"""The last byte of a value, which read as declared starts the row count; from 80 on it continues into the
next byte."""


def _hex(size: int, number: int) -> str | None:
    """Return a value of `size` bytes; the seventh is NULL."""
    if number == 6:
        return None
    return (f"{number:02X}" * size)[: 2 * size - 2] + ENDS[number]


def _literal(value: str | None) -> str:
    return "CAST(NULL AS binary)" if value is None else f"X'{value}'"


@pytest.mark.parametrize("together", [False, True], ids=["a_file_a_manifest", "all_in_one"])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("sizes", "others"),
    [((3,), ("bucket(4, u)",)), ((1, 16), ("s",)), ((40, 100), ("truncate(2, s)", "n")), ((2,), ())],
    ids=["3_and_a_uuid", "1_and_16", "40_and_100", "alone"],
)
def test_fixed_partitions(
    workshop: Workshop, sizes: tuple[int, ...], others: tuple[str, ...], version: int, together: bool
) -> None:
    spark = workshop.spark
    name = f"ice.db.fixed_{'_'.join(map(str, sizes))}_{version}_{together}"
    workshop.create(name, "id bigint, s string, n int", version=version)
    iceberg_java.add_column(spark, name, "u", "uuid")
    for size in sizes:
        iceberg_java.add_column(spark, name, f"k{size}", f"fixed[{size}]")
    for other in others[:1]:
        workshop.sql(f"ALTER TABLE {name} ADD PARTITION FIELD {other}")
    update = iceberg_java.load(spark, name).updateSpec()
    for size in sizes:
        update = update.addField(f"k{size}")
    update.commit()
    spark.catalog.refreshTable(name)
    for other in others[1:]:
        workshop.sql(f"ALTER TABLE {name} ADD PARTITION FIELD {other}")
    rows = [
        ", ".join(
            f"({row_id}L, 's{i}', {i}, '00000000-0000-0000-0000-00000000000{i}', "
            + ", ".join(_literal(_hex(size, i)) for size in sizes)
            + ")"
            for row_id in (i, i + 20)
        )
        for i in range(7)
    ]
    columns = ", ".join(("id", "s", "n", "u", *(f"k{size}" for size in sizes)))
    for values in [", ".join(rows)] if together else rows:
        workshop.sql(f"INSERT INTO {name} SELECT * FROM VALUES {values} AS v({columns})")
    live = {i + j for i in range(7) for j in (0, 20)}
    if version > 1:
        workshop.sql(f"INSERT INTO {name} SELECT id + 10, s, n, u, {columns.partition('u, ')[2]} FROM {name}")
        workshop.delete_equal(name, ["n"], "SELECT * FROM VALUES (1), (5), (6) AS v(n)", everywhere=True)
        workshop.sql(f"DELETE FROM {name} WHERE id IN (4, 12)")
        live = {i + j for i in (0, 2, 3, 4) for j in (0, 10, 20, 30)} - {4, 12}
    location = iceberg_java.location(spark, name)

    def ours(**options: str) -> set[int]:
        found = core_read.read(location, options).column("id").to_pylist()
        assert len(set(found)) == len(found)
        return set(found)

    assert {row.id for row in spark.sql(f"SELECT id FROM {name}").collect()} == live
    assert ours() == live
    for size in sizes:
        for number in range(7):
            value = _hex(size, number)
            where = f"k{size} IS NULL" if value is None else f"k{size} = X'{value}'"
            assert ours(filter=where) == {i for i in live if i % 10 == number}, where
    view = f"fixed_{'_'.join(map(str, sizes))}_{version}_{together}"
    spark.read.format("twostage").load(location).createOrReplaceTempView(view)
    counted = f"SELECT k{sizes[0]} AS k, count(*) FROM {{}} GROUP BY 1"
    expected = {tuple(row) for row in spark.sql(counted.format(name)).collect()}
    assert {tuple(row) for row in spark.sql(counted.format(view)).collect()} == expected
    assert spark.sql(f"SELECT count(*) FROM {view}").collect()[0][0] == len(live)
    if version > 1:
        kinds = {row.content for row in spark.sql(f"SELECT content FROM {name}.delete_files").collect()}
        assert kinds == {1, 2}
