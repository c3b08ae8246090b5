"""The client of commands, and its part for jobs and the state of the installation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID, uuid4

from callsheet.cli.shared.login import login_for
from callsheet.client import AsyncCallsheet
from callsheet.client.requests import Model, given
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound
from callsheet.wire.fleet import Fleet
from callsheet.wire.identity import Key, Me, Tenant
from callsheet.wire.jobs import Job, JobEvent
from callsheet.wire.operate.operations import AdminJob, AlertRecipients, Alerts, Dispatch, Metrics
from callsheet.wire.operate.scaling import FleetScaling

Result = TypeVar("Result")
PAGE = 100
# For lists that are read completely.
MAX_PAGE = 200
RETRY_SECONDS = 3.0


def with_operations(url: str | None, work: Callable[[OperationsClient], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        login = login_for(url)
        async with OperationsClient(login.url, login.api_key) as client:
            return await work(client)

    return asyncio.run(run())


class CommandClient(AsyncCallsheet):
    """A person waits in front of it, so it gives up early."""

    def __init__(self, url: str, key: str):
        super().__init__(url, key, retry_seconds=RETRY_SECONDS)

    async def all_of(self, model: type[Model], path: str) -> list[Model]:
        return await self.first_of(model, path, None)

    async def first_of(
        self, model: type[Model], path: str, max_items: int | None, **filters: str | None
    ) -> list[Model]:
        """Reads pages until there are `max_items` items; None reads all."""
        found: list[Model] = []
        cursor: str | None = None
        while max_items is None or len(found) < max_items:
            limit = PAGE if max_items is None else min(PAGE, max_items - len(found))
            query = urlencode({"limit": limit, **given(filters), **given({"cursor": cursor})}, quote_via=quote)
            page = await self.ask(Page[model], "GET", f"{path}?{query}")  # type: ignore[valid-type]
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def post(self, model: type[Model], path: str, body: object = None) -> Model:
        """Sends a POST that the control plane carries out once, however often it is sent after a lost response."""
        return await self.ask(model, "POST", path, body, idempotency_key=uuid4().hex)


class OperationsClient(CommandClient):
    async def me(self) -> Me:
        return await self.ask(Me, "GET", "/api/me")

    async def own_keys(self) -> list[Key]:
        return await self.first_of(Key, "/api/keys", None)

    async def jobs(self, status: str | None, run_id: str | None, max_jobs: int) -> list[Job]:
        return await self.first_of(Job, "/api/ai-jobs", max_jobs, status=status, run_id=run_id)

    async def jobs_of_tenant(self, tenant: str, status: str | None, max_jobs: int) -> list[AdminJob]:
        return await self.first_of(
            AdminJob, f"/api/admin/tenants/{await self._tenant_id(tenant)}/jobs", max_jobs, status=status
        )

    async def any_job(self, job_id: UUID) -> AdminJob:
        return await self.ask(AdminJob, "GET", f"/api/admin/jobs/{job_id}")

    async def job_events(self, job_id: UUID) -> list[JobEvent]:
        return await self.first_of(JobEvent, f"/api/ai-jobs/{job_id}/events", None)

    async def change_job(self, job_id: UUID, verb: str, *, admin: bool) -> Job:
        path = f"/api/admin/jobs/{job_id}/{verb}" if admin else f"/api/ai-jobs/{job_id}/{verb}"
        # A cancel is sent once: after a lost response, a second attempt would be refused although the first one worked.
        # A retry has a key: a second attempt returns the job.
        key = uuid4().hex if verb == "retry" else None
        return await self.ask(Job, "POST", path, {} if admin else None, idempotency_key=key)

    async def metrics(self) -> Metrics:
        return await self.ask(Metrics, "GET", "/api/admin/metrics")

    async def alerts(self) -> Alerts:
        return await self.ask(Alerts, "GET", "/api/admin/alerts")

    async def send_test_alert(self) -> AlertRecipients:
        return await self.post(AlertRecipients, "/api/admin/alerts/test")

    async def finished_dispatches(self) -> AsyncIterator[Sequence[Dispatch]]:
        """The history of the queue, newest first, page after page."""
        cursor: str | None = None
        while True:
            after = f"&cursor={cursor}" if cursor else ""
            path = f"/api/admin/dispatches?finished=true&limit={MAX_PAGE}{after}"
            page = await self.ask(Page[Dispatch], "GET", path)
            yield page.items
            cursor = page.next_cursor
            if cursor is None:
                return

    async def fleet(self, slug: str, stage: str) -> Fleet:
        query = urlencode({"slug": slug, "stage": stage})
        for found in (await self.ask(Page[Fleet], "GET", f"/api/admin/fleets?{query}")).items:
            return found
        raise OperatorError(f"There is no fleet {slug!r} in {stage}, or you may not see it.")

    async def scaling(self, slug: str, stage: str) -> FleetScaling:
        fleet = await self.fleet(slug, stage)
        try:
            return await self.ask(FleetScaling, "GET", f"/api/admin/fleets/{fleet.id}/scaling")
        except NotFound:
            raise OperatorError(f"Fleet {slug} in {stage} is not scaled, so it has no policy.") from None

    async def _tenant_id(self, tenant: str) -> UUID:
        try:
            return UUID(tenant)
        except ValueError:
            pass
        for each in await self.first_of(Tenant, "/api/admin/tenants", None):
            if each.slug == tenant:
                return each.id
        raise OperatorError(f"There is no tenant {tenant!r}, or you may not see it.")
