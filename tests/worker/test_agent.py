"""What an agent does with its jobs, on a real control plane."""

from __future__ import annotations

import asyncio
import stat
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from callsheet.providers.comfy.self_hosted import ComfyUI
from callsheet.providers.engine import Output
from callsheet.wire.worker.protocol import UPLOADING
from callsheet.worker.agent.transfers import Transfers
from tests.support.comfyui.replaying_engine import PNG
from tests.support.http.worker_harness import INPUT, engine_payload
from tests.support.waiting import until
from tests.worker.harness import GRAPH, QUICK, AgentHarness


async def test_a_job_is_rendered_delivered_and_nothing_is_left_behind(agent_harness: AgentHarness) -> None:
    agent_harness.agent()
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    job = await agent_harness.ends(person, job_id)
    files = await agent_harness.worker_harness.files(person, job_id)
    assert [file["mime_type"] for file in files] == ["image/png"] * 3
    assert await agent_harness.worker_harness.plane.rooms.storage.read(files[0]["path"], 1_000_000) == PNG
    assert len(job["outputs"]) == 3
    await until(lambda: agent_harness.left_over() == [])
    await until(lambda: agent_harness.engine.history == {})


async def test_the_engine_gets_the_users_file_in_a_folder_of_its_own_under_a_name_of_ours(
    agent_harness: AgentHarness,
) -> None:
    agent_harness.agent()
    person = await agent_harness.person()
    await agent_harness.ends(person, await agent_harness.submit(person, input_name="../../etc/pass wd.mp4"))
    [uploaded] = agent_harness.engine.called("/upload/image")
    assert uploaded["name"] == "1-video.mp4"
    [prompt] = agent_harness.engine.called("/prompt")
    folder = f"callsheet/{prompt['prompt_id']}"
    assert uploaded["subfolder"] == folder
    assert prompt["prompt"]["1"]["inputs"]["image"] == f"{folder}/1-video.mp4"
    assert prompt["prompt"]["2"]["inputs"]["filename_prefix"] == f"{folder}/mine"
    assert agent_harness.engine.files["input", folder, "1-video.mp4"] == INPUT
    assert prompt["client_id"]


@pytest.mark.thorough
async def test_an_asset_of_the_catalog_is_uploaded_to_the_engine_once_and_apart_from_users_files(
    agent_harness: AgentHarness,
) -> None:
    content = b"a logo"
    await agent_harness.worker_harness.plane.rooms.storage.put("catalog/logo.png", content, content_type="image/png")
    name = f"{sha256(content).hexdigest()}.png"
    person = await agent_harness.person()

    async def rendered() -> None:
        payload = engine_payload(f"tenants/{person.tenant.id}/uploads/1/clip.mp4")
        logo = {"key": "logo", "placeholder": "__LOGO__", "asset_id": str(uuid4()), "path": "catalog/logo.png"}
        logo |= {"content_hash": name.removesuffix(".png"), "name": "Logo.PNG"}
        await agent_harness.worker_harness.plane.rooms.storage.put(
            payload["assets"][0]["path"], INPUT, content_type="video/mp4"
        )
        graph = GRAPH | {"4": {"class_type": "LoadImage", "inputs": {"image": "__LOGO__"}}}
        await agent_harness.ends(
            person, await agent_harness.submit(person, workflow=graph, assets=[*payload["assets"], logo])
        )

    agent_harness.agent()
    for _ in range(2):
        await rendered()
    uploads = [(each["subfolder"], each["name"]) for each in agent_harness.engine.called("/upload/image")]
    prompts = agent_harness.engine.called("/prompt")
    own = [(f"callsheet/{prompt['prompt_id']}", "1-video.mp4") for prompt in prompts]
    assert sorted(uploads) == sorted([*own, ("callsheet/assets", name)])
    assert [each["prompt"]["4"]["inputs"]["image"] for each in prompts] == [f"callsheet/assets/{name}"] * 2
    assert agent_harness.engine.files["input", "callsheet/assets", name] == content
    # A user deleted the files on the engine's disk.
    agent_harness.engine.files.clear()
    await rendered()
    assert agent_harness.engine.files["input", "callsheet/assets", name] == content


