"""The quote of one job: of an effect, a task, or a typed job."""

from __future__ import annotations

from dataclasses import replace

from callsheet.effects.effect_jobs import EffectJobs
from callsheet.identity.access.principal import Principal
from callsheet.jobs.show.expected_waits import ExpectedWaits
from callsheet.jobs.submit.drafts import Draft
from callsheet.jobs.submit.submission import Submission, chosen_in
from callsheet.plumbing.database.databases import Databases
from callsheet.quotes.parts import problems_of, storage_limits
from callsheet.tasks.generation import COPY, SCRAPE, SPEECH, STATIC_AD, VIDEO, GenerationJobs
from callsheet.tasks.submission import TaskSubmission
from callsheet.wire.base import KeyedRequest
from callsheet.wire.effects import SubmitEffectJob
from callsheet.wire.money.quotes import Quote, QuoteLimit
from callsheet.wire.money.wallet import payer
from callsheet.wire.tasks import SubmitTask

KINDS = {
    "generate_copy": COPY,
    "generate_scrape": SCRAPE,
    "generate_static_ad": STATIC_AD,
    "generate_video": VIDEO,
    "generate_tts": SPEECH,
}


class JobQuotes:
    def __init__(
        self,
        databases: Databases,
        effects: EffectJobs,
        tasks: TaskSubmission,
        generation: GenerationJobs,
        submission: Submission,
        waits: ExpectedWaits,
    ):
        self._databases = databases
        self._effects = effects
        self._tasks = tasks
        self._generation = generation
        self._submission = submission
        self._waits = waits

    async def of(self, principal: Principal, name: str, body: KeyedRequest) -> Quote:
        """`name`: the field of the quote that has the body."""
        draft = await self._draft(principal, name, body)
        new, pool = replace(draft.new, **chosen_in(principal, body)), await self._databases.pool(principal.pool)
        found = await self._submission.standing(pool, new)
        refusals = [] if draft.refusal is None else [draft.refusal]
        refusals += [each async for each in self._submission.refusals(pool, new, found)]
        active, per_minute = self._submission.limits_of(new)
        limits = [QuoteLimit(code="active_jobs", limit=active, used=found.active)]
        if per_minute is not None:
            limits.append(QuoteLimit(code="submits_per_minute", limit=per_minute))
        wait, total = await self._waits.of_jobs(principal, [*draft.routes], 1, "this job")
        return Quote(
            cost=draft.cost,
            balance=found.balance,
            paid_by=payer(is_tenant=found.paid_by_tenant),
            can_submit=not refusals,
            missing=[problem for refusal in refusals for problem in problems_of(refusal)],
            limits=[*limits, *await storage_limits(self._submission.usage, principal)],
            wait=wait,
            total_seconds=total,
        )

    async def _draft(self, principal: Principal, name: str, body: KeyedRequest) -> Draft:
        match body:
            case SubmitEffectJob():
                return await self._effects.draft(principal, body)
            case SubmitTask():
                return await self._tasks.draft(principal, body)
        return await self._generation.draft(principal, KINDS[name], body)
