"""Values as sortable keys: in the order of the values, numbers and text alike, and quantiles of them."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from index_columns import Values
from twostage.indexes.key_forms import KeyForm, form_of, quantiles, sample_keys
from twostage.schema import Primitive

STRING = Primitive("string")


@pytest.mark.parametrize("prefix", ["", "x", "device-" * 40])
def test_of_two_texts_the_greater_never_has_the_lesser_key(prefix):
    drawn = random.Random(len(prefix))
    texts = sorted(
        {prefix + "".join(drawn.choices("aé\x00z", k=drawn.randrange(12))) for _ in range(500)},
        key=str.encode,
    )
    array = pa.array(texts)
    form = form_of(Values(array, STRING))
    assert form.prefix is not None
    assert form.prefix.startswith(prefix.encode())
    keys = form.keys(array)
    assert (np.diff(keys.astype(object)) >= 0).all()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_text_s_key_is_its_eight_bytes_behind_the_prefix(kind):
    drawn = random.Random(5)
    texts = ["pre" + "".join(drawn.choices("aé\x00z", k=drawn.randrange(12))) for _ in range(300)]
    part = pa.array(["pre", *texts, "other"], kind)[1:-1]  # of a longer array
    expected = [int.from_bytes(text.encode()[3:11].ljust(8, b"\0"), "big") - 2**63 for text in texts]
    assert KeyForm(b"pre").keys(part).tolist() == expected
    assert KeyForm(b"pre").keys(part[:0]).tolist() == []


def test_numbers_are_their_own_keys_and_wide_decimals_have_none():
    assert form_of(Values(pa.array([1, 2]), Primitive("long"))).prefix is None
    wide = pa.array([10**30], pa.decimal128(38, 0))
    values = Values(wide, Primitive("decimal", precision=38, scale=0))
    assert sample_keys(values, form_of(values)) is None


def test_few_values_have_a_quantile_each_and_many_about_as_many_rows():
    assert quantiles(np.array([1, 1, 5, 5, 9]), 4).tolist() == [1, 5]
    assert quantiles(np.zeros(0, np.int64), 4).tolist() == []
    bounds = quantiles(np.arange(1_000), 4)
    assert np.bincount(np.searchsorted(bounds, np.arange(1_000), "left")).tolist() == [251, 250, 250, 249]