async def test_an_agent_without_a_fleet_has_the_stage_of_its_settings(agent_harness: AgentHarness) -> None:
    agent_harness.agent(stage="staging")
    await agent_harness.polls()
    [worker] = await agent_harness.workers()
    assert (worker["stage"], worker["registration_source"]) == ("staging", "workflows")


@pytest.mark.thorough
async def test_a_file_that_was_fetched_before_is_not_fetched_again(agent_harness: AgentHarness) -> None:
    agent_harness.agent()
    person = await agent_harness.person()
    for _ in range(2):
        await agent_harness.ends(person, await agent_harness.submit(person))
    cached = list((agent_harness.directory / "cache").iterdir())
    assert len(cached) == 1
    assert cached[0].read_bytes() == INPUT


async def test_users_see_progress_while_a_job_renders(agent_harness: AgentHarness) -> None:
    agent_harness.engine.scenario = "held"
    agent_harness.agent()
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)

    async def has_progress() -> bool:
        progress = (await agent_harness.worker_harness.shown(person, job_id)).get("progress") or {}
        return bool(progress.get("message"))

    await until(has_progress)
    agent_harness.engine.release.set()
    job = await agent_harness.ends(person, job_id)
    assert job["started_at"] is not None


async def test_users_see_when_a_job_is_rendered_and_being_uploaded(
    agent_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, go_on = Transfers.upload, asyncio.Event()

    async def slowly(*given: Any) -> None:
        await go_on.wait()
        await whole(*given)

    monkeypatch.setattr(Transfers, "upload", slowly)
    agent_harness.agent()
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)

    async def is_uploading() -> bool:
        progress = (await agent_harness.worker_harness.shown(person, job_id)).get("progress") or {}
        return bool(progress.get("message") == UPLOADING)

    await until(is_uploading)
    # Not where the engine's last word left it: what is left is the upload.
    assert (await agent_harness.worker_harness.shown(person, job_id))["progress"]["percent"] == 99.0
    go_on.set()
    await agent_harness.ends(person, job_id)


@pytest.mark.parametrize(
    ("scenario", "message"),
    [("error", "boom"), ("err_missing_input", "EmptyImage: Required input is missing (width)")],
)
async def test_a_failed_run_fails_the_job_with_the_message_of_the_engine(
    agent_harness: AgentHarness, scenario: str, message: str
) -> None:
    agent_harness.engine.scenario = scenario
    agent_harness.agent()
    person = await agent_harness.person()
    balance = await agent_harness.worker_harness.balance(person)
    job = await agent_harness.ends(person, await agent_harness.submit(person), "failed")
    assert (await agent_harness.reported(person, job)) == message
    assert await agent_harness.worker_harness.balance(person) == balance


@pytest.mark.thorough
async def test_an_empty_file_of_the_engine_fails_the_job_with_an_error_of_its_own(agent_harness: AgentHarness) -> None:
    agent_harness.engine.content = b""
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    agent_harness.agent()
    shown = await agent_harness.ends(person, job_id, "failed", hurry=True)
    assert shown["error"]["type"] == "empty_output"
    reported = await agent_harness.reported(person, shown)
    assert "wrote an empty file" in reported
    assert "free disk space" in reported


async def test_a_workflow_that_would_kill_the_engine_never_reaches_it(agent_harness: AgentHarness) -> None:
    agent_harness.agent()
    person = await agent_harness.person()
    poison: dict[str, Any] = {**GRAPH, "9": {"class_type": "EmptyImage"}}
    job = await agent_harness.ends(person, await agent_harness.submit(person, workflow=poison), "failed")
    assert job["error"]["type"] == "invalid_workflow"
    assert agent_harness.engine.called("/prompt") == []


