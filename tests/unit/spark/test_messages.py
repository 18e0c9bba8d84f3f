"""JSON of the planner's Java becomes typed requests; a field too few, too many or of another type is named in the error."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from twostage.errors import InternalError
from twostage.handover.protocol import FilterConjunct, ScanDemand
from twostage.spark.answers import ANSWERS, Failure, HandOverAnswer
from twostage.spark.bridge import Bridge
from twostage.spark.messages import parse_message, parse_request, write_answer, write_failure
from twostage.spark.requests import REQUESTS, FirstRows, HandOverRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

FORM = {"op": "=", "left": {"column": ["id"]}, "right": {"literal": 1, "type": "long"}}
HAND_OVER: dict[str, Any] = {
    "call": "hand_over",
    "pin": "key",
    "pinned": None,
    "demand": {
        "columns": ["id", "name"],
        "returned": ["name"],
        "predicates": [{"form": FORM, "columns": ["id"]}, {"form": None, "columns": []}],
        "under_limit": False,
        "under_join": True,
        "may_be_pruned_by_join": True,
        "joined_by": "id",
        "names_files": False,
        "reads_vectors": True,
        "file_systems": ["s3a"],
    },
    "top": {"column": ["id"], "descending": True, "nulls_first": False, "keys": 1, "count": 10},
    "aggregates": None,
    "parallelism": 4,
    "planned": None,
    "has_keys": False,
}


def test_a_request_becomes_its_class() -> None:
    call, request = parse_request(json.dumps(HAND_OVER))
    assert call == "hand_over"
    assert request == HandOverRequest(
        pin="key",
        pinned=None,
        demand=ScanDemand(
            columns=("id", "name"),
            returned=("name",),
            predicates=(FilterConjunct(form=FORM, columns=("id",)), FilterConjunct(form=None, columns=())),
            under_join=True,
            may_be_pruned_by_join=True,
            joined_by="id",
            file_systems=("s3a",),
        ),
        top=FirstRows(column=("id",), descending=True, nulls_first=False, keys=1, count=10),
        aggregates=None,
        parallelism=4,
        planned=None,
        has_keys=False,
    )


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the request with one field changed; removed if the value is an ellipsis."""
    request = json.loads(json.dumps(HAND_OVER))
    *folders, name = path.split(".")
    place = request
    for folder in folders:
        place = place[int(folder)] if isinstance(place, list) else place[folder]
    if value is ...:
        del place[name]
    else:
        place[name] = value
    return request


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("call", ..., "There is no call None"),
        ("call", "look", "There is no call 'look'"),
        ("parallelism", ..., "hand_over lacks the field 'parallelism'"),
        ("stays", "x", "hand_over has an unknown field 'stays'"),
        ("parallelism", "4", "hand_over.parallelism is str, not int"),
        ("parallelism", True, "hand_over.parallelism is bool, not int"),
        ("pin", None, "hand_over.pin is NoneType, not str"),
        ("demand", [], "hand_over.demand is not an object: list"),
        ("demand.under_limit", ..., "hand_over.demand lacks the field 'under_limit'"),
        ("demand.underLimit", True, "hand_over.demand has an unknown field 'underLimit'"),
        ("demand.columns", "id", "hand_over.demand.columns is not a list: str"),
        ("demand.columns", [1], "hand_over.demand.columns is int, not str"),
        ("demand.predicates.0.form", 1, "hand_over.demand.predicates.form is not a map: int"),
        ("top.count", 1.0, "hand_over.top.count is float, not int"),
    ],
)
def test_what_is_not_as_agreed_is_named(path: str, value: Any, words: str) -> None:
    text = json.dumps(changed(path, value))
    with pytest.raises(InternalError) as caught:
        parse_request(text)
    assert caught.value.code == "INTERNAL"
    assert words in str(caught.value)
    assert "restart the driver" in str(caught.value)
    answer = json.loads(Bridge().apply(text))
    assert answer["error"]["kind"] == "internal"
    assert words in answer["error"]["message"]


def test_values_of_maps_have_types_too() -> None:
    request = {"call": "load", "options": {"path": "/t"}, "confs": {"a": 1}}
    with pytest.raises(InternalError, match=r"load\.confs\['a'\] is int, not str"):
        parse_request(json.dumps(request))


def test_answers_and_errors_are_told_apart() -> None:
    answer = HandOverAnswer(
        reason="a limit ends it early", by_metadata=False, awaits_keys=False, key_columns=(), handed_over=None
    )
    text = json.loads(write_answer(answer))
    assert text == {
        "answer": {
            "reason": "a limit ends it early",
            "by_metadata": False,
            "awaits_keys": False,
            "key_columns": [],
            "only_key_columns": False,
            "handed_over": None,
        }
    }
    assert parse_message(HandOverAnswer, text["answer"], "answer") == answer
    failure = Failure(kind="other", code="X", message="[TWOSTAGE.X] y")
    assert json.loads(write_failure(failure)) == {
        "error": {"kind": "other", "code": "X", "message": "[TWOSTAGE.X] y"}
    }


def test_every_call_has_a_request_an_answer_and_a_handler() -> None:
    assert REQUESTS.keys() == ANSWERS.keys() == Bridge()._handlers.keys()


def test_a_message_inside_a_message_is_checked() -> None:
    @dataclass(frozen=True)
    class Outer:
        inner: tuple[FirstRows | None, ...]

    globals()["Outer"] = Outer
    found: Mapping[str, Any] = HAND_OVER["top"]
    assert parse_message(Outer, {"inner": [found, None]}, "outer").inner[1] is None
    with pytest.raises(InternalError, match=r"outer\.inner lacks the field 'column'"):
        parse_message(Outer, {"inner": [{}]}, "outer")
