"""Actors for tests, and a running control plane that has them.

async with open_actor_harness(settings) as harness:
    task = await harness.submit(ann, "echo", {"word": "hello"})
    await harness.ended(ann, task)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.providers.actor import Deferred, Done, EffectUse, Plan, Task
from callsheet.providers.errors import ProviderError
from callsheet.providers.media import Concurrency, Finish, Generation, MadeFile
from callsheet.providers.registry import ActorRegistry
from callsheet.settings import Settings
from callsheet.wire.errors import FieldProblem, InvalidRequest
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import PNG, CatalogApi
from tests.support.http.jobs_api import JobsApi
from tests.support.waiting import until

PRODUCT = {
    "url": "https://shop.example/lamp",
    "title": "Lamp",
    "description": "It glows.",
    "price": "19.99",
    "currency": "EUR",
    "images": ["https://shop.example/lamp.png"],
    "text": "A lamp that glows.",
}
Run = Callable[[Task], Mapping[str, Any]]


@dataclass
class ScriptedActor:
    """An actor that returns the result of `answer` for the task, as soon as its `gate` is open."""

    name: str
    response: Run = lambda task: {"payload": dict(task.payload), "attempt": task.attempt}
    planned: Callable[[Mapping[str, Any]], Plan] = lambda payload: Plan()
    paid: bool = False
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    # Tasks that were started.
    tasks: list[Task] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()

    def plan(self, payload: Mapping[str, Any]) -> Plan:
        return self.planned(payload)

    async def run(self, task: Task) -> Done | Deferred:
        self.tasks.append(task)
        await self.gate.wait()
        return Done(self.response(task))


class ImageActor(ScriptedActor):
    async def run(self, task: Task) -> Done | Deferred:
        self.tasks.append(task)
        task.report_progress(40.0, "Mixing colours")
        await self.gate.wait()
        path = task.directory / "picture.png"
        path.write_bytes(PNG)
        return Done({"style": "cubist"}, [MadeFile(path, "picture.png", "image/png")])


def _breaks(task: Task) -> Mapping[str, Any]:
    raise ProviderError("bad_weather", "It rained.", details={"cloud": 9}, traceback="Traceback of the cloud")


def _refuses(payload: Mapping[str, Any]) -> Plan:
    if "word" not in payload:
        raise InvalidRequest.field("payload.word", "This field is required.")
    return Plan()


def _limited(payload: Mapping[str, Any]) -> Plan:
    return Plan(concurrency=Concurrency(str(payload["identifier"]), payload["limit"]))


def _engine(payload: Mapping[str, Any]) -> Plan:
    use = EffectUse(str(payload["effect"]), payload.get("params", {}), payload.get("input_file_id"))
    return Plan(provider="comfyui", finish=Finish.WORKER, effect=use)


@dataclass
class PreviewProvider:
    """A media provider that only previews requests."""

    name: str = "sketches"
    finish: Finish = Finish.SYNC
    actions: frozenset[str] = frozenset({"txt2img", "img2img"})
    paid: bool = False
    run_limit_seconds: int = 60

    def problems(self, generation: Generation) -> list[FieldProblem]:
        return [] if generation.prompt else [FieldProblem("prompt", "This field is required.")]

    def concurrency(self, generation: Generation) -> Concurrency | None:
        return None

    def preview_info(self, generation: Generation) -> Mapping[str, Any]:
        return {"pictures": int(generation.params.get("pictures", 1))}

    async def close(self) -> None:
        pass


def scripted_actors() -> dict[str, ScriptedActor]:
    actors = [
        ScriptedActor("echo"),
        ScriptedActor("picky", planned=_refuses),
        ScriptedActor("careless", planned=lambda payload: payload["missing"]),
        ScriptedActor("limited", planned=_limited),
        ScriptedActor("engine", planned=_engine),
        ScriptedActor("broken", response=_breaks),
        ImageActor("painter"),
        ScriptedActor("copy", response=lambda task: {"copy": f"Buy {task.payload['product']['title']}!"}),
        ScriptedActor("scrape", response=lambda task: {"product": PRODUCT}),
        *(ScriptedActor(name) for name in ("static_ad", "ugc_video", "tts")),
    ]
    return {actor.name: actor for actor in actors}


@dataclass(slots=True)
class ActorHarness:
    plane: ControlPlane
    client: httpx.AsyncClient
    jobs_api: JobsApi
    actors: dict[str, ScriptedActor]

    async def person(self, pool: str = "pool_1", tokens: int = 100, *, tenant_of: Person | None = None) -> Person:
        return await self.jobs_api.person(pool, tokens, tenant_of=tenant_of)

    async def catalog_api(self) -> CatalogApi:
        return await CatalogApi.open(self.plane, self.client, self.jobs_api.people)

    async def ask(self, person: Person, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self.client.request(method, path, json=body, headers=person.headers)

    async def try_submit(self, person: Person, actor: str, payload: Any = None, **changes: Any) -> httpx.Response:
        return await self.ask(person, "POST", "/api/task", {"actor": actor, "payload": payload or {}, **changes})

    async def submit(self, person: Person, actor: str, payload: Any = None, **changes: Any) -> dict[str, Any]:
        response = await self.try_submit(person, actor, payload, **changes)
        assert response.status_code == 201, response.text
        task: dict[str, Any] = response.json()
        return task

    async def get(self, person: Person, task: dict[str, Any]) -> dict[str, Any]:
        response = await self.ask(person, "GET", f"/api/task/{task['task_id']}")
        assert response.status_code == 200, response.text
        shown: dict[str, Any] = response.json()
        return shown

    async def ended(self, person: Person, task: dict[str, Any], status: str = "completed") -> dict[str, Any]:
        """The task when it has ended. It must have this status."""

        async def has_ended() -> bool:
            return (await self.get(person, task))["completed_at"] is not None

        await until(has_ended)
        shown = await self.get(person, task)
        assert shown["status"] == status, shown
        return shown

    async def balance(self, person: Person) -> int:
        return int((await self.jobs_api.get(person, "/api/wallet")).json()["balance"])


@asynccontextmanager
async def open_actor_harness(settings: Settings) -> AsyncIterator[ActorHarness]:
    """A running control plane with these actors, whose own runner takes tasks."""
    actors = scripted_actors()
    registry = ActorRegistry(actors, {"sketches": PreviewProvider()})
    async with (
        running_control_plane(settings, registry) as plane,
        httpx.AsyncClient(base_url=settings.public_url, trust_env=False, timeout=60) as client,
    ):
        if plane.rooms.task_runner is not None:
            await until(lambda: plane.rooms.task_runner.is_ready)  # type: ignore[union-attr]
        jobs_api = await JobsApi.open(plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys))
        yield ActorHarness(plane, client, jobs_api, actors)
