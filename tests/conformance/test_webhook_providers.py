"""What every media provider that is an external service must do, whether it calls back or is polled until it is done.

Both kinds run against one server that responds, signs and lies like Replicate.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callsheet.providers.errors import ProviderUnavailable
from callsheet.providers.media import MediaProvider
from callsheet.providers.registry import ActorRegistry
from tests.support.providers.provider_services import HASTE_SECONDS, CallbackReceiver, ServiceSetup
from tests.support.providers.replicate_files import content_of
from tests.support.providers.replicate_server import TOKEN, ReplicateServer, Scenario


@pytest.fixture(params=["replicate", "described", "documented"])
def service_setup(
    request: pytest.FixtureRequest,
    replicate: ReplicateServer,
    provider_registry: ActorRegistry,
    callback_receiver: CallbackReceiver,
    documented_provider: MediaProvider,
    tmp_path: Path,
) -> ServiceSetup:
    media = {**provider_registry.media, "documented": documented_provider}
    return ServiceSetup(replicate, callback_receiver, media[request.param], tmp_path)


@pytest.fixture
def impatient_service_setup(service_setup: ServiceSetup, provider_registry: ActorRegistry) -> ServiceSetup:
    """Waits for no file for long."""
    provider = service_setup.provider if service_setup.calls_back else provider_registry.media["hasty"]
    return replace(service_setup, provider=provider, file_seconds=HASTE_SECONDS)


@pytest.mark.few_forms
@pytest.mark.parametrize("name", ["picture.png", "film.mp4", "sound.wav"])
async def test_files_are_delivered_unchanged(service_setup: ServiceSetup, name: str) -> None:
    output = service_setup.server.file(name)
    if not service_setup.calls_back or name == "picture.png":
        output = [output]
    assert await service_setup.make(Scenario(output=output)) == [content_of(name)]


async def test_several_outputs_come_in_order(service_setup: ServiceSetup) -> None:
    names = ["picture-2.png", "film.mp4", "picture.png"]
    made = await service_setup.make(Scenario(output=[service_setup.server.file(name) for name in names]))
    assert made == [content_of(name) for name in names]


async def test_prompt_and_parameters_reach_the_model(service_setup: ServiceSetup) -> None:
    await service_setup.make(seed=7)
    [call] = service_setup.server.submitted
    assert (call.path, call.body["input"]) == ("/models/owner/name/predictions", {"prompt": "a cat", "seed": 7})


async def test_a_failed_generation_has_a_reason_without_paths(service_setup: ServiceSetup) -> None:
    error = await service_setup.refused(Scenario("failed", error="CUDA error\nat token=r8_abcdefgh"))
    assert not error.retryable
    assert "CUDA error" in error.message
    assert "r8_abcdefgh" not in error.message


@pytest.mark.parametrize("outcome", ["canceled", "aborted"])
async def test_a_generation_that_the_service_ended_is_not_delivered(service_setup: ServiceSetup, outcome: Any) -> None:
    assert not (await service_setup.refused(Scenario(outcome))).retryable


@pytest.mark.few_forms
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_failing_service_is_retried_and_generates_once(service_setup: ServiceSetup, status: int) -> None:
    service_setup.server.refuse(2, status, calls="POST")
    assert await service_setup.make() == [content_of("picture.png")]
    assert len(service_setup.server.predictions) == 1


async def test_a_service_that_stays_in_trouble_is_unavailable(service_setup: ServiceSetup) -> None:
    service_setup.server.refuse(9, 503, calls="POST")
    error = await service_setup.refused()
    assert isinstance(error, ProviderUnavailable)
    assert error.details["status"] == 503
    assert service_setup.server.predictions == {}


async def test_a_service_that_cannot_be_reached_is_unavailable(service_setup: ServiceSetup) -> None:
    await service_setup.server.stop()
    try:
        assert isinstance(await service_setup.refused(), ProviderUnavailable)
    finally:
        await service_setup.server.start()


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("status", "message"), [(401, "key"), (402, "402"), (404, "404"), (422, "Refused by the test")]
)
async def test_a_refusal_is_final_and_shows_no_secret(
    service_setup: ServiceSetup, logged: io.StringIO, status: int, message: str
) -> None:
    service_setup.server.refuse(1, status, calls="POST")
    error = await service_setup.refused()
    assert not error.retryable
    assert message in error.message
    assert error.details["status"] == status
    everything = f"{error.message} {error.details} {error.traceback} {logged.getvalue()}"
    assert TOKEN not in everything
    assert len(service_setup.server.submitted) == 1


async def test_the_key_goes_to_the_service_and_not_to_its_files(service_setup: ServiceSetup) -> None:
    await service_setup.make()
    assert all(call.headers["authorization"] == f"Bearer {TOKEN}" for call in service_setup.server.calls)
    assert service_setup.server.downloads == {"picture.png": 1}
    assert [headers.get("authorization") for headers in service_setup.server.download_headers] == [None]


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("page.png", "output_not_media"),
        ("page.html", "output_not_media"),
        ("empty.png", "output_not_media"),
        ("missing.png", "output_unreadable"),
        ("endless.png", "output_too_large"),
        ("huge.png", "output_too_large"),
    ],
)
async def test_an_invalid_output_is_refused_and_leaves_no_file(
    service_setup: ServiceSetup, name: str, type: str
) -> None:
    error = await service_setup.refused(Scenario(output=[service_setup.server.file(name)]))
    assert (error.type, error.retryable) == (type, False)


@pytest.mark.few_forms
@pytest.mark.parametrize("host", ["169.254.169.254", "127.0.0.2", "[::1]", "10.0.0.1"])
async def test_an_output_url_in_a_private_network_is_not_fetched(service_setup: ServiceSetup, host: str) -> None:
    for address in (f"http://{host}/secret", service_setup.server.redirect(f"http://{host}/secret")):
        error = await service_setup.refused(Scenario(output=[address]))
        assert (error.type, error.retryable) == ("output_refused", False)


@pytest.mark.few_forms
@pytest.mark.parametrize("name", ["slow.png", "broken.png"])
async def test_an_unavailable_output_may_be_fetched_later(impatient_service_setup: ServiceSetup, name: str) -> None:
    with pytest.raises(ProviderUnavailable):
        await impatient_service_setup.once(
            impatient_service_setup.callback(), Scenario(output=[impatient_service_setup.server.file(name)])
        )
    assert list(impatient_service_setup.directory.iterdir()) == []
