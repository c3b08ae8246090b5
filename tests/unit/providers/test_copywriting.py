"""Texts from an OpenAI-compatible service, or from a template that says so."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from callsheet.providers.actor import OWN, Actor, Done, Task
from callsheet.providers.config import ProvidersConfig
from callsheet.providers.errors import ProviderError, ProviderUnavailable
from callsheet.providers.registry import ActorRegistry, open_registry

KEY = "sk-key-of-the-test-that-must-stay-secret"
LAMP = {"title": "Paper lamp", "description": "It shines. It folds.", "price": "19.90", "currency": "EUR"}


@dataclass
class Service:
    """Speaks as OpenAI's does."""

    url: str = ""
    status: int = 200
    content: Any = "Buy this lamp."
    response: Any = None
    requests: list[tuple[str, Any]] = field(default_factory=list)

    async def complete(self, request: web.Request) -> web.Response:
        self.requests.append((request.headers.get("authorization", ""), await request.json()))
        if self.response is not None:
            return web.Response(body=self.response, status=self.status, content_type="application/json")
        if self.status != 200:
            error = {"error": {"message": f"Incorrect API key provided: {KEY}", "type": "invalid_request_error"}}
            return web.json_response(error, status=self.status)
        choice = {"index": 0, "message": {"role": "assistant", "content": self.content}, "finish_reason": "stop"}
        return web.json_response({"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice]})


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    service = Service()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", service.complete)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield service
    await runner.cleanup()


@pytest.fixture
async def registry(service: Service) -> AsyncIterator[ActorRegistry]:
    config = {"copywriting": {"api_key": KEY, "url": service.url, "model": "small-1"}}
    registry = open_registry(ProvidersConfig.model_validate(config))
    yield registry
    await registry.close()


@pytest.fixture
def actor(registry: ActorRegistry) -> Actor:
    return registry.actors["copy"]


async def written(actor: Actor, directory: Path, **choices: Any) -> Any:
    payload = {"product": LAMP, **choices}
    actor.plan(payload)
    done = await actor.run(Task("tq_1", payload, 1, directory, lambda percent, message: None))
    assert isinstance(done, Done)
    return done.result


async def test_the_request_decides_what_the_model_writes(service: Service, actor: Actor, tmp_path: Path) -> None:
    result = await written(actor, tmp_path, style="playful", tone="warm", length="short", language="de")
    assert result == {"text": "Buy this lamp.", "written_by": "small-1", "language": "de"}
    [(authorization, body)] = service.requests
    assert authorization == f"Bearer {KEY}"
    assert (body["model"], [message["role"] for message in body["messages"]]) == ("small-1", ["system", "user"])
    requests = json.dumps(body["messages"])
    assert all(word in requests for word in ("playful", "warm", "language de", "Paper lamp", "19.90 EUR"))


async def test_copy_jobs_have_a_provider_with_a_limit(registry: ActorRegistry, actor: Actor) -> None:
    plan = actor.plan({"product": LAMP})
    assert (plan.provider, plan.concurrency and plan.concurrency.limit) == ("copywriting", 4)
    assert "copywriting" in registry.provider_names


@pytest.mark.parametrize(("status", "retryable"), [(429, True), (500, True), (503, True), (401, False), (400, False)])
async def test_an_error_of_the_service_is_reported_without_the_key(
    service: Service, actor: Actor, tmp_path: Path, status: int, retryable: bool
) -> None:
    service.status = status
    with pytest.raises(ProviderError) as refused:
        await written(actor, tmp_path)
    assert (isinstance(refused.value, ProviderUnavailable), refused.value.retryable) == (retryable, retryable)
    assert KEY not in f"{refused.value.message} {refused.value.details}"


@pytest.mark.parametrize(
    "response", [b"[]", b"{}", b'{"choices": []}', b'{"choices": [{"message": {"content": null}}]}', b"1"]
)
async def test_a_response_without_a_text_is_a_failure(
    service: Service, actor: Actor, tmp_path: Path, response: bytes
) -> None:
    service.response = response
    with pytest.raises(ProviderError, match="returned no text"):
        await written(actor, tmp_path)


async def test_a_text_that_postgresql_cannot_store_is_corrected(service: Service, actor: Actor, tmp_path: Path) -> None:
    service.content = "Half \ud800 and \0 nothing."
    assert (await written(actor, tmp_path))["text"] == "Half ? and  nothing."


@pytest.mark.parametrize("length", ["short", "medium", "long"])
async def test_a_template_is_used_and_marked_if_there_is_no_key(tmp_path: Path, length: str) -> None:
    registry = open_registry(ProvidersConfig())
    actor = registry.actors["copy"]
    result = await written(actor, tmp_path, length=length, language="fr")
    await registry.close()
    assert result["written_by"] == "template"
    assert "no language model" in result["note"]
    assert "providers.copywriting.api_key" in result["note"]
    assert result["text"].startswith("Meet Paper lamp.")
    assert ("It folds." in result["text"]) == (length != "short")
    plan = actor.plan({"product": LAMP})
    assert (plan.provider, plan.concurrency) == (OWN, None)
    assert "copywriting" not in registry.provider_names
