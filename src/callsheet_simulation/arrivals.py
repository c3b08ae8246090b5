"""Generates arrivals from a rate and a day curve, for users without a history. The same seed gives the same jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from callsheet.toolbox.errors import OperatorError
from callsheet.wire.plurals import choose
from callsheet_simulation.trace import QueueTrace, TraceLane

HOUR, DAY = 3600.0, 86_400.0
HOURS_PER_DAY, DAYS_PER_WEEK, WORKING_DAYS = 24, 7, 5
MAX_JOBS = 100_000_000
# Relative number of arrivals in each hour, from midnight on.
CURVES: dict[str, tuple[float, ...]] = {
    "flat": (1.0,) * HOURS_PER_DAY,
    "office": (1, 1, 1, 1, 1, 1, 2, 4, 9, 14, 16, 15, 12, 14, 16, 15, 13, 9, 5, 3, 2, 2, 1, 1),
    "evening": (6, 3, 2, 1, 1, 1, 1, 2, 3, 4, 4, 5, 6, 6, 6, 7, 8, 10, 13, 16, 18, 17, 14, 10),
}


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The first day is a Monday. `weekend` is the share of a weekday's jobs that arrive on Saturday and on Sunday.

    Jobs arrive independently of each other (a Poisson process with the rate of the hour). Run times are log-normal:
    `run_spread` is their standard deviation relative to the mean, 0 if all runs take the same time. Tenant number k has
    1 / k of the first tenant's jobs, which is typical for the customers of a product.
    """

    jobs_per_day: float
    days: float = 365.0
    curve: tuple[float, ...] = CURVES["flat"]
    weekend: float = 1.0
    run_seconds: float = 60.0
    run_spread: float = 0.5
    tenants: int = 1
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("jobs_per_day", "days", "run_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise OperatorError(f"{_option(name)} is {getattr(self, name):g}: it should be greater than 0.")
        for name in ("weekend", "run_spread"):
            if not 0 <= getattr(self, name) < math.inf:
                raise OperatorError(f"{_option(name)} is {getattr(self, name):g}: it should be 0 or more.")
        if self.tenants < 1:
            raise OperatorError(f"--tenants is {self.tenants}: it should be 1 or more.")
        if self.jobs_per_day * self.days > MAX_JOBS:
            jobs = self.jobs_per_day * self.days
            raise OperatorError(
                f"These arrivals make {jobs:,.0f} {choose(jobs, 'job')}: at most {MAX_JOBS:,} can be replayed at once."
            )


def read_curve(text: str) -> tuple[float, ...]:
    """The name of a curve, or 24 numbers."""
    if text in CURVES:
        return CURVES[text]
    try:
        curve = tuple(float(part) for part in text.split(","))
    except ValueError:
        curve = ()
    is_curve = len(curve) == HOURS_PER_DAY and all(0 <= each < math.inf for each in curve) and sum(curve) > 0
    if not is_curve:
        known = ", ".join(CURVES)
        raise OperatorError(
            f"--curve is {text!r}: it should be {known}, or 24 numbers like 1,1,2,…, one for each hour."
        )
    return curve


def make_trace(arrivals: Arrivals) -> QueueTrace:
    random = Random(arrivals.seed)  # noqa: S311 (a simulation)
    trace = QueueTrace()
    numbers = [trace.number_of(TraceLane(tenant=f"tenant-{each + 1}")) for each in range(arrivals.tenants)]
    shares = list(accumulate(1 / (each + 1) for each in range(arrivals.tenants)))
    spread = math.sqrt(math.log1p(arrivals.run_spread**2))
    middle = math.log(arrivals.run_seconds) - spread**2 / 2
    end = arrivals.days * DAY
    for hour in range(math.ceil(end / HOUR)):
        rate = _rate(arrivals, hour)
        # If the hour ends before the next arrival, the wait is drawn again: a Poisson process has no memory.
        moment, until = hour * HOUR, min((hour + 1) * HOUR, end)
        while rate and (moment := moment + random.expovariate(rate)) < until:
            trace.submitted.append(moment)
            trace.run_seconds.append(random.lognormvariate(middle, spread))
            trace.key_of.append(random.choices(numbers, cum_weights=shares)[0] if len(numbers) > 1 else 0)
    if not len(trace):
        raise OperatorError("No job arrives in this time. Use a higher rate or more days.")
    return trace


def _rate(arrivals: Arrivals, hour: int) -> float:
    """Jobs per second in this hour."""
    curve = arrivals.curve
    share = curve[hour % HOURS_PER_DAY] / sum(curve)
    is_weekend = hour // HOURS_PER_DAY % DAYS_PER_WEEK >= WORKING_DAYS
    return arrivals.jobs_per_day * share / HOUR * (arrivals.weekend if is_weekend else 1.0)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
