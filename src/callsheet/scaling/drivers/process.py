"""Driver for agents on the control plane's own machine: for one large machine, and for the demo.

The agents are independent of the control plane: they continue when it restarts, and the next one finds them again.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from callsheet.scaling.driver import Actual, DriverError, ScaledFleet
from callsheet.scaling.drivers.local_agents import COMMAND, LocalAgent, LocalAgents, worker_prefix
from callsheet.scaling.drivers.options import checked_options, fits, read_options
from callsheet.settings import Settings, environment_for_programs, variable_name
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.sections import NULLS, WebAddress
from callsheet.wire.base import Line
from callsheet.wire.fleet import CreatedFleetToken
from callsheet.wire.plurals import counted

log = get_logger(__name__)

# An agent counts as starting for this time, until it has written its PID.
START_SECONDS = 30.0
# An agent that is asked to stop holds no lease and stops within seconds.
KILL_SECONDS = 60.0
# An agent that ended this soon after its start could not start, and the next one would not either.
EARLY_SECONDS = 60.0
RETRY_SECONDS = 60.0
# Characters of an agent's last log line in the error that operators read.
MAX_SHOWN_LENGTH = 300
# Creator of the token in the audit log.
ACTOR = "autoscaler"
# Sections of the control plane's settings that are passed on to agents.
SECTIONS = ("engine", "lightbox", "log", "worker")
# Settings that are not passed on, because each agent has its own.
OWN = {"id", "secret", "fleet", "stage", "workflows", "api_url", "when_drained"}


class RegistrationTokens(Protocol):
    """`fleet.FleetTokens`."""

    async def create(self, fleet_id: int, name: str | None, actor: str) -> CreatedFleetToken: ...

    async def is_accepted(self, token: str) -> bool: ...


class ProcessOptions(BaseModel):
    """The options of `callsheet fleets scale --driver process`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: Line = Field(
        default_factory=socket.gethostname,
        description="Host name of the machine that runs the agents. Default: this control plane's.",
    )
    lightbox: bool = Field(False, description="Run a Lightbox engine inside each agent, on the CPU.")
    engine_urls: tuple[WebAddress, ...] = Field(
        (),
        title="Engine URLs",
        max_length=1000,
        description="URL of the engine of each agent. Default: engine.url for all of them.",
    )
    gpus: tuple[
        Annotated[
            str, AfterValidator(fits(r"[A-Za-z0-9,./-]{1,200}", "Use one or more GPU numbers, for example 0 or 0,1."))
        ],
        ...,
    ] = Field(
        (),
        title="GPUs",
        max_length=1000,
        description="CUDA_VISIBLE_DEVICES of each agent. Default: that of the control plane.",
    )
    leaves_with_control_plane: bool = Field(
        False, title="Leaves with the control plane", description="End the agents when the control plane ends."
    )

    def max_agents(self, maximum: int) -> int:
        """How many agents can run: each needs its own engine and GPU, if they are listed."""
        return min([maximum, *(len(places) for places in (self.engine_urls, self.gpus) if places)])


