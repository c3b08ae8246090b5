"""The workers of a simulated fleet, from order to end: which worker takes the next job, and the paid time."""

from __future__ import annotations

from collections import OrderedDict, deque

from callsheet.scaling.memory import unseen_slots
from callsheet.scaling.policy import Worker
from callsheet.wire.worker import most_leases


class Machine:
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
        "ordered_at",
        "running",
        "seen",
        "slots",
        "started_at",
    )

    def __init__(self, number: int, slots: int, ordered_at: float, *, is_spot: bool):
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
        self.seen: Worker | None = None
        # Jobs held at the last look; runs that ended since then, and their total seconds.
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

    def look_at(self, elapsed: float) -> Worker:
        """The policy's view of the worker, `elapsed` seconds after the last look."""
        assert self.started_at is not None, "the policy sees a worker when it has started"
        busy = len(self.running) + len(self.ahead)
        unseen = 0.0
        if self.ended_runs:
            unseen = unseen_slots(self.slots, self.ended_runs, self.ended_seconds, self.held, elapsed)
            self.ended_runs, self.ended_seconds = 0, 0.0
        self.held = busy
        worker = Worker(
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
        # Jobs between two looks count once.
        self.seen = None if unseen else worker
        return worker


class SimulatedFleet:
    def __init__(self, slots: int, *, prefetch: bool):
        self._slots = slots
        self._most_held = most_leases(slots, prefetch=prefetch)
        # In the order in which they were ordered.
        self.machines: dict[Machine, None] = {}
        self.starting: dict[Machine, None] = {}
        # Workers with a free slot, and full workers that may prefetch a job: first come, first served.
        self.free: OrderedDict[Machine, None] = OrderedDict()
        self.fetching: OrderedDict[Machine, None] = OrderedDict()
        self.ordered = 0
        self.most = 0
        # Time from order to end, by `is_spot`; and the part of it from order to start.
        self.paid_seconds = {False: 0.0, True: 0.0}
        self.starting_seconds = 0.0

    def order(self, now: float, on_demand: int) -> Machine:
        """`on_demand`: how many of the workers that take jobs should be on-demand; the others are spot."""
        have = sum(not machine.is_spot for machine in self.machines if machine.takes_work)
        self.ordered += 1
        machine = Machine(self.ordered, self._slots, now, is_spot=have >= on_demand)
        self.machines[machine] = self.starting[machine] = None
        self.most = max(self.most, len(self.machines))
        return machine

    def start(self, machine: Machine, now: float) -> None:
        del self.starting[machine]
        self.starting_seconds += now - machine.ordered_at
        machine.started_at = machine.idle_since = now
        self.free[machine] = None

    def end_overdue(self, now: float, warm_up_seconds: float) -> None:
        """Removes the workers that did not start in time."""
        for machine in [each for each in self.starting if now - each.ordered_at > warm_up_seconds]:
            del self.starting[machine]
            self.remove(machine, now)

    def drain(self, machine: Machine) -> None:
        machine.is_draining = True
        machine.seen = None
        self.free.pop(machine, None)
        self.fetching.pop(machine, None)

    def undrain(self, machine: Machine) -> None:
        machine.is_draining = False
        self.offer(machine)

    def offer(self, machine: Machine) -> None:
        """Puts the worker at the end of the waiting workers, if it may take jobs."""
        machine.seen = None
        if not machine.takes_work:
            return
        if len(machine.running) < machine.slots:
            self.fetching.pop(machine, None)
            self.free[machine] = None
        elif len(machine.running) + len(machine.ahead) < self._most_held:
            self.fetching[machine] = None

    def remove(self, machine: Machine, now: float) -> None:
        assert machine.is_empty, "a worker that holds jobs is never ended"
        del self.machines[machine]
        self.pay(machine, now)

    def pay(self, machine: Machine, now: float) -> None:
        self.paid_seconds[machine.is_spot] += now - machine.ordered_at
        if machine.started_at is None:
            self.starting_seconds += now - machine.ordered_at
