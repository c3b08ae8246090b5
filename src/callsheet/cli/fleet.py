"""`callsheet fleets` and `callsheet workers`: who runs the jobs of this installation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import typer

from callsheet.cli.console import checked, moment, out, print_json, print_table
from callsheet.settings import load_settings
from callsheet.wire.fleet import AssignWorkflowsRequest, CreateFleetRequest, DrainRequest, Fleet, Worker

if TYPE_CHECKING:
    from callsheet.fleet.room import FleetRoom

Result = TypeVar("Result")

fleets = typer.Typer(help="Fleets of workers, and the workflows they serve.", no_args_is_help=True)
workers = typer.Typer(help="The workers that are registered.", no_args_is_help=True)

AS_JSON = typer.Option(False, "--json", help="Print JSON.")
STAGE = typer.Option("production", help="Stage of the fleet.")
WORKER = typer.Argument(help="Id of the worker.")
# As identity.audit names whoever works on the databases directly; not imported, because it needs the server parts.
OPERATOR = "operator"
LISTED = 10_000
WATCH_SECONDS = 2.0


@fleets.command("create")
def create_fleet(
    slug: str = typer.Argument(help="Short name: lower-case letters, digits and dashes."),
    workflow_slugs: list[str] = typer.Argument(None, metavar="[WORKFLOW]...", help="Workflows it serves."),
    stage: str = STAGE,
    name: str | None = typer.Option(None, help="Name for people. Default: the short name."),
    as_json: bool = AS_JSON,
) -> None:
    """Create a fleet that workers may join."""
    request = checked(CreateFleetRequest, slug=slug, stage=stage, name=name, workflow_slugs=workflow_slugs or [])
    fleet = _with_room(lambda room: room.fleets.create(request, OPERATOR))
    print_json(fleet) if as_json else out.print(_sentence(fleet))


@fleets.command("list")
def list_fleets(as_json: bool = AS_JSON) -> None:
    """List the fleets."""
    page = _with_room(lambda room: room.fleets.list(None, None, None, LISTED))
    if as_json:
        print_json(page.items)
        return
    columns = ("slug", "stage", "name", "active", "workers", "live", "desired", "workflows")
    rows = [
        (
            fleet.slug,
            fleet.stage,
            fleet.name,
            _yes(fleet.is_active),
            fleet.workers,
            fleet.live_workers,
            fleet.desired_workers,
            ", ".join(fleet.workflows),
        )
        for fleet in page.items
    ]
    print_table(columns, rows)


@fleets.command("assign")
def assign_fleet(
    slug: str = typer.Argument(help="Short name of the fleet."),
    workflow_slugs: list[str] = typer.Argument(None, metavar="[WORKFLOW]...", help="All the workflows it serves."),
    stage: str = STAGE,
    as_json: bool = AS_JSON,
) -> None:
    """Set the workflows of a fleet: those named here and no others."""
    request = checked(AssignWorkflowsRequest, workflow_slugs=workflow_slugs or [])

    async def assign(room: FleetRoom) -> Fleet:
        fleet = await room.fleets.find(slug, stage)
        return await room.fleets.assign(fleet.id, request.workflow_slugs, OPERATOR)

    fleet = _with_room(assign)
    print_json(fleet) if as_json else out.print(_sentence(fleet))


@fleets.command("delete")
def delete_fleet(
    slug: str = typer.Argument(help="Short name of the fleet."),
    stage: str = STAGE,
    force: bool = typer.Option(False, "--force", help="Revoke its workers first; their jobs go back to the queue."),
) -> None:
    """Delete a fleet. A fleet with registered workers is kept, unless --force is given."""

    async def delete(room: FleetRoom) -> int:
        from callsheet.fleet.workers import WorkerFilter

        fleet = await room.fleets.find(slug, stage)
        page = await room.workers.list(WorkerFilter(fleet=slug, stage=stage), None, LISTED)
        revoked = [worker for worker in page.items if worker.is_registered and worker.revoked_at is None and force]
        for worker in revoked:
            await room.workers.revoke(worker.worker_id, OPERATOR)
        # Where one joined in the meantime it is refused, and nothing is lost: ask again.
        await room.fleets.delete(fleet.id, OPERATOR)
        return len(revoked)

    revoked = _with_room(delete)
    workers_too = f" Revoked workers: {revoked}." if revoked else ""
    out.print(f"Fleet {slug} in {stage} is deleted.{workers_too}")


@fleets.command("secret")
def show_secret() -> None:
    """Print what workers register with, as the header X-Fleet-Secret."""
    from callsheet.fleet.secret import fleet_secret
    from callsheet.plumbing.installation import require_installation
    from callsheet.plumbing.secrets import master_secret

    settings = load_settings()
    asyncio.run(require_installation(settings))
    out.print(fleet_secret(settings.fleet, master_secret(settings, create=False)))


@workers.command("list")
def list_workers(
    fleet: str | None = typer.Option(None, help="Only workers of fleets of this short name."),
    live: bool | None = typer.Option(
        None, "--live/--silent", help="Only workers seen (--live) or not seen (--silent) in the last 90 seconds."
    ),
    watch: bool = typer.Option(False, "--watch", "-w", help="Show the list again every two seconds until Ctrl-C."),
    as_json: bool = AS_JSON,
) -> None:
    """List the workers, and drained workers that are away."""
    from callsheet.fleet.workers import WorkerFilter

    async def show(room: FleetRoom) -> None:
        while True:
            page = await room.workers.list(WorkerFilter(fleet=fleet, live=live), None, LISTED)
            if watch and not as_json and out.is_terminal:
                out.clear()
            print_json(page.items) if as_json else _print_workers(page.items)
            if not watch:
                return
            await asyncio.sleep(WATCH_SECONDS)

    _with_room(show)


def _print_workers(listed: Sequence[Worker]) -> None:
    columns = ("worker", "fleet", "stage", "state", "load", "last seen", "workflows")
    rows = [
        (
            worker.worker_id,
            worker.fleet_slug,
            worker.stage,
            _state(worker),
            f"{worker.current_load}/{worker.max_concurrency}",
            moment(worker.last_seen_at),
            ", ".join(worker.workflows),
        )
        for worker in listed
    ]
    print_table(columns, rows)


@workers.command("approve")
def approve_worker(worker_id: str = WORKER) -> None:
    """Let a worker have jobs, or register again after it was revoked."""
    _report(_with_room(lambda room: room.workers.approve(worker_id, OPERATOR)))


@workers.command("revoke")
def revoke_worker(worker_id: str = WORKER) -> None:
    """End a worker's token at once, put its jobs back, and keep its id out until it is approved."""
    _report(_with_room(lambda room: room.workers.revoke(worker_id, OPERATOR)))


