"""The actors of typed generation: what they take, whose model they ask, and what they say where none is named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.providers.actor import Deferred, Task
from callsheet.providers.config import ProvidersConfig
from callsheet.providers.errors import ProviderError
from callsheet.providers.media import Callback, Concurrency, Finish
from callsheet.providers.registry import ActorRegistry, open_registry
from callsheet.wire.errors import InvalidRequest
from tests.support.providers.replicate_server import TOKEN, ReplicateServer, Scenario, replicate_server

LAMP = {"title": "Paper lamp", "description": "It shines.", "images": ["https://shop.test/a.png"]}
PAYLOADS: dict[str, dict[str, Any]] = {
    "static_ad": {"product": LAMP, "style": "studio", "aspect_ratio": "4:5", "headline": "Light!"},
    "ugc_video": {"script": "Look at this.", "style": "unboxing", "duration_seconds": 8},
    "tts": {"text": "Hello.", "voice": "ann", "speed": 1.5},
}
MODELS = {
    "static_ad": {"model": "owner/pictures", "inputs": {"image": "image_prompt"}, "fixed": {"format": "png"}},
    "ugc_video": {"model": "owner/films", "inputs": {"duration": "seconds"}, "max_concurrent": 2},
    "tts": {"model": "owner/voices", "inputs": {"speed": "speed"}},
}
HOOK = Callback("https://callsheet.test/api/webhooks/replicate/secret")


@pytest.fixture
async def server() -> AsyncIterator[ReplicateServer]:
    async with replicate_server(scenario=Scenario(held=True)) as server:
        yield server


@pytest.fixture
async def registry(server: ReplicateServer) -> AsyncIterator[ActorRegistry]:
    config = {"replicate": {"token": TOKEN, "url": server.url, "models": MODELS}}
    registry = open_registry(ProvidersConfig.model_validate(config))
    yield registry
    await registry.close()


async def run(registry: ActorRegistry, name: str, directory: Path, callback: Callback | None = HOOK) -> Any:
    task = Task("tq_1", PAYLOADS[name], 1, directory, lambda percent, message: None, callback)
    return await registry.actors[name].run(task)


async def test_each_actor_sends_its_model_the_inputs_of_that_model(
    server: ReplicateServer, registry: ActorRegistry, tmp_path: Path
) -> None:
    for name in PAYLOADS:
        deferred = await run(registry, name, tmp_path)
        assert isinstance(deferred, Deferred)
        assert deferred.provider_job_id in server.predictions
        assert deferred.expires_seconds == 3600
    image, film, speech = [call.body["input"] for call in server.submitted]
    assert [call.path for call in server.submitted] == [
        "/models/owner/pictures/predictions",
        "/models/owner/films/predictions",
        "/models/owner/voices/predictions",
    ]
    prompt = image.pop("prompt")
    assert all(word in prompt for word in ("studio", "Paper lamp", "It shines.", "Light!"))
    assert image == {"aspect_ratio": "4:5", "image_prompt": "https://shop.test/a.png", "format": "png"}
    assert "Look at this." in film.pop("prompt")
    assert film == {"aspect_ratio": "9:16", "seconds": 8}
    assert speech == {"text": "Hello.", "voice": "ann", "speed": 1.5}


async def test_plans_name_the_executor_and_the_concurrency_limit(registry: ActorRegistry) -> None:
    plans = {name: registry.actors[name].plan(payload) for name, payload in PAYLOADS.items()}
    assert {(plan.provider, plan.finish) for plan in plans.values()} == {("replicate", Finish.WEBHOOK)}
    assert plans["ugc_video"].concurrency == Concurrency("media:replicate:ugc_video", 2)
    assert plans["tts"].concurrency == plans["static_ad"].concurrency == Concurrency("media:replicate", 10)


async def test_a_prediction_that_may_exist_is_found_and_not_submitted_again(
    server: ReplicateServer, registry: ActorRegistry, tmp_path: Path
) -> None:
    first = await run(registry, "tts", tmp_path)
    again = await run(registry, "tts", tmp_path, Callback(HOOK.url, may_exist=True))
    assert first == again
    assert len(server.submitted) == 1


@pytest.mark.parametrize(
    ("name", "changes", "wrong"),
    [
        ("copy", {}, "payload.product"),
        ("copy", {"product": LAMP, "length": "endless"}, "payload.length"),
        ("copy", {"product": {**LAMP, "images": ["ftp://x"]}}, "payload.product.images.0"),
        ("scrape", {"url": "shop.test"}, "payload.url"),
        ("scrape", {"url": "https://shop.test", "depth": 3}, "payload.depth"),
        ("static_ad", {"product": LAMP, "aspect_ratio": "3:7"}, "payload.aspect_ratio"),
        ("ugc_video", {}, "payload.script"),
        ("ugc_video", {"script": "x", "duration_seconds": 900}, "payload.duration_seconds"),
        ("tts", {"text": " "}, "payload.text"),
        ("tts", {"text": "x", "speed": 9}, "payload.speed"),
    ],
)
async def test_a_payload_that_cannot_be_run_is_refused_by_its_field(
    registry: ActorRegistry, name: str, changes: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        registry.actors[name].plan(changes)
    assert [problem.field for problem in refused.value.errors] == [wrong]


@pytest.mark.parametrize(
    ("config", "missing"),
    [
        ({}, "providers.replicate.models.{name}"),
        ({"replicate": {"models": MODELS}}, "providers.replicate.token"),
        ({"replicate": {"token": TOKEN}}, "providers.replicate.models.{name}"),
        ({"replicate": {"token": TOKEN, "models": MODELS}, "blocked": ["replicate"]}, "providers.blocked"),
    ],
)
async def test_a_kind_without_a_model_is_refused_with_the_name_of_the_setting(
    config: dict[str, Any], missing: str, tmp_path: Path
) -> None:
    registry = open_registry(ProvidersConfig.model_validate(config))
    for name, payload in PAYLOADS.items():
        with pytest.raises(InvalidRequest) as refused:
            registry.actors[name].plan(payload)
        [problem] = refused.value.errors
        assert problem.field == "provider"
        assert missing.format(name=name) in problem.reason
        with pytest.raises(ProviderError) as failed:
            await run(registry, name, tmp_path)
        assert not failed.value.retryable
    await registry.close()


async def test_a_task_without_a_callback_url_is_not_submitted(
    server: ReplicateServer, registry: ActorRegistry, tmp_path: Path
) -> None:
    with pytest.raises(ProviderError, match="call back"):
        await run(registry, "tts", tmp_path, None)
    assert server.calls == []
