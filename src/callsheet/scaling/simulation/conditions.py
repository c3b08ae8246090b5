"""What a policy cannot choose: how long machines take to start, how exact run times are, how often spot ones end."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from callsheet.toolbox.errors import OperatorError


@dataclass(frozen=True, slots=True)
class Conditions:
    # How often the autoscaler looks at a fleet.
    interval_seconds: float = 5.0
    # Jobs that one worker runs at once.
    slots: int = 1
    # From the order of a worker until it takes jobs. None: as long as the policy's warm-up.
    start_seconds: float | None = None
    # From the moment at which a free worker is given a job to the start of its run: it fetches the files first. A job
    # that is fetched in advance starts at once.
    pickup_seconds: float = 0.0
    # Standard deviation relative to the mean.
    start_spread: float = 0.0
    run_noise: float = 0.0
    # Of each spot worker. It takes no more jobs from the notice on; what still runs when it ends runs again elsewhere.
    interruptions_per_hour: float = 0.0
    notice_seconds: float = 120.0
    # Whether a worker takes one job more for each that it runs while others wait, as the agent does (worker.prefetch).
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
