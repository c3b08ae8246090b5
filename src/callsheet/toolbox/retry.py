"""How long to wait before trying again."""

from __future__ import annotations

from random import Random

# 2**64 times any base is past every cap; without the bound, attempt 1100 overflows a float.
_MOST_DOUBLINGS = 64


def backoff_seconds(attempt: int, base: float, cap: float, random: Random) -> float:
    """Exponential backoff with full jitter: after the first failure (`attempt` 1) anything up to `base`,
    doubling with every further one, never above `cap`.

    Full jitter, because a fleet that failed together must not come back together.
    """
    if attempt < 1:
        raise ValueError("attempts count from 1")
    return random.uniform(0.0, min(cap, base * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS)))
