"""Steps that are actors: jobs like any other, with a slot, a price, and a file that is signed when handed out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from callsheet.fleet.deliveries import Deliveries
from callsheet.providers.actor import Plan
from callsheet.wire.candidates import Replay
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.pipelines import Run, RunReason, RunStatus
from tests.support.actor_steps import actor_step, with_actors
from tests.support.core import Core, Member
from tests.support.shoot import FIX, NOW, Shoot, open_shoot
from tests.support.stage import open_stage, principal_of
from tests.support.troupe import Player, players

COST = 7
BASE = actor_step("painter", {"words": "{{prompt}}", "seed": "{{seed}}"}, needs_run_prompt=True, max_children=1)
CHILD = actor_step("painter", {"image": ["{{parent_image_path}}"]}, needs_parent_image_path=True, max_children=1)


@pytest.fixture
async def shoot(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[Shoot]:
    async with open_stage(core, ann, tmp_path / "home") as stage:
        yield open_shoot(core, ann, stage)


def deliveries(shoot: Shoot) -> Deliveries:
    return Deliveries(shoot.stage.room.files.storage, shoot.core.room.lease_reports, 10**9)


async def run_of(shoot: Shoot, *steps: dict[str, Any], **changes: Any) -> Run:
    return await shoot.run(await shoot.define(list(steps)), **{"target_leaves": 1, **changes})


async def test_a_run_of_actors_is_held_priced_and_counted_like_any_other(shoot: Shoot) -> None:
    shoot, _ = await with_actors(shoot, Player("painter"), painter=COST)
    run = await shoot.finish(await run_of(shoot, BASE, CHILD))
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
    assert (run.draws, run.spent, await shoot.shape(run)) == (2, 2 * COST, {1: 1, 2: 1})
    jobs = await shoot.core.rows(shoot.ann.pool, "SELECT * FROM ai_jobs WHERE run_id = $1 ORDER BY id", run.id)
    assert [(job["kind"], job["actor"], job["cost"]) for job in jobs] == [("pipeline", "painter", COST)] * 2
    assert jobs[0]["payload"]["words"] == "a gym"
    assert 0 <= jobs[0]["payload"]["seed"] < 2**31
    await shoot.check(run)


async def test_the_parents_picture_is_an_address_only_when_a_worker_has_the_task(shoot: Shoot) -> None:
    shoot, _ = await with_actors(shoot, Player("painter"))
    run = await run_of(shoot, BASE, CHILD)
    await shoot.tick()
    await shoot.deliver(await shoot.start())
    await shoot.tick()
    started = await shoot.start()
    [base] = await shoot.candidates(run)
    [file] = await shoot.core.rows(shoot.ann.pool, "SELECT path FROM files WHERE id = $1", base["file_id"])
    assert started.payload["image"] == ["{{parent_image_path}}"]
    assert started.payload["task_files"][0]["path"] == file["path"]
    job = deliveries(shoot).job(started, 30)
    assert job.input_url is not None
    assert file["path"] in job.input_url
    assert job.input_payload == {"image": [job.input_url]}
    assert (job.input_file and job.input_file.mime_type, job.output_url) == ("image/png", None)
    [row] = await shoot.core.rows(
        shoot.ann.pool, "SELECT input_file_ids FROM ai_jobs WHERE id = $1", started.lease.job_id
    )
    assert row["input_file_ids"] == [base["file_id"]]


async def test_a_task_that_says_of_itself_which_files_it_reads_is_handed_no_address(shoot: Shoot) -> None:
    said = {"task_files": [{"path": f"tenants/{shoot.ann.tenant_id}/secret.png", "places": [["url"]]}], "url": ""}
    await shoot.core.submit(shoot.ann, kind="task", payload=said)
    job = deliveries(shoot).job(await shoot.start(), 30)
    assert (job.input_payload, job.input_url) == (said, None)


async def test_a_failure_is_a_strike_against_the_parent_and_is_refunded(shoot: Shoot) -> None:
    shoot, _ = await with_actors(shoot, Player("painter"), painter=COST)
    run = await run_of(shoot, BASE, CHILD, budget=3 * COST)
    await shoot.tick()
    await shoot.deliver(await shoot.start())
    await shoot.tick()
    await shoot.core.fail(await shoot.start())
    await shoot.room.collector.tick(NOW)
    [base] = await shoot.candidates(run)
    assert (base["failure_count"], base["in_flight"]) == (1, 0)
    assert (await shoot.shown(run)).spent == COST
    await shoot.check(run)


async def test_a_run_whose_actor_is_gone_says_why_and_goes_on_when_it_is_back(shoot: Shoot) -> None:
    shoot, actors = await with_actors(shoot, Player("painter"))
    run = await run_of(shoot, BASE, CHILD)
    await shoot.tick()
    painter = actors.pop("painter")
    await shoot.deliver(await shoot.start())
    await shoot.tick()
    stuck = await shoot.shown(run)
    assert (stuck.status, stuck.reason) == (RunStatus.ACTIVE, RunReason.CANNOT_BUILD)
    assert stuck.reason_detail is not None
    assert "Step 'by-painter-2': workflow: Unknown actor" in stuck.reason_detail
    actors["painter"] = painter
    await shoot.due(run)
    assert (await shoot.finish(run)).status is RunStatus.COMPLETED
    await shoot.check(run)


async def test_an_actor_may_refuse_what_a_run_drew_and_the_run_says_so(shoot: Shoot) -> None:
    def planned(payload: Mapping[str, Any]) -> Plan:
        if len(refused) and "words" in payload:
            raise InvalidRequest.field("payload.words", "are not liked today")
        return Plan()

    refused: list[bool] = []
    shoot, _ = await with_actors(shoot, Player("painter", planned=planned))
    run = await run_of(shoot, BASE)
    refused.append(True)
    await shoot.tick()
    shown = await shoot.shown(run)
    assert (shown.reason, shown.draws) == (RunReason.CANNOT_BUILD, 0)
    assert "payload.words: are not liked today" in (shown.reason_detail or "")


async def test_a_task_for_an_engine_becomes_the_job_of_its_effect(shoot: Shoot) -> None:
    """Its price is the effect's, and it takes the parent's picture by its id."""
    shoot, _ = await with_actors(shoot, Player("painter"), players()["engine"], painter=COST, engine=99)
    slug = await shoot.workflow(FIX, cost=3, properties=[picture_input()])
    by_id = {"effect": slug, "input_file_id": "{{parent_file_id}}"}
    run = await run_of(shoot, BASE, actor_step("engine", by_id, needs_parent_image_path=True))
    run = await shoot.finish(run)
    assert (run.status, run.spent) == (RunStatus.COMPLETED, COST + 3)
    jobs = await shoot.core.rows(shoot.ann.pool, "SELECT * FROM ai_jobs WHERE run_id = $1 ORDER BY id", run.id)
    [base, _] = await shoot.candidates(run)
    assert jobs[1]["input_file_ids"] == [base["file_id"]]
    assert jobs[1]["payload"]["assets"][0]["file_id"] == str(base["file_id"])
    by_address = {"effect": slug, "input_file_id": "{{parent_image_path}}"}
    with pytest.raises(InvalidRequest, match=r"payload.input_file_id: .*\{\{parent_file_id\}\} is the id"):
        await shoot.define([BASE, actor_step("engine", by_address, needs_parent_image_path=True)])


async def test_a_replay_asks_the_same_actor_the_same_at_todays_price(shoot: Shoot) -> None:
    shoot, actors = await with_actors(shoot, Player("painter"), painter=COST)
    run = await shoot.finish(await run_of(shoot, BASE, CHILD))
    [_, leaf] = await shoot.candidates(run)
    ann = principal_of(shoot.ann)
    shoot, _ = await with_actors(shoot, *actors.values(), painter=COST + 1)
    submitted = await shoot.room.guidance.lineages.replay(ann, leaf["id"], Replay())
    assert (submitted.job.kind, submitted.job.cost, submitted.job.run_id) == ("replay", COST + 1, None)
    started = await shoot.start()
    assert deliveries(shoot).job(started, 30).input_payload["image"][0].startswith("http")
    await shoot.deliver(started)
    told = await shoot.room.guidance.lineages.explain(ann, leaf["id"])
    assert [(each.workflow, each.payload) for each in told.ancestors][1] == ({}, {"image": ["{{parent_image_path}}"]})
    shoot, _ = await with_actors(shoot)
    with pytest.raises(InvalidRequest, match="This candidate cannot be made again"):
        await shoot.room.guidance.lineages.replay(ann, leaf["id"], Replay())


def picture_input() -> dict[str, Any]:
    fields = {"key": "input", "type": "image", "is_primary_input": True}
    return {**fields, "placeholder": "{{parent_image_path}}"}
