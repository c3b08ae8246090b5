"""A cloud in memory that starts and ends workers, and autoscalers that drive it.

fleet = await scaling.fleet(maximum=2)                     # the fixture `scaling`; the driver is `cloud`
await queue(core, ann, 5)                                  # five jobs wait
await scaling.tick()                                       # the autoscaler decides and orders
assert len(await scaling.register(fleet)) == 2             # the machines that were ordered register as workers
assert [wanted for _, wanted in await scaling.causes(fleet)] == [2]
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from callsheet.fleet.room import FleetRoom
from callsheet.plumbing.database.databases import Databases
from callsheet.scaling.autoscaler import Autoscaler
from callsheet.scaling.driver import Actual, DriverError, ScaledFleet
from callsheet.scaling.metrics import ScalingNumbers
from callsheet.scaling.rules import ScalingRules
from callsheet.settings import ScalingSettings
from callsheet.wire.fleet import CreateFleetRequest, Fleet
from callsheet.wire.operate.scaling import FleetScaling, ScalingRequest
from tests.support.http.fleet_api import join, registry
from tests.support.jobs.core import Core, Member, Row

# No waiting times, and one worker per job: each decision depends only on the current state.
AT_ONCE = {
    "target_seconds": 1,
    "scale_out_cooldown_seconds": 0,
    "scale_in_cooldown_seconds": 0,
    "idle_seconds": 0,
}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class MemoryDriver:
    """A driver whose workers are names in a set. `fault` gets the name of each call, before and after it acts."""

    name: str = "cloud"
    workers: dict[int, list[str]] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    peak: int = 0
    fault: Callable[[str, str], None] = lambda call, when: None
    knows_ids: bool = True
    # The ordered number of machines, if the driver keeps it; the driver then starts nothing by itself.
    ordered: int | None = None
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    about: str = "Keeps names in memory."

    def options_schema(self) -> Mapping[str, object]:
        return {}

    def checked(self, options: Mapping[str, object]) -> Mapping[str, object]:
        return options

    def of(self, fleet_id: int) -> list[str]:
        return self.workers.setdefault(fleet_id, [])

    async def actual(self, fleet: ScaledFleet) -> Actual:
        self.fault("actual", "before")
        here = self.of(fleet.id)
        return Actual(len(here), frozenset(here) if self.knows_ids else None, ordered=self.ordered)

    async def want(self, fleet: ScaledFleet, wanted: int, on_demand: int) -> None:
        self.fault("want", "before")
        self.calls.append(("want", wanted, on_demand))
        here = self.of(fleet.id)
        if self.ordered is not None:
            self.ordered = max(wanted, len(here))
        while len(here) < wanted and self.ordered is None:
            here.append(f"{fleet.slug}-{next(self._numbers)}")
        self.peak = max(self.peak, len(here))
        self.fault("want", "after")

    async def end(self, fleet: ScaledFleet, worker_ids: Sequence[str]) -> None:
        self.fault("end", "before")
        self.calls.append(("end", *sorted(worker_ids)))
        self.workers[fleet.id] = [name for name in self.of(fleet.id) if name not in worker_ids]
        self.fault("end", "after")

    async def close(self) -> None:
        pass


def fails(call: str, when: str = "before") -> Callable[[str, str], None]:
    def fault(called: str, moment: str) -> None:
        if (called, moment) == (call, when):
            raise DriverError("The cloud is away.")

    return fault


@dataclass(slots=True)
class ScalingHarness:
    core: Core
    room: FleetRoom
    cloud: MemoryDriver
    rules: ScalingRules
    autoscaler: Autoscaler
    numbers: ScalingNumbers

    async def fleet(self, slug: str = "gpu", *workflows: int, **rules: Any) -> Fleet:
        """A fleet of these workflows, or of the core's workflow, that the cloud scales."""
        ids = list(workflows) or [self.core.workflow]
        rows = await self.rows("SELECT slug FROM workflows WHERE id = ANY ($1) ORDER BY slug", ids)
        request = CreateFleetRequest(slug=slug, workflow_slugs=[row["slug"] for row in rows])
        fleet = await self.room.fleets.create(request, "operator")
        await self.scale(fleet, **rules)
        return fleet

    async def scale(self, fleet: Fleet, **rules: Any) -> FleetScaling:
        request = ScalingRequest(**{"driver": "cloud", "maximum": 3, **AT_ONCE, **rules})
        return await self.rules.put(fleet.id, request, "operator")

    async def tick(self) -> None:
        """Runs the autoscaler once. It must be the leader."""
        await self.autoscaler.tick(NOW)
        assert self.autoscaler.leadership.is_held

    async def register(self, fleet: Fleet, **changes: Any) -> list[str]:
        """Registers every worker of the cloud that is not registered yet."""
        known = await self.registered(fleet)
        new = [name for name in self.cloud.of(fleet.id) if name not in known]
        for name in new:
            await join(self.room, name, fleet_slug=fleet.slug, stage=fleet.stage, **changes)
        return new

    async def registered(self, fleet: Fleet) -> list[str]:
        rows = await self.rows("SELECT worker_id FROM comfyui_workers WHERE fleet_id = $1 ORDER BY 1", fleet.id)
        return [row["worker_id"] for row in rows]

    async def leave(self, worker_id: str) -> None:
        """Removes the worker's registration."""
        await self.rows("DELETE FROM comfyui_workers WHERE worker_id = $1", worker_id)

    async def drains(self) -> dict[str, str]:
        rows = await self.rows("SELECT worker_id, drained_by FROM worker_drains ORDER BY 1")
        return {row["worker_id"]: row["drained_by"] for row in rows}

    async def causes(self, fleet: Fleet) -> list[tuple[str, int]]:
        """Cause and wanted workers of each decision, oldest first."""
        rows = await self.rows("SELECT cause, wanted FROM scaling_decisions WHERE fleet_id = $1 ORDER BY id", fleet.id)
        return [(row["cause"], row["wanted"]) for row in rows]

    async def rows(self, query: str, *values: object) -> list[Row]:
        return await self.core.rows(self.core.databases.central, query, *values)


def an_autoscaler(
    databases: Databases, cloud: MemoryDriver, numbers: ScalingNumbers | None = None, max_workers: int = 50
) -> Autoscaler:
    """The autoscaler of one control plane. Open several for several control planes."""
    return Autoscaler(
        databases, {cloud.name: cloud}, ScalingSettings(), numbers or ScalingNumbers(), max_workers=max_workers
    )


def harness(core: Core, cloud: MemoryDriver | None = None) -> ScalingHarness:
    cloud = cloud or MemoryDriver()
    room = registry(core.databases, core.room.leases)
    rules = ScalingRules(core.databases, {cloud.name: cloud})
    numbers = ScalingNumbers()
    return ScalingHarness(core, room, cloud, rules, an_autoscaler(core.databases, cloud, numbers), numbers)


async def queue(core: Core, member: Member, jobs: int, **changes: Any) -> None:
    for _ in range(jobs):
        await core.submit(member, **changes)
