"""The autoscaler's memory of a fleet between two observations, and how an observation updates it. Pure.

It holds when workers were ordered, since when they are idle, and which of the driver's workers never registered. It is
stored in the database as JSON, so that another control plane can continue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from callsheet.scaling.driver import Actual
from callsheet.scaling.policy import Decision, History, Policy, PolicyWorker

# Weight of the latest start in the average start time of a worker.
LATEST_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class RegisteredWorker:
    """A worker of the fleet as stored in central."""

    id: str
    slots: int
    busy: int
    is_spot: bool
    registered_at: float
    # Approved, not revoked, and seen recently or busy.
    is_usable: bool
    is_drained: bool = False
    # The autoscaler drained it, not a person.
    is_retired: bool = False
    is_ending: bool = False
    # Ended leases of the current session, and their total seconds.
    ended_leases: int = 0
    ended_seconds: float = 0.0
    # Hash of the environment of its engines; None if the worker did not report one.
    environment: str | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    history: History = field(default_factory=History)
    # Times of orders whose worker has not registered yet, oldest first.
    orders: tuple[float, ...] = ()
    # Ids that were registered at the last observation.
    known: tuple[str, ...] = ()
    idle_since: Mapping[str, float] = field(default_factory=dict)
    # Per worker at the last observation: ended leases, their total seconds, and leases that the worker held.
    worked: Mapping[str, tuple[int, float, int]] = field(default_factory=dict)
    # Unregistered workers of the driver, with the time when each was first seen.
    unregistered_since: Mapping[str, float] = field(default_factory=dict)
    # Ids of ending workers that the driver may still have.
    ending: tuple[str, ...] = ()
    # Average time from an order to the registration.
    start_seconds: float | None = None

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
        )

    def next_worker_at(self) -> float | None:
        """When the worker that was ordered first is expected; None without an order or a measured start."""
        return None if not self.orders or self.start_seconds is None else self.orders[0] + self.start_seconds


@dataclass(frozen=True, slots=True)
class FleetObservation:
    """The state of a fleet at one moment."""

    memory: Memory
    # Input of the policy. Workers that cannot serve are listed as draining.
    workers: Sequence[PolicyWorker]
    coming: int
    # Serving workers that the driver does not know, for example workers that were started by hand.
    strangers: int
    # Workers of the driver that take no jobs: draining, waiting for approval, silent, overdue.
    resting: int
    # Workers of the driver that did not register in time. Empty while there are strangers: if workers register with
    # other ids than the driver's, a worker that is overdue by its id may be working under another id.
    overdue: tuple[str, ...]
    # Retired and idle workers, which may be ended.
    done: tuple[str, ...]
    # Workers that were being ended and are gone.
    gone: tuple[str, ...]

    @property
    def serving(self) -> int:
        return sum(not worker.is_draining for worker in self.workers)

    def to_order(self, policy: Policy, decision: Decision) -> int:
        """How many workers the driver should have: serving, coming and resting ones."""
        return max(0, min(policy.maximum, decision.wanted - self.strangers + self.resting))


def observe(
    policy: Policy, memory: Memory, now: float, registered: Sequence[RegisteredWorker], actual: Actual
) -> FleetObservation:
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
    return FleetObservation(
        memory=replace(
            memory,
            orders=orders,
            known=tuple(sorted(worker.id for worker in registered)),
            idle_since=idle_since,
            worked={worker.id: (worker.ended_leases, worker.ended_seconds, worker.busy) for worker in here},
            unregistered_since=since,
            ending=tuple(ending),
            start_seconds=start_seconds,
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


def with_orders(memory: Memory, now: float, seen: FleetObservation, decision: Decision) -> Memory:
    """The memory after a decision, with one order for each worker that it orders."""
    more = decision.wanted - seen.serving - seen.coming - len(decision.undrain)
    return replace(memory, history=decision.history, orders=(*memory.orders, *[now] * max(0, more)))


def _orders(
    policy: Policy, memory: Memory, now: float, ours: Sequence[RegisteredWorker]
) -> tuple[tuple[float, ...], float | None]:
    """The open orders, and the average start time. Each new worker fills the oldest order."""
    known = set(memory.known)
    arrivals = sorted(worker.registered_at for worker in ours if worker.id not in known)
    filled = list(zip(memory.orders, arrivals, strict=False))
    average = memory.start_seconds
    for order, arrival in filled:
        took = max(0.0, arrival - order)
        average = took if average is None else average + LATEST_WEIGHT * (took - average)
    left = memory.orders[len(filled) :]
    return tuple(moment for moment in left if now - moment <= policy.warm_up_seconds), average


def _next_to_go(order: Sequence[str], here: Sequence[RegisteredWorker]) -> set[str]:
    """For a fixed ending order: the first worker that serves, and the workers before it."""
    serving = {worker.id for worker in here if _is_serving(worker)}
    first = next((place for place, name in enumerate(order) if name in serving), len(order))
    return set(order[: first + 1])


def _is_serving(worker: RegisteredWorker) -> bool:
    return worker.is_usable and not worker.is_drained


def unseen_slots(slots: int, ended: int, seconds: float, held: int, elapsed: float) -> float:
    """Slots that a worker needed on average since the last observation for jobs that no observation saw.

    `ended` leases have ended since then and took `seconds` in total. They include the `held` jobs that the last
    observation saw; these are already counted, so their share of the time is left out.
    """
    if ended <= held or elapsed <= 0:
        return 0.0
    return min(float(slots), seconds * (ended - held) / ended / elapsed)


def _ended_since(memory: Memory, worker: RegisteredWorker) -> tuple[int, float, int]:
    """Leases of the worker that ended since the last observation, their seconds, and how many leases it held then.

    A worker that the last observation did not see, or that registered anew, has no known ended leases.
    """
    leases, seconds, held = memory.worked.get(worker.id, (worker.ended_leases, worker.ended_seconds, 0))
    return max(0, worker.ended_leases - leases), max(0.0, worker.ended_seconds - seconds), held


def _unseen(memory: Memory, now: float, worker: RegisteredWorker) -> float:
    seen_at = memory.history.seen_at
    return unseen_slots(worker.slots, *_ended_since(memory, worker), 0.0 if seen_at is None else now - seen_at)


def _idle_since(memory: Memory, now: float, worker: RegisteredWorker) -> float:
    return memory.idle_since.get(worker.id, now) if _ended_since(memory, worker)[0] == 0 else now


def _seen(worker: RegisteredWorker, may_go: bool, idle_since: float | None, unseen: float) -> PolicyWorker:
    return PolicyWorker(
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


def _absent(name: str, now: float) -> PolicyWorker:
    """A worker that exists but is not registered: it counts, and takes no jobs."""
    return PolicyWorker(name, 1, 0, True, True, now, now, can_be_undrained=False)
