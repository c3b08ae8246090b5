"""Whatever takes an agent, its machine or its neighbours away: no job is lost, none waits for its lease to run out."""

from __future__ import annotations

import asyncio
import io
import json
import signal
from pathlib import Path

import pytest

from callsheet.worker.agent.agent import PAUSE_SECONDS, Agent
from callsheet.worker.agent.departure import DRAINED_EXIT_CODE
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.worker.failing_proxies import cuttable_proxy_to, refusing_proxy_to
from tests.worker.harness import AgentHarness
from tests.worker.processes import worker_process


async def processing(agent_harness: AgentHarness, count: int = 1) -> None:
    await until(lambda: len(agent_harness.engine.called("/prompt")) >= count and agent_harness.engine.running)


async def wait_for_requeue(agent_harness: AgentHarness) -> None:
    async def is_queued() -> bool:
        rows = await agent_harness.worker_harness.central("SELECT status, attempts FROM ai_job_dispatches")
        return bool(rows) and all((row["status"], row["attempts"]) == ("queued", 0) for row in rows)

    await until(is_queued)


async def test_a_stopped_agent_requeues_its_jobs_without_counting_attempts_and_deregisters(
    agent_harness: AgentHarness,
) -> None:
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    jobs = [await agent_harness.submit(person) for _ in range(3)]
    agent = agent_harness.agent()
    await processing(agent_harness)
    await until(lambda: len(agent_harness.engine.called("/upload/image")) == 2)
    await agent_harness.leave(agent, "SIGTERM")
    await wait_for_requeue(agent_harness)
    assert await agent_harness.workers() == []
    assert agent_harness.engine.running is None
    assert agent_harness.left_over() == []
    agent_harness.engine.release.set()
    agent_harness.agent()
    for job_id in jobs:
        await agent_harness.ends(person, job_id)


async def test_a_job_that_can_be_finished_in_time_is_finished(agent_harness: AgentHarness) -> None:
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    agent = agent_harness.agent()
    await processing(agent_harness)
    agent.departure.begin("SIGTERM", 60)
    agent_harness.engine.release.set()
    await agent.task  # type: ignore[attr-defined]
    assert (await agent_harness.worker_harness.shown(person, job_id))["status"] == "completed"
    assert await agent_harness.workers() == []


async def drain(agent_harness: AgentHarness, agent: Agent, what: str = "drain") -> None:
    response = await agent_harness.worker_harness.jobs_api.post(
        f"/api/admin/workers/{agent.config.worker_id}/{what}", {}
    )
    assert response.status_code == 200, response.text


async def test_a_drained_worker_finishes_its_job_and_exits_if_configured(agent_harness: AgentHarness) -> None:
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    agent = agent_harness.agent(leaves_when_drained=True)
    await processing(agent_harness)
    await drain(agent_harness, agent)
    agent_harness.engine.release.set()
    await agent_harness.ends(person, job_id)
    await agent.task  # type: ignore[attr-defined]
    assert agent.departure.exit_code == DRAINED_EXIT_CODE
    assert await agent_harness.workers() == []


async def test_a_drained_worker_that_stays_takes_no_job_until_the_drain_is_undone(
    agent_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PAUSE_SECONDS, "draining", 0.05)
    agent = agent_harness.agent(wait_seconds=55.0)
    await agent_harness.polls()
    await drain(agent_harness, agent)
    await until(lambda: agent._is_draining)
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    [row] = await agent_harness.worker_harness.central("SELECT status, lease_seq FROM ai_job_dispatches")
    assert (row["status"], row["lease_seq"]) == ("queued", 0)
    assert len(await agent_harness.workers()) == 1
    await drain(agent_harness, agent, "undrain")
    await agent_harness.ends(person, job_id)
    await agent_harness.leave(agent)


@pytest.mark.thorough
async def test_a_process_that_was_drained_earlier_ends_with_a_code_that_keeps_it_down(
    agent_harness: AgentHarness, tmp_path: Path
) -> None:
    await agent_harness.worker_harness.central(
        "INSERT INTO worker_drains (worker_id, drained_by) VALUES ('gpu-1', 'operator')"
    )
    await agent_harness.submit(await agent_harness.person())
    with worker_process(agent_harness, tmp_path, "gpu-1", CALLSHEET_WORKER__WHEN_DRAINED="exit") as process:
        assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) == DRAINED_EXIT_CODE
    [row] = await agent_harness.worker_harness.central("SELECT status, lease_seq FROM ai_job_dispatches")
    assert (row["status"], row["lease_seq"]) == ("queued", 0)
    assert await agent_harness.workers() == []


