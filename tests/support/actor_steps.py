"""Steps that are actors, in a shoot: runs without HTTP and loops, whose tasks the test itself takes and delivers.

shoot, actors = await with_actors(shoot, Player("painter"), painter=3)
run = await shoot.run(await shoot.define([actor_step("painter", {"words": "{{prompt}}"}, needs_run_prompt=True)]))
actors.pop("painter")                                             # an actor that is there no more
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from callsheet.jobs.effects import EffectJobs
from callsheet.pipelines.room import open_pipelines
from callsheet.providers.registry import Registry
from callsheet.settings import TaskSettings
from callsheet.tasks.room import open_tasks
from tests.support.shoot import Shoot
from tests.support.troupe import Player


async def with_actors(shoot: Shoot, *players: Player, **costs: int) -> tuple[Shoot, dict[str, Player]]:
    """The same installation with a control plane that runs tasks of these actors, at these costs."""
    actors = {player.name: player for player in players}
    core = shoot.core
    effects = EffectJobs(core.databases, shoot.catalog, shoot.stage.room.files, core.room.submission)
    tasks = open_tasks(core.databases, core.room, effects, Registry(actors, {}), TaskSettings(costs=costs), None)
    await tasks.actors.keep()
    room = open_pipelines(
        core.databases, shoot.catalog, shoot.stage.room, core.room, shoot.room.settings, tasks.for_runs
    )
    return replace(shoot, room=room), actors


def actor_step(actor: str, payload: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": f"By {actor}", "workflow": f"actor:{actor}", "payload": payload, **fields}
