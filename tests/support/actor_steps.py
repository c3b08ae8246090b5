"""Steps that are actors, in a shoot: runs without HTTP and loops, whose tasks the test itself takes and delivers.

actors = await give_actors(shoot, Player("painter"), painter=3)
run = await shoot.run(await shoot.define([actor_step("painter", {"words": "{{prompt}}"}, needs_run_prompt=True)]))
actors.pop("painter")                                             # an actor that is there no more
"""

from __future__ import annotations

from typing import Any

from callsheet.jobs.effects import EffectJobs
from callsheet.providers.registry import Registry
from callsheet.settings import TaskSettings
from callsheet.tasks.room import open_tasks
from tests.support.shoot import Shoot
from tests.support.troupe import Player


async def give_actors(shoot: Shoot, *players: Player, **costs: int) -> dict[str, Player]:
    """Tasks of these actors, at these costs, as the composition root hands them down."""
    actors = {player.name: player for player in players}
    core = shoot.core
    effects = EffectJobs(core.databases, shoot.catalog, shoot.stage.room.files, core.room.submission)
    tasks = open_tasks(core.databases, core.room, effects, Registry(actors, {}), TaskSettings(costs=costs), None)
    await tasks.actors.keep()
    shoot.room.task_steps.plans = tasks.for_runs
    return actors


def actor_step(actor: str, payload: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": f"By {actor}", "workflow": f"actor:{actor}", "payload": payload, **fields}
