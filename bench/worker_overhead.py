"""The time that Callsheet adds to a run: the same small image through the whole product, and directly to the engine,
which responds with the recorded delays of ComfyUI.

They take turns, and each turn gives one difference: from submitting a job to the event that it is completed, less the
same prompt at the engine (upload, prompt, its end on the socket, history, view), less the two transfers that only
Callsheet makes, to and from storage, each timed in the same turn as a bare request with the same bytes. `.plain` is the
same for a graph without an input.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
import uuid
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
from websockets.asyncio.client import ClientConnection, connect

from bench.product import COMFYUI_TIMING, INPUT, TRIVIAL, Graph, RunningProduct, image, lightbox, node, open_product
from bench.results import Result
from callsheet.wire.jobs import Job, JobEvent
from callsheet.wire.media import CreatedUpload

name = "worker.overhead"
seconds = 20.0
short = {"turns": 2, "warm_up": 1}
WARM_UP_TURNS = 3
# Otherwise a lost job would block the benchmark until its lease expires.
TURN_SECONDS = 180.0
TURNS_PER_SECOND = 2.5
TARGET_MS = 40.0
EFFECT, PLAIN = "trivial", "plain"
WITHOUT_INPUT: Graph = {
    "make": node("EmptyImage", width=64, height=64, batch_size=1, color=0),
    "save": node("SaveImage", images=["make", 0], filename_prefix="bench"),
}


@dataclass(slots=True)
class Turns:
    """Milliseconds of each turn. `steps` shows how our time is spent, from the job's own history."""

    ours: list[float] = field(default_factory=list)
    direct: list[float] = field(default_factory=list)
    transfers: list[float] = field(default_factory=list)
    steps: dict[str, list[float]] = field(default_factory=dict)

    @property
    def overhead(self) -> list[float]:
        return sorted(
            ours - direct - transfers
            for ours, direct, transfers in zip(self.ours, self.direct, self.transfers, strict=True)
        )


async def run(seconds: float, turns: int | None = None, warm_up: int = WARM_UP_TURNS) -> list[Result]:
    count = turns or max(10, round(seconds * TURNS_PER_SECOND))
    measured = {EFFECT: Turns(), PLAIN: Turns()}
    async with open_product() as product, lightbox(product.home, variables=COMFYUI_TIMING) as engine:
        await product.offer(EFFECT, TRIVIAL)
        await product.offer(PLAIN, WITHOUT_INPUT)
        async with product.agent(f"{EFFECT},{PLAIN}", engine), DirectClient(engine) as direct:
            for number in range(warm_up + count):
                for effect, turns_of_effect in measured.items():
                    async with asyncio.timeout(TURN_SECONDS):
                        await _turn(product, direct, effect, number, turns_of_effect if number >= warm_up else Turns())
    return [*_results(name, measured[EFFECT]), *_results(f"{name}.plain", measured[PLAIN])]


