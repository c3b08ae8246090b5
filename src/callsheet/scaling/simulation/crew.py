"""The workers of a simulated fleet, from order to end: who takes the next job, and what is paid for."""

from __future__ import annotations

from collections import OrderedDict, deque

from callsheet.scaling.memory import unseen_slots
from callsheet.scaling.policy import Worker
from callsheet.wire.worker import most_leases


class Machine:
    """One worker. Compared by identity. `seen` is what the policy sees, made anew only when something has changed."""

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
        # None until it takes jobs.
        self.started_at: float | None = None
        # The jobs that run, with the moments they were started at.
        self.running: dict[int, float] = {}
        # Jobs that it has fetched in advance, in the order in which they will run.
        self.ahead: deque[int] = deque()
        self.idle_since = ordered_at
        self.is_draining = False
        # Interrupted: it ends soon, whatever it holds, and gets no more work.
        self.is_leaving = False
        self.seen: Worker | None = None
        # Jobs that it held at the last look; runs that ended since, and how long they took together.
        self.held = 0
        self.ended_runs = 0
        self.ended_seconds = 0.0

    @property
    def is_empty(self) -> bool:
        # What was fetched in advance runs as soon as a slot is free.
        return not self.running

    @property
    def takes_work(self) -> bool:
        return not self.is_draining and not self.is_leaving

    def look_at(self, elapsed: float) -> Worker:
        """What the policy sees, so many seconds after the last look."""
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
        # What no look saw counts once.
        self.seen = None if unseen else worker
        return worker


class Crew:
    def __init__(self, slots: int, *, prefetch: bool):
        self._slots = slots
        self._most_held = most_leases(slots, prefetch=prefetch)
        # In the order of their orders.
        self.machines: dict[Machine, None] = {}
        self.starting: dict[Machine, None] = {}
        # Those with a free slot, and full ones that may fetch a job in advance: who asked first is served first.
        self.free: OrderedDict[Machine, None] = OrderedDict()
        self.fetching: OrderedDict[Machine, None] = OrderedDict()
        self.ordered = 0
        self.most = 0
        # From order to end, by `is_spot`; and the part of it from order to start.
        self.paid_seconds = {False: 0.0, True: 0.0}
        self.starting_seconds = 0.0

    def order(self, now: float, on_demand: int) -> Machine:
        """`on_demand`: how many of those that take work shall be on-demand; above it they are spot."""
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
        """Those that did not start in time are not waited for."""
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
        """It asks for work again, if it may, as the last of those who do."""
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
