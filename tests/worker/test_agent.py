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
from callsheet.wire.worker import UPLOADING
from callsheet.worker.transfers import Transfers
from tests.support.engines import PNG
from tests.support.waiting import until
from tests.support.worker_harness import INPUT, engine_payload
from tests.worker.harness import GRAPH, QUICK, Site


async def test_a_job_is_rendered_delivered_and_nothing_is_left_behind(site: Site) -> None:
    site.agent()
    person = await site.person()
    job_id = await site.submit(person)
    job = await site.ends(person, job_id)
    files = await site.worker_harness.files(person, job_id)
    assert [file["mime_type"] for file in files] == ["image/png"] * 3
    assert await site.worker_harness.plane.storage.read(files[0]["path"], 1_000_000) == PNG
    assert len(job["outputs"]) == 3
    await until(lambda: site.left_over() == [])
    await until(lambda: site.engine.history == {})


async def test_the_engine_gets_the_users_file_in_a_folder_of_its_own_under_a_name_of_ours(site: Site) -> None:
    site.agent()
    person = await site.person()
    await site.ends(person, await site.submit(person, input_name="../../etc/pass wd.mp4"))
    [uploaded] = site.engine.called("/upload/image")
    assert uploaded["name"] == "1-video.mp4"
    [prompt] = site.engine.called("/prompt")
    folder = f"callsheet/{prompt['prompt_id']}"
    assert uploaded["subfolder"] == folder
    assert prompt["prompt"]["1"]["inputs"]["image"] == f"{folder}/1-video.mp4"
    assert prompt["prompt"]["2"]["inputs"]["filename_prefix"] == f"{folder}/mine"
    assert site.engine.files["input", folder, "1-video.mp4"] == INPUT
    assert prompt["client_id"]


async def test_an_asset_of_the_catalog_is_uploaded_to_the_engine_once_and_apart_from_users_files(site: Site) -> None:
    content = b"a logo"
    await site.worker_harness.plane.storage.put("catalog/logo.png", content, content_type="image/png")
    name = f"{sha256(content).hexdigest()}.png"
    person = await site.person()

    async def rendered() -> None:
        payload = engine_payload(f"tenants/{person.tenant.id}/uploads/1/clip.mp4")
        logo = {"key": "logo", "placeholder": "__LOGO__", "asset_id": str(uuid4()), "path": "catalog/logo.png"}
        logo |= {"content_hash": name.removesuffix(".png"), "name": "Logo.PNG"}
        await site.worker_harness.plane.storage.put(payload["assets"][0]["path"], INPUT, content_type="video/mp4")
        graph = GRAPH | {"4": {"class_type": "LoadImage", "inputs": {"image": "__LOGO__"}}}
        await site.ends(person, await site.submit(person, workflow=graph, assets=[*payload["assets"], logo]))

    site.agent()
    for _ in range(2):
        await rendered()
    uploads = [(each["subfolder"], each["name"]) for each in site.engine.called("/upload/image")]
    prompts = site.engine.called("/prompt")
    own = [(f"callsheet/{prompt['prompt_id']}", "1-video.mp4") for prompt in prompts]
    assert sorted(uploads) == sorted([*own, ("callsheet/assets", name)])
    assert [each["prompt"]["4"]["inputs"]["image"] for each in prompts] == [f"callsheet/assets/{name}"] * 2
    assert site.engine.files["input", "callsheet/assets", name] == content
    # A user deleted the files on the engine's disk.
    site.engine.files.clear()
    await rendered()
    assert site.engine.files["input", "callsheet/assets", name] == content


async def test_an_agent_without_a_fleet_has_the_stage_of_its_settings(site: Site) -> None:
    site.agent(stage="staging")
    await site.polls()
    [worker] = await site.workers()
    assert (worker["stage"], worker["registration_source"]) == ("staging", "workflows")


async def test_a_file_that_was_fetched_before_is_not_fetched_again(site: Site) -> None:
    site.agent()
    person = await site.person()
    for _ in range(2):
        await site.ends(person, await site.submit(person))
    cached = list((site.directory / "cache").iterdir())
    assert len(cached) == 1
    assert cached[0].read_bytes() == INPUT


