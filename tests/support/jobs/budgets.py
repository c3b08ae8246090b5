"""Budgets for tests without HTTP: `budget = await add_budget(ann, limit=25)`, `await taken(ann, budget)`."""

from __future__ import annotations

from uuid import UUID

from callsheet.toolbox.ids import uuid7
from tests.support.jobs.core import Member


async def add_budget(
    member: Member,
    *,
    limit: int,
    user_id: UUID | None = None,
    key_id: UUID | None = None,
    provider: str | None = None,
    period: str = "day",
    time_zone: str = "UTC",
) -> UUID:
    """A new budget of the tenant of a member."""
    budget_id = uuid7()
    async with member.pool.connection() as connection:
        await connection.execute(
            """INSERT INTO budgets (tenant_id, id, name, user_id, key_id, provider, period, time_zone, token_limit)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)""",
            *(member.tenant_id, budget_id, str(budget_id), user_id, key_id, provider, period, time_zone, limit),
        )
    return budget_id


async def taken(member: Member, budget_id: UUID) -> int:
    """What was taken in all periods."""
    async with member.pool.connection() as connection:
        tokens: int = await connection.fetchval(
            "SELECT coalesce(sum(taken), 0)::bigint FROM budget_periods WHERE budget_id = $1", budget_id
        )
    return tokens
