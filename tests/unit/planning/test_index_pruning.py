"""Which data files a table-wide index spares a query; the rows are brute force's each time."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
from check import Columns, check
from core_scan import open_table, scan
from tables import Table
from twostage.__main__ import main
from twostage.deletes.cache.memory import CACHE
from twostage.planning.index_pruning import MAX_KEYS_PER_FILE
from twostage.predicates.key_set import key_set
from twostage.predicates.predicate import And, Compare, In, InKeys, IsNull, Not, Or
from twostage.predicates.top import TopRows

FILES, ROWS = 12, 200


def append(table: Table, number: int, **more: Any) -> None:
    rng = random.Random(number)
    rows = [
        {
            "id": number * ROWS + i,
            "key": None if i % 50 == 3 else rng.randrange(100_000),
            "name": f"name {rng.randrange(5_000):04}",
            "x": i % 7,
        }
        for i in range(ROWS)
    ]
    table.append(rows, row_group_size=100, **more)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Every file has keys over the whole range, so that bounds prune none."""
    table = Table(
        tmp_path_factory.mktemp("t") / "t", {"id": "long", "key": "long", "name": "string", "x": "int"}
    )
    for number in range(FILES):
        append(table, number)
    table.write()
    assert main(["index", "create", str(table.folder), "--columns", "key,name", "--kind", "files"]) == 0
    return table


def rows_of(table: Table) -> list[dict[int, Any]]:
    return oracle.live_rows(table.content())


def run(table: Table, where: Any, **options: str):
    opened = open_table(table.folder)
    predicate = where(Columns(opened.table.schema))
    field = opened.table.schema.find(("id",))
    wanted = [row[field.id] for row in rows_of(table) if oracle.evaluate(predicate, row) is True]
    return check(table, wanted, where, **options), wanted


def keys(table: Table, count: int) -> list[int]:
    field = open_table(table.folder).table.schema.find(("key",))
    return random.Random(count).sample(
        [row[field.id] for row in rows_of(table) if row[field.id] is not None], count
    )


