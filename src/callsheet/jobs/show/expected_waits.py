"""The expected wait of a new job, for each effect. Any number of effects takes two queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from callsheet.dispatch.positions import MAX_COUNTED, Positions, RouteLoad
from callsheet.identity.access.principal import Principal
from callsheet.jobs.lease.provider_gate import ProviderGate
from callsheet.jobs.show.outlook import NO_WORKERS, CapacityOf, CapacitySource, Facts, Outlook, Route, outlook
from callsheet.wire.effects import EffectWait
from callsheet.wire.jobs import JobStatus
from callsheet.wire.plurals import choose, counted


class ExpectedWaits:
    def __init__(self, positions: Positions, capacity_of: CapacityOf, gate: ProviderGate):
        self._positions = positions
        self._capacity_of = capacity_of
        self._gate = gate

    async def of(
        self, principal: Principal, routes: Sequence[Route], noun: str = "this effect"
    ) -> Mapping[Route, EffectWait]:
        found = await self._read(principal, routes)
        return {route: _wait(outlook(facts, crew), load, crew, noun) for route, (facts, load, crew) in found.items()}

    async def of_jobs(
        self, principal: Principal, routes: Sequence[Route], number: int, noun: str
    ) -> tuple[EffectWait | None, int | None]:
        """The wait of the first of `number` new jobs of one route, and the seconds until the last of them has ended."""
        for facts, load, crew in (await self._read(principal, routes)).values():
            last = replace(facts, ahead=load.ahead + number - 1)
            return _wait(outlook(facts, crew), load, crew, noun), outlook(last, crew).eta_seconds
        return None, None

    async def _read(
        self, principal: Principal, routes: Sequence[Route]
    ) -> Mapping[Route, tuple[Facts, RouteLoad, CapacitySource]]:
        wanted = list(dict.fromkeys(routes))
        if not wanted:
            return {}
        capacity = await self._capacity_of(wanted)
        loads = await self._positions.of_new_job(wanted, principal.tenant_id, principal.user_id)
        found = {}
        for route in wanted:
            load = loads[route]
            facts = Facts(
                status=JobStatus.QUEUED,
                now=load.now,
                ahead=load.ahead,
                average_seconds=load.average_seconds,
                pause=self._gate.pause_of(route[2], principal.tenant_id),
            )
            found[route] = (facts, load, capacity.get(route, NO_WORKERS))
        return found


def _wait(expected: Outlook, load: RouteLoad, crew: CapacitySource, noun: str) -> EffectWait:
    run = None if load.average_seconds is None else math.ceil(load.average_seconds)
    why = expected.why_waiting
    assert why is not None, "A job that no worker holds must have a reason to wait."
    if why.code in ("no_live_worker", "workers_lack", "scaling_up", "provider_paused"):
        return EffectWait(code=why.code, message=why.message.replace("this job", noun), run_seconds=run)
    if load.ahead < crew.slots - crew.busy:
        return EffectWait(code="ready", message="A worker is free.", wait_seconds=0, run_seconds=run)
    wait = None if expected.eta_seconds is None or run is None else max(0, expected.eta_seconds - run)
    message = _ahead(load.ahead) + ("." if wait is None else f"; it starts in about {_duration(wait)}.")
    return EffectWait(code="queue", message=message, wait_seconds=wait, run_seconds=run)


def _ahead(jobs: int) -> str:
    if jobs == 0:
        return "All workers are busy"
    return f"{jobs}{'+' if jobs == MAX_COUNTED else ''} {choose(jobs, 'job is', 'jobs are')} ahead"


def _duration(seconds: int) -> str:
    if seconds < 90:
        return counted(seconds, "second")
    return counted(round(seconds / 60), "minute")
