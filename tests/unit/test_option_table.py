"""The table of options says what holds: names, targets, defaults, choices."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from twostage.errors import OptionError
from twostage.option_table import OPTIONS, SECTIONS
from twostage.options import OPTION_NAMES, ReadOptions, ReadSettings, parse_options


def test_each_option_has_a_target_of_its_own() -> None:
    assert tuple(OPTIONS) == OPTION_NAMES
    assert len({name.lower() for name in OPTIONS}) == sum(map(len, SECTIONS.values()))
    targets = sorted(option.target for option in OPTIONS.values())
    named = [field.name for one in (ReadOptions, ReadSettings) for field in fields(one)]
    assert targets == sorted(set(named) - {"settings", "catalog"})
    assert len(named) == len(set(named))


@pytest.mark.parametrize("name", OPTIONS)
def test_the_default_that_is_written_holds(name: str) -> None:
    option = OPTIONS[name]
    if option.default:
        assert parse_options({name: option.default}) == parse_options({})
        return
    for value in ("x", "7", "/x", "s3://x", "true"):
        try:
            given = parse_options({name: value})
        except OptionError:
            continue
        assert given != parse_options({}), f"{name}={value} is its default"


@pytest.mark.parametrize("name", OPTIONS)
def test_the_choices_that_are_written_are_taken(name: str) -> None:
    option = OPTIONS[name]
    assert option.meaning == option.meaning.strip() != ""
    assert option.meaning[-1] not in ".,;"
    assert "\n" not in option.meaning
    assert "|" not in option.meaning
    if option.default in ("", "true", "false"):
        return
    choices = re.findall(
        r"`(auto|always|never|none|cnf|dnf|refuse|truncate|host|worker|memory|off|arrow)`", option.meaning
    )
    for choice in choices:
        parse_options({name: choice})
    if option.default.isalpha():
        assert choices
        with pytest.raises(OptionError):
            parse_options({name: "nothing of these"})
