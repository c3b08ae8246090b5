"""The workers of a simulated fleet, from order to end: which worker takes the next job, and the paid time."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict, deque

from callsheet.scaling.memory import unseen_slots
from callsheet.scaling.policy import PolicyWorker
from callsheet.wire.worker.protocol import max_leases


class SimulatedMachine:
    """One worker, compared by identity. `seen` is the policy's view of it, rebuilt only after a change."""

    __slots__ = (
        "ahead",
        "ended_runs",
        "ended_seconds",
        "held",
        "id",
        "idle_since",
        "is_draining",
        "is_leaving",
        "is_spot",
        "number",
        "ordered_at",
        "running",
        "seen",
        "slots",
        "started_at",
        "turn",
    )

    def __init__(self, number: int, slots: int, ordered_at: float, *, is_spot: bool):
        self.number = number
        self.id = f"worker-{number}"
        self.slots = slots
        self.is_spot = is_spot
        self.ordered_at = ordered_at
        # None until the worker takes jobs.
        self.started_at: float | None = None
        # Running jobs with their start times.
        self.running: dict[int, float] = {}
        # Prefetched jobs, in the order in which they will run.
        self.ahead: deque[int] = deque()
        self.idle_since = ordered_at
        self.is_draining = False
        # An interrupted worker ends soon, even if it holds jobs, and gets no more.
        self.is_leaving = False
        # The place among the full workers that may prefetch; None for a worker that may not.
        self.turn: int | None = None
        self.seen: PolicyWorker | None = None
        # Jobs held at the last tick; runs that ended since then, and their total seconds.
        self.held = 0
        self.ended_runs = 0
        self.ended_seconds = 0.0

    @property
    def is_empty(self) -> bool:
        # A prefetched job runs as soon as a slot is free.
        return not self.running

    @property
    def takes_work(self) -> bool:
        return not self.is_draining and not self.is_leaving

    def observe(self, elapsed: float) -> PolicyWorker:
        """The policy's view of the worker, `elapsed` seconds after the last tick."""
        assert self.started_at is not None, "the policy sees a worker when it has started"
        busy = len(self.running) + len(self.ahead)
        unseen = 0.0
        if self.ended_runs:
            unseen = unseen_slots(self.slots, self.ended_runs, self.ended_seconds, self.held, elapsed)
            self.ended_runs, self.ended_seconds = 0, 0.0
        self.held = busy
        worker = PolicyWorker(
            self.id,
            self.slots,
            busy,
            not self.takes_work,
            self.is_spot,
            self.started_at,
            None if busy else self.idle_since,
            can_be_undrained=not self.is_leaving,
            unseen=unseen,
        )
        # Jobs between two ticks count once.
        self.seen = None if unseen else worker
        return worker


def turn_of(seed: int, number: int, newest_job: int, ahead: int) -> int:
    """The order in which full workers ask for a job to prefetch.

    Each agent asks about once a second at its own moments, so the next one is random: it is not the worker that is done
    first, which would be best for the job. The order changes with each job that a worker takes.
    """
    return hash((seed, number, newest_job, ahead))


class FullWorkers:
    """The workers that run as many jobs as they can and may prefetch another one, in the order of their turns."""

    __slots__ = ("_order",)

    def __init__(self) -> None:
        # Numbers are unique, so machines are never compared.
        self._order: list[tuple[int, int, SimulatedMachine]] = []

    def __bool__(self) -> bool:
        return bool(self._order)

    def add(self, machine: SimulatedMachine, turn: int) -> None:
        machine.turn = turn
        insort(self._order, (turn, machine.number, machine))

    def discard(self, machine: SimulatedMachine) -> None:
        if machine.turn is not None:
            del self._order[bisect_left(self._order, (machine.turn, machine.number))]
            machine.turn = None

    def take(self) -> SimulatedMachine:
        _, _, machine = self._order.pop(0)
        machine.turn = None
        return machine


class SimulatedFleet:
    def __init__(self, slots: int, *, prefetch: bool, seed: int = 1):
        self._slots = slots
        self._seed = seed
        self._max_held = max_leases(slots, prefetch=prefetch)
        # In the order in which they were ordered.
        self.machines: dict[SimulatedMachine, None] = {}
        self.starting: dict[SimulatedMachine, None] = {}
        # Workers with a free slot: first come, first served.
        self.free: OrderedDict[SimulatedMachine, None] = OrderedDict()
        self.fetching = FullWorkers()
        self.ordered = 0
        self.peak = 0
        # Time from order to end, by `is_spot`; and the part of it from order to start.
        self.paid_seconds = {False: 0.0, True: 0.0}
        self.starting_seconds = 0.0

    def order(self, now: float, on_demand: int) -> SimulatedMachine:
        """Orders a worker. `on_demand`: how many of the workers that take jobs should be on-demand; the others are
        spot.
        """
        have = sum(not machine.is_spot for machine in self.machines if machine.takes_work)
        self.ordered += 1
        machine = SimulatedMachine(self.ordered, self._slots, now, is_spot=have >= on_demand)
        self.machines[machine] = self.starting[machine] = None
        self.peak = max(self.peak, len(self.machines))
        return machine

    def start(self, machine: SimulatedMachine, now: float) -> None:
        del self.starting[machine]
        self.starting_seconds += now - machine.ordered_at
        machine.started_at = machine.idle_since = now
        self.free[machine] = None

    def end_overdue(self, now: float, warm_up_seconds: float) -> None:
        """Removes the workers that did not start in time."""
        for machine in [each for each in self.starting if now - each.ordered_at > warm_up_seconds]:
            del self.starting[machine]
            self.remove(machine, now)

    def drain(self, machine: SimulatedMachine) -> None:
        machine.is_draining = True
        machine.seen = None
        self.free.pop(machine, None)
        self.fetching.discard(machine)

    def undrain(self, machine: SimulatedMachine) -> None:
        machine.is_draining = False
        self.offer(machine)

    def offer(self, machine: SimulatedMachine) -> None:
        """Puts the worker among those that wait for a job, if it may take one."""
        machine.seen = None
        self.fetching.discard(machine)
        if not machine.takes_work:
            return
        if len(machine.running) < machine.slots:
            self.free[machine] = None
        elif len(machine.running) + len(machine.ahead) < self._max_held:
            newest_job = next(reversed(machine.running))
            self.fetching.add(machine, turn_of(self._seed, machine.number, newest_job, len(machine.ahead)))

    def remove(self, machine: SimulatedMachine, now: float) -> None:
        assert machine.is_empty, "a worker that holds jobs is never ended"
        del self.machines[machine]
        self.pay(machine, now)

    def pay(self, machine: SimulatedMachine, now: float) -> None:
        self.paid_seconds[machine.is_spot] += now - machine.ordered_at
        if machine.started_at is None:
            self.starting_seconds += now - machine.ordered_at
