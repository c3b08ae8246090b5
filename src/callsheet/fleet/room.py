"""Builds the parts of the worker registry."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.fleet.asg import AutoscalingGroups
from callsheet.fleet.audit import Audit
from callsheet.fleet.authentication import WorkerAuthentication
from callsheet.fleet.capacity import FleetCapacity
from callsheet.fleet.fleet_tokens import FleetTokens
from callsheet.fleet.fleets import Fleets
from callsheet.fleet.held_leases import HeldLeases
from callsheet.fleet.instances import InstanceValidator
from callsheet.fleet.poll_reports import PollReports
from callsheet.fleet.registry import WorkerRegistry
from callsheet.fleet.retention import AuditRetention
from callsheet.fleet.sweeper import WorkerSweeper
from callsheet.fleet.workers import Workers
from callsheet.jobs.report import LeaseReports
from callsheet.plumbing.databases import Databases
from callsheet.settings import FleetSettings
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.signing import Master


@dataclass(frozen=True, slots=True)
class FleetRoom:
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


def open_fleet(databases: Databases, settings: FleetSettings, secret: Master, lease_reports: LeaseReports) -> FleetRoom:
    audit = Audit(databases)
    held = HeldLeases(lease_reports, audit)
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
