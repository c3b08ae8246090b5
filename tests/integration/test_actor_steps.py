"""Steps that are actors: jobs like any other, with a slot, a price, and a file that is signed when handed out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from callsheet.fleet.protocol.deliveries import Deliveries
from callsheet.providers.actor import Plan
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.pipelines.candidates import Replay
from callsheet.wire.pipelines.design import PreviewRun
from callsheet.wire.pipelines.pipelines import Run, RunReason, RunStatus
from tests.support.http.actor_harness import ScriptedActor, scripted_actors
from tests.support.jobs.core import Core, Member
from tests.support.media.media_harness import open_media_harness, principal_of
from tests.support.pipelines.actor_steps import actor_step, with_actors
from tests.support.pipelines.pipeline_harness import FIX, NOW, PipelineHarness, open_pipeline_harness

COST = 7
BASE = actor_step("painter", {"words": "{{prompt}}", "seed": "{{seed}}"}, needs_run_prompt=True, max_children=1)
CHILD = actor_step("painter", {"image": ["{{parent_image_path}}"]}, needs_parent_image_path=True, max_children=1)


@pytest.fixture
async def pipelines(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[PipelineHarness]:
    async with open_media_harness(core, ann, tmp_path / "home") as media:
        yield open_pipeline_harness(core, ann, media)


def deliveries(pipelines: PipelineHarness) -> Deliveries:
    return Deliveries(pipelines.media.room.files.storage, pipelines.core.room.leases, 10**9)


async def run_of(pipelines: PipelineHarness, *steps: dict[str, Any], **changes: Any) -> Run:
    return await pipelines.run(await pipelines.define(list(steps)), **{"target_leaves": 1, **changes})


async def test_a_run_of_actors_is_limited_priced_and_counted_like_any_other_run(pipelines: PipelineHarness) -> None:
    pipelines, _ = await with_actors(pipelines, ScriptedActor("painter"), painter=COST)
    run = await pipelines.finish(await run_of(pipelines, BASE, CHILD))
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
    assert (run.draws, run.spent, await pipelines.shape(run)) == (2, 2 * COST, {1: 1, 2: 1})
    jobs = await pipelines.core.rows(pipelines.ann.pool, "SELECT * FROM ai_jobs WHERE run_id = $1 ORDER BY id", run.id)
    assert [(job["kind"], job["actor"], job["cost"]) for job in jobs] == [("pipeline", "painter", COST)] * 2
    assert jobs[0]["payload"]["words"] == "a gym"
    assert 0 <= jobs[0]["payload"]["seed"] < 2**31
    await pipelines.check(run)


async def test_a_preview_has_the_payload_of_the_first_task_and_its_price(pipelines: PipelineHarness) -> None:
    pipelines, _ = await with_actors(pipelines, ScriptedActor("painter"), painter=COST)
    request = PreviewRun.model_validate({"steps": [BASE, CHILD], "prompt": "a gym", "seed": 7, "target_leaves": 1})
    shown = await pipelines.room.design.previews.preview(principal_of(pipelines.ann), request)
    assert await pipelines.core.rows(pipelines.ann.pool, "SELECT FROM ai_jobs") == []
    await run_of(pipelines, BASE, CHILD, seed=7)
    await pipelines.tick()
    [job] = await pipelines.core.rows(pipelines.ann.pool, "SELECT payload, cost FROM ai_jobs")
    assert shown.first_job is not None
    assert (shown.first_job.payload, shown.first_job.graph, shown.first_job.cost) == (job["payload"], None, COST)
    assert (shown.first_job.seed, [step.cost for step in shown.steps]) == (job["payload"]["seed"], [COST, COST])
    assert (shown.jobs, shown.cost) == (2, 2 * COST)


async def test_the_url_of_the_parent_image_is_signed_only_when_a_worker_leases_the_task(
    pipelines: PipelineHarness,
) -> None:
    pipelines, _ = await with_actors(pipelines, ScriptedActor("painter"))
    run = await run_of(pipelines, BASE, CHILD)
    await pipelines.tick()
    await pipelines.deliver(await pipelines.start())
    await pipelines.tick()
    started = await pipelines.start()
    [base] = await pipelines.candidates(run)
    [file] = await pipelines.core.rows(pipelines.ann.pool, "SELECT path FROM files WHERE id = $1", base["file_id"])
    assert started.payload["image"] == ["{{parent_image_path}}"]
    assert started.payload["task_files"][0]["path"] == file["path"]
    job = deliveries(pipelines).job(started, 30)
    assert job.input_url is not None
    assert file["path"] in job.input_url
    assert job.input_payload == {"image": [job.input_url]}
    assert (job.input_file and job.input_file.mime_type, job.output_url) == ("image/png", None)
    [row] = await pipelines.core.rows(
        pipelines.ann.pool, "SELECT input_file_ids FROM ai_jobs WHERE id = $1", started.lease.job_id
    )
    assert row["input_file_ids"] == [base["file_id"]]


async def test_paths_in_the_users_own_payload_of_a_task_get_no_signed_urls(pipelines: PipelineHarness) -> None:
    payload = {
        "task_files": [{"path": f"tenants/{pipelines.ann.tenant_id}/secret.png", "places": [["url"]]}],
        "url": "",
    }
    await pipelines.core.submit(pipelines.ann, kind="task", payload=payload)
    job = deliveries(pipelines).job(await pipelines.start(), 30)
    assert (job.input_payload, job.input_url) == (payload, None)


async def test_a_failure_is_a_strike_against_the_parent_and_is_refunded(pipelines: PipelineHarness) -> None:
    pipelines, _ = await with_actors(pipelines, ScriptedActor("painter"), painter=COST)
    run = await run_of(pipelines, BASE, CHILD, budget=3 * COST)
    await pipelines.tick()
    await pipelines.deliver(await pipelines.start())
    await pipelines.tick()
    await pipelines.core.fail(await pipelines.start())
    await pipelines.room.collector.tick(NOW)
    [base] = await pipelines.candidates(run)
    assert (base["failure_count"], base["in_flight"]) == (1, 0)
    assert (await pipelines.shown(run)).spent == COST
    await pipelines.check(run)


async def test_a_run_without_its_actor_shows_the_reason_and_continues_when_the_actor_is_back(
    pipelines: PipelineHarness,
) -> None:
    pipelines, actors = await with_actors(pipelines, ScriptedActor("painter"))
    run = await run_of(pipelines, BASE, CHILD)
    await pipelines.tick()
    painter = actors.pop("painter")
    await pipelines.deliver(await pipelines.start())
    await pipelines.tick()
    stuck = await pipelines.shown(run)
    assert (stuck.status, stuck.reason) == (RunStatus.ACTIVE, RunReason.CANNOT_BUILD)
    assert stuck.reason_detail is not None
    assert "Step 'by-painter-2': workflow: Unknown actor" in stuck.reason_detail
    actors["painter"] = painter
    await pipelines.due(run)
    assert (await pipelines.finish(run)).status is RunStatus.COMPLETED
    await pipelines.check(run)


async def test_an_actor_may_refuse_drawn_values_and_the_run_shows_the_reason(pipelines: PipelineHarness) -> None:
    def planned(payload: Mapping[str, Any]) -> Plan:
        if len(refused) and "words" in payload:
            raise InvalidRequest.field("payload.words", "are not liked today")
        return Plan()

    refused: list[bool] = []
    pipelines, _ = await with_actors(pipelines, ScriptedActor("painter", planned=planned))
    run = await run_of(pipelines, BASE)
    refused.append(True)
    await pipelines.tick()
    shown = await pipelines.shown(run)
    assert (shown.reason, shown.draws) == (RunReason.CANNOT_BUILD, 0)
    assert "payload.words: are not liked today" in (shown.reason_detail or "")


async def test_a_task_for_an_engine_becomes_the_job_of_its_effect(pipelines: PipelineHarness) -> None:
    """The job has the price of the effect, and takes the parent's image by its id."""
    pipelines, _ = await with_actors(
        pipelines, ScriptedActor("painter"), scripted_actors()["engine"], painter=COST, engine=99
    )
    slug = await pipelines.workflow(FIX, cost=3, properties=[image_input()])
    by_id = {"effect": slug, "input_file_id": "{{parent_file_id}}"}
    run = await run_of(pipelines, BASE, actor_step("engine", by_id, needs_parent_image_path=True))
    run = await pipelines.finish(run)
    assert (run.status, run.spent) == (RunStatus.COMPLETED, COST + 3)
    jobs = await pipelines.core.rows(pipelines.ann.pool, "SELECT * FROM ai_jobs WHERE run_id = $1 ORDER BY id", run.id)
    [base, _] = await pipelines.candidates(run)
    assert jobs[1]["input_file_ids"] == [base["file_id"]]
    assert jobs[1]["payload"]["assets"][0]["file_id"] == str(base["file_id"])
    by_address = {"effect": slug, "input_file_id": "{{parent_image_path}}"}
    with pytest.raises(InvalidRequest, match=r"payload.input_file_id: .*\{\{parent_file_id\}\} is the id"):
        await pipelines.define([BASE, actor_step("engine", by_address, needs_parent_image_path=True)])


