"""The messages of handing over have the same fields, types and NULLs in Python and in the planner's Java."""

from __future__ import annotations

import re
import typing
from dataclasses import MISSING, fields
from importlib import resources
from typing import Any

import pytest

from twostage.handover import protocol
from twostage.handover.protocol import DeletedRows, FilterConjunct, KeyRange, ScanDemand, SparkFile, SparkScan

JAVA = {FilterConjunct: "Requests", ScanDemand: "Requests", KeyRange: "Answers", SparkFile: "Answers", DeletedRows: "Answers", SparkScan: "Answers"}  # fmt: skip
PLAIN = {"String": str, "boolean": bool, "int": int, "long": int, "Integer": int}


def java_fields(message: type) -> dict[str, tuple[str, bool]]:
    """Return the fields of a message's Java class: their types, and whether they may be null."""
    source = resources.files("twostage") / "planner" / f"{JAVA[message]}.java"
    (body,) = re.findall(
        rf"class {message.__name__} extends Message \{{\n(.*?)\n  \}}\n", source.read_text(), re.DOTALL
    )
    nullable = re.findall(r'"(\w+)"', " ".join(re.findall(r"NULLABLE = \{(.*?)\}", body)))
    found = re.findall(r"^    public (?:final )?([\w\[\]]+) (\w+);$", body, re.MULTILINE)
    return {
        re.sub("([A-Z])", lambda part: "_" + part[0].lower(), name): (kind, name in nullable)
        for kind, name in found
    }


def in_java(kind: Any) -> tuple[set[str], bool]:
    """Return the Java types that a Python annotation allows, and whether None is allowed."""
    parts = typing.get_args(kind) if type(None) in typing.get_args(kind) else (kind,)
    (part,) = (part for part in parts if part is not type(None))
    suffix = ""
    if typing.get_origin(part) is tuple:
        part, suffix = typing.get_args(part)[0], "[]"
    if part in JAVA:
        return {part.__name__ + suffix}, len(parts) > 1
    names = {name for name, plain in PLAIN.items() if plain is part} or {"Map"}
    return {name + suffix for name in names}, len(parts) > 1


@pytest.mark.parametrize("message", JAVA, ids=lambda message: message.__name__)
def test_fields_are_those_of_java(message: type) -> None:
    java = java_fields(message)
    assert list(java) == [field.name for field in fields(message)]
    for name, kind in typing.get_type_hints(message, vars(protocol)).items():
        expected, may_be_none = in_java(kind)
        assert java[name][0] in expected, name
        assert java[name][1] == may_be_none, name


def test_a_demand_without_more_keeps_nothing_from_spark() -> None:
    """What tests leave out is what an ordinary query says."""
    defaults = {field.name: field.default for field in fields(ScanDemand) if field.default is not MISSING}
    assert defaults == {
        "predicates": (),
        "under_limit": False,
        "under_join": False,
        "may_be_pruned_by_join": False,
        "joined_by": None,
        "names_files": False,
        "reads_vectors": True,
        "file_systems": (),
    }
