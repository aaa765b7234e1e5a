"""The run length of a detector, for tests that compare it with a simulation or with the documentation."""

from __future__ import annotations

import math
from itertools import islice

from switchgear.breaker.cusum import Detector, run_lengths


def run_length(detector: Detector, failure_rate: float) -> float:
    """Return the exact mean number of calls from zero to an open, at a steady ``failure_rate`` in (0, 1]."""
    if failure_rate >= 1:
        return float(math.ceil(detector.height / detector.up))
    lengths = run_lengths(detector.up, detector.down, failure_rate)
    return next(islice(lengths, detector.height, None))