async def test_out_of_memory_requeues_the_job_for_another_attempt(agent_harness: AgentHarness) -> None:
    agent_harness.engine.scenario = "oom"
    agent_harness.agent()
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)

    async def is_queued_again() -> bool:
        rows = await agent_harness.worker_harness.central("SELECT attempts, status FROM ai_job_dispatches")
        return [(row["attempts"], row["status"]) for row in rows] == [(1, "queued")]

    await until(is_queued_again)
    agent_harness.engine.scenario = "SaveImage_batch3"
    await agent_harness.ends(person, job_id, hurry=True)


async def test_a_canceled_job_is_stopped_at_the_engine(agent_harness: AgentHarness) -> None:
    agent_harness.engine.scenario = "held"
    agent_harness.agent()
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    await until(lambda: agent_harness.engine.running)
    response = await agent_harness.worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{job_id}/cancel")
    assert response.status_code == 200, response.text
    await until(lambda: agent_harness.engine.running is None)
    [prompt] = agent_harness.engine.called("/prompt")
    assert {body["prompt_id"] for body in agent_harness.engine.called("/interrupt")} == {prompt["prompt_id"]}

    async def is_free() -> bool:
        return await agent_harness.leases() == 0

    await until(is_free)
    await until(lambda: agent_harness.left_over() == [])


async def test_a_lost_lease_stops_the_run_without_a_report(agent_harness: AgentHarness) -> None:
    agent_harness.engine.scenario = "held"
    agent_harness.agent()
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    await until(lambda: agent_harness.engine.running)
    await agent_harness.worker_harness.central(
        "UPDATE ai_job_dispatches SET lease_token = gen_random_uuid(), worker_id = 'other'"
    )
    await until(lambda: agent_harness.engine.running is None)
    await until(lambda: agent_harness.left_over() == [])
    assert (await agent_harness.worker_harness.shown(person, job_id))["status"] == "processing"


@pytest.mark.thorough
async def test_a_run_that_takes_longer_than_it_may_is_stopped(agent_harness: AgentHarness) -> None:
    agent_harness.engine.scenario = "held"
    await agent_harness.worker_harness.central("UPDATE workflows SET run_limit_seconds = 1")
    agent_harness.agent()
    person = await agent_harness.person()
    job = await agent_harness.ends(person, await agent_harness.submit(person), "failed")
    assert job["error"]["type"] == "run_limit"
    await until(lambda: agent_harness.engine.running is None)


@pytest.mark.thorough
async def test_a_run_that_takes_longer_than_its_worker_allows_fails_although_its_workflow_allows_more(
    agent_harness: AgentHarness,
) -> None:
    agent_harness.engine.scenario = "held"
    agent_harness.agent(run_limit_seconds=1.0)
    person = await agent_harness.person()
    job = await agent_harness.ends(person, await agent_harness.submit(person), "failed")
    assert job["error"]["type"] == "run_limit"
    assert await agent_harness.reported(person, job) == "The run took longer than 1 second."
    await until(lambda: agent_harness.engine.running is None)


