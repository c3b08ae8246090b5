"""The five typed jobs through the actors that ship, over HTTP: a shop's page is read, and everything is made from it.

The shop, the service of words and Replicate are servers that run here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from aiohttp import web

from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.providers.config import ProvidersConfig
from callsheet.wire.job_errors import SENTENCES
from tests.api.conftest import shared_plane
from tests.support.http.accounts import People, Person
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused
from tests.support.providers.provider_services import LOCAL
from tests.support.providers.replicate_files import content_of
from tests.support.providers.replicate_server import TOKEN, ReplicateServer, Scenario, replicate_server
from tests.support.waiting import until

Json = dict[str, Any]
PAGE = """<title>Lamp | Shop</title><script type="application/ld+json">{"@type": "Product", "name": "Paper lamp",
"description": "It shines.", "image": "/lamp.png", "offers": {"price": 19.9, "priceCurrency": "EUR"}}</script>
<h1>Paper lamp</h1><p>Folded by hand.</p>"""
MODELS = {
    "static_ad": {"model": "owner/pictures"},
    "ugc_video": {"model": "owner/films"},
    "tts": {"model": "owner/voices"},
    "flux": {"model": "owner/flux"},
}
AD = {"provider": "replicate", "action_type": "static_ad", "prompt": "a lamp"}


@dataclass(slots=True)
class GenerationApi:
    """Typed generation over HTTP as one user sees it, with the Replicate behind it and a shop to scrape."""

    jobs_api: JobsApi
    ann: Person
    replicate: ReplicateServer
    shop: str

    async def generate(self, kind: str, **body: Any) -> httpx.Response:
        return await self.jobs_api.client.post(f"/api/generate/{kind}", json=body, headers=self.ann.headers)

    async def made(self, kind: str, status: str = "completed", **body: Any) -> Json:
        response = await self.generate(kind, **body)
        assert response.status_code == 201, response.text
        return await self.ended(response.json()["id"], status)

    async def ended(self, job_id: str, status: str = "completed") -> Json:
        async def has_ended() -> bool:
            return (await self.shown(job_id))["completed_at"] is not None

        await until(has_ended)
        job = await self.shown(job_id)
        assert job["status"] == status, job
        return job

    async def task(self, payload: Json) -> httpx.Response:
        body = {"actor": "media", "payload": payload}
        return await self.jobs_api.client.post("/api/task", json=body, headers=self.ann.headers)

    async def shown(self, job_id: str) -> Json:
        response = await self.jobs_api.client.get(f"/api/ai-jobs/{job_id}", headers=self.ann.headers)
        shown: Json = response.json()
        return shown

    async def content(self, job: Json) -> list[bytes]:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            return [(await client.get(output["url"])).content for output in job["outputs"]]

    async def balance(self) -> int:
        return int((await self.jobs_api.get(self.ann, "/api/wallet")).json()["balance"])


@pytest.fixture(scope="module")
async def shop_url() -> AsyncIterator[str]:
    async def show(request: web.Request) -> web.Response:
        if request.path == "/inside":
            raise web.HTTPFound("http://169.254.169.254/latest/meta-data")
        return web.Response(text=PAGE, content_type="text/html", status=200 if request.path == "/lamp" else 404)

    app = web.Application()
    app.router.add_get("/{path:.*}", show)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture(scope="module")
async def running_replicate() -> AsyncIterator[ReplicateServer]:
    async with replicate_server() as replicate:
        yield replicate


@pytest.fixture(scope="module")
async def generation_plane(
    postgres: EmbeddedPostgres,
    templates: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
    running_replicate: ReplicateServer,
) -> AsyncIterator[ControlPlane]:
    """A control plane whose typed actors use models of the tests' Replicate."""
    models = {"token": TOKEN, "url": running_replicate.url, "models": MODELS}
    sections: dict[str, Any] = {
        "providers": dict(ProvidersConfig.model_validate({"replicate": models})),
        "outgoing": {"allow_networks": (LOCAL,)},
        "tasks": {"in_process": 4},
    }
    async with shared_plane(postgres, templates, tmp_path_factory.mktemp("typed"), **sections) as plane:
        await until(lambda: plane.rooms.task_runner is not None and plane.rooms.task_runner.is_ready)
        yield plane


@pytest.fixture
async def generation_api(
    generation_plane: ControlPlane, running_replicate: ReplicateServer, shop_url: str
) -> AsyncIterator[GenerationApi]:
    """Typed generation as one user with tokens sees it."""
    running_replicate.forget()
    address = generation_plane.settings.public_url
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=30) as client:
        jobs_api = await JobsApi.open(
            generation_plane,
            client,
            People(generation_plane.rooms.identity.accounts, generation_plane.rooms.identity.keys),
        )
        yield GenerationApi(jobs_api, await jobs_api.person(tokens=100), running_replicate, shop_url)


@pytest.mark.thorough
async def test_a_product_page_becomes_a_text_an_image_and_a_video(generation_api: GenerationApi) -> None:
    scraped = await generation_api.made("scrape", url=f"{generation_api.shop}/lamp")
    product = scraped["result"]["product_id"]
    copy = await generation_api.made("copy", product_id=product, style="playful")
    assert copy["result"]["result"]["written_by"] == "template"
    assert "Yours for 19.9 EUR." in copy["result"]["result"]["text"]
    generation_api.replicate.scenario = Scenario(output=[generation_api.replicate.file("picture.png")])
    image = await generation_api.made("static-ad", product_id=product, style="lifestyle")
    assert await generation_api.content(image) == [content_of("picture.png")]
    generation_api.replicate.scenario = Scenario(output=generation_api.replicate.file("film.mp4"))
    film = await generation_api.made("video", product_id=product, script="Look.")
    assert await generation_api.content(film) == [content_of("film.mp4")]
    prompts = [call.body["input"]["prompt"] for call in generation_api.replicate.submitted]
    assert all("Paper lamp" in prompt and "It shines." in prompt for prompt in prompts)
    assert await generation_api.balance() == 100 - sum(job["cost"] for job in (scraped, copy, image, film))


