"""All routes of the jobs room, and the objects that they share with the routes of other rooms."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.dispatch.operate.tenant_weight_routes import tenant_weight_router
from callsheet.identity.room import IdentityRoom
from callsheet.jobs.lease.provider_gate import ProviderGate
from callsheet.jobs.operate.admin_routes import admin_job_router, dispatch_router, job_by_id_router, ready_job_router
from callsheet.jobs.operate.job_history import JobHistory
from callsheet.jobs.operate.operations import DispatchOperations, JobOperations
from callsheet.jobs.operate.waterfall_routes import waterfall_router
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.routes import job_router
from callsheet.jobs.show.expected_waits import ExpectedWaits
from callsheet.jobs.show.outlook import CapacityOf
from callsheet.jobs.show.presenter import Presenter
from callsheet.jobs.show.reader import JobReader
from callsheet.jobs.stream.streams import Streams, stream_router, stream_token_router
from callsheet.media.room import MediaRoom
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.settings import JobSettings


@dataclass(frozen=True, slots=True)
class JobsApi:
    """The objects that routes need to show jobs: routes of this room, of tasks and of pipelines."""

    reader: JobReader
    presenter: Presenter
    streams: Streams
    waits: ExpectedWaits


def open_jobs_api(
    databases: Databases,
    jobs: JobsRoom,
    identity: IdentityRoom,
    media: MediaRoom,
    capacity_of: CapacityOf,
    gate: ProviderGate,
    settings: JobSettings,
) -> JobsApi:
    """Builds the API of jobs. `capacity_of` and `gate` come from higher rooms: the workers of a route, and the
    paused providers.
    """
    reader = JobReader(databases)
    return JobsApi(
        reader=reader,
        presenter=Presenter(jobs.routing, jobs.dispatch.positions, media.files, capacity_of, gate),
        streams=Streams(jobs.feeds, reader, identity.authentication, settings.streams_per_user),
        waits=ExpectedWaits(jobs.dispatch.positions, capacity_of, gate),
    )


def jobs_routers(databases: Databases, jobs: JobsRoom, api: JobsApi, identity: IdentityRoom) -> list[Router]:
    authentication = identity.authentication
    return [
        # The stream router comes before the router of jobs, which would read `stream` as a job id.
        stream_router(api.streams, api.reader, authentication),
        stream_token_router(api.reader, authentication),
        job_router(jobs, api.reader, api.presenter, authentication),
        tenant_weight_router(jobs.dispatch.tenant_weights, authentication),
        ready_job_router(jobs, api.presenter, identity.accounts, identity.audit, authentication),
        *_operations(databases, jobs, api, identity),
    ]


def _operations(databases: Databases, jobs: JobsRoom, api: JobsApi, identity: IdentityRoom) -> list[Router]:
    audit, authentication = identity.audit, identity.authentication
    of_jobs = JobOperations(
        lambda: databases.pools,
        jobs.routing,
        jobs.dispatch.lists,
        jobs.cancellation,
        jobs.retries,
        api.presenter,
        audit,
    )
    of_dispatches = DispatchOperations(jobs.dispatch, jobs.leases, jobs.cancellation, jobs.transitions, audit)
    return [
        admin_job_router(of_jobs, identity.accounts, authentication),
        job_by_id_router(of_jobs, authentication),
        waterfall_router(JobHistory(databases.central, jobs.routing, api.presenter), of_jobs, authentication),
        dispatch_router(of_dispatches, jobs.dispatch, authentication),
    ]
