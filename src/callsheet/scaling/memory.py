"""What the autoscaler remembers of a fleet from one look to the next, and what it makes of what it sees. Pure.

Which worker was ordered when, who is idle since when, which of the driver's workers never registered: kept in the
database as JSON, so that another control plane goes on where this one stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from callsheet.scaling.driver import Actual
from callsheet.scaling.policy import Decision, History, Policy, Worker

# How much the latest start weighs in the average of how long a worker takes to start.
LATEST_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class Registered:
    """A worker of the fleet as central knows it."""

    id: str
    slots: int
    busy: int
    is_spot: bool
    registered_at: float
    # Approved, not revoked, and seen lately or busy.
    is_usable: bool
    is_drained: bool = False
    # The autoscaler drained it, not a person.
    is_retired: bool = False
    is_ending: bool = False
    # Of its session so far: leases that have ended, and their seconds together.
    ended_leases: int = 0
    ended_seconds: float = 0.0
    # What its engines have, by the hash of it; None where it did not say.
    environment: str | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    history: History = field(default_factory=History)
    # Moments of orders whose worker has not registered yet, oldest first.
    orders: tuple[float, ...] = ()
    # Ids that were registered at the last look.
    known: tuple[str, ...] = ()
    idle_since: Mapping[str, float] = field(default_factory=dict)
    # Of each worker at the last look: leases that had ended, their seconds together, and leases that it held.
    worked: Mapping[str, tuple[int, float, int]] = field(default_factory=dict)
    # Workers of the driver that are not registered, and since when.
    unregistered_since: Mapping[str, float] = field(default_factory=dict)
    # Ids whose end is recorded and that the driver may still have.
    ending: tuple[str, ...] = ()
    # From an order to the registration, on average.
    start_seconds: float | None = None
    # What the engines of its workers have, remembered for the time when it has none: new ones will have the same. Empty
    # where one of them did not say.
    environments: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Memory:
        history = dict(kept.get("history", {}))
        history["peaks"] = tuple((moment, workers) for moment, workers in history.get("peaks", ()))
        return cls(
            history=History(**history),
            orders=tuple(kept.get("orders", ())),
            known=tuple(kept.get("known", ())),
            idle_since=dict(kept.get("idle_since", {})),
            worked={name: tuple(numbers) for name, numbers in kept.get("worked", {}).items()},
            unregistered_since=dict(kept.get("unregistered_since", {})),
            ending=tuple(kept.get("ending", ())),
            start_seconds=kept.get("start_seconds"),
            environments=tuple(kept.get("environments", ())),
        )

    def next_worker_at(self) -> float | None:
        """When the worker that was ordered first is expected; None where none is, or none ever started."""
        return None if not self.orders or self.start_seconds is None else self.orders[0] + self.start_seconds


@dataclass(frozen=True, slots=True)
class Look:
    """What there is of a fleet at one moment."""

    memory: Memory
    # For the policy; those that cannot serve stand there as draining.
    workers: Sequence[Worker]
    coming: int
    # Workers that the driver does not know, and that serve: started by hand, for example.
    strangers: int
    # Workers of the driver that take no work: draining, waiting for approval, silent, overdue.
    resting: int
    # Workers of the driver that did not register in time. None of them is named while strangers are here: where workers
    # register under other ids than the driver has, a worker that is overdue by its id may be at work under another.
    overdue: tuple[str, ...]
    # Retired and idle: may be ended.
    done: tuple[str, ...]
    # Were being ended, and are gone.
    gone: tuple[str, ...]

    @property
    def serving(self) -> int:
        return sum(not worker.is_draining for worker in self.workers)

    def to_order(self, policy: Policy, decision: Decision) -> int:
        """How many workers the driver should have: those that serve or come, and those that still rest."""
        return max(0, min(policy.maximum, decision.wanted - self.strangers + self.resting))


def look(policy: Policy, memory: Memory, now: float, registered: Sequence[Registered], actual: Actual) -> Look:
    ids = actual.worker_ids
    here = [worker for worker in registered if ids is None or worker.id in ids or worker.is_usable]
    ours = {worker.id for worker in here if ids is None or worker.id in ids}
    unregistered = (ids or frozenset()) - {worker.id for worker in registered}
    since = {name: memory.unregistered_since.get(name, now) for name in sorted(unregistered)}
    ending = [name for name in memory.ending if name in ours or name in unregistered]
    overdue = tuple(name for name, start in since.items() if now - start > policy.warm_up_seconds)
    starting = len([name for name in since if name not in overdue and name not in ending])
    orders, start_seconds = _orders(policy, memory, now, [worker for worker in here if worker.id in ours])
    idle_since = {worker.id: _idle_since(memory, now, worker) for worker in here if worker.busy == 0}
    may_go = ours if not actual.ending_order else _next_to_go(actual.ending_order, here)
    workers = [
        _seen(worker, worker.id in may_go, idle_since.get(worker.id), _unseen(memory, now, worker)) for worker in here
    ]
    workers += [_absent(name, now) for name in since if name in overdue or name in ending]
    serving = [worker for worker in workers if not worker.is_draining]
    return Look(
        memory=replace(
            memory,
            orders=orders,
            known=tuple(sorted(worker.id for worker in registered)),
            idle_since=idle_since,
            worked={worker.id: (worker.ended_leases, worker.ended_seconds, worker.busy) for worker in here},
            unregistered_since=since,
            ending=tuple(ending),
            start_seconds=start_seconds,
            environments=environments_of(memory, registered),
        ),
        workers=workers,
        coming=max(len(orders), starting),
        strangers=sum(worker.id not in ours for worker in serving),
        resting=sum(worker.is_draining and (worker.id in ours or worker.id in since) for worker in workers),
        overdue=overdue if len(ours) == len(here) else (),
        done=tuple(
            worker.id
            for worker in here
            if worker.is_retired and worker.busy == 0 and not worker.is_ending and worker.id in ours
        ),
        gone=tuple(name for name in memory.ending if name not in ending),
    )


def environments_of(memory: Memory, registered: Sequence[Registered]) -> tuple[str, ...]:
    if not registered:
        return memory.environments
    found = {worker.environment for worker in registered}
    return tuple(sorted(each for each in found if each is not None)) if None not in found else ()


def ordered(memory: Memory, now: float, look: Look, decision: Decision) -> Memory:
    """The memory after a decision: one entry for each worker that it orders."""
    more = decision.wanted - look.serving - look.coming - len(decision.undrain)
    return replace(memory, history=decision.history, orders=(*memory.orders, *[now] * max(0, more)))


def _orders(
    policy: Policy, memory: Memory, now: float, ours: Sequence[Registered]
) -> tuple[tuple[float, ...], float | None]:
    """The orders that are still open, and how long a start takes: each new worker is the oldest order's."""
    known = set(memory.known)
    arrivals = sorted(worker.registered_at for worker in ours if worker.id not in known)
    filled = list(zip(memory.orders, arrivals, strict=False))
    average = memory.start_seconds
    for order, arrival in filled:
        took = max(0.0, arrival - order)
        average = took if average is None else average + LATEST_WEIGHT * (took - average)
    left = memory.orders[len(filled) :]
    return tuple(moment for moment in left if now - moment <= policy.warm_up_seconds), average


