"""`callsheet fleets` and `callsheet workers`: the workers of this installation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import typer

from callsheet.cli.shared.console import checked, err, moment, out, print_json, print_table
from callsheet.cli.shared.rooms import with_rooms
from callsheet.settings import load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.http.addresses import is_loopback_url
from callsheet.wire.fleet import (
    OVERLAP_SECONDS,
    CreatedFleetToken,
    CreateFleetRequest,
    CreateFleetTokenRequest,
    DrainRequest,
    Fleet,
    FleetToken,
    RotateFleetTokenRequest,
    Worker,
)

if TYPE_CHECKING:
    from callsheet.fleet.room import FleetRoom

Result = TypeVar("Result")

fleets = typer.Typer(help="Fleets of workers, and the workflows they serve.", no_args_is_help=True)
tokens = typer.Typer(help="Registration tokens, with which workers join a fleet.", no_args_is_help=True)
fleets.add_typer(tokens, name="tokens")
workers = typer.Typer(help="Registered workers.", no_args_is_help=True)

AS_JSON = typer.Option(False, "--json", help="Print JSON.")
STAGE = typer.Option("production", help="Stage of the fleet.")
WORKER = typer.Argument(help="Id of the worker.")
TOKEN = typer.Argument(help="Id of the token, or its first characters from the list.")
HOUR = 3600
QUEUES = typer.Option(
    None, "--tasks", metavar="QUEUE", help="Also serve the tasks of all current actors in this queue. Can be repeated."
)
# The actor name of identity.audit for commands; not imported, because it needs the server parts.
OPERATOR = "operator"
LISTED = 10_000
WATCH_SECONDS = 2.0


@fleets.command("create")
def create_fleet(
    slug: str = typer.Argument(help="Short name: lower-case letters, digits and dashes."),
    workflow_slugs: list[str] = typer.Argument(None, metavar="[WORKFLOW]...", help="Workflows that the fleet serves."),
    queues: list[str] = QUEUES,
    stage: str = STAGE,
    name: str | None = typer.Option(None, help="Display name. Default: the short name."),
    as_json: bool = AS_JSON,
) -> None:
    """Create a fleet that workers may join."""

    async def create(room: FleetRoom) -> Fleet:
        slugs = await served(room, workflow_slugs, queues)
        request = checked(CreateFleetRequest, slug=slug, stage=stage, name=name, workflow_slugs=slugs)
        return await room.fleets.create(request, OPERATOR)

    fleet = with_room(create)
    print_json(fleet) if as_json else out.print(sentence_of(fleet))


@fleets.command("list")
def list_fleets(as_json: bool = AS_JSON) -> None:
    """List the fleets."""
    page = with_room(lambda room: room.fleets.list(None, None, None, LISTED))
    if as_json:
        print_json(page.items)
        return
    columns = ("slug", "stage", "name", "active", "workers", "live", "wanted", "workflows", "why")
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
            _why(fleet),
        )
        for fleet in page.items
    ]
    print_table(columns, rows)


def _why(fleet: Fleet) -> str | None:
    """Why a scaled fleet wants this number of workers, or why it cannot get them."""
    if fleet.scaling is None:
        return None
    if fleet.scaling.driver_error is not None:
        return f"The driver {fleet.scaling.driver} fails: {fleet.scaling.driver_error}"
    return fleet.scaling.reason or "The autoscaler has not checked it yet."


@fleets.command("delete")
def delete_fleet(
    slug: str = typer.Argument(help="Short name of the fleet."),
    stage: str = STAGE,
    force: bool = typer.Option(False, "--force", help="Revoke the fleet's workers first. Their jobs are requeued."),
) -> None:
    """Delete a fleet. A fleet with registered workers is kept, unless --force is given."""

    async def delete(room: FleetRoom) -> int:
        from callsheet.fleet.operate.workers import WorkerFilter

        fleet = await room.fleets.find(slug, stage)
        page = await room.workers.list(WorkerFilter(fleet=slug, stage=stage), None, LISTED)
        revoked = [worker for worker in page.items if worker.is_registered and worker.revoked_at is None and force]
        for worker in revoked:
            await room.workers.revoke(worker.worker_id, OPERATOR)
        # If a worker joined in the meantime, the deletion is refused, and nothing is lost: run it again.
        await room.fleets.delete(fleet.id, OPERATOR)
        return len(revoked)

    revoked = with_room(delete)
    workers_too = f" Revoked workers: {revoked}." if revoked else ""
    out.print(f"Fleet {slug} in {stage} is deleted.{workers_too}")


@fleets.command("secret")
def show_secret() -> None:
    """Print the shared secret, or the secret for workers on this machine. Other machines need a registration token."""
    from callsheet.fleet.registry.credentials import fleet_secret
    from callsheet.plumbing.installation.installation import require_installation
    from callsheet.plumbing.installation.secrets import master_secret

    settings = load_settings()
    asyncio.run(require_installation(settings))
    if settings.fleet.secret is None and not is_loopback_url(settings.public_url):
        raise OperatorError(
            f"No shared secret is set, and this control plane serves other machines too ({settings.public_url}). "
            "Create a registration token for each fleet: callsheet fleets tokens create FLEET"
        )
    out.print(fleet_secret(settings.fleet, master_secret(settings, create=False)))
    if settings.fleet.secret is None:
        advice = "It is accepted from this machine only. For workers elsewhere: callsheet fleets tokens create FLEET"
        err.print(advice, style="dim")


@tokens.command("create")
def create_token(
    fleet: str = typer.Argument(help="Short name of the fleet."),
    stage: str = STAGE,
    name: str | None = typer.Option(
        None, help="Name of the token, for example the machine image it is used in. Default: workers."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Create a registration token and print it. It is shown only this once. Workers get it as FLEET_SECRET."""
    request = checked(CreateFleetTokenRequest, name=name)

    async def create(room: FleetRoom) -> CreatedFleetToken:
        found = await room.fleets.find(fleet, stage)
        return await room.fleet_tokens.create(found.id, request.name, OPERATOR)

    _show_token(with_room(create), as_json)


