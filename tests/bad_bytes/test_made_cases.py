"""Every made case of bad bytes by name: a typed error that names file and stage, or the right rows."""

from __future__ import annotations

import pytest
from delete_cases import DELETES, NONE_DELETED
from metadata_cases import METADATA
from parquet_cases import OTHER_ROWS, PARQUET
from plain_tables import data_file, plain_table
from read_everything import WAYS, read_everything

import oracle
from figures import record

ALL = [(1, "a"), (2, "b"), (3, "c")]
PASSED: set[str] = set()


def exact(value):
    return None if value is None else oracle.exact(value)


def check(name, path, code, ending, stage, rows=ALL):
    """Read by every way, all rows and filtered; see the module."""
    for way, options in WAYS.items():
        for filtered in (False, True):
            came = read_everything(path, filtered=filtered, **options)
            place = (name, way, filtered, str(came.error), came.rows)
            if code is None:
                assert came.error is None, place
                wanted = [row for row in rows if not filtered or row[1] is not None]
                assert not oracle.difference(came.rows, [tuple(map(exact, row)) for row in wanted]), place
                continue
            assert came.error is not None, place
            assert came.error.code in code.split("|"), place
            assert came.error.path is not None, place
            assert came.error.path.endswith(ending), place
            # A page is decoded in the stage that asks for it first.
            assert came.error.stage in ((stage, "filter") if stage == "fetch" else (stage,)), place
            assert f"file {came.error.path}, stage {came.error.stage}" in str(came.error), place
    PASSED.add(name)


@pytest.mark.parametrize("name", PARQUET)
def test_parquet(name, tmp_path):
    data, code, stage = PARQUET[name]
    rows = OTHER_ROWS.get(name, ALL)
    check(f"parquet: {name}", data_file(data, tmp_path), code, ".parquet", stage, rows)


@pytest.mark.parametrize("name", METADATA)
def test_metadata(name, tmp_path):
    make, code, ending, stage = METADATA[name]
    check(f"metadata: {name}", make(tmp_path), code, ending, stage, ALL)


@pytest.mark.parametrize("name", DELETES)
def test_deletes(name, tmp_path):
    make, code, ending, stage = DELETES[name]
    rows = ALL if name in NONE_DELETED else [ALL[0], ALL[2]]
    check(f"deletes: {name}", make(tmp_path), code, ending, stage, rows)


@pytest.fixture(scope="module", autouse=True)
def _figures():
    """Put the number of cases on the scoreboard, at the end of the module."""
    yield
    record("R5", made_cases=len(PASSED))


OPTIONS = {
    "unknown key": ({"brnch": "main"}, "UNKNOWN_OPTION"),
    "bad number": ({"batch-size": "many"}, "BAD_OPTION"),
    "negative number": ({"batch-size": "-1"}, "BAD_OPTION"),
    "bad snapshot": ({"snapshot-id": "12"}, "SNAPSHOT_NOT_FOUND"),
    "snapshot is no number": ({"snapshot-id": "x"}, "BAD_OPTION"),
    "unknown branch": ({"branch": "none"}, "BRANCH_NOT_FOUND"),
    "conflicting pair": ({"branch": "main", "tag": "x"}, "CONFLICTING_OPTIONS"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name, tmp_path):
    """What the user typed: refused by name, with a hint, before a file is read."""
    options, code = OPTIONS[name]
    plain_table(tmp_path).write()
    error = read_everything(tmp_path, filtered=False, **options).error
    assert error is not None
    assert error.code == code
    assert error.stage
    assert error.hint
    PASSED.add(f"options: {name}")


def test_the_list_is_long_enough():
    """The scoreboard asks for 60 and more."""
    assert len(PARQUET) + len(METADATA) + len(DELETES) + len(OPTIONS) >= 60
