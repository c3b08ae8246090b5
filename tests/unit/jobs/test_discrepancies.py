"""What the reconciler finds wrong, as a table over both sides."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from callsheet.dispatch.facts import JobCycle, QueueEntry
from callsheet.dispatch.repair import CentralState
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.repair.discrepancies import Discrepancy, JobSide, compare, ending_of
from callsheet.wire.job_errors import sentence_of
from callsheet.wire.jobs import ACTIVE, TERMINAL

CYCLE = JobCycle(uuid4(), uuid4(), 2)
NOTHING = CentralState(*CYCLE)


def job(status: str = "queued", **changes: Any) -> JobSide:
    of_entry = {name: changes.pop(name) for name in ("charge_cycle", "priority") if name in changes}
    entry = QueueEntry(**dict.fromkeys(QueueEntry._fields) | {"charge_cycle": 2, "priority": 0} | of_entry)
    return JobSide(
        **{"entry": entry, "lease_seq": 1, "awaits_relay": False, "has_settled": True, "status": status, **changes}
    )


def dispatch(status: str = "queued", lease_seq: int = 1, *, notified: bool = False) -> CentralState:
    return CentralState(*CYCLE, 5, status, 0, lease_seq, holder_notified=notified)


def finished(status: str, *, settled: bool = True, error: str | None = None) -> CentralState:
    return CentralState(*CYCLE, end_status=status, last_error=error, has_settled=settled)


@pytest.mark.parametrize(
    ("side", "central", "found"),
    [
        (job("pending"), NOTHING, Discrepancy.MISSING_DISPATCH),
        (job("queued"), NOTHING, Discrepancy.MISSING_DISPATCH),
        (job("processing"), NOTHING, Discrepancy.MISSING_DISPATCH),
        (job("pending", awaits_relay=True), NOTHING, None),
        (job("pending", has_settled=False), NOTHING, None),
        (job("completed"), NOTHING, None),
        (job("queued", charge_cycle=3), NOTHING, None),
        (None, NOTHING, None),
        (None, dispatch(), Discrepancy.ORPHANED_DISPATCH),
        (None, dispatch("leased"), Discrepancy.ORPHANED_DISPATCH),
        (job(charge_cycle=1), dispatch(), Discrepancy.ORPHANED_DISPATCH),
        (job(charge_cycle=3), dispatch(), Discrepancy.OPEN_DISPATCH_OF_ENDED_JOB),
        (job("canceled", has_settled=False), dispatch(), None),
        (job("pending"), dispatch(), Discrepancy.STATUS_OF_JOB),
        (job("pending", awaits_relay=True), dispatch(), None),
        (job("pending"), dispatch("leased"), None),
        (job("queued"), dispatch(), None),
        (job("queued", lease_seq=0), dispatch("leased"), None),
        (job("processing"), dispatch("leased"), None),
        (job("processing"), dispatch("waiting"), None),
        (job("processing"), dispatch("queued"), Discrepancy.STATUS_OF_JOB),
        # The queue was restored from a backup: it has forgotten leases.
        (job("processing", lease_seq=2), dispatch("queued"), Discrepancy.LEASES_OF_DISPATCH),
        (job("queued", lease_seq=2), dispatch("queued"), Discrepancy.LEASES_OF_DISPATCH),
        (job("processing", lease_seq=2), dispatch("leased"), None),
        # Requeued, and the job does not know yet of a lease that it never started under.
        (job("processing"), dispatch("queued", lease_seq=2), None),
        (job("queued", priority=5), dispatch(), Discrepancy.PRIORITY_OF_JOB),
        (job("queued"), finished("failed"), Discrepancy.OPEN_JOB_OF_ENDED_DISPATCH),
        (job("queued"), finished("failed", settled=False), None),
        (job("pending", awaits_relay=True), finished("failed"), None),
        (job("failed"), finished("failed"), None),
    ],
)
def test_each_difference_between_a_job_and_its_dispatch_is_found(
    side: JobSide | None, central: CentralState, found: Discrepancy | None
) -> None:
    suspicion = compare(CYCLE, side, central)
    assert (suspicion.kind if suspicion else None) == found
    if suspicion:
        assert (suspicion.job, suspicion.lease_seq) == (CYCLE, side.lease_seq if side else 0)


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_an_open_dispatch_of_an_ended_job_is_found_until_its_worker_is_notified(status: str) -> None:
    suspicion = compare(CYCLE, job(status), dispatch("leased"))
    assert suspicion is not None
    assert suspicion.kind is Discrepancy.OPEN_DISPATCH_OF_ENDED_JOB
    assert compare(CYCLE, job(status), dispatch("leased", notified=True)) is None
    assert compare(CYCLE, None, dispatch("leased", notified=True)) is None


@pytest.mark.parametrize("status", sorted(ACTIVE))
@pytest.mark.parametrize(
    ("end", "transition"),
    [
        ("failed", Transition.FAIL),
        ("canceled", Transition.CANCEL),
        ("completed", Transition.FAIL),
        ("expired", Transition.EXPIRE),
    ],
)
def test_a_job_ends_as_its_dispatch_did_and_never_completes_by_that(
    status: str, end: str, transition: Transition
) -> None:
    found, error = ending_of(job(status), finished(end, error="It broke."))
    # Only what runs can expire.
    expected = Transition.FAIL if end == "expired" and status != "processing" else transition
    assert found is expected
    assert (error is None) == (end == "canceled")
    if error and end != "completed":
        # Users read a sentence of the control plane; the dispatch has the text of the worker.
        assert (error["message"], error["reported"]) == (sentence_of(error["type"]), "It broke.")
