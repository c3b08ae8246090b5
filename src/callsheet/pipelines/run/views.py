"""Data about a run for a user's decisions: the size of a branch, gates and their cost, and the spending."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.pipelines.judge.gallery import Gallery
from callsheet.pipelines.rows import StepRow
from callsheet.pipelines.run.step_jobs import RunInputs, StepJobs
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.wire.errors import InvalidRequest, NotFound
from callsheet.wire.pipelines.candidates import BranchPreview, Gate, Spending, SpendingPart, StepSpending
from callsheet.wire.pipelines.pipelines import Step

SQL = statements("callsheet.pipelines.run")

# Maximum number of candidates that are counted: enough to decide, and read in about 50 ms.
MAX_COUNTED = 10_000


class BranchSize(NamedTuple):
    rejects: int
    restores: int
    has_more: bool


class BranchJobs(NamedTuple):
    jobs: int
    refund: int


class GateRow(NamedTuple):
    step_id: UUID
    approved_at: datetime | None
    parents: int
    children: int


class SpendingBounds(NamedTuple):
    since: datetime
    until: datetime
    budget: int
    spent: int
    held: int


class SpentPart(NamedTuple):
    """Tokens that jobs of one step used in one part of the time."""

    position: int
    part: int
    tokens: int
    jobs: int


class RunViews:
    def __init__(self, databases: Databases, gallery: Gallery, step_jobs: StepJobs):
        self._databases = databases
        self._gallery = gallery
        self._step_jobs = step_jobs

    async def branch(self, principal: Principal, candidate_id: UUID) -> BranchPreview:
        """The consequences of a kill or a restore. The run continues meanwhile, so the outcome may differ a little."""
        row = await self._gallery.candidate(principal, candidate_id)
        names = {"tenant_id": principal.tenant_id, "candidate_id": candidate_id}
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            size = await SQL["branch_size"].row(connection, BranchSize, **names, max_rows=MAX_COUNTED)
            jobs = await SQL["branch_jobs"].row(connection, BranchJobs, **names, run_id=row.run_id)
        assert size is not None, "a count always returns a row"
        assert jobs is not None, "a count always returns a row"
        return BranchPreview(
            candidate_id=candidate_id,
            rejects=size.rejects,
            cancels_jobs=jobs.jobs,
            refund=jobs.refund,
            restores=size.restores,
            has_more=size.has_more,
        )

    async def gates(self, principal: Principal, run_id: UUID) -> list[Gate]:
        """The steps that need an approval, from the first to the last."""
        run = await self._gallery.run(principal, run_id)
        steps = {step.id: step for step in await self._gallery.steps(principal, run_id)}
        followers = {step.position - 1: step for step in steps.values()}
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["gates_of_run"].rows(
                connection, GateRow, tenant_id=principal.tenant_id, run_id=run_id, max_rows=MAX_COUNTED
            )
        gates = []
        for row in rows:
            step = steps[row.step_id]
            if (follower := followers.get(step.position)) is None:
                continue
            price = await self._price(follower, RunInputs(run.prompt, run.variables, run.seed))
            cost = None if price is None else min(price * row.children, run.budget - run.spent)
            gates.append(
                Gate(
                    step=Step(**step._asdict()),
                    next_step=Step(**follower._asdict()),
                    approved_at=row.approved_at,
                    parents=row.parents,
                    children=row.children,
                    price=price,
                    cost=cost,
                )
            )
        return gates

    async def _price(self, step: StepRow, given: RunInputs) -> int | None:
        """Tokens for one job of the step. None if the step can no longer be used."""
        try:
            return await self._step_jobs.cost(step, given)
        except InvalidRequest:
            return None

    async def spending(self, principal: Principal, run_id: UUID, parts: int) -> Spending:
        names = {"tenant_id": principal.tenant_id, "run_id": run_id}
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            bounds = await SQL["spending_bounds"].row(connection, SpendingBounds, **names, user_id=principal.user_id)
            if bounds is None:
                raise NotFound("There is no such run.")
            seconds = part_seconds(bounds, parts)
            spent = await SQL["spending_of_run"].rows(
                connection, SpentPart, **names, since=bounds.since, seconds=seconds, parts=parts
            )
        return spending_view(bounds, spent, parts)


def part_seconds(bounds: SpendingBounds, parts: int) -> float:
    """The length of one part of the time. The parts of a run that has just started are shorter than a second."""
    return max((bounds.until - bounds.since).total_seconds() / parts, 1.0)


def spending_view(bounds: SpendingBounds, spent: Sequence[SpentPart], parts: int) -> Spending:
    seconds = part_seconds(bounds, parts)
    used = max(bounds.spent - bounds.held, 0)
    tokens = [sum(each.tokens for each in spent if each.part == part) for part in range(parts)]
    positions = sorted({each.position for each in spent})
    return Spending(
        budget=bounds.budget,
        used=used,
        held=bounds.held,
        left=bounds.budget - bounds.spent,
        since=bounds.since,
        until=bounds.until,
        parts=[
            SpendingPart(at=bounds.since + timedelta(seconds=seconds * (part + 1)), tokens=own, total=total)
            for part, (own, total) in enumerate(zip(tokens, accumulate(tokens), strict=True))
        ],
        steps=[
            StepSpending(
                position=position,
                tokens=sum(each.tokens for each in spent if each.position == position),
                jobs=sum(each.jobs for each in spent if each.position == position),
            )
            for position in positions
        ],
    )