@tokens.command("list")
def list_tokens(
    fleet: str | None = typer.Argument(None, help="Only tokens of this fleet (short name)."),
    stage: str = STAGE,
    as_json: bool = AS_JSON,
) -> None:
    """List the registration tokens with their last use, newest first."""

    async def read(room: FleetRoom) -> list[FleetToken]:
        fleet_id = None if fleet is None else (await room.fleets.find(fleet, stage)).id
        return (await room.fleet_tokens.list(fleet_id, None, LISTED)).items

    listed = with_room(read)
    if as_json:
        print_json(listed)
        return
    columns = ("id", "token", "name", "fleet", "stage", "state", "workers", "last used", "by")
    rows = [
        (
            token.id,
            f"{token.prefix}…",
            token.name,
            token.fleet_slug,
            token.stage,
            _token_state(token),
            token.workers,
            moment(token.last_used_at) if token.last_used_at else "never",
            token.last_used_by,
        )
        for token in listed
    ]
    print_table(columns, rows)


@tokens.command("rotate")
def rotate_fleet_token(
    token: str = TOKEN,
    overlap_hours: float = typer.Option(OVERLAP_SECONDS / HOUR, help="How long the old token is still accepted."),
    as_json: bool = AS_JSON,
) -> None:
    """Print a new registration token that replaces this one. The old token is still accepted for a day."""
    request = checked(RotateFleetTokenRequest, overlap_seconds=round(overlap_hours * HOUR))

    async def rotate(room: FleetRoom) -> CreatedFleetToken:
        token_id = await room.fleet_tokens.find(token)
        return await room.fleet_tokens.rotate(token_id, request.overlap_seconds, OPERATOR)

    _show_token(with_room(rotate), as_json)


@tokens.command("revoke")
def revoke_fleet_token(token: str = TOKEN, as_json: bool = AS_JSON) -> None:
    """Revoke a registration token. Registered workers continue, but no worker can register with it."""

    async def revoke(room: FleetRoom) -> FleetToken:
        return await room.fleet_tokens.revoke(await room.fleet_tokens.find(token), OPERATOR)

    revoked = with_room(revoke)
    if as_json:
        print_json(revoked)
        return
    out.print(f"Token {revoked.id} ({revoked.name}) of the fleet {revoked.fleet_slug} in {revoked.stage} is revoked.")
    if revoked.workers:
        out.print(
            f"Workers that registered with it keep running: {revoked.workers}. To end one: callsheet workers revoke ID"
        )


