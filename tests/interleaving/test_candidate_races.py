"""Votes, undone votes and kills at the same moment, over two control planes on real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from callsheet.jobs.submit.new_jobs import SlotRefused
from callsheet.pipelines.judge import branches
from callsheet.pipelines.run.collector import Collector
from callsheet.pipelines.run.open_jobs import OpenJobs
from callsheet.plumbing.failpoints import Failpoint
from callsheet.settings import PipelineSettings
from callsheet.wire.errors import Conflict, NotFound, WrongState
from callsheet.wire.pipelines.candidates import Verdict, Vote
from tests.support.database.room_statements import statements_of_room
from tests.support.jobs.core import Row, report
from tests.support.jobs.crashes import crashed_at
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import open_transaction, paused_at, start_blocked
from tests.support.media.media_harness import MediaHarness, open_media_harness
from tests.support.pipelines.candidate_trees import COST, Tree, Voter

PIPELINES = statements_of_room("pipelines")

HOLD = "SELECT 1 FROM candidates WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) FOR UPDATE"
HOLD_RUN = "SELECT 1 FROM pipeline_runs WHERE tenant_id = $1 AND id = $2 FOR UPDATE"
RESERVE, REFUND, CONSUME = (1, "JOB_RESERVE", -COST), (1, "JOB_REFUND", COST), (1, "JOB_CONSUME", 0)


@dataclass(frozen=True, slots=True)
class TwoVoters:
    """One tree of candidates, and a user who votes and kills at two control planes."""

    race: Race
    tree: Tree
    one: Voter
    two: Voter
    media: MediaHarness
    collector: Collector

    async def count(self) -> int:
        rows = await self.race.one.rows(self.race.pool, "SELECT 1 FROM votes WHERE undone_at IS NULL")
        return len(rows)

    async def kills(self) -> list[Row]:
        """Those that are not at their end."""
        return await self.race.one.rows(self.race.pool, "SELECT * FROM branch_kills")


@pytest.fixture
async def voters(race: Race, tmp_path: Path) -> AsyncIterator[TwoVoters]:
    """One tree of candidates, and a user at two control planes."""
    other = replace(race.ann, pool=race.pool)
    tree = await Tree.plant(race.one, race.ann)
    async with (
        open_media_harness(race.one, race.ann, tmp_path) as first,
        open_media_harness(race.two, other, tmp_path) as second,
    ):
        pools, cancellation = lambda: race.one.databases.pools, race.one.room.cancellation
        collector = Collector(
            pools,
            first.room.files,
            cancellation,
            PipelineSettings(),
            OpenJobs(),
            collected=lambda: None,
            observe=lambda status, seconds: None,
        )
        one, two = Voter.open(race.one, first, tree), Voter.open(race.two, second, tree)
        yield TwoVoters(race, tree, one, two, first, collector)


async def test_two_concurrent_votes_on_the_same_pair_count_one_after_the_other(voters: TwoVoters) -> None:
    """Each from what the other left: two votes from the same start would give 16 twice."""
    tree, race = voters.tree, voters.race
    a, b, c = [await tree.candidate() for _ in range(3)]
    async with open_transaction(race.pool, HOLD, race.ann.tenant_id, [a]):
        tasks = await start_blocked(race.pool, voters.one.vote(a, b), voters.two.vote(a, c))
    first, second = await asyncio.gather(*tasks)
    assert sorted((first.elo_change, second.elo_change)) == [15, 16]
    assert sum(await tree.elo(a, b, c)) == 3000
    assert await tree.elo(a) == [1031]
    assert (await tree.row(a))["votes"] == 2


async def test_a_vote_that_is_sent_twice_at_once_counts_once(voters: TwoVoters) -> None:
    tree, race = voters.tree, voters.race
    a, b = [await tree.candidate() for _ in range(2)]
    async with open_transaction(race.pool, HOLD, race.ann.tenant_id, [a, b]):
        tasks = await start_blocked(race.pool, voters.one.vote(a, b), voters.two.vote(a, b))
    first, second = await asyncio.gather(*tasks)
    assert first == second
    assert await tree.elo(a, b) == [1016, 984]
    assert await voters.count() == 1


async def test_one_of_two_concurrent_verdicts_on_a_pair_counts(voters: TwoVoters) -> None:
    tree, race = voters.tree, voters.race
    a, b = [await tree.candidate() for _ in range(2)]
    async with open_transaction(race.pool, HOLD, race.ann.tenant_id, [a, b]):
        both, neither = voters.one.vote(a, b, Verdict.BOTH), voters.two.vote(b, a, Verdict.NEITHER)
        tasks = await start_blocked(race.pool, both, neither)
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in ended if isinstance(each, BaseException)] == [Conflict]
    assert await tree.elo(a, b) in ([1008, 1008], [992, 992])
    assert await voters.count() == 1


async def test_one_of_two_opposite_concurrent_votes_is_a_conflict(voters: TwoVoters) -> None:
    tree, race = voters.tree, voters.race
    a, b = [await tree.candidate() for _ in range(2)]
    async with open_transaction(race.pool, HOLD, race.ann.tenant_id, [a, b]):
        tasks = await start_blocked(race.pool, voters.one.vote(a, b), voters.two.vote(b, a))
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(type(each) for each in ended if isinstance(each, Conflict)) == [Conflict]
    assert sorted(await tree.elo(a, b)) == [984, 1016]
    assert await voters.count() == 1


async def test_two_concurrent_undos_of_a_vote_undo_it_once(voters: TwoVoters) -> None:
    tree, race = voters.tree, voters.race
    a, b = [await tree.candidate() for _ in range(2)]
    vote = await voters.one.vote(a, b)
    async with open_transaction(race.pool, HOLD, race.ann.tenant_id, [a, b]):
        tasks = await start_blocked(race.pool, voters.one.undo(vote), voters.two.undo(vote))
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(each is None for each in ended) == 1
    assert sum(isinstance(each, NotFound) for each in ended) == 1
    assert await tree.elo(a, b) == [1000, 1000]
    assert (await tree.row(a))["votes"] == 0


async def test_a_vote_that_waited_for_a_kill_is_refused_and_moves_nothing(voters: TwoVoters) -> None:
    tree, race = voters.tree, voters.race
    a, b = [await tree.candidate() for _ in range(2)]
    async with open_transaction(race.pool, HOLD, race.ann.tenant_id, [b]):
        killing, voting = await start_blocked(race.pool, voters.one.kill(b), voters.two.vote(a, b))
    assert (await killing).rejected == 1
    with pytest.raises(WrongState, match="rejected"):
        await voting
    assert await tree.elo(a, b) == [1000, 1000]
    assert await voters.count() == 0


async def test_concurrent_votes_undos_and_kills_cause_no_deadlock_and_lose_no_points(voters: TwoVoters) -> None:
    tree, random = voters.tree, Random(7)
    bases = [await tree.candidate() for _ in range(6)]
    children = [await tree.candidate(parent) for parent in bases for _ in range(2)]
    given: list[Vote] = []

    async def guide(voter: Voter) -> None:
        for _ in range(25):
            field = random.choice([bases, children])
            winner, loser = random.sample(field, 2)
            try:
                if random.random() < 0.04:
                    await voter.kill(loser)
                elif given and random.random() < 0.3:
                    await voter.undo(given.pop())
                else:
                    given.append(await voter.vote(winner, loser))
            except (WrongState, Conflict, NotFound):
                continue

    await asyncio.gather(*(guide(voter) for voter in (voters.one, voters.two) for _ in range(4)))
    assert sum(await tree.elo(*bases)) == 1000 * len(bases)
    assert sum(await tree.elo(*children)) == 1000 * len(children)
    votes = [(await tree.row(each))["votes"] for each in (*bases, *children)]
    assert sum(votes) == 2 * await voters.count()


async def test_a_kill_rejects_the_branch_and_refunds_its_jobs_in_flight(voters: TwoVoters) -> None:
    tree, race = voters.tree, voters.race
    killed, spared = await tree.candidate(), await tree.candidate()
    child = await tree.candidate(killed)
    grandchild = await tree.candidate(child)
    queued, deep, other = await tree.begin(killed), await tree.begin(child), await tree.begin(spared)
    balance = await race.one.balance(race.ann)
    outcome = await voters.two.kill(killed)
    assert (outcome.rejected, outcome.canceled_jobs) == (3, 2)
    assert await tree.active() == {spared}
    assert {(await tree.row(each))["rejected_with"] for each in (killed, child, grandchild)} == {killed}
    for job in (queued, deep):
        assert await race.one.status(race.ann, job.id) == "canceled"
        assert await race.one.ledger(race.ann, job.id) == [RESERVE, REFUND]
    assert await race.one.status(race.ann, other.id) == "queued"
    assert await race.one.balance(race.ann) == balance + 2 * COST
    again = await voters.one.kill(killed)
    assert (again.rejected, again.canceled_jobs) == (0, 0)
    await race.one.check()


async def test_a_kill_that_crashed_before_its_cancels_is_completed_later(voters: TwoVoters) -> None:
    tree, race = voters.tree, voters.race
    parent = await tree.candidate()
    job = await tree.begin(parent)
    assert await crashed_at(Failpoint.PIPELINE_KILL_BEFORE_CANCELS, voters.one.kill(parent))
    assert await race.one.status(race.ann, job.id) == "queued"
    for pool in race.two.databases.pools:
        assert not await voters.two.pruner.prune(pool)
    assert await race.one.status(race.ann, job.id) == "canceled"
    assert await race.one.ledger(race.ann, job.id) == [RESERVE, REFUND]
    await race.one.check()


async def grown(tree: Tree) -> UUID:
    """A base with seven that descend from it."""
    base = await tree.candidate()
    children = [await tree.candidate(base) for _ in range(2)]
    for parent in (*children, *children, children[0]):
        await tree.candidate(parent)
    return base


async def test_a_large_branch_is_killed_completely_in_batches(
    voters: TwoVoters, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = voters.tree
    base, spared = await grown(tree), await grown(tree)
    for piece in (3, 4):
        monkeypatch.setattr(branches, "PIECE", piece)
        outcome = await voters.one.kill(base)
        assert outcome.rejected == (8 if piece == 3 else 0)
        assert len(await tree.active()) == 8
        assert (await tree.run())["active_bases"] == 1
        assert await voters.kills() == []
    monkeypatch.setattr(branches, "PIECE", 4)
    assert (await voters.one.kill(spared)).rejected == 8
    assert (await tree.run())["active_bases"] == 0
    assert await voters.kills() == []


async def test_a_kill_that_crashed_between_two_batches_pauses_the_run_and_is_completed_later(
    voters: TwoVoters, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, race = voters.tree, voters.race
    monkeypatch.setattr(branches, "PIECE", 3)
    base, spared = await grown(tree), await tree.candidate()
    deep = (await tree.rows())[-2]["parent_id"]
    job = await tree.begin(deep)
    assert await crashed_at(Failpoint.PIPELINE_KILL_BETWEEN_PIECES, voters.one.kill(base))
    # From the top: what is active hangs below something that is not.
    rows = {row["id"]: row for row in await tree.rows()}
    assert [row["number"] for row in rows.values() if row["status"] == "rejected"] == [1, 2, 3]
    async with race.pool.connection() as connection:
        assert await PIPELINES["claim_run"].row(connection, later_seconds=10, full=[]) is None
    # Another control plane may be working on it.
    await voters.two.pruner.prune(race.pool)
    assert len(await voters.kills()) == 1
    await voters.two.pruner.prune(race.pool, left_seconds=0)
    assert await tree.active() == {spared}
    assert {row["rejected_with"] for row in await tree.rows() if row["id"] != spared} == {base}
    assert await voters.kills() == []
    assert await race.one.status(race.ann, job.id) == "canceled"
    assert await race.one.ledger(race.ann, job.id) == [RESERVE, REFUND]
    async with race.pool.connection() as connection:
        assert await PIPELINES["claim_run"].row(connection, later_seconds=10, full=[]) is not None
    await race.one.check()


async def test_a_child_accepted_between_two_batches_of_a_kill_is_killed_too(
    voters: TwoVoters, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, race = voters.tree, voters.race
    monkeypatch.setattr(branches, "PIECE", 1)
    base = await tree.candidate()
    child = await tree.candidate(base)
    job = await tree.begin(child)
    output = await voters.media.put_output(job.id)
    made = {"outputs": [{"file_id": str(output.file_id)}]}
    async with paused_at(Failpoint.PIPELINE_KILL_BETWEEN_PIECES, voters.one.kill(base)) as killing:
        assert await tree.active() == {child}
        await race.two.room.leases.complete(report(await race.one.start()), made, outputs=[output])
        await voters.collector.collect(race.ann.pool)
        assert len(await tree.active()) == 2
    assert (await killing).rejected == 3
    assert await tree.active() == set()
    await race.one.check()


async def test_a_job_whose_submit_waited_for_a_kill_is_not_started(voters: TwoVoters) -> None:
    tree, race = voters.tree, voters.race
    parent = await tree.candidate()
    balance = await race.one.balance(race.ann)
    async with open_transaction(race.pool, HOLD_RUN, race.ann.tenant_id, tree.run_id):
        killing, beginning = await start_blocked(race.pool, voters.one.kill(parent), tree.begin(parent, race.two))
    assert (await killing).canceled_jobs == 0
    with pytest.raises(SlotRefused, match="parent_not_eligible"):
        await beginning
    assert await race.one.balance(race.ann) == balance
    await race.one.check()


async def test_a_kill_that_waited_for_a_submit_cancels_the_submitted_job(voters: TwoVoters) -> None:
    tree, race = voters.tree, voters.race
    parent = await tree.candidate()
    async with open_transaction(race.pool, HOLD_RUN, race.ann.tenant_id, tree.run_id):
        beginning, killing = await start_blocked(race.pool, tree.begin(parent, race.two), voters.one.kill(parent))
    job = await beginning
    assert (await killing).canceled_jobs == 1
    assert await race.one.ledger(race.ann, job.id) == [RESERVE, REFUND]
    await race.one.check()


async def test_a_child_that_was_rendering_when_its_parent_was_killed_is_charged_and_rejected_too(
    voters: TwoVoters,
) -> None:
    """The kill reached its job after the worker had completed it: the late result is not an active candidate."""
    tree, race = voters.tree, voters.race
    parent = await tree.candidate()
    job = await tree.begin(parent)
    started = await race.one.start()
    output = await voters.media.put_output(job.id)
    async with paused_at(Failpoint.PIPELINE_KILL_BEFORE_CANCELS, voters.one.kill(parent)) as killing:
        made = {"outputs": [{"file_id": str(output.file_id)}]}
        await race.two.room.leases.complete(report(started), made, outputs=[output])
    assert (await killing).canceled_jobs == 0
    assert await race.one.status(race.ann, job.id) == "completed"
    assert await race.one.ledger(race.ann, job.id) == [RESERVE, CONSUME]
    for _ in range(2):
        await voters.collector.collect(race.ann.pool)
    [late] = [row for row in await tree.rows() if row["parent_id"] == parent]
    assert (late["status"], late["rejected_with"], late["job_id"]) == ("rejected", parent, job.id)
    assert await tree.active() == set()
    row = await tree.row(parent)
    assert (row["child_count"], row["in_flight"]) == (1, 0)
    assert (await tree.run())["spent"] == COST
    await race.one.check()


async def test_a_concurrent_kill_and_acceptance_of_a_child_leave_no_active_orphan(voters: TwoVoters) -> None:
    """Whichever has the run's lock first, the other sees what it did."""
    tree, race = voters.tree, voters.race
    for killed_first in (True, False):
        parent = await tree.candidate()
        job = await tree.begin(parent)
        output = await voters.media.put_output(job.id)
        made = {"outputs": [{"file_id": str(output.file_id)}]}
        await race.one.room.leases.complete(report(await race.one.start()), made, outputs=[output])
        works = [voters.two.kill(parent), voters.collector.collect(race.ann.pool)]
        async with open_transaction(race.pool, HOLD_RUN, race.ann.tenant_id, tree.run_id):
            tasks = await start_blocked(race.pool, *(works if killed_first else works[::-1]))  # type: ignore[arg-type]
        await asyncio.gather(*tasks)
        assert await tree.active() == set()
        assert (await tree.row(parent))["child_count"] == 1