@pytest.mark.thorough
async def test_a_result_that_cannot_be_fetched_is_within_the_run_limit_although_no_start_was_seen(
    agent_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ComfyUI(agent_harness.engine.url, patience=QUICK)

    async def run(*_: object) -> list[Output]:
        return [Output("2", "made.png")]

    async def fetch(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(engine, "run", run)
    monkeypatch.setattr(engine, "fetch", fetch)
    await agent_harness.worker_harness.central("UPDATE workflows SET run_limit_seconds = 1")
    agent_harness.agent(engines=[engine])
    person = await agent_harness.person()
    job = await agent_harness.ends(person, await agent_harness.submit(person), "failed")
    assert job["error"]["type"] == "run_limit"


async def test_the_next_jobs_files_are_fetched_while_the_engine_works_and_never_more_than_one_ahead(
    agent_harness: AgentHarness,
) -> None:
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    jobs = [await agent_harness.submit(person) for _ in range(4)]
    agent_harness.agent()
    # In whichever order: the second file may have come before the first run was sent.
    await until(
        lambda: len(agent_harness.engine.called("/upload/image")) == 2 and agent_harness.engine.called("/prompt")
    )
    assert len(agent_harness.engine.called("/prompt")) == 1
    assert await agent_harness.leases() == 2
    agent_harness.engine.release.set()
    for job_id in jobs:
        await agent_harness.ends(person, job_id)
    leased = await agent_harness.worker_harness.central("SELECT count(*) FROM worker_audit_logs WHERE event = 'leased'")
    assert leased[0]["count"] == 4


@pytest.mark.thorough
async def test_without_prefetch_no_lease_is_held_beyond_the_engines_places(agent_harness: AgentHarness) -> None:
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    jobs = [await agent_harness.submit(person) for _ in range(3)]
    agent_harness.agent(prefetch=False, max_concurrency=2)
    await until(lambda: len(agent_harness.engine.called("/prompt")) == 2)
    assert await agent_harness.leases() == 2
    agent_harness.engine.release.set()
    for job_id in jobs:
        await agent_harness.ends(person, job_id)


async def test_an_unavailable_engine_costs_no_job_its_attempt(agent_harness: AgentHarness) -> None:
    agent = agent_harness.agent()
    person = await agent_harness.person()
    await until(lambda: agent._plane.is_registered)
    await agent_harness.engine.kill()
    job_id = await agent_harness.submit(person)

    async def has_left() -> bool:
        return await agent_harness.workers() == []

    await until(has_left)
    await agent_harness.engine.start()
    await agent_harness.ends(person, job_id)
    assert (await agent_harness.closed(job_id))["attempts"] == 1


@pytest.mark.thorough
async def test_the_token_is_readable_by_its_user_only_and_used_at_the_next_start(agent_harness: AgentHarness) -> None:
    agent = agent_harness.agent(worker_id="gpu-7")
    token = agent_harness.directory / "token.json"
    await until(token.exists)
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    # Killed: no goodbye.
    agent.task.cancel()  # type: ignore[attr-defined]
    await asyncio.gather(agent.task, return_exceptions=True)  # type: ignore[attr-defined]
    agent_harness.agent(worker_id="gpu-7")
    person = await agent_harness.person()
    await agent_harness.ends(person, await agent_harness.submit(person))
    rows = await agent_harness.worker_harness.central("SELECT 1 FROM worker_sessions")
    assert len(rows) == 1


async def test_an_agent_with_a_revoked_token_registers_again(agent_harness: AgentHarness) -> None:
    agent_harness.agent(wait_seconds=0.2)
    token = agent_harness.directory / "token.json"
    await until(token.exists)
    before = token.read_text()
    await agent_harness.worker_harness.central("DELETE FROM comfyui_workers")
    await until(lambda: token.exists() and token.read_text() != before)
    person = await agent_harness.person()
    await agent_harness.ends(person, await agent_harness.submit(person))


@pytest.mark.thorough
async def test_an_agent_that_was_removed_as_stale_registers_again(agent_harness: AgentHarness) -> None:
    token = agent_harness.directory / "token.json"
    with capture_logs() as logs:
        agent_harness.agent(wait_seconds=0.2)
        await until(token.exists)
        before = token.read_text()

        async def has_registered_again() -> bool:
            await agent_harness.worker_harness.central(
                "UPDATE comfyui_workers SET last_seen_at = last_seen_at - interval '1 day'"
            )
            await agent_harness.worker_harness.plane.rooms.fleet.sweeper.sweep()
            return token.read_text() != before

        await until(has_registered_again)
    refused = [line for line in logs if line["event"] == "worker.token_refused"]
    assert "registration_expired" in {line["code"] for line in refused}
    person = await agent_harness.person()
    await agent_harness.ends(person, await agent_harness.submit(person))
