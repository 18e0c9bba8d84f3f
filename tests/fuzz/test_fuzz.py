"""A small run of the fuzzer: damage ends in the right rows or a typed error, and checksums let nothing pass."""

from __future__ import annotations

import os

import pytest
from fuzzer import FUNCTION, GOOD, Findings, fuzz, record_figures, requests
from indexed_small_tables import INDEX_KINDS

from figures import FULL
from limited_process import LimitedProcess
from small_tables import KINDS

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
MUTATIONS = 4000 if FULL else 150
FLIPS = 5000 if FULL else 220
FULL_SECONDS = 3600


@pytest.fixture(scope="module")
def mutations() -> Findings:
    found = fuzz(SEED, MUTATIONS, "mutation")
    print(f"seed {SEED}\n{found.shown()}")
    return found


@pytest.mark.timeout(FULL_SECONDS)
def test_mutations(mutations):
    """No crash, no hang, no gigabyte, no error without code or file, nothing silent where a checksum covers it."""
    assert mutations.failures == [], mutations.shown()
    assert mutations.total == MUTATIONS
    of_table = MUTATIONS - mutations.of_kinds(*INDEX_KINDS)
    assert mutations.of("typed error") > of_table / 2
    assert {kind for kind, _ in mutations.counts} == {*KINDS, *INDEX_KINDS}
    for kind in INDEX_KINDS:  # the damage is met, and is never more than one warning
        assert mutations.of(GOOD[3], kind) > mutations.of_kinds(kind) / 4


@pytest.mark.timeout(FULL_SECONDS)
def test_bit_flips_in_checksummed_pages(mutations):
    """Every read of Parquet verifies them: data, positional and equality deletes, dictionaries, every way of reading."""
    flips = fuzz(SEED, FLIPS, "flip")
    print(f"seed {SEED}\n{flips.shown()}")
    assert flips.failures == [], flips.shown()
    assert flips.of("other rows, no checksum") == 0, flips.shown()
    assert flips.total == FLIPS
    assert flips.of("typed error") > (FLIPS - flips.of_kinds(*INDEX_KINDS)) / 2
    for kind in INDEX_KINDS:
        assert flips.of(GOOD[3], kind) > flips.of_kinds(kind) / 8
    record_figures(mutations, flips)


def test_the_same_flips_are_silent_where_nothing_verifies(tmp_path):
    """The fuzzer would see wrong rows: with ``verify-checksums=false`` the flips change them."""
    silent = 0
    with LimitedProcess(FUNCTION) as process:
        for request in requests(SEED, 40, "flip"):
            silent += process.ask({**request, "folder": str(tmp_path), "verify": False})["class"] == "SILENT"
    assert silent > 5