async def test_a_restore_and_the_acceptance_of_a_late_child_at_once_bring_both_back(voters: TwoVoters) -> None:
    tree, race = voters.tree, voters.race
    for restored_first in (True, False):
        parent = await tree.candidate()
        job = await tree.begin(parent)
        started, output = await race.one.start(), await voters.media.put_output(job.id)
        async with paused_at(Failpoint.PIPELINE_KILL_BEFORE_CANCELS, voters.one.kill(parent)) as killing:
            made = {"outputs": [{"file_id": str(output.file_id)}]}
            await race.two.room.leases.complete(report(started), made, outputs=[output])
        await killing
        works = [voters.two.restore(parent), voters.collector.collect(race.ann.pool)]
        async with open_transaction(race.pool, HOLD_RUN, race.ann.tenant_id, tree.run_id):
            tasks = await start_blocked(race.pool, *(works if restored_first else works[::-1]))  # type: ignore[arg-type]
        await asyncio.gather(*tasks)
        [late] = [row["id"] for row in await tree.rows() if row["parent_id"] == parent]
        assert {parent, late} <= await tree.active()


async def test_undoing_a_kill_restores_only_the_candidates_it_rejected(voters: TwoVoters) -> None:
    tree, one = voters.tree, voters.one
    base = await tree.candidate()
    first, second = await tree.candidate(base), await tree.candidate(base)
    leaf = await tree.candidate(first)
    await one.kill(second)
    await one.kill(base)
    with pytest.raises(WrongState, match=f"rejected together with {base}"):
        await one.restore(leaf)
    with pytest.raises(WrongState, match="Restore the parent first"):
        await one.restore(second)
    assert [(await one.restore(base)).restored for _ in range(2)] == [3, 0]
    assert await tree.active() == {base, first, leaf}
    assert (await one.restore(second)).restored == 1
    assert await tree.active() == {base, first, second, leaf}


