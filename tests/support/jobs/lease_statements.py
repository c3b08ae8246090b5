"""The statements of a lease one by one, for a transaction that a test keeps open."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import asyncpg

from callsheet.dispatch.facts import Criteria
from callsheet.dispatch.lease.leasing import SQL
from callsheet.plumbing.database.sql import Connection


async def take_leases(connection: Connection, criteria: Criteria, workers: Sequence[str]) -> list[asyncpg.Record]:
    """Leases from the lanes of the highest priority, as if all belonged to one user."""
    lanes = await SQL["lanes_with_work"].rows(
        connection,
        workflow_ids=list(criteria.workflow_ids),
        stage=criteria.stage,
        providers=list(criteria.providers),
    )
    highest = max((lane["priority"] for lane in lanes), default=0)
    lane_ids = [lane["lane_id"] for lane in lanes if lane["priority"] == highest]
    return await SQL["take"].rows(connection, **worker_parameters(workers), **lane_parameters(lane_ids, len(workers)))


def lane_parameters(lane_ids: Sequence[int], wanted: int) -> dict[str, object]:
    return {"lane_ids": lane_ids, "user_queues": [0] * len(lane_ids), "wanted": [wanted] * len(lane_ids)}


def worker_parameters(workers: Sequence[str], spare: int = 8) -> dict[str, object]:
    tokens = [uuid4() for _ in workers]
    return {"workers": workers, "tokens": tokens, "poll_ids": [None] * len(workers), "spare": spare, "now": None}


async def lock_limits(connection: Connection, *identifiers: str) -> None:
    await SQL["lock_bounds"].rows(connection, identifiers=identifiers, tenant_ids=[])
