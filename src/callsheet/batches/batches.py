"""Submits, lists and changes batches of a user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.batches.differences import SentValue, differing_values
from callsheet.batches.drafts import BatchDraft, DraftItem
from callsheet.batches.items import Item, items_of
from callsheet.catalog.effects import Effects
from callsheet.effects.effect_jobs import EffectJobs
from callsheet.identity.access.principal import Owner, Principal
from callsheet.jobs.change.batch_changes import BatchChanges
from callsheet.jobs.change.retry import Retried
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.submit.batch_submission import BatchCheck
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.jobs.submit.priorities import check_priority
from callsheet.library.downloads import LibraryDownloads
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import Connection, copied, statements
from callsheet.plumbing.http.request_fields import differing, fields_of, hash_of
from callsheet.settings import JobSettings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.base import Page, metadata_of
from callsheet.wire.effects import Batch, BatchCounts, BatchFilter, BatchValues, SubmitBatch
from callsheet.wire.errors import IdempotencyKeyReused, NotFound, RateLimited, RatePolicy, Refusal

SQL = statements("callsheet.batches")
SUBMIT_SQL = statements("callsheet.jobs.submit")


class BatchRow(NamedTuple):
    id: UUID
    effect_id: UUID
    title: str
    client_reference: str | None
    metadata: Mapping[str, str] | None
    webhook_url: str | None
    idempotency_key: str | None
    cost: int
    items: int
    active: int
    completed: int
    failed: int
    canceled: int
    expired: int
    created_at: datetime
    finished_at: datetime | None
    request_hash: bytes | None
    content_hash: bytes | None
    request_fields: Mapping[str, str] | None


_SHOWN = tuple(name for name in BatchRow._fields if name in Batch.model_fields)
_COUNTS = tuple(name for name in BatchRow._fields if name in BatchCounts.model_fields)


@dataclass(frozen=True, slots=True)
class SubmittedBatch:
    batch: Batch
    replayed: bool


class Batches:
    def __init__(
        self,
        databases: Databases,
        effects: Effects,
        effect_jobs: EffectJobs,
        jobs: JobsRoom,
        downloads: LibraryDownloads,
        settings: JobSettings,
    ):
        self._databases = databases
        self._effects = effects
        self._effect_jobs = effect_jobs
        self._submission = jobs.batch_submission
        self._changes: BatchChanges = jobs.batch_changes
        self._downloads = downloads
        self._settings = settings

    async def submit(self, principal: Principal, request: SubmitBatch) -> SubmittedBatch:
        """Accepts all items, or none. Once this returns, each of them ends as any other job does."""
        pool = await self._databases.pool(principal.pool)
        items = _items(principal, request)
        key = await _Key.of(pool, principal, request)
        async with pool.connection() as connection:
            earlier = await key.earlier(connection, principal)
        if earlier is not None:
            return SubmittedBatch(_view(earlier), replayed=True)
        draft = await self.draft_of(principal, request, items)
        draft.refuse()
        await self._effect_jobs.mark_used(draft.recipe)
        batch_id, winners = uuid7(), list[BatchRow]()

        async def begin(connection: Connection) -> bool:
            # A concurrent request with the same key had the lock of the wallet, so it has committed by now.
            if (winner := await key.earlier(connection, principal)) is not None:
                winners.append(winner)
                return False
            await self._require_turn(connection, principal)
            await self._insert(connection, principal, request, batch_id, draft, key)
            return True

        jobs = draft.jobs(principal, batch_id)
        await self._submission.submit(pool, principal, jobs, begin)
        if winners:
            return SubmittedBatch(_view(winners[0]), replayed=True)
        return SubmittedBatch(await self.get(principal, batch_id), replayed=False)

    async def draft(self, principal: Principal, request: SubmitBatch) -> BatchDraft:
        """What `submit` would do with the request, for a quote. Raises a refusal if the request has no items."""
        return await self.draft_of(principal, request, _items(principal, request))

    async def draft_of(self, principal: Owner, request: SubmitBatch, items: Sequence[Item]) -> BatchDraft:
        recipe, drafts = await self._effect_jobs.drafts(principal, request.effect_id, [item.wanted for item in items])
        return BatchDraft(recipe, request, [*map(DraftItem, items, drafts)])

    @property
    def limits(self) -> tuple[int, int | None]:
        """How many jobs of batches a user may have at once, and how many batches in a minute."""
        return self._submission.limit(), self._settings.batches_per_minute

    async def standing(self, principal: Principal, jobs: Sequence[NewJob]) -> BatchCheck:
        return await self._submission.standing(await self._databases.pool(principal.pool), principal, jobs)

    async def refusals(self, principal: Principal, found: BatchCheck, jobs: Sequence[NewJob]) -> Sequence[Refusal]:
        """Why a batch of these jobs is not accepted."""
        pool = await self._databases.pool(principal.pool)
        refusals = [*await self._submission.refusals(pool, principal, found, jobs)]
        async with pool.connection() as connection:
            try:
                await self._require_turn(connection, principal)
            except RateLimited as refusal:
                refusals.append(refusal)
        return refusals

    async def get(self, principal: Principal, batch_id: UUID) -> Batch:
        return _view(await self._row(principal, batch_id))

    async def page(self, principal: Principal, wanted: BatchFilter, before: UUID | None, limit: int) -> Page[Batch]:
        """The user's batches, newest first."""
        effect_ids = await self._effects.ids_of(wanted.effect) if wanted.effect else None
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["list_batches"].rows(
                connection,
                BatchRow,
                **_owner(principal),
                before=before,
                is_finished=None if wanted.status is None else wanted.status == "finished",
                effect_ids=effect_ids,
                client_reference=wanted.client_reference,
                metadata=metadata_of(wanted.metadata),
                limit=limit + 1,
            )
        return page_of([_view(row) for row in rows], limit)

    async def cancel(self, principal: Principal, batch_id: UUID) -> Batch:
        """Cancels the items that have not ended."""
        await self._row(principal, batch_id)
        await self._changes.cancel(await self._databases.pool(principal.pool), principal, batch_id)
        return await self.get(principal, batch_id)

    async def retry(self, principal: Principal, batch_id: UUID, idempotency_key: str | None) -> Retried[Batch]:
        """Retries the items that failed or expired."""
        await self._row(principal, batch_id)
        pool = await self._databases.pool(principal.pool)
        is_repeated = await self._changes.retry(pool, principal, batch_id, idempotency_key)
        return Retried(await self.get(principal, batch_id), is_repeated)

    async def download(self, principal: Principal, batch_id: UUID) -> AsyncIterator[bytes]:
        """The zip of the results. Raises before the first byte is sent if the request is refused."""
        await self._row(principal, batch_id)
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            job_ids = await SQL["jobs_with_results"].column(connection, **_owner(principal), batch_id=batch_id)
        return await self._downloads.open(principal, job_ids, by_item=True)

    async def values(self, principal: Principal, batch_id: UUID) -> BatchValues:
        """The values in which the items differ."""
        await self._row(principal, batch_id)
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["values_of_items"].rows(connection, SentValue, **_owner(principal), batch_id=batch_id)
        return differing_values(rows)

    async def _row(self, principal: Principal, batch_id: UUID) -> BatchRow:
        pool = await self._databases.pool(principal.pool)
        async with pool.connection() as connection:
            row = await SQL["get_batch"].row(connection, BatchRow, **_owner(principal), id=batch_id)
        if row is None:
            raise NotFound("There is no such batch.")
        return row

    async def _require_turn(self, connection: Connection, principal: Principal) -> None:
        most = self._settings.batches_per_minute
        if most is None:
            return
        seconds = await SQL["seconds_to_wait"].value(connection, **_owner(principal), most=most)
        if seconds is not None:
            raise RateLimited(max(1, seconds), RatePolicy("batches", most, 60))

    async def _insert(
        self,
        connection: Connection,
        principal: Principal,
        request: SubmitBatch,
        batch_id: UUID,
        draft: BatchDraft,
        key: _Key,
    ) -> None:
        await SQL["insert_batch"].run(
            connection,
            **_owner(principal),
            id=batch_id,
            effect_id=draft.recipe.effect_id,
            title=draft.recipe.name,
            idempotency_key=key.text,
            request_hash=key.request_hash,
            content_hash=key.content_hash,
            request_fields=key.request_fields,
            client_reference=request.client_reference,
            metadata=request.metadata,
            webhook_url=request.webhook_url,
            cost=draft.cost,
            items=len(draft.items),
        )


