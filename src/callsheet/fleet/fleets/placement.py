"""Decides which jobs a worker gets: those of its token's fleet, of the fleet it names, or of its own workflows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from callsheet.fleet.registry.credentials import Credential, TokenCredential
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.wire.errors import FieldProblem, InvalidRequest, NotAuthenticated, NotFound
from callsheet.wire.fleet import RegisterRequest

SQL = statements("callsheet.fleet.registry", "registration_statements.sql")

DEFAULT_STAGE = "production"


@dataclass(frozen=True, slots=True)
class Placement:
    stage: str
    # Active workflows whose jobs the worker gets now.
    workflows: tuple[str, ...]
    fleet_id: int | None = None
    fleet_slug: str | None = None
    # The worker's own workflows; in a fleet, the workflows that the worker named.
    workflow_ids: tuple[int, ...] = ()
    is_narrowed: bool = False
    token_id: int | None = None
    token_name: str | None = None


class WorkflowToServe(NamedTuple):
    id: int
    slug: str
    is_active: bool


class FleetToJoin(NamedTuple):
    id: int
    slug: str
    stage: str
    is_active: bool
    # Slugs of its active workflows.
    workflows: Sequence[str]


class UsedTokenRow(NamedTuple):
    id: int
    name: str


def check_shape(request: RegisterRequest, credential: Credential) -> None:
    if isinstance(credential, TokenCredential):
        return
    if request.fleet_slug is None and not request.workflow_slugs:
        raise InvalidRequest.field("fleet_slug", "Send fleet_slug, or workflow_slugs with at least one workflow.")
    if request.fleet_slug is not None and request.workflow_slugs:
        raise InvalidRequest.field(
            "workflow_slugs",
            "A worker of a fleet gets the fleet's workflows. Send either fleet_slug or workflow_slugs.",
        )


async def placement_of(connection: Connection, request: RegisterRequest, credential: Credential) -> Placement:
    if isinstance(credential, TokenCredential):
        return await _by_token(connection, request, credential)
    stage = request.stage or DEFAULT_STAGE
    if request.fleet_slug is not None:
        return await _in_fleet(connection, request.fleet_slug, stage)
    rows = await find_workflows(connection, request.workflow_slugs or [], "workflow_slugs")
    active = [row for row in rows if row.is_active]
    if not active:
        raise InvalidRequest.field("workflow_slugs", "None of these workflows is active.")
    slugs = tuple(row.slug for row in active)
    # Inactive workflows are assigned, too: they count when they are activated again.
    return Placement(stage, slugs, workflow_ids=tuple(row.id for row in rows))


async def find_workflows(connection: Connection, slugs: Sequence[str], field: str) -> list[WorkflowToServe]:
    """Returns all workflows that the field names, or raises an error that names the missing ones."""
    rows = await SQL["find_workflows"].rows(connection, WorkflowToServe, slugs=list(slugs))
    missing = set(slugs) - {row.slug for row in rows}
    if missing:
        raise InvalidRequest(
            _missing(sorted(missing)[:5]),
            errors=[
                FieldProblem(f"{field}.{place}", f"There is no workflow {slug!r}.")
                for place, slug in enumerate(slugs)
                if slug in missing
            ],
        )
    return rows


def _missing(slugs: Sequence[str]) -> str:
    of_actors = any(slug.startswith("actor:") for slug in slugs)
    advice = " A control plane creates the workflows of its own actors, for the queues of tasks.queues." * of_actors
    return f"There is no workflow {', '.join(slugs)}.{advice}"


async def _in_fleet(connection: Connection, slug: str, stage: str) -> Placement:
    fleet = await SQL["find_fleet_to_join"].row(connection, FleetToJoin, slug=slug, stage=stage)
    if fleet is None:
        raise NotFound(f"There is no fleet {slug!r} in stage {stage!r}.")
    _check_fleet(fleet, "fleet_slug")
    return Placement(stage, tuple(fleet.workflows), fleet.id, slug)


async def _by_token(connection: Connection, request: RegisterRequest, credential: TokenCredential) -> Placement:
    """The token decides the fleet. Fleet and stage in the request must match; the workflows may be a subset."""
    fleet = await SQL["find_fleet_of_token"].row(connection, FleetToJoin, token_hash=credential.token_hash)
    token = await SQL["use_fleet_token"].row(
        connection, UsedTokenRow, token_hash=credential.token_hash, worker_id=request.worker_id
    )
    if fleet is None or token is None:
        raise NotAuthenticated("The registration token was revoked or has expired.")
    named = (("fleet_slug", request.fleet_slug, fleet.slug), ("stage", request.stage, fleet.stage))
    for field, given, fixed in named:
        if given not in (None, fixed):
            raise InvalidRequest.field(
                field, f"The request names {given!r}, but the registration token is for {fixed!r}. Leave {field} out."
            )
    _check_fleet(fleet, "fleet_slug")
    workflows = tuple(fleet.workflows)
    workflow_ids: tuple[int, ...] = ()
    if request.workflow_slugs:
        # A task worker names all its actors; those that are not in the fleet are ignored.
        rows = await SQL["find_workflows"].rows(connection, WorkflowToServe, slugs=list(request.workflow_slugs))
        workflow_ids = tuple(row.id for row in rows)
        workflows = tuple(slug for slug in workflows if slug in request.workflow_slugs)
        if not workflows:
            raise InvalidRequest.field(
                "workflow_slugs", f"None of these is an active workflow of the token's fleet {fleet.slug!r}."
            )
    return Placement(
        fleet.stage,
        workflows,
        fleet.id,
        fleet.slug,
        workflow_ids,
        is_narrowed=bool(request.workflow_slugs),
        token_id=token.id,
        token_name=token.name,
    )


def _check_fleet(fleet: FleetToJoin, field: str) -> None:
    if not fleet.is_active:
        raise InvalidRequest.field(field, "The fleet is switched off.")
    if not fleet.workflows:
        raise InvalidRequest.field(field, "The fleet has no active workflow.")
