"""Replays a trace against a policy: a loop over events, without a clock.

Events of the same moment happen in this order: scheduled events (runs that end, workers that start or are interrupted),
arrivals, then the autoscaler's tick.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any

from callsheet.scaling.policy import Decision, History, Policy, Situation, decide, unchanged_until, watched_on
from callsheet.toolbox.errors import OperatorError
from callsheet_simulation.conditions import Conditions
from callsheet_simulation.run_times import Averages, RunTimeDistribution
from callsheet_simulation.simulated_fleet import SimulatedFleet, SimulatedMachine
from callsheet_simulation.trace import QueueTrace
from callsheet_simulation.waiting_jobs import WaitingJobs

HOUR = 3600.0
PROGRESS_EVERY = 20_000
# A job that is interrupted this often runs longer than spot workers live, and would never end.
MAX_INTERRUPTIONS = 100

# Called with the number of jobs that have arrived so far.
OnProgress = Callable[[int], object]
# Time, number, handler, and the handler's argument. Numbers are unique, so handlers are never compared.
Event = tuple[float, int, Callable[[Any], None], Any]


@dataclass(slots=True)
class ReplayOutcome:
    """The measurements of a replay. Times are in seconds."""

    # Wait of each job, from its arrival to the start of the run that was completed.
    waits: array[float]
    # From the start of the trace to the end of the last job.
    seconds: float = 0.0
    run_seconds: float = 0.0
    slots: int = 1
    # Paid time of workers from order to end, by `is_spot`; and the part of it before they took jobs.
    paid_seconds: dict[bool, float] = field(default_factory=dict)
    starting_seconds: float = 0.0
    peak_workers: int = 0
    ordered_workers: int = 0
    scale_outs: int = 0
    scale_ins: int = 0
    # How often a change of the fleet's size had another direction than the previous change.
    turns: int = 0
    longest_queue: int = 0
    interruptions: int = 0
    # Runs that were interrupted and started again.
    repeated_runs: int = 0


class TraceReplay:
    def __init__(self, trace: QueueTrace, policy: Policy, conditions: Conditions | None = None):
        self._trace = trace
        self._policy = policy
        self._conditions = conditions = conditions or Conditions()
        self._submitted = trace.submitted
        self._waiting = WaitingJobs(trace)
        self._averages = Averages(self._waiting.workflows)
        random = Random(conditions.seed)  # noqa: S311 (a simulation)
        start = policy.warm_up_seconds if conditions.start_seconds is None else conditions.start_seconds
        if start > policy.warm_up_seconds:
            raise OperatorError(
                f"Workers take {start:g} s to start, and the policy ends those that take longer than its warm-up of "
                f"{policy.warm_up_seconds:g} s. Use a longer warm-up."
            )
        self._start_times = RunTimeDistribution(start, conditions.start_spread, random)
        self._noise = RunTimeDistribution(1.0, conditions.run_noise, random)
        self._random = random
        self._fleet = SimulatedFleet(conditions.slots, prefetch=conditions.prefetch, seed=conditions.seed)
        self._events: list[Event] = []
        self._event_number = 0
        self._now = 0.0
        self._left = len(trace)
        # The number of the autoscaler's next tick, and the time of the next tick that is made: ticks that cannot change
        # anything are left out.
        self._tick, self._next_tick = 0, 0.0
        self._leaves_out = False
        self._history = History()
        self._last_change = 0
        self._interrupted: Counter[int] = Counter()
        self._outcome = ReplayOutcome(array("d", bytes(8 * len(trace))), slots=conditions.slots)

    def run(self, on_progress: OnProgress = lambda arrived: None) -> ReplayOutcome:
        """Runs until every job has been served. The fleet starts with its minimum of workers."""
        for _ in range(self._policy.minimum):
            self._start(self._fleet.order(self._now, self._policy.on_demand(self._policy.minimum)))
        submitted, events, waiting = self._submitted, self._events, self._waiting
        place, total = 0, len(submitted)
        arrival = submitted[0] if total else math.inf
        while self._left:
            event = events[0][0] if events else math.inf
            tick = self._next_tick
            if event <= arrival and event <= tick:
                self._now, _, happen, subject = heappop(events)
                happen(subject)
            elif arrival <= tick:
                self._now = arrival
                waiting.add(place)
                self._hand_out()
                place += 1
                arrival = submitted[place] if place < total else math.inf
                if not place % PROGRESS_EVERY:
                    on_progress(place)
            else:
                self._now = tick
                self._observe_fleet()
                continue
            if self._leaves_out:
                self._wake()
        on_progress(total)
        return self._settled()

    def _settled(self) -> ReplayOutcome:
        fleet, outcome = self._fleet, self._outcome
        for machine in fleet.machines:
            fleet.pay(machine, self._now)
        outcome.seconds = self._now
        outcome.paid_seconds, outcome.starting_seconds = fleet.paid_seconds, fleet.starting_seconds
        outcome.peak_workers, outcome.ordered_workers = fleet.peak, fleet.ordered
        return outcome

    # Jobs

    def _hand_out(self) -> None:
        """Gives waiting jobs to workers with a free slot, then to workers that prefetch."""
        waiting, fleet = self._waiting, self._fleet
        while waiting.length:
            if fleet.free:
                machine, _ = fleet.free.popitem(last=False)
                job = waiting.take()
                self._begin(machine, job, self._now + self._pickup_seconds(job))
                fleet.offer(machine)
            elif fleet.fetching:
                machine = fleet.fetching.take()
                machine.ahead.append(waiting.take())
                fleet.offer(machine)
            else:
                break
        if waiting.length > self._outcome.longest_queue:
            self._outcome.longest_queue = waiting.length

    def _pickup_seconds(self, job: int) -> float:
        """The pickup time of a job. A test replaces this by the times that it measured."""
        return self._conditions.pickup_seconds

    def _begin(self, machine: SimulatedMachine, job: int, moment: float) -> None:
        """Starts a run at `moment`; until then the worker fetches its files."""
        machine.running[job] = moment
        self._outcome.waits[job] = moment - self._submitted[job]
        self._schedule(moment + self._trace.run_seconds[job] * self._noise.draw(), self._end_run, (machine, job))

    def _end_run(self, subject: tuple[SimulatedMachine, int]) -> None:
        machine, job = subject
        started = machine.running.pop(job, None)
        if started is None:
            # The worker was interrupted, and the job runs again elsewhere.
            return
        took = self._now - started
        self._outcome.run_seconds += took
        machine.ended_runs += 1
        machine.ended_seconds += took
        self._averages.observe(self._waiting.workflow_of(job), took)
        self._waiting.end(job)
        self._left -= 1
        if machine.ahead:
            self._begin(machine, machine.ahead.popleft(), self._now)
        elif not machine.running:
            machine.idle_since = self._now
        self._fleet.offer(machine)
        if self._waiting.length:
            self._hand_out()

    # Workers

    def _start(self, machine: SimulatedMachine) -> None:
        if machine not in self._fleet.starting:
            # The worker was ended because its start took too long.
            return
        self._fleet.start(machine, self._now)
        if machine.is_spot and self._conditions.interruptions_per_hour:
            lives = self._random.expovariate(self._conditions.interruptions_per_hour / HOUR)
            self._schedule(self._now + lives, self._interrupt, machine)
        self._hand_out()

    def _interrupt(self, machine: SimulatedMachine) -> None:
        if machine not in self._fleet.machines:
            return
        self._outcome.interruptions += 1
        self._fleet.drain(machine)
        machine.is_leaving = True
        for job in machine.ahead:
            self._waiting.requeue(job)
        machine.ahead.clear()
        self._schedule(self._now + self._conditions.notice_seconds, self._cut_off, machine)
        self._hand_out()

    def _cut_off(self, machine: SimulatedMachine) -> None:
        """Ends a worker after its notice period: running jobs are requeued in their old places."""
        if machine not in self._fleet.machines:
            return
        for job, started in machine.running.items():
            self._outcome.run_seconds += max(0.0, self._now - started)
            self._outcome.repeated_runs += 1
            self._interrupted[job] += 1
            if self._interrupted[job] >= MAX_INTERRUPTIONS:
                raise OperatorError(
                    f"A job that runs for {self._trace.run_seconds[job]:.0f} s was interrupted {MAX_INTERRUPTIONS} "
                    "times and does not end. Use fewer interruptions, or policies with on-demand workers."
                )
            self._waiting.requeue(job)
        machine.running.clear()
        self._fleet.remove(machine, self._now)
        self._hand_out()

    # The autoscaler

    def _observe_fleet(self) -> None:
        fleet, waiting, interval = self._fleet, self._waiting, self._conditions.interval_seconds
        if self._leaves_out:
            self._stop_skipping_at(round(self._now / interval))
        machines = [machine for machine in fleet.machines if machine.started_at is not None]
        fleet.end_overdue(self._now, self._policy.warm_up_seconds)
        seconds = self._averages.of_queue(waiting.by_workflow) if waiting.length else 0.0
        workers = [machine.seen or machine.observe(interval) for machine in machines]
        decision = decide(
            self._policy, Situation(self._now, waiting.length, seconds, workers, len(fleet.starting), self._history)
        )
        self._history = decision.history
        has_changed = self._follow(decision, machines)
        self._tick += 1
        self._next_tick = self._tick_time(self._tick)
        if not has_changed:
            self._skip_ticks(machines)

    def _tick_time(self, number: int) -> float:
        """A test replaces this by the times that it measured."""
        return number * self._conditions.interval_seconds

    def _skip_ticks(self, machines: list[SimulatedMachine]) -> None:
        """Skips ticks that see and decide the same as the last one, until an event happens. A test compares this with
        every tick being made."""
        policy, interval = self._policy, self._conditions.interval_seconds
        if any(machine.seen is None for machine in machines):
            # Jobs between two ticks count in one tick only.
            return
        until = unchanged_until(policy, self._history)
        for machine in self._fleet.starting:
            until = min(until, machine.ordered_at + policy.warm_up_seconds)
        number = math.floor(until / interval) if until < math.inf else math.inf
        if number > self._tick:
            self._next_tick, self._leaves_out = number * interval, True

    def _wake(self) -> None:
        """Records that an event has happened: the first tick from now on is made."""
        interval = self._conditions.interval_seconds
        number = math.ceil(self._now / interval)
        if number * interval < self._now:
            number += 1
        elif (number - 1) * interval >= self._now:
            number -= 1
        self._stop_skipping_at(max(self._tick, number))

    def _stop_skipping_at(self, number: int) -> None:
        """Ends the skipping. The skipped ticks saw the same as the last one."""
        interval = self._conditions.interval_seconds
        self._history = watched_on(self._history, (number - 1) * interval)
        self._tick, self._next_tick, self._leaves_out = number, number * interval, False

    def _follow(self, decision: Decision, machines: list[SimulatedMachine]) -> bool:
        """Applies the decision; returns whether anything has changed."""
        fleet = self._fleet
        # One tick drains a worker; a later tick ends it when it holds no job.
        done = [machine for machine in machines if machine.is_draining and machine.is_empty]
        if decision.drain or decision.undrain:
            by_id = {machine.id: machine for machine in machines}
            for worker_id in decision.drain:
                fleet.drain(by_id[worker_id])
            for worker_id in decision.undrain:
                fleet.undrain(by_id[worker_id])
        # As in a driver: the wanted number minus the existing workers.
        draining = sum(not machine.takes_work for machine in machines)
        missing = decision.wanted + draining - len(fleet.machines)
        for _ in range(missing):
            machine = fleet.order(self._now, decision.on_demand)
            self._schedule(self._now + self._start_times.draw(), self._start, machine)
        self._count(1 if missing > 0 or decision.undrain else -1 if decision.drain else 0)
        for machine in done:
            if machine.is_draining:
                fleet.remove(machine, self._now)
        if decision.undrain:
            self._hand_out()
        return missing > 0 or bool(decision.drain or decision.undrain or done)

    def _count(self, change: int) -> None:
        if change:
            self._outcome.scale_outs += change > 0
            self._outcome.scale_ins += change < 0
            self._outcome.turns += self._last_change == -change
            self._last_change = change

    def _schedule(self, moment: float, happen: Callable[[Any], None], subject: object) -> None:
        self._event_number += 1
        heappush(self._events, (moment, self._event_number, happen, subject))
