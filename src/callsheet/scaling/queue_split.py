"""Splits a queue between the fleets that serve one workflow: each job counts for one fleet. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

# Assumed run time of a job whose workflow never ran.
UNMEASURED_SECONDS = 60.0


class WaitingRoute(NamedTuple):
    """Jobs of a workflow, stage and provider that a worker could take now."""

    workflow_id: int
    stage: str
    provider: str
    jobs: int
    # Average of the workflow's finished jobs; None if there are none yet.
    average_seconds: float | None
    # Free slots of workers that are not scaled: they take jobs before a worker that has to start.
    free_elsewhere: int = 0


@dataclass(frozen=True, slots=True)
class ServingFleet:
    """A scaled fleet that serves routes."""

    fleet_id: int
    stage: str
    workflow_ids: frozenset[int]
    providers: frozenset[str]
    # Weight of the fleet in a shared queue: its maximum, or 0 while its driver fails.
    weight: float
    # Workflows that none of its workers can run, each with a sentence that says what is missing. A new worker could not
    # run them either.
    lacked: Mapping[int, str] = field(default_factory=dict)
    # Its image may have been corrected since its last worker: one worker is started for all jobs of such workflows.
    is_trial_due: bool = False


@dataclass(frozen=True, slots=True)
class FleetQueue:
    jobs: int = 0
    seconds: float = 0.0
    # Jobs of workflows that the fleet's workers cannot run, and what is missing. `jobs` does not include them, except
    # for one job if a trial is due.
    unable: int = 0
    missing: str = ""


def split_queue(routes: Iterable[WaitingRoute], servers: Sequence[ServingFleet]) -> Mapping[int, FleetQueue]:
    """The queue of each fleet. Each job without a free slot elsewhere is in one queue, if a fleet can run it."""
    found = {server.fleet_id: FleetQueue() for server in servers}
    for route in routes:
        serving = [server for server in servers if _serves(server, route)]
        able = [server for server in serving if route.workflow_id not in server.lacked]
        jobs = max(0, route.jobs - route.free_elsewhere)
        seconds = UNMEASURED_SECONDS if route.average_seconds is None else route.average_seconds
        for server, part in zip(able, _split(jobs, [server.weight for server in able]), strict=True):
            queue = found[server.fleet_id]
            found[server.fleet_id] = replace(queue, jobs=queue.jobs + part, seconds=queue.seconds + part * seconds)
        for server in serving:
            if route.workflow_id in server.lacked and route.jobs:
                found[server.fleet_id] = _unable(found[server.fleet_id], server, route, seconds)
    return found


def _unable(queue: FleetQueue, server: ServingFleet, route: WaitingRoute, seconds: float) -> FleetQueue:
    is_trial = server.is_trial_due and not queue.unable
    return FleetQueue(
        jobs=queue.jobs + is_trial,
        seconds=queue.seconds + is_trial * seconds,
        unable=queue.unable + route.jobs,
        missing=queue.missing or server.lacked[route.workflow_id],
    )


def split_places(places: int, needs: Mapping[int, int]) -> Mapping[int, int | None]:
    """How many more workers each fleet may order, if `places` more may register in total and each fleet has its need.

    None for all fleets if the places are enough.
    """
    if sum(needs.values()) <= places:
        return dict.fromkeys(needs)
    parts = _split(max(0, places), [float(need) for need in needs.values()])
    return dict(zip(needs, parts, strict=True))


def _serves(server: ServingFleet, route: WaitingRoute) -> bool:
    return (
        server.stage == route.stage and route.workflow_id in server.workflow_ids and route.provider in server.providers
    )


def _split(jobs: int, weights: Sequence[float]) -> list[int]:
    """Whole jobs by weight; the rest goes to the largest remainders, the first fleet first."""
    if not weights:
        return []
    if not any(weights):
        weights = [1.0] * len(weights)
    exact = [jobs * weight / sum(weights) for weight in weights]
    parts = [math.floor(each) for each in exact]
    order = sorted(range(len(weights)), key=lambda place: (parts[place] - exact[place], place))
    for place in order[: jobs - sum(parts)]:
        parts[place] += 1
    return parts
