"""The report of a replay, with the figures to choose a policy by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from callsheet.scaling.policy import Policy
from callsheet.toolbox.errors import OperatorError
from callsheet_simulation.replay import HOUR, ReplayOutcome

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class MachinePrices:
    """Prices per worker and hour, in any currency. Without a spot price, spot workers cost the same as on-demand."""

    on_demand: float
    spot: float | None = None

    def __post_init__(self) -> None:
        for name, price in (("--price", self.on_demand), ("--spot-price", self.spot)):
            if price is not None and not 0 <= price < math.inf:
                raise OperatorError(f"{name} is {price:g}: it should be 0 or more.")

    def cost(self, on_demand_hours: float, spot_hours: float) -> float:
        return on_demand_hours * self.on_demand + spot_hours * (self.on_demand if self.spot is None else self.spot)


@dataclass(frozen=True, slots=True)
class WaitFigures:
    """Waits in seconds, from a job's arrival to the start of its run."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    longest: float
    limit: float
    # Jobs that waited longer than the limit.
    over_limit: int
    over_limit_share: float


@dataclass(frozen=True, slots=True)
class SimulationReport:
    name: str
    policy: Policy
    jobs: int
    days: float
    wait_seconds: WaitFigures
    worker_hours: float
    on_demand_hours: float
    spot_hours: float
    # Shares of the paid time of all slots: no job ran, and the part of it in which workers were starting.
    idle_share: float
    starting_share: float
    # None without prices.
    cost: float | None
    cost_per_1000_jobs: float | None
    mean_workers: float
    peak_workers: int
    ordered_workers: int
    # Decisions that changed the size of the fleet, and how often the direction changed between two decisions.
    scale_outs: int
    scale_ins: int
    direction_changes: int
    longest_queue: int
    interruptions: int
    repeated_runs: int


def report(
    name: str, policy: Policy, outcome: ReplayOutcome, wait_limit: float, prices: MachinePrices | None = None
) -> SimulationReport:
    jobs = len(outcome.waits)
    on_demand, spot = outcome.paid_seconds[False] / HOUR, outcome.paid_seconds[True] / HOUR
    paid = (on_demand + spot) * HOUR
    cost = None if prices is None else prices.cost(on_demand, spot)
    return SimulationReport(
        name=name,
        policy=policy,
        jobs=jobs,
        days=outcome.seconds / DAY,
        wait_seconds=waits(outcome.waits, wait_limit),
        worker_hours=on_demand + spot,
        on_demand_hours=on_demand,
        spot_hours=spot,
        idle_share=max(0.0, 1 - outcome.run_seconds / (paid * outcome.slots)) if paid else 0.0,
        starting_share=outcome.starting_seconds / paid if paid else 0.0,
        cost=cost,
        cost_per_1000_jobs=None if cost is None else cost / jobs * 1000,
        mean_workers=paid / outcome.seconds if outcome.seconds else 0.0,
        peak_workers=outcome.peak_workers,
        ordered_workers=outcome.ordered_workers,
        scale_outs=outcome.scale_outs,
        scale_ins=outcome.scale_ins,
        direction_changes=outcome.turns,
        longest_queue=outcome.longest_queue,
        interruptions=outcome.interruptions,
        repeated_runs=outcome.repeated_runs,
    )


def waits(seconds: Sequence[float], limit: float) -> WaitFigures:
    ordered = sorted(seconds)
    over = sum(wait > limit for wait in ordered)
    p50, p90, p95, p99 = (percentile(ordered, percent) for percent in (50, 90, 95, 99))
    mean = math.fsum(ordered) / len(ordered)
    return WaitFigures(mean, p50, p90, p95, p99, ordered[-1], limit, over, over / len(ordered))


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of the values do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
