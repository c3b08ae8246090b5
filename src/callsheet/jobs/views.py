"""Rows as the API shows them."""

from __future__ import annotations

from callsheet.plumbing.sql import Row
from callsheet.wire.jobs import Job, JobError, JobEvent, JobStatus


def job_view(row: Row) -> Job:
    error = row["error"]
    return Job(
        id=row["id"],
        kind=row["kind"],
        status=JobStatus(row["status"]),
        charge_cycle=row["charge_cycle"],
        cost=row["cost"],
        priority=row["priority"],
        result=row["result"],
        # Details and traceback are for admins; users see type and sentence.
        error=JobError(type=error["type"], message=error["message"]) if error else None,
        created_at=row["created_at"],
        submitted_at=row["submitted_at"],
        deadline_at=row["deadline_at"],
        started_at=row["started_at"],
        completed_at=row["completed_at"],
    )


def event_view(row: Row) -> JobEvent:
    return JobEvent(
        job_id=row["job_id"],
        seq=row["seq"],
        event=row["event"],
        from_status=row["from_status"],
        to_status=row["to_status"],
        actor=row["actor"],
        reason=row["reason"],
        data=row["data"],
        at=row["at"],
    )
