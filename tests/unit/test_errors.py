"""Errors: one form of message, nothing secret or endless in it, and the same after pickle."""

from __future__ import annotations

import pickle

import pytest

from twostage import errors
from twostage.errors import (
    InternalError,
    MissingFileError,
    NotFoundError,
    OptionError,
    StorageError,
    mask,
    nearest,
)

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.TwoStageError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_keeps_everything_through_pickle(kind: type[errors.TwoStageError]) -> None:
    """Workers' errors travel to the driver so."""
    error = kind(
        "CODE", "Something is wrong: 5", path="s3://u:p@b/x", stage="fetch", snapshot_id=7, hint="Do it."
    )
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert (
        str(back)
        == str(error)
        == ("[TWOSTAGE.CODE] Something is wrong: 5; file s3://***@b/x, stage fetch, snapshot 7. Hint: Do it.")
    )
    assert back.args == error.args
    assert vars(back) == vars(error)


def test_parts_that_are_not_known_are_left_out() -> None:
    assert str(OptionError("CODE", "Is that all?")) == "[TWOSTAGE.CODE] Is that all?"
    assert str(OptionError("CODE", "All", stage="plan")) == "[TWOSTAGE.CODE] All; stage plan."


def test_what_an_error_is_besides() -> None:
    assert isinstance(OptionError("C", "m"), ValueError)
    assert isinstance(MissingFileError("C", "m"), NotFoundError)
    assert StorageError("C", "m", transient=True).transient
    assert not StorageError("C", "m").transient
    assert str(InternalError("C", "m")).endswith("Please report this.")


def test_a_message_ends() -> None:
    error = OptionError("CODE", "x" * 100_000)
    assert 1000 < len(str(error)) < 1100
    assert "…" in str(error)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://key:secret@bucket/a", "s3://***@bucket/a"),
        ("http://me:p@ss@host/a", "http://***@host/a"),
        ("jdbc:me:hidden@host", "jdbc:***@host"),
        ("https://h/x?X-Amz-Signature=abc&b=1", "https://h/x?X-Amz-Signature=***&b=1"),
        ("Token=abc;x", "Token=***;x"),
        ("at abfss://box@acc.dfs.core.windows.net/t", "at abfss://box@acc.dfs.core.windows.net/t"),
        ("wasb://box:hidden@acc/t", "wasb://***@acc/t"),
        ("abfss://me@hidden@acc/t", "abfss://***@acc/t"),
        ("a\nb\x1b[31mc", "a\\nb\\x1b[31mc"),
        ("plain ä 5 € /path", "plain ä 5 € /path"),
    ],
)
def test_secrets_and_control_characters_do_not_show(text: str, shown: str) -> None:
    assert mask(text) == shown


@pytest.mark.parametrize(
    ("word", "choices", "hint"),
    [
        ("brnch", ["branch", "tag"], "Did you mean 'branch'?"),
        ("BRANCH", ["branch"], "Did you mean 'branch'?"),
        ("reorder-filters", ["branch", "filter.reorder"], "Did you mean 'filter.reorder'?"),
        ("pagePruning", ["page-size", "prune.pages"], "Did you mean 'prune.pages'?"),
        ("dictionary-filter", ["dynamic-filter", "filter.dictionary"], "Did you mean 'filter.dictionary'?"),
        ("id", ["Id", "ID", "name"], "Write it as one of these, which differ only in case: ID, Id."),
        ("x", [], "There are none."),
        ("zzz", ["b", "a"], "Known: a, b."),
        ("zzz", list("abcdefghijkl"), "Known: a, b, c, d, e, f, g, h, i, j, …."),
    ],
)
def test_hints_name_what_is_close(word: str, choices: list[str], hint: str) -> None:
    assert nearest(word, choices) == hint
