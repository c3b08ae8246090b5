"""Starts a job again under the lease that holds its dispatch, after one of the two databases lost its last changes
(a failover without synchronous replication, a restore).

Normally, the job of a held lease runs under the number of this lease. If the pool lost the start, the job has a smaller
number. If central lost leases, the job has a greater one, of a worker whose token no database knows any more.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol
from uuid import UUID

from callsheet.dispatch.facts import JobCycle
from callsheet.dispatch.repair import DispatchRepair
from callsheet.jobs.machine.cycles import JobState
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import StartedJob, TransitionRequest
from callsheet.jobs.machine.transitions import Transitions
from callsheet.plumbing.failpoints import Failpoint, hit


class HeldDispatch(Protocol):
    """A dispatch that a lease held when it was read, or that waited for a callback and has no token."""

    @property
    def cycle(self) -> JobCycle: ...

    @property
    def lease_token(self) -> UUID | None: ...

    @property
    def lease_seq(self) -> int: ...


class Restarted(NamedTuple):
    # The number under which the job runs now.
    lease_seq: int
    job: StartedJob


class Restarts:
    def __init__(self, repair: DispatchRepair, transitions: Transitions):
        self._repair = repair
        self._transitions = transitions

    async def under(self, held: HeldDispatch, job: JobState | None, actor: str) -> Restarted | None:
        """Starts the job under the lease of this dispatch, with a number that is greater than all that were given out.
        None if a newer lease has replaced this one: then nothing changes. `job` is its state in the pool.
        """
        if job is None:
            return None
        lease_seq = held.lease_seq
        if job.lease_seq >= lease_seq:
            lease_seq = job.lease_seq + 1
            # Only while the same lease holds the dispatch.
            if not await self._repair.raise_lease_seq(held.cycle, lease_seq, held.lease_token):
                return None
            await hit(Failpoint.RESTART_BEFORE_POOL)
        request = TransitionRequest(held.cycle, actor, new_lease_seq=lease_seq)
        started = await self._transitions.start(Transition.START, request)
        return None if started is None else Restarted(lease_seq, started)