class ProcessDriver:
    name = "process"
    about = "Starts agents as processes on a machine that runs a control plane."

    def __init__(
        self,
        settings: Settings,
        tokens: RegistrationTokens,
        *,
        host: str | None = None,
        now: Callable[[], float] = time.time,
        command: Sequence[str] = COMMAND,
    ):
        self._settings = settings
        self._tokens = tokens
        self._host = host or socket.gethostname()
        self._now = now
        self._command = command
        # Child processes, which this process must wait for when they have ended.
        self._children: set[int] = set()
        # A pipe: agents that stop with the control plane notice that its other end is closed.
        self._lifeline: tuple[int, int] | None = None

    def options_schema(self) -> Mapping[str, Any]:
        return ProcessOptions.model_json_schema()

    def checked(self, options: Mapping[str, object]) -> Mapping[str, object]:
        return checked_options(ProcessOptions, options).model_dump(mode="json")

    async def actual(self, fleet: ScaledFleet) -> Actual:
        self._options(fleet)
        living = await asyncio.to_thread(self._living, fleet)
        return Actual(len(living), frozenset(agent.worker_id for agent in living))

    async def want(self, fleet: ScaledFleet, wanted: int, on_demand: int) -> None:
        options = self._options(fleet)
        living = await asyncio.to_thread(self._living, fleet)
        max_agents = options.max_agents(fleet.policy.maximum)
        missing = min(wanted, max_agents) - len(living)
        if missing > 0:
            self._refuse_to_repeat(await asyncio.to_thread(self._agents(fleet).all))
            environment = await self._environment(fleet)
            free = [place for place in range(max_agents) if place not in {agent.place for agent in living}]
            for place in free[:missing]:
                self._start(fleet, options, place, environment)
        if max_agents < min(wanted, fleet.policy.maximum):
            raise DriverError(
                f"{counted(wanted, 'worker is', 'workers are')} wanted, and the fleet {fleet.slug} has engines or "
                f"GPUs for {max_agents}. Add more to engine_urls and gpus, or lower the fleet's maximum."
            )

    async def end(self, fleet: ScaledFleet, worker_ids: Sequence[str]) -> None:
        self._options(fleet)
        for agent in await asyncio.to_thread(self._living, fleet):
            if agent.worker_id in worker_ids:
                log.info("scaling.agent_ends", worker_id=agent.worker_id)
                agent.end(self._now())

    async def close(self) -> None:
        if self._lifeline is not None:
            for end in self._lifeline:
                os.close(end)
            self._lifeline = None

    def _options(self, fleet: ScaledFleet) -> ProcessOptions:
        options = read_options(ProcessOptions, fleet)
        if options.host != self._host:
            raise DriverError(
                f"The agents of the fleet {fleet.slug} run on {options.host}, and this control plane runs on "
                f"{self._host}. Only a control plane on {options.host} can start and end them."
            )
        return options

    def _agents(self, fleet: ScaledFleet) -> LocalAgents:
        directory = self._settings.home.absolute() / "scaling" / f"{fleet.slug}.{fleet.stage}"
        return LocalAgents(directory, self._host, self._command)

    def _living(self, fleet: ScaledFleet) -> list[LocalAgent]:
        """Running agents, including stopping ones: an engine and a GPU are free only when the agent is gone."""
        for child in list(self._children):
            with suppress(ChildProcessError):
                if os.waitpid(child, os.WNOHANG) == (0, 0):
                    continue
            self._children.discard(child)
        now, agents, living = self._now(), self._agents(fleet), []
        for agent in agents.all():
            if agent.gone_since is not None:
                continue
            if agent.is_alive(now, START_SECONDS):
                living.append(agent)
                since = agent.ending_since
                if since is not None and now - since > KILL_SECONDS:
                    log.warning("scaling.agent_killed", worker_id=agent.worker_id, seconds=now - since)
                    agent.end(now, signal.SIGKILL)
            else:
                agent.note_gone(now)
        agents.prune()
        return living

    def _refuse_to_repeat(self, agents: Sequence[LocalAgent]) -> None:
        """Raises if the last agent could not start: the next one would fail too."""
        gone = [agent for agent in agents if agent.gone_since is not None and agent.ending_since is None]
        last = max(gone, key=lambda agent: agent.gone_since or 0.0, default=None)
        if last is None or last.gone_since is None:
            return
        lived = last.gone_since - last.started_at
        if lived < EARLY_SECONDS and self._now() - last.gone_since < RETRY_SECONDS:
            raise DriverError(
                f"The agent {last.worker_id} ended {counted(round(lived), 'second')} after its start; the next one "
                f"is started in a minute. Its log, {last.log}, ends with: {last.last_line()[:MAX_SHOWN_LENGTH]}"
            )

    def _start(self, fleet: ScaledFleet, options: ProcessOptions, place: int, environment: Mapping[str, str]) -> None:
        arguments = ["--api-url", self._settings.worker.api_url or self._settings.public_url]
        variables = dict(environment)
        if options.lightbox:
            arguments.append("--lightbox")
        if options.engine_urls:
            arguments += ["--engine-url", options.engine_urls[place]]
        if options.gpus:
            variables["CUDA_VISIBLE_DEVICES"] = options.gpus[place]
        if options.leaves_with_control_plane:
            arguments.append("--until-stdin-ends")
            self._lifeline = self._lifeline or os.pipe()
        with open(os.devnull) as nothing:
            stdin = self._lifeline[0] if options.leaves_with_control_plane and self._lifeline else nothing.fileno()
            try:
                agent, pid = self._agents(fleet).start(
                    worker_prefix(self._host, fleet.slug), place, self._now(), arguments, variables, stdin
                )
            except OSError as error:
                raise DriverError(f"No agent can be started on {self._host}: {error}.") from None
        self._children.add(pid)
        log.info("scaling.agent_started", worker_id=agent.worker_id, pid=pid, log=str(agent.log))

    async def _environment(self, fleet: ScaledFleet) -> dict[str, str]:
        """The control plane's environment without its secrets, and the settings for agents."""
        variables = {"FLEET_SECRET": await self._token(fleet)}
        for name in SECTIONS:
            section: BaseModel = getattr(self._settings, name)
            given = section.model_dump(exclude_unset=True, exclude=OWN if name == "worker" else None)
            variables |= {variable_name([name, field]): as_variable(value) for field, value in given.items()}
        return {**environment_for_programs(), **variables}

    async def _token(self, fleet: ScaledFleet) -> str:
        """The registration token of the agents: the stored one, or a new one if that is missing or not accepted."""
        agents = self._agents(fleet)
        kept = agents.token()
        if kept is not None and await self._tokens.is_accepted(kept):
            return kept
        token = (await self._tokens.create(fleet.id, f"agents on {self._host}", ACTOR)).token
        agents.keep_token(token)
        return token


def as_variable(value: Any) -> str:
    """A setting as an environment variable."""
    match value:
        case None:
            return NULLS[0]
        case SecretStr():
            return value.get_secret_value()
        case tuple() | list():
            return ",".join(map(str, value))
        case bool() | dict():
            return json.dumps(value)
        case _:
            return str(value)
