"""Builds the worker protocol, from poll to report."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter
from prometheus_client import CollectorRegistry

from callsheet.catalog.graph_store import GraphStore
from callsheet.catalog.models_to_load import Warmth
from callsheet.fleet.accepted_uploads import AcceptedUploads
from callsheet.fleet.deliveries import Deliveries
from callsheet.fleet.engine_refusals import EngineRefusals
from callsheet.fleet.envelope import Envelope
from callsheet.fleet.outputs import OutputInspection
from callsheet.fleet.protocol_routes import protocol_router
from callsheet.fleet.room import FleetRoom
from callsheet.fleet.spare_work import SpareWork
from callsheet.fleet.worker_polls import WorkerPolls
from callsheet.fleet.worker_reports import WorkerReports
from callsheet.jobs.provider_gate import EveryProvider, ProviderGate
from callsheet.jobs.room import JobsRoom
from callsheet.media.storage import Storage
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.notify import Listener
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class WorkerProtocol:
    """The routes of the protocol, and the objects that in-process workers call directly."""

    router: APIRouter
    polls: WorkerPolls
    reports: WorkerReports
    deliveries: Deliveries
    uploads: AcceptedUploads

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.uploads,)

    def listen(self, listener: Listener) -> None:
        """Lets a drain or a new assignment end the open polls of its worker."""
        listener.subscribe("assignments", self.polls.reassigned)


def open_protocol(
    databases: Databases,
    storage: Storage,
    jobs: JobsRoom,
    fleet: FleetRoom,
    settings: Settings,
    registry: CollectorRegistry,
    gate: ProviderGate | None = None,
) -> WorkerProtocol:
    gate = gate or EveryProvider()
    deliveries = Deliveries(storage, jobs.starter, settings.storage.max_upload_bytes)
    spare = SpareWork(databases, fleet.capacity)
    polls = WorkerPolls(
        fleet.authentication,
        jobs,
        deliveries,
        fleet.audit,
        spare.exists,
        Warmth(databases),
        fleet.poll_reports,
        gate,
    )
    uploads = AcceptedUploads(storage)
    inspection = OutputInspection(storage, uploads, settings.fleet.output_validation, registry)
    reports = WorkerReports(
        jobs.starter,
        jobs.lease_reports,
        jobs.progress,
        deliveries,
        inspection,
        fleet.audit,
        EngineRefusals(databases, GraphStore(storage)),
        disk=settings.storage.backend,
        gate=gate,
    )
    router = protocol_router(fleet.authentication, polls, reports, Envelope(settings.fleet.answer_envelope))
    return WorkerProtocol(router, polls, reports, deliveries, uploads)
