"""What to do next: something that makes sense in this state, and more often what matters more.

A walk that mostly knocks at closed doors proves little.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.chaos.core_model import ended
from tests.chaos.core_operations import (
    IDENTIFIER,
    Callback,
    Cancel,
    Complete,
    Credit,
    Defer,
    EnforceDeadlines,
    Fail,
    Heartbeat,
    LetDeadlinePass,
    LetLeaseExpire,
    Operation,
    Promote,
    RaiseLowWater,
    Reap,
    RelayTick,
    Requeue,
    Retry,
    SetLimit,
    SetPayer,
    Submit,
    SubmitAtOnce,
    TakeLease,
    World,
)
from tests.chaos.core_state import DispatchState, State

Choice = Callable[[Random], Operation]


def choose(random: Random, state: State, world: World, *, crashable: bool) -> Operation:
    makers, weights = zip(*_choices(state, world), strict=True)
    while True:
        [maker] = random.choices(makers, weights)
        operation = maker(random)
        if operation.points or not crashable:
            return operation


def _choices(state: State, world: World) -> list[tuple[Choice, int]]:
    dispatches = state.dispatches.values()
    jobs = state.jobs.values()
    queued = sum(dispatch.status == "queued" for dispatch in dispatches)
    left_over = any(dispatch.status == "queued" and ended(state, key) for key, dispatch in state.dispatches.items())
    return [
        (_plain_submit, 1 if queued > 2 else 5),
        (_submit, 2),
        (_submit_at_once, 2),
        (_upkeep, 2),
        (_lease, 8 * bool(queued) + 20 * left_over),
        (lambda random: _report(random, _lease_of(random, state, world)), 12 * bool(world.leases)),
        (_by_people, 5 * bool(world.jobs)),
        (lambda random: Retry(_recent(random)), 2 * any(job.status in ("failed", "expired") for job in jobs)),
        (lambda random: LetLeaseExpire(_recent(random)), 5 * any(dispatch.held for dispatch in dispatches)),
        (lambda _: Reap(), 20 * any(_to_be_reaped(dispatch) for dispatch in dispatches)),
        (lambda _: Promote(), 2 * any(dispatch.status == "delayed" for dispatch in dispatches)),
        (lambda _: RelayTick(), 4 * bool(state.outbox)),
        (lambda _: EnforceDeadlines(), 15 * any(job.overdue and job.active for job in jobs)),
    ]


def _to_be_reaped(dispatch: DispatchState) -> bool:
    return dispatch.expired or (dispatch.status == "waiting" and dispatch.canceled)


def _recent(random: Random) -> int:
    """The newest are the most interesting: an index counts from the end."""
    return random.choice([0, 0, 0, 1, 1, 2, 3])


def _lease_of(random: Random, state: State, world: World) -> int:
    """Mostly one that is held, sometimes one that is over."""
    tokens = {dispatch.token for dispatch in state.dispatches.values()} - {None}
    held = [index for index, started in enumerate(reversed(world.leases)) if started.lease.lease_token in tokens]
    return random.choice(held) if held and random.random() < 0.7 else _recent(random)


def _plain_submit(random: Random) -> Operation:
    return Submit(random.randrange(3))


def _submit(random: Random) -> Operation:
    return Submit(**_what(random), kind=random.choice(["effect", "task", "static_ad"]))


def _submit_at_once(random: Random) -> Operation:
    return SubmitAtOnce(**_what(random), kind=random.choice(["copy", "scrape"]))


def _what(random: Random) -> dict[str, Any]:
    return {
        "member": random.randrange(3),
        "cost": random.choice([3, 3, 0, 11]),
        "workflow": random.randrange(2),
        "provider": random.choice(["self_hosted", "self_hosted", "cloud"]),
        "identifier": random.choice(["", IDENTIFIER]),
        "priority": random.choice([0, 5]),
        "max_attempts": random.randint(1, 3),
        "key": random.choice([None, "a", "b"]),
    }


def _lease(random: Random) -> Operation:
    return TakeLease(
        worker=random.randint(1, 3),
        workflows=random.choice([(0, 1), (0, 1), (0,), (1,)]),
        providers=random.choice([("self_hosted", "cloud"), ("self_hosted", "cloud"), ("self_hosted",)]),
    )


def _report(random: Random, lease: int) -> Operation:
    reports: list[Operation] = [
        Complete(lease),
        Fail(lease),
        Fail(lease, retryable=True),
        Requeue(lease),
        Defer(lease),
        Callback(lease),
        Heartbeat(lease),
    ]
    return random.choice(reports)


def _by_people(random: Random) -> Operation:
    job = _recent(random)
    return random.choice([Cancel(job), Retry(job), LetDeadlinePass(job)])


def _upkeep(random: Random) -> Operation:
    upkeep: list[Operation] = [
        RelayTick(),
        RaiseLowWater(),
        RaiseLowWater(),
        Promote(),
        SetLimit(random.randrange(3)),
        Credit(random.randrange(3), random.choice([5, 20]), random.choice([None, 1]), random.random() < 0.3),
        SetPayer(random.randrange(3), random.random() < 0.5),
    ]
    return random.choice(upkeep)
