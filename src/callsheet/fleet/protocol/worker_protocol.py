"""Builds the worker protocol, from poll to report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from callsheet.catalog.engines.models_to_load import Warmth
from callsheet.catalog.graph_store import GraphStore
from callsheet.fleet.fleets.capacity import SpareWork
from callsheet.fleet.protocol.deliveries import Deliveries
from callsheet.fleet.protocol.engine_refusals import EngineRefusals
from callsheet.fleet.protocol.outputs import AcceptedUploads, OutputInspection
from callsheet.fleet.protocol.polls import WorkerPolls
from callsheet.fleet.protocol.reports import WorkerReports
from callsheet.fleet.protocol.unnamed_leases import UnnamedLeases
from callsheet.jobs.lease.provider_gate import ProviderGate
from callsheet.jobs.room import JobsRoom
from callsheet.media.storage import Storage
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.notify import Listener
from callsheet.plumbing.room import Room
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop

if TYPE_CHECKING:
    from callsheet.fleet.room import FleetRoom


@dataclass(frozen=True, slots=True)
class WorkerProtocol(Room):
    """The operations that requests of workers call, and in-process workers directly."""

    polls: WorkerPolls
    reports: WorkerReports
    deliveries: Deliveries
    uploads: AcceptedUploads
    inspection: OutputInspection

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.uploads,)

    @property
    def metrics(self) -> tuple[Collector, ...]:
        return self.inspection.metrics

    def listen(self, listener: Listener) -> None:
        """Lets a drain or a new assignment end the open polls of its worker."""
        listener.subscribe("assignments", self.polls.reassigned)


def open_protocol(
    databases: Databases,
    storage: Storage,
    jobs: JobsRoom,
    fleet: FleetRoom,
    settings: Settings,
    gate: ProviderGate,
) -> WorkerProtocol:
    deliveries = Deliveries(storage, jobs.starter, settings.storage.max_upload_bytes)
    spare = SpareWork(databases, fleet.capacity)
    unnamed = UnnamedLeases(databases, fleet.held)
    polls = WorkerPolls(
        fleet.authentication,
        jobs,
        deliveries,
        fleet.audit,
        spare.exists,
        Warmth(databases),
        fleet.poll_reports,
        unnamed,
        gate,
    )
    uploads = AcceptedUploads(storage)
    inspection = OutputInspection(storage, uploads, settings.fleet.output_validation)
    reports = WorkerReports(
        jobs.starter,
        jobs.leases,
        jobs.progress,
        deliveries,
        inspection,
        fleet.audit,
        EngineRefusals(databases, GraphStore(storage)),
        unnamed,
        disk=settings.storage.backend,
        gate=gate,
    )
    return WorkerProtocol(polls, reports, deliveries, uploads, inspection)
