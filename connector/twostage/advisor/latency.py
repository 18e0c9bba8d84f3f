"""The latency model: seconds = alpha x entries in the filter + beta x entries after it + a constant.

Takes the two counters and the time of logged scans; returns the coefficients, or none. Noise only ever adds
time, so the plane of the two counters is divided into cells, and the shortest time in each counts. The rule:
below `MIN_FIT`, no seconds are predicted.
Source: "Latency Modeling" in the design document of Apache Pinot's index tuner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MIN_FIT = 0.5
"""The least R² of a model whose seconds are shown."""
CELLS = 50
"""Along each counter."""
_MIN_CELLS = 6
"""Fewer cannot determine three coefficients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyModel:
    """Coefficients, in seconds for each entry, and how well they fit.

    Attributes:
        alpha: Seconds per entry scanned in the filter.
        beta: Seconds per entry after it.
        constant: Seconds of a query that scans nothing.
        fit: R² over the cells: the share of the variance that the model explains.
        cells: Cells with a query.
    """

    alpha: float
    beta: float
    constant: float
    fit: float
    cells: int

    @property
    def is_usable(self) -> bool:
        """Whether it fits well enough to predict seconds, and entries do take time."""
        return self.fit >= MIN_FIT and self.alpha > 0

    def seconds(self, in_filter: float, after_filter: float) -> float:
        """Return the predicted seconds of a scan."""
        return max(0.0, self.alpha * in_filter + self.beta * after_filter + self.constant)


def fit_latency(in_filter: ArrayLike, after_filter: ArrayLike, seconds: ArrayLike) -> LatencyModel | None:
    """Fit the model; None for too few different queries.

    Args:
        in_filter: Shape (scans,): entries scanned in the filter.
        after_filter: Shape (scans,): entries after it.
        seconds: Shape (scans,): what each took.
    """
    counters = np.column_stack((np.asarray(in_filter, np.float64), np.asarray(after_filter, np.float64)))
    times = np.asarray(seconds, np.float64)
    if len(times) < _MIN_CELLS:
        return None
    widths = np.maximum(counters.max(axis=0), 1.0) / CELLS
    cells = np.minimum((counters / widths).astype(np.int64), CELLS - 1)
    order = np.lexsort((times, cells[:, 1], cells[:, 0]))
    first = np.ones(len(order), np.bool_)
    first[1:] = np.any(cells[order][1:] != cells[order][:-1], axis=1)
    kept = order[first]
    if len(kept) < _MIN_CELLS:
        return None
    matrix = np.column_stack((counters[kept], np.ones(len(kept))))
    # Counters are millions, the constant is one: least squares needs columns of similar magnitude.
    scale = np.maximum(np.abs(matrix).max(axis=0), 1.0)
    found, *_ = np.linalg.lstsq(matrix / scale, times[kept], rcond=None)
    alpha, beta, constant = (float(value) for value in found / scale)
    left = times[kept] - matrix @ (found / scale)
    spread = float(np.sum((times[kept] - times[kept].mean()) ** 2))
    fit = 1.0 - float(np.sum(left**2)) / spread if spread > 0 else 0.0
    return LatencyModel(alpha=alpha, beta=beta, constant=constant, fit=fit, cells=len(kept))
