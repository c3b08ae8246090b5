"""All routes of a control plane."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import ASGIApp

from callsheet.app.rooms import Rooms
from callsheet.batches.room import batch_routers
from callsheet.budgets.room import budget_routers
from callsheet.catalog.room import catalog_routers
from callsheet.deliveries.room import delivery_routers
from callsheet.effects.room import effects_routers
from callsheet.fleet.protocol.application import SECTION as WORKERS
from callsheet.fleet.room import fleet_routers
from callsheet.identity.room import identity_routers
from callsheet.jobs.room import jobs_routers
from callsheet.library.room import library_routers
from callsheet.media.room import media_routers
from callsheet.operate.alerts.room import alerts_routers
from callsheet.operate.all_jobs.room import all_jobs_routers
from callsheet.operate.installation.room import administration_routers
from callsheet.operate.statistics.room import statistics_routers
from callsheet.pipelines.room import pipeline_routers
from callsheet.plumbing.http.application import check_by_path
from callsheet.plumbing.http.edge import CallerCheck
from callsheet.plumbing.http.routing import Router
from callsheet.quotes.room import quote_routers
from callsheet.scaling.room import scaling_routers
from callsheet.tasks.room import task_routers
from callsheet.wallet.room import wallet_routers
from callsheet.webhooks.room import CALLBACKS, check_of_callbacks, webhook_routers


def all_routers(rooms: Rooms) -> list[Router]:
    """All routers, in the order of the API document. Routes of a room may show what a higher room knows."""
    databases, identity, jobs, api = rooms.databases, rooms.identity, rooms.jobs, rooms.jobs_api
    users = identity.authentication
    overview = rooms.overview_of(rooms.loops)
    return [
        *fleet_routers(rooms.fleet, rooms.worker_api, overview, api.presenter.why_queued, users),
        *webhook_routers(rooms.webhooks, users),
        *media_routers(rooms.media, identity),
        *identity_routers(identity, rooms.settings, rooms.media.usage.of, rooms.user_deletion),
        *catalog_routers(rooms.catalog, users, api.waits.of),
        *effects_routers(rooms.effects, api.presenter, identity),
        *jobs_routers(databases, jobs, api, identity),
        *task_routers(rooms.tasks, jobs, api, rooms.providers.media, users),
        *pipeline_routers(rooms.pipelines, api.presenter, users),
        *library_routers(rooms.library, users),
        *batch_routers(rooms.batches, users),
        *quote_routers(databases, jobs, rooms.effects, rooms.tasks, rooms.batches, rooms.pipelines, api.waits, users),
        *delivery_routers(rooms.deliveries, users),
        *budget_routers(rooms.budgets, users),
        *wallet_routers(databases, rooms.wallet, identity, jobs.journal.wallet_changed),
        *scaling_routers(databases, rooms.scaling, users),
        *statistics_routers(rooms.statistics, users),
        *alerts_routers(rooms.alerts, users),
        *all_jobs_routers(rooms.all_jobs, users),
        *administration_routers(rooms.settings, databases, users),
    ]


def applications(rooms: Rooms) -> Mapping[str, ASGIApp]:
    """The sections of the URLs that have an application of their own."""
    return {WORKERS: rooms.worker_api.app}


def caller_check(rooms: Rooms) -> CallerCheck:
    """Decides whose large bodies are read: those of clients with the credentials that the path needs."""
    by_prefix = {
        f"{WORKERS}/": rooms.worker_api.check_caller,
        CALLBACKS: check_of_callbacks(rooms.webhooks.callbacks),
    }
    return check_by_path(by_prefix, rooms.identity.authentication.of_request)
