"""`callsheet jobs`: your jobs, and jobs of users that you administer. HTTP only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import typer

from callsheet.cli.jobs.submit import URL
from callsheet.cli.shared.console import moment, out, print_json, print_table
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.jobs import Job, JobEvent, JobStatus
from callsheet.wire.plurals import counted
from callsheet.wire.tasks import job_id_of

if TYPE_CHECKING:
    from callsheet.cli.shared.operations_client import OperationsClient

Result = TypeVar("Result")

jobs = typer.Typer(help="Your jobs: list, show, cancel, retry, events.", no_args_is_help=True)

JOB = typer.Argument(metavar="JOB", help="Id of the job or task.")
ADMIN = typer.Option(False, "--admin", help="The job belongs to another user of a tenant that you administer.")
AS_JSON = typer.Option(False, "--json", help="Print JSON.")


@jobs.command("list")
def list_jobs(
    status: JobStatus | None = typer.Option(
        None, metavar="STATUS", help=f"Only jobs with this status: {', '.join(JobStatus)}."
    ),
    run: str | None = typer.Option(None, help="Only jobs of this run (its id)."),
    limit: int = typer.Option(20, min=1, max=10_000, help="How many jobs to list, newest first."),
    tenant: str | None = typer.Option(
        None, "--tenant", help="Short name or id of a tenant that you administer. Default: your own jobs."
    ),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """List jobs, newest first."""
    if run is not None and tenant is not None:
        raise OperatorError("--run cannot be combined with --tenant.")
    wanted = status.value if status is not None else None

    async def ask(client: OperationsClient) -> list[Job]:
        if tenant is not None:
            return [*await client.jobs_of_tenant(tenant, wanted, limit)]
        return await client.jobs(wanted, run, limit)

    found = _with_operations(url, ask)
    if as_json:
        print_json(found)
    else:
        rows = [(row.id, row.title or row.kind, row.status.value, row.cost, moment(row.created_at)) for row in found]
        print_table(("id", "effect", "status", "cost", "created"), rows)


@jobs.command("show")
def show_job(job: str = JOB, admin: bool = ADMIN, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Show a job: status, progress, why it waits, result, cost."""
    job_id = read_job_id(job)

    async def ask(client: OperationsClient) -> Job:
        return await client.any_job(job_id) if admin else (await client.job(job_id)).now

    found = _with_operations(url, ask)
    if as_json:
        print_json(found)
    else:
        print_job(found)


@jobs.command("cancel")
def cancel_job(job: str = JOB, admin: bool = ADMIN, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Cancel a job. Its tokens are refunded."""
    _change(job, "cancel", admin, url, as_json)


@jobs.command("retry")
def retry_job(job: str = JOB, admin: bool = ADMIN, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Run a failed or expired job again. Its tokens are reserved again."""
    _change(job, "retry", admin, url, as_json)


@jobs.command("events")
def list_events(job: str = JOB, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """List a job's history, oldest first."""
    job_id = read_job_id(job)
    events: list[JobEvent] = _with_operations(url, lambda client: client.job_events(job_id))
    if as_json:
        print_json(events)
        return
    rows = [(moment(each.at), each.event, _transition(each), each.actor, each.reason) for each in events]
    print_table(("when", "event", "status", "by", "reason"), rows)


def read_job_id(text: str) -> UUID:
    """Ids of tasks look like tq_…, those of jobs like a UUID."""
    try:
        return job_id_of(text) or UUID(text)
    except ValueError:
        raise OperatorError(f"{text!r} is not the id of a job or task.") from None


def print_job(job: Job) -> None:
    lines = {
        "job": job.id,
        "kind": job.kind,
        "effect": job.title,
        "status": job.status.value,
        "cost": job.cost,
        "created": moment(job.created_at),
        "started": moment(job.started_at),
        "completed": moment(job.completed_at),
        "progress": _progress(job),
        "waits": job.why_waiting.message if job.why_waiting is not None else None,
        "position": job.queue_position_text,
        "error": job.error.message if job.error is not None else None,
        "run": job.run_id,
    }
    for name, value in lines.items():
        if value not in (None, ""):
            out.print(f"{name:<10} {value}")
    for output in job.outputs:
        out.print(f"{'output':<10} {output.name} ({output.mime_type}, {counted(output.size, 'byte')})")
    if job.outputs:
        out.print(f"{'':<10} To download, run: callsheet watch {job.id}")


def _progress(job: Job) -> str | None:
    if job.progress is None:
        return None
    percent = f"{job.progress.percent:.0f} %" if job.progress.percent is not None else ""
    return " ".join(filter(None, (percent, job.progress.message)))


def _transition(event: JobEvent) -> str:
    before, after = event.from_status, event.to_status
    if after is None:
        return ""
    return after.value if before is None else f"{before.value} → {after.value}"


def _change(job: str, verb: str, admin: bool, url: str | None, as_json: bool) -> None:
    job_id = read_job_id(job)
    changed: Job = _with_operations(url, lambda client: client.change_job(job_id, verb, admin=admin))
    print_json(changed) if as_json else out.print(f"Job {changed.id} is {changed.status.value}.")


def _with_operations(url: str | None, work: Callable[[OperationsClient], Awaitable[Result]]) -> Result:
    from callsheet.cli.shared.operations_client import with_operations

    return with_operations(url, work)
