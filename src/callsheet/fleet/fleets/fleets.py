"""Fleets: a slug in a stage, and the workflows whose jobs the fleet's workers get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import asyncpg

from callsheet.fleet.fleets.placement import find_workflows
from callsheet.fleet.operate.metrics import MAX_QUEUED
from callsheet.fleet.registry.registry import ALIVE_SECONDS
from callsheet.identity.audit_log import record
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.wire.base import Page
from callsheet.wire.errors import Conflict, FieldProblem, NotFound
from callsheet.wire.fleet import ChangeWorkflowsRequest, CreateFleetRequest, Fleet, FleetWorkflow, UpdateFleetRequest
from callsheet.wire.tasks import actor_of

SQL = statements("callsheet.fleet.fleets", "fleet_statements.sql")

SHOWN_GROUPS = 5


class DeletedFleet(NamedTuple):
    slug: str
    stage: str


class Fleets:
    def __init__(self, databases: Databases):
        self._databases = databases

    async def create(self, request: CreateFleetRequest, actor: str) -> Fleet:
        async with self._databases.central.transaction() as connection:
            fleet_id = await SQL["create_fleet"].value(
                connection,
                slug=request.slug,
                stage=request.stage,
                name=request.name or request.slug,
                desired_workers=request.desired_workers,
            )
            if fleet_id is None:
                raise Conflict(
                    f"A fleet {request.slug!r} already exists in stage {request.stage!r}.",
                    errors=[FieldProblem("slug", "This slug is already in use in this stage.")],
                )
            await _assign(connection, fleet_id, request.workflow_slugs)
            await _log(connection, fleet_id, actor, "create", **request.model_dump())
            return await _fleet(connection, fleet_id)

    async def list(self, slug: str | None, stage: str | None, before: int | None, limit: int) -> Page[Fleet]:
        """The fleets, newest first."""
        async with self._databases.central.ordinary() as connection:
            fleets = await _fleets(connection, slug=slug, stage=stage, before=before, limit=limit + 1)
        items = fleets[:limit]
        return Page(items=items, next_cursor=str(items[-1].id) if len(fleets) > limit else None)

    async def get(self, fleet_id: int) -> Fleet:
        async with self._databases.central.ordinary() as connection:
            return await _fleet(connection, fleet_id)

    async def workflows(self, fleet_id: int) -> Sequence[FleetWorkflow]:
        """Each workflow of the fleet, whether its live workers can run it, and its queue in the fleet's stage."""
        async with self._databases.central.ordinary() as connection:
            if await SQL["find_fleet"].value(connection, id=fleet_id) is None:
                raise _no_fleet()
            return await SQL["workflows_of_fleet"].rows(
                connection,
                FleetWorkflow,
                fleet_id=fleet_id,
                alive_seconds=ALIVE_SECONDS,
                max_rows=MAX_QUEUED,
                max_groups=SHOWN_GROUPS,
            )

    async def find(self, slug: str, stage: str) -> Fleet:
        async with self._databases.central.ordinary() as connection:
            fleets = await _fleets(connection, slug=slug, stage=stage)
        if not fleets:
            raise NotFound(f"There is no fleet {slug!r} in stage {stage!r}.")
        return fleets[0]

    async def actor_workflows(self, queue: str) -> Sequence[str]:
        """The workflows that route the tasks of a queue, one for each actor."""
        async with self._databases.central.ordinary() as connection:
            slugs = await SQL["list_actor_workflows"].column(connection)
        return [slug for slug in slugs if (actor := actor_of(slug)) is not None and actor[1] == queue]

    async def update(self, fleet_id: int, request: UpdateFleetRequest, actor: str) -> Fleet:
        """Changes only the fields that the request names."""
        async with self._databases.central.transaction() as connection:
            await _lock(connection, fleet_id)
            await SQL["update_fleet"].run(
                connection,
                id=fleet_id,
                name=request.name,
                is_active=request.is_active,
                sets_desired_workers="desired_workers" in request.model_fields_set,
                desired_workers=request.desired_workers,
            )
            if request.is_active is not None:
                # Otherwise a waiting worker could get a job of a fleet that was switched off meanwhile.
                await SQL["notify_fleet_reassigned"].run(connection, fleet_id=fleet_id)
            await _log(connection, fleet_id, actor, "update", **request.model_dump(exclude_unset=True))
            return await _fleet(connection, fleet_id)

    async def set_workflows(self, fleet_id: int, workflow_slugs: Sequence[str], actor: str) -> Fleet:
        """Assigns exactly these workflows. Waiting polls of the fleet's workers are notified at once."""
        async with self._databases.central.transaction() as connection:
            await _lock(connection, fleet_id)
            await _assign(connection, fleet_id, workflow_slugs)
            await SQL["notify_fleet_reassigned"].run(connection, fleet_id=fleet_id)
            await _log(connection, fleet_id, actor, "set_workflows", workflows=workflow_slugs)
            return await _fleet(connection, fleet_id)

    async def change_workflows(self, fleet_id: int, change: ChangeWorkflowsRequest, actor: str) -> Fleet:
        """Adds and removes workflows. Unlike `set_workflows`, it keeps what another operator assigned meanwhile."""
        async with self._databases.central.transaction() as connection:
            await _lock(connection, fleet_id)
            added = await find_workflows(connection, change.add, "add")
            removed = await find_workflows(connection, change.remove, "remove")
            await SQL["assign_fleet_workflows"].run(
                connection, fleet_id=fleet_id, workflow_ids=[workflow.id for workflow in added]
            )
            await SQL["unassign_fleet_workflows"].run(
                connection, fleet_id=fleet_id, workflow_ids=[workflow.id for workflow in removed]
            )
            await SQL["notify_fleet_reassigned"].run(connection, fleet_id=fleet_id)
            await _log(connection, fleet_id, actor, "change_workflows", **change.model_dump(exclude_defaults=True))
            return await _fleet(connection, fleet_id)

    async def delete(self, fleet_id: int, actor: str) -> None:
        try:
            async with self._databases.central.transaction() as connection:
                if await SQL["is_scaled"].value(connection, fleet_id=fleet_id):
                    raise _is_scaled()
                await SQL["detach_revoked_workers"].run(connection, fleet_id=fleet_id)
                deleted = await SQL["delete_fleet"].row(connection, DeletedFleet, id=fleet_id)
                if deleted is None:
                    raise _no_fleet()
                await _log(connection, fleet_id, actor, "delete", slug=deleted.slug, stage=deleted.stage)
        except asyncpg.ForeignKeyViolationError as error:
            if error.table_name == "fleet_scaling":
                raise _is_scaled() from None
            raise Conflict("The fleet has workers. Stop or revoke them first.") from None