@pytest.mark.thorough
async def test_a_failure_of_the_service_is_refunded(generation_api: GenerationApi) -> None:
    inside = await generation_api.made("scrape", "failed", url=f"{generation_api.shop}/inside")
    assert inside["error"]["type"] == "address_refused"
    generation_api.replicate.scenario = Scenario("failed", error="NSFW content detected")
    refused = await generation_api.made("static-ad", "failed", product={"title": "Lamp"})
    assert refused["error"] == {"type": "provider_failed", "message": SENTENCES["provider_failed"]}
    generation_api.replicate.scenario = Scenario("canceled")
    canceled = await generation_api.made("static-ad", "failed", product={"title": "Lamp"})
    assert canceled["error"] == {"type": "provider_canceled", "message": SENTENCES["provider_canceled"]}
    generation_api.replicate.scenario = Scenario(output=generation_api.replicate.redirect("http://169.254.169.254/"))
    await generation_api.made("static-ad", "failed", product={"title": "Lamp"})
    assert await generation_api.balance() == 100


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("kind", "body", "file", "reason"),
    [
        ("static-ad", {"product": {"title": "Lamp"}}, None, "returned text and delivered no image"),
        ("static-ad", {"product": {"title": "Lamp"}}, "film.mp4", "delivered video/mp4 and no image"),
        ("video", {"script": "Look."}, None, "returned text and delivered no video"),
        ("video", {"script": "Look."}, "picture.png", "delivered image/png and no video"),
        ("tts", {"text": "Hello."}, None, "returned text and delivered no audio"),
        ("tts", {"text": "Hello."}, "picture.png", "delivered image/png and no audio"),
    ],
)
async def test_a_typed_job_without_the_medium_it_promises_fails_and_is_refunded(
    generation_api: GenerationApi, kind: str, body: Json, file: str | None, reason: str
) -> None:
    output = "I am sorry, I cannot draw." if file is None else [generation_api.replicate.file(file)]
    generation_api.replicate.scenario = Scenario(output=output)
    failed = await generation_api.made(kind, "failed", **body)
    assert (failed["error"]["type"], failed["outputs"]) == ("output_unusable", [])
    full = await generation_api.jobs_api.full_error(generation_api.ann, failed["id"])
    assert reason in full["message"]
    assert await generation_api.balance() == 100
    await generation_api.jobs_api.core.check()


async def test_a_paid_model_costs_the_same_through_media_and_is_refused_without_a_price(
    generation_api: GenerationApi,
) -> None:
    generation_api.replicate.scenario = Scenario(output=[generation_api.replicate.file("picture.png")])
    typed = await generation_api.made("static-ad", product={"title": "Lamp"})
    task = (await generation_api.task(AD)).json()
    assert task["cost"] == typed["cost"] == 5
    await generation_api.ended(task["job_id"])
    assert await generation_api.balance() == 90

    unpriced = await generation_api.task({**AD, "action_type": "flux"})
    assert_refused(unpriced, 422, "invalid_request", "payload.action_type")
    assert '"replicate/flux" = 5' in unpriced.json()["errors"][0]["reason"]
    assert await generation_api.balance() == 90
    step = {"name": "Ads", "workflow": "actor:media", "payload": {**AD, "action_type": "flux"}}
    pipeline = {"slug": "ads", "name": "Ads", "steps": [step]}
    response = await generation_api.jobs_api.client.post(
        "/api/pipelines", json=pipeline, headers=generation_api.ann.headers
    )
    assert response.status_code == 422, response.text
    assert "replicate/flux" in response.text

    offered = (await generation_api.jobs_api.get(generation_api.ann, "/api/providers")).json()
    costs = {each["name"]: each["costs"] for each in offered}
    assert costs["replicate"] == {"static_ad": 5, "ugc_video": 20, "tts": 2, "flux": None}
    assert costs["comfyui"] == {"effect": None}
    listed = {
        each["name"]: each for each in (await generation_api.jobs_api.get(generation_api.ann, "/api/actors")).json()
    }
    variants = {each["title"]: each["cost"] for each in listed["media"]["variants"]}
    assert (variants["replicate: static ad"], variants["replicate: flux"], variants["comfyui: effect"]) == (
        5,
        None,
        None,
    )
    assert (listed["static_ad"]["is_ready"], listed["static_ad"]["title"]) == (True, "Static ad")
    actors = {name: each["cost"] for name, each in listed.items()}
    assert actors == {"copy": 1, "media": None, "scrape": 1, "static_ad": 5, "tts": 2, "ugc_video": 20}


async def test_a_media_task_that_returns_text_instead_of_an_image_is_refunded(generation_api: GenerationApi) -> None:
    generation_api.replicate.scenario = Scenario(output="I am sorry, I cannot draw.")
    await generation_api.ended((await generation_api.task(AD)).json()["job_id"], "failed")
    assert await generation_api.balance() == 100
