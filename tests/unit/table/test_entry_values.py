"""Values of manifest entries in whatever form their writer chose: partition values, and maps of metrics."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from twostage.table.entry_values import ABSENT, pairs_reader, partition_readers

UUID = "00010203-0405-0607-0809-0a0b0c0d0e0f"


def record(*types: Any) -> Any:
    names = ("key", "value", "more")
    return {
        "type": "record",
        "name": "k1_v2",
        "fields": [{"name": n, "type": t} for n, t in zip(names, types, strict=False)],
    }


def array(item: Any) -> Any:
    return {"type": "array", "logicalType": "map", "items": item}


PAIR = record("int", "long")
PAIRS = [{"key": 1, "value": 10}, {"key": 2, "value": 20}]


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (["null", array(PAIR)], PAIRS, {1: 10, 2: 20}),
        (array(PAIR), PAIRS, {1: 10, 2: 20}),
        (array(PAIR), [], {}),
        (["null", array(PAIR)], None, ABSENT),
        ("null", None, ABSENT),
        (array(record("int", ["null", "long"])), [{"key": 1, "value": None}, {"key": 2, "value": 5}], {2: 5}),
        (array(["null", PAIR]), [None, {"key": 2, "value": 5}], {2: 5}),
        (array(record("int", "long", "int")), [{"key": 1, "value": 5, "more": 9}], {1: 5}),
        (["null", array(["null", PAIR])], None, ABSENT),
        ({"type": "map", "values": "long"}, {"1": 10, "2": None}, {1: 10}),
        (["null", {"type": "map", "values": "long"}], None, ABSENT),
    ],
)
def test_maps_of_metrics(kind: Any, given: Any, expected: Any) -> None:
    found = pairs_reader(kind)(given)
    assert found == expected
    assert (found is ABSENT) == (expected is ABSENT), "an absent map is not an empty one"


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        ("int", 5, 5),
        (["null", "string"], "x", "x"),
        (["null", "string"], None, None),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            b"\xff\x85",
            Decimal("-1.23"),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, b"\x05", Decimal(5)),
        (["null", {"type": "fixed", "size": 4, "logicalType": "decimal", "scale": 1}], None, None),
        ({"type": "fixed", "size": 16, "logicalType": "uuid"}, bytes(range(16)), UUID),
        ({"type": "string", "logicalType": "uuid"}, UUID.upper(), UUID),
        (["null", {"type": "fixed", "size": 16, "logicalType": "uuid"}], None, None),
        ({"type": "long", "logicalType": "timestamp-millis"}, 7, 7000),
        ({"type": "int", "logicalType": "time-millis"}, 7, 7000),
        (["null", {"type": "long", "logicalType": "local-timestamp-millis"}], None, None),
        ({"type": "long", "logicalType": "timestamp-micros"}, 7, 7),
        ({"type": "int", "logicalType": "date"}, 7, 7),
    ],
)
def test_partition_values(kind: Any, raw: Any, value: Any) -> None:
    fields = [
        {"name": "_1000", "type": kind},
        {"name": "_1001", "type": "int"},
        {"name": "other", "type": "int"},
    ]
    types = {"_102": {"type": "record", "name": "r102", "fields": fields}}
    ((field_id, name, read),) = partition_readers(types, {1000})
    assert (field_id, name) == (1000, "_1000")
    found = read(raw)
    assert found == value
    assert type(found) is type(value)
