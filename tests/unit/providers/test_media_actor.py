"""The actor `media`: its payload, its plan, and the provider that it calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.providers.actor import Deferred, Done
from callsheet.providers.context import BuiltInContext, Clients
from callsheet.providers.errors import ProviderError
from callsheet.providers.media import Callback, Concurrency, EffectUse, Finish, Generation
from callsheet.providers.media_actor import NO_SOURCE_DATA, NO_STORED_PROMPTS, MediaActor
from callsheet.providers.registry import ActorRegistry
from callsheet.wire.errors import InvalidRequest
from tests.support.providers.media_providers import media_task, opened, service_table
from tests.support.providers.media_service import PNG, MediaService, media_service
from tests.support.providers.recording_provider import RecordingProvider

LEONARDO = {"provider": "leonardo", "action_type": "txt2img", "prompt": "a lighthouse"}


@pytest.fixture
async def service() -> AsyncIterator[MediaService]:
    async with media_service() as service:
        yield service


@pytest.fixture
async def registry(service: MediaService) -> AsyncIterator[ActorRegistry]:
    async with opened(
        http={"leonardo": service_table("leonardo", service)},
        comfyui={
            "actions": {"txt2img": {"effect": "portrait", "prompt": "text"}, "upscale": {"effect": "up", "prompt": ""}}
        },
        lightbox={"url": "http://127.0.0.1:1"},
    ) as registry:
        yield registry


def refused(registry: ActorRegistry, payload: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as refused:
        registry.actors["media"].plan(payload)
    return {each.field: each.reason for each in refused.value.errors}


def test_concurrency_and_finish_come_from_the_provider(registry: ActorRegistry) -> None:
    plan = registry.actors["media"].plan(LEONARDO)
    assert (plan.provider, plan.finish) == ("leonardo", Finish.SYNC)
    assert plan.concurrency == Concurrency("media:leonardo", 3)
    assert plan.run_limit_seconds > 900
    assert plan.effect is None


def test_extra_fields_of_known_clients_are_accepted(registry: ActorRegistry) -> None:
    own = {"workflow_run_id": "r", "interaction_id": "i", "prompt_id": "p", "source_data": None}
    assert registry.actors["media"].plan({**LEONARDO, **own}).provider == "leonardo"


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        (
            {"provider": "leo"},
            {"payload.provider": "Unknown provider 'leo'. Available: comfyui, leonardo, lightbox, replicate."},
        ),
        ({"provider": None}, {"payload.provider": "The value must be a text."}),
        ({"provider": ["x"]}, {"payload.provider": "The value must be a text."}),
        (
            {"action_type": "img2vid"},
            {"payload.action_type": "The provider leonardo has no action 'img2vid'. Available: txt2img."},
        ),
        ({"prompt": " "}, {"payload.prompt": "This field is required."}),
        ({"prompt": 5}, {"payload.prompt": "The value must be a text."}),
        ({"prompt": "x" * 4001}, {"payload.prompt": "The prompt must have at most 4000 characters."}),
        ({"prompt": "x" * 100_001}, {"payload.prompt": "The prompt must have at most 100000 characters."}),
        ({"params": None, "prompt_id": None}, {}),
        ({"params": []}, {"payload.params": "The value must be an object."}),
        ({"params": {"width": 5}}, {"payload.params.width": "The value must be 512 or more."}),
        ({"workflow_run_id": 5}, {"payload.workflow_run_id": "The value must be a text."}),
        ({"prompt": None, "prompt_id": "p-1"}, {"payload.prompt_id": NO_STORED_PROMPTS}),
        ({"source_data": {"image_url": "https://a.example/b.png"}}, {"payload.source_data": NO_SOURCE_DATA}),
        ({"source_data": {}}, {}),
    ],
)
def test_a_payload_that_cannot_be_run_is_refused_by_field(
    registry: ActorRegistry, changes: dict[str, Any], wrong: dict[str, str]
) -> None:
    if wrong:
        assert refused(registry, {**LEONARDO, **changes}) == wrong
    else:
        assert registry.actors["media"].plan({**LEONARDO, **changes}).provider == "leonardo"


def test_every_wrong_field_is_named_at_once(registry: ActorRegistry) -> None:
    assert set(refused(registry, {"prompt": 5, "size": 1})) == {
        "payload.provider",
        "payload.action_type",
        "payload.prompt",
        "payload.size",
    }
    assert set(refused(registry, {**LEONARDO, "prompt": "", "params": {"width": 1, "colour": 2}})) == {
        "payload.prompt",
        "payload.params.width",
        "payload.params.colour",
    }


async def test_a_provider_that_is_not_set_up_names_the_setting(service: MediaService) -> None:
    table = service_table("leonardo", service)
    del table["secret"]
    async with opened(http={"leonardo": table}) as registry:
        assert refused(registry, LEONARDO) == {
            "payload.provider": "The provider is not configured. Set CALLSHEET_PROVIDERS__HTTP__LEONARDO__SECRET."
        }
        light = {"provider": "lightbox", "action_type": "txt2img", "prompt": "x"}
        assert refused(registry, light) == {
            "payload.provider": "The provider is not configured. Set CALLSHEET_PROVIDERS__LIGHTBOX__URL."
        }


async def test_a_blocked_provider_is_not_listed(service: MediaService) -> None:
    async with opened(http={"leonardo": service_table("leonardo", service)}, blocked="leonardo, replicate") as registry:
        assert refused(registry, LEONARDO) == {
            "payload.provider": "Unknown provider 'leonardo'. Available: comfyui, lightbox."
        }


async def test_a_task_that_runs_to_its_end_has_files_and_a_result(registry: ActorRegistry, tmp_path: Path) -> None:
    done = await registry.actors["media"].run(media_task(tmp_path, params={"width": 600}))
    assert isinstance(done, Done)
    assert [file.path.read_bytes() for file in done.files] == [PNG]
    params = {"width": 600, "height": 768, "count": 1}
    details = {"status": "COMPLETE", "params": params}
    assert done.result == {"provider": "leonardo", "action": "txt2img", "details": details}
    assert done.provider_job_id == "job/1 ü"


async def test_a_worker_that_does_not_have_the_provider_lets_another_try(
    registry: ActorRegistry, tmp_path: Path
) -> None:
    with pytest.raises(ProviderError) as failed:
        await registry.actors["media"].run(media_task(tmp_path, provider="elsewhere"))
    assert (failed.value.type, failed.value.retryable) == ("invalid_request", True)


def test_comfyui_becomes_the_job_of_an_effect(registry: ActorRegistry) -> None:
    media = registry.actors["media"]
    plan = media.plan({"provider": "comfyui", "action_type": "txt2img", "prompt": "x", "params": {"seed": 4}})
    assert (plan.provider, plan.finish, plan.concurrency) == ("comfyui", Finish.WORKER, None)
    places = {
        "input_file_id": "params.input_file_id",
        "effect_id": "action_type",
        "input_payload.text": "prompt",
    }
    assert plan.effect == EffectUse("portrait", {"text": "x", "seed": 4}, None, places)
    file_id = "0197a1b2-0000-7000-8000-000000000000"
    params = {"effect": "glow", "strength": 2, "input_file_id": file_id}
    plan = media.plan({"provider": "comfyui", "action_type": "effect", "prompt": "x", "params": params})
    assert plan.effect is not None
    assert (plan.effect.effect, plan.effect.input_payload) == ("glow", {"prompt": "x", "strength": 2})
    assert (plan.effect.input_file_id, plan.effect.places["effect_id"]) == (file_id, "params.effect")


@pytest.mark.parametrize(
    ("action", "prompt", "params", "fields"),
    [
        ("effect", "", {}, {"payload.params.effect"}),
        ("effect", "", {"effect": "Not A Slug"}, {"payload.params.effect"}),
        ("effect", "", {"effect": ["a"]}, {"payload.params.effect"}),
        ("effect", "", {"effect": "a", "input_file_id": "x"}, {"payload.params.input_file_id"}),
        ("txt2img", "", {"input_file_id": 5}, {"payload.params.input_file_id"}),
        ("upscale", "a prompt", {}, {"payload.prompt"}),
    ],
)
def test_a_payload_that_no_effect_can_take_is_refused(
    registry: ActorRegistry, action: str, prompt: str, params: dict[str, Any], fields: set[str]
) -> None:
    payload = {"provider": "comfyui", "action_type": action, "prompt": prompt, "params": params}
    assert set(refused(registry, payload)) == fields


async def test_a_task_for_a_worker_beside_an_engine_is_not_run_elsewhere(
    registry: ActorRegistry, tmp_path: Path
) -> None:
    with pytest.raises(ProviderError) as failed:
        await registry.actors["media"].run(media_task(tmp_path, provider="comfyui"))
    assert (failed.value.type, failed.value.retryable) == ("wrong_worker", True)


def test_a_preview_of_the_request_can_be_shown(registry: ActorRegistry) -> None:
    shown = registry.media["leonardo"].preview_info(Generation("txt2img", "x", {"width": 600}))
    assert shown["params"] == {"width": 600, "height": 768, "count": 1}
    shown = registry.media["comfyui"].preview_info(Generation("txt2img", "x", {"seed": 1}))
    assert shown == {"effect": "portrait", "input_payload": {"text": "x", "seed": 1}}
    assert registry.media["lightbox"].preview_info(Generation("txt2img", "x"))["params"]["width"] == 768


class TestWebhooks:
    """A provider that calls back is submitted to once, whatever happened to the attempt before."""

    @pytest.fixture
    def provider(self) -> RecordingProvider:
        return RecordingProvider()

    @pytest.fixture
    def media(self, provider: RecordingProvider) -> MediaActor:
        config: Any = None
        return MediaActor(BuiltInContext(config, Clients(), {provider.name: provider}))

    def task(self, directory: Path, callback: Callback | None) -> Any:
        task = media_task(directory, provider="recording")
        return type(task)(task.id, task.payload, 1, directory, task.report_progress, callback)

    async def test_the_first_attempt_submits_without_looking(
        self, media: MediaActor, provider: RecordingProvider, tmp_path: Path
    ) -> None:
        deferred = await media.run(self.task(tmp_path, Callback("https://example.com/api/webhooks/recording/x")))
        assert deferred == Deferred("prediction-1", 3600)
        assert provider.calls == ["submit"]

    async def test_a_later_attempt_looks_for_the_prediction_and_submits_a_missing_one(
        self, media: MediaActor, provider: RecordingProvider, tmp_path: Path
    ) -> None:
        callback = Callback("https://example.com/api/webhooks/recording/x", may_exist=True)
        assert await media.run(self.task(tmp_path, callback)) == Deferred("prediction-1", 3600)
        assert provider.calls == ["find", "submit"]

    async def test_a_later_attempt_uses_the_prediction_it_finds(
        self, media: MediaActor, provider: RecordingProvider, tmp_path: Path
    ) -> None:
        callback = Callback("https://example.com/api/webhooks/recording/x", may_exist=True)
        await media.run(self.task(tmp_path, callback))
        provider.calls.clear()
        assert await media.run(self.task(tmp_path, callback)) == Deferred("prediction-1", 3600)
        assert provider.calls == ["find"]

    async def test_a_task_without_a_callback_url_is_not_submitted(
        self, media: MediaActor, provider: RecordingProvider, tmp_path: Path
    ) -> None:
        with pytest.raises(ProviderError) as failed:
            await media.run(self.task(tmp_path, None))
        assert (failed.value.type, provider.calls) == ("no_callback", [])
