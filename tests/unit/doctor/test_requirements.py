"""Bounds of the libraries that the metadata asks for, against versions as they are written."""

from __future__ import annotations

import pytest

from twostage.doctor.requirements import Requirement, installed_version, parse_requirement, requirements


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pyarrow>=21", Requirement("pyarrow", ">=21")),
        ("pyarrow >=21", Requirement("pyarrow", ">=21")),
        (
            "pyiceberg[sql-sqlite]<0.13,>=0.10; extra == 'sql'",
            Requirement("pyiceberg", "<0.13,>=0.10", "sql"),
        ),
        ('x; python_version < "3.12"', Requirement("x", "")),
        ("numpy", Requirement("numpy", "")),
        ("", None),
        ("=1", None),
    ],
)
def test_lines_of_metadata(text: str, expected: Requirement | None) -> None:
    assert parse_requirement(text) == expected


@pytest.mark.parametrize(
    ("version", "old", "new"),
    [
        ("0.9.9", True, False),
        ("0.10", False, False),
        ("0.10.0", False, False),
        ("0.12.5", False, False),
        ("0.13", False, True),
        ("0.13.0.dev1", False, True),
        ("1", False, True),
        ("unknown", True, False),
    ],
)
def test_versions(version: str, old: bool, new: bool) -> None:
    bounds = Requirement("x", "<0.13,>=0.10")
    assert (bounds.is_too_old(version), bounds.is_too_new(version)) == (old, new)


def test_without_bounds_every_version_will_do() -> None:
    free = Requirement("x", "")
    assert not free.is_too_old("0")
    assert not free.is_too_new("999")
    assert str(Requirement("x", ">=1")) == "x>=1"


def test_what_is_installed() -> None:
    assert installed_version("pyarrow")
    assert installed_version("no-such-library-of-ours") is None
    asked = {found.name for found in requirements()}
    assert asked == set() or {"pyarrow", "numpy", "numba"} <= asked
