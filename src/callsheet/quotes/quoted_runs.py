"""The quote of a pipeline run: the price of each step, and the tokens that it is expected to spend of its budget."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from callsheet.identity.access.principal import Principal
from callsheet.jobs.show.expected_waits import ExpectedWaits
from callsheet.media.usage import StorageUsage, database_excess
from callsheet.pipelines.design.definitions import ROW_BYTES, steps_of
from callsheet.pipelines.room import PipelinesRoom
from callsheet.pipelines.rows import StepRow
from callsheet.pipelines.run.previews import cost_of
from callsheet.pipelines.run.runs import folder_taken
from callsheet.pipelines.run.shown_runs import user_names
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.quotes.parts import problems_of, storage_limits
from callsheet.wire.errors import FieldProblem, NotFound, Refusal
from callsheet.wire.money.quotes import Quote, QuoteLimit, QuoteRun
from callsheet.wire.money.wallet import payer

SQL = statements("callsheet.pipelines.run")


class RunStanding(NamedTuple):
    """What the statement that creates a run would find now."""

    balance: int
    paid_by_tenant: bool
    active: int
    folder_is_taken: bool
    # Bytes that the rows of the user would have in the database.
    database_bytes: int


class RunQuotes:
    def __init__(self, databases: Databases, pipelines: PipelinesRoom, usage: StorageUsage, waits: ExpectedWaits):
        self._databases = databases
        self._pipelines = pipelines.pipelines
        self._previews = pipelines.design.previews
        self._checks = pipelines.runs.checks
        self._usage = usage
        self._waits = waits

    async def of(self, principal: Principal, request: QuoteRun) -> Quote:
        found, most = await self._standing(principal, request), self._checks.settings.runs_per_user
        quotas = await self._usage.quotas.of(principal.tenant_id)
        refusals = [*self._of_standing(request, found, quotas.user_database_bytes)]
        expected, wait = None, None
        try:
            steps = await self._steps(principal, request)
        except NotFound as refusal:
            refusals.insert(0, refusal.with_errors([FieldProblem("pipeline", str(refusal))]))
        else:
            try:
                await self._checks.require_values(steps, request)
            except Refusal as refusal:
                refusals.insert(0, refusal)
            expected, route = await self._previews.expected(steps, request), await self._previews.route(steps)
            wait, _ = await self._waits.of_jobs(principal, [route] if route else [], 1, "this run")
        cost = None if expected is None else cost_of(expected)
        runs = QuoteLimit(code="active_runs", limit=most, used=found.active)
        return Quote(
            cost=None if cost is None else min(cost, request.budget),
            balance=found.balance,
            paid_by=payer(is_tenant=found.paid_by_tenant),
            can_submit=not refusals,
            missing=[problem for refusal in refusals for problem in problems_of(refusal)],
            limits=[runs, *await storage_limits(self._usage, principal)],
            jobs=None if expected is None else sum(each.candidates for each in expected),
            steps=expected,
            wait=wait,
        )

    async def _steps(self, principal: Principal, request: QuoteRun) -> list[StepRow]:
        chosen = await self._pipelines.get(principal, request.pipeline)
        async with (await self._databases.pool(principal.pool)).connection() as connection:
            return await steps_of(connection, principal.tenant_id, chosen.id, chosen.version)

    async def _standing(self, principal: Principal, request: QuoteRun) -> RunStanding:
        async with (await self._databases.pool(principal.pool)).connection() as connection:
            found = await SQL["quote_run"].row(
                connection,
                RunStanding,
                **user_names(principal),
                row_bytes=ROW_BYTES,
                max_rows=self._checks.settings.runs_per_user,
                **request.model_dump(include={"target_folder", "prompt", "variables"}),
            )
        assert found is not None, "the statement always returns one row"
        return found

    def _of_standing(self, request: QuoteRun, found: RunStanding, most_bytes: int) -> Iterator[Refusal]:
        checks = self._checks
        for check in (partial(checks.require_concurrency, request), partial(checks.require_place, found.active)):
            try:
                check()
            except Refusal as refusal:
                yield refusal
        if found.folder_is_taken:
            yield folder_taken(request)
        if found.database_bytes > most_bytes:
            yield database_excess(found.database_bytes, most_bytes)
