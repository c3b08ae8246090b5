"""Retries wait as long as their jitter allows.

A delay is drawn between 0 and its limit. If it is a millisecond, it is over before a test looks at the job, and a test
that expects a waiting job fails.
"""

from __future__ import annotations

from random import Random


class LongestDraw(Random):
    def uniform(self, a: float, b: float) -> float:
        return b
