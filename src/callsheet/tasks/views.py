"""Tasks as the API shows them, built from a job's row and the job as it is presented. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from callsheet.jobs.machine.rows import JobRow
from callsheet.media.task_files import without_files
from callsheet.plumbing.database.sql import copied
from callsheet.tasks.plans import SENT_PAYLOAD
from callsheet.wire.jobs import Job, JobStatus
from callsheet.wire.tasks import Task, TaskProgress, TaskResult, response_of, task_id_of

# Messages for tasks that have reported no message.
_DEFAULT_MESSAGES = {
    JobStatus.PENDING: "Queued",
    JobStatus.QUEUED: "Queued",
    JobStatus.PROCESSING: "Running",
    JobStatus.COMPLETED: "Completed",
    JobStatus.FAILED: "Failed",
    JobStatus.CANCELED: "Canceled",
    JobStatus.EXPIRED: "Expired",
}


def task_view(row: JobRow, job: Job, payload: Mapping[str, Any] | None = None) -> Task:
    return Task(
        **copied(_OF_JOB, job),
        task_id=task_id_of(job.id),
        job_id=job.id,
        task_type=row.actor,
        actor=row.actor,
        queue_name=row.queue_name,
        payload=None if payload is None else _sent(row, job.kind, payload),
        workflow_run_id=row.workflow_run_id,
        progress=_progress(row, job),
        result=_result(job),
        retry_count=retry_count(row),
        max_retries=row.max_attempts - 1,
    )


# The fields that are shown as they are in the job.
_OF_JOB = tuple(name for name in Task.model_fields if name in Job.model_fields and name not in ("progress", "result"))


def retry_count(row: JobRow) -> int:
    """How often the task was requeued: by its workers in this charge cycle, and by retries."""
    # A task that is in the queue again was requeued after its last lease.
    waits = row.status in (JobStatus.PENDING, JobStatus.QUEUED)
    return max(0, row.lease_seq - (0 if waits else 1)) + row.charge_cycle - 1


def _sent(row: JobRow, kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload that the user sent. The payload that the catalog built from it names objects in storage."""
    if row.effect_id is not None:
        return dict(payload.get(SENT_PAYLOAD) or {})
    return without_files(kind, payload)


def _progress(row: JobRow, job: Job) -> TaskProgress:
    progress = job.progress
    if progress is not None:
        return TaskProgress(
            percent=progress.percent,
            message=progress.message,
            elapsed_ms=progress.elapsed_ms,
            updated_at=progress.updated_at,
        )
    message = _DEFAULT_MESSAGES[job.status]
    if job.status is JobStatus.QUEUED and row.lease_seq > 0:
        message = f"Retrying (attempt {row.lease_seq + 1})"
    waits = job.status in (JobStatus.PENDING, JobStatus.QUEUED)
    return TaskProgress(
        percent=100.0 if job.status is JobStatus.COMPLETED else 0.0 if waits else None,
        message=message,
        elapsed_ms=0 if waits else _milliseconds(job.started_at, job.completed_at),
        updated_at=job.completed_at or (job.submitted_at if waits else job.started_at),
    )


def _result(job: Job) -> TaskResult | None:
    if job.status is not JobStatus.COMPLETED or job.result is None:
        return None
    return TaskResult(
        # The job itself is the record of the request and of the result.
        metadata_id=str(job.id) if job.outputs else None,
        content_ids=[str(output.file_id) for output in job.outputs],
        urls=[output.url for output in job.outputs if output.url is not None],
        outputs=job.outputs,
        data=response_of(job.result),
    )


def _milliseconds(start: datetime | None, end: datetime | None) -> int | None:
    return None if start is None or end is None else int((end - start).total_seconds() * 1000)
