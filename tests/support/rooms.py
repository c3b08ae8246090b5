"""Rooms for tests and benchmarks: each with what the test names, and otherwise with parts that refuse nothing.

room = jobs_room(databases, JobSettings(), quotas=Quotas(databases, QuotaSettings(user_storage_files=1)))
catalog = catalog_room(databases, storage)
pipelines = pipelines_room(databases, catalog, media, room, PipelineSettings(jobs_per_run=9))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from callsheet.catalog.room import CatalogRoom, open_catalog
from callsheet.dispatch.facts import Criteria, ExpiredDispatch, Lease
from callsheet.dispatch.room import open_dispatch
from callsheet.identity.access.principal import Owner
from callsheet.identity.accounts.quotas import Quotas
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.lease.leases import Stored
from callsheet.jobs.lease.provider_gate import CallReport, Pause
from callsheet.jobs.room import JobsRoom, open_jobs
from callsheet.jobs.submit.active_limits import ActiveLimits
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.media.free_space import FreeSpace, RequireSpace
from callsheet.media.previews.urls import PreviewUrls
from callsheet.media.room import MediaRoom, open_media
from callsheet.media.storage import Storage
from callsheet.media.storage.owner import StorageOwner
from callsheet.media.usage import StorageUsage
from callsheet.pipelines.room import PipelinesRoom, open_pipelines
from callsheet.pipelines.run.task_steps import TaskPlans
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.notify import Notify
from callsheet.providers.media import MediaProvider
from callsheet.settings import JobSettings, PipelineSettings, QuotaSettings, Settings
from callsheet.tasks.scraped_products import with_product
from callsheet.webhooks.room import WebhooksRoom, open_webhooks
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.worker.protocol import CallbackAddress

SECRET = b"a secret of the tests, long enough to be one"


def jobs_room(
    databases: Databases,
    settings: JobSettings,
    *,
    notify: Notify | None = None,
    limits: ActiveLimits | None = None,
    quotas: Quotas | None = None,
    require_space: RequireSpace | None = None,
    stored: Stored = with_product,
) -> JobsRoom:
    """Default: no notifications, one limit for every kind of job, the default quotas, and disks with enough space."""
    chosen, most = notify or silent, settings.active_per_user
    return open_jobs(
        databases,
        chosen,
        settings,
        dispatch=open_dispatch(databases.central, chosen, settings),
        routing=TenantRouting(databases),
        limits=limits or ActiveLimits(most, most, most, most, settings.batch_jobs_per_user),
        usage=StorageUsage(databases, quotas or Quotas(databases, QuotaSettings())),
        require_space=require_space or enough_space,
        reaped=unrecorded,
        stored=stored,
    )


def media_room(
    databases: Databases,
    storage: Storage,
    settings: Settings,
    secret: bytes = SECRET,
    owner: StorageOwner | None = None,
) -> MediaRoom:
    usage = StorageUsage(databases, Quotas(databases, settings.quotas))
    return open_media(
        databases, storage, settings, secret, owner or StorageOwner(databases), usage, FreeSpace(settings)
    )


def catalog_room(databases: Databases, storage: Storage, max_upload_bytes: int = 1_000_000_000) -> CatalogRoom:
    settings = Settings.model_validate({"storage": {"max_upload_bytes": max_upload_bytes}})
    return open_catalog(
        databases, storage, StorageOwner(databases), settings, PreviewUrls(SECRET), lambda size: enough_space()
    )


def pipelines_room(
    databases: Databases,
    catalog: CatalogRoom,
    media: MediaRoom,
    jobs: JobsRoom,
    settings: PipelineSettings,
    tasks: TaskPlans | None = None,
) -> PipelinesRoom:
    """Default: steps that are actors are refused."""
    return open_pipelines(databases, catalog, media, jobs, settings, tasks or NoTasks())


def webhooks_room(
    databases: Databases,
    storage: Storage,
    jobs: JobsRoom,
    settings: Settings,
    providers: Mapping[str, MediaProvider],
    notify: Notify | None = None,
    secret: bytes = SECRET,
) -> WebhooksRoom:
    return open_webhooks(databases, storage, jobs, notify or silent, settings, secret, providers, ())


def silent(channel: str, payload: str) -> None:
    """Notifies no process."""


def enough_space() -> None:
    """Refuses nothing."""


async def unrecorded(lease: ExpiredDispatch, became: str) -> None:
    """Records nothing in the worker's log."""


class NoTasks:
    async def check(self, workflow: str, payload: Mapping[str, Any]) -> tuple[bool, int]:
        raise InvalidRequest.field("workflow", "No actor runs here.")

    async def job(self, owner: Owner, workflow: str, payload: Mapping[str, Any]) -> NewJob:
        raise InvalidRequest.field("workflow", "No actor runs here.")


class EveryProvider:
    """The gate of an installation that calls no providers. It admits every job."""

    def narrowed(self, criteria: Criteria) -> Criteria:
        return criteria

    def pause_of(self, provider: str, tenant_id: UUID) -> Pause | None:
        return None

    def concerns(self, provider: str) -> bool:
        return False

    async def admit(self, lease: Lease) -> CallbackAddress | None:
        return None

    async def record(self, report: CallReport) -> None:
        return

    async def record_stray(self, dispatch_id: int, provider_job_id: str) -> None:
        return