def _results(name: str, measured: Turns) -> list[Result]:
    overhead = measured.overhead
    return [
        Result(
            name=name,
            value=statistics.median(overhead),
            unit="ms beyond direct run and transfers",
            peer=statistics.median(measured.direct),
            target=TARGET_MS,
            p50_ms=statistics.median(overhead),
            p99_ms=overhead[int(len(overhead) * 0.99)],
        ),
        # On a machine with other work, the least overhead is what Callsheet itself needs.
        Result(name=f"{name}.least", value=overhead[len(overhead) // 20], unit="ms, the least twentieth"),
        Result(
            name=f"{name}.whole",
            value=statistics.median(measured.ours),
            unit="ms from submit to completed",
            peer=statistics.median(measured.direct),
        ),
        Result(name=f"{name}.transfers", value=statistics.median(measured.transfers), unit="ms, storage PUT and GET"),
        *(
            Result(name=f"{name}.{step}", value=statistics.median(spent), unit="ms of the whole")
            for step, spent in measured.steps.items()
        ),
    ]


async def _turn(product: RunningProduct, direct: DirectClient, effect: str, number: int, turns: Turns) -> None:
    given: dict[str, Any] = {}
    content, put_ms = None, 0.0
    if effect == EFFECT:
        content = image(number)
        given["file"], put_ms = await _upload(product, content)
    turns.direct.append(await direct.run(content))
    started = time.perf_counter()
    job = await product.client.submit(effect, **given)
    times = {"submitted": time.perf_counter()}
    async with aclosing(job.stream()) as events:
        async for event in events:
            if isinstance(event, JobEvent) and event.to_status is not None:
                times[event.to_status.value] = time.perf_counter()
    turns.ours.append(1000 * (times["completed"] - started))
    turns.transfers.append(put_ms + await _fetch_ms(direct.http, await job.refresh()))
    _note_steps(turns, started, times)


def _note_steps(turns: Turns, started: float, times: Mapping[str, float]) -> None:
    before = started
    for step, until in (("submit", "submitted"), ("pickup", "processing"), ("run", "completed")):
        turns.steps.setdefault(step, []).append(1000 * (times.get(until, before) - before))
        before = times.get(until, before)


async def _upload(product: RunningProduct, content: bytes) -> tuple[UUID, float]:
    """The id of an input, and the time that its upload to storage took."""
    body = {"name": "picture.png", "mime_type": "image/png", "size": len(content)}
    response = await product.admin.post("/api/videos/uploads", json=body)
    created = CreatedUpload.model_validate_json(response.raise_for_status().content)
    started = time.perf_counter()
    assert created.upload is not None
    await product.client._calls.transfers.put(created.upload, content, len(content))
    elapsed = 1000 * (time.perf_counter() - started)
    (await product.admin.post(f"/api/videos/uploads/{created.file.id}/confirm")).raise_for_status()
    return created.file.id, elapsed


async def _fetch_ms(http: httpx.AsyncClient, job: Job) -> float:
    [output] = job.outputs
    assert output.url is not None
    started = time.perf_counter()
    (await http.get(output.url)).raise_for_status()
    return 1000 * (time.perf_counter() - started)


class DirectClient:
    """Uses the engine as a client without Callsheet does."""

    def __init__(self, engine: str):
        self.http = httpx.AsyncClient(base_url=engine, trust_env=False, timeout=60)
        self._client_id = uuid.uuid4().hex
        self._connecting = connect(f"{engine.replace('http', 'ws', 1)}/ws?clientId={self._client_id}", proxy=None)
        self._socket: ClientConnection | None = None

    async def __aenter__(self) -> DirectClient:
        self._socket = await self._connecting
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._socket is not None:
            await self._socket.close()
        await self.http.aclose()

    async def run(self, content: bytes | None) -> float:
        """Milliseconds from the input image, or from a graph without an input, to the result."""
        prompt_id = str(uuid.uuid4())
        started = time.perf_counter()
        graph = WITHOUT_INPUT
        if content is not None:
            fields = {"subfolder": f"direct/{prompt_id}", "type": "input"}
            response = await self.http.post("/upload/image", data=fields, files={"image": ("picture.png", content)})
            uploaded = response.raise_for_status().json()
            graph = {**TRIVIAL, "load": node("LoadImage", image=f"{uploaded['subfolder']}/{uploaded['name']}")}
        save = {**graph["save"]["inputs"], "filename_prefix": f"direct/{prompt_id}/bench"}
        graph = {**graph, "save": node("SaveImage", **save)}
        assert INPUT not in json.dumps(graph)
        body = {"prompt": graph, "prompt_id": prompt_id, "client_id": self._client_id}
        (await self.http.post("/prompt", json=body)).raise_for_status()
        await self._end_of(prompt_id)
        history = (await self.http.get(f"/history/{prompt_id}")).raise_for_status().json()
        [image] = history[prompt_id]["outputs"]["save"]["images"]
        (await self.http.get("/view", params=image)).raise_for_status()
        return 1000 * (time.perf_counter() - started)

    async def _end_of(self, prompt_id: str) -> None:
        assert self._socket is not None
        async for message in self._socket:
            if isinstance(message, str):
                parsed = json.loads(message)
                data = parsed["data"]
                if parsed["type"] == "executing" and data["node"] is None and data["prompt_id"] == prompt_id:
                    return
        raise RuntimeError("the engine closed its socket")
