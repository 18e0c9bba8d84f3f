"""What all tests share: the header that says how to repeat a run."""

from __future__ import annotations

import os


def pytest_report_header() -> str:
    """Print the seed of the differential tests."""
    seed, pairs = os.environ.get("TWOSTAGE_SEED", "1"), os.environ.get("TWOSTAGE_PAIRS", "300")
    return f"differential: TWOSTAGE_SEED={seed} TWOSTAGE_PAIRS={pairs}"
