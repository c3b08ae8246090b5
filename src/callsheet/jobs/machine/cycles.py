"""The current state of a job, and how one of its charge cycles ended. Pure."""

from __future__ import annotations

from typing import NamedTuple, cast

from callsheet.dispatch.facts import EndStatus
from callsheet.wire.jobs import ACTIVE


class JobState(NamedTuple):
    """The current status, cycle and lease of a job."""

    status: str
    charge_cycle: int
    lease_seq: int
    # How the cycle that the caller named ended, if the job has been retried since.
    earlier_end: str | None = None


def cycle_has_ended(status: str, current_cycle: int, charge_cycle: int) -> bool:
    """Whether a charge cycle of a job has ended. `status` and `current_cycle` are the values of the job."""
    return current_cycle > charge_cycle or status not in ACTIVE


def end_of_cycle(state: JobState | None, charge_cycle: int) -> EndStatus | None:
    """How this charge cycle of the job ended, or None while it is active. A missing job counts as failed."""
    if state is None:
        return "failed"
    if not cycle_has_ended(state.status, state.charge_cycle, charge_cycle):
        return None
    end = state.earlier_end or "failed" if state.charge_cycle > charge_cycle else state.status
    return cast("EndStatus", end)