async def test_a_replay_sends_the_same_request_to_the_same_actor_at_the_current_price(
    pipelines: PipelineHarness,
) -> None:
    pipelines, actors = await with_actors(pipelines, ScriptedActor("painter"), painter=COST)
    run = await pipelines.finish(await run_of(pipelines, BASE, CHILD))
    [_, leaf] = await pipelines.candidates(run)
    ann = principal_of(pipelines.ann)
    pipelines, _ = await with_actors(pipelines, *actors.values(), painter=COST + 1)
    submitted = await pipelines.room.guidance.lineages.replay(ann, leaf["id"], Replay())
    assert (submitted.job.kind, submitted.job.cost, submitted.job.run_id) == ("replay", COST + 1, None)
    started = await pipelines.start()
    assert deliveries(pipelines).job(started, 30).input_payload["image"][0].startswith("http")
    await pipelines.deliver(started)
    lineage = await pipelines.room.guidance.lineages.explain(ann, leaf["id"])
    assert [(each.workflow, each.payload) for each in lineage.ancestors][1] == (
        {},
        {"image": ["{{parent_image_path}}"]},
    )
    pipelines, _ = await with_actors(pipelines)
    with pytest.raises(InvalidRequest, match="This candidate cannot be made again"):
        await pipelines.room.guidance.lineages.replay(ann, leaf["id"], Replay())


def image_input() -> dict[str, Any]:
    fields = {"key": "input", "type": "image", "is_primary_input": True}
    return {**fields, "placeholder": "{{parent_image_path}}"}