async def _assign(connection: Connection, fleet_id: int, workflow_slugs: Sequence[str]) -> None:
    workflow_ids = [workflow.id for workflow in await find_workflows(connection, workflow_slugs, "workflow_slugs")]
    await SQL["unassign_other_fleet_workflows"].run(connection, fleet_id=fleet_id, workflow_ids=workflow_ids)
    await SQL["assign_fleet_workflows"].run(connection, fleet_id=fleet_id, workflow_ids=workflow_ids)


async def _lock(connection: Connection, fleet_id: int) -> None:
    if await SQL["lock_fleet"].value(connection, id=fleet_id) is None:
        raise _no_fleet()


async def _fleet(connection: Connection, fleet_id: int) -> Fleet:
    fleets = await _fleets(connection, fleet_id=fleet_id)
    if not fleets:
        raise _no_fleet()
    return fleets[0]


async def _fleets(
    connection: Connection,
    *,
    fleet_id: int | None = None,
    slug: str | None = None,
    stage: str | None = None,
    before: int | None = None,
    limit: int = 1,
) -> list[Fleet]:
    return await SQL["list_fleets"].rows(
        connection, Fleet, id=fleet_id, slug=slug, stage=stage, before=before, alive_seconds=ALIVE_SECONDS, limit=limit
    )


async def _log(connection: Connection, fleet_id: int, actor: str, action: str, **details: object) -> None:
    await record(connection, actor, f"fleet.{action}", "fleet", fleet_id, None, **details)


def _is_scaled() -> Conflict:
    return Conflict("The fleet is scaled, and its driver may be starting workers. Stop scaling the fleet first.")


def _no_fleet() -> NotFound:
    return NotFound("There is no such fleet.")
