"""Which functions of PySpark's give the rows of ``createDataFrame`` on as they are; test_spark_offered_keys.py has the rest."""

from __future__ import annotations

import random

import pytest
from pyspark import SparkContext
from pyspark.serializers import (
    AutoBatchedSerializer,
    BatchedSerializer,
    CloudPickleSerializer,
    CPickleSerializer,
)

from twostage.errors import UnsupportedFeatureError
from twostage.spark import driver_rows
from twostage.spark.driver_rows import passes_rows_on


def unchanged(row):
    return row


def pickled(function, together=1):
    """Return a function with its serializers; `together`: how many rows are pickled as one."""
    read = BatchedSerializer(CPickleSerializer(), together)
    return CloudPickleSerializer().dumps((function, None, read, AutoBatchedSerializer(CPickleSerializer())))


def passed_on(_, rows):
    return map(unchanged, rows)


@pytest.fixture
def context(monkeypatch):
    """A context whose own function is `passed_on`; nothing is asked of it but that."""
    monkeypatch.setattr(driver_rows, "identity_command", lambda _: pickled(passed_on))
    return object.__new__(SparkContext)


@pytest.mark.parametrize("together", [1, 200, 1000, 70_000])
def test_the_same_function(context, together):
    assert passes_rows_on(pickled(passed_on, together), context)


@pytest.mark.parametrize(
    "function",
    [
        lambda _, rows: map(unchanged, rows),
        lambda _, rows: (row for row in rows if random.random() < 0.5),
        lambda _, rows: (row for row in rows for _ in range(1000)),
        unchanged,
    ],
)
def test_another_function(context, function):
    assert not passes_rows_on(pickled(function), context)


@pytest.mark.parametrize("command", [b"", b"\x80\x05", b"no pickle", pickled(passed_on)[:-1]])
def test_no_pickle(context, command):
    assert not passes_rows_on(command, context)


def test_without_a_context(context):
    assert not passes_rows_on(pickled(passed_on), None)


def test_another_pyspark(context, monkeypatch):
    def missing(_):
        raise UnsupportedFeatureError("SPARK_INTERNALS", "no member", stage="options", hint="")

    monkeypatch.setattr(driver_rows, "identity_command", missing)
    assert not passes_rows_on(pickled(passed_on), context)
