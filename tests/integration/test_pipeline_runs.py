"""Runs that go on by themselves: the tree that was asked for, exactly, and a reason where they cannot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from callsheet.jobs.lease.progress import ProgressReport
from callsheet.pipelines.rows import ClaimedRun
from callsheet.pipelines.run.unwritten_results import FIRST_SECONDS
from callsheet.wire.errors import InvalidRequest, WrongState
from callsheet.wire.job_errors import UNKNOWN
from callsheet.wire.pipelines.pipelines import (
    NewStep,
    Run,
    RunFilter,
    RunReason,
    RunStatus,
    Strategy,
    UpdatePipeline,
    UpdateRun,
)
from tests.support.database.room_statements import statements_of_room
from tests.support.jobs.core import Core, Member, Row, open_core
from tests.support.media.media_harness import MediaHarness, open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import FIX, NOW, PipelineHarness, open_pipeline_harness

PIPELINES = statements_of_room("pipelines")

FOUR = ("base", "face fix", "hand fix", "upscale")


@pytest.fixture
async def media(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[MediaHarness]:
    async with open_media_harness(core, ann, tmp_path / "home") as media:
        yield media


@pytest.fixture
def pipelines(core: Core, ann: Member, media: MediaHarness) -> PipelineHarness:
    return open_pipeline_harness(core, ann, media)


@pytest.mark.parametrize("at_once", [1, 3])
async def test_a_run_of_four_steps_reaches_its_leaves_without_intervention(
    core: Core, ann: Member, media: MediaHarness, at_once: int
) -> None:
    pipelines = open_pipeline_harness(core, ann, media, jobs_per_run=at_once, jobs_in_total=at_once)
    run = await pipelines.run(await pipelines.pipeline(*FOUR, max_children=1), target_leaves=4)
    run = await pipelines.finish(run)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
    assert await pipelines.shape(run) == {1: 4, 2: 4, 3: 4, 4: 4}
    assert (run.spent, await core.balance(ann)) == (160, 840)
    await pipelines.check(run)


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", Strategy)
async def test_every_parent_gets_exactly_its_maximum_of_children(
    pipelines: PipelineHarness, strategy: Strategy
) -> None:
    run = await pipelines.run(
        await pipelines.pipeline("one", "two", "three"), max_children=2, target_leaves=2, strategy=strategy
    )
    run = await pipelines.finish(run)
    bases = 1 if strategy is Strategy.FINISH_FIRST else 2
    assert await pipelines.shape(run) == {1: bases, 2: 2 * bases, 3: 4 * bases}
    assert {row["child_count"] for row in await pipelines.candidates(run) if row["position"] < 3} == {2}
    await pipelines.check(run)


@pytest.mark.thorough
async def test_the_same_seed_makes_the_same_tree_if_one_job_runs_at_a_time(pipelines: PipelineHarness) -> None:
    pipeline = await pipelines.pipeline("one", "two", "three", max_children=3)
    runs = [await pipelines.run(pipeline, seed=seed, target_leaves=5) for seed in (7, 7, 8)]
    for run in runs:
        await pipelines.finish(run)
    one, two, other = [await pipelines.family(run) for run in runs]
    assert one == two
    assert one != other


async def test_a_job_gets_the_prompt_of_the_run_the_image_of_its_parent_and_a_seed_of_its_own(
    pipelines: PipelineHarness,
) -> None:
    run = await pipelines.run(
        await pipelines.pipeline("base", "fix", max_children=1), target_leaves=1, prompt='a "gym"'
    )
    await pipelines.tick()
    base = await pipelines.start()
    [slot] = await pipelines.slots(run)
    assert base.payload["workflow"]["1"]["inputs"] == {"text": 'a "gym"', "seed": slot["seed"]}
    await pipelines.deliver(base)
    await pipelines.tick()
    fix = await pipelines.start()
    [candidate] = await pipelines.candidates(run)
    [asset] = fix.payload["assets"]
    assert (asset["placeholder"], asset["is_primary_input"]) == ("{{parent_image_path}}", True)
    assert asset["path"].startswith(
        f"tenants/{pipelines.ann.tenant_id}/runs/{run.target_folder}/base/{candidate['id']}_"
    )
    assert asset["file_id"] == str(candidate["file_id"])
    assert fix.payload["workflow"]["1"]["inputs"]["image"] == "{{parent_image_path}}"
    job = await pipelines.core.job(pipelines.ann, fix.lease.job_id)
    assert (job["run_id"], job["parent_candidate_id"]) == (run.id, candidate["id"])
    assert job["input_file_ids"] == [candidate["file_id"]]


async def test_the_image_of_a_job_is_moved_to_the_folder_of_the_run(
    pipelines: PipelineHarness,
) -> None:
    run = await pipelines.finish(
        await pipelines.run(await pipelines.pipeline("Ba se!"), target_leaves=1, target_folder="gym")
    )
    [candidate] = await pipelines.candidates(run)
    made = candidate["created_at"].strftime("%Y%m%d")
    [path] = [path for path in await pipelines.media.paths() if "/runs/" in path]
    folder = f"tenants/{pipelines.ann.tenant_id}/runs/gym/ba-se"
    assert path.startswith(f"{folder}/{candidate['id']}_{made}")
    assert path.endswith(".png")
    await pipelines.media.sweep()
    assert await pipelines.media.paths() == {path}
    [file] = await pipelines.media.room.files.views(pipelines.ann.pool, pipelines.ann.tenant_id, [candidate["file_id"]])
    assert file.url is not None


async def test_a_job_that_made_several_images_makes_a_candidate_of_each(pipelines: PipelineHarness) -> None:
    run = await pipelines.run(await pipelines.pipeline("base", "fix", max_children=3), target_leaves=3)
    await pipelines.tick()
    await pipelines.deliver(await pipelines.start(), images=3)
    await pipelines.tick()
    assert [row["output_index"] for row in await pipelines.candidates(run)] == [0, 1, 2]
    await pipelines.deliver(await pipelines.start(), images=2)
    run = await pipelines.finish(run)
    await pipelines.check(run)
    assert {row["seed"] for row in (await pipelines.candidates(run))[:3]} == {(await pipelines.slots(run))[0]["seed"]}


async def test_a_branch_with_three_strikes_gets_no_more_jobs(pipelines: PipelineHarness) -> None:
    pipeline = await pipelines.pipeline("base", "fix", max_children=1)
    run = await pipelines.run(pipeline, target_leaves=2)
    await pipelines.tick()
    await pipelines.deliver(await pipelines.start())
    [base] = await _after_tick(pipelines, run)
    for strike in (1, 2, 3):
        await pipelines.core.fail(await pipelines.start())
        await pipelines.tick()
        assert (await pipelines.candidates(run))[0]["failure_count"] == strike
    run = await pipelines.finish(run)
    left = (await pipelines.candidates(run))[0]
    assert (left["id"], left["child_count"], left["status"]) == (base["id"], 0, "active")
    assert (run.status, await pipelines.shape(run)) == (RunStatus.COMPLETED, {1: 3, 2: 2})
    await pipelines.check(run)


async def test_the_number_of_strikes_is_a_setting_that_applies_to_new_runs(
    core: Core, ann: Member, media: MediaHarness
) -> None:
    pipelines = open_pipeline_harness(core, ann, media, strikes=1)
    pipeline = await pipelines.pipeline("base", "fix", max_children=1)
    run = await pipelines.run(pipeline, target_leaves=2)
    await pipelines.tick()
    await pipelines.deliver(await pipelines.start())
    await pipelines.tick()
    # Another control plane with another setting goes by what the run started with.
    pipelines = replace(pipelines, room=open_pipeline_harness(core, ann, media, strikes=5).room)
    await pipelines.core.fail(await pipelines.start())
    await pipelines.tick()
    [base] = await pipelines.candidates(run)
    assert (base["failure_count"], base["strikes"]) == (1, 1)
    stopped = await pipelines.shown(run)
    assert stopped.reason is RunReason.BRANCHES_FAILED
    assert "given up without a child: 1." in stopped.reason_detail


async def test_metrics_count_a_job_without_an_image_as_failed(pipelines: PipelineHarness) -> None:
    """A job that was completed without an image has failed."""
    registry = CollectorRegistry()
    for metric in pipelines.room.metrics:
        registry.register(metric)
    run = await pipelines.run(await pipelines.pipeline("base"), target_leaves=2)
    for images in (1, 0):
        await pipelines.tick()
        await pipelines.deliver(await pipelines.start(), images)
    await pipelines.tick()
    await pipelines.core.fail(await pipelines.start())
    await pipelines.tick()
    counted = {
        status: registry.get_sample_value("callsheet_pipeline_jobs_total", {"status": status})
        for status in ("completed", "failed", "canceled")
    }
    assert counted == {"completed": 1, "failed": 2, "canceled": None}
    assert (await pipelines.shown(run)).candidates == 1


async def _after_tick(pipelines: PipelineHarness, run: Run) -> list[Row]:
    await pipelines.tick()
    return await pipelines.candidates(run)


async def test_a_first_step_that_always_fails_stops_the_run_with_a_reason_and_costs_nothing(
    pipelines: PipelineHarness,
) -> None:
    run = await pipelines.finish(await pipelines.run(await pipelines.pipeline("base")), lambda _: True)
    assert (run.status, run.reason) == (RunStatus.PAUSED, RunReason.BASE_FAILED)
    assert run.reason_detail is not None
    assert UNKNOWN in run.reason_detail
    assert (run.draws, run.spent, await pipelines.core.balance(pipelines.ann)) == (3, 0, 1000)
    run = await pipelines.room.runs.resume(principal_of(pipelines.ann), run.id)
    assert (run.status, run.reason) == (RunStatus.ACTIVE, None)
    run = await pipelines.finish(run)
    assert run.status is RunStatus.COMPLETED
    await pipelines.check(run)


async def test_a_later_step_that_always_fails_does_not_spend_the_budget_on_bases(pipelines: PipelineHarness) -> None:
    run = await pipelines.run(await pipelines.pipeline("base", "fix"))
    run = await pipelines.finish(run, lambda started: bool(started.payload["assets"]))
    assert (run.status, run.reason) == (RunStatus.PAUSED, RunReason.BRANCHES_FAILED)
    assert await pipelines.shape(run) == {1: 3}
    await pipelines.check(run)


async def test_a_run_stops_at_its_budget_and_continues_when_the_budget_is_raised(pipelines: PipelineHarness) -> None:
    run = await pipelines.finish(await pipelines.run(await pipelines.pipeline("base"), target_leaves=5, budget=35))
    assert (run.status, run.reason, run.spent) == (RunStatus.ACTIVE, RunReason.BUDGET_SPENT, 30)
    with pytest.raises(InvalidRequest, match="already spent 30"):
        await pipelines.room.runs.update(principal_of(pipelines.ann), run.id, UpdateRun(budget=29))
    run = await pipelines.room.runs.update(principal_of(pipelines.ann), run.id, UpdateRun(budget=50))
    run = await pipelines.finish(run)
    assert (run.status, run.spent) == (RunStatus.COMPLETED, 50)
    await pipelines.check(run)


@pytest.mark.parametrize("strategy", Strategy)
async def test_a_completed_run_makes_more_leaves_when_its_number_is_raised(
    pipelines: PipelineHarness, strategy: Strategy
) -> None:
    pipeline = await pipelines.pipeline("one", "two", max_children=1)
    run = await pipelines.finish(await pipelines.run(pipeline, target_leaves=2, strategy=strategy, budget=200))
    assert (run.status, run.reason, run.leaves) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED, 2)
    runs, owner = pipelines.room.runs, principal_of(pipelines.ann)
    # The same number again, or another name, starts nothing.
    for request in (UpdateRun(target_leaves=2), UpdateRun(name="Other")):
        assert (await runs.update(owner, run.id, request)).status is RunStatus.COMPLETED
    raised = await runs.update(owner, run.id, UpdateRun(target_leaves=3))
    assert (raised.status, raised.reason, raised.target_leaves, raised.ended_at) == (RunStatus.ACTIVE, None, 3, None)
    run = await pipelines.finish(raised)
    assert (run.status, run.reason, run.leaves) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED, 3)
    assert (await pipelines.shape(run), run.spent) == ({1: 3, 2: 3}, 60)
    await pipelines.check(run)


async def test_a_run_without_tokens_shows_the_reason_and_continues_after_a_credit(
    pipelines: PipelineHarness,
) -> None:
    poor = await pipelines.core.member("pool_1", tokens=15)
    other = open_pipeline_harness(pipelines.core, poor, pipelines.media)
    run = await other.finish(await other.run(await other.pipeline("base"), target_leaves=2))
    assert (run.status, run.reason) == (RunStatus.ACTIVE, RunReason.INSUFFICIENT_TOKENS)
    await other.core.credit(poor, 100)
    await other.due(run)
    assert (await other.finish(run)).status is RunStatus.COMPLETED


async def test_a_run_with_a_disabled_workflow_waits_and_shows_the_reason(pipelines: PipelineHarness) -> None:
    steps = await pipelines.steps("base")
    run = await pipelines.run(await pipelines.define(steps), target_leaves=1)
    central = pipelines.core.databases.central
    await pipelines.core.rows(central, "UPDATE workflows SET is_active = false WHERE slug = $1", steps[0]["workflow"])
    run = await pipelines.finish(run)
    assert (run.status, run.reason) == (RunStatus.ACTIVE, RunReason.CANNOT_BUILD)
    assert run.reason_detail is not None
    assert "'base'" in run.reason_detail
    await pipelines.core.rows(central, "UPDATE workflows SET is_active = true WHERE slug = $1", steps[0]["workflow"])
    await pipelines.due(run)
    assert (await pipelines.finish(run)).status is RunStatus.COMPLETED


async def test_a_parent_without_its_image_gets_no_children(pipelines: PipelineHarness) -> None:
    run = await pipelines.run(await pipelines.pipeline("base", "fix", max_children=1), target_leaves=1)
    await pipelines.tick()
    await pipelines.deliver(await pipelines.start())
    await pipelines.room.collector.tick(NOW)
    [base] = await pipelines.candidates(run)
    await pipelines.media.delete_file(base["file_id"])
    run = await pipelines.finish(run)
    assert (run.status, await pipelines.shape(run)) == (RunStatus.COMPLETED, {1: 2, 2: 1})
    assert (await pipelines.candidates(run))[0]["child_count"] == 0


async def test_a_paused_run_starts_no_job_and_keeps_the_results_of_jobs_in_flight(pipelines: PipelineHarness) -> None:
    run = await pipelines.run(await pipelines.pipeline("base"), target_leaves=2)
    await pipelines.tick()
    run = await pipelines.room.runs.pause(principal_of(pipelines.ann), run.id)
    run = await pipelines.finish(run)
    assert (run.status, run.reason, run.candidates, run.draws) == (RunStatus.PAUSED, RunReason.BY_USER, 1, 1)
    await pipelines.room.runs.resume(principal_of(pipelines.ann), run.id)
    run = await pipelines.finish(run)
    assert (run.status, run.candidates) == (RunStatus.COMPLETED, 2)
    await pipelines.check(run)


async def test_canceling_a_run_refunds_its_jobs_in_flight(pipelines: PipelineHarness) -> None:
    run = await pipelines.run(await pipelines.pipeline("base"), target_leaves=2)
    await pipelines.tick()
    run = await pipelines.room.runs.cancel(principal_of(pipelines.ann), run.id)
    assert await pipelines.core.balance(pipelines.ann) == 1000
    run = await pipelines.finish(run)
    assert (run.status, run.spent, run.candidates, run.draws) == (RunStatus.CANCELED, 0, 0, 1)
    await pipelines.check(run)


async def test_tokens_that_a_canceled_job_of_a_run_kept_stay_spent(pipelines: PipelineHarness) -> None:
    """A budget is what the user is ready to pay, and these tokens are paid."""
    core, pipeline = pipelines.core, await pipelines.pipeline("base")
    async with core.databases.central.connection() as connection:
        await connection.execute("UPDATE workflows SET refund_on_cancel = 'unspent'")
    run = await pipelines.run(pipeline, target_leaves=2)
    await pipelines.tick()
    lease = (await pipelines.start()).lease
    progress = ProgressReport(percent=70.0)
    await core.room.progress.record(lease.cycle, lease.lease_seq, progress)
    run = await pipelines.room.runs.cancel(principal_of(pipelines.ann), run.id)
    assert await core.balance(pipelines.ann) == 993
    run = await pipelines.finish(run)
    assert (run.status, run.spent, run.candidates) == (RunStatus.CANCELED, 7, 0)
    await pipelines.check(run)


async def test_a_failed_job_of_a_run_is_not_retried_by_hand(pipelines: PipelineHarness) -> None:
    run = await pipelines.run(await pipelines.pipeline("base"))
    await pipelines.tick()
    started = await pipelines.start()
    await pipelines.core.fail(started)
    with pytest.raises(WrongState, match=f"replaces a failed job by itself.*POST /api/runs/{run.id}/resume"):
        await pipelines.core.room.retries.retry(pipelines.ann.tenant_id, started.lease.job_id, actor="user")


async def test_a_result_that_cannot_be_stored_delays_no_other(
    pipelines: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await pipelines.core.member("pool_1")
    runs = []
    for ann in (pipelines.ann, other):
        of_one = open_pipeline_harness(pipelines.core, ann, pipelines.media, jobs_in_total=2)
        runs.append((of_one, await of_one.run(await of_one.pipeline("base"), target_leaves=1)))
        await of_one.room.scheduler.tick(NOW)
    await pipelines.work()
    storage = pipelines.media.room.files.storage
    copy = storage.copy

    async def broken(source: str, target: str) -> object:
        if str(pipelines.ann.tenant_id) in source:
            raise RuntimeError("nobody thought of this")
        return await copy(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(storage, "copy", broken)
        await pipelines.room.collector.tick(NOW)
    assert [len(await of_one.candidates(run)) for of_one, run in runs] == [0, 1]
    await pipelines.room.collector.tick(NOW + timedelta(seconds=FIRST_SECONDS))
    assert [len(await of_one.candidates(run)) for of_one, run in runs] == [1, 1]


async def test_active_runs_take_turns(core: Core, ann: Member, media: MediaHarness) -> None:
    pipelines = open_pipeline_harness(core, ann, media, jobs_in_total=1)
    pipeline = await pipelines.pipeline("base")
    runs = [await pipelines.run(pipeline, target_leaves=3) for _ in range(3)]
    for turn in (1, 2, 3):
        for _ in runs:
            await pipelines.tick()
            assert await pipelines.work() == 1
        await pipelines.room.collector.tick(NOW)
        assert [(await pipelines.shown(run)).candidates for run in runs] == [turn] * 3


async def test_the_number_of_jobs_in_flight_is_limited_in_total_and_per_run(
    core: Core, ann: Member, media: MediaHarness
) -> None:
    generous = open_core(core.databases, active_per_user=100)
    pipelines = open_pipeline_harness(generous, ann, media, jobs_per_run=2, jobs_in_total=3)
    pipeline = await pipelines.pipeline("base")
    runs = [await pipelines.run(pipeline, target_leaves=9) for _ in range(3)]
    await pipelines.tick()
    assert sorted([len(await pipelines.slots(run)) for run in runs]) == [1, 1, 1]
    only = await pipelines.run(pipeline, target_leaves=9, concurrency=2)
    for run in runs:
        await pipelines.room.runs.cancel(principal_of(ann), run.id)
    await pipelines.tick()
    assert len(await pipelines.slots(only)) == 2


async def test_runs_of_a_tenant_at_its_limit_show_the_reason_and_delay_no_other_tenant(
    core: Core, ann: Member, media: MediaHarness
) -> None:
    generous = open_core(core.databases, active_per_user=100)
    pipelines = open_pipeline_harness(generous, ann, media, jobs_in_total=2)
    bob = await core.member(ann.pool.name)
    pipeline = await pipelines.pipeline("base")
    runs = [await pipelines.run(pipeline, target_leaves=9) for _ in range(4)]
    of_bob = open_pipeline_harness(generous, bob, media, jobs_in_total=2)
    served = await of_bob.run(await of_bob.pipeline("base"), target_leaves=9)
    await pipelines.tick()
    assert [len(await pipelines.slots(run)) for run in runs] == [1, 1, 0, 0]
    assert len(await of_bob.slots(served)) == 1
    shown = [await pipelines.shown(run) for run in runs]
    at_limit = RunReason.TENANT_AT_LIMIT
    assert [run.reason for run in shown] == [None, None, at_limit, at_limit]
    assert "have 2 active jobs, and the limit is 2 (pipelines.jobs_in_total)" in str(shown[2].reason_detail)
    listed = (await pipelines.room.runs.shown.list(principal_of(ann), None, RunFilter(), None, 10)).items
    assert [run.reason for run in listed] == [at_limit, at_limit, None, None]
    assert (await of_bob.shown(served)).reason is None

    # Who waits comes before who has just had a turn.
    await pipelines.deliver(await pipelines.start())
    await pipelines.tick()
    assert [len(await pipelines.slots(run)) for run in runs] == [1, 1, 1, 0]
    assert [(await pipelines.shown(run)).reason for run in runs] == [at_limit, None, None, at_limit]


async def test_a_run_gives_work_to_several_workers_by_default(core: Core, ann: Member, media: MediaHarness) -> None:
    pipelines = open_pipeline_harness(open_core(core.databases, active_per_user=100), ann, media)
    pipeline = await pipelines.pipeline("base")
    runs = [await pipelines.run(pipeline, target_leaves=9) for _ in range(5)]
    await pipelines.tick()
    assert [len(await pipelines.slots(run)) for run in runs] == [1] * 5


async def test_breadth_first_fills_a_step_waits_for_approval_and_continues_with_the_best(
    pipelines: PipelineHarness,
) -> None:
    steps = await pipelines.steps("base", "fix", max_children=2)
    steps[0] |= {"top_k": 1, "requires_approval": True}
    run = await pipelines.run(await pipelines.define(steps), target_leaves=3, strategy=Strategy.BREADTH_FIRST)
    run = await pipelines.finish(run)
    assert (run.status, run.reason) == (RunStatus.ACTIVE, RunReason.APPROVAL_NEEDED)
    assert await pipelines.shape(run) == {1: 3}
    best = (await pipelines.candidates(run))[1]
    await pipelines.core.rows(pipelines.ann.pool, "UPDATE candidates SET elo = 1100 WHERE id = $1", best["id"])
    await pipelines.room.guidance.branches.approve(principal_of(pipelines.ann), run.id, "base")
    run = await pipelines.finish(run)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.NOTHING_LEFT)
    assert {row["parent_id"] for row in (await pipelines.candidates(run))[3:]} == {best["id"]}
    assert await pipelines.shape(run) == {1: 3, 2: 2}
    await pipelines.check(run)


async def test_a_child_whose_parent_was_killed_meanwhile_is_rejected(
    pipelines: PipelineHarness,
) -> None:
    run = await pipelines.run(await pipelines.pipeline("base", "fix", max_children=1), target_leaves=1)
    await pipelines.tick()
    await pipelines.deliver(await pipelines.start())
    await pipelines.tick()
    await pipelines.deliver(await pipelines.start())
    [base] = await pipelines.candidates(run)
    await pipelines.room.guidance.branches.kill(principal_of(pipelines.ann), base["id"])
    run = await pipelines.finish(run)
    assert [row["status"] for row in await pipelines.candidates(run)] == ["rejected", "rejected", "active", "active"]
    assert run.status is RunStatus.COMPLETED
    await pipelines.check(run)


async def test_a_run_follows_its_own_version_of_the_steps(pipelines: PipelineHarness) -> None:
    steps = await pipelines.steps("base", "fix", max_children=1)
    pipeline = await pipelines.define(steps)
    run = await pipelines.run(pipeline, target_leaves=1)
    changed = UpdatePipeline(steps=[NewStep.model_validate(steps[0])])
    later = await pipelines.room.pipelines.update(principal_of(pipelines.ann), pipeline.slug, changed)
    assert (later.version, len(later.steps)) == (2, 1)
    same = await pipelines.room.pipelines.update(principal_of(pipelines.ann), pipeline.slug, changed)
    assert same.version == 2
    assert await pipelines.shape(await pipelines.finish(run)) == {1: 1, 2: 1}


async def test_variables_fill_the_placeholders_they_name_with_their_type(pipelines: PipelineHarness) -> None:
    graph = {**FIX, "1": {"class_type": "PaintPicture", "inputs": {"text": "in {{style}}", "cfg": "{{strength}}"}}}
    steps = [{"name": "base", "workflow": await pipelines.workflow(graph), "needs_run_variables": True}]
    run = await pipelines.run(
        await pipelines.define(steps), variables={"style": 'no"ir', "strength": 7.5}, target_leaves=1
    )
    await pipelines.tick()
    inputs = (await pipelines.start()).payload["workflow"]["1"]["inputs"]
    assert inputs == {"text": 'in no"ir', "cfg": 7.5}
    [slot] = await pipelines.slots(run)
    assert slot["lineage"]["variables"] == {"style": 'no"ir', "strength": 7.5}


async def is_left_alone(pipelines: PipelineHarness, run: Run) -> bool:
    query = "SELECT due_at > clock_timestamp() + interval '30 minutes' AS so FROM pipeline_runs WHERE id = $1"
    [row] = await pipelines.core.rows(pipelines.ann.pool, query, run.id)
    return bool(row["so"])


async def test_a_run_that_waits_for_its_job_is_not_examined_until_the_job_ends(
    core: Core, ann: Member, media: MediaHarness
) -> None:
    pipelines = open_pipeline_harness(core, ann, media, jobs_in_total=2)
    run = await pipelines.run(await pipelines.pipeline("one", "two", max_children=1), target_leaves=1)
    await pipelines.tick()
    assert not await is_left_alone(pipelines, run)
    await pipelines.due(run)
    await pipelines.room.scheduler.tick(NOW)
    assert await is_left_alone(pipelines, run)
    assert await pipelines.work() == 1
    await pipelines.room.collector.tick(NOW)
    assert not await is_left_alone(pipelines, run)
    await pipelines.room.scheduler.tick(NOW)
    assert len(await pipelines.slots(run)) == 2
    assert (await pipelines.finish(run)).reason is RunReason.TARGET_REACHED


async def test_a_run_whose_job_ended_during_its_tick_is_examined_again(pipelines: PipelineHarness) -> None:
    run = await pipelines.run(await pipelines.pipeline("one", "two", max_children=1), target_leaves=1)
    await pipelines.tick()
    await pipelines.due(run)
    async with pipelines.ann.pool.connection() as connection:
        claimed = await PIPELINES["claim_run"].row(connection, ClaimedRun, later_seconds=10, full=[])
        assert claimed is not None
        await pipelines.work()
        await pipelines.room.collector.tick(NOW)
        key = {"tenant_id": claimed.tenant_id, "id": claimed.id, "due_at": claimed.due_at}
        assert await PIPELINES["leave_run"].run(connection, **key, later_seconds=3600) == 0
    assert (await pipelines.finish(run)).reason is RunReason.TARGET_REACHED


async def test_a_run_that_waits_for_an_approval_is_not_examined_until_then(pipelines: PipelineHarness) -> None:
    steps = await pipelines.steps("one", "two", max_children=1)
    steps[0] |= {"requires_approval": True, "name": "Erster Entwurf"}
    run = await pipelines.finish(await pipelines.run(await pipelines.define(steps), target_leaves=1))
    assert run.reason is RunReason.APPROVAL_NEEDED
    # The slug of a step is derived from its name: people know the name.
    assert run.reason_detail == "The step 'Erster Entwurf' waits for an approval."
    assert await is_left_alone(pipelines, run)
    await pipelines.room.guidance.branches.approve(principal_of(pipelines.ann), run.id, "erster-entwurf")
    assert (await pipelines.finish(run)).reason is RunReason.TARGET_REACHED


async def test_a_base_accepted_during_a_tick_of_its_run_is_not_made_again(pipelines: PipelineHarness) -> None:
    pipeline = await pipelines.pipeline("one", "two", max_children=1)
    run = await pipelines.run(pipeline, target_leaves=1, strategy=Strategy.BREADTH_FIRST)
    await pipelines.tick()
    await pipelines.due(run)
    async with pipelines.ann.pool.connection() as connection:
        claimed = await PIPELINES["claim_run"].row(connection, ClaimedRun, later_seconds=10, full=[])
    assert claimed is not None
    await pipelines.work()
    await pipelines.room.collector.tick(NOW)
    await pipelines.room.scheduler.advance(pipelines.ann.pool, claimed)
    assert [slot["position"] for slot in await pipelines.slots(run)] == [1, 2]
    await pipelines.check(run)
