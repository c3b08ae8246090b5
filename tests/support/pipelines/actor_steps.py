"""Pipeline steps that are actors, without HTTP and background loops: the test itself leases and completes the tasks.

pipelines, actors = await with_actors(pipelines, ScriptedActor("painter"), painter=3)
step = actor_step("painter", {"words": "{{prompt}}"}, needs_run_prompt=True)
run = await pipelines.run(await pipelines.define([step]))
actors.pop("painter")                                             # an actor that is there no more
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from callsheet.effects.effect_jobs import EffectJobs
from callsheet.pipelines.room import open_pipelines
from callsheet.providers.registry import ActorRegistry
from callsheet.settings import TaskSettings
from callsheet.tasks.room import open_tasks
from tests.support.http.actor_harness import ScriptedActor
from tests.support.pipelines.pipeline_harness import PipelineHarness
from tests.support.rooms import EveryProvider


async def with_actors(
    pipelines: PipelineHarness, *given: ScriptedActor, **costs: int
) -> tuple[PipelineHarness, dict[str, ScriptedActor]]:
    """The same installation with a control plane that runs tasks of these actors, at these costs."""
    actors = {actor.name: actor for actor in given}
    core = pipelines.core
    effects = EffectJobs(core.databases, pipelines.catalog, pipelines.media.room.files, core.room.submission)
    tasks = open_tasks(
        core.databases, core.room, effects, ActorRegistry(actors, {}), TaskSettings(costs=costs), None, EveryProvider()
    )
    await tasks.actors.keep()
    room = open_pipelines(
        core.databases, pipelines.catalog, pipelines.media.room, core.room, pipelines.room.settings, tasks.for_runs
    )
    return replace(pipelines, room=room), actors


def actor_step(actor: str, payload: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": f"By {actor}", "workflow": f"actor:{actor}", "payload": payload, **fields}
