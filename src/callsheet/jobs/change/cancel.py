"""Cancels a job, for its user or for an admin."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from callsheet.dispatch.facts import EndStatus, JobEnd
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.machine.relay import Relay
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest
from callsheet.jobs.machine.transitions import Transitions
from callsheet.jobs.show.reader import require_job
from callsheet.jobs.show.views import job_view
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wire.errors import WrongState
from callsheet.wire.jobs import Job

# The charge cycle can change between the read and the transition, so the cancel is tried several times.
TRIES = 3


class Cancellation:
    def __init__(self, routing: TenantRouting, transitions: Transitions, relay: Relay):
        self._routing = routing
        self._transitions = transitions
        self._relay = relay

    async def cancel(
        self, tenant_id: UUID, job_id: UUID, *, actor: str, reason: str | None = None, charge_cycle: int | None = None
    ) -> Job:
        """Ends the job and refunds its tokens. A worker that runs the job gets the cancellation with its next
        heartbeat.

        `charge_cycle`: the cycle that is canceled. Default: the current one.
        """
        pool = await self._routing.pool_of_tenant(tenant_id)
        for _ in range(TRIES):
            row = (await require_job(pool, tenant_id, job_id)).row
            if charge_cycle not in (None, row.charge_cycle):
                raise WrongState("The job was retried in the meantime.")
            request = TransitionRequest(row.cycle, actor, reason=reason)
            canceled = await self._transitions.apply(Transition.CANCEL, request, close_dispatch=True)
            if canceled is not None:
                await hit(Failpoint.CANCEL_BEFORE_RELAY)
                await self._relay.close_now(JobEnd(*canceled.job, cast("EndStatus", canceled.status)))
                return job_view(await require_job(pool, tenant_id, job_id))
            if (await require_job(pool, tenant_id, job_id)).row.charge_cycle == row.charge_cycle:
                break
        raise await self._transitions.deny(Transition.CANCEL, request)
