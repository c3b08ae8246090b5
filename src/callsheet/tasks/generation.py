"""Typed generation: converts a request with a fixed form to a job of an actor. Copy and scrapes are synchronous."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.jobs.show.views import job_view
from callsheet.jobs.submit.drafts import Draft, outline
from callsheet.jobs.submit.new_jobs import NewJob, NewTask
from callsheet.jobs.submit.submission import Submission, SubmittedJob
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import copied
from callsheet.tasks.plans import Plans, TaskRequest
from callsheet.tasks.products import Products
from callsheet.tasks.runner import SynchronousTasks
from callsheet.wire.base import KeyedRequest
from callsheet.wire.errors import InvalidRequest, Refusal
from callsheet.wire.generation import Product, actor_payload
from callsheet.wire.jobs import ACTIVE

Running = asyncio.Task[None] | None


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of generation. Its actor has the same name."""

    name: str
    # Whether the request waits until the job has ended.
    synchronous: bool = False


COPY: Final = Kind("copy", synchronous=True)
SCRAPE: Final = Kind("scrape", synchronous=True)
STATIC_AD: Final = Kind("static_ad")
VIDEO: Final = Kind("ugc_video")
SPEECH: Final = Kind("tts")


class GenerationJobs:
    def __init__(
        self,
        databases: Databases,
        plans: Plans,
        submission: Submission,
        products: Products,
        synchronous: SynchronousTasks,
    ):
        self._databases = databases
        self._plans = plans
        self._submission = submission
        self._products = products
        self._synchronous = synchronous

    async def submit(self, principal: Principal, kind: Kind, body: KeyedRequest) -> SubmittedJob:
        """Submits a job. A synchronous kind returns when the job has ended, or after the timeout with the unfinished
        job.
        """
        running: Running = None

        async def prepare() -> NewJob:
            return await self._plans.job(principal, await self._task(principal, kind, body))

        async def submit(new: NewJob) -> SubmittedJob:
            nonlocal running
            submitted, running = await self._synchronous.submit(new)
            return submitted

        submitted = await self._submission.once(
            principal, body, prepare, also={"type": kind.name}, submit=submit if kind.synchronous else None
        )
        return await self._after_wait(principal, kind, submitted, running)

    async def draft(self, principal: Principal, kind: Kind, body: KeyedRequest) -> Draft:
        """What `submit` would do with the request, for a quote. Nothing is written."""
        try:
            wanted = await self._task(principal, kind, body)
        except Refusal as refusal:
            return Draft(outline(principal, kind.name, NewTask(kind.name)), refusal=refusal)
        return await self._plans.draft(principal, wanted)

    async def _task(self, principal: Principal, kind: Kind, body: KeyedRequest) -> TaskRequest:
        product = await self._product(principal, getattr(body, "product_id", None))
        return TaskRequest(kind.name, kind.name, actor_payload(body, product))

    async def _product(self, principal: Principal, product_id: UUID | None) -> Product | None:
        if product_id is None:
            return None
        found = await self._products.find(principal, product_id)
        if found is None:
            raise InvalidRequest.field("product_id", "You have no such product.")
        return found

    async def _after_wait(
        self, principal: Principal, kind: Kind, submitted: SubmittedJob, running: Running
    ) -> SubmittedJob:
        if not kind.synchronous or submitted.job.status not in ACTIVE:
            return submitted
        pool = await self._databases.pool(principal.pool)
        job = await self._synchronous.wait_for_end(pool, principal.tenant_id, submitted.job.id, running)
        texts = copied(("title", "prompt", "input_payload"), submitted.job)
        return SubmittedJob(job_view(job).model_copy(update=texts), submitted.replayed)
