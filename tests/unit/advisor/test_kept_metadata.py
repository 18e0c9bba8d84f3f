"""What is kept between two calls of ``advise collect``: back as it was, or not at all."""

from __future__ import annotations

import base64
import json
import zlib

import numpy as np
import pytest

from twostage.advisor.column_metadata import TableColumns, parse_metadata
from twostage.advisor.column_sample import ColumnSample
from twostage.advisor.kept_metadata import KEY, NAME, Collected, keep, kept_in, with_samples
from twostage.indexes.place import IndexPlace
from twostage.task import Storage

TABLE = TableColumns(table="db.t", snapshot=3, rows=10, files=2, bytes=100)
KEPT = Collected(
    data_files=np.array([3, 2**63 + 5], np.uint64), samples={1: ColumnSample(rows=5), 7: ColumnSample()}
)


def same(one, other):
    return (
        other is not None and list(one.data_files) == list(other.data_files) and one.samples == other.samples
    )


def test_it_comes_back_from_a_file_and_from_beside_the_indexes(tmp_path):
    text = with_samples(TABLE, KEPT)
    assert parse_metadata(text) == TABLE  # as --metadata takes it
    file = tmp_path / "t.json"
    file.write_text(text)
    assert same(KEPT, kept_in(None, str(file)))
    place = IndexPlace(storage=Storage(root=str(tmp_path)), folder=str(tmp_path / "indexes"))
    assert kept_in(place) is None
    assert keep(place, text) == place.path(NAME)
    assert same(KEPT, kept_in(place))
    assert kept_in(None) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        json.dumps({KEY: None}),
        json.dumps({KEY: {"data_files": "", "samples": {}}}),
        json.dumps({KEY: {"data_files": "%%", "samples": {}}}),
        json.dumps({KEY: {"data_files": base64.b64encode(zlib.compress(b"odd")).decode(), "samples": {}}}),
        json.dumps({KEY: {**KEPT.as_dict(), "samples": {"x": {}}}}),
        json.dumps({KEY: {**KEPT.as_dict(), "samples": [1]}}),
    ],
)
def test_what_cannot_be_understood_is_not_there(tmp_path, text):
    file = tmp_path / "t.json"
    file.write_text(text)
    assert kept_in(None, str(file)) is None
