"""One action on several jobs. Each job is changed on its own, with its own outcome. Repeating a request is safe; that a
repeated retry charges nothing again, its idempotency key ensures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.jobs.change.cancel import Cancellation
from callsheet.jobs.change.deletion import JobDeletion
from callsheet.jobs.change.retry import Retries
from callsheet.jobs.show.reader import JobReader
from callsheet.wire.errors import Refusal
from callsheet.wire.jobs import ACTIVE, JobStatus
from callsheet.wire.library import JobOutcome, JobOutcomes

Act = Callable[[Principal, UUID], Awaitable[JobOutcome]]


class LibraryActions:
    def __init__(self, reader: JobReader, cancellation: Cancellation, retries: Retries, deletion: JobDeletion):
        self._reader = reader
        self._cancellation = cancellation
        self._retries = retries
        self._deletion = deletion

    async def cancel(self, principal: Principal, job_ids: Sequence[UUID]) -> JobOutcomes:
        return await _each(self._cancel, principal, job_ids)

    async def retry(self, principal: Principal, job_ids: Sequence[UUID], idempotency_key: str | None) -> JobOutcomes:
        return await _each(partial(self._retry, idempotency_key), principal, job_ids)

    async def delete(self, principal: Principal, job_ids: Sequence[UUID]) -> JobOutcomes:
        return await _each(self._delete, principal, job_ids)

    async def _cancel(self, principal: Principal, job_id: UUID) -> JobOutcome:
        status = await self._status(principal, job_id)
        if status is JobStatus.CANCELED:
            return JobOutcome(job_id=job_id, outcome="unchanged", status=status)
        job = await self._cancellation.cancel(principal.tenant_id, job_id, actor=f"user:{principal.user_id}")
        return JobOutcome(job_id=job_id, outcome="done", status=job.status)

    async def _retry(self, idempotency_key: str | None, principal: Principal, job_id: UUID) -> JobOutcome:
        status = await self._status(principal, job_id)
        if status in ACTIVE:
            return JobOutcome(job_id=job_id, outcome="unchanged", status=status)
        key = None if idempotency_key is None else key_of_job(idempotency_key, job_id)
        retried = await self._retries.once(principal.tenant_id, job_id, key, actor=f"user:{principal.user_id}")
        return JobOutcome(job_id=job_id, outcome="done", status=retried.shown.status)

    async def _delete(self, principal: Principal, job_id: UUID) -> JobOutcome:
        is_new = await self._deletion.delete(principal, job_id)
        return JobOutcome(job_id=job_id, outcome="done" if is_new else "unchanged")

    async def _status(self, principal: Principal, job_id: UUID) -> JobStatus:
        return JobStatus((await self._reader.job(principal, job_id)).row.status)


def key_of_job(idempotency_key: str, job_id: UUID) -> str:
    """The key of one retry: a key belongs to one job, and the request has several."""
    return f"library/{hashlib.sha256(idempotency_key.encode('utf-8', 'surrogatepass')).hexdigest()}/{job_id}"


async def _each(act: Act, principal: Principal, job_ids: Sequence[UUID]) -> JobOutcomes:
    """Runs the action for one job after the other: all of them wait for the user's wallet anyway."""
    return JobOutcomes(items=[await _outcome(act, principal, job_id) for job_id in dict.fromkeys(job_ids)])


async def _outcome(act: Act, principal: Principal, job_id: UUID) -> JobOutcome:
    try:
        return await act(principal, job_id)
    except Refusal as refusal:
        return JobOutcome(job_id=job_id, outcome="refused", code=refusal.code, message=str(refusal))
