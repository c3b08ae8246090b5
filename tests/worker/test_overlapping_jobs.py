"""How many leases agents hold while they overlap downloads, renders and uploads of many jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from callsheet.worker.agent.transfers import Transfers
from tests.support.waiting import until
from tests.worker.harness import AgentHarness

# As many jobs as a user may have at once.
PEOPLE, JOBS_EACH, AGENTS = 4, 5, 3
# Counted where it happens: whatever a test could ask for in between, it would miss some moment.
WATCH = """
CREATE TABLE live_leases (worker_id text, live bigint);
CREATE FUNCTION count_leases() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO live_leases
    SELECT NEW.worker_id, count(*) FROM ai_job_dispatches WHERE worker_id = NEW.worker_id AND status = 'leased';
    RETURN NULL;
END $$;
CREATE TRIGGER count_leases AFTER UPDATE OF lease_token ON ai_job_dispatches FOR EACH ROW
WHEN (NEW.status = 'leased' AND NEW.lease_token IS DISTINCT FROM OLD.lease_token) EXECUTE FUNCTION count_leases();
"""


@pytest.mark.thorough
async def test_the_last_jobs_output_is_uploaded_while_the_engine_renders_the_next(
    agent_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, go_on = Transfers.upload, asyncio.Event()
    uploading: list[Path] = []

    async def slowly(transfers: Transfers, url: str, headers: Mapping[str, str], path: Path) -> None:
        uploading.append(path)
        await go_on.wait()
        await whole(transfers, url, headers, path)

    monkeypatch.setattr(Transfers, "upload", slowly)
    person = await agent_harness.person()
    jobs = [await agent_harness.submit(person) for _ in range(3)]
    agent_harness.agent()
    await until(lambda: uploading and len(agent_harness.engine.called("/prompt")) == 2)
    # The third waits: two is all it may hold.
    assert await agent_harness.leases() == 2
    go_on.set()
    for job_id in jobs:
        await agent_harness.ends(person, job_id)


@asynccontextmanager
async def counted(agent_harness: AgentHarness) -> AsyncIterator[dict[str, int]]:
    """The most leases that each worker held at any one moment; filled at the end."""
    peaks: dict[str, int] = {}
    central = agent_harness.worker_harness.plane.databases.central
    async with central.connection() as connection:
        await connection.execute(WATCH)
    try:
        yield peaks
        for row in await agent_harness.worker_harness.central(
            "SELECT worker_id, max(live) AS live FROM live_leases GROUP BY 1"
        ):
            peaks[row["worker_id"]] = row["live"]
    finally:
        async with central.connection() as connection:
            await connection.execute("DROP FUNCTION count_leases CASCADE; DROP TABLE live_leases")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("prefetch", "max_concurrency"),
    [
        (True, 1),
        pytest.param(True, 2, marks=pytest.mark.thorough),
        pytest.param(False, 2, marks=pytest.mark.thorough),
    ],
)
async def test_no_agent_ever_holds_more_leases_than_it_has_places_and_twice_as_many_only_with_prefetch(
    agent_harness: AgentHarness, prefetch: bool, max_concurrency: int
) -> None:
    people = [await agent_harness.person() for _ in range(PEOPLE)]
    async with counted(agent_harness) as peaks:
        jobs = [(person, await agent_harness.submit(person)) for person in people for _ in range(JOBS_EACH)]
        for number in range(AGENTS):
            agent_harness.agent(
                directory=agent_harness.directory / str(number),
                worker_id=f"overlap-{number}",
                prefetch=prefetch,
                max_concurrency=max_concurrency,
            )
        for person, job_id in jobs:
            await agent_harness.ends(person, job_id)
        # What is submitted while they wait is taken no otherwise.
        late = [(person, await agent_harness.submit(person)) for person in people]
        for person, job_id in late:
            await agent_harness.ends(person, job_id)
    assert peaks
    assert all(live <= max_concurrency * (1 + prefetch) for live in peaks.values()), peaks
    if prefetch:
        # It was a play worth seeing.
        assert max(peaks.values()) > max_concurrency
    history = await agent_harness.worker_harness.central("SELECT attempts, requeues FROM dispatch_history")
    assert {(row["attempts"], row["requeues"]) for row in history} == {(1, 0)}
    assert len(agent_harness.engine.called("/prompt")) == len(jobs) + len(late)
