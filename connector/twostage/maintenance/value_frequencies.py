"""How often the values of a column occur in a data file, estimated from some of its rows.

Takes the counts of a sample's distinct values; returns how many distinct values the file has, and classes of
about equally frequent values. The rules: frequent values are assumed to be as frequent in all rows; the
number of rare values is the larger of two estimates, one good if values are about equally frequent, the other
if a few make up most rows.

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
    """Per class: rows per value, and number of values."""

_MIN_FREQUENT_COUNT = 4
"""Occurrences in a sample from which on a value is assumed to be as frequent among all rows."""


@dataclass(frozen=True, slots=True)
class Frequencies:
    """The frequencies of the values in a mean data file.

    Attributes:
        num_distinct: Distinct values.
        classes: Rows per value, and the number of values with about that many; the most frequent first.
    """

    num_distinct: float
    classes: Classes

    def share_from(self, rows: float) -> float:
        """Return the share of all rows whose value is in at least `rows` rows.

        >>> Frequencies(11, ((500.0, 1.0), (50.0, 10.0))).share_from(100)
        0.5
        """
        total = sum(each * values for each, values in self.classes)
        return sum(each * values for each, values in self.classes if each >= rows) / total if total else 0.0


def estimate(
    samples: Sequence[NDArray[np.int64]], rows: float, num_distinct: float | None = None
) -> Frequencies:
    """Estimate the frequencies in a data file of `rows` values, not counting NULLs.

    Args:
        samples: For some data files, how often each distinct value occurs among the sampled rows; shape
            (values,).
        rows: Values of a mean data file.
        num_distinct: Distinct values, if known; None: to be estimated.
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
        often = counts[counts >= (_MIN_FREQUENT_COUNT if scale > 1.0 else 1)] * scale
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
    """Estimate the number of distinct values among `rows`, from a sample's `counts`, shape (values,)."""
    sampled = float(counts.sum())
    if sampled >= rows:
        return float(len(counts))
    rare = counts[counts < _MIN_FREQUENT_COUNT]
    once = float(np.count_nonzero(counts == 1))
    guaranteed = len(counts) + (math.sqrt(rows / sampled) - 1.0) * once
    alike = float(len(counts) - len(rare))
    if len(rare):
        of_rare = float(rare.sum())
        alike += min(of_rare * rows / sampled, len(rare) / (1.0 - (1.0 - sampled / rows) * once / of_rare))
    return min(rows, max(guaranteed, alike))
