"""Key columns that a partition decides: folded away or not, the same rows are deleted."""

from __future__ import annotations

import math
import random

import pyarrow as pa
import pytest

import oracle
from core_scan import open_table, scan, with_options
from declared.types import Column
from equality_keys import VALUES, canonical, data_columns, random_row
from scan_values import context_of, task_of, write_keys
from tables import Table
from twostage.deletes.anti_join import host_key_sets
from twostage.deletes.anti_join.build_from_rows import StreamedDeletes
from twostage.deletes.anti_join.load_key_sets import load_equality
from twostage.deletes.cache.memory import CACHE
from twostage.errors import CorruptFileError
from twostage.metrics import Metrics

SCOPE = "(1, ('x',))"


@pytest.fixture(autouse=True)
def _empty_cache():
    CACHE.clear()
    yield
    CACHE.clear()


def answers(folder, columns, deletes, constants, rows, *, kernels=True):
    """Return which rows are deleted: folded and not, from a table and streamed."""
    found = {}
    task = task_of(*deletes, constants=constants)
    arrays = data_columns(columns, rows)
    for fold in (True, False):
        context = context_of(folder, columns, settings={"simplify_keys": fold, "kernels": kernels})
        for equality in (
            load_equality(context, task, Metrics()),
            StreamedDeletes(context, task, task.deletes, Metrics()),
        ):
            keys = {i: arrays[i] for i in equality.field_ids}
            found[fold, equality.is_streamed] = equality.deleted(keys, len(rows)).tolist()
            if fold and all(delete.scope == SCOPE for delete in deletes):
                assert not set(constants) & set(equality.field_ids)
    return found


