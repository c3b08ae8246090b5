"""Quotes: what a submit of any kind would cost now, and what would refuse it. Nothing is held or written.

A quote builds the job with the code of the submit, and asks the database with the conditions of the submit. So the two
never differ for the same request at the same moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from callsheet.effects.effect_jobs import EffectJobs
from callsheet.identity.access.principal import Principal
from callsheet.jobs.show.expected_waits import ExpectedWaits
from callsheet.jobs.submit.drafts import Draft
from callsheet.jobs.submit.submission import Standing, Submission, chosen_in
from callsheet.media.usage import StorageUsage
from callsheet.plumbing.database.databases import Databases
from callsheet.tasks.generation import COPY, SCRAPE, SPEECH, STATIC_AD, VIDEO, GenerationJobs
from callsheet.tasks.submission import TaskSubmission
from callsheet.wire.base import KeyedRequest
from callsheet.wire.effects import EffectWait, SubmitEffectJob
from callsheet.wire.errors import InvalidRequest, Refusal
from callsheet.wire.money.quotes import Quote, QuoteLimit, QuoteProblem, QuoteRequest
from callsheet.wire.operate.quotas import Storage
from callsheet.wire.tasks import SubmitTask

KINDS = {
    "generate_copy": COPY,
    "generate_scrape": SCRAPE,
    "generate_static_ad": STATIC_AD,
    "generate_video": VIDEO,
    "generate_tts": SPEECH,
}


class Quotes:
    def __init__(
        self,
        databases: Databases,
        effects: EffectJobs,
        tasks: TaskSubmission,
        generation: GenerationJobs,
        submission: Submission,
        usage: StorageUsage,
    ):
        self._databases = databases
        self._effects = effects
        self._tasks = tasks
        self._generation = generation
        self._submission = submission
        self._usage = usage

    async def of(self, principal: Principal, wanted: QuoteRequest, waits: ExpectedWaits) -> Quote:
        name = _one_of(wanted)
        body: KeyedRequest = getattr(wanted, name)
        draft = await self._draft(principal, name, body)
        new, pool = replace(draft.new, **chosen_in(principal, body)), await self._databases.pool(principal.pool)
        found = await self._submission.standing(pool, new)
        refusals = [] if draft.refusal is None else [draft.refusal]
        refusals += [each async for each in self._submission.refusals(pool, new, found)]
        storage = await self._usage.of(principal.tenant_id, principal.user_id, principal.pool)
        return Quote(
            cost=draft.cost,
            balance=found.balance,
            can_submit=not refusals,
            missing=[problem for refusal in refusals for problem in _problems(refusal)],
            limits=_limits(found, storage, *self._submission.limits_of(new)),
            wait=await _wait(principal, draft, waits),
        )

    async def _draft(self, principal: Principal, name: str, body: KeyedRequest) -> Draft:
        match body:
            case SubmitEffectJob():
                return await self._effects.draft(principal, body)
            case SubmitTask():
                return await self._tasks.draft(principal, body)
        return await self._generation.draft(principal, KINDS[name], body)


def _one_of(wanted: QuoteRequest) -> str:
    names = [name for name in QuoteRequest.model_fields if getattr(wanted, name) is not None]
    if len(names) != 1:
        offered = ", ".join(QuoteRequest.model_fields)
        field = names[1] if names else "effect"
        raise InvalidRequest.field(field, f"Send the body of exactly one submit, in one of: {offered}.")
    return names[0]


async def _wait(principal: Principal, draft: Draft, waits: ExpectedWaits) -> EffectWait | None:
    found = await waits.of(principal, [*draft.routes], "this job")
    return next(iter(found.values()), None)


def _problems(refusal: Refusal) -> Sequence[QuoteProblem]:
    wait = refusal.retry_after_seconds
    if refusal.errors:
        return [
            QuoteProblem(code=refusal.code, message=each.reason, field=each.field, retry_after_seconds=wait)
            for each in refusal.errors
        ]
    return [QuoteProblem(code=refusal.code, message=refusal.detail or refusal.title(), retry_after_seconds=wait)]


def _limits(found: Standing, storage: Storage | None, active: int, per_minute: int | None) -> list[QuoteLimit]:
    limits = [QuoteLimit(code="active_jobs", limit=active, used=found.active)]
    if per_minute is not None:
        limits.append(QuoteLimit(code="submits_per_minute", limit=per_minute))
    if storage is not None:
        mine, ours, rows = storage.user, storage.tenant, storage.database
        limits += [
            QuoteLimit(code="user_storage_bytes", limit=mine.bytes_limit, used=mine.bytes),
            QuoteLimit(code="user_storage_files", limit=mine.files_limit, used=mine.files),
            QuoteLimit(code="tenant_storage_bytes", limit=ours.bytes_limit, used=ours.bytes),
            QuoteLimit(code="tenant_storage_files", limit=ours.files_limit, used=ours.files),
            QuoteLimit(code="user_database_bytes", limit=rows.bytes_limit, used=rows.bytes),
        ]
    return limits