async def test_users_see_progress_while_it_renders(site: Site) -> None:
    site.engine.scenario = "held"
    site.agent()
    person = await site.person()
    job_id = await site.submit(person)

    async def has_progress() -> bool:
        progress = (await site.worker_harness.shown(person, job_id)).get("progress") or {}
        return bool(progress.get("message"))

    await until(has_progress)
    site.engine.release.set()
    job = await site.ends(person, job_id)
    assert job["started_at"] is not None


async def test_users_see_when_it_is_rendered_and_on_its_way_to_storage(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, go_on = Transfers.upload, asyncio.Event()

    async def slowly(*given: Any) -> None:
        await go_on.wait()
        await whole(*given)

    monkeypatch.setattr(Transfers, "upload", slowly)
    site.agent()
    person = await site.person()
    job_id = await site.submit(person)

    async def is_uploading() -> bool:
        progress = (await site.worker_harness.shown(person, job_id)).get("progress") or {}
        return bool(progress.get("message") == UPLOADING)

    await until(is_uploading)
    # Not where the engine's last word left it: what is left is the upload.
    assert (await site.worker_harness.shown(person, job_id))["progress"]["percent"] == 99.0
    go_on.set()
    await site.ends(person, job_id)


@pytest.mark.parametrize(
    ("scenario", "message"),
    [("error", "boom"), ("err_missing_input", "EmptyImage: Required input is missing (width)")],
)
async def test_a_run_that_fails_fails_the_job_with_what_the_engine_said(
    site: Site, scenario: str, message: str
) -> None:
    site.engine.scenario = scenario
    site.agent()
    person = await site.person()
    balance = await site.worker_harness.balance(person)
    job = await site.ends(person, await site.submit(person), "failed")
    assert job["error"]["message"] == message
    assert await site.worker_harness.balance(person) == balance


async def test_a_workflow_that_would_kill_the_engine_never_reaches_it(site: Site) -> None:
    site.agent()
    person = await site.person()
    poison: dict[str, Any] = {**GRAPH, "9": {"class_type": "EmptyImage"}}
    job = await site.ends(person, await site.submit(person, workflow=poison), "failed")
    assert job["error"]["type"] == "invalid_workflow"
    assert site.engine.called("/prompt") == []


async def test_out_of_memory_puts_the_job_back_for_another_attempt(site: Site) -> None:
    site.engine.scenario = "oom"
    site.agent()
    person = await site.person()
    job_id = await site.submit(person)

    async def was_put_back() -> bool:
        rows = await site.worker_harness.central("SELECT attempts, status FROM ai_job_dispatches")
        return [(row["attempts"], row["status"]) for row in rows] == [(1, "queued")]

    await until(was_put_back)
    site.engine.scenario = "SaveImage_batch3"
    await site.ends(person, job_id, hurry=True)


async def test_a_canceled_job_is_stopped_at_the_engine(site: Site) -> None:
    site.engine.scenario = "held"
    site.agent()
    person = await site.person()
    job_id = await site.submit(person)
    await until(lambda: site.engine.running)
    answer = await site.worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{job_id}/cancel")
    assert answer.status_code == 200, answer.text
    await until(lambda: site.engine.running is None)
    [prompt] = site.engine.called("/prompt")
    assert {body["prompt_id"] for body in site.engine.called("/interrupt")} == {prompt["prompt_id"]}

    async def is_free() -> bool:
        return await site.leases() == 0

    await until(is_free)
    await until(lambda: site.left_over() == [])


async def test_a_lease_that_was_lost_stops_the_run_and_reports_nothing(site: Site) -> None:
    site.engine.scenario = "held"
    site.agent()
    person = await site.person()
    job_id = await site.submit(person)
    await until(lambda: site.engine.running)
    await site.worker_harness.central(
        "UPDATE ai_job_dispatches SET lease_token = gen_random_uuid(), worker_id = 'other'"
    )
    await until(lambda: site.engine.running is None)
    await until(lambda: site.left_over() == [])
    assert (await site.worker_harness.shown(person, job_id))["status"] == "processing"


async def test_a_run_that_takes_longer_than_it_may_is_stopped(site: Site) -> None:
    site.engine.scenario = "held"
    await site.worker_harness.central("UPDATE workflows SET run_limit_seconds = 1")
    site.agent()
    person = await site.person()
    job = await site.ends(person, await site.submit(person), "failed")
    assert job["error"]["type"] == "run_limit"
    await until(lambda: site.engine.running is None)


async def test_a_result_that_cannot_be_fetched_is_within_the_run_limit_although_no_start_was_seen(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ComfyUI(site.engine.url, patience=QUICK)

    async def run(*_: object) -> list[Output]:
        return [Output("2", "made.png")]

    async def fetch(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(engine, "run", run)
    monkeypatch.setattr(engine, "fetch", fetch)
    await site.worker_harness.central("UPDATE workflows SET run_limit_seconds = 1")
    site.agent(engines=[engine])
    person = await site.person()
    job = await site.ends(person, await site.submit(person), "failed")
    assert job["error"]["type"] == "run_limit"


async def test_the_next_jobs_files_are_fetched_while_the_engine_works_and_never_more_than_one_ahead(
    site: Site,
) -> None:
    site.engine.scenario = "held"
    person = await site.person()
    jobs = [await site.submit(person) for _ in range(4)]
    site.agent()
    # In whichever order: the second file may have come before the first run was sent.
    await until(lambda: len(site.engine.called("/upload/image")) == 2 and site.engine.called("/prompt"))
    assert len(site.engine.called("/prompt")) == 1
    assert await site.leases() == 2
    site.engine.release.set()
    for job_id in jobs:
        await site.ends(person, job_id)
    most = await site.worker_harness.central("SELECT count(*) FROM worker_audit_logs WHERE event = 'leased'")
    assert most[0]["count"] == 4


@pytest.mark.thorough
async def test_without_prefetch_no_lease_is_held_beyond_the_engines_places(site: Site) -> None:
    site.engine.scenario = "held"
    person = await site.person()
    jobs = [await site.submit(person) for _ in range(3)]
    site.agent(prefetch=False, max_concurrency=2)
    await until(lambda: len(site.engine.called("/prompt")) == 2)
    assert await site.leases() == 2
    site.engine.release.set()
    for job_id in jobs:
        await site.ends(person, job_id)


async def test_an_engine_that_is_away_costs_no_job_its_attempt(site: Site) -> None:
    agent = site.agent()
    person = await site.person()
    await until(lambda: agent._plane.is_registered)
    await site.engine.kill()
    job_id = await site.submit(person)

    async def has_left() -> bool:
        return await site.workers() == []

    await until(has_left)
    await site.engine.start()
    await site.ends(person, job_id)
    assert (await site.closed(job_id))["attempts"] == 1


async def test_the_token_is_readable_by_its_user_only_and_used_at_the_next_start(site: Site) -> None:
    agent = site.agent(worker_id="gpu-7")
    token = site.directory / "token.json"
    await until(token.exists)
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    # Killed: no goodbye.
    agent.task.cancel()  # type: ignore[attr-defined]
    await asyncio.gather(agent.task, return_exceptions=True)  # type: ignore[attr-defined]
    site.agent(worker_id="gpu-7")
    person = await site.person()
    await site.ends(person, await site.submit(person))
    rows = await site.worker_harness.central("SELECT 1 FROM worker_sessions")
    assert len(rows) == 1


async def test_a_revoked_token_makes_it_register_again(site: Site) -> None:
    site.agent(wait_seconds=0.2)
    token = site.directory / "token.json"
    await until(token.exists)
    before = token.read_text()
    await site.worker_harness.central("DELETE FROM comfyui_workers")
    await until(lambda: token.exists() and token.read_text() != before)
    person = await site.person()
    await site.ends(person, await site.submit(person))


@pytest.mark.thorough
async def test_an_agent_that_was_removed_as_stale_registers_again(site: Site) -> None:
    token = site.directory / "token.json"
    with capture_logs() as logs:
        site.agent(wait_seconds=0.2)
        await until(token.exists)
        before = token.read_text()

        async def has_registered_again() -> bool:
            await site.worker_harness.central(
                "UPDATE comfyui_workers SET last_seen_at = last_seen_at - interval '1 day'"
            )
            await site.worker_harness.plane.fleet.sweeper.sweep()
            return token.read_text() != before

        await until(has_registered_again)
    refused = [line for line in logs if line["event"] == "worker.token_refused"]
    assert "registration_expired" in {line["code"] for line in refused}
    person = await site.person()
    await site.ends(person, await site.submit(person))
