"""`callsheet fleets assign`, `unassign` and `set`: the workflows of a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from callsheet.cli.fleet.fleet import AS_JSON, OPERATOR, QUEUES, STAGE, sentence_of, served, with_room
from callsheet.cli.shared.console import checked, err, out, print_json, require_consent
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.fleet import ChangeWorkflowsRequest, Fleet

if TYPE_CHECKING:
    from callsheet.fleet.room import FleetRoom

FLEET = typer.Argument(help="Short name of the fleet.")


def assign_workflows(
    slug: str = FLEET,
    workflow_slugs: list[str] = typer.Argument(None, metavar="[WORKFLOW]...", help="Workflows to add."),
    queues: list[str] = QUEUES,
    stage: str = STAGE,
    as_json: bool = AS_JSON,
) -> None:
    """Add workflows to a fleet. The fleet keeps its other workflows."""
    _require_workflows(workflow_slugs, queues, "add")

    async def add(room: FleetRoom) -> Fleet:
        fleet = await room.fleets.find(slug, stage)
        return await _change(room, fleet, add=await served(room, workflow_slugs, queues))

    _show(with_room(add), as_json)


def unassign_workflows(
    slug: str = FLEET,
    workflow_slugs: list[str] = typer.Argument(None, metavar="[WORKFLOW]...", help="Workflows to remove."),
    queues: list[str] = typer.Option(
        None, "--tasks", metavar="QUEUE", help="Also remove the tasks of all actors in this queue. Can be repeated."
    ),
    stage: str = STAGE,
    as_json: bool = AS_JSON,
) -> None:
    """Remove workflows from a fleet. The fleet keeps its other workflows."""
    _require_workflows(workflow_slugs, queues, "remove")

    async def remove(room: FleetRoom) -> Fleet:
        fleet = await room.fleets.find(slug, stage)
        unwanted = await served(room, workflow_slugs, queues)
        if missing := [each for each in workflow_slugs or () if each not in fleet.workflows]:
            raise OperatorError(f"The fleet does not serve {', '.join(missing)}. {sentence_of(fleet)}")
        return await _change(room, fleet, remove=unwanted)

    _show(with_room(remove), as_json)


def set_workflows(
    slug: str = FLEET,
    workflow_slugs: list[str] = typer.Argument(
        None, metavar="[WORKFLOW]...", help="All workflows that the fleet serves. With none, the fleet serves nothing."
    ),
    queues: list[str] = QUEUES,
    stage: str = STAGE,
    yes: bool = typer.Option(False, "--yes", "-y", help="Remove the other workflows without confirmation."),
    as_json: bool = AS_JSON,
) -> None:
    """Replace the workflows of a fleet by those named here, after a confirmation that lists the removed workflows."""

    async def replace(room: FleetRoom) -> Fleet:
        fleet = await room.fleets.find(slug, stage)
        wanted = await served(room, workflow_slugs, queues)
        added = [each for each in wanted if each not in fleet.workflows]
        removed = [each for each in fleet.workflows if each not in wanted]
        if removed:
            # Before the refusal, too: a script that forgot --yes shows what it would have removed.
            err.print(f"Fleet {fleet.slug} in {fleet.stage} will no longer serve {', '.join(removed)}.")
            require_consent("Remove these workflows?", "changed", yes, "replace the workflows")
        # Only the workflows that the confirmation named: another operator may have added one meanwhile.
        return await _change(room, fleet, add=added, remove=removed)

    _show(with_room(replace), as_json)


async def _change(room: FleetRoom, fleet: Fleet, **change: Sequence[str]) -> Fleet:
    return await room.fleets.change_workflows(fleet.id, checked(ChangeWorkflowsRequest, **change), OPERATOR)


def _require_workflows(workflow_slugs: Sequence[str] | None, queues: Sequence[str] | None, verb: str) -> None:
    if not workflow_slugs and not queues:
        raise OperatorError(f"Name the workflows to {verb}, or a queue of tasks with --tasks QUEUE.")


def _show(fleet: Fleet, as_json: bool) -> None:
    print_json(fleet) if as_json else out.print(sentence_of(fleet))
