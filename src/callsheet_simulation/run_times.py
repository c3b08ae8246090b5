"""Run times of a simulation, and the autoscaler's estimates of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from callsheet.scaling.queue_split import UNMEASURED_SECONDS

# The average is the mean of the first ten runs. After that each run has a weight of a tenth, as in workflow_timings.
MIN_WEIGHT = 0.1


class RunTimeDistribution:
    """A log-normal distribution; `relative` is the standard deviation relative to the mean."""

    __slots__ = ("_mean", "_middle", "_random", "_sigma")

    def __init__(self, mean: float, relative: float, random: Random):
        self._mean = mean
        self._random = random
        self._sigma = math.sqrt(math.log1p(relative**2))
        self._middle = math.log(mean) - self._sigma**2 / 2 if mean else 0.0

    def draw(self) -> float:
        if not self._sigma or not self._mean:
            return self._mean
        return self._random.lognormvariate(self._middle, self._sigma)


class Averages:
    """The moving average of each workflow's run times, with which the real autoscaler estimates the queue."""

    __slots__ = ("_samples", "_seconds")

    def __init__(self, workflows: int):
        self._seconds = [UNMEASURED_SECONDS] * workflows
        self._samples = [0] * workflows

    def observe(self, workflow: int, seconds: float) -> None:
        samples = self._samples[workflow]
        self._seconds[workflow] += (seconds - self._seconds[workflow]) * max(1 / (samples + 1), MIN_WEIGHT)
        self._samples[workflow] = samples + 1

    def of_queue(self, waiting: Sequence[int]) -> float:
        """Seconds of work in a queue with `waiting` jobs of each workflow."""
        return sum(count * seconds for count, seconds in zip(waiting, self._seconds, strict=True) if count)
