"""Shredded variants put together: the tables of VariantShredding.md, and parts that contradict each other.

Whole files, random shapes and slices are in `tests/cases/test_shredded_variants.py` and `test_sliced_variants.py`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from twostage.formats.variant import shredding
from twostage.formats.variant.shredding import reconstruct
from variant_rows import EMPTY, NULL, decoded, metadata_of, shredded, small_object, text

LONG, STRING = pa.int64(), pa.string()
MISSING = "NULL"


def values_of(rows: list[Any], kind: pa.DataType) -> list[Any]:
    """Return the values of rows, MISSING where the variant itself is NULL."""
    values, metadata = reconstruct(pa.array(rows, kind))
    assert values.type == metadata.type == pa.large_binary()
    pairs = zip(values.to_pylist(), metadata.to_pylist(), strict=True)
    return [MISSING if value is None else decoded(names, value) for value, names in pairs]


def long(number: int) -> tuple[int, bytes]:
    """Return a number as `decoded` does: its type in the variant's encoding, and its bytes."""
    return 6, number.to_bytes(8, "little")


def test_primitive_columns() -> None:
    """VariantShredding.md, the table of ``measurement``: a value that fits, another one, null, and none at all."""
    rows = [
        {"metadata": EMPTY, "typed_value": 34},
        {"metadata": EMPTY, "value": NULL},
        {"metadata": EMPTY, "value": text("n/a")},
        None,
        {"metadata": EMPTY},
    ]
    assert values_of(rows, shredded(LONG, metadata=True)) == [long(34), None, "n/a", MISSING, None]


def test_arrays() -> None:
    """VariantShredding.md, the table of ``tags``: elements may be shredded or not; a missing one is null."""
    rows = [
        {"metadata": EMPTY, "typed_value": [{"typed_value": "comedy"}, {"value": text("drama")}]},
        {"metadata": EMPTY, "typed_value": [{"value": NULL}, {}]},
        {"metadata": EMPTY, "typed_value": []},
        {"metadata": EMPTY, "value": text("no array")},
    ]
    for make in (pa.list_, pa.large_list):
        found = values_of(rows, shredded(make(shredded(STRING)), metadata=True))
        assert found == [["comedy", "drama"], [None, None], [], "no array"]


EVENT = shredded(pa.struct([("kind", shredded(STRING)), ("at", shredded(LONG))]), metadata=True)
NAMES = metadata_of("kind", "at", "email")


def event(kind: Any = None, at: Any = None, value: bytes | None = None) -> dict[str, Any]:
    def field(one: Any) -> dict[str, Any]:
        return {"value": one} if isinstance(one, bytes) else {"typed_value": one}

    return {"metadata": NAMES, "value": value, "typed_value": {"kind": field(kind), "at": field(at)}}


def test_objects() -> None:
    """VariantShredding.md, the table of ``event``: shredded fields, the rest of them in ``value``, or no object."""
    rows = [
        event("noop", 1),
        event("login", 2, small_object([2], [text("u@example.com")])),
        event(text("malformed"), NULL),
        event(None, 3),
        event(),
        {"metadata": NAMES, "value": text("no object")},
        None,
    ]
    rows[4]["metadata"] = EMPTY
    assert values_of(rows, EVENT) == [
        {"kind": "noop", "at": long(1)},
        {"kind": "login", "at": long(2), "email": "u@example.com"},
        {"kind": "malformed", "at": None},
        {"at": long(3)},
        {},
        "no object",
        MISSING,
    ]


def test_names_that_the_metadata_lacks_are_added() -> None:
    """A shredded field's name is in the file's schema; in the metadata it need not be."""
    row = event("a", 1)
    row["metadata"] = metadata_of("other")
    values, metadata = reconstruct(pa.array([row, row], EVENT))
    assert decoded(metadata[1].as_py(), values[1].as_py()) == {"kind": "a", "at": long(1)}
    assert b"other" in metadata[0].as_py()


def test_fields_are_sorted_by_name_in_utf16() -> None:
    """As Spark searches them: U+1D11E comes before U+FB01 there, and behind it by UTF-8."""
    names = ["\ufb01", "b", "𝄞", "a"]
    kind = shredded(pa.struct([(name, shredded(STRING)) for name in names]), metadata=True)
    row = {"metadata": metadata_of("c"), "value": small_object([0], [text("c")])}
    row["typed_value"] = {name: {"typed_value": name} for name in names}
    (found,) = values_of([row], kind)
    assert list(found) == list(found.values()) == ["a", "b", "c", "𝄞", "\ufb01"]


def test_parts_nest() -> None:
    kind = shredded(
        pa.struct([("l", shredded(pa.list_(shredded(pa.struct([("x", shredded(LONG))])))))]), metadata=True
    )
    inner = [{"typed_value": {"x": {"typed_value": 1}}}, {"typed_value": {"x": {}}}, {"value": NULL}]
    row = {"metadata": metadata_of("l", "x"), "typed_value": {"l": {"typed_value": inner}}}
    assert values_of([row], kind) == [{"l": [{"x": long(1)}, {}, None]}]


