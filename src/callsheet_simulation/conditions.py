"""Conditions outside a policy: start times of machines, variation of run times, interruptions of spot workers."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from callsheet.toolbox.errors import OperatorError


@dataclass(frozen=True, slots=True)
class Conditions:
    # How often the autoscaler checks a fleet.
    interval_seconds: float = 5.0
    # Jobs that one worker runs at once.
    slots: int = 1
    # Time from the order of a worker until it takes jobs. None: the policy's warm-up.
    start_seconds: float | None = None
    # Time from the lease of a free worker to the start of the run: the worker fetches the files first. A prefetched job
    # starts at once.
    pickup_seconds: float = 0.0
    # Standard deviation relative to the mean.
    start_spread: float = 0.0
    run_noise: float = 0.0
    # Rate per spot worker. After the notice it takes no more jobs; a job that still runs when it ends is requeued.
    interruptions_per_hour: float = 0.0
    notice_seconds: float = 120.0
    # Whether a worker prefetches one job for each job that it runs while others wait, like the agent (worker.prefetch).
    prefetch: bool = True
    seed: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and field.name != "seed" and not 0 <= value < math.inf:
                raise OperatorError(f"{_option(field.name)} is {value:g}: it should be 0 or more.")
        if not self.interval_seconds:
            raise OperatorError("--interval-seconds is 0: it should be greater than 0.")
        if self.slots < 1:
            raise OperatorError("--slots is 0: it should be 1 or more.")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