@pytest.mark.parametrize("op", ["=", "<=>"])
def test_a_key_opens_the_files_that_hold_it(table, op):
    (key,) = keys(table, 1)
    found, wanted = run(table, lambda c: Compare(op, c("key"), key))
    files = {i // ROWS for i in wanted}
    assert found.metrics.counters["files.read"] == len(files)
    assert found.metrics.counters["files.pruned.index"] == FILES - len(files)
    assert found.count("indexes.bytes_read") > 0
    for options in ({"index": "off"}, {"prune.files": "false"}):
        off, _ = run(table, lambda c: Compare(op, c("key"), key), **options)
        assert off.metrics.counters["files.read"] == FILES, options


def test_lists_and_combinations(table):
    one, two, three = keys(table, 3)
    c_key = lambda c, value: Compare("=", c("key"), value)  # noqa: E731
    for where, is_pruned in (
        (lambda c: In(c("key"), (one, two, three)), True),
        (lambda c: In(c("key"), (one, two), has_null=True), True),
        (lambda c: Or((c_key(c, one), c_key(c, two))), True),
        (lambda c: And((c_key(c, one), Compare("<", c("x"), 5))), True),
        (lambda c: And((In(c("key"), (one, two)), Compare("=", c("name"), "no such"))), True),
        (lambda c: Or((c_key(c, one), Compare("=", c("name"), "name 0001"))), True),
        (lambda c: c_key(c, 10**12), True),
        (lambda c: Or((c_key(c, one), Compare("=", c("x"), 6))), False),
        (lambda c: Not(c_key(c, one)), False),
        (lambda c: Not(In(c("key"), (one, two))), False),
        (lambda c: IsNull(c("key")), False),
        (lambda c: Compare("<", c("key"), one), False),
    ):
        found, _ = run(table, where)
        assert (found.metrics.counters["files.pruned.index"] > 0) == is_pruned or found.count(
            "files.read"
        ) == 0


def test_a_set_of_keys_of_a_join(table):
    """It is looked up as a list is, if it is not too long for the number of files."""
    some = keys(table, 3)
    twin = lambda c: In(c("key"), tuple(some))  # noqa: E731
    opened = open_table(table.folder)
    c = Columns(opened.table.schema)
    wanted = [row[c("id").field_id] for row in rows_of(table) if oracle.evaluate(twin(c), row) is True]
    found = check(table, wanted, lambda c: InKeys(c("key"), key_set(np.array(sorted(some)))))
    as_list, _ = run(table, twin)
    assert found.metrics.counters["files.pruned.index"] == as_list.metrics.counters["files.pruned.index"] > 0
    many = sorted({*some, *range(10**6, 10**6 + MAX_KEYS_PER_FILE * FILES)})
    too_many = check(table, wanted, lambda c: InKeys(c("key"), key_set(np.array(many))))
    assert too_many.metrics.counters["files.pruned.index"] == 0


def test_limits_and_top_rows(table):
    (key,) = keys(table, 1)
    opened = open_table(table.folder)
    c = Columns(opened.table.schema)
    predicate = Compare("=", c("key"), key)
    top = TopRows(column=c("id"), count=2, descending=True, nulls_first=False)
    _, wanted = run(table, lambda c: Compare("=", c("key"), key))
    for more in ({"limit": 1}, {"top": top}):
        found = scan(opened, predicate=predicate, **more)
        assert {row[0][1] for row in found.rows} <= set(wanted)
        assert found.rows
        assert found.metrics.counters["files.pruned.index"] > 0


def test_a_hint_opens_fewer_files_too(table):
    (key,) = keys(table, 1)
    opened = open_table(table.folder)
    c = Columns(opened.table.schema)
    found = scan(opened, hint=Compare("=", c("key"), key))
    _, wanted = run(table, lambda c: Compare("=", c("key"), key))
    assert set(wanted) <= {row[0][1] for row in found.rows}
    assert found.metrics.counters["files.pruned.index"] > 0


@pytest.fixture
def copy(tmp_path: Path) -> Table:
    table = Table(tmp_path / "t", {"id": "long", "key": "long", "name": "string", "x": "int"})
    for number in range(6):
        append(table, number)
    table.write()
    assert main(["index", "create", str(table.folder), "--columns", "key", "--kind", "files"]) == 0
    return table


def test_files_without_coverage_are_read(copy):
    (key,) = keys(copy, 1)
    copy.append([{"id": 10_000 + i, "key": key if i == 7 else i, "name": "", "x": 1} for i in range(50)])
    copy.delete_equal(["x"], [{"x": 3}])
    copy.widen_column("x", "long")
    copy.rename_column("key", "other")
    copy.write()
    found, wanted = run(copy, lambda c: Compare("=", c("other"), key))
    assert 10_007 in wanted
    assert found.metrics.counters["files.pruned.index"] >= 4
    copy.drop_column("other")
    copy.add_column("key", "long")
    copy.write()
    found, _ = run(copy, lambda c: Compare("=", c("key"), key))
    assert found.metrics.counters["files.pruned.index"] == 0  # another column


def test_a_damaged_index_prunes_nothing_wrong(copy):
    (path,) = (one for one in copy.folder.parent.rglob("files-*.puffin"))
    whole = path.read_bytes()
    rng = random.Random(5)
    found_keys = keys(copy, 8)
    ignored = 0
    for key in found_keys:
        data = bytearray(whole)
        for _ in range(30):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data if key % 2 else data[: len(data) // 2])
        CACHE.clear()
        found, _ = run(copy, lambda c, k=key: Compare("=", c("key"), k))
        ignored += found.metrics.counters["indexes.ignored"]
    assert ignored > 4


def test_a_name_mapping_concerns_files_without_ids_alone(tmp_path):
    """What these hold depends on names: they have no index. The others are pruned."""
    table = Table(
        tmp_path / "t", {"id": "long", "key": "long", "name": "string", "x": "int"}, name_mapping=True
    )
    for number in range(6):
        append(table, number, field_ids=number % 3 > 0)
    table.write()
    assert main(["index", "create", str(table.folder), "--columns", "key", "--kind", "files"]) == 0
    assert main(["index", "verify", str(table.folder), "--all"]) == 0
    present = set(keys(table, 1_000))
    absent = next(key for key in range(50_000, 60_000) if key not in present)
    found, wanted = run(table, lambda c: Compare("=", c("key"), absent))
    assert not wanted
    assert found.metrics.counters["files.pruned.index"] == 4
    for key in keys(table, 4):
        run(table, lambda c, key=key: Compare("=", c("key"), key))
