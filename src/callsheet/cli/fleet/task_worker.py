"""`callsheet worker --tasks`: runs actors on any machine, with leases of the worker protocol. Needs no server part."""

from __future__ import annotations

import re

from callsheet.cli.fleet.worker import fleet_secret, machine_name, stop_on_signals
from callsheet.providers.registry import open_registry
from callsheet.settings import Settings
from callsheet.toolbox.logs import get_logger
from callsheet.wire.fleet import RegisterRequest
from callsheet.wire.tasks import workflow_slug
from callsheet.worker.agent.control_plane import ControlPlaneClient
from callsheet.worker.agent.reports import claim
from callsheet.worker.tasks.task_agent import TaskAgent, TaskConfig

log = get_logger(__name__)


async def run_tasks(settings: Settings) -> int:
    """Runs tasks until it is stopped; returns the exit code of the process."""
    given = settings.worker
    secret = fleet_secret(settings)
    worker_id = given.id or f"{await machine_name(settings)}-tasks"
    directory = settings.home / "worker" / re.sub(r"[^A-Za-z0-9._-]", "_", worker_id)
    registry = open_registry(settings.providers, allow_networks=settings.outgoing.allow_networks)
    providers = registry.provider_names
    registration = RegisterRequest(
        worker_id=worker_id,
        max_concurrency=given.task_concurrency,
        capabilities={"actors": sorted(registry.actors), **given.capabilities},
        capacity_type=given.capacity_type,
        instance_type=given.instance_type,
        providers=list(providers),
        workflow_slugs=[workflow_slug(actor, queue) for actor in registry.actors for queue in given.queues],
    )
    api_url = given.api_url or settings.public_url
    log.info("worker.starts", api_url=api_url, worker_id=worker_id, queues=given.queues)
    plane = ControlPlaneClient(api_url, secret, directory / "token.json", registration=lambda: registration)
    config = TaskConfig(
        directory=directory / "work",
        providers=providers,
        max_concurrency=given.task_concurrency,
        heartbeat_seconds=settings.tasks.heartbeat_seconds,
        stop_seconds=given.stop_seconds,
        leaves_when_drained=given.when_drained == "exit",
    )
    agent = TaskAgent(config, plane, registry.actors)
    stop_on_signals(agent.departure, given.stop_seconds)
    lock = claim(directory)
    try:
        await agent.run()
        return agent.departure.exit_code
    finally:
        await plane.close()
        await registry.close()
        lock.close()
