"""The jobs of all tenants: the parts of the room and its routes."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.catalog.effects import Effects
from callsheet.identity.access.authentication import Authentication
from callsheet.jobs.operate.operations import DispatchOperations
from callsheet.jobs.room import JobsRoom
from callsheet.operate.all_jobs.bulk_actions import BulkActions
from callsheet.operate.all_jobs.bulk_loop import BulkActionLoop
from callsheet.operate.all_jobs.bulk_routes import bulk_action_router
from callsheet.operate.all_jobs.errors import JobErrors
from callsheet.operate.all_jobs.lists import AllJobs
from callsheet.operate.all_jobs.names import Names
from callsheet.operate.all_jobs.routes import all_jobs_router, job_errors_router
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class AllJobsRoom(Room):
    names: Names
    jobs: AllJobs
    errors: JobErrors
    bulk_actions: BulkActions
    bulk_loop: BulkActionLoop

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.bulk_loop,)


def open_all_jobs(
    databases: Databases, effects: Effects, jobs: JobsRoom, dispatches: DispatchOperations
) -> AllJobsRoom:
    names = Names(databases, effects)
    loop = BulkActionLoop(databases, names, jobs.retries, jobs.cancellation, dispatches)
    return AllJobsRoom(
        names=names,
        jobs=AllJobs(databases, names, effects),
        errors=JobErrors(databases, names),
        bulk_actions=BulkActions(databases.central, names, loop.wake),
        bulk_loop=loop,
    )


def all_jobs_routers(room: AllJobsRoom, authentication: Authentication) -> list[Router]:
    return [
        all_jobs_router(room.jobs, room.names, authentication),
        job_errors_router(room.errors, authentication),
        bulk_action_router(room.bulk_actions, authentication),
    ]
