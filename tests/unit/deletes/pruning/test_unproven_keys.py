"""What pages and partitions do not prove of keys: bounds that are cut, fields of structs, tables that grew."""

from __future__ import annotations

import numpy as np
import pytest

from declared.types import Column
from equality_keys import load
from scan_values import write_keys
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.keys.intervals import KeyDomain
from twostage.deletes.keys.key_columns import KeyField, KeyShape
from twostage.deletes.pruning.page_proofs import KeyPages
from twostage.predicates.bounds import Bounds
from twostage.schema import Field, Primitive


@pytest.fixture(autouse=True)
def _empty_cache():
    CACHE.clear()
    yield
    CACHE.clear()


def one_run(kind, value, *, exact=True, is_column=True):
    """Three rows whose bounds are both `value`."""
    bounds = Bounds(
        lower=value, upper=value, null_count=0, value_count=3, exact_lower=exact, exact_upper=exact
    )
    return KeyPages.of_row_group(
        3, [1], lambda field_id: bounds, lambda field_id: Primitive(kind), lambda field_id: is_column
    )


@pytest.mark.parametrize(("keys", "proven"), [(["ab"], "every"), (["abc"], "none")])
@pytest.mark.parametrize("exact", [True, False])
def test_equal_bounds_of_texts_are_a_value_only_if_exact(tmp_path, keys, proven, exact):
    column = Column(1, "c", "string")
    delete = write_keys(tmp_path / "d.parquet", [column], [{1: key} for key in keys], [1])
    equality = load(tmp_path, [column], [delete])
    none, every = one_run("string", "ab", exact=exact).decide_by_lookup(
        equality.field_ids, equality.deleted, np.array([3]), 1
    )
    assert (bool(none[0]), bool(every[0])) == (exact and proven == "none", exact and proven == "every")


@pytest.mark.parametrize("is_column", [True, False])
def test_counts_of_a_field_of_a_struct_prove_nothing(tmp_path, is_column):
    """A NULL struct is a NULL that its field's counts may not tell."""
    column = Column(1, "c", "long")
    delete = write_keys(tmp_path / "d.parquet", [column], [{1: 5}], [1])
    pages = one_run("long", 5, is_column=is_column)
    equality = load(tmp_path, [column], [delete])
    none, every = pages.decide_by_lookup(equality.field_ids, equality.deleted, np.array([3]), 1)
    assert (bool(none[0]), bool(every[0])) == (False, is_column)
    assert pages.runs_outside(1, KeyDomain(True, False, [7], [7])).tolist() == [is_column]


def test_a_partition_decides_no_field_of_a_struct():
    kind = Primitive("long")
    fields = [
        KeyField(Field(id=number, name=names[-1], type=kind, required=False), kind, names)
        for number, names in ((1, ("a",)), (2, ("s", "b")))
    ]
    shape = KeyShape.of(fields, "(1, (7, 8))", {1: 7, 2: 8})
    assert [key.field.id for key, _ in shape.fixed] == [1]
    assert [key.field.id for key in shape.fields] == [2]
