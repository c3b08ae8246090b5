"""Limits that a run never exceeds, for any results of its jobs: its N, its top-K, and the budget of the user."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from callsheet.identity.accounts.quotas import Quotas
from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.jobs.machine.transition_requests import JobOutputFile
from callsheet.jobs.submit.active_limits import ActiveLimits
from callsheet.settings import JobSettings, QuotaSettings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import InsufficientStorage, InvalidRequest, WrongState
from callsheet.wire.pipelines.candidates import CastVote
from callsheet.wire.pipelines.pipelines import Run, RunReason, RunStatus, Strategy
from tests.support.jobs.core import Core, Member, open_core, report
from tests.support.media.media_harness import MediaHarness, open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import BASE, NOW, PNG, PipelineHarness, open_pipeline_harness
from tests.support.rooms import jobs_room


@pytest.fixture
async def media(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[MediaHarness]:
    async with open_media_harness(core, ann, tmp_path / "home") as media:
        yield media


@pytest.fixture
def pipelines(core: Core, ann: Member, media: MediaHarness) -> PipelineHarness:
    return open_pipeline_harness(core, ann, media)


async def deliver(pipelines: PipelineHarness, started: StartedLease, *mime_types: str) -> None:
    """Outputs of these types, or none at all."""
    lease, outputs = started.lease, []
    for number, mime_type in enumerate(mime_types):
        extension = mime_type.rpartition("/")[2]
        path = f"tenants/{lease.tenant_id}/ai-jobs/{lease.job_id}/output-{uuid7()}.{extension}"
        await pipelines.media.room.files.storage.put(path, PNG, content_type=mime_type)
        outputs.append(JobOutputFile(uuid7(), "local", path, f"output-{number}.{extension}", mime_type, len(PNG)))
    result = {"outputs": [{"file_id": str(output.file_id)} for output in outputs]}
    await pipelines.core.room.leases.complete(report(started), result, outputs=outputs)


async def test_jobs_of_runs_have_a_limit_of_their_own(core: Core, ann: Member, media: MediaHarness) -> None:
    tight = open_core(core.databases)
    tight.workflow = core.workflow
    tight.room = jobs_room(
        core.databases, JobSettings(), limits=ActiveLimits(jobs=2, tasks=9, typed=9, runs=1, batches=9)
    )
    pipelines = open_pipeline_harness(tight, ann, media, jobs_per_run=9, jobs_in_total=9)
    # Other jobs of the user take nothing of it, however many there are.
    for _ in range(2):
        await tight.submit(ann, workflow_id=await core.add_workflow())
    run = await pipelines.run(await pipelines.pipeline("base", max_children=5), target_leaves=2)
    await pipelines.tick()
    await pipelines.tick()
    blocked = await pipelines.shown(run)
    assert blocked.reason is RunReason.TOO_MANY_ACTIVE_JOBS
    assert "You have 1 active jobs of runs, and the limit is 1 (pipelines.jobs_per_user)" in str(blocked.reason_detail)


async def test_a_run_waits_while_its_user_has_no_room_for_files_and_says_so(
    core: Core, ann: Member, media: MediaHarness
) -> None:
    tight = open_core(core.databases)
    tight.workflow = core.workflow
    quotas = Quotas(core.databases, QuotaSettings(user_storage_files=1))
    tight.room = jobs_room(core.databases, JobSettings(), quotas=quotas)
    pipelines = open_pipeline_harness(tight, ann, media)
    file_id = await media.upload()
    run = await pipelines.run(await pipelines.pipeline("base", max_children=5), target_leaves=2)
    await pipelines.tick()
    blocked = await pipelines.shown(run)
    assert (blocked.status, blocked.reason) == (RunStatus.ACTIVE, RunReason.QUOTA_EXCEEDED)
    assert "the limit is 1 (user_storage_files)" in str(blocked.reason_detail)
    await media.delete_file(file_id)
    await pipelines.due(run)
    await pipelines.tick()
    assert (await pipelines.shown(run)).reason is None


async def test_a_run_waits_while_a_disk_has_too_little_free_space_and_goes_on_later(
    core: Core, ann: Member, media: MediaHarness
) -> None:
    tight, refusals = open_core(core.databases), [InsufficientStorage()]
    tight.workflow = core.workflow

    def require_space() -> None:
        for refusal in refusals:
            raise refusal

    tight.room = jobs_room(core.databases, JobSettings(), require_space=require_space)
    pipelines = open_pipeline_harness(tight, ann, media)
    run = await pipelines.run(await pipelines.pipeline("base", max_children=5), target_leaves=2)
    await pipelines.tick()
    blocked = await pipelines.shown(run)
    assert (blocked.status, blocked.reason) == (RunStatus.ACTIVE, RunReason.INSUFFICIENT_STORAGE)
    assert "too little free disk space" in str(blocked.reason_detail)
    refusals.clear()
    await pipelines.due(run)
    await pipelines.tick()
    assert (await pipelines.shown(run)).reason is None


async def test_no_parent_gets_more_children_than_it_may_however_many_images_a_job_makes(
    core: Core, ann: Member, media: MediaHarness
) -> None:
    pipelines = open_pipeline_harness(
        open_core(core.databases, active_per_user=100), ann, media, jobs_per_run=2, jobs_in_total=2
    )
    run = await pipelines.run(await pipelines.pipeline("base", "fix", max_children=5), target_leaves=1)
    await pipelines.tick()
    await pipelines.deliver(await pipelines.start())
    await pipelines.tick()
    first, second = await pipelines.start(), await pipelines.start()
    await pipelines.deliver(first, images=7)
    await pipelines.room.collector.tick(NOW)
    # One place is kept for the job that is still under way.
    children = (await pipelines.candidates(run))[1:]
    assert Counter(row["status"] for row in children) == {"active": 4, "rejected": 3}
    await pipelines.deliver(second, images=2)
    run = await pipelines.finish(run)
    base, *children = await pipelines.candidates(run)
    assert (base["child_count"], base["in_flight"]) == (5, 0)
    assert [row["status"] for row in children] == ["active"] * 4 + ["rejected"] * 3 + ["active", "rejected"]
    assert run.status is RunStatus.COMPLETED
    await pipelines.check(run)
    shown = await pipelines.room.guidance.gallery.page(principal_of(ann), run.id, limit=100)
    assert Counter(each.rejection for each in shown.items) == {None: 6, "surplus": 4}
    surplus = next(each.id for each in shown.items if each.rejection)
    with pytest.raises(WrongState, match="already has its maximum number of children"):
        await pipelines.room.guidance.branches.restore(principal_of(ann), surplus)


async def test_a_rejected_candidate_shows_why_it_was_rejected(pipelines: PipelineHarness) -> None:
    run = await pipelines.run(await pipelines.pipeline("base", "fix", max_children=1), target_leaves=1)
    run = await pipelines.finish(run)
    base, leaf = await pipelines.candidates(run)
    await pipelines.room.guidance.branches.kill(principal_of(pipelines.ann), base["id"])
    gallery = pipelines.room.guidance.gallery
    shown = [await gallery.get(principal_of(pipelines.ann), row["id"]) for row in (base, leaf)]
    assert [each.rejection for each in shown] == ["killed", "killed_with_ancestor"]


async def test_surplus_images_of_a_killed_parent_are_rejected_as_surplus(pipelines: PipelineHarness) -> None:
    run = await pipelines.run(await pipelines.pipeline("base", "fix", max_children=1), target_leaves=1)
    await pipelines.tick()
    await pipelines.deliver(await pipelines.start())
    await pipelines.tick()
    await pipelines.deliver(await pipelines.start(), images=2)
    [base] = await pipelines.candidates(run)
    await pipelines.room.guidance.branches.kill(principal_of(pipelines.ann), base["id"])
    await pipelines.room.collector.tick(NOW)
    base, late, surplus = await pipelines.candidates(run)
    assert (late["rejected_with"], surplus["rejected_with"], base["child_count"]) == (base["id"], surplus["id"], 1)
    await pipelines.check(run)


@pytest.mark.thorough
async def test_a_third_step_that_always_fails_does_not_spend_the_budget_on_the_first_two(
    pipelines: PipelineHarness,
) -> None:
    steps = await pipelines.steps("base", "fix", "break", max_children=2)
    steps[2]["workflow"] = await pipelines.workflow(
        {"9": {"class_type": "Broken", "inputs": {"image": "{{parent_image_path}}"}}}
    )
    run = await pipelines.run(await pipelines.define(steps), budget=1000)
    run = await pipelines.finish(run, lambda started: started.payload["workflow"]["9"]["class_type"] == "Broken")
    assert (run.status, run.reason) == (RunStatus.PAUSED, RunReason.BRANCHES_FAILED)
    assert await pipelines.shape(run) == {1: 2, 2: 3}
    assert run.spent == 50
    await pipelines.check(run)
    # A user who removes the cause and resumes the run has not paid for the first two in vain.
    await pipelines.room.runs.resume(principal_of(pipelines.ann), run.id)
    run = await pipelines.finish(run)
    assert run.reason is RunReason.TARGET_REACHED
    fixed = [row for row in await pipelines.candidates(run) if row["position"] == 2]
    assert {(row["failure_count"], row["child_count"]) for row in fixed} == {(0, 2)}
    await pipelines.check(run)


async def test_a_job_without_an_image_is_a_strike_and_was_paid_for(pipelines: PipelineHarness) -> None:
    run = await pipelines.run(await pipelines.pipeline("base"), target_leaves=1)
    for _ in range(3):
        await pipelines.tick()
        await deliver(pipelines, await pipelines.start(), "audio/mpeg")
    await pipelines.tick()
    run = await pipelines.shown(run)
    assert (run.status, run.reason, run.candidates) == (RunStatus.PAUSED, RunReason.BASE_FAILED, 0)
    assert (run.spent, await pipelines.core.balance(pipelines.ann)) == (30, 970)
    assert "made no image" in (run.reason_detail or "")


async def test_a_file_that_is_not_an_image_never_becomes_a_parent_and_delays_no_run(pipelines: PipelineHarness) -> None:
    """A job may make a video beside its image; the next step takes images."""
    run = await pipelines.run(await pipelines.pipeline("base", "fix", max_children=1), target_leaves=2)
    await pipelines.tick()
    await deliver(pipelines, await pipelines.start(), "video/mp4", "image/png", "text/plain", "image/png")
    run = await pipelines.finish(run)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
    film, one, two, *leaves = await pipelines.candidates(run)
    assert [row["output_index"] for row in (film, one, two)] == [0, 1, 3]
    assert {row["parent_id"] for row in leaves} == {one["id"], two["id"]}
    await pipelines.check(run)


async def test_a_first_step_that_makes_only_videos_spends_no_budget_on_more(
    pipelines: PipelineHarness,
) -> None:
    run = await pipelines.run(await pipelines.pipeline("base", "fix", max_children=1), target_leaves=2)
    for _ in range(10):
        await pipelines.tick()
        if (started := await pipelines.lease()) is None:
            break
        await deliver(pipelines, started, "video/mp4")
    run = await pipelines.shown(run)
    assert (run.status, run.reason, run.candidates) == (RunStatus.PAUSED, RunReason.BRANCHES_FAILED, 3)
    assert "The file must be an image, but it is video/mp4." in (run.reason_detail or "")
    await pipelines.check(run)


async def test_at_most_top_k_candidates_continue_also_if_votes_change_the_ranking(pipelines: PipelineHarness) -> None:
    steps = await pipelines.steps("base", "fix", max_children=2)
    steps[0] |= {"top_k": 2}
    run = await pipelines.run(await pipelines.define(steps), target_leaves=4, strategy=Strategy.BREADTH_FIRST)
    while (await pipelines.shape(run))[2] < 1:
        await pipelines.tick()
        await pipelines.work()
        await pipelines.room.collector.tick(NOW)
    bases = [row for row in await pipelines.candidates(run) if row["position"] == 1]
    started = next(row for row in bases if row["child_count"])
    for row in bases:
        if row["id"] != started["id"]:
            await vote(pipelines, run, row["id"], started["id"])
    run = await pipelines.finish(run)
    parents = {row["parent_id"] for row in await pipelines.candidates(run) if row["position"] == 2}
    assert len(parents) == 2
    assert started["id"] in parents
    await pipelines.check(run)


async def test_the_oldest_of_equally_rated_candidates_continue(pipelines: PipelineHarness) -> None:
    steps = await pipelines.steps("base", "fix", max_children=1)
    steps[0] |= {"top_k": 2}
    run = await pipelines.run(await pipelines.define(steps), target_leaves=4, strategy=Strategy.BREADTH_FIRST)
    run = await pipelines.finish(run)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.NOTHING_LEFT)
    bases = [row["id"] for row in await pipelines.candidates(run)][:4]
    assert {row["parent_id"] for row in (await pipelines.candidates(run))[4:]} == set(bases[:2])


@pytest.mark.parametrize("strategy", Strategy)
async def test_a_step_approved_before_it_has_candidates_holds_none_of_them_back(
    pipelines: PipelineHarness, strategy: Strategy
) -> None:
    steps = await pipelines.steps("base", "fix", max_children=1)
    steps[0] |= {"requires_approval": True}
    run = await pipelines.run(await pipelines.define(steps), target_leaves=2, strategy=strategy)
    await pipelines.room.guidance.branches.approve(principal_of(pipelines.ann), run.id, "base")
    run = await pipelines.finish(run)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)


async def vote(pipelines: PipelineHarness, run: Run, winner: UUID, loser: UUID) -> None:
    cast = CastVote(winner_id=winner, loser_id=loser)
    await pipelines.room.guidance.votes.vote(principal_of(pipelines.ann), run.id, cast)


async def test_a_candidates_seed_is_the_one_its_engine_got(pipelines: PipelineHarness) -> None:
    seed = {"key": "seed", "type": "number", "placeholder": "{{seed}}", "default": 1, "limits": {"max": 99}}
    graph = {**BASE, "1": {"class_type": "PaintPicture", "inputs": {"text": "a gym", "seed": "{{seed}}"}}}
    workflow = await pipelines.workflow(graph, properties=[{**seed, "user_configurable": True}])
    run = await pipelines.run(await pipelines.define([{"name": "base", "workflow": workflow}]), target_leaves=1)
    await pipelines.tick()
    started = await pipelines.start()
    await pipelines.deliver(started)
    run = await pipelines.finish(run)
    [candidate] = await pipelines.candidates(run)
    assert candidate["seed"] == started.payload["workflow"]["1"]["inputs"]["seed"] <= 99


@pytest.mark.parametrize("field", [{"top_k": 1}, {"requires_approval": True}], ids=str)
async def test_a_gate_behind_the_last_step_is_refused(pipelines: PipelineHarness, field: dict[str, Any]) -> None:
    steps = await pipelines.steps("base", "fix")
    steps[1] |= field
    with pytest.raises(InvalidRequest) as refused:
        await pipelines.define(steps)
    [problem] = refused.value.errors
    assert (problem.field, problem.reason) == (
        f"steps.1.{next(iter(field))}",
        "The last step cannot have this option, because no step follows it.",
    )


async def test_breadth_first_replaces_a_branch_with_too_many_strikes(pipelines: PipelineHarness) -> None:
    pipeline = await pipelines.pipeline("base", "fix", max_children=1)
    run = await pipelines.run(pipeline, target_leaves=2, strategy=Strategy.BREADTH_FIRST)
    unlucky: list[str] = []

    def fails(started: StartedLease) -> bool:
        """Whatever is made of the first parent that was drawn."""
        files = [asset["file_id"] for asset in started.payload["assets"]]
        unlucky.extend(files[: not unlucky])
        return bool(files) and files == unlucky

    run = await pipelines.finish(run, fails)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
    active = Counter(row["position"] for row in await pipelines.candidates(run) if row["status"] == "active")
    assert active[2] == 2
    await pipelines.check(run)