def test_columns_without_value_or_typed_value() -> None:
    assert values_of([{"metadata": EMPTY, "typed_value": 1}], shredded(LONG, value=False, metadata=True)) == [
        long(1)
    ]
    assert values_of([{"metadata": EMPTY, "value": text("x")}], shredded(None, metadata=True)) == ["x"]


@pytest.mark.parametrize("at_once", [1, 2, 3, 8_192])
def test_any_number_of_rows_at_once(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shredding, "ROWS_AT_ONCE", at_once)
    rows = [event(str(i), i) if i % 3 else None for i in range(7)]
    expected = [{"kind": str(i), "at": long(i)} if i % 3 else MISSING for i in range(7)]
    assert values_of(rows, EVENT) == expected
    assert values_of([], EVENT) == []


@pytest.mark.parametrize("wrap", [pa.string_view, lambda: pa.dictionary(pa.int32(), STRING), pa.large_string])
def test_text_in_the_forms_that_readers_give(wrap: Any) -> None:
    rows = [{"metadata": EMPTY, "typed_value": "a" * 20}, {"metadata": EMPTY, "value": text("b")}]
    kind = shredded(wrap(), metadata=True)
    assert values_of(rows, kind) == ["a" * 20, "b"]


def row(**parts: Any) -> dict[str, Any]:
    return {"metadata": EMPTY, **parts}


WHOLE = pa.field("metadata", pa.binary())
OBJECT = shredded(pa.struct([("a", shredded(LONG))]), metadata=True)
A = metadata_of("a")
WRONG = {
    "no metadata": ({"typed_value": 1}, shredded(LONG, metadata=True), "no metadata"),
    "no metadata in the schema": ({"typed_value": 1}, shredded(LONG), "no metadata"),
    "a value of no bytes": (row(value=b""), shredded(LONG, metadata=True), "no bytes"),
    "both parts of a number": (row(value=NULL, typed_value=1), shredded(LONG, metadata=True), "both a value"),
    "both parts of an array": (
        row(value=NULL, typed_value=[{"typed_value": 1}]),
        shredded(pa.list_(shredded(LONG)), metadata=True),
        "both a value",
    ),
    "a field in both parts": (
        {"metadata": A, "value": small_object([0], [NULL]), "typed_value": {"a": {"typed_value": 1}}},
        OBJECT,
        "is in its value, too",
    ),
    "a field that is missing and in the value": (
        {"metadata": A, "value": small_object([0], [NULL]), "typed_value": {"a": {}}},
        OBJECT,
        "is in its value, too",
    ),
    "a name that nobody knows": (
        {"metadata": A, "value": small_object([1], [NULL]), "typed_value": {"a": {}}},
        OBJECT,
        "not in its metadata",
    ),
    "a value beside fields that is no object": (
        row(value=text("x"), typed_value={"a": {}}),
        OBJECT,
        "its value is none",
    ),
    "a type that is not shredded": (
        row(typed_value=1),
        shredded(pa.uint64(), metadata=True),
        "uint64, which is not a type",
    ),
    "a type that is not shredded, without values": (
        row(),
        shredded(pa.uint64(), metadata=True),
        "uint64, which is not a type",
    ),
    "a map": (row(typed_value=[("a", 1)]), shredded(pa.map_(STRING, LONG), metadata=True), "shredded as map"),
    "a value of text": (
        row(value="x"),
        pa.struct([WHOLE, ("value", STRING), ("typed_value", LONG)]),
        "and not bytes",
    ),
    "an element that is no group": (
        row(typed_value=[1]),
        shredded(pa.list_(LONG), metadata=True),
        "and not value and typed_value",
    ),
    "a part of another name": (
        row(typed_value={"a": {"other": 1}}),
        shredded(pa.struct([("a", pa.struct([("other", LONG)]))]), metadata=True),
        "its parts are other",
    ),
    "a group of no parts": (
        row(typed_value={"a": {}}),
        shredded(pa.struct([("a", pa.struct([]))]), metadata=True),
        "its parts are none",
    ),
    "a part twice": (
        row(),
        pa.struct([WHOLE, ("typed_value", LONG), ("typed_value", LONG)]),
        "its parts are metadata, typed_value, typed_value",
    ),
    "metadata that is none": (
        {"metadata": b"\x02", "typed_value": 1},
        shredded(LONG, metadata=True),
        "no known version",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_contradicts_itself_is_an_error(name: str) -> None:
    one, kind, message = WRONG[name]
    if name == "a part twice":
        children = [pa.array([EMPTY], pa.binary()), pa.array([1]), pa.array([2])]
        array = pa.StructArray.from_arrays(children, fields=list(kind))
    else:
        array = pa.array([one], kind)
    with pytest.raises(ValueError, match=message):
        reconstruct(array)


def test_a_field_that_is_shredded_twice() -> None:
    part = pa.array([{"typed_value": 1}], shredded(LONG))
    typed = pa.StructArray.from_arrays([part, part], names=["a", "a"])
    parts = [pa.array([A], pa.binary()), pa.nulls(1, pa.binary()), typed]
    with pytest.raises(ValueError, match="one shredded field twice"):
        reconstruct(pa.StructArray.from_arrays(parts, names=["metadata", "value", "typed_value"]))
