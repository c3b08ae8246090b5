"""Computes the wait before the next attempt."""

from __future__ import annotations

from random import Random

# 2**64 times any base exceeds every maximum; without this limit, attempt 1100 overflows a float.
_MAX_DOUBLINGS = 64


def backoff_seconds(attempt: int, base: float, cap: float, random: Random) -> float:
    """Exponential backoff with full jitter: after the first failure (`attempt` 1) anything up to `base`, doubled with
    every further failure, never above `cap`.

    Full jitter, because workers that failed together must not retry together.
    """
    if attempt < 1:
        raise ValueError("attempts count from 1")
    return random.uniform(0.0, min(cap, base * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS)))
