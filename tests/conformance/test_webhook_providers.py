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
from callsheet.providers.registry import ActorRegistry
from tests.support.replicate_files import content_of
from tests.support.replicate_server import TOKEN, ReplicateServer, Scenario
from tests.support.services import HASTE_SECONDS, Bench, Hooks


@pytest.fixture(params=["replicate", "described"])
def bench(
    request: pytest.FixtureRequest,
    replicate: ReplicateServer,
    provider_registry: ActorRegistry,
    hooks: Hooks,
    tmp_path: Path,
) -> Bench:
    return Bench(replicate, hooks, provider_registry.media[request.param], tmp_path)


@pytest.fixture
def hasty(bench: Bench, provider_registry: ActorRegistry) -> Bench:
    """Waits for no file for long."""
    provider = bench.provider if bench.calls_back else provider_registry.media["hasty"]
    return replace(bench, provider=provider, file_seconds=HASTE_SECONDS)


@pytest.mark.few_forms
@pytest.mark.parametrize("name", ["picture.png", "film.mp4", "sound.wav"])
async def test_what_was_made_comes_back_as_it_was_made(bench: Bench, name: str) -> None:
    output = bench.server.file(name)
    if not bench.calls_back or name == "picture.png":
        output = [output]
    assert await bench.make(Scenario(output=output)) == [content_of(name)]


async def test_several_outputs_come_in_order(bench: Bench) -> None:
    names = ["picture-2.png", "film.mp4", "picture.png"]
    made = await bench.make(Scenario(output=[bench.server.file(name) for name in names]))
    assert made == [content_of(name) for name in names]


async def test_prompt_and_parameters_reach_the_model(bench: Bench) -> None:
    await bench.make(seed=7)
    [call] = bench.server.submitted
    assert (call.path, call.body["input"]) == ("/models/owner/name/predictions", {"prompt": "a cat", "seed": 7})


async def test_a_failure_is_one_and_says_why_without_paths(bench: Bench) -> None:
    error = await bench.refused(Scenario("failed", error="CUDA error\nat token=r8_abcdefgh"))
    assert not error.retryable
    assert "CUDA error" in error.message
    assert "r8_abcdefgh" not in error.message


@pytest.mark.parametrize("outcome", ["canceled", "aborted"])
async def test_one_that_the_service_ended_is_not_delivered(bench: Bench, outcome: Any) -> None:
    assert not (await bench.refused(Scenario(outcome))).retryable


@pytest.mark.few_forms
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_service_in_trouble_is_tried_again_and_made_once(bench: Bench, status: int) -> None:
    bench.server.refuse(2, status, calls="POST")
    assert await bench.make() == [content_of("picture.png")]
    assert len(bench.server.predictions) == 1


async def test_a_service_that_stays_in_trouble_is_unavailable(bench: Bench) -> None:
    bench.server.refuse(9, 503, calls="POST")
    error = await bench.refused()
    assert isinstance(error, ProviderUnavailable)
    assert error.details["status"] == 503
    assert bench.server.predictions == {}


async def test_a_service_that_cannot_be_reached_is_unavailable(bench: Bench) -> None:
    await bench.server.stop()
    try:
        assert isinstance(await bench.refused(), ProviderUnavailable)
    finally:
        await bench.server.start()


@pytest.mark.few_forms
@pytest.mark.parametrize(("status", "said"), [(401, "key"), (402, "402"), (404, "404"), (422, "Refused by the test")])
async def test_a_refusal_is_final_and_shows_no_secret(
    bench: Bench, logged: io.StringIO, status: int, said: str
) -> None:
    bench.server.refuse(1, status, calls="POST")
    error = await bench.refused()
    assert not error.retryable
    assert said in error.message
    assert error.details["status"] == status
    told = f"{error.message} {error.details} {error.traceback} {logged.getvalue()}"
    assert TOKEN not in told
    assert len(bench.server.submitted) == 1


async def test_the_key_goes_to_the_service_and_not_to_its_files(bench: Bench) -> None:
    await bench.make()
    assert all(call.headers["authorization"] == f"Bearer {TOKEN}" for call in bench.server.calls)
    assert bench.server.downloads == {"picture.png": 1}
    assert [headers.get("authorization") for headers in bench.server.download_headers] == [None]


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
async def test_an_output_that_is_none_is_refused_and_leaves_nothing(bench: Bench, name: str, type: str) -> None:
    error = await bench.refused(Scenario(output=[bench.server.file(name)]))
    assert (error.type, error.retryable) == (type, False)


@pytest.mark.few_forms
@pytest.mark.parametrize("host", ["169.254.169.254", "127.0.0.2", "[::1]", "10.0.0.1"])
async def test_an_output_cannot_lead_into_our_own_networks(bench: Bench, host: str) -> None:
    for address in (f"http://{host}/secret", bench.server.redirect(f"http://{host}/secret")):
        error = await bench.refused(Scenario(output=[address]))
        assert (error.type, error.retryable) == ("output_refused", False)


@pytest.mark.few_forms
@pytest.mark.parametrize("name", ["slow.png", "broken.png"])
async def test_an_output_that_does_not_come_may_be_fetched_later(hasty: Bench, name: str) -> None:
    with pytest.raises(ProviderUnavailable):
        await hasty.once(hasty.callback(), Scenario(output=[hasty.server.file(name)]))
    assert list(hasty.directory.iterdir()) == []
