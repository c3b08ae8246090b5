"""Durations as counts of 64 buckets, as the SQL function `histogram_bucket` makes them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

BUCKETS = 64
# The buckets grow by a quarter, from 0.05 seconds on.
SHORTEST_SECONDS = 0.05
GROWTH = 1.25


def quantile(counts: Sequence[int], share: float) -> float | None:
    """The duration in seconds that this share of the durations does not exceed; None without any. It is right within an
    eighth: within its bucket, durations are taken as evenly spread."""
    total = sum(counts)
    if total == 0:
        return None
    wanted = share * total
    below = 0
    for bucket, count in enumerate(counts):
        if below + count >= wanted and count:
            return float(_start(bucket) * GROWTH ** ((wanted - below) / count))
        below += count
    raise AssertionError("the counts changed while they were added up")


def _start(bucket: int) -> float:
    return SHORTEST_SECONDS * GROWTH**bucket
