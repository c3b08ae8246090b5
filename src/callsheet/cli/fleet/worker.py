"""`callsheet worker`: the agent beside an engine. Needs no server part."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from callsheet.settings import Settings, load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.logs import configure_logs, get_logger
from callsheet.toolbox.private_files import make_closed

log = get_logger(__name__)
# Prefix of registration tokens. fleet.tokens defines it too, but is part of the server and not imported here.
TOKEN_PREFIX = "csf_"  # noqa: S105

if TYPE_CHECKING:
    from callsheet.worker.agent.config import AgentConfig
    from callsheet.worker.agent.departure import Departure


def worker(
    api_url: str | None = typer.Option(None, help="URL of the control plane (worker.api_url)."),
    fleet: str | None = typer.Option(None, help="Slug of the worker's fleet (worker.fleet)."),
    workflows: str | None = typer.Option(
        None, help="Workflows that the worker serves instead of a fleet's, comma separated (worker.workflows)."
    ),
    engine_url: str | None = typer.Option(None, help="URL of the worker's ComfyUI (engine.url)."),
    engine: list[str] | None = typer.Option(
        None, metavar="URL", help="URL of one of several ComfyUI engines. Repeat it for each engine (engine.urls)."
    ),
    comfyui: Path | None = typer.Option(
        None, metavar="DIR", help="Start and supervise ComfyUI from this directory (engine.comfyui)."
    ),
    engines: int | None = typer.Option(
        None,
        min=1,
        max=64,
        help="With --comfyui: number of engines to start. Default: one for each GPU (engine.count).",
    ),
    worker_id: str | None = typer.Option(None, "--id", help="Id of the worker (worker.id)."),
    tasks: bool = typer.Option(False, "--tasks", help="Run tasks instead of an engine's jobs. This needs no GPU."),
    queues: str | None = typer.Option(None, help="With --tasks: queues that the worker serves (worker.queues)."),
    lightbox: bool = typer.Option(False, "--lightbox", help="Also start the Lightbox engine, which needs no GPU."),
    until_stdin_ends: bool = typer.Option(
        False, "--until-stdin-ends", help="Also stop when standard input closes, that is, when the parent process ends."
    ),
) -> None:
    """Run jobs of a control plane on the engines of this machine until Ctrl-C or SIGTERM."""
    given = {"api_url": api_url, "fleet": fleet, "workflows": workflows, "id": worker_id, "queues": queues}
    of_engines = {"url": engine_url, "urls": engine or None, "comfyui": comfyui, "count": engines}
    if engine and comfyui is not None:
        raise OperatorError("--engine names engines that run already, --comfyui starts them: give one of the two.")
    overrides: dict[str, dict[str, Any]] = {
        "worker": {name: value for name, value in given.items() if value is not None}
    }
    if any(value is not None for value in of_engines.values()):
        overrides["engine"] = {name: value for name, value in of_engines.items() if value is not None}
    settings = load_settings(**overrides)
    if engines is not None and settings.engine.comfyui is None:
        raise OperatorError("--engines says how many ComfyUI to start: give --comfyui with its directory.")
    if tasks:
        if fleet is not None or workflows is not None or "engine" in overrides or lightbox:
            raise OperatorError(
                "--tasks runs actors: no --fleet, --workflows, --engine-url, --engine, --comfyui, --engines or "
                "--lightbox. Choose with --queues."
            )
        from callsheet.cli.fleet.task_worker import run_tasks

        configure_logs(settings.log.level, settings.log.format)
        raise typer.Exit(asyncio.run(run_tasks(settings)))
    configure_logs(settings.log.level, settings.log.format)
    run = partial(_run, until_stdin_ends=until_stdin_ends)
    if lightbox:
        from callsheet.cli.installation.lightbox import with_lightbox

        raise typer.Exit(asyncio.run(with_lightbox(settings, run)))
    raise typer.Exit(asyncio.run(run(settings)))


async def _run(settings: Settings, until_stdin_ends: bool) -> int:
    """Runs jobs until it is stopped; returns the exit code of the process."""
    from callsheet.cli.fleet.worker_engines import RIGHT_DIRECTORY, opened_engines, wrong_directory
    from callsheet.worker.agent.agent import Agent

    config = agent_config(settings, settings.worker.id or await machine_name(settings))
    wrong = wrong_directory(settings)
    if wrong is not None:
        raise OperatorError(f"{wrong} {RIGHT_DIRECTORY}")
    # The folders of the engines are in it.
    make_closed(config.directory.parent)
    async with opened_engines(settings, config.directory) as chosen:
        # This is logged first, because every later error concerns one of these values.
        log.info("worker.starts", api_url=config.api_url, engines=chosen.urls, fleet=config.fleet, stage=config.stage)
        agent = Agent(config, chosen.engines, chosen.supervised)
        stop_on_signals(agent.departure, config.stop_seconds)
        if until_stdin_ends:
            leave_when_stdin_ends(agent.departure)
        await agent.run()
    return agent.departure.exit_code


def agent_config(settings: Settings, worker_id: str) -> AgentConfig:
    from callsheet.worker.agent.config import AgentConfig
    from callsheet.worker.engines.warm_up import graph_in

    given = settings.worker
    secret = fleet_secret(settings)
    if given.fleet is None and not given.workflows and not secret.startswith(TOKEN_PREFIX):
        raise OperatorError(
            "A worker that registers with a secret needs a fleet (FLEET_SLUG, or --fleet) or workflows (--workflows). "
            "With a registration token as FLEET_SECRET it needs neither."
        )
    return AgentConfig(
        api_url=given.api_url or settings.public_url,
        worker_id=worker_id,
        secret=secret,
        directory=agent_directory(settings, worker_id),
        fleet=given.fleet,
        stage=given.stage,
        workflows=given.workflows,
        max_concurrency=given.max_concurrency,
        warm_up=None if settings.engine.warm_up is None else graph_in(settings.engine.warm_up),
        run_limit_seconds=settings.engine.run_limit_seconds,
        heartbeat_seconds=given.heartbeat_seconds,
        prefetch=given.prefetch,
        model_hashes=given.model_hashes,
        capabilities=given.capabilities,
        capacity_type=given.capacity_type,
        instance_type=given.instance_type,
        cache_bytes=given.cache_bytes,
        stop_seconds=given.stop_seconds,
        leaves_when_drained=given.when_drained == "exit",
        metadata_url=given.metadata_url,
        metadata_seconds=given.metadata_seconds,
        asg_name=given.asg_name,
        asg_region=given.asg_region,
        asg_endpoint_url=given.asg_endpoint_url,
        asg_lifecycle_hook=given.asg_lifecycle_hook,
    )


def agent_directory(settings: Settings, worker_id: str) -> Path:
    return settings.home / "worker" / re.sub(r"[^A-Za-z0-9._-]", "_", worker_id)


def fleet_secret(settings: Settings) -> str:
    if settings.worker.secret is None:
        raise OperatorError(
            "A worker needs a registration token. On the control plane, `callsheet fleets tokens create FLEET` makes "
            "one; give it as FLEET_SECRET."
        )
    return settings.worker.secret.get_secret_value()


async def machine_name(settings: Settings) -> str:
    """The id of a worker without a configured id: the instance id if there is one, or the host name."""
    from callsheet.worker.agent.ec2 import instance_id

    name = await instance_id(settings.worker.metadata_url) or socket.gethostname()
    # Host names are nearly always valid ids; invalid characters become dashes.
    return re.sub(r"[^A-Za-z0-9._:@-]+", "-", name).strip("-.")[:190] or "worker"


def stop_on_signals(departure: Departure, stop_seconds: float) -> None:
    """The first signal lets running jobs finish for a while, the second does not."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):

        def stop(name: str = number.name) -> None:
            departure.begin(name, 0.0 if departure.has_started else stop_seconds)

        loop.add_signal_handler(number, stop)


def leave_when_stdin_ends(departure: Departure) -> None:
    """Leaves when standard input ends. It is a pipe that the parent holds open and never writes to, so the parent
    has ended.
    """
    loop = asyncio.get_running_loop()

    def leave() -> None:
        loop.remove_reader(0)
        departure.begin("the process that started it has ended", 0.0)

    loop.add_reader(0, leave)
