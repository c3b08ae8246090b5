"""The quote of a batch: one price for all items, and what is wrong with each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from callsheet.batches.batches import Batches
from callsheet.batches.drafts import BatchDraft
from callsheet.effects.effect_jobs import KIND
from callsheet.identity.access.principal import Principal
from callsheet.jobs.show.expected_waits import ExpectedWaits
from callsheet.jobs.submit.drafts import outline
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.media.usage import StorageUsage
from callsheet.quotes.parts import problems_of, storage_limits
from callsheet.toolbox.ids import uuid7
from callsheet.wire.effects import SubmitBatch
from callsheet.wire.errors import Refusal
from callsheet.wire.money.quotes import Quote, QuoteLimit, QuotePrice, QuotePrices, QuoteProblem
from callsheet.wire.money.wallet import payer

MAX_PROBLEMS = 100
MAX_PRICES = 20


class BatchQuotes:
    def __init__(self, batches: Batches, usage: StorageUsage, waits: ExpectedWaits):
        self._batches = batches
        self._usage = usage
        self._waits = waits

    async def of(self, principal: Principal, request: SubmitBatch) -> Quote:
        batch_id = uuid7()
        try:
            draft = await self._batches.draft(principal, request)
        except Refusal as refusal:
            unknown = replace(
                outline(principal, KIND),
                batch_id=batch_id,
                webhook_url=request.webhook_url,
                key_id=principal.key_id,
            )
            return await self._quote(principal, None, [unknown], [(None, refusal)])
        return await self._quote(principal, draft, draft.jobs(principal, batch_id), draft.refusals)

    async def _quote(
        self,
        principal: Principal,
        draft: BatchDraft | None,
        jobs: Sequence[NewJob],
        wrong: Sequence[tuple[int | None, Refusal]],
    ) -> Quote:
        costs = [] if draft is None else draft.costs
        found = await self._batches.standing(principal, jobs)
        refusals = [*wrong, *((None, each) for each in await self._batches.refusals(principal, found, jobs))]
        problems = _first_of_each(refusals)
        first = jobs[0]
        routes = [] if draft is None else [(first.workflow_id, first.stage, first.provider)]
        wait, total = await self._waits.of_jobs(principal, routes, len(jobs), "this batch")
        most, per_minute = self._batches.limits
        limits = [QuoteLimit(code="active_jobs", limit=most, used=found.active)]
        if per_minute is not None:
            limits.append(QuoteLimit(code="batches_per_minute", limit=per_minute))
        return Quote(
            cost=None if draft is None or None in costs else draft.cost,
            balance=found.balance,
            paid_by=payer(is_tenant=found.paid_by_tenant),
            can_submit=not refusals,
            missing=problems[:MAX_PROBLEMS],
            not_listed=max(0, len(problems) - MAX_PROBLEMS),
            limits=[*limits, *await storage_limits(self._usage, principal)],
            jobs=None if draft is None else len(jobs),
            prices=_prices(costs),
            wait=wait,
            total_seconds=total,
        )


def _first_of_each(refusals: Iterable[tuple[int | None, Refusal]]) -> list[QuoteProblem]:
    """Each problem once, with the first item that has it: the items of a grid share their values."""
    found: dict[tuple[str, str | None, str], QuoteProblem] = {}
    for problem in _numbered(refusals):
        found.setdefault((problem.code, problem.field, problem.message), problem)
    return [*found.values()]


def _numbered(refusals: Iterable[tuple[int | None, Refusal]]) -> Iterator[QuoteProblem]:
    for number, refusal in refusals:
        for problem in problems_of(refusal):
            yield problem.model_copy(update={"item": number})


def _prices(costs: Sequence[int | None]) -> QuotePrices | None:
    known = Counter(cost for cost in costs if cost is not None)
    if not known:
        return None
    each = None
    if len(known) <= MAX_PRICES:
        each = [
            QuotePrice(cost=cost, items=number, first_item=costs.index(cost) + 1)
            for cost, number in sorted(known.items())
        ]
    return QuotePrices(lowest=min(known), highest=max(known), each=each)
