"""Runs that people guide while they go on: votes, kills and replays, and the tree stays exact."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from callsheet.wire.catalog import UpdateWorkflow
from callsheet.wire.errors import InvalidRequest, WrongState
from callsheet.wire.identity import Role
from callsheet.wire.pipelines.candidates import CastVote, Replay
from callsheet.wire.pipelines.pipelines import Run, RunReason, RunStatus, UpdateRun
from tests.support.jobs.core import Core
from tests.support.media.media_harness import open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import NOW, PipelineHarness, open_pipeline_harness


@pytest.fixture
async def pipelines(core: Core, tmp_path: Path) -> AsyncIterator[PipelineHarness]:
    ann = await core.member("pool_1", tokens=1000)
    async with open_media_harness(core, ann, tmp_path / "home") as media:
        yield open_pipeline_harness(core, ann, media)


async def candidates(pipelines: PipelineHarness, run: Run) -> dict[int, UUID]:
    """By their numbers, those that are left."""
    return {row["number"]: row["id"] for row in await pipelines.candidates(run) if row["status"] == "active"}


async def vote(pipelines: PipelineHarness, run: Run, winner: UUID, loser: UUID) -> None:
    cast = CastVote(winner_id=winner, loser_id=loser)
    await pipelines.room.guidance.votes.vote(principal_of(pipelines.ann), run.id, cast)


async def kill(pipelines: PipelineHarness, candidate_id: UUID) -> int:
    killed = await pipelines.room.guidance.branches.kill(principal_of(pipelines.ann), candidate_id)
    return killed.canceled_jobs


async def guided(pipelines: PipelineHarness, run: Run) -> Run:
    """One job after the other; after each the pair that is asked about is judged: the older one wins."""
    for turn in range(60):
        await pipelines.tick()
        if not await pipelines.work():
            await pipelines.room.collector.tick(NOW)
            return await pipelines.shown(run)
        await pipelines.room.collector.tick(NOW)
        pair = await pipelines.room.guidance.votes.pair(principal_of(pipelines.ann), run.id, None, turn)
        if pair.candidates:
            older, younger = sorted(pair.candidates, key=lambda each: each.number)
            await vote(pipelines, run, older.id, younger.id)
    raise AssertionError("it does not end")


@pytest.mark.thorough
async def test_the_same_seed_and_votes_make_the_same_tree_and_the_same_ratings(pipelines: PipelineHarness) -> None:
    pipeline = await pipelines.pipeline("one", "two", "three", max_children=2)
    made = []
    for _ in range(2):
        run = await pipelines.run(pipeline, seed=11, target_leaves=8, budget=400)
        ended = await guided(pipelines, run)
        assert (ended.status, ended.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
        ratings = [(row["number"], row["elo"], row["votes"]) for row in await pipelines.candidates(run)]
        made.append((await pipelines.family(run), ratings))
        await pipelines.check(run)
    assert made[0] == made[1]
    assert any(elo != 1000 for _, elo, _ in made[0][1])


async def test_a_branch_killed_while_its_child_is_queued_is_refunded_and_the_run_goes_on_without_it(
    pipelines: PipelineHarness,
) -> None:
    run = await pipelines.run(await pipelines.pipeline("one", "two", max_children=2), target_leaves=2, budget=200)
    await pipelines.tick()
    await pipelines.work()
    await pipelines.tick()
    # The child of the first base waits for a worker.
    first = (await candidates(pipelines, run))[1]
    before = await pipelines.core.balance(pipelines.ann)
    assert await kill(pipelines, first) == 1
    assert await pipelines.core.balance(pipelines.ann) == before + 10
    ended = await pipelines.finish(run)
    assert (ended.status, ended.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
    left = await candidates(pipelines, run)
    assert first not in left.values()
    assert await pipelines.shape(run) == {1: 2, 2: 2}
    assert ended.spent == 40
    await pipelines.check(run)


async def test_a_branch_killed_while_its_child_renders_leaves_no_active_child(pipelines: PipelineHarness) -> None:
    run = await pipelines.run(await pipelines.pipeline("one", "two", max_children=1), target_leaves=1, budget=200)
    await pipelines.tick()
    await pipelines.work()
    await pipelines.tick()
    rendering = await pipelines.start()
    first = (await candidates(pipelines, run))[1]
    assert await kill(pipelines, first) == 1
    # The worker has not heard of it yet, and brings what it made.
    await pipelines.deliver(rendering)
    ended = await pipelines.finish(run)
    assert ended.status is RunStatus.COMPLETED
    rows = await pipelines.candidates(run)
    assert [row["status"] for row in rows if row["id"] == first or row["parent_id"] == first] == ["rejected"]
    assert len(await candidates(pipelines, run)) == 2
    await pipelines.check(run)


async def test_resuming_a_completed_run_replaces_killed_leaves(
    pipelines: PipelineHarness,
) -> None:
    run = await pipelines.finish(
        await pipelines.run(await pipelines.pipeline("one", "two", max_children=1), target_leaves=2)
    )
    leaves = [row["id"] for row in await pipelines.candidates(run) if row["position"] == 2]
    await kill(pipelines, leaves[0])
    assert (await pipelines.shown(run)).status is RunStatus.COMPLETED
    await pipelines.room.runs.resume(principal_of(pipelines.ann), run.id)
    ended = await pipelines.finish(run)
    assert ended.status is RunStatus.COMPLETED
    active = [row for row in await pipelines.candidates(run) if row["position"] == 2 and row["status"] == "active"]
    assert len(active) == 2
    await pipelines.check(run)


async def test_a_restored_branch_continues_where_it_stopped(pipelines: PipelineHarness) -> None:
    run = await pipelines.run(await pipelines.pipeline("one", "two", max_children=2), target_leaves=2, budget=200)
    await pipelines.tick()
    await pipelines.work()
    await pipelines.tick()
    first = (await candidates(pipelines, run))[1]
    assert await kill(pipelines, first) == 1
    branches = pipelines.room.guidance.branches
    assert (await branches.restore(principal_of(pipelines.ann), first)).restored == 1
    ended = await pipelines.finish(run)
    assert (ended.status, ended.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
    # The job that was canceled took nothing from its parent.
    assert await pipelines.shape(run) == {1: 1, 2: 2}
    assert ended.spent == 30
    await pipelines.check(run)


async def test_a_candidate_is_explained_and_replayed_with_the_same_graph_seed_and_parent(
    pipelines: PipelineHarness,
) -> None:
    run = await pipelines.finish(
        await pipelines.run(await pipelines.pipeline("one", "two", max_children=1), target_leaves=1)
    )
    base, leaf = await pipelines.candidates(run)
    principal, lineages = principal_of(pipelines.ann), pipelines.room.guidance.lineages
    ancestors = (await lineages.explain(principal, leaf["id"])).ancestors
    assert [each.candidate_id for each in ancestors] == [base["id"], leaf["id"]]
    assert ancestors[0].lineage["prompt"] == "a gym"
    # The graph has values that an effect hides from its users.
    assert [each.workflow for each in ancestors] == [{}, {}]
    seen_by_operators = (await lineages.explain(replace(principal, role=Role.OPERATOR), leaf["id"])).ancestors
    assert seen_by_operators[0].workflow["1"]["inputs"] == {"text": "a gym", "seed": base["seed"]}
    assert [each.draw for each in ancestors] == [1, 2]
    submitted = await lineages.replay(principal, leaf["id"], Replay())
    first, again = [await pipelines.core.job(pipelines.ann, job_id) for job_id in (leaf["job_id"], submitted.job.id)]
    assert again["payload"] == first["payload"]
    assert again["input_file_ids"] == [base["file_id"]]
    await pipelines.work()
    await pipelines.tick()
    assert await pipelines.core.status(pipelines.ann, submitted.job.id) == "completed"
    # The result does not become a candidate. The job counts in the run's budget.
    assert len(await pipelines.candidates(run)) == 2
    assert (await pipelines.shown(run)).spent == run.spent + 10
    await pipelines.check(run)


async def test_a_replay_is_the_same_though_the_workflow_was_changed_and_its_price_too(
    pipelines: PipelineHarness,
) -> None:
    steps = await pipelines.steps("one")
    run = await pipelines.finish(await pipelines.run(await pipelines.define(steps), target_leaves=1))
    [made] = await pipelines.candidates(run)
    graph = {"9": {"class_type": "SomethingElse", "inputs": {"text": "{{prompt}}"}}}
    await pipelines.catalog.workflows.update(
        steps[0]["workflow"], UpdateWorkflow.model_validate({"graph": graph}), "test"
    )
    central = pipelines.core.databases.central
    await pipelines.core.rows(central, "UPDATE effects SET credits_cost = 25 WHERE slug = $1", steps[0]["workflow"])
    before = await pipelines.core.balance(pipelines.ann)
    replayed = await pipelines.room.guidance.lineages.replay(principal_of(pipelines.ann), made["id"], Replay())
    first, again = [await pipelines.core.job(pipelines.ann, job_id) for job_id in (made["job_id"], replayed.job.id)]
    assert again["payload"] == first["payload"]
    assert (again["cost"], await pipelines.core.balance(pipelines.ann)) == (25, before - 25)


async def test_a_replay_above_the_budget_of_its_run_is_refused(pipelines: PipelineHarness) -> None:
    run = await pipelines.finish(
        await pipelines.run(await pipelines.pipeline("one"), target_leaves=1, budget=25), fails=lambda started: False
    )
    [made] = await pipelines.candidates(run)
    principal, lineages = principal_of(pipelines.ann), pipelines.room.guidance.lineages
    await lineages.replay(principal, made["id"], Replay())
    before = await pipelines.core.balance(pipelines.ann)
    with pytest.raises(WrongState, match="spent 20 of its budget of 25 tokens"):
        await lineages.replay(principal, made["id"], Replay())
    assert await pipelines.core.balance(pipelines.ann) == before
    # The active job is shown as held; after its end, as tokens of the step of its candidate.
    spending = await pipelines.room.guidance.views.spending(principal, run.id, 1)
    assert (spending.used, spending.held, spending.left) == (10, 10, 5)
    await pipelines.work()
    await pipelines.tick()
    spending = await pipelines.room.guidance.views.spending(principal, run.id, 1)
    assert (spending.used, spending.held, spending.left) == (20, 0, 5)
    assert [(each.tokens, each.jobs) for each in spending.steps] == [(20, 2)]
    await pipelines.room.runs.update(principal, run.id, UpdateRun(budget=30))
    await lineages.replay(principal, made["id"], Replay())
    assert (await pipelines.shown(run)).spent == 30
    await pipelines.check(run)


async def test_a_refunded_replay_and_its_retry_are_counted_exactly(pipelines: PipelineHarness) -> None:
    run = await pipelines.finish(await pipelines.run(await pipelines.pipeline("one"), target_leaves=1, budget=25))
    [made] = await pipelines.candidates(run)
    principal, core = principal_of(pipelines.ann), pipelines.core
    job = (await pipelines.room.guidance.lineages.replay(principal, made["id"], Replay())).job
    await pipelines.work(fails=lambda started: True)
    assert await core.status(pipelines.ann, job.id) == "failed"
    # Also if the collector has not looked yet, the failed cycle makes room for the retry.
    assert (await pipelines.shown(run)).spent == 20
    await core.room.retries.retry(pipelines.ann.tenant_id, job.id, actor="ann")
    assert (await pipelines.shown(run)).spent == 20
    await pipelines.check(run)
    await pipelines.work(fails=lambda started: True)
    await pipelines.tick()
    assert (await pipelines.shown(run)).spent == 10
    # A retry is refused like a replay, if the run has spent its budget meanwhile.
    await pipelines.room.runs.update(principal, run.id, UpdateRun(budget=15))
    before = await core.balance(pipelines.ann)
    with pytest.raises(WrongState, match="Raise the budget of the run"):
        await core.room.retries.retry(pipelines.ann.tenant_id, job.id, actor="ann")
    assert (await core.status(pipelines.ann, job.id), await core.balance(pipelines.ann)) == ("failed", before)
    await pipelines.room.runs.update(principal, run.id, UpdateRun(budget=20))
    await core.room.retries.retry(pipelines.ann.tenant_id, job.id, actor="ann")
    await core.room.cancellation.cancel(pipelines.ann.tenant_id, job.id, actor="ann")
    await pipelines.tick()
    assert (await pipelines.shown(run)).spent == 10
    await pipelines.check(run)


async def test_a_run_that_a_replay_has_blocked_continues_when_the_replay_is_refunded(
    pipelines: PipelineHarness,
) -> None:
    run = await pipelines.run(await pipelines.pipeline("one"), target_leaves=2, budget=25)
    await pipelines.tick()
    await pipelines.work()
    await pipelines.room.runs.pause(principal_of(pipelines.ann), run.id)
    await pipelines.tick()
    [made] = await pipelines.candidates(run)
    job = (await pipelines.room.guidance.lineages.replay(principal_of(pipelines.ann), made["id"], Replay())).job
    await pipelines.room.runs.resume(principal_of(pipelines.ann), run.id)
    await pipelines.tick()
    assert (await pipelines.shown(run)).reason == RunReason.BUDGET_SPENT
    await pipelines.core.room.cancellation.cancel(pipelines.ann.tenant_id, job.id, actor="ann")
    run = await pipelines.finish(run)
    assert (run.status, run.spent) == (RunStatus.COMPLETED, 20)
    await pipelines.check(run)


async def test_a_replay_needs_the_input_files_of_its_candidate(pipelines: PipelineHarness) -> None:
    run = await pipelines.finish(
        await pipelines.run(await pipelines.pipeline("one", "two", max_children=1), target_leaves=1)
    )
    base, leaf = await pipelines.candidates(run)
    await pipelines.media.delete_file(base["file_id"])
    before = await pipelines.core.balance(pipelines.ann)
    with pytest.raises(InvalidRequest, match="was deleted"):
        await pipelines.room.guidance.lineages.replay(principal_of(pipelines.ann), leaf["id"], Replay())
    assert await pipelines.core.balance(pipelines.ann) == before
