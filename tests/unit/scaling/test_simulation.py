"""Policy and simulator together: every job is served once, nothing is wasted, and a slow simulator finds the same."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.scaling.policy import Policy
from callsheet.settings import ScalingSettings
from callsheet.toolbox.errors import OperatorError
from callsheet_simulation.arrivals import Arrivals, make_trace
from callsheet_simulation.conditions import Conditions
from callsheet_simulation.replay import MAX_INTERRUPTIONS, ReplayOutcome, TraceReplay
from callsheet_simulation.simulated_fleet import SimulatedFleet, SimulatedMachine
from callsheet_simulation.trace import QueueTrace, TraceLane
from tests.support.fleets.naive_simulation import NaiveSimulation

HOUR = 3600.0


def random_trace(seed: int) -> QueueTrace:
    """Some minutes of work in whole seconds, so that much happens at the same moment; with pauses to go to zero in."""
    random = Random(seed)
    trace = QueueTrace()
    moment = 0
    for _ in range(random.randint(1, 80)):
        moment += random.choice([0, 0, 1, 3, 10, 10, 30, 200])
        key = TraceLane(*map(random.choice, ("abc", "uv", (0, 0, 0, -1, 1), "xy")))
        trace.add(moment, random.choice([0, 1, 5, 20, 60, 100]), key)
    return trace


seeds = st.integers(0, 2**32)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    maximum = draw(st.integers(1, 5))
    return Policy(
        minimum=draw(st.integers(0, maximum)),
        maximum=maximum,
        target_seconds=draw(st.sampled_from([1.0, 20.0, 120.0])),
        warm_up_seconds=draw(st.sampled_from([0.0, 7.0, 60.0])),
        scale_out_cooldown_seconds=draw(st.sampled_from([0.0, 10.0, 30.0])),
        scale_in_cooldown_seconds=draw(st.sampled_from([0.0, 30.0, 300.0])),
        idle_seconds=draw(st.sampled_from([0.0, 20.0, 100.0])),
        on_demand_minimum=draw(st.integers(0, maximum)),
        spot_share=draw(st.sampled_from([0.0, 0.5, 1.0])),
    )


conditions = st.builds(
    Conditions,
    interval_seconds=st.sampled_from([1.0, 5.0, 7.5]),
    slots=st.integers(1, 3),
    start_seconds=st.sampled_from([None, 0.0]),
    pickup_seconds=st.sampled_from([0.0, 0.0, 4.0]),
    prefetch=st.booleans(),
)


def trace_of(rows: list[tuple[float, float, TraceLane]]) -> QueueTrace:
    trace = QueueTrace()
    for submitted, run_seconds, key in rows:
        trace.add(submitted, run_seconds, key)
    return trace.in_order()


@pytest.mark.thorough
@settings(max_examples=40)
@given(seeds, policies(), conditions)
def test_a_slow_exhaustive_simulator_gets_the_same_result(seed: int, policy: Policy, conditions: Conditions) -> None:
    trace = random_trace(seed)
    naive = NaiveSimulation(trace, policy, conditions)
    waits = naive.run()
    outcome = TraceReplay(trace, policy, conditions).run()
    assert list(outcome.waits) == [waits[job] for job in range(len(trace))]
    paid = Counter[bool]()
    for machine in naive.machines:
        assert machine.ended_at is not None
        paid[machine.is_spot] += machine.ended_at - machine.ordered_at
    assert outcome.paid_seconds == pytest.approx({kind: paid[kind] for kind in (False, True)})
    assert outcome.ordered_workers == len(naive.machines)


class WatchedReplay(TraceReplay):
    """Checks after every event what must hold at every moment."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.ended: Counter[int] = Counter()
        self.removed: list[SimulatedMachine] = []
        remove = self._fleet.remove

        def watched(machine: SimulatedMachine, now: float) -> None:
            assert not machine.running
            assert not machine.ahead
            assert not machine.takes_work or machine.started_at is None
            self.removed.append(machine)
            remove(machine, now)

        self._fleet.remove = watched  # type: ignore[method-assign]

    def _end_run(self, subject: tuple[SimulatedMachine, int]) -> None:
        self.ended[subject[1]] += subject[1] in subject[0].running
        super()._end_run(subject)

    def _schedule(self, *given: Any) -> None:
        super()._schedule(*given)
        self.check()

    def _observe_fleet(self) -> None:
        self.check(settled=True)
        super()._observe_fleet()
        self.check(settled=True)

    def check(self, *, settled: bool = False) -> None:
        fleet, policy = self._fleet, self._policy
        held = [job for machine in fleet.machines for job in machine.running]
        held += [job for machine in fleet.machines for job in machine.ahead]
        assert len(held) == len(set(held)), "a job is held once"
        assert not any(self.ended[job] for job in held), "a job that was served is not held again"
        assert len(fleet.machines) <= max(policy.minimum, policy.maximum)
        for machine in fleet.machines:
            assert len(machine.running) <= machine.slots
            assert len(machine.ahead) <= machine.slots * self._conditions.prefetch
        if settled:
            assert not (self._waiting.length and fleet.free), "no job waits while a worker is free"


