"""The loop that scales fleets: it reads, decides, records, and only then calls the driver.

Only one control plane acts at a time (`Leadership`). A decision is committed before its driver is called, on the
connection that holds the lock. Drivers get absolute numbers and ids, so the next tick repeats what a crash, a timeout
or a lost lock left undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from callsheet.fleet.fleets.retiring import begin_to_end, forget_ended, reinstate, retire
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.ownership import Central, read_central
from callsheet.plumbing.database.sql import Connection
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.leadership import SILENT_SECONDS, Leadership
from callsheet.scaling.driver import Actual, Driver, DriverError
from callsheet.scaling.fleet_states import SQL, FleetState, read_fleets
from callsheet.scaling.memory import FleetObservation, observe, with_orders
from callsheet.scaling.metrics import ScalingNumbers
from callsheet.scaling.policy import Decision, Situation, decide
from callsheet.scaling.queue_split import FleetQueue
from callsheet.settings import ScalingSettings
from callsheet.toolbox.clock import Clock
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.plurals import choose, counted

log = get_logger(__name__)
Result = TypeVar("Result")
LOCK = "callsheet autoscaler"
# Old decisions are deleted once in this many ticks.
FORGET_EVERY = 500


class Autoscaler(Loop):
    """Scales fleets. Safe on any number of control planes."""

    name = "autoscaler"
    # A control plane that waits for leadership tries again soon.
    retry_cap_seconds = 5.0

    def __init__(
        self,
        databases: Databases,
        drivers: Mapping[str, Driver],
        settings: ScalingSettings,
        numbers: ScalingNumbers,
        *,
        max_workers: int,
        clock: Clock | None = None,
    ):
        super().__init__(clock=clock)
        self.interval_seconds = settings.interval_seconds
        self._databases = databases
        self._drivers = drivers
        self._settings = settings
        self._max_workers = max_workers
        self._numbers = numbers
        self.leadership = Leadership(databases.central, LOCK, SILENT_SECONDS + settings.interval_seconds)
        self._ticks = 0

    async def stop(self) -> None:
        await super().stop()
        await self.leadership.close()
        await all_of(driver.close() for driver in self._drivers.values())

    async def tick(self, now: datetime) -> None:
        async with self._databases.central.connection() as connection:
            has_any = await SQL["has_scaled"].value(connection)
        if not has_any:
            # Most installations scale no fleet, and need no connection for leadership.
            await self.leadership.close()
        if not has_any or not await self.leadership.take():
            self._numbers.clear()
            return
        await self.leadership.run(self._scale_fleets())

    async def _scale_fleets(self) -> None:
        async with self.leadership.connection() as connection:
            central = await read_central(connection, self._databases.central.dsn)
            states = await read_fleets(connection, self._max_workers)
            if self._ticks % FORGET_EVERY == 0:
                await SQL["forget_old_decisions"].run(connection, days=self._settings.decisions_days)
        self._ticks += 1
        self._numbers.forget_others({each.fleet.id for each in states})
        # Concurrent, so that a driver that hangs delays other fleets by at most the timeout of one call.
        await all_of(self._scale(each, central) for each in states)

    async def _scale(self, state: FleetState, central: Central) -> None:
        fleet = state.fleet
        self._numbers.queued(fleet, state.queue.seconds)
        if not state.place.is_of(central) or central.is_possible_copy:
            await self._pause(state)
            return
        try:
            driver = self._driver(fleet.driver)
            actual = await self._called(driver.actual(fleet))
        except DriverError as error:
            await self._failed(state, error)
            return
        seen = observe(fleet.policy, state.memory, state.now, state.workers, actual)
        decision = decide(fleet.policy, self._situation(state, seen))
        if state.queue.unable and decision.cause != "cannot_run":
            decision = replace(decision, reason=decision.reason + _unable(state.queue))
        recorded = await self._record(state, seen, decision, actual)
        if recorded is None:
            return
        to_order, ending = recorded
        await hit(Failpoint.SCALING_RECORDED_BEFORE_DRIVER)
        try:
            is_too_much = actual.ordered is not None and actual.ordered > max(to_order, actual.count)
            if to_order > actual.count or is_too_much:
                await self._called(driver.want(fleet, to_order, fleet.policy.on_demand(to_order)))
                await hit(Failpoint.SCALING_ORDERED_BEFORE_END)
            if ending:
                await self._called(driver.end(fleet, ending))
        except DriverError as error:
            await self._failed(state, error)
            return
        if state.is_failing:
            async with self.leadership.connection() as connection:
                await SQL["keep_success"].run(connection, fleet_id=fleet.id)
            log.info("scaling.driver_works_again", fleet=fleet.slug, stage=fleet.stage, driver=fleet.driver)

    def _situation(self, state: FleetState, seen: FleetObservation) -> Situation:
        away = sorted(self._databases.unavailable)
        return Situation(
            now=state.now,
            queued_jobs=state.queue.jobs,
            queued_seconds=state.queue.seconds,
            workers=seen.workers,
            coming=seen.coming,
            history=seen.memory.history,
            unknown=f"Pool {', '.join(away)} is not served, so its part of the queue is unknown." if away else None,
            places=state.places,
            unable_jobs=state.queue.unable,
            missing=state.queue.missing,
        )

    async def _record(
        self, state: FleetState, seen: FleetObservation, decision: Decision, actual: Actual
    ) -> tuple[int, tuple[str, ...]] | None:
        """How many workers the driver should have, and the ids it ends; None if the rules changed meanwhile."""
        fleet = state.fleet
        async with self.leadership.transaction() as connection:
            if await SQL["lock_scaling"].row(connection, fleet_id=fleet.id, updated_at=state.updated_at) is None:
                return None
            ended = await _end(connection, seen, state)
            retired = await retire(
                connection, decision.drain, decision.reason, also_busy=decision.cause == "above_maximum"
            )
            reinstated = await reinstate(connection, decision.undrain)
            await forget_ended(connection, seen.gone)
            # Workers that got a job since, or that a person undrained, stay as they are.
            wanted = decision.wanted + len(decision.drain) - len(retired) - len(decision.undrain) + len(reinstated)
            decision = replace(decision, wanted=wanted, on_demand=fleet.policy.on_demand(wanted))
            memory = with_orders(seen.memory, state.now, seen, decision)
            memory = replace(memory, ending=(*memory.ending, *ended))
            values = {
                "fleet_id": fleet.id,
                "cause": decision.cause,
                "reason": decision.reason,
                "wanted": wanted,
                "on_demand": decision.on_demand,
                "serving": seen.serving,
                "coming": seen.coming,
                "queued_jobs": state.queue.jobs,
                "queued_seconds": state.queue.seconds,
            }
            await SQL["keep_observation"].run(
                connection,
                **values,
                memory=memory.as_json(),
                draining=len(seen.workers) - seen.serving,
                existing=actual.count,
            )
            if state.workers:
                known = {"fleet_id": fleet.id, "environments": list(state.environments)}
                await SQL["forget_environments"].run(connection, **known)
                await SQL["keep_environments"].run(connection, **known)
            await SQL["announce"].run(
                connection, fleet_id=fleet.id, wanted=wanted, next_worker_at=memory.next_worker_at()
            )
            is_new = state.last != (wanted, decision.on_demand, decision.cause)
            if is_new or retired or reinstated or ended:
                await SQL["record_decision"].run(
                    connection, **values, drained=retired, undrained=reinstated, ended=list(ended)
                )
                self._numbers.decided(fleet, decision.cause)
        self._numbers.saw(fleet, wanted, seen.serving)
        return seen.to_order(fleet.policy, decision), memory.ending

    async def _pause(self, state: FleetState) -> None:
        """A copy of the database must not start and end the workers of the original."""
        fleet = state.fleet
        reason = (
            "This database may be a copy of the one that the fleet was set up in, so its workers are left alone. If it "
            "is the production, run: callsheet db adopt. To scale it from here: callsheet fleets scale "
            f"{fleet.slug} --stage {fleet.stage} --confirm"
        )
        if state.last[2] == "paused":
            return
        async with self.leadership.transaction() as connection:
            values = {"fleet_id": fleet.id, "reason": reason}
            if await SQL["keep_pause"].run(connection, **values, updated_at=state.updated_at):
                wanted, on_demand, _ = state.last
                await SQL["record_decision"].run(
                    connection,
                    **values,
                    cause="paused",
                    wanted=wanted or 0,
                    on_demand=on_demand or 0,
                    serving=len(state.workers),
                    coming=0,
                    queued_jobs=state.queue.jobs,
                    queued_seconds=state.queue.seconds,
                    drained=[],
                    undrained=[],
                    ended=[],
                )
        log.warning("scaling.paused", fleet=fleet.slug, stage=fleet.stage, reason=reason)

    async def _failed(self, state: FleetState, error: DriverError) -> None:
        fleet = state.fleet
        self._numbers.failed(fleet)
        async with self.leadership.transaction() as connection:
            queue = state.queue
            await SQL["keep_queue"].run(
                connection, fleet_id=fleet.id, queued_jobs=queue.jobs, queued_seconds=queue.seconds
            )
            failures = await SQL["keep_failure"].value(connection, fleet_id=fleet.id, error=str(error))
        if failures == 1:
            log.error(
                "scaling.driver_failed", fleet=fleet.slug, stage=fleet.stage, driver=fleet.driver, error=str(error)
            )

    def _driver(self, name: str) -> Driver:
        driver = self._drivers.get(name)
        if driver is None:
            known = ", ".join(sorted(self._drivers))
            raise DriverError(f"This control plane has no driver {name!r}. It has: {known}.")
        return driver

    async def _called(self, call: Coroutine[Any, Any, Result]) -> Result:
        """Turns every error into a DriverError, which affects only its own fleet."""
        seconds = self._settings.driver_seconds
        try:
            async with asyncio.timeout(seconds):
                return await call
        except DriverError:
            raise
        except TimeoutError:
            raise DriverError(f"The driver did not respond within {counted(seconds, 'second')}.") from None
        except Exception as error:
            log.exception("scaling.driver_broken")
            raise DriverError(f"The driver failed with {type(error).__name__}; the log has the traceback.") from None


def _unable(queue: FleetQueue) -> str:
    """A note about jobs that no number of workers would serve."""
    jobs, them = counted(queue.unable, "job is", "jobs are"), choose(queue.unable, "it", "them")
    return f" {jobs} not counted, because the workers of the fleet cannot run {them}. {queue.missing}"


async def _end(connection: Connection, seen: FleetObservation, state: FleetState) -> tuple[str, ...]:
    """Marks workers as ending: retired workers without a lease, and workers that never registered."""
    warm_up = round(state.fleet.policy.warm_up_seconds)
    await retire(connection, seen.overdue, f"The worker did not register within {counted(warm_up, 'second')}.")
    return tuple(await begin_to_end(connection, [*seen.done, *seen.overdue]))
