"""What holds for every fleet and all arrivals."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from callsheet.scaling.policy import Decision, Policy, Situation
from tests.unit.scaling.model_fleet import TICK, ModelFleet

seconds = st.sampled_from([0.0, 5.0, 30.0, 60.0, 300.0])


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    maximum = draw(st.integers(1, 12))
    return Policy(
        minimum=draw(st.integers(0, maximum)),
        maximum=maximum,
        target_seconds=draw(st.sampled_from([1.0, 30.0, 120.0, 600.0])),
        warm_up_seconds=300.0,
        scale_out_cooldown_seconds=draw(seconds),
        scale_in_cooldown_seconds=draw(seconds),
        idle_seconds=draw(seconds),
        on_demand_minimum=draw(st.integers(0, maximum)),
        spot_share=draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])),
    )


# Bursts and pauses: how many ticks, how many jobs in each of them, how long each runs.
bursts = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 6), st.sampled_from([1.0, 12.0, 60.0, 400.0])), min_size=1, max_size=6
)


def arrivals_of(parts: list[tuple[int, int, float]]) -> list[list[float]]:
    return [[length] * count for ticks, count, length in parts for _ in range(ticks)]


@given(policies(), bursts, st.integers(1, 3), seconds)
@settings(max_examples=60)
def test_bounds_cooldowns_and_busy_workers_are_respected(
    policy: Policy, parts: list[tuple[int, int, float]], slots: int, boot: float
) -> None:
    fleet = ModelFleet(policy, slots=slots, boot=boot)
    last_ordered: float | None = None
    last_change: float | None = None
    for arrivals in arrivals_of(parts):
        situation, decision = fleet.tick(arrivals)
        serving = [worker for worker in situation.workers if not worker.is_draining]
        have = len(serving) + situation.coming
        busy = {worker.id for worker in situation.workers if worker.busy}
        assert policy.minimum <= decision.wanted <= policy.maximum
        assert fleet.peak_workers <= policy.maximum
        assert not busy & set(decision.drain)
        assert not set(decision.drain) & set(decision.undrain)
        assert decision.wanted >= min(len(busy & {worker.id for worker in serving}), policy.maximum)
        assert decision.on_demand == policy.on_demand(decision.wanted)
        assert situation.queued_jobs == 0 or decision.wanted > 0 or len(situation.workers) >= policy.maximum
        ordered = decision.wanted - have - len(decision.undrain)
        if ordered > 0 and have >= max(1, policy.minimum) and last_ordered is not None:
            assert situation.now - last_ordered >= policy.scale_out_cooldown_seconds
        if decision.drain and last_change is not None:
            assert situation.now - last_change >= policy.scale_in_cooldown_seconds
        if ordered > 0:
            last_ordered = situation.now
        if ordered > 0 or decision.undrain or decision.drain:
            last_change = situation.now
        assert decision.reason[-1] == "."
        assert len(decision.history.peaks) <= max(len(situation.workers), situation.queued_jobs, 1) + policy.maximum * 3


@given(policies(), bursts, st.integers(1, 3), seconds)
@settings(max_examples=15)
def test_when_arrivals_stop_every_job_runs_and_the_fleet_goes_down_to_its_minimum(
    policy: Policy, parts: list[tuple[int, int, float]], slots: int, boot: float
) -> None:
    fleet = ModelFleet(policy, slots=slots, boot=boot)
    arrivals = arrivals_of(parts)
    for each in arrivals:
        fleet.tick(each)
    work = sum(sum(each) + TICK * len(each) for each in arrivals)
    rest = work / slots + boot + (policy.maximum + 1) * (policy.scale_in_cooldown_seconds + policy.idle_seconds + TICK)
    for _ in range(int(rest / TICK) + 10):
        decision = fleet.tick([])[1]
        is_done = not fleet.queue and not any(worker.left for worker in fleet.workers)
        if is_done and decision.wanted == len(fleet.workers) == policy.minimum:
            return
    pytest.fail(f"{len(fleet.workers)} workers and {len(fleet.queue)} jobs are left.")


@given(
    load=st.floats(0.1, 8.0),
    length=st.sampled_from([5.0, 20.0, 60.0, 300.0]),
    target=st.sampled_from([30.0, 120.0, 600.0]),
    boot=st.sampled_from([0.0, 60.0, 180.0]),
    slots=st.integers(1, 3),
)
@settings(max_examples=25)
def test_the_backlog_is_bounded_for_bounded_arrivals_and_the_fleet_does_not_flap(
    load: float, length: float, target: float, boot: float, slots: int
) -> None:
    """`load` slots' worth of work arrive all the time, evenly; there may be a quarter more workers than that."""
    policy = Policy(maximum=int(load / slots * 1.25) + 2, target_seconds=target, warm_up_seconds=300.0)
    # A fleet whose jobs come less often than that goes to zero between them, as its policy says.
    assume(length / load < policy.idle_seconds - 2 * TICK)
    fleet = ModelFleet(policy, slots=slots, boot=boot)
    debt, backlog, seen = 0.0, [], list[tuple[Situation, Decision]]()
    for _ in range(1200):
        debt += load * TICK
        arrivals = [length] * int(debt / length)
        debt -= length * len(arrivals)
        seen.append(fleet.tick(arrivals))
        backlog.append(sum(fleet.queue))
    growing = boot + policy.scale_out_cooldown_seconds + 2 * TICK
    bound = target * slots * (load / slots + 2) + load * growing + length * (load + 1)
    assert max(backlog) <= bound
    # Two turns at most in the second half, which is fifty minutes.
    assert turns([decision.wanted for _, decision in seen[600:]]) <= 2


@pytest.mark.parametrize("pause", [60, 290])
def test_work_that_comes_back_within_the_idle_time_finds_its_workers(pause: int) -> None:
    fleet = ModelFleet(Policy(maximum=5), boot=30)
    an_hour_or_so = [[60.0] * 3 if tick < 60 and tick % 12 == 0 else [] for tick in range(60 + pause // 5)] * 10
    numbers = [fleet.tick(arrivals)[1].wanted for arrivals in an_hour_or_so]
    assert turns(numbers[120:]) == 0


def turns(numbers: list[int]) -> int:
    """How often a number that went up goes down next, or the other way round."""
    steps = [after - before for before, after in pairwise(numbers) if after != before]
    return sum((one > 0) != (other > 0) for one, other in pairwise(steps))
