"""Avro delete files under any writer's schema hold the keys that they hold under a plain one."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from declared.types import Column
from equality_keys import VALUES, data_columns, load, random_row
from odd_writers import rewrite_file
from scan_values import write_keys
from twostage.deletes.cache.memory import CACHE

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))


@pytest.mark.parametrize("seed", range(SEED, SEED + 40))
def test_keys_are_the_same_whatever_the_writers_schema(tmp_path, seed):
    """A column that nobody wants, of a union of several types, made the whole file unreadable."""
    pick = random.Random(seed)
    kinds = pick.sample(list(VALUES), pick.randint(1, 4))
    columns = [Column(i + 1, f"c{i}", kind) for i, kind in enumerate(kinds)]
    rows = [random_row(pick, columns, VALUES) for _ in range(30)]
    data = data_columns(columns, rows)
    path = tmp_path / "d.avro"
    delete = write_keys(path, columns, rows[::2], [column.id for column in columns])
    plain = load(tmp_path, columns, [delete]).deleted(data, len(rows)).tolist()
    assert any(plain)
    rewrite_file(path, pick)
    CACHE.clear()
    odd = load(tmp_path, columns, [replace(delete, file_size=path.stat().st_size)])
    assert odd.deleted(data, len(rows)).tolist() == plain
