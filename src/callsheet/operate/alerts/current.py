"""Finds the alerts that hold now: reads the facts and applies the rules."""

from __future__ import annotations

from callsheet.deliveries.keeper import disabled_endpoints
from callsheet.fleet.fleets.capacity import FleetCapacity
from callsheet.fleet.operate.metrics import FleetOverview, OverviewFigures, QueueHead
from callsheet.fleet.registry.registry import ALIVE_SECONDS
from callsheet.identity.links.mail_sender import MailSender
from callsheet.media.free_space import FreeSpace, distinct
from callsheet.media.storage import Storage
from callsheet.media.storage.owner import StorageOwner
from callsheet.operate.alerts.disk_rules import WorkerDisk
from callsheet.operate.alerts.failure_rules import EngineKiller, FailureLimits
from callsheet.operate.alerts.rules import (
    AlertFacts,
    PausedProvider,
    RouteFacts,
    ScaledFleetFacts,
    UnsentMessages,
    alerts,
)
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.servers.replication_watch import ReplicationWatch
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.settings import DiskSettings, Settings
from callsheet.wire.operate.operations import Alert

FACTS_SQL = statements("callsheet.operate.alerts", "fact_statements.sql")
SQL = statements("callsheet.operate.alerts")
MAX_KILLERS = 20
MAX_WORKERS = 20
MAX_ENDPOINTS = 20


async def engine_killers(connection: Connection) -> list[EngineKiller]:
    return await FACTS_SQL["engine_killers"].rows(connection, EngineKiller, limit=MAX_KILLERS)


async def low_worker_disks(connection: Connection, limits: DiskSettings) -> list[WorkerDisk]:
    """Live workers with less free space than the reserve, those with the least first."""
    return await FACTS_SQL["low_worker_disks"].rows(
        connection, WorkerDisk, below=limits.reserve_bytes, alive_seconds=ALIVE_SECONDS, limit=MAX_WORKERS
    )


class CurrentAlerts:
    def __init__(
        self,
        databases: Databases,
        overview: FleetOverview,
        capacity: FleetCapacity,
        mails: MailSender,
        storage: Storage,
        storage_owner: StorageOwner,
        free_space: FreeSpace,
        replication: ReplicationWatch,
        settings: Settings,
    ):
        self._databases = databases
        self._overview = overview
        self._capacity = capacity
        self._mails = mails
        self._storage = storage
        self._storage_owner = storage_owner
        self._free_space = free_space
        self._replication = replication
        self._standby_lag_seconds = settings.database.standby_lag_seconds
        self._disk_limits = settings.disk
        self._max_wait_seconds = settings.jobs.queue_wait_alert_seconds
        self._public_url = settings.public_url
        self._failure_limits = FailureLimits(
            settings.jobs.error_share_alert, settings.pipelines.error_share_alert, settings.jobs.error_jobs_alert
        )

    async def of_installation(self) -> list[Alert]:
        """The alerts that every control plane finds, because they are read from the databases."""
        figures = await self._overview.figures()
        metrics = figures.metrics
        async with self._databases.central.ordinary() as connection:
            paused = await FACTS_SQL["paused_limits"].column(connection)
            providers = await FACTS_SQL["paused_providers"].rows(connection, PausedProvider)
            killers = await engine_killers(connection)
            worker_disks = await low_worker_disks(connection, self._disk_limits)
            scaled = await FACTS_SQL["scaled_fleets"].rows(connection, ScaledFleetFacts)
            messages = await SQL["unsent_messages"].row(connection, UnsentMessages)
        return alerts(
            AlertFacts(
                routes=await self._waiting_routes(figures),
                workflows=metrics.workflows,
                engine_killers=killers,
                worker_disks=worker_disks,
                database_servers=[each for each in self._replication.servers if not each.replication.writes_wait],
                standby_lag_seconds=self._standby_lag_seconds,
                unapproved_workers=metrics.unapproved_workers,
                unverified_workers=metrics.unverified_workers,
                scaled_fleets=scaled,
                paused_limits=paused,
                paused_providers=providers,
                mails=await self._mails.unsent(),
                messages=messages or UnsentMessages(),
                disabled_endpoints=await disabled_endpoints(self._databases.pools, MAX_ENDPOINTS),
                max_wait_seconds=self._max_wait_seconds,
                runs=metrics.runs,
                finished_by_provider=metrics.providers,
                failure_limits=self._failure_limits,
                public_url=self._public_url,
            )
        )

    def of_process(self) -> list[Alert]:
        """The alerts that only this control plane finds: about its loops, its connections and its repairs."""
        return alerts(
            AlertFacts(
                unavailable_pools=self._databases.unavailable,
                # Nothing can be written while writes wait: each process finds this itself.
                database_servers=[each for each in self._replication.servers if each.replication.writes_wait],
                storage_problem=self._storage_owner.problem,
                storage_calls=self._storage.calls.figures(),
                storage_place=self._storage.place,
                slow_storage_seconds=self._storage.calls.slow_seconds,
                disks=distinct(self._free_space.spaces),
                disk_limits=self._disk_limits,
                loops=self._overview.loops(),
                reconciled=self._overview.reconciled,
            )
        )

    async def _waiting_routes(self, figures: OverviewFigures) -> list[RouteFacts]:
        oldest: dict[tuple[int, str, str], QueueHead] = {}
        for head in figures.heads:
            route = (head.workflow_id, head.stage, head.provider)
            if route not in oldest or head.wait_seconds > oldest[route].wait_seconds:
                oldest[route] = head
        # The reason why a route has no worker is read only for routes without workers: for 20 routes of 10,000 workers
        # that took 1.3 s.
        capacity = await self._capacity.of([route for route in oldest if not figures.live_workers(route)])
        return [
            RouteFacts(
                workflow=head.slug,
                stage=head.stage,
                provider=head.provider,
                oldest_wait_seconds=head.wait_seconds,
                live_workers=capacity[route].live_workers if route in capacity else figures.live_workers(route),
                scaling_up=route in capacity and capacity[route].scaling_up,
                missing=capacity[route].missing if route in capacity else "",
            )
            for route, head in oldest.items()
        ]
