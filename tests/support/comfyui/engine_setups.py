"""What a provider is tried with: an engine that replays recordings of ComfyUI, or Lightbox, each also as the cloud, and
between provider and engine a line that can be cut.

async with open_engine_setup("cloud", "lightbox", folder) as engine_setup:
    outputs = await engine_setup.run("SaveImage_batch3")    # the recorded graph of that name
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol
from unittest.mock import patch

import httpx
import pytest

from callsheet.providers.comfy.cloud import ComfyCloud
from callsheet.providers.comfy.graphs import with_own_outputs
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from callsheet.providers.engine import Engine, EngineError, EngineRun, NodeState, Output
from callsheet_lightbox.media.frames import Frames
from callsheet_lightbox.node import Node, NodeContext, NodeInput, Result
from callsheet_lightbox.nodes import probes
from callsheet_lightbox.nodes.images import IMAGE
from callsheet_lightbox.server import RunningLightbox
from tests.support.comfyui.graphs import Graph, node
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.comfyui.replaying_engine import ENDINGS, KEY, ReplayingEngine, replaying, sample
from tests.support.database.breakable_proxy import BreakableProxy, breakable_proxy_to
from tests.support.run.ports import free_port


class Hold(Node):
    """Shows progress and images until it is released, as a held recording does."""

    name = "ProbeHold"
    category = probes.CATEGORY
    inputs: ClassVar = {"image": NodeInput("IMAGE")}
    outputs = (IMAGE,)
    gate: ClassVar[threading.Event]

    def run(self, context: NodeContext, *, image: Frames) -> Result:
        context.previews = True
        step = 1
        while not self.gate.wait(0.02):
            context.progress(step, 100, image.first())
            step = min(step + 1, 98)
        return Result((image,))


@dataclass
class RecordingWatcher:
    """A watcher of runs that keeps everything it is given."""

    starts: int = 0
    frees: int = 0
    percents: list[float | None] = field(default_factory=list)
    messages: list[str | None] = field(default_factory=list)
    previews: list[tuple[str, int]] = field(default_factory=list)
    nodes: list[tuple[str, NodeState]] = field(default_factory=list)

    def started(self) -> None:
        self.starts += 1

    def progressed(self, percent: float | None, message: str | None) -> None:
        self.percents.append(percent)
        self.messages.append(message)

    def previewed(self, mime_type: str, image: bytes) -> None:
        self.previews.append((mime_type, len(image)))

    def freed(self) -> None:
        self.frees += 1

    def at_node(self, node_id: str, state: NodeState) -> None:
        self.nodes.append((node_id, state))


class EngineServer(Protocol):
    """An engine of any kind."""

    as_cloud: bool

    @property
    def url(self) -> str: ...

    def play(self, scenario: str) -> None:
        """Chooses the outcome of the next runs."""

    async def start(self) -> None: ...

    async def kill(self) -> None: ...

    async def running(self) -> list[str]: ...

    async def pending(self) -> list[str]: ...

    async def submissions(self) -> int:
        """The number of prompts since the start of the engine."""

    async def interrupt(self) -> None:
        """Interrupts the run as a user at the engine itself does."""

    def release(self) -> None:
        """Lets all held runs end."""


@dataclass
class ReplayingServer:
    """An engine that replays recordings of ComfyUI."""

    engine: ReplayingEngine

    @property
    def as_cloud(self) -> bool:
        return self.engine.as_cloud

    @property
    def url(self) -> str:
        return self.engine.url

    def play(self, scenario: str) -> None:
        self.engine.scenario = scenario

    async def start(self) -> None:
        await self.engine.start()

    async def kill(self) -> None:
        await self.engine.kill()

    async def running(self) -> list[str]:
        return [self.engine.running.id] if self.engine.running else []

    async def pending(self) -> list[str]:
        return [each.id for each in self.engine.pending]

    async def submissions(self) -> int:
        return len(self.engine.called("/prompt"))

    async def interrupt(self) -> None:
        assert self.engine.running
        self.engine.running.interrupted.set()

    def release(self) -> None:
        self.engine.release.set()


@dataclass
class LightboxServer:
    """Lightbox. Its scenarios are the recorded graphs, rendered."""

    directory: Path
    as_cloud: bool
    lightbox: RunningLightbox | None = None
    port: int = field(default_factory=free_port)
    gate: threading.Event = field(default_factory=threading.Event)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def play(self, scenario: str) -> None:
        pass

    async def start(self) -> None:
        here = lightbox_here(self.directory, as_cloud=self.as_cloud, cloud_api_key=KEY, port=self.port)
        hold = type("HoldHere", (Hold,), {"gate": self.gate})
        with patch.object(probes, "NODES", (*probes.NODES, hold)):
            self.lightbox = await self._stack.enter_async_context(here)

    async def kill(self) -> None:
        await self._stack.aclose()

    async def running(self) -> list[str]:
        return [each[1] for each in (await self._request("GET", "/queue"))["queue_running"]]

    async def pending(self) -> list[str]:
        return [each[1] for each in (await self._request("GET", "/queue"))["queue_pending"]]

    async def submissions(self) -> int:
        return len((await self._request("GET", "/jobs"))["jobs"])

    async def interrupt(self) -> None:
        await self._request("POST", "/interrupt")

    def release(self) -> None:
        self.gate.set()

    async def _request(self, method: str, path: str) -> Any:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            response = await client.request(method, f"{self.url}/api{path}", headers={"X-API-Key": KEY})
        return response.json() if response.content else None


@dataclass
class EngineSetup:
    """A provider, the engine it drives, and the line between them."""

    engine_server: EngineServer
    line: BreakableProxy
    engine: Engine
    seen: RecordingWatcher = field(default_factory=RecordingWatcher)
    others: list[Engine] = field(default_factory=list)
    key: str = KEY

    @property
    def as_cloud(self) -> bool:
        return self.engine_server.as_cloud

    @property
    def recorded(self) -> ReplayingEngine:
        """The replaying engine; only for setups that replay."""
        assert isinstance(self.engine_server, ReplayingServer)
        return self.engine_server.engine

    @property
    def is_recorded(self) -> bool:
        return isinstance(self.engine_server, ReplayingServer)

    def with_patience(self, **seconds: float) -> Engine:
        engine = provider_for(self.engine_server, self.line, **seconds)
        self.others.append(engine)
        return engine

    async def run(self, scenario: str, output_node: str | None = "2", engine: Engine | None = None) -> list[Output]:
        self.engine_server.play(scenario)
        return list(await (engine or self.engine).run(new_run(graph_of(scenario), output_node), self.seen))

    async def refused(self, scenario: str, output_node: str | None = "2", engine: Engine | None = None) -> EngineError:
        with pytest.raises(EngineError) as refused:
            await self.run(scenario, output_node, engine)
        return refused.value

    def begin(self, run: EngineRun | None = None, *, engine: Engine | None = None) -> Any:
        """A run that shows progress and images until it is released."""
        self.engine_server.play("held")
        run = run or new_run(held_graph())
        return asyncio.create_task(_as_list((engine or self.engine).run(run, self.seen)))

    async def kill(self) -> None:
        """Ends the engine at once, without a last message."""
        self.line.is_down = True
        self.line.drop()
        await self.engine_server.kill()

    async def start(self) -> None:
        await self.engine_server.start()
        self.line.is_down = False

    async def close(self) -> None:
        for engine in (self.engine, *self.others):
            await engine.close()


async def _as_list(outputs: Any) -> list[Output]:
    return list(await outputs)


def provider_for(engine_server: EngineServer, line: BreakableProxy, **seconds: float) -> Engine:
    patience = Patience(**{"stall": 3600, "absent": 20, "poll": 0.05, "idle": 3600, **seconds})
    if engine_server.as_cloud:
        return ComfyCloud(line.url, KEY, patience=patience)
    return ComfyUI(line.url, patience=patience)


def new_run(graph: Graph | None = None, output_node: str | None = "2") -> EngineRun:
    run_id = str(uuid.uuid4())
    return EngineRun(run_id, with_own_outputs(graph or graph_of("SaveImage_batch3"), run_id), output_node, {})


def held_graph() -> Graph:
    return {
        "1": node("EmptyImage", width=64, height=64, batch_size=3, color=0x299803),
        "3": node("ProbeHold", image=["1", 0]),
        "2": node("SaveImage", images=["3", 0], filename_prefix="mine"),
    }


def graph_of(scenario: str) -> Graph:
    """The graph that was sent when that was recorded."""
    shapes, cases = sample("output_shapes"), sample("prompt_cases")
    if scenario in shapes:
        found = shapes[scenario]["prompt"]
    elif scenario in cases:
        found = cases[scenario]["request"]["prompt"]
    elif (ENDINGS.get(scenario) or ("", None))[1]:
        whole = sample(str(ENDINGS[scenario][1]))
        [entry] = whole.get("body", whole).values()
        found = entry["prompt"][2]
    elif scenario in ENDINGS:
        [entry] = sample(ENDINGS[scenario][0])["history"].values()
        found = entry["prompt"][2]
    else:
        found = held_graph()
    graph: Graph = found
    return graph


@asynccontextmanager
async def open_engine_setup(provider: str, engine: str, directory: Path) -> AsyncIterator[EngineSetup]:
    async with AsyncExitStack() as stack:
        as_cloud = provider == "cloud"
        engine_server: EngineServer
        if engine == "recorded":
            engine_server = ReplayingServer(await stack.enter_async_context(replaying(as_cloud=as_cloud)))
        else:
            engine_server = LightboxServer(directory / "lightbox", as_cloud)
            await engine_server.start()
            stack.push_async_callback(engine_server.kill)
        line = await stack.enter_async_context(breakable_proxy_to(engine_server.url))
        engine_setup = EngineSetup(engine_server, line, provider_for(engine_server, line))
        stack.push_async_callback(engine_setup.close)
        await engine_setup.engine.describe()
        yield engine_setup