@workers.command("list")
def list_workers(
    fleet: str | None = typer.Option(None, help="Only workers of this fleet (short name)."),
    live: bool | None = typer.Option(
        None, "--live/--silent", help="Only workers seen (--live) or not seen (--silent) in the last 90 seconds."
    ),
    watch: bool = typer.Option(False, "--watch", "-w", help="Show the list again every two seconds until Ctrl-C."),
    as_json: bool = AS_JSON,
) -> None:
    """List the workers, including drained workers that are not connected."""
    from callsheet.fleet.operate.workers import WorkerFilter

    async def show(room: FleetRoom) -> None:
        while True:
            page = await room.workers.list(WorkerFilter(fleet=fleet, live=live), None, LISTED)
            if watch and not as_json and out.is_terminal:
                out.clear()
            print_json(page.items) if as_json else _print_workers(page.items)
            if not watch:
                return
            await asyncio.sleep(WATCH_SECONDS)

    with_room(show)


def _print_workers(listed: Sequence[Worker]) -> None:
    columns = ("worker", "fleet", "stage", "state", "load", "last seen", "workflows")
    rows = [
        (
            worker.worker_id,
            worker.fleet_slug,
            worker.stage,
            state_of(worker),
            f"{worker.current_load}/{worker.max_concurrency}",
            moment(worker.last_seen_at),
            ", ".join(worker.workflows),
        )
        for worker in listed
    ]
    print_table(columns, rows)


@workers.command("approve")
def approve_worker(worker_id: str = WORKER) -> None:
    """Approve a worker: it gets jobs, or may register again after it was revoked."""
    _report(with_room(lambda room: room.workers.approve(worker_id, OPERATOR)))


@workers.command("revoke")
def revoke_worker(
    worker_id: str = WORKER,
    with_token: bool = typer.Option(
        False,
        "--with-token",
        help="Revoke the worker's registration token too, so that it cannot register again under another id.",
    ),
) -> None:
    """Revoke a worker's token at once, requeue its jobs, and block its id until it is approved."""
    _report(with_room(lambda room: room.workers.revoke(worker_id, OPERATOR, with_token=with_token)))


@workers.command("drain")
def drain_worker(
    worker_id: str = WORKER,
    undo: bool = typer.Option(
        False, "--undo", help="End the drain: the worker gets jobs again, also if it is not connected."
    ),
    reason: str | None = typer.Option(None, help="Reason, for other admins."),
) -> None:
    """Drain a worker: it finishes its jobs and gets no new ones, also after a restart, until --undo."""
    if undo:
        _report(with_room(lambda room: room.workers.undrain(worker_id, OPERATOR)))
        return
    request = checked(DrainRequest, reason=reason)
    _report(with_room(lambda room: room.workers.drain(worker_id, OPERATOR, request.reason)))


@workers.command("rotate")
def rotate_token(worker_id: str = WORKER) -> None:
    """Give a worker a new token with its next response."""
    with_room(lambda room: room.workers.rotate_token(worker_id, OPERATOR))
    out.print(
        f"Worker {worker_id} gets a new token with its next response. The old token is valid for ten more minutes."
    )


async def served(room: FleetRoom, workflow_slugs: Sequence[str] | None, queues: Sequence[str] | None) -> list[str]:
    """The named workflows, and those of the actors of these queues."""
    slugs = list(workflow_slugs or ())
    for queue in queues or ():
        of_actors = await room.fleets.actor_workflows(queue)
        if not of_actors:
            raise OperatorError(
                f"No actor takes tasks of the queue {queue!r}. The setting tasks.queues names the queues."
            )
        slugs += [slug for slug in of_actors if slug not in slugs]
    return slugs


def _report(worker: Worker) -> None:
    out.print(f"Worker {worker.worker_id}: {state_of(worker)}.")


def sentence_of(fleet: Fleet) -> str:
    served = ", ".join(fleet.workflows) or "nothing yet"
    return f"Fleet {fleet.slug} in {fleet.stage} serves {served}."


def _show_token(created: CreatedFleetToken, as_json: bool) -> None:
    if as_json:
        print_json(created)
        return
    out.print(created.token)
    where = f"fleet {created.fleet_slug} in {created.stage}"
    err.print(f"Token {created.id} of the {where}. Give it to its workers as FLEET_SECRET.", style="dim")


def _token_state(token: FleetToken) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is not None:
        return f"replaced, until {moment(token.expires_at)}" if token.is_accepted else "replaced"
    return "accepted"


def state_of(worker: Worker) -> str:
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


def with_room(work: Callable[[FleetRoom], Awaitable[Result]]) -> Result:
    return with_rooms(lambda rooms: work(rooms.fleet))
