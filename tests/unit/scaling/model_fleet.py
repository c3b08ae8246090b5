"""A fleet in memory that does what the policy says: jobs come, workers start, run, drain and end. Seconds, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from callsheet.scaling.policy import Decision, History, Policy, PolicyWorker, Situation, decide

TICK = 5.0


@dataclass(slots=True)
class ModelWorker:
    id: str
    slots: int
    is_spot: bool
    started_at: float
    idle_since: float
    is_draining: bool = False
    # What is left of each job it runs.
    left: list[float] = field(default_factory=list)

    def seen(self) -> PolicyWorker:
        idle_since = None if self.left else self.idle_since
        return PolicyWorker(
            self.id, self.slots, len(self.left), self.is_draining, self.is_spot, self.started_at, idle_since
        )


class ModelFleet:
    """One tick of TICK seconds at a time. `boot` is how long a worker takes from its order to its registration."""

    def __init__(self, policy: Policy, *, slots: int = 1, boot: float = 60.0):
        self.policy = policy
        self.slots = slots
        self.boot = boot
        self.now = 0.0
        self.queue: deque[float] = deque()
        self.workers: list[ModelWorker] = []
        self.coming: list[tuple[float, ModelWorker]] = []
        self.history = History()
        self.started = 0
        self.peak_workers = 0

    def tick(self, arrivals: Sequence[float]) -> tuple[Situation, Decision]:
        self.queue.extend(arrivals)
        self._register()
        self._take()
        situation = Situation(
            self.now,
            len(self.queue),
            sum(self.queue),
            [worker.seen() for worker in self.workers],
            len(self.coming),
            self.history,
        )
        decision = decide(self.policy, situation)
        self._follow(decision)
        self._run()
        return situation, decision

    def _register(self) -> None:
        self.workers += [worker for due, worker in self.coming if due <= self.now]
        self.coming = [(due, worker) for due, worker in self.coming if due > self.now]

    def _take(self) -> None:
        for worker in sorted(self.workers, key=lambda worker: len(worker.left)):
            while self.queue and not worker.is_draining and len(worker.left) < worker.slots:
                worker.left.append(self.queue.popleft())

    def _follow(self, decision: Decision) -> None:
        self.history = decision.history
        for worker in self.workers:
            worker.is_draining = (
                worker.is_draining or worker.id in decision.drain
            ) and worker.id not in decision.undrain
        serving = [worker for worker in self.workers if not worker.is_draining]
        missing = decision.wanted - len(serving) - len(self.coming)
        on_demand = sum(not worker.is_spot for worker in [*serving, *(worker for _, worker in self.coming)])
        for _ in range(missing):
            self.started += 1
            is_spot = on_demand >= decision.on_demand
            on_demand += not is_spot
            due = self.now + self.boot
            self.coming.append((due, ModelWorker(f"w{self.started:04}", self.slots, is_spot, due, due)))
        self.peak_workers = max(self.peak_workers, len(self.workers) + len(self.coming))

    def _run(self) -> None:
        self.now += TICK
        for worker in self.workers:
            was_busy = bool(worker.left)
            worker.left = [left - TICK for left in worker.left if left > TICK]
            if was_busy and not worker.left:
                worker.idle_since = self.now
        # Only who was drained and idle before this tick ends: in between a worker may take work again.
        self.workers = [worker for worker in self.workers if not worker.is_draining or worker.left]
