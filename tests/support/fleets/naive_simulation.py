"""A slow, simple simulator, to compare the fast one with. It has no interruptions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from callsheet.dispatch.order.fairness import Contender, Turn
from callsheet.scaling.policy import History, Policy, PolicyWorker, Situation, decide
from callsheet_simulation.conditions import Conditions
from callsheet_simulation.simulated_fleet import turn_of
from callsheet_simulation.trace import QueueTrace


@dataclass(eq=False)
class NaiveMachine:
    number: int
    ordered_at: float
    starts_at: float
    is_spot: bool
    scheduled: int
    # For each job: start, end, and its position in the order of scheduling.
    runs: dict[int, tuple[float, float, int]] = field(default_factory=dict)
    ahead: list[int] = field(default_factory=list)
    is_draining: bool = False
    idle_since: float = 0.0
    # When it last asked for work; the worker that waits longest is served first.
    turn: int = 0
    ended_at: float | None = None
    # Since the last decision: the ended jobs, their duration, and the number of jobs held.
    ended: list[float] = field(default_factory=list)
    held: int = 0

    def unseen(self, slots: int, elapsed: float) -> float:
        count = len(self.ended)
        return min(slots, sum(self.ended) * (count - self.held) / count / elapsed) if count > self.held else 0.0


class NaiveTenant:
    def __init__(self) -> None:
        self.contender = Contender()
        self.turn = Turn()
        self.users: dict[str, Contender] = {}


class NaiveSimulation:
    def __init__(self, trace: QueueTrace, policy: Policy, conditions: Conditions):
        self.trace, self.policy, self.conditions = trace, policy, conditions
        self.start_seconds = policy.warm_up_seconds if conditions.start_seconds is None else conditions.start_seconds
        self.keys = [trace.keys[number] for number in trace.key_of]
        self.machines: list[NaiveMachine] = []
        self.waiting: list[int] = []
        self.waits: dict[int, float] = {}
        self.tenants: dict[str, NaiveTenant] = {}
        self.turn = Turn()
        self.averages: dict[str, tuple[float, int]] = {}
        self.history = History()
        self.turns = 0
        self.scheduled = 0
        self.now = 0.0
        # (now, workers that take jobs, wanted) at every decision.
        self.ticks: list[tuple[float, int, int]] = []

    def run(self) -> dict[int, float]:
        for _ in range(self.policy.minimum):
            machine = self.order(self.policy.on_demand(self.policy.minimum), 0.0)
            self.ask(machine)
        arrivals, ticks, done = 0, 0, 0
        while done < len(self.trace):
            ends = [until for each in self.there() for _, until, _ in each.runs.values()]
            starts = [each.starts_at for each in self.there() if not each.turn]
            arrival = self.trace.submitted[arrivals] if arrivals < len(self.trace) else math.inf
            tick = ticks * self.conditions.interval_seconds
            scheduled = min([*ends, *starts], default=math.inf)
            self.now = min(scheduled, arrival, tick)
            if scheduled == self.now:
                done += self.happen()
            elif arrival == self.now:
                self.arrive(arrivals)
                arrivals += 1
            else:
                self.tick()
                ticks += 1
        for each in self.there():
            each.ended_at = self.now
        return self.waits

    def there(self) -> list[NaiveMachine]:
        return [each for each in self.machines if each.ended_at is None]

    def happen(self) -> int:
        """Handles the due event that was scheduled first."""
        runs = [(each.runs[job], each, job) for each in self.there() for job in each.runs]
        due = [(number, each, job) for (_, until, number), each, job in runs if until == self.now]
        due += [(each.scheduled, each, -1) for each in self.there() if not each.turn and each.starts_at == self.now]
        _, machine, job = min(due, key=lambda each: each[0])
        if not machine.turn:
            self.ask(machine)
            return 0
        was_free, was_fetching = self.is_free(machine), self.may_fetch(machine)
        started_at, _, _ = machine.runs.pop(job)
        self.observe(self.keys[job].workflow, self.now - started_at)
        machine.ended.append(self.now - started_at)
        tenant = self.tenants[self.keys[job].tenant]
        tenant.contender.in_flight -= 1
        tenant.users[self.keys[job].user].in_flight -= 1
        if machine.ahead:
            self.begin(machine, machine.ahead.pop(0))
        elif not machine.runs:
            machine.idle_since = self.now
        if not was_free and (self.is_free(machine) or not was_fetching):
            self.ask(machine)
        return 1

    def is_free(self, machine: NaiveMachine) -> bool:
        return len(machine.runs) < self.conditions.slots

    def may_fetch(self, machine: NaiveMachine) -> bool:
        return self.conditions.prefetch and not self.is_free(machine) and len(machine.ahead) < self.conditions.slots

    def observe(self, workflow: str, seconds: float) -> None:
        mean, samples = self.averages.get(workflow, (0.0, 0))
        self.averages[workflow] = mean + (seconds - mean) * max(1 / (samples + 1), 0.1), samples + 1

    def ask(self, machine: NaiveMachine) -> None:
        if not machine.turn:
            machine.idle_since = self.now
        self.turns += 1
        machine.turn = self.turns
        self.hand_out()

    def arrive(self, job: int) -> None:
        key = self.keys[job]
        tenant = self.tenants.setdefault(key.tenant, NaiveTenant())
        user = tenant.users.setdefault(key.user, Contender())
        waiting = [self.keys[each] for each in self.waiting]
        if key.tenant not in [each.tenant for each in waiting]:
            self.turn.arrive(tenant.contender, job)
        if key[:2] not in [each[:2] for each in waiting]:
            tenant.turn.arrive(user, job)
        self.waiting.append(job)
        self.hand_out()

    def hand_out(self) -> None:
        while self.waiting:
            able = [each for each in self.there() if each.turn and not each.is_draining]
            free = [each for each in able if self.is_free(each)]
            full = [each for each in able if self.may_fetch(each)]
            chosen = min(free, key=lambda each: each.turn) if free else min(full, key=self.turn_of, default=None)
            if chosen is None:
                return
            job = self.next_job()
            if free:
                self.begin(chosen, job, self.conditions.pickup_seconds)
            else:
                chosen.ahead.append(job)
            self.turns += 1
            chosen.turn = self.turns

    def turn_of(self, machine: NaiveMachine) -> int:
        return turn_of(self.conditions.seed, machine.number, list(machine.runs)[-1], len(machine.ahead))

    def next_job(self) -> int:
        keys = self.keys
        highest = max(keys[job].priority for job in self.waiting)
        able = [job for job in self.waiting if keys[job].priority == highest]
        job = min(
            able,
            key=lambda job: (
                self.tenants[keys[job].tenant].contender.order(),
                self.tenants[keys[job].tenant].users[keys[job].user].order(),
                job,
            ),
        )
        tenant = self.tenants[keys[job].tenant]
        self.turn.serve(tenant.contender)
        tenant.turn.serve(tenant.users[keys[job].user])
        self.waiting.remove(job)
        return job

    def begin(self, machine: NaiveMachine, job: int, pickup: float = 0.0) -> None:
        self.scheduled += 1
        start = self.now + pickup
        machine.runs[job] = start, start + self.trace.run_seconds[job], self.scheduled
        self.waits[job] = start - self.trace.submitted[job]

    def order(self, on_demand: int, start_seconds: float) -> NaiveMachine:
        have = sum(not each.is_spot for each in self.there() if not each.is_draining)
        self.scheduled += 1
        number, starts_at = len(self.machines) + 1, self.now + start_seconds
        machine = NaiveMachine(number, self.now, starts_at, have >= on_demand, self.scheduled)
        self.machines.append(machine)
        return machine

    def tick(self) -> None:
        policy, now = self.policy, self.now
        started = [each for each in self.there() if each.turn]
        coming = sum(1 for each in self.there() if not each.turn)
        seconds = sum(self.averages.get(self.keys[job].workflow, (60.0, 0))[0] for job in self.waiting)
        done = [each for each in started if each.is_draining and not each.runs]
        workers = [
            PolicyWorker(
                f"worker-{each.number}",
                self.conditions.slots,
                len(each.runs) + len(each.ahead),
                each.is_draining,
                each.is_spot,
                each.starts_at,
                None if each.runs else each.idle_since,
                unseen=each.unseen(self.conditions.slots, self.conditions.interval_seconds),
            )
            for each in started
        ]
        for each in started:
            each.ended, each.held = [], len(each.runs) + len(each.ahead)
        decision = decide(policy, Situation(now, len(self.waiting), seconds, workers, coming, self.history))
        self.ticks.append((now, sum(not each.is_draining for each in started), decision.wanted))
        self.history = decision.history
        for each in started:
            name = f"worker-{each.number}"
            if name in decision.drain:
                each.is_draining = True
            if name in decision.undrain:
                each.is_draining = False
                self.turns += 1
                each.turn = self.turns
        draining = [each for each in started if each.is_draining]
        for _ in range(decision.wanted + len(draining) - len(self.there())):
            self.order(decision.on_demand, self.start_seconds)
        for each in done:
            if each.is_draining:
                each.ended_at = now
        self.hand_out()
