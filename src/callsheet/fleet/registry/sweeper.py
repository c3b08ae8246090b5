"""Removes workers that sent no request for too long and hold no lease, and deletes their old log lines and sessions."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.catalog.engines.environments import forget_unused
from callsheet.fleet.registry.held_leases import HeldLeases
from callsheet.fleet.registry.registry import OWN_PREFIX
from callsheet.fleet.registry.worker_log import Event, write
from callsheet.jobs.lease.outcomes import LeaseReport
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.settings import FleetSettings
from callsheet.toolbox.clock import Clock
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop

SWEEP_SQL = statements("callsheet.fleet.registry", "sweep_statements.sql")
FLEETS_DRAIN_SQL = statements("callsheet.fleet.fleets", "drain_statements.sql")
LOG_SQL = statements("callsheet.fleet.registry", "log_statements.sql")

log = get_logger(__name__)
ACTOR = "worker_sweeper"
BATCH = 100
# During this time, the response to a removed worker's token says to register again. After that, the token is unknown.
TOKEN_DAYS = 30
# During a pause this long, no worker could send a request, so last_seen_at means nothing.
MAX_PAUSE_SECONDS = 60.0


class StaleWorker(NamedTuple):
    worker_id: str
    session_id: int


class LeftLease(NamedTuple):
    """A lease whose worker no longer exists."""

    dispatch_id: int
    lease_token: UUID
    worker_id: str
    session_id: int
    was_deregistered: bool


class WorkerSweeper(Loop):
    """Removes stale workers. Safe on any number of control planes: a worker is removed only while it is stale and
    holds no lease. A worker keeps its leases until they expire; then the reaper reclaims them.
    """

    name = "worker_sweeper"
    interval_seconds = 15.0

    def __init__(self, databases: Databases, settings: FleetSettings, held: HeldLeases, *, clock: Clock | None = None):
        super().__init__(clock=clock)
        self._databases = databases
        self._stale_seconds = settings.stale_seconds
        self._held = held
        self._watching_since: float | None = None
        self._last_check: float | None = None

    async def tick(self, now: datetime) -> bool:
        await self.requeue_left_behind()
        await self._forget_environments()
        return self._has_watched() and await self.sweep()

    async def sweep(self) -> bool:
        """Removes the workers that are stale now; returns whether there may be more."""
        async with self._databases.central.ordinary() as connection:
            workers = await SWEEP_SQL["find_stale_workers"].rows(
                connection, StaleWorker, stale_seconds=self._stale_seconds, limit=BATCH
            )
        await all_of(self._remove(*worker) for worker in workers)
        return len(workers) == BATCH

    async def requeue_left_behind(self) -> None:
        """Requeues leases of workers that left during a poll, or before a crash. The attempt does not count if the
        worker deregistered. It counts if the worker was revoked or disappeared.
        """
        async with self._databases.central.ordinary() as connection:
            leases = await SWEEP_SQL["find_left_behind"].rows(connection, LeftLease, limit=BATCH)
        for lease in leases:
            await self._held.requeue_one(
                LeaseReport(lease.dispatch_id, lease.lease_token, lease.worker_id),
                lease.session_id,
                attempt_counts=not lease.was_deregistered,
                reason="the worker is no longer registered",
                actor=ACTOR,
            )

    async def _forget_environments(self) -> None:
        async with self._databases.central.connection() as connection:
            await forget_unused(connection)

    async def _remove(self, worker_id: str, session_id: int) -> None:
        await hit(Failpoint.SWEEP_WORKER_BEFORE_REMOVE)
        async with self._databases.central.transaction() as connection:
            await FLEETS_DRAIN_SQL["lock_drains"].run(connection)
            removed = await SWEEP_SQL["remove_stale_worker"].run(
                connection, worker_id=worker_id, session_id=session_id, stale_seconds=self._stale_seconds
            )
            if removed:
                await LOG_SQL["end_session"].run(connection, worker_id=worker_id, reason="stale")
                await FLEETS_DRAIN_SQL["forget_drain"].run(connection, worker_id=worker_id, own_prefix=OWN_PREFIX)
                await SWEEP_SQL["forget_removed_tokens"].run(connection, days=TOKEN_DAYS)
                await write(connection, [Event(worker_id, session_id, "removed_as_stale", ACTOR)])
        if removed:
            log.warning("worker.stale", worker_id=worker_id)

    def _has_watched(self) -> bool:
        """Whether this process could see workers for at least `stale_seconds`. After a restart or a database outage all
        workers look stale, although all of them are about to send requests."""
        moment = self._clock.monotonic()
        if self._last_check is None or moment - self._last_check > MAX_PAUSE_SECONDS:
            self._watching_since = moment
        self._last_check = moment
        assert self._watching_since is not None
        return moment - self._watching_since >= self._stale_seconds


SQL = statements("callsheet.fleet.registry", "log_statements.sql")


class AuditRetention(Loop):
    """Deletes old lines and sessions. Safe on any number of control planes. `log_days`, `session_days`: None keeps
    the rows forever.
    """

    name = "audit_retention"
    interval_seconds = 600.0
    # Deleting this many rows takes some tens of milliseconds.
    batch = 5000

    def __init__(self, databases: Databases, log_days: int | None, session_days: int | None):
        super().__init__()
        self._databases = databases
        self._log_days = log_days
        self._session_days = session_days

    async def tick(self, now: datetime) -> bool:
        """Deletes rows. Returns whether there may be more to delete."""
        events = sessions = 0
        async with self._databases.central.ordinary() as connection:
            if self._log_days is not None:
                events = await SQL["delete_old_events"].run(connection, days=self._log_days, limit=self.batch)
            if self._session_days is not None:
                sessions = await SQL["delete_old_sessions"].run(connection, days=self._session_days, limit=self.batch)
        return self.batch in (events, sessions)
