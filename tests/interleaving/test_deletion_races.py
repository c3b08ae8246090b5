"""A job is deleted and retried at once: it is active or deleted, never both, and its tokens match its state."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from callsheet.jobs.change.deletion import JobDeletion
from callsheet.jobs.lease.outcomes import Failure
from callsheet.jobs.machine.journal import Journal
from callsheet.media.deletion import Deletion
from callsheet.media.storage import open_storage
from callsheet.settings import Settings
from callsheet.wire.errors import NotFound, WrongState
from callsheet.wire.jobs import Job
from tests.support.jobs.core import report
from tests.support.jobs.race import QUEUED, REFUNDED, STARTED, Race
from tests.support.jobs.race_control import open_transaction, start_blocked
from tests.support.media.media_harness import SECRET, principal_of

LOCK_WALLET = "SELECT wallet_lock($1, $2)"
FAILED = [*STARTED, "processing>failed"]


@pytest.fixture
def deletion(race: Race, tmp_path: Path) -> JobDeletion:
    storage = open_storage(Settings.model_validate({"home": tmp_path}), SECRET, None)
    return JobDeletion(race.two.databases, Deletion(storage, "local"), Journal(lambda *_: None))


async def failed(race: Race) -> Job:
    job, started = await race.started()
    await race.one.room.leases.fail(report(started), Failure("broken", "It broke."))
    return job


async def retry(race: Race, job: Job) -> Job:
    return await race.one.room.retries.retry(race.ann.tenant_id, job.id, actor="user")


async def test_a_retry_that_waits_while_the_job_is_deleted_finds_nothing(race: Race, deletion: JobDeletion) -> None:
    job = await failed(race)
    async with race.pool.transaction() as connection:
        await connection.fetch(LOCK_WALLET, race.ann.tenant_id, race.ann.user_id)
        [retrying] = await start_blocked(race.pool, retry(race, job))
        # As the deletion does, in the transaction that holds the user's lock.
        await connection.execute(
            "UPDATE ai_jobs SET deleted_at = clock_timestamp() WHERE tenant_id = $1 AND id = $2",
            race.ann.tenant_id,
            job.id,
        )
    with pytest.raises(NotFound):
        await retrying
    await race.check_job(job.id, FAILED, REFUNDED)
    assert await deletion.delete(principal_of(race.ann), job.id) is False


async def test_a_deletion_that_waits_while_the_job_is_retried_is_refused(race: Race, deletion: JobDeletion) -> None:
    job = await failed(race)
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        works: list[Coroutine[Any, Any, Any]] = [retry(race, job), deletion.delete(principal_of(race.ann), job.id)]
        retrying, deleting = await start_blocked(race.pool, *works)
    assert (await retrying).status == "queued"
    with pytest.raises(WrongState):
        await deleting
    ledger = [*REFUNDED, (2, "JOB_RESERVE", -10)]
    await race.check_job(job.id, [*FAILED, "failed>pending", *QUEUED[1:]], ledger, dispatch="queued")