async def test_a_branch_that_is_being_killed_is_not_restored_meanwhile(
    voters: TwoVoters, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = voters.tree
    monkeypatch.setattr(branches, "PIECE", 3)
    base = await grown(tree)
    async with paused_at(Failpoint.PIPELINE_KILL_BETWEEN_PIECES, voters.one.kill(base)) as killing:
        with pytest.raises(WrongState, match="being rejected at this moment"):
            await voters.two.restore(base)
    assert (await killing).rejected == 8
    assert (await tree.run())["active_bases"] == 0
    assert (await voters.two.restore(base)).restored == 8
    assert (await tree.run())["active_bases"] == 1
    assert len(await tree.active()) == 8


async def test_tokens_of_a_killed_job_return_to_the_budget_of_its_run(voters: TwoVoters) -> None:
    tree, race = voters.tree, voters.race
    parent = await tree.candidate()
    await tree.begin(parent)
    assert (await tree.run())["spent"] == COST
    await voters.two.kill(parent)
    await voters.collector.collect(race.ann.pool)
    assert (await tree.run())["spent"] == 0
    row = await tree.row(parent)
    # The parent's failure count does not grow for a canceled job.
    assert (row["in_flight"], row["failure_count"], row["child_count"]) == (0, 0, 0)


async def test_a_kill_rejects_exactly_the_branch_of_any_shape(voters: TwoVoters) -> None:
    tree, random = voters.tree, Random(11)
    parents: dict[UUID, UUID | None] = {}
    for _ in range(40):
        inner = [each for each in parents if (await tree.row(each))["position"] < len(tree.step_ids)]
        parent = random.choice([None, *inner])
        parents[await tree.candidate(parent)] = parent
    left = set(parents)
    for killed in random.sample(sorted(parents), 5):
        await voters.one.kill(killed)
        left -= {each for each in parents if killed in _line(each, parents)}
        assert await tree.active() == left


def _line(candidate: UUID, parents: dict[UUID, UUID | None]) -> list[UUID]:
    line = [candidate]
    while (above := parents[line[-1]]) is not None:
        line.append(above)
    return line
