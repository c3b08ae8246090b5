"""A request that was acknowledged is on the synchronous standby, also if an earlier attempt gave up waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest

from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.settings import Settings
from callsheet.wallet.ledger import credit
from callsheet.wire.base import KeyedRequest
from callsheet.wire.pipelines.pipelines import CreateRun
from tests.support.database.installation import installed_on
from tests.support.database.replication import Pair
from tests.support.jobs.core import Core, Member, open_core
from tests.support.media.media_harness import open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import open_pipeline_harness
from tests.support.waiting import until

# What a request returned: the id of what it made, or the balance; and whether an earlier request had done it.
Answer = tuple[UUID | int, bool]
Request = Callable[[], Awaitable[Answer]]
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture
async def databases(pair: Pair, settings: Settings) -> AsyncIterator[Databases]:
    databases = await open_databases(await installed_on(pair.dsn, "pool", settings))
    yield databases
    await databases.close()


@pytest.fixture
async def request_of(databases: Databases, tmp_path: Path) -> AsyncIterator[dict[str, Request]]:
    core = await open_core(databases).prepare()
    ann = await core.member("pool_1", tokens=100)
    async with open_media_harness(core, ann, tmp_path / "home") as media:
        pipelines = open_pipeline_harness(media.core, ann, media)
        pipeline = await pipelines.pipeline("base")
        body = CreateRun(name="A run", prompt="a gym", budget=10, idempotency_key="order-1")

        async def run() -> Answer:
            started = await pipelines.room.runs.start(principal_of(ann), pipeline.slug, body)
            return started.run.id, started.replayed

        yield {"job": job_of(core, ann), "run": run, "credit": credit_of(ann)}


def job_of(core: Core, ann: Member) -> Request:
    body = KeyedRequest(idempotency_key="order-1")

    async def prepare() -> NewJob:
        return core.new_job(ann, idempotency_key="order-1")

    async def submit() -> Answer:
        submitted = await core.room.submission.once(principal_of(ann), body, prepare)
        return submitted.job.id, submitted.replayed

    return submit


def credit_of(ann: Member) -> Request:
    async def give() -> Answer:
        return await credit(ann.pool, ann.tenant_id, ann.user_id, 10, "payment-1")

    return give


@pytest.mark.parametrize("what", ["job", "run", "credit"])
async def test_g1_g2_a_repeated_request_is_acknowledged_only_when_the_standby_has_what_the_first_one_did(
    request_of: dict[str, Request], pair: Pair, what: str
) -> None:
    send = request_of[what]
    await pair.make_synchronous()
    pair.standby.freeze()
    first = asyncio.create_task(send())
    await until(lambda: pair.primary.value(WAITING))
    # PostgreSQL keeps what was committed here.
    await pair.primary.value(f"SELECT pg_terminate_backend(pid) FROM ({WAITING}) waiting")
    with pytest.raises(DATABASE_AWAY):
        await first

    again = asyncio.create_task(send())

    async def waits_or_returned() -> bool:
        return again.done() or bool(await pair.primary.value(WAITING))

    await until(waits_or_returned)
    assert not again.done()
    pair.standby.thaw()
    made, was_there = await again
    assert was_there
    await pair.primary.kill()
    await pair.standby.promote()
    kept = "SELECT (SELECT array_agg(id) FROM ai_jobs) || (SELECT array_agg(id) FROM pipeline_runs)"
    balance = await pair.standby.value("SELECT balance FROM token_wallets", "pool_1")
    found = await pair.standby.value(kept, "pool_1")
    assert made in (*(found or ()), balance)