@settings(max_examples=40)
@given(seeds, policies(), conditions, st.sampled_from([0.0, 1.0, 20.0]), st.sampled_from([0.0, 30.0, 120.0]))
def test_every_job_is_served_once_and_no_busy_worker_is_ended(
    seed: int, policy: Policy, conditions: Conditions, interruptions: float, notice: float
) -> None:
    trace = random_trace(seed)
    given = Conditions(
        conditions.interval_seconds,
        conditions.slots,
        conditions.start_seconds,
        conditions.pickup_seconds,
        prefetch=conditions.prefetch,
        interruptions_per_hour=interruptions,
        notice_seconds=notice,
    )
    replay = WatchedReplay(trace, policy, given)
    outcome = replay.run()
    assert dict(replay.ended) == dict.fromkeys(range(len(trace)), 1)
    assert min(outcome.waits) >= 0
    if not outcome.repeated_runs:
        assert outcome.run_seconds == pytest.approx(trace.work_seconds)
    assert outcome.run_seconds >= trace.work_seconds - 1e-6
    assert outcome.run_seconds <= sum(outcome.paid_seconds.values()) * given.slots + 1e-6


def steady(gap: float, run_seconds: float, hours: float) -> QueueTrace:
    count = int(hours * HOUR / gap)
    return trace_of([(number * gap, run_seconds, TraceLane()) for number in range(count)])


@settings(max_examples=10)
@given(st.floats(10, 280), st.floats(0.1, 200), conditions)
def test_a_fleet_does_not_flap_under_constant_arrivals(gap: float, run_seconds: float, conditions: Conditions) -> None:
    """It overshoots once while the first workers start, comes back, and stays."""
    outcome = TraceReplay(steady(gap, run_seconds, 3), Policy(maximum=100), conditions).run()
    assert outcome.turns <= 2


@settings(max_examples=20)
@given(st.floats(0.1, 4.9), st.floats(0, 5), st.integers(1, 10), st.integers(1, 3), st.booleans())
def test_a_fleet_with_jobs_shorter_than_the_check_interval_is_kept(
    run_seconds: float, phase: float, gap_ticks: int, slots: int, prefetch: bool
) -> None:
    """Jobs that are shorter than the time between two ticks, at the same moment between them."""
    policy = Policy(maximum=5, idle_seconds=60, scale_in_cooldown_seconds=60, warm_up_seconds=30)
    moments = [100.0 * phase, *(1000 + phase + number * gap_ticks * 5.0 for number in range(100))]
    trace = trace_of([(moment, run_seconds, TraceLane()) for moment in moments])
    outcome = TraceReplay(trace, policy, Conditions(5.0, slots=slots, prefetch=prefetch)).run()
    # For the first job, and for the others.
    assert (outcome.scale_outs, outcome.scale_ins, outcome.peak_workers) == (2, 1, 1)


@pytest.mark.thorough
@settings(max_examples=10)
@given(st.floats(310, 3000), conditions)
def test_a_fleet_that_goes_to_zero_changes_once_per_job_at_most(gap: float, conditions: Conditions) -> None:
    trace = steady(gap, 5, 8)
    outcome = TraceReplay(trace, Policy(maximum=5), conditions).run()
    assert outcome.scale_outs <= len(trace)
    assert outcome.scale_ins <= 8 * HOUR / 300 + 1


@settings(max_examples=10)
@given(st.integers(0, 2**32), st.floats(0.2, 0.85), st.integers(1, 4), st.integers(1, 8))
def test_the_backlog_is_bounded_while_arrivals_are_bounded(seed: int, load: float, slots: int, maximum: int) -> None:
    """Random arrivals that keep the fleet's maximum busy for at most 85 % of the time."""
    run_seconds = 40.0
    rate = load * maximum * slots / run_seconds
    made = Arrivals(rate * 86_400, days=0.2, run_seconds=run_seconds, run_spread=0.5, seed=seed)
    policy = Policy(maximum=maximum, warm_up_seconds=60.0, target_seconds=60.0)
    outcome = TraceReplay(make_trace(made), policy, Conditions(slots=slots)).run()
    # What comes until the first worker has started and then the others, and what a full fleet at this load lets wait.
    until_all_start = 2 * policy.warm_up_seconds + maximum * policy.scale_out_cooldown_seconds
    assert outcome.longest_queue <= 2 * rate * until_all_start + 20 / (1 - load) + 2 * maximum * slots


def test_the_same_seed_gives_the_same_result_and_another_seed_another() -> None:
    def outcome(seed: int) -> ReplayOutcome:
        trace = make_trace(Arrivals(2000, days=0.5, tenants=3, seed=1))
        noisy = Conditions(start_spread=0.3, run_noise=0.3, interruptions_per_hour=0.5, seed=seed)
        return TraceReplay(trace, Policy(maximum=4), noisy).run()

    assert outcome(1) == outcome(1)
    assert outcome(1).waits != outcome(2).waits