def _next_to_go(order: Sequence[str], here: Sequence[Registered]) -> set[str]:
    """Where workers go in a fixed order: the first of them that serves, and those before it."""
    serving = {worker.id for worker in here if _is_serving(worker)}
    first = next((place for place, name in enumerate(order) if name in serving), len(order))
    return set(order[: first + 1])


def _is_serving(worker: Registered) -> bool:
    return worker.is_usable and not worker.is_drained


def unseen_slots(slots: int, ended: int, seconds: float, held: int, elapsed: float) -> float:
    """Slots that a worker needed on average since the last look, which saw `held` jobs, for those that no look saw.

    So many leases have `ended` since, and took so many `seconds` together. Jobs that the last look saw are among them;
    they have been counted, and take their part of the time.
    """
    if ended <= held or elapsed <= 0:
        return 0.0
    return min(float(slots), seconds * (ended - held) / ended / elapsed)


def _ended_since(memory: Memory, worker: Registered) -> tuple[int, float, int]:
    """Leases of it that ended since the last look, their seconds, and how many that look saw.

    Of one that the last look did not see, or that has registered anew, nothing is known.
    """
    leases, seconds, held = memory.worked.get(worker.id, (worker.ended_leases, worker.ended_seconds, 0))
    return max(0, worker.ended_leases - leases), max(0.0, worker.ended_seconds - seconds), held


def _unseen(memory: Memory, now: float, worker: Registered) -> float:
    seen_at = memory.history.seen_at
    return unseen_slots(worker.slots, *_ended_since(memory, worker), 0.0 if seen_at is None else now - seen_at)


def _idle_since(memory: Memory, now: float, worker: Registered) -> float:
    return memory.idle_since.get(worker.id, now) if _ended_since(memory, worker)[0] == 0 else now


def _seen(worker: Registered, may_go: bool, idle_since: float | None, unseen: float) -> Worker:
    return Worker(
        id=worker.id,
        slots=worker.slots,
        busy=worker.busy,
        is_draining=not _is_serving(worker),
        is_spot=worker.is_spot,
        started_at=worker.registered_at,
        idle_since=idle_since,
        can_be_ended=may_go,
        can_be_undrained=worker.is_usable and worker.is_retired and not worker.is_ending,
        unseen=unseen,
    )


def _absent(name: str, now: float) -> Worker:
    """One that exists and has no registration: it counts, and takes no work."""
    return Worker(name, 1, 0, True, True, now, now, can_be_undrained=False)