async def test_an_agent_survives_an_outage_of_the_control_plane(agent_harness: AgentHarness) -> None:
    async with cuttable_proxy_to(agent_harness.worker_harness.plane.settings.public_url) as wire:
        agent_harness.engine.scenario = "held"
        person = await agent_harness.person()
        job_id = await agent_harness.submit(person)
        agent = agent_harness.agent(api_url=wire.url)
        await processing(agent_harness)
        await wire.cut()
        agent_harness.engine.release.set()
        await until(lambda: len(agent_harness.engine.called("/view")) == 3)
        assert (await agent_harness.worker_harness.shown(person, job_id))["status"] == "processing"
        await wire.connect()
        await agent_harness.ends(person, job_id)
        await agent_harness.leave(agent)


async def test_a_report_that_could_not_be_sent_is_sent_by_the_next_agent(agent_harness: AgentHarness) -> None:
    async with refusing_proxy_to(agent_harness.worker_harness.plane.settings.public_url) as proxy:
        proxy.closed_for.add("/api/worker/complete")
        person = await agent_harness.person()
        job_id = await agent_harness.submit(person)
        agent = agent_harness.agent(api_url=proxy.url, worker_id="gpu-9")
        await until(lambda: proxy.turned_away)
        await kill(agent)
        proxy.closed_for.clear()
        next_one = agent_harness.agent(api_url=proxy.url, worker_id="gpu-9")
        await agent_harness.ends(person, job_id)
        assert len(agent_harness.engine.called("/prompt")) == 1
        await agent_harness.leave(next_one)


async def kill(agent: Agent) -> None:
    agent.task.cancel()  # type: ignore[attr-defined]
    await asyncio.gather(agent.task, return_exceptions=True)  # type: ignore[attr-defined]


async def test_an_engine_that_was_killed_costs_one_attempt_and_the_job_is_done_by_the_next(
    agent_harness: AgentHarness,
) -> None:
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    agent_harness.agent()
    await processing(agent_harness)
    await agent_harness.engine.kill()
    agent_harness.engine.scenario = "SaveImage_batch3"
    await agent_harness.engine.start()

    async def is_queued_again() -> bool:
        rows = await agent_harness.worker_harness.central("SELECT status, attempts FROM ai_job_dispatches")
        return [(row["status"], row["attempts"]) for row in rows] == [("queued", 1)]

    await until(is_queued_again)
    await agent_harness.ends(person, job_id, hurry=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)])
async def test_a_signal_stops_the_command_and_requeues_its_job(
    agent_harness: AgentHarness, tmp_path: Path, number: signal.Signals
) -> None:
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    await agent_harness.submit(person)
    with worker_process(agent_harness, tmp_path, "gpu-1") as process:
        await processing(agent_harness)
        process.send_signal(number)
        assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) == 0
    await wait_for_requeue(agent_harness)
    assert await agent_harness.workers() == []


async def test_a_killed_agents_job_is_finished_by_the_next_one_on_the_machine_at_once(
    agent_harness: AgentHarness, tmp_path: Path
) -> None:
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    with worker_process(agent_harness, tmp_path, "gpu-1") as process:
        await processing(agent_harness)
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait, PATIENCE_SECONDS)
    agent_harness.engine.scenario = "SaveImage_batch3"
    with worker_process(agent_harness, tmp_path, "gpu-1"):
        await agent_harness.ends(person, job_id)
    # What the killed one left at the engine is ended, or the next run would have waited for it.
    abandoned, _ = agent_harness.engine.called("/prompt")
    assert {body["prompt_id"] for body in agent_harness.engine.called("/interrupt")} == {abandoned["prompt_id"]}
    row = await agent_harness.closed(job_id)
    assert (row["attempts"], row["requeues"]) == (1, 1)