def test_no_workers_cost_nothing_and_the_minimum_always_costs() -> None:
    """One job an hour: the worker starts for it, runs, and goes after the idle time."""
    trace = steady(HOUR, 60.0, 24)
    to_zero = TraceReplay(trace, Policy(maximum=1)).run()
    assert set(to_zero.waits) == {180.0}
    each = sum(to_zero.paid_seconds.values()) / 24
    assert 180 + 60 + 200 < each < 180 + 60 + 325
    kept = TraceReplay(trace, Policy(minimum=1, maximum=1, on_demand_minimum=1)).run()
    assert set(kept.waits) == {0.0}
    assert kept.paid_seconds == {False: kept.seconds, True: 0.0}


def test_a_job_that_runs_longer_than_spot_workers_live_is_reported() -> None:
    trace = trace_of([(0.0, 8 * HOUR, TraceLane())])
    with pytest.raises(OperatorError, match=rf"A job that runs for 28800 s was interrupted {MAX_INTERRUPTIONS} times"):
        TraceReplay(trace, Policy(maximum=1), Conditions(interruptions_per_hour=60.0)).run()


def test_an_interrupted_worker_gives_its_job_back_and_the_wait_counts_until_the_run_that_completes() -> None:
    trace = trace_of([(float(number), 100.0, TraceLane()) for number in range(50)])
    given = Conditions(interruptions_per_hour=10.0, notice_seconds=10.0)
    outcome = TraceReplay(trace, Policy(maximum=3), given).run()
    assert outcome.interruptions > 0
    assert outcome.repeated_runs > 0
    assert outcome.run_seconds > trace.work_seconds


def test_the_simulated_queue_shares_fairly_like_the_dispatch() -> None:
    """A tenant with one job is not kept waiting by one with a hundred."""
    flood = [(0.0, 10.0, TraceLane("flood")) for _ in range(100)]
    trace = trace_of([*flood, (25.0, 10.0, TraceLane("newcomer"))])
    waits = TraceReplay(trace, Policy(minimum=1, maximum=1), Conditions(prefetch=False)).run().waits
    assert waits[100] == 5.0
    assert max(waits) == 1000.0


def test_a_fleet_does_not_end_a_worker_that_holds_jobs() -> None:
    fleet = SimulatedFleet(1, prefetch=True)
    machine = fleet.order(0.0, 0)
    fleet.start(machine, 1.0)
    machine.running[1] = 1.0
    with pytest.raises(AssertionError, match="never ended"):
        fleet.remove(machine, 2.0)


def test_a_worker_that_takes_longer_to_start_than_the_warm_up_is_ended_and_paid_for() -> None:
    trace = steady(HOUR, 60.0, 24)
    slow = Conditions(start_seconds=100.0, start_spread=1.0)
    outcome = TraceReplay(trace, Policy(maximum=1), slow).run()
    assert outcome.ordered_workers > len(trace)
    assert max(outcome.waits) > 180.0
    with pytest.raises(OperatorError, match=r"Workers take 200 s to start, .* its warm-up of 180 s"):
        TraceReplay(trace, Policy(maximum=1), Conditions(start_seconds=200.0))


def test_the_simulation_checks_the_fleet_as_often_as_the_autoscaler() -> None:
    assert Conditions().interval_seconds == ScalingSettings().interval_seconds


def test_progress_is_reported_until_the_end() -> None:
    progress: list[int] = []
    TraceReplay(steady(10, 1, 1), Policy(maximum=2)).run(progress.append)
    assert progress == [360]


def test_times_vary_around_their_mean() -> None:
    from callsheet_simulation.run_times import RunTimeDistribution

    drawn = [RunTimeDistribution(30.0, 0.5, Random(seed)).draw() for seed in range(4000)]
    assert sum(drawn) / len(drawn) == pytest.approx(30.0, rel=0.05)
    assert RunTimeDistribution(30.0, 0.0, Random(1)).draw() == 30.0


@pytest.mark.parametrize(("jobs", "prefetch", "waiting"), [(12, True, 0), (13, True, 1), (13, False, 7)])
def test_a_worker_fetches_one_job_in_advance_for_each_that_it_runs(jobs: int, prefetch: bool, waiting: int) -> None:
    """Two workers that run three jobs each."""
    given = Conditions(slots=3, prefetch=prefetch)
    outcome = TraceReplay(steady(1.0, 100.0, jobs / HOUR), Policy(minimum=2, maximum=2), given).run()
    assert outcome.longest_queue == waiting


def test_a_prefetched_job_waits_for_the_full_worker_that_happens_to_ask_first() -> None:
    """Agents ask at moments of their own, so it is not always the worker that is done first. The same seed has the same
    result."""
    busy = [(float(moment), 100.0, TraceLane()) for moment in range(5)]
    trace = trace_of([*busy, (10.0, 100.0, TraceLane())])
    fleet = Policy(minimum=5, maximum=5)
    waits = [TraceReplay(trace, fleet, Conditions(seed=seed)).run().waits[5] for seed in range(40)]
    assert set(waits) == {90.0, 91.0, 92.0, 93.0, 94.0}
    assert waits == [TraceReplay(trace, fleet, Conditions(seed=seed)).run().waits[5] for seed in range(40)]
