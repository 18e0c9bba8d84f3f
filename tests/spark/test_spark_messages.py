"""The contract of Java and Python: the planner's messages have the same classes, fields and types on both sides.

The Java is what this session's Janino compiled; its classes are looked at by reflection.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import pytest
from py4j.protocol import Py4JJavaError

from twostage.spark.answers import ANSWERS, Failure
from twostage.spark.requests import REQUESTS

SIMPLE = {
    "java.lang.String": "str",
    "int": "int",
    "long": "int",
    "java.lang.Integer": "int",
    "java.lang.Long": "int",
    "boolean": "bool",
    "java.util.Map": "map",
}
ABSTRACT = {"Request", "PinnedRequest"}


def camel_case(call):
    return "".join(word.capitalize() for word in call.split("_"))


PAIRS = [
    *((f"Requests${camel_case(call)}", kind) for call, kind in REQUESTS.items()),
    *((f"Answers${camel_case(call)}", kind) for call, kind in ANSWERS.items()),
    ("Answers$Failure", Failure),
]


@pytest.fixture
def load(spark):
    """Return a function that loads one of the planner's classes."""
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return lambda name: loader.loadClass(f"twostage_planner.{name}")


def snake_case(name):
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def of_java(kind):
    """Return a class's fields: type and whether null is allowed, by name in JSON."""
    nullable = list(kind.getField("NULLABLE").get(None))
    found = {}
    for field in kind.getFields():
        if "static" not in field.toString().split():
            name = field.getName()
            found[snake_case(name)] = (of_java_type(field.getType()), name in nullable)
    assert set(map(snake_case, nullable)) <= found.keys(), kind.getName()
    return found


def of_java_type(kind):
    if kind.isArray():
        return [of_java_type(kind.getComponentType())]
    name = kind.getName()
    return SIMPLE.get(name) or name.partition("$")[2]


def of_python(kind):
    hints = typing.get_type_hints(kind)
    return {field.name: of_python_type(hints[field.name]) for field in fields(kind)}


def of_python_type(kind):
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return of_python_type(inner)[0], True
    if origin is tuple:
        return [of_python_type(arguments[0])[0]], False
    return "map" if origin is Mapping else kind.__name__, False


def nested(kind):
    """Return the messages inside a message, at any depth."""
    for hint in typing.get_type_hints(kind).values():
        for inner in (hint, *typing.get_args(hint)):
            if is_dataclass(inner):
                yield inner
                yield from nested(inner)


@pytest.mark.parametrize(("name", "kind"), PAIRS, ids=[name for name, _ in PAIRS])
def test_both_sides_say_the_same_fields(load, name, kind):
    assert of_java(load(name)) == of_python(kind)
    for inner in set(nested(kind)):
        assert of_java(load(f"{name.partition('$')[0]}${inner.__name__}")) == of_python(inner)


def test_no_class_is_on_one_side_only(load):
    for outer in ("Requests", "Answers"):
        pairs = [(name, kind) for name, kind in PAIRS if name.startswith(outer)]
        expected = {name.partition("$")[2] for name, _ in pairs}
        expected |= {inner.__name__ for _, kind in pairs for inner in nested(kind)}
        found = {kind.getName().partition("$")[2] for kind in load(outer).getDeclaredClasses()}
        assert found - ABSTRACT == expected


def read(spark, load, name, raw):
    """Let Java read an answer."""
    gateway = spark.sparkContext._gateway
    jvm = gateway.jvm
    read = next(method for method in load("Message").getDeclaredMethods() if method.getName() == "read")
    read.setAccessible(True)
    values = jvm.java.util.ArrayList()
    values.add(load(name))
    mapper = getattr(jvm, "com.fasterxml.jackson.databind.ObjectMapper")()
    values.add(mapper.readValue(json.dumps(raw), jvm.java.lang.Class.forName("java.util.Map")))
    return read.invoke(None, values.toArray())


PLAN = {"scan": "s", "rows": 3, "bytes": 2**40, "prunable": True, "indexed": "", "placed": False}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": None}, "Answers.Plan.rows is null"),
        ({"rows": "3"}, "Answers.Plan.rows is String, not long"),
        ({"prunable": 1}, "Answers.Plan.prunable is Integer, not boolean"),
        ({"thins": True}, "Answers.Plan has an unknown field thins"),
        ({"prunable": ...}, "Answers.Plan lacks the field prunable"),
    ],
)
def test_java_names_what_is_not_as_agreed(spark, load, changes, words):
    raw = {name: value for name, value in {**PLAN, **changes}.items() if value is not ...}
    with pytest.raises(Py4JJavaError) as caught:
        read(spark, load, "Answers$Plan", raw)
    assert f"[TWOSTAGE.INTERNAL] The planner's Java and Python do not agree: {words}. Hint:" in str(
        caught.value
    )


def test_java_reads_what_is_as_agreed(spark, load):
    assert read(spark, load, "Answers$Plan", PLAN).toJson().toString() is not None


def test_a_member_that_this_spark_lacks_is_named(spark, load):
    jvm = spark.sparkContext._gateway.jvm
    get = next(method for method in load("SparkInternals").getDeclaredMethods() if method.getName() == "get")
    get.setAccessible(True)
    values = jvm.java.util.ArrayList()
    for value in (load("SparkInternals"), "no_such_member", None):
        values.add(value)
    with pytest.raises(Py4JJavaError) as caught:
        get.invoke(None, values.toArray())
    words = f"[TWOSTAGE.SPARK_INTERNALS] Spark {spark.version} has no member twostage_planner.SparkInternals.no_such_member"
    assert words in str(caught.value)
    assert "SparkInternals$MissingMember" in str(caught.value)
    assert "twostage was checked on Spark 4.1.4, 4.2.1 and 4.3.0" in str(caught.value)


def test_reflection_is_in_one_file():
    from importlib.resources import files

    for entry in files("twostage.planner").iterdir():
        if entry.name.endswith(".java") and entry.name not in ("SparkInternals.java", "Message.java"):
            assert "java.lang.reflect" not in entry.read_text(encoding="utf-8"), entry.name
            assert "setAccessible" not in entry.read_text(encoding="utf-8"), entry.name