@pytest.mark.thorough
async def test_a_killed_agents_job_is_finished_by_another_machine_when_its_lease_has_run_out(
    agent_harness: AgentHarness, tmp_path: Path
) -> None:
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    with worker_process(agent_harness, tmp_path, "gpu-1") as process:
        await processing(agent_harness)
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait, PATIENCE_SECONDS)
    agent_harness.engine.release.set()
    agent_harness.agent(directory=tmp_path / "another machine")

    async def has_run_out() -> bool:
        # Again, should the killed one's last heartbeat come after it.
        expire = "UPDATE ai_job_dispatches SET lease_expires_at = now() WHERE worker_id = 'gpu-1' RETURNING 1"
        return await agent_harness.worker_harness.central(expire) == []

    await until(has_run_out)
    await agent_harness.ends(person, job_id)
    row = await agent_harness.closed(job_id)
    assert row["attempts"] == 2


async def test_a_lease_that_was_given_while_the_agent_was_killed_is_handed_to_the_next_one(
    agent_harness: AgentHarness,
) -> None:
    agent = agent_harness.agent(worker_id="gpu-3", wait_seconds=55.0)
    await agent_harness.polls()
    await kill(agent)
    # Until the control plane has noticed, the killed one's poll takes the job itself, before or beside the one below.
    await agent_harness.polls(0)
    # The response that the killed worker did not read.
    token, poll_id = (json.loads((agent_harness.directory / f"{name}.json").read_text()) for name in ("token", "poll"))
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    request = {**poll_id, "wait_seconds": 20}
    response = await agent_harness.worker_harness.client.post(
        "/api/worker/poll", json=request, headers={"authorization": f"Bearer {token['token']}"}
    )
    assert response.json()["job"]["job_id"] == job_id
    agent_harness.agent(worker_id="gpu-3")
    await agent_harness.ends(person, job_id)
    row = await agent_harness.closed(job_id)
    assert (row["attempts"], row["requeues"]) == (1, 0)
    repeated = "SELECT 1 FROM worker_audit_logs WHERE event = 'lease_repeated'"
    assert len(await agent_harness.worker_harness.central(repeated)) == 1


async def test_jobs_of_a_killed_agent_do_not_wait_for_an_unavailable_engine(agent_harness: AgentHarness) -> None:
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    await agent_harness.submit(person)
    agent = agent_harness.agent(worker_id="gpu-4")
    await processing(agent_harness)
    await kill(agent)
    await agent_harness.engine.kill()
    agent_harness.agent(worker_id="gpu-4")
    await wait_for_requeue(agent_harness)
    await until(lambda: not (agent_harness.directory / "token.json").exists())
    assert await agent_harness.workers() == []


@pytest.mark.thorough
async def test_damaged_files_do_not_prevent_a_start(agent_harness: AgentHarness) -> None:
    reports = agent_harness.directory / "reports"
    (reports / "a-folder.json").mkdir(parents=True)
    for number, text in enumerate(["", "[1]", '{"kind": "complete"', '{"kind": "requeue", "body": {}}', "\udcff"]):
        (reports / f"{number}.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    (agent_harness.directory / "token.json").write_text('{"token": 17}')
    (agent_harness.directory / "poll.json").write_text('{"poll_id": [null]}')
    agent_harness.agent()
    person = await agent_harness.person()
    await agent_harness.ends(person, await agent_harness.submit(person))
    # The job is settled a moment before the agent hears that its report was taken.
    await until(lambda: [path.name for path in reports.iterdir()] == ["a-folder.json"])


@pytest.mark.thorough
async def test_a_heartbeat_after_the_report_does_not_count_as_a_lost_lease(
    agent_harness: AgentHarness, logged: io.StringIO
) -> None:
    async with refusing_proxy_to(agent_harness.worker_harness.plane.settings.public_url) as proxy:
        # The job is settled, and the agent waits for the answer that says so while its heartbeats go on.
        proxy.swallows.add("/api/worker/complete")
        person = await agent_harness.person()
        job_id = await agent_harness.submit(person)
        agent_harness.agent(api_url=proxy.url, heartbeat_seconds=0.1)
        await agent_harness.ends(person, job_id)
        # The first may have come before this test heard of the end, and there need not be another.
        await until(lambda: "/api/worker/heartbeat" in proxy.refused)
        proxy.swallows.clear()
        await until(lambda: '"event": "job.reported"' in logged.getvalue())
    assert "lease.lost" not in logged.getvalue()
