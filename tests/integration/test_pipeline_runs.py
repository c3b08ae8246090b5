"""Runs that go on by themselves: the tree that was asked for, exactly, and a reason where they cannot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from callsheet.jobs.progress import ProgressReport
from callsheet.pipelines.director import SQL as LOOP
from callsheet.pipelines.room import open_pipelines
from callsheet.pipelines.rows import ClaimedRun
from callsheet.pipelines.troubles import FIRST_SECONDS
from callsheet.wire.errors import InvalidRequest, WrongState
from callsheet.wire.pipelines import NewStep, Run, RunReason, RunStatus, Strategy, UpdatePipeline, UpdateRun
from tests.support.core import Core, Member, Row, open_core
from tests.support.shoot import FIX, NOW, Shoot, open_shoot
from tests.support.stage import Stage, open_stage, principal_of

FOUR = ("base", "face fix", "hand fix", "upscale")


@pytest.fixture
async def stage(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage(core, ann, tmp_path / "home") as stage:
        yield stage


@pytest.fixture
def shoot(core: Core, ann: Member, stage: Stage) -> Shoot:
    return open_shoot(core, ann, stage)


@pytest.mark.parametrize("at_once", [1, 3])
async def test_a_run_of_four_steps_goes_on_to_its_leaves_by_itself(
    core: Core, ann: Member, stage: Stage, at_once: int
) -> None:
    shoot = open_shoot(core, ann, stage, jobs_per_run=at_once, jobs_in_total=at_once)
    run = await shoot.run(await shoot.pipeline(*FOUR, max_children=1), target_leaves=4)
    run = await shoot.finish(run)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
    assert await shoot.shape(run) == {1: 4, 2: 4, 3: 4, 4: 4}
    assert (run.spent, await core.balance(ann)) == (160, 840)
    await shoot.check(run)


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", Strategy)
async def test_every_parent_has_as_many_children_as_it_may_and_none_has_more(shoot: Shoot, strategy: Strategy) -> None:
    run = await shoot.run(
        await shoot.pipeline("one", "two", "three"), max_children=2, target_leaves=2, strategy=strategy
    )
    run = await shoot.finish(run)
    bases = 1 if strategy is Strategy.FINISH_FIRST else 2
    assert await shoot.shape(run) == {1: bases, 2: 2 * bases, 3: 4 * bases}
    assert {row["child_count"] for row in await shoot.candidates(run) if row["position"] < 3} == {2}
    await shoot.check(run)


@pytest.mark.thorough
async def test_at_one_job_at_a_time_the_same_seed_makes_the_same_tree(shoot: Shoot) -> None:
    pipeline = await shoot.pipeline("one", "two", "three", max_children=3)
    runs = [await shoot.run(pipeline, seed=seed, target_leaves=5) for seed in (7, 7, 8)]
    for run in runs:
        await shoot.finish(run)
    one, two, other = [await shoot.family(run) for run in runs]
    assert one == two
    assert one != other


async def test_what_a_job_gets_is_the_runs_prompt_its_parents_picture_and_a_seed_of_its_own(shoot: Shoot) -> None:
    run = await shoot.run(await shoot.pipeline("base", "fix", max_children=1), target_leaves=1, prompt='a "gym"')
    await shoot.tick()
    base = await shoot.start()
    [slot] = await shoot.slots(run)
    assert base.payload["workflow"]["1"]["inputs"] == {"text": 'a "gym"', "seed": slot["seed"]}
    await shoot.deliver(base)
    await shoot.tick()
    fix = await shoot.start()
    [candidate] = await shoot.candidates(run)
    [asset] = fix.payload["assets"]
    assert (asset["placeholder"], asset["is_primary_input"]) == ("{{parent_image_path}}", True)
    assert asset["path"].startswith(f"tenants/{shoot.ann.tenant_id}/runs/{run.target_folder}/base/{candidate['id']}_")
    assert asset["file_id"] == str(candidate["file_id"])
    assert fix.payload["workflow"]["1"]["inputs"]["image"] == "{{parent_image_path}}"
    job = await shoot.core.job(shoot.ann, fix.lease.job_id)
    assert (job["run_id"], job["parent_candidate_id"]) == (run.id, candidate["id"])
    assert job["input_file_ids"] == [candidate["file_id"]]


async def test_a_jobs_picture_moves_to_the_runs_folder_and_nothing_is_left_where_it_was(shoot: Shoot) -> None:
    run = await shoot.finish(await shoot.run(await shoot.pipeline("Ba se!"), target_leaves=1, target_folder="gym"))
    [candidate] = await shoot.candidates(run)
    made = candidate["created_at"].strftime("%Y%m%d")
    [path] = [path for path in await shoot.stage.paths() if "/runs/" in path]
    folder = f"tenants/{shoot.ann.tenant_id}/runs/gym/ba-se"
    assert path.startswith(f"{folder}/{candidate['id']}_{made}")
    assert path.endswith(".png")
    await shoot.stage.sweep()
    assert await shoot.stage.paths() == {path}
    [file] = await shoot.stage.room.files.views(shoot.ann.pool, shoot.ann.tenant_id, [candidate["file_id"]])
    assert file.url is not None


async def test_a_job_that_made_several_pictures_makes_a_candidate_of_each(shoot: Shoot) -> None:
    run = await shoot.run(await shoot.pipeline("base", "fix", max_children=3), target_leaves=3)
    await shoot.tick()
    await shoot.deliver(await shoot.start(), pictures=3)
    await shoot.tick()
    assert [row["output_index"] for row in await shoot.candidates(run)] == [0, 1, 2]
    await shoot.deliver(await shoot.start(), pictures=2)
    run = await shoot.finish(run)
    await shoot.check(run)
    assert {row["seed"] for row in (await shoot.candidates(run))[:3]} == {(await shoot.slots(run))[0]["seed"]}


async def test_three_strikes_and_the_branch_is_left_alone(shoot: Shoot) -> None:
    pipeline = await shoot.pipeline("base", "fix", max_children=1)
    run = await shoot.run(pipeline, target_leaves=2)
    await shoot.tick()
    await shoot.deliver(await shoot.start())
    [base] = await _after_tick(shoot, run)
    for strike in (1, 2, 3):
        await shoot.core.fail(await shoot.start())
        await shoot.tick()
        assert (await shoot.candidates(run))[0]["failure_count"] == strike
    run = await shoot.finish(run)
    left = (await shoot.candidates(run))[0]
    assert (left["id"], left["child_count"], left["status"]) == (base["id"], 0, "active")
    assert (run.status, await shoot.shape(run)) == (RunStatus.COMPLETED, {1: 3, 2: 2})
    await shoot.check(run)


async def test_how_many_strikes_is_a_setting_of_the_runs_that_begin_with_it(
    core: Core, ann: Member, stage: Stage
) -> None:
    shoot = open_shoot(core, ann, stage, strikes=1)
    pipeline = await shoot.pipeline("base", "fix", max_children=1)
    run = await shoot.run(pipeline, target_leaves=2)
    await shoot.tick()
    await shoot.deliver(await shoot.start())
    await shoot.tick()
    # Another control plane with another setting goes by what the run began with.
    shoot = replace(shoot, room=open_shoot(core, ann, stage, strikes=5).room)
    await shoot.core.fail(await shoot.start())
    await shoot.tick()
    [base] = await shoot.candidates(run)
    assert (base["failure_count"], base["strikes"]) == (1, 1)
    stopped = await shoot.shown(run)
    assert stopped.reason is RunReason.BRANCHES_FAILED
    assert "left alone without a child: 1." in stopped.reason_detail


async def test_metrics_count_a_job_as_what_it_is_to_its_run(shoot: Shoot) -> None:
    """A job that was completed without an image has failed."""
    registry, core, settings = CollectorRegistry(), shoot.core, shoot.room.settings
    room = open_pipelines(core.databases, shoot.catalog, shoot.stage.room, core.room, settings, registry=registry)
    shoot = replace(shoot, room=room)
    run = await shoot.run(await shoot.pipeline("base"), target_leaves=2)
    for pictures in (1, 0):
        await shoot.tick()
        await shoot.deliver(await shoot.start(), pictures)
    await shoot.tick()
    await shoot.core.fail(await shoot.start())
    await shoot.tick()
    counted = {
        status: registry.get_sample_value("callsheet_pipeline_jobs_total", {"status": status})
        for status in ("completed", "failed", "canceled")
    }
    assert counted == {"completed": 1, "failed": 2, "canceled": None}
    assert (await shoot.shown(run)).candidates == 1


async def _after_tick(shoot: Shoot, run: Run) -> list[Row]:
    await shoot.tick()
    return await shoot.candidates(run)


async def test_a_first_step_that_always_fails_stops_the_run_which_says_why_and_costs_nothing(shoot: Shoot) -> None:
    run = await shoot.finish(await shoot.run(await shoot.pipeline("base")), lambda _: True)
    assert (run.status, run.reason) == (RunStatus.PAUSED, RunReason.BASE_FAILED)
    assert run.reason_detail is not None
    assert "The engine stopped." in run.reason_detail
    assert (run.draws, run.spent, await shoot.core.balance(shoot.ann)) == (3, 0, 1000)
    run = await shoot.room.runs.resume(principal_of(shoot.ann), run.id)
    assert (run.status, run.reason) == (RunStatus.ACTIVE, None)
    run = await shoot.finish(run)
    assert run.status is RunStatus.COMPLETED
    await shoot.check(run)


async def test_a_later_step_that_always_fails_does_not_spend_the_budget_on_bases(shoot: Shoot) -> None:
    run = await shoot.run(await shoot.pipeline("base", "fix"))
    run = await shoot.finish(run, lambda started: bool(started.payload["assets"]))
    assert (run.status, run.reason) == (RunStatus.PAUSED, RunReason.BRANCHES_FAILED)
    assert await shoot.shape(run) == {1: 3}
    await shoot.check(run)


async def test_a_run_stops_at_its_budget_and_goes_on_when_it_gets_more(shoot: Shoot) -> None:
    run = await shoot.finish(await shoot.run(await shoot.pipeline("base"), target_leaves=5, budget=35))
    assert (run.status, run.reason, run.spent) == (RunStatus.ACTIVE, RunReason.BUDGET_SPENT, 30)
    with pytest.raises(InvalidRequest, match="already spent 30"):
        await shoot.room.runs.update(principal_of(shoot.ann), run.id, UpdateRun(budget=29))
    run = await shoot.room.runs.update(principal_of(shoot.ann), run.id, UpdateRun(budget=50))
    run = await shoot.finish(run)
    assert (run.status, run.spent) == (RunStatus.COMPLETED, 50)
    await shoot.check(run)


async def test_a_run_whose_owner_has_no_tokens_left_says_so_and_goes_on_when_there_are(shoot: Shoot) -> None:
    poor = await shoot.core.member("pool_1", tokens=15)
    other = open_shoot(shoot.core, poor, shoot.stage)
    run = await other.finish(await other.run(await other.pipeline("base"), target_leaves=2))
    assert (run.status, run.reason) == (RunStatus.ACTIVE, RunReason.INSUFFICIENT_TOKENS)
    await other.core.credit(poor, 100)
    await other.due(run)
    assert (await other.finish(run)).status is RunStatus.COMPLETED


async def test_a_workflow_that_was_switched_off_holds_the_run_which_says_so(shoot: Shoot) -> None:
    steps = await shoot.steps("base")
    run = await shoot.run(await shoot.define(steps), target_leaves=1)
    central = shoot.core.databases.central
    await shoot.core.rows(central, "UPDATE workflows SET is_active = false WHERE slug = $1", steps[0]["workflow"])
    run = await shoot.finish(run)
    assert (run.status, run.reason) == (RunStatus.ACTIVE, RunReason.CANNOT_BUILD)
    assert run.reason_detail is not None
    assert "'base'" in run.reason_detail
    await shoot.core.rows(central, "UPDATE workflows SET is_active = true WHERE slug = $1", steps[0]["workflow"])
    await shoot.due(run)
    assert (await shoot.finish(run)).status is RunStatus.COMPLETED


async def test_a_parent_whose_picture_was_deleted_is_left_alone(shoot: Shoot) -> None:
    run = await shoot.run(await shoot.pipeline("base", "fix", max_children=1), target_leaves=1)
    await shoot.tick()
    await shoot.deliver(await shoot.start())
    await shoot.room.collector.tick(NOW)
    [base] = await shoot.candidates(run)
    await shoot.stage.delete_file(base["file_id"])
    run = await shoot.finish(run)
    assert (run.status, await shoot.shape(run)) == (RunStatus.COMPLETED, {1: 2, 2: 1})
    assert (await shoot.candidates(run))[0]["child_count"] == 0


async def test_a_paused_run_begins_nothing_and_keeps_what_was_under_way(shoot: Shoot) -> None:
    run = await shoot.run(await shoot.pipeline("base"), target_leaves=2)
    await shoot.tick()
    run = await shoot.room.runs.pause(principal_of(shoot.ann), run.id)
    run = await shoot.finish(run)
    assert (run.status, run.reason, run.candidates, run.draws) == (RunStatus.PAUSED, RunReason.BY_USER, 1, 1)
    await shoot.room.runs.resume(principal_of(shoot.ann), run.id)
    run = await shoot.finish(run)
    assert (run.status, run.candidates) == (RunStatus.COMPLETED, 2)
    await shoot.check(run)


async def test_a_canceled_run_gives_back_what_its_jobs_under_way_cost(shoot: Shoot) -> None:
    run = await shoot.run(await shoot.pipeline("base"), target_leaves=2)
    await shoot.tick()
    run = await shoot.room.runs.cancel(principal_of(shoot.ann), run.id)
    assert await shoot.core.balance(shoot.ann) == 1000
    run = await shoot.finish(run)
    assert (run.status, run.spent, run.candidates, run.draws) == (RunStatus.CANCELED, 0, 0, 1)
    await shoot.check(run)


async def test_what_a_canceled_job_of_a_run_kept_stays_spent(shoot: Shoot) -> None:
    """A budget is what somebody is ready to pay, and this is paid."""
    core, pipeline = shoot.core, await shoot.pipeline("base")
    async with core.databases.central.connection() as connection:
        await connection.execute("UPDATE workflows SET refund_on_cancel = 'unspent'")
    run = await shoot.run(pipeline, target_leaves=2)
    await shoot.tick()
    lease = (await shoot.start()).lease
    said = ProgressReport(percent=70.0)
    await core.room.progress.record(lease.tenant_id, lease.job_id, lease.charge_cycle, lease.lease_seq, said)
    run = await shoot.room.runs.cancel(principal_of(shoot.ann), run.id)
    assert await core.balance(shoot.ann) == 993
    run = await shoot.finish(run)
    assert (run.status, run.spent, run.candidates) == (RunStatus.CANCELED, 7, 0)
    await shoot.check(run)


async def test_a_failed_job_of_a_run_is_not_retried_by_hand(shoot: Shoot) -> None:
    run = await shoot.run(await shoot.pipeline("base"))
    await shoot.tick()
    started = await shoot.start()
    await shoot.core.fail(started)
    with pytest.raises(WrongState, match=f"replaces a failed job by itself.*POST /api/runs/{run.id}/resume"):
        await shoot.core.room.retries.retry(shoot.ann.tenant_id, started.lease.job_id, actor="user")


async def test_a_result_that_cannot_be_kept_holds_up_no_other(shoot: Shoot, monkeypatch: pytest.MonkeyPatch) -> None:
    other = await shoot.core.member("pool_1")
    runs = []
    for ann in (shoot.ann, other):
        of_one = open_shoot(shoot.core, ann, shoot.stage, jobs_in_total=2)
        runs.append((of_one, await of_one.run(await of_one.pipeline("base"), target_leaves=1)))
        await of_one.room.director.tick(NOW)
    await shoot.work()
    storage = shoot.stage.room.files.storage
    copy = storage.copy

    async def broken(source: str, target: str) -> object:
        if str(shoot.ann.tenant_id) in source:
            raise RuntimeError("nobody thought of this")
        return await copy(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(storage, "copy", broken)
        await shoot.room.collector.tick(NOW)
    assert [len(await of_one.candidates(run)) for of_one, run in runs] == [0, 1]
    await shoot.room.collector.tick(NOW + timedelta(seconds=FIRST_SECONDS))
    assert [len(await of_one.candidates(run)) for of_one, run in runs] == [1, 1]


async def test_active_runs_take_turns(core: Core, ann: Member, stage: Stage) -> None:
    shoot = open_shoot(core, ann, stage, jobs_in_total=1)
    pipeline = await shoot.pipeline("base")
    runs = [await shoot.run(pipeline, target_leaves=3) for _ in range(3)]
    for turn in (1, 2, 3):
        for _ in runs:
            await shoot.tick()
            assert await shoot.work() == 1
        await shoot.room.collector.tick(NOW)
        assert [(await shoot.shown(run)).candidates for run in runs] == [turn] * 3


async def test_no_more_jobs_are_under_way_than_may_be_in_total_or_of_one_run(
    core: Core, ann: Member, stage: Stage
) -> None:
    generous = open_core(core.databases, active_per_user=100)
    shoot = open_shoot(generous, ann, stage, jobs_per_run=2, jobs_in_total=3)
    pipeline = await shoot.pipeline("base")
    runs = [await shoot.run(pipeline, target_leaves=9) for _ in range(3)]
    await shoot.tick()
    assert sorted([len(await shoot.slots(run)) for run in runs]) == [1, 1, 1]
    only = await shoot.run(pipeline, target_leaves=9, concurrency=2)
    for run in runs:
        await shoot.room.runs.cancel(principal_of(ann), run.id)
    await shoot.tick()
    assert len(await shoot.slots(only)) == 2


async def test_runs_of_a_tenant_at_its_limit_say_so_and_hold_up_nobody_else(
    core: Core, ann: Member, stage: Stage
) -> None:
    generous = open_core(core.databases, active_per_user=100)
    shoot = open_shoot(generous, ann, stage, jobs_in_total=2)
    bob = await core.member(ann.pool.name)
    pipeline = await shoot.pipeline("base")
    runs = [await shoot.run(pipeline, target_leaves=9) for _ in range(4)]
    of_bob = open_shoot(generous, bob, stage, jobs_in_total=2)
    served = await of_bob.run(await of_bob.pipeline("base"), target_leaves=9)
    await shoot.tick()
    assert [len(await shoot.slots(run)) for run in runs] == [1, 1, 0, 0]
    assert len(await of_bob.slots(served)) == 1
    shown = [await shoot.shown(run) for run in runs]
    at_limit = RunReason.TENANT_AT_LIMIT
    assert [run.reason for run in shown] == [None, None, at_limit, at_limit]
    assert "have 2 active jobs, and the limit is 2 (pipelines.jobs_in_total)" in str(shown[2].reason_detail)
    listed = (await shoot.room.runs.list(principal_of(ann), None, None, None, 10)).items
    assert [run.reason for run in listed] == [at_limit, at_limit, None, None]
    assert (await of_bob.shown(served)).reason is None

    # Who waits comes before who has just had a turn.
    await shoot.deliver(await shoot.start())
    await shoot.tick()
    assert [len(await shoot.slots(run)) for run in runs] == [1, 1, 1, 0]
    assert [(await shoot.shown(run)).reason for run in runs] == [at_limit, None, None, at_limit]


async def test_by_default_several_workers_have_work(core: Core, ann: Member, stage: Stage) -> None:
    shoot = open_shoot(open_core(core.databases, active_per_user=100), ann, stage)
    pipeline = await shoot.pipeline("base")
    runs = [await shoot.run(pipeline, target_leaves=9) for _ in range(5)]
    await shoot.tick()
    assert [len(await shoot.slots(run)) for run in runs] == [1] * 5


async def test_breadth_first_fills_a_step_waits_for_the_approval_and_goes_on_from_the_best(shoot: Shoot) -> None:
    steps = await shoot.steps("base", "fix", max_children=2)
    steps[0] |= {"top_k": 1, "requires_approval": True}
    run = await shoot.run(await shoot.define(steps), target_leaves=3, strategy=Strategy.BREADTH_FIRST)
    run = await shoot.finish(run)
    assert (run.status, run.reason) == (RunStatus.ACTIVE, RunReason.APPROVAL_NEEDED)
    assert await shoot.shape(run) == {1: 3}
    best = (await shoot.candidates(run))[1]
    await shoot.core.rows(shoot.ann.pool, "UPDATE candidates SET elo = 1100 WHERE id = $1", best["id"])
    await shoot.room.guidance.branches.approve(principal_of(shoot.ann), run.id, "base")
    run = await shoot.finish(run)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.NOTHING_LEFT)
    assert {row["parent_id"] for row in (await shoot.candidates(run))[3:]} == {best["id"]}
    assert await shoot.shape(run) == {1: 3, 2: 2}
    await shoot.check(run)


async def test_a_parent_that_was_killed_while_its_child_was_made_takes_the_child_with_it(shoot: Shoot) -> None:
    run = await shoot.run(await shoot.pipeline("base", "fix", max_children=1), target_leaves=1)
    await shoot.tick()
    await shoot.deliver(await shoot.start())
    await shoot.tick()
    await shoot.deliver(await shoot.start())
    [base] = await shoot.candidates(run)
    await shoot.room.guidance.branches.kill(principal_of(shoot.ann), base["id"])
    run = await shoot.finish(run)
    assert [row["status"] for row in await shoot.candidates(run)] == ["rejected", "rejected", "active", "active"]
    assert run.status is RunStatus.COMPLETED
    await shoot.check(run)


async def test_a_run_follows_its_own_version_of_the_steps(shoot: Shoot) -> None:
    steps = await shoot.steps("base", "fix", max_children=1)
    pipeline = await shoot.define(steps)
    run = await shoot.run(pipeline, target_leaves=1)
    changed = UpdatePipeline(steps=[NewStep.model_validate(steps[0])])
    later = await shoot.room.pipelines.update(principal_of(shoot.ann), pipeline.slug, changed)
    assert (later.version, len(later.steps)) == (2, 1)
    same = await shoot.room.pipelines.update(principal_of(shoot.ann), pipeline.slug, changed)
    assert same.version == 2
    assert await shoot.shape(await shoot.finish(run)) == {1: 1, 2: 1}


async def test_variables_fill_the_placeholders_they_name_with_their_type(shoot: Shoot) -> None:
    graph = {**FIX, "1": {"class_type": "PaintPicture", "inputs": {"text": "in {{style}}", "cfg": "{{strength}}"}}}
    steps = [{"name": "base", "workflow": await shoot.workflow(graph), "needs_run_variables": True}]
    run = await shoot.run(await shoot.define(steps), variables={"style": 'no"ir', "strength": 7.5}, target_leaves=1)
    await shoot.tick()
    inputs = (await shoot.start()).payload["workflow"]["1"]["inputs"]
    assert inputs == {"text": 'in no"ir', "cfg": 7.5}
    [slot] = await shoot.slots(run)
    assert slot["lineage"]["variables"] == {"style": 'no"ir', "strength": 7.5}


async def is_left_alone(shoot: Shoot, run: Run) -> bool:
    query = "SELECT due_at > clock_timestamp() + interval '30 minutes' AS so FROM pipeline_runs WHERE id = $1"
    [row] = await shoot.core.rows(shoot.ann.pool, query, run.id)
    return bool(row["so"])


async def test_a_run_that_waits_for_its_job_is_left_alone_until_that_ends(
    core: Core, ann: Member, stage: Stage
) -> None:
    shoot = open_shoot(core, ann, stage, jobs_in_total=2)
    run = await shoot.run(await shoot.pipeline("one", "two", max_children=1), target_leaves=1)
    await shoot.tick()
    assert not await is_left_alone(shoot, run)
    await shoot.due(run)
    await shoot.room.director.tick(NOW)
    assert await is_left_alone(shoot, run)
    assert await shoot.work() == 1
    await shoot.room.collector.tick(NOW)
    assert not await is_left_alone(shoot, run)
    await shoot.room.director.tick(NOW)
    assert len(await shoot.slots(run)) == 2
    assert (await shoot.finish(run)).reason is RunReason.TARGET_REACHED


async def test_a_run_whose_job_ended_while_it_was_looked_at_is_not_left_alone(shoot: Shoot) -> None:
    run = await shoot.run(await shoot.pipeline("one", "two", max_children=1), target_leaves=1)
    await shoot.tick()
    await shoot.due(run)
    async with shoot.ann.pool.connection() as connection:
        claimed = await LOOP["claim_run"].row(connection, ClaimedRun, later_seconds=10, full=[])
        assert claimed is not None
        await shoot.work()
        await shoot.room.collector.tick(NOW)
        key = {"tenant_id": claimed.tenant_id, "id": claimed.id, "due_at": claimed.due_at}
        assert await LOOP["leave_run"].run(connection, **key, later_seconds=3600) == 0
    assert (await shoot.finish(run)).reason is RunReason.TARGET_REACHED


async def test_a_run_that_waits_for_an_approval_is_left_alone_until_it_is_given(shoot: Shoot) -> None:
    steps = await shoot.steps("one", "two", max_children=1)
    steps[0]["requires_approval"] = True
    run = await shoot.finish(await shoot.run(await shoot.define(steps), target_leaves=1))
    assert run.reason is RunReason.APPROVAL_NEEDED
    assert await is_left_alone(shoot, run)
    await shoot.room.guidance.branches.approve(principal_of(shoot.ann), run.id, "one")
    assert (await shoot.finish(run)).reason is RunReason.TARGET_REACHED


async def test_a_base_that_is_accepted_while_its_run_is_looked_at_is_not_made_again(shoot: Shoot) -> None:
    pipeline = await shoot.pipeline("one", "two", max_children=1)
    run = await shoot.run(pipeline, target_leaves=1, strategy=Strategy.BREADTH_FIRST)
    await shoot.tick()
    await shoot.due(run)
    async with shoot.ann.pool.connection() as connection:
        claimed = await LOOP["claim_run"].row(connection, ClaimedRun, later_seconds=10, full=[])
    assert claimed is not None
    await shoot.work()
    await shoot.room.collector.tick(NOW)
    await shoot.room.director.advance(shoot.ann.pool, claimed)
    assert [slot["position"] for slot in await shoot.slots(run)] == [1, 2]
    await shoot.check(run)
