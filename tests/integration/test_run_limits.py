"""What a run never passes, whatever its jobs bring back: its N, its top-K, and the budget of somebody who sleeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from callsheet.identity.quotas import Quotas
from callsheet.jobs.active_limits import ActiveLimits
from callsheet.jobs.outcomes import StartedLease
from callsheet.jobs.room import open_jobs
from callsheet.jobs.transition_requests import Output
from callsheet.settings import JobSettings, QuotaSettings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.candidates import CastVote
from callsheet.wire.errors import InvalidRequest, WrongState
from callsheet.wire.pipelines import Run, RunReason, RunStatus, Strategy
from tests.support.core import Core, Member, open_core, report
from tests.support.shoot import BASE, NOW, PNG, Shoot, open_shoot
from tests.support.stage import Stage, open_stage, principal_of


@pytest.fixture
async def stage(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage(core, ann, tmp_path / "home") as stage:
        yield stage


@pytest.fixture
def shoot(core: Core, ann: Member, stage: Stage) -> Shoot:
    return open_shoot(core, ann, stage)


async def deliver(shoot: Shoot, started: StartedLease, *mime_types: str) -> None:
    """Outputs of these types, or none at all."""
    lease, outputs = started.lease, []
    for number, mime_type in enumerate(mime_types):
        extension = mime_type.rpartition("/")[2]
        path = f"tenants/{lease.tenant_id}/ai-jobs/{lease.job_id}/output-{uuid7()}.{extension}"
        await shoot.stage.room.files.storage.put(path, PNG, content_type=mime_type)
        outputs.append(Output(uuid7(), "local", path, f"output-{number}.{extension}", mime_type, len(PNG)))
    result = {"outputs": [{"file_id": str(output.file_id)} for output in outputs]}
    await shoot.core.room.lease_reports.complete(report(started), result, outputs=outputs)


async def test_jobs_of_runs_have_a_limit_of_their_own(core: Core, ann: Member, stage: Stage) -> None:
    tight = open_core(core.databases)
    tight.workflow = core.workflow
    tight.room = open_jobs(
        core.databases, lambda *_: None, JobSettings(), ActiveLimits(jobs=2, tasks=9, typed=9, runs=1)
    )
    shoot = open_shoot(tight, ann, stage, jobs_per_run=9, jobs_in_total=9)
    # Other jobs of the user take nothing of it, however many there are.
    for _ in range(2):
        await tight.submit(ann, workflow_id=await core.add_workflow())
    run = await shoot.run(await shoot.pipeline("base", max_children=5), target_leaves=2)
    await shoot.tick()
    await shoot.tick()
    blocked = await shoot.shown(run)
    assert blocked.reason is RunReason.TOO_MANY_ACTIVE_JOBS
    assert "You have 1 active jobs of runs, and the limit is 1 (pipelines.jobs_per_user)" in str(blocked.reason_detail)


async def test_a_run_waits_while_its_user_has_no_room_for_files_and_says_so(
    core: Core, ann: Member, stage: Stage
) -> None:
    tight = open_core(core.databases)
    tight.workflow = core.workflow
    quotas = Quotas(core.databases, QuotaSettings(user_storage_files=1))
    tight.room = open_jobs(core.databases, lambda *_: None, JobSettings(), quotas=quotas)
    shoot = open_shoot(tight, ann, stage)
    file_id = await stage.upload()
    run = await shoot.run(await shoot.pipeline("base", max_children=5), target_leaves=2)
    await shoot.tick()
    blocked = await shoot.shown(run)
    assert (blocked.status, blocked.reason) == (RunStatus.ACTIVE, RunReason.QUOTA_EXCEEDED)
    assert "the limit is 1 (user_storage_files)" in str(blocked.reason_detail)
    await stage.delete_file(file_id)
    await shoot.due(run)
    await shoot.tick()
    assert (await shoot.shown(run)).reason is None


async def test_no_parent_gets_more_children_than_it_may_however_many_pictures_a_job_makes(
    core: Core, ann: Member, stage: Stage
) -> None:
    shoot = open_shoot(open_core(core.databases, active_per_user=100), ann, stage, jobs_per_run=2, jobs_in_total=2)
    run = await shoot.run(await shoot.pipeline("base", "fix", max_children=5), target_leaves=1)
    await shoot.tick()
    await shoot.deliver(await shoot.start())
    await shoot.tick()
    first, second = await shoot.start(), await shoot.start()
    await shoot.deliver(first, pictures=7)
    await shoot.room.collector.tick(NOW)
    # One place is kept for the job that is still under way.
    children = (await shoot.candidates(run))[1:]
    assert Counter(row["status"] for row in children) == {"active": 4, "rejected": 3}
    await shoot.deliver(second, pictures=2)
    run = await shoot.finish(run)
    base, *children = await shoot.candidates(run)
    assert (base["child_count"], base["in_flight"]) == (5, 0)
    assert [row["status"] for row in children] == ["active"] * 4 + ["rejected"] * 3 + ["active", "rejected"]
    assert run.status is RunStatus.COMPLETED
    await shoot.check(run)
    shown = await shoot.room.guidance.gallery.page(principal_of(ann), run.id, limit=100)
    assert Counter(each.rejection for each in shown.items) == {None: 6, "surplus": 4}
    surplus = next(each.id for each in shown.items if each.rejection)
    with pytest.raises(WrongState, match="as many children as it may"):
        await shoot.room.guidance.branches.restore(principal_of(ann), surplus)


async def test_a_rejected_candidate_says_how_it_came_to_be_rejected(shoot: Shoot) -> None:
    run = await shoot.run(await shoot.pipeline("base", "fix", max_children=1), target_leaves=1)
    run = await shoot.finish(run)
    base, leaf = await shoot.candidates(run)
    await shoot.room.guidance.branches.kill(principal_of(shoot.ann), base["id"])
    gallery = shoot.room.guidance.gallery
    shown = [await gallery.get(principal_of(shoot.ann), row["id"]) for row in (base, leaf)]
    assert [each.rejection for each in shown] == ["killed", "killed_with_ancestor"]


async def test_surplus_of_a_parent_that_was_killed_meanwhile_is_counted_as_such(shoot: Shoot) -> None:
    run = await shoot.run(await shoot.pipeline("base", "fix", max_children=1), target_leaves=1)
    await shoot.tick()
    await shoot.deliver(await shoot.start())
    await shoot.tick()
    await shoot.deliver(await shoot.start(), pictures=2)
    [base] = await shoot.candidates(run)
    await shoot.room.guidance.branches.kill(principal_of(shoot.ann), base["id"])
    await shoot.room.collector.tick(NOW)
    base, late, surplus = await shoot.candidates(run)
    assert (late["rejected_with"], surplus["rejected_with"], base["child_count"]) == (base["id"], surplus["id"], 1)
    await shoot.check(run)


@pytest.mark.thorough
async def test_a_third_step_that_always_fails_does_not_spend_the_budget_on_the_first_two(shoot: Shoot) -> None:
    steps = await shoot.steps("base", "fix", "break", max_children=2)
    steps[2]["workflow"] = await shoot.workflow(
        {"9": {"class_type": "Broken", "inputs": {"image": "{{parent_image_path}}"}}}
    )
    run = await shoot.run(await shoot.define(steps), budget=1000)
    run = await shoot.finish(run, lambda started: started.payload["workflow"]["9"]["class_type"] == "Broken")
    assert (run.status, run.reason) == (RunStatus.PAUSED, RunReason.BRANCHES_FAILED)
    assert await shoot.shape(run) == {1: 2, 2: 3}
    assert run.spent == 50
    await shoot.check(run)
    # Whoever mends the cause and lets it go on has not paid for the first two in vain.
    await shoot.room.runs.resume(principal_of(shoot.ann), run.id)
    run = await shoot.finish(run)
    assert run.reason is RunReason.TARGET_REACHED
    fixed = [row for row in await shoot.candidates(run) if row["position"] == 2]
    assert {(row["failure_count"], row["child_count"]) for row in fixed} == {(0, 2)}
    await shoot.check(run)


async def test_a_job_without_a_picture_is_a_strike_and_was_paid_for(shoot: Shoot) -> None:
    run = await shoot.run(await shoot.pipeline("base"), target_leaves=1)
    for _ in range(3):
        await shoot.tick()
        await deliver(shoot, await shoot.start(), "audio/mpeg")
    await shoot.tick()
    run = await shoot.shown(run)
    assert (run.status, run.reason, run.candidates) == (RunStatus.PAUSED, RunReason.BASE_FAILED, 0)
    assert (run.spent, await shoot.core.balance(shoot.ann)) == (30, 970)
    assert "made no image" in (run.reason_detail or "")


async def test_what_is_no_picture_is_nobodys_parent_and_holds_up_nobody(shoot: Shoot) -> None:
    """A job may make a film beside its picture; the next step takes pictures."""
    run = await shoot.run(await shoot.pipeline("base", "fix", max_children=1), target_leaves=2)
    await shoot.tick()
    await deliver(shoot, await shoot.start(), "video/mp4", "image/png", "text/plain", "image/png")
    run = await shoot.finish(run)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
    film, one, two, *leaves = await shoot.candidates(run)
    assert [row["output_index"] for row in (film, one, two)] == [0, 1, 3]
    assert {row["parent_id"] for row in leaves} == {one["id"], two["id"]}
    await shoot.check(run)


async def test_a_first_step_that_makes_only_films_does_not_spend_the_budget_on_more(shoot: Shoot) -> None:
    run = await shoot.run(await shoot.pipeline("base", "fix", max_children=1), target_leaves=2)
    for _ in range(10):
        await shoot.tick()
        if (started := await shoot.lease()) is None:
            break
        await deliver(shoot, started, "video/mp4")
    run = await shoot.shown(run)
    assert (run.status, run.reason, run.candidates) == (RunStatus.PAUSED, RunReason.BRANCHES_FAILED, 3)
    assert "The file must be an image, but it is video/mp4." in (run.reason_detail or "")
    await shoot.check(run)


async def test_no_more_than_the_best_k_go_on_also_where_votes_change_who_is_best(shoot: Shoot) -> None:
    steps = await shoot.steps("base", "fix", max_children=2)
    steps[0] |= {"top_k": 2}
    run = await shoot.run(await shoot.define(steps), target_leaves=4, strategy=Strategy.BREADTH_FIRST)
    while (await shoot.shape(run))[2] < 1:
        await shoot.tick()
        await shoot.work()
        await shoot.room.collector.tick(NOW)
    bases = [row for row in await shoot.candidates(run) if row["position"] == 1]
    begun = next(row for row in bases if row["child_count"])
    for row in bases:
        if row["id"] != begun["id"]:
            await vote(shoot, run, row["id"], begun["id"])
    run = await shoot.finish(run)
    parents = {row["parent_id"] for row in await shoot.candidates(run) if row["position"] == 2}
    assert len(parents) == 2
    assert begun["id"] in parents
    await shoot.check(run)


async def test_of_equals_the_oldest_go_on(shoot: Shoot) -> None:
    steps = await shoot.steps("base", "fix", max_children=1)
    steps[0] |= {"top_k": 2}
    run = await shoot.run(await shoot.define(steps), target_leaves=4, strategy=Strategy.BREADTH_FIRST)
    run = await shoot.finish(run)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.NOTHING_LEFT)
    bases = [row["id"] for row in await shoot.candidates(run)][:4]
    assert {row["parent_id"] for row in (await shoot.candidates(run))[4:]} == set(bases[:2])


@pytest.mark.parametrize("strategy", Strategy)
async def test_a_step_that_was_approved_before_anything_was_made_of_it_holds_nobody_back(
    shoot: Shoot, strategy: Strategy
) -> None:
    steps = await shoot.steps("base", "fix", max_children=1)
    steps[0] |= {"requires_approval": True}
    run = await shoot.run(await shoot.define(steps), target_leaves=2, strategy=strategy)
    await shoot.room.guidance.branches.approve(principal_of(shoot.ann), run.id, "base")
    run = await shoot.finish(run)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)


async def vote(shoot: Shoot, run: Run, winner: UUID, loser: UUID) -> None:
    cast = CastVote(winner_id=winner, loser_id=loser)
    await shoot.room.guidance.votes.vote(principal_of(shoot.ann), run.id, cast)


async def test_a_candidates_seed_is_the_one_its_engine_got(shoot: Shoot) -> None:
    seed = {"key": "seed", "type": "number", "placeholder": "{{seed}}", "default": 1, "limits": {"max": 99}}
    graph = {**BASE, "1": {"class_type": "PaintPicture", "inputs": {"text": "a gym", "seed": "{{seed}}"}}}
    workflow = await shoot.workflow(graph, properties=[{**seed, "user_configurable": True}])
    run = await shoot.run(await shoot.define([{"name": "base", "workflow": workflow}]), target_leaves=1)
    await shoot.tick()
    started = await shoot.start()
    await shoot.deliver(started)
    run = await shoot.finish(run)
    [candidate] = await shoot.candidates(run)
    assert candidate["seed"] == started.payload["workflow"]["1"]["inputs"]["seed"] <= 99


@pytest.mark.parametrize("field", [{"top_k": 1}, {"requires_approval": True}], ids=str)
async def test_a_gate_behind_the_last_step_is_refused(shoot: Shoot, field: dict[str, Any]) -> None:
    steps = await shoot.steps("base", "fix")
    steps[1] |= field
    with pytest.raises(InvalidRequest) as refused:
        await shoot.define(steps)
    [problem] = refused.value.errors
    assert (problem.field, problem.reason) == (
        f"steps.1.{next(iter(field))}",
        "The last step cannot have this option, because no step follows it.",
    )


async def test_breadth_first_replaces_a_branch_that_was_left_alone(shoot: Shoot) -> None:
    pipeline = await shoot.pipeline("base", "fix", max_children=1)
    run = await shoot.run(pipeline, target_leaves=2, strategy=Strategy.BREADTH_FIRST)
    unlucky: list[str] = []

    def fails(started: StartedLease) -> bool:
        """Whatever is made of the first parent that was drawn."""
        files = [asset["file_id"] for asset in started.payload["assets"]]
        unlucky.extend(files[: not unlucky])
        return bool(files) and files == unlucky

    run = await shoot.finish(run, fails)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
    active = Counter(row["position"] for row in await shoot.candidates(run) if row["status"] == "active")
    assert active[2] == 2
    await shoot.check(run)