@workers.command("drain")
def drain_worker(
    worker_id: str = WORKER,
    undo: bool = typer.Option(False, "--undo", help="Let the worker have jobs again, also if it is away."),
    reason: str | None = typer.Option(None, help="Why, for other admins."),
) -> None:
    """Let a worker finish its jobs and give it no new ones, also after a restart, until --undo."""
    if undo:
        _report(_with_room(lambda room: room.workers.undrain(worker_id, OPERATOR)))
        return
    request = checked(DrainRequest, reason=reason)
    _report(_with_room(lambda room: room.workers.drain(worker_id, OPERATOR, request.reason)))


@workers.command("rotate")
def rotate_token(worker_id: str = WORKER) -> None:
    """Give a worker a new token with its next answer."""
    _with_room(lambda room: room.workers.rotate_token(worker_id, OPERATOR))
    out.print(f"Worker {worker_id} gets a new token with its next answer; the old one is good for ten minutes more.")


def _report(worker: Worker) -> None:
    out.print(f"Worker {worker.worker_id}: {_state(worker)}.")


def _sentence(fleet: Fleet) -> str:
    served = ", ".join(fleet.workflows) or "nothing yet"
    return f"Fleet {fleet.slug} in {fleet.stage} serves {served}."


def _state(worker: Worker) -> str:
    if worker.revoked_at is not None:
        return "revoked"
    parts = (
        "away" if not worker.is_registered else "live" if worker.is_live else "silent",
        None if worker.is_approved else "not approved",
        "draining" if worker.is_draining else None,
        "token pending" if worker.rotation_pending else None,
    )
    return ", ".join(part for part in parts if part)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _with_room(work: Callable[[FleetRoom], Awaitable[Result]]) -> Result:
    return asyncio.run(_opened(work))


async def _opened(work: Callable[[FleetRoom], Awaitable[Result]]) -> Result:
    from callsheet.fleet.room import open_fleet
    from callsheet.jobs.room import open_jobs
    from callsheet.plumbing.databases import open_installation
    from callsheet.plumbing.notify import Notifier
    from callsheet.plumbing.secrets import master_secret

    settings = load_settings()
    databases = await open_installation(settings)
    notifier = Notifier(databases.central)
    try:
        # Jobs that go back to the queue wake the workers that wait for them.
        jobs = open_jobs(databases, notifier.notify, settings.jobs)
        return await work(open_fleet(databases, settings.fleet, master_secret(settings, create=False), jobs.execution))
    finally:
        await notifier.close()
        await databases.close()
