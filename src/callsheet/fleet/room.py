"""The worker registry: its parts, its loops, and the routes of the worker protocol and for admins."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.registry import Collector

from callsheet.fleet.fleets.capacity import FleetCapacity
from callsheet.fleet.fleets.fleet_tokens import FleetTokens
from callsheet.fleet.fleets.fleets import Fleets
from callsheet.fleet.operate.admin_routes import (
    admin_fleet_router,
    admin_worker_router,
    fleet_token_router,
    worker_log_router,
)
from callsheet.fleet.operate.metrics import FleetOverview
from callsheet.fleet.operate.metrics_routes import WhyQueued, overview_router
from callsheet.fleet.operate.workers import Workers
from callsheet.fleet.protocol.authentication import WorkerAuthentication
from callsheet.fleet.protocol.poll_reports import PollReports, WorkerDiskMetrics
from callsheet.fleet.registry.asg import AsgMetrics, AutoscalingGroups
from callsheet.fleet.registry.held_leases import HeldLeases
from callsheet.fleet.registry.instances import InstanceValidator
from callsheet.fleet.registry.registry import WorkerRegistry
from callsheet.fleet.registry.sweeper import AuditRetention, WorkerSweeper
from callsheet.fleet.registry.worker_log import Audit
from callsheet.fleet.worker_api import WorkerApi
from callsheet.identity.access.authentication import Authentication
from callsheet.jobs.lease.leases import Leases
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.settings import FleetSettings
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.signing import Master


@dataclass(frozen=True, slots=True)
class FleetRoom(Room):
    authentication: WorkerAuthentication
    audit: Audit
    held: HeldLeases
    registry: WorkerRegistry
    workers: Workers
    fleets: Fleets
    fleet_tokens: FleetTokens
    groups: AutoscalingGroups
    capacity: FleetCapacity
    sweeper: WorkerSweeper
    retention: AuditRetention
    instances: InstanceValidator
    poll_reports: PollReports

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.authentication.presence, self.sweeper, self.instances, self.retention, self.poll_reports)

    @property
    def metrics(self) -> tuple[Collector, ...]:
        return AsgMetrics(self.groups), WorkerDiskMetrics(self.poll_reports)


def open_fleet(databases: Databases, settings: FleetSettings, secret: Master, leases: Leases) -> FleetRoom:
    audit = Audit(databases)
    held = HeldLeases(leases, audit)
    groups = AutoscalingGroups(settings)
    workers = Workers(databases, held, secret)
    return FleetRoom(
        authentication=WorkerAuthentication(databases, secret),
        audit=audit,
        held=held,
        registry=WorkerRegistry(databases, settings, groups, held, audit),
        workers=workers,
        fleets=Fleets(databases),
        fleet_tokens=FleetTokens(databases),
        groups=groups,
        capacity=FleetCapacity(databases),
        sweeper=WorkerSweeper(databases, settings, held),
        retention=AuditRetention(databases, settings.audit_log_days, settings.session_days),
        instances=InstanceValidator(databases, groups, workers),
        poll_reports=PollReports(databases),
    )


def fleet_routers(
    fleet: FleetRoom,
    worker_api: WorkerApi,
    overview: FleetOverview,
    why_queued: WhyQueued,
    authentication: Authentication,
) -> list[Router]:
    return [
        worker_api.documented,
        overview_router(overview, why_queued, authentication),
        admin_worker_router(fleet.workers, authentication),
        worker_log_router(fleet.workers, authentication),
        admin_fleet_router(fleet.fleets, authentication),
        fleet_token_router(fleet.fleet_tokens, authentication),
    ]