@dataclass(frozen=True, slots=True)
class _Key:
    """The idempotency key of a request, and hashes of the request: by the ids of its files, and by their contents."""

    text: str | None = None
    request_hash: bytes | None = None
    content_hash: bytes | None = None
    request_fields: Mapping[str, str] | None = None

    @classmethod
    async def of(cls, pool: Database, principal: Principal, request: SubmitBatch) -> _Key:
        if request.idempotency_key is None:
            return cls()
        sent = request.model_dump(mode="json", exclude={"idempotency_key"})
        async with pool.connection() as connection:
            rows = await SUBMIT_SQL["contents"].rows(connection, **_owner(principal), ids=list(set(_ids_in(sent))))
        contents = {str(row["id"]): row["sha256"] for row in rows if row["sha256"] is not None}
        return cls(request.idempotency_key, hash_of(sent), hash_of(_by_content(sent, contents)), fields_of(sent))

    async def earlier(self, connection: Connection, principal: Principal) -> BatchRow | None:
        """The batch that was submitted with the key."""
        if self.text is None:
            return None
        row = await SQL["find_by_key"].row(connection, BatchRow, **_owner(principal), idempotency_key=self.text)
        if row is None or self.request_hash == row.request_hash or self.content_hash == row.content_hash:
            return row
        raise IdempotencyKeyReused.by("batch", row.id, differing(row.request_fields or {}, self.request_fields or {}))


def _ids_in(document: Any) -> Iterator[UUID]:
    match document:
        case dict():
            for each in document.values():
                yield from _ids_in(each)
        case list():
            for each in document:
                yield from _ids_in(each)
        case str() if len(document) == len(str(UUID(int=0))):
            try:
                yield UUID(document)
            except ValueError:
                return


def _by_content(document: Any, contents: Mapping[str, str]) -> Any:
    match document:
        case dict():
            return {name: _by_content(each, contents) for name, each in document.items()}
        case list():
            return [_by_content(each, contents) for each in document]
        case str():
            return contents.get(document, document)
    return document


def _items(principal: Principal, request: SubmitBatch) -> list[Item]:
    items = items_of(request)
    check_priority(principal, request.priority)
    return items


def _owner(principal: Principal) -> dict[str, UUID]:
    return {"tenant_id": principal.tenant_id, "user_id": principal.user_id}


def _view(row: BatchRow) -> Batch:
    return Batch(
        **copied(_SHOWN, row),
        status="running" if row.active else "finished",
        counts=BatchCounts(**copied(_COUNTS, row)),
    )
