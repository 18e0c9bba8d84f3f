"""How often the values of a column occur in a data file, judged by how often they do among some of its rows.

Takes the counts of a sample's distinct values; gives how many distinct values the file has, and classes of values with about
as many rows each. The rules: what occurs often is taken to occur as often in all rows; how many rare values there are is the
larger of two estimates, of which one is good where values are about equally frequent, the other where few make most rows.

Source: Haas, Naughton, Seshadri, Stokes, Sampling-Based Estimation of the Number of Distinct Values of an Attribute, 1995
(the jackknife); Charikar, Chaudhuri, Motwani, Narasayya, Towards Estimation Error Guarantees for Distinct Values, 2000 (GEE).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Classes = tuple[tuple[float, float], ...]
    """So many rows has each of so many values."""

_OFTEN = 4
"""Times that a value occurs in a sample from which it occurs as often among all rows."""


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Of the values of a mean data file.

    Attributes:
        num_distinct: Different values.
        classes: Rows of each value, and how many values have about so many; the most frequent first.
    """

    num_distinct: float
    classes: Classes

    def share_from(self, rows: float) -> float:
        """Return the share of all rows that have a value which is in so many rows or more.

        >>> Frequencies(11, ((500.0, 1.0), (50.0, 10.0))).share_from(100)
        0.5
        """
        total = sum(each * values for each, values in self.classes)
        return sum(each * values for each, values in self.classes if each >= rows) / total if total else 0.0


def estimate(
    samples: Sequence[NDArray[np.int64]], rows: float, num_distinct: float | None = None
) -> Frequencies:
    """Return what a data file of so many values, NULLs aside, has.

    Args:
        samples: Of some data files, how often each distinct value occurs among the rows that were looked at.
        rows: Values of a mean data file.
        num_distinct: Known otherwise; None: to be estimated.
    """
    used = [counts for counts in samples if len(counts)]
    if not used or rows <= 0:
        return Frequencies(1.0, ())
    distinct = (
        float(np.mean([_distinct(counts, rows) for counts in used])) if num_distinct is None else num_distinct
    )
    classes: dict[int, tuple[float, float]] = {}
    for counts in used:
        scale = max(1.0, rows / float(counts.sum()))
        often = counts[counts >= (_OFTEN if scale > 1.0 else 1)] * scale
        exponents = np.floor(np.log2(often)).astype(np.int64)
        for exponent in np.unique(exponents).tolist():
            of_class = often[exponents == exponent]
            sum_rows, values = classes.get(exponent, (0.0, 0.0))
            classes[exponent] = (
                sum_rows + float(of_class.sum()) / len(used),
                values + len(of_class) / len(used),
            )
    found = [(sum_rows / values, values) for _, (sum_rows, values) in sorted(classes.items(), reverse=True)]
    values_left = distinct - sum(values for _, values in found)
    rows_left = rows - sum(each * values for each, values in found)
    if values_left >= 1.0 and rows_left >= 1.0:
        found.append((max(1.0, rows_left / values_left), min(values_left, rows_left)))
    return Frequencies(max(1.0, distinct), tuple(found))


def _distinct(counts: NDArray[np.int64], rows: float) -> float:
    """Return about how many distinct values there are, of which a sample has `counts`."""
    sampled = float(counts.sum())
    if sampled >= rows:
        return float(len(counts))
    rare = counts[counts < _OFTEN]
    once = float(np.count_nonzero(counts == 1))
    guaranteed = len(counts) + (math.sqrt(rows / sampled) - 1.0) * once
    alike = float(len(counts) - len(rare))
    if len(rare):
        of_rare = float(rare.sum())
        alike += min(of_rare * rows / sampled, len(rare) / (1.0 - (1.0 - sampled / rows) * once / of_rare))
    return min(rows, max(guaranteed, alike))
