"""Durations as counts in 64 buckets, the same as in the SQL function `histogram_bucket`. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

BUCKETS = 64
# The buckets grow by a quarter, from 0.05 seconds on.
MIN_SECONDS = 0.05
GROWTH = 1.25


def quantile(counts: Sequence[int], share: float) -> float | None:
    """The duration in seconds that this share of the durations does not exceed; None without durations. Its error is
    at most an eighth: durations count as evenly spread within a bucket.
    """
    up_to = list(accumulate(counts))
    total = up_to[-1]
    if total == 0:
        return None
    wanted = share * total
    bucket = bisect_left(up_to, wanted)
    below = up_to[bucket - 1] if bucket else 0
    return float(_start(bucket) * GROWTH ** ((wanted - below) / counts[bucket]))


def _start(bucket: int) -> float:
    return MIN_SECONDS * GROWTH**bucket