@pytest.mark.parametrize("kind", VALUES)
def test_every_type_of_partition_value(tmp_path, kind):
    """The partition's value, NULL too, and keys with every other value of its column."""
    columns = [Column(1, "p", kind), Column(2, "k", "long")]
    for constant in [*VALUES[kind], None]:
        CACHE.clear()
        gone = [{1: value, 2: n} for n, value in enumerate([*VALUES[kind], None])]
        gone.append({1: constant, 2: None})
        delete = write_keys(tmp_path / "d.parquet", columns, gone, [1, 2], scope=SCOPE)
        rows = [{1: constant, 2: n} for n in (None, *range(len(gone)))]
        same = canonical(constant)
        wanted = {row[2] for row in gone if canonical(row[1]) == same}
        for deleted in answers(tmp_path, columns, [delete], {1: constant}, rows).values():
            assert deleted == [row[2] in wanted for row in rows]


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_random_keys_scopes_and_constants(tmp_path, seed, kernels):
    """Several id sets, some global, some all of which the partition decides."""
    rng = random.Random(seed)
    columns = [
        Column(i + 1, f"c{i}", kind) for i, kind in enumerate(rng.sample(list(VALUES), rng.randint(1, 4)))
    ]
    fixed = rng.sample(columns, rng.randint(1, len(columns)))
    constants = {c.id: rng.choice([None, *VALUES[c.type]]) for c in fixed}
    rows = [random_row(rng, columns, VALUES) | constants for _ in range(60)]
    deletes, keys = [], []
    for number in range(rng.randint(1, 4)):
        ids = sorted(rng.sample([c.id for c in columns], rng.randint(1, len(columns))))
        gone = [random_row(rng, columns, VALUES) for _ in range(rng.randint(0, 12))]
        gone += [row | (constants if rng.random() < 0.5 else {}) for row in rng.sample(gone, len(gone) // 2)]
        path = tmp_path / f"d{number}.{rng.choice(['parquet', 'avro'])}"
        scope = rng.choice([SCOPE, SCOPE, "global", None])
        written = [column for column in columns if column.id in ids]
        sequence = rng.randint(1, 4)
        deletes.append(write_keys(path, written, gone, ids, scope=scope, sequence_number=sequence))
        if sequence > 1:
            keys.append((ids, {tuple(canonical(row[i]) for i in ids) for row in gone}))
    wanted = [any(tuple(canonical(row[i]) for i in ids) in gone for ids, gone in keys) for row in rows]
    for way, deleted in answers(tmp_path, columns, deletes, constants, rows, kernels=kernels).items():
        assert deleted == wanted, f"seed {seed}, folded and streamed: {way}"


def test_a_delete_file_without_the_partition_column(tmp_path):
    """Whether its keys hold the partition's value, as a data file's rows would, or NULL, nobody says: it is refused."""
    columns = [Column(1, "p", "string"), Column(2, "k", "long")]
    delete = write_keys(tmp_path / "d.parquet", columns[1:], [{2: 1}], [1, 2], scope=SCOPE)
    for constant in (None, "x"):
        CACHE.clear()
        with pytest.raises(CorruptFileError, match=r"MISSING_DELETE_KEY.*field id 1.*'p'"):
            answers(tmp_path, columns, [delete], {1: constant}, [{1: constant, 2: 1}, {1: constant, 2: 2}])


def test_a_table_of_longs_is_left_of_a_string_and_a_long(tmp_path):
    columns = [Column(1, "p", "string"), Column(2, "k", "long")]
    rows = [{1: "x", 2: n} for n in range(5000)]
    delete = write_keys(tmp_path / "d.parquet", columns, rows, [1, 2], scope=SCOPE)
    sizes = {}
    for fold in (True, False):
        metrics = Metrics()
        context = context_of(tmp_path, columns, settings={"simplify_keys": fold, "delete_cache": "worker"})
        found = load_equality(context, task_of(delete, constants={1: "x"}), metrics)
        assert found.field_ids == ((2,) if fold else (1, 2))
        assert metrics.counters["delete_keys.folded"] == (5000 if fold else 0)
        assert found.none_between(2, 5000, 9000) is fold
        sizes[fold] = sum(key_set.nbytes for applied in found._applicable for key_set in applied.key_sets)
        CACHE.clear()
    assert sizes[True] * 10 < sizes[False]


def test_partitions_do_not_share_folded_keys(tmp_path):
    columns = [Column(1, "p", "string"), Column(2, "k", "long")]
    files = {
        p: write_keys(tmp_path / f"{p}.parquet", columns, [{1: p, 2: n}], [1, 2], scope=f"(1, ('{p}',))")
        for n, p in enumerate("xyz")
    }
    context = context_of(tmp_path, columns)
    for number, (p, delete) in enumerate(files.items()):
        found = load_equality(context, task_of(delete, constants={1: p}), Metrics())
        assert found.deleted({2: pa.array([0, 1, 2])}, 3).tolist() == [number == n for n in range(3)]


def table_of(folder, rng, partition_kind):
    """Make a table of two specs, deletes by (p, id), (id, s), (p) and of rows that their partition does not hold."""
    table = Table(folder, {"p": partition_kind, "id": "long", "s": {"x": "int"}, "t": "string"})
    number = 0

    def rows(count):
        nonlocal number
        for _ in range(count):
            number += 1
            p = rng.choice(pool)
            yield {
                "p": p,
                "id": number,
                "s": rng.choice([None, {"x": rng.choice([None, 1, 2])}]),
                "t": f"t{number % 5}",
            }

    pool = {"string": ["a", "b", None, "a" * 40], "double": [0.0, -0.0, math.nan, None, 1.5]}.get(
        partition_kind, [1, 2, None]
    )
    table.append_all(rows(30), row_group_size=7)
    table.delete_equal(["p", "id"], [{"p": rng.choice(pool), "id": rng.randint(1, 30)} for _ in range(20)])
    table.partition_by(["identity(p)", *rng.choice([[], ["identity(s.x)"], ["bucket[2](id)"]])])
    files = table.append_all(rows(60), row_group_size=7)
    for _ in range(4):
        # Else of the spec without fields, so for all partitions.
        like = rng.choice(files) if rng.random() < 0.6 else None
        keys = rng.choice([["p", "id"], ["id", "p", "t"], ["p"], ["p", "s.x"], ["id"]])
        gone = [
            {
                "p": rng.choice(pool),
                "id": rng.randint(1, number),
                "s": {"x": rng.choice([None, 1])},
                "t": f"t{rng.randint(0, 4)}",
            }
            for _ in range(rng.choice([1, 30]) if keys != ["p"] else 1)
        ]
        table.delete_equal(keys, gone, rng.choice(["parquet", "avro", "orc"]), like=like)
        files += table.append_all(rows(10))
    if rng.random() < 0.5:
        table.drop_column("t")
    table.write()
    return table


@pytest.mark.parametrize("partition_kind", ["string", "int", "double"])
@pytest.mark.parametrize("seed", range(6))
def test_tables_partitioned_by_a_key_column(tmp_path, seed, partition_kind, monkeypatch):
    monkeypatch.setattr(host_key_sets, "MIN_KEYS_TO_SHARE", 1)
    rng = random.Random(f"{seed} {partition_kind}")
    table = table_of(tmp_path / "table", rng, partition_kind)
    opened = open_table(tmp_path / "table")
    fields = opened.table.schema.fields
    wanted = [oracle.project(row, fields) for row in oracle.live_rows(table.content())]
    worker, host = {"deletes.cache": "worker"}, {"deletes.cache-dir": str(tmp_path / "cache")}
    for options in (
        worker,
        {**worker, "deletes.simplify": "false"},
        host,
        {**host, "deletes.simplify": "false"},
        host,
        {**worker, "deletes.stream": "always"},
        {**worker, "two-stage": "false", "deletes.dense": "false"},
        {**worker, "prune.deletes": "false"},
    ):
        CACHE.clear()
        result = scan(with_options(opened, options))
        problem = oracle.difference(result.rows, wanted)
        assert not problem, f"seed {seed} {partition_kind} {options}: {problem}"
