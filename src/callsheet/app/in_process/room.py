"""Builds the worker inside a control plane."""

from __future__ import annotations

import secrets
import socket

from callsheet.app.in_process.plane import InProcessPlane
from callsheet.app.in_process.runner import TaskRunner
from callsheet.fleet.protocol.worker_protocol import WorkerProtocol
from callsheet.fleet.registry.registry import OWN_PREFIX
from callsheet.fleet.room import FleetRoom
from callsheet.providers.registry import ActorRegistry
from callsheet.settings import Settings
from callsheet.settings.tasks import DEFAULT_QUEUE
from callsheet.wire.tasks import workflow_slug


def open_task_runner(
    settings: Settings, fleet: FleetRoom, protocol: WorkerProtocol, providers: ActorRegistry
) -> TaskRunner | None:
    """The worker of this process. None if the settings leave tasks to other machines, or if there are no actors."""
    if not settings.tasks.in_process or not providers.actors:
        return None
    queues = (DEFAULT_QUEUE, *settings.tasks.queues)
    plane = InProcessPlane(
        worker_id=runner_name(),
        workflow_slugs=[workflow_slug(actor, queue) for actor in providers.actors for queue in queues],
        providers=providers.provider_names,
        max_concurrency=settings.tasks.in_process,
        registry=fleet.registry,
        authentication=fleet.authentication,
        protocol=protocol,
        max_bytes=settings.server.max_body_bytes,
    )
    return TaskRunner(plane, providers.actors, settings.home / "tasks", settings.tasks.heartbeat_seconds)


def runner_name() -> str:
    """A new name for every process: after a crash, the worker of the process before may still be registered."""
    host = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in socket.gethostname())
    return f"{OWN_PREFIX}{host[:100]}:{secrets.token_hex(4)}"
