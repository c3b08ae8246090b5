"""Converts rows to the models of the API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.jobs.machine.rows import (
    EventColumns,
    EventOfJob,
    EventOfTenant,
    EventOfUser,
    JobRow,
    OutcomeRow,
    WholeJob,
)
from callsheet.plumbing.database.sql import copied
from callsheet.wire.base import Page
from callsheet.wire.job_errors import reported_message
from callsheet.wire.jobs import Job, JobError, JobEvent
from callsheet.wire.media import MediaPreviews
from callsheet.wire.operate.operations import AdminJob, FullError


def job_view(job: WholeJob) -> Job:
    return listed_job_view(job.row, OutcomeRow(job.result, job.error))


def listed_job_view(row: JobRow, outcome: OutcomeRow) -> Job:
    error = outcome.error
    return Job(
        **copied(_SHOWN, row),
        title=outcome.title,
        result=outcome.result,
        # Users see the type and its sentence; only operators see the reported text, details and traceback.
        error=JobError(type=error["type"], message=error["message"]) if error else None,
    )


def admin_job_view(row: JobRow, outcome: OutcomeRow) -> AdminJob:
    """The job with the whole error. Only the view of a single job adds payload and dispatch."""
    return AdminJob(
        **dict(listed_job_view(row, outcome)),
        **copied(_SHOWN_TO_OPERATORS, row),
        full_error=_full_error(outcome.error) if outcome.error else None,
    )


# The fields that are shown as they are in the row.
_SHOWN = tuple(name for name in JobRow._fields if name in Job.model_fields)
_SHOWN_TO_OPERATORS = tuple(name for name in JobRow._fields if name in AdminJob.model_fields and name not in _SHOWN)


def _full_error(error: Mapping[str, Any]) -> FullError:
    return FullError(
        type=error["type"],
        message=reported_message(error),
        details=error.get("details"),
        traceback=error.get("traceback"),
    )


def job_for(principal: Principal, job: AdminJob) -> AdminJob:
    """The job without the fields that the caller's role may not see."""
    hidden: dict[str, Any] = {}
    if job.full_error is not None and principal.may(Permission.SEE_QUEUE):
        # A viewer may read the reported text, but not details and traceback.
        hidden |= {"error": JobError(type=job.full_error.type, message=job.full_error.message)}
    if not principal.may(Permission.SEE_PAYLOADS):
        hidden |= {"payload": None, "full_error": None}
    if not principal.may(Permission.SEE_QUEUE):
        hidden |= {"dispatch": None}
    if not principal.may(Permission.SEE_FILES):
        hidden |= {**dict(MediaPreviews()), "inputs": [], "outputs": [], "result": None}
        if job.progress is not None:
            hidden |= {"progress": job.progress.model_copy(update={"preview_url": None})}
    return job.model_copy(update=hidden)


def page_for(principal: Principal, page: Page[AdminJob]) -> Page[AdminJob]:
    return page.model_copy(update={"items": [job_for(principal, job) for job in page.items]})


# Kinds of actors that are followed by an id or by the name of a worker.
_UNNAMED = ("admin", "worker", "bulk_action")


def _without_name(text: str, name: str, instead: str) -> str:
    return re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", instead, text)


def event_view(row: EventColumns) -> JobEvent:
    """The event as the job's user sees it: without the operator or the worker, which only operators see."""
    kind, _, name = row.actor.partition(":")
    is_unnamed = kind in _UNNAMED and bool(name)
    reason = row.reason
    return JobEvent(
        job_id=row.job_id,
        seq=row.seq,
        event=row.event,
        from_status=row.from_status,
        to_status=row.to_status,
        # An operator started the bulk action.
        actor=("admin" if kind == "bulk_action" else kind) if is_unnamed else row.actor,
        # A worker's reason may contain its name.
        reason=_without_name(reason, name, f"the {kind}") if is_unnamed and reason else reason,
        data=row.data,
        at=row.at,
    )


def streamed_view(row: EventOfJob | EventOfUser | EventOfTenant) -> JobEvent:
    """The event with what its client calls the job: a client of a stream then needs no other request to know it."""
    return event_view(row).model_copy(update=copied(("client_reference", "metadata"), row))
