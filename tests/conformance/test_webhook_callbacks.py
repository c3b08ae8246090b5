"""Requirements for a provider that calls back: its job is found after a lost response, and callbacks are signed."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from callsheet.providers.config import ProvidersConfig
from callsheet.providers.errors import ProviderError, ProviderUnavailable
from callsheet.providers.media import Callback, CallbackRefused, Generation, Prediction, WebhookProvider
from callsheet.providers.registry import ActorRegistry, open_registry
from tests.support.providers.provider_services import LOCAL
from tests.support.providers.replicate_server import SECRET, TOKEN, ReplicateServer, Scenario, new_id, signed_headers

HELD = Scenario(held=True)
OTHER_SECRET = "whsec_" + base64.b64encode(b"what it signed with until yesterday").decode()
A_CAT = Generation("txt2img", "a cat")


def nowhere() -> Callback:
    """A URL that gets no requests."""
    return Callback(f"https://callsheet.test/api/webhooks/replicate/{secrets.token_urlsafe(16)}")


@pytest.fixture
def provider(replicate: ReplicateServer, provider_registry: ActorRegistry) -> WebhookProvider:
    replicate.deliver = "never"
    return cast("WebhookProvider", provider_registry.media["replicate"])


@asynccontextmanager
async def set_up(server: ReplicateServer, **changes: Any) -> AsyncIterator[WebhookProvider]:
    """One with settings of its own, and a memory of its own."""
    models = {"txt2img": {"model": "owner/name"}, **changes.pop("models", {})}
    config = {"token": TOKEN, "url": server.url, "models": models, **changes}
    registry = open_registry(ProvidersConfig.model_validate({"replicate": config}), allow_networks=[LOCAL])
    try:
        yield cast("WebhookProvider", registry.media["replicate"])
    finally:
        await registry.close()


async def ended(provider: WebhookProvider, server: ReplicateServer, **scenario: Any) -> Prediction:
    server.scenario = HELD
    submitted = await provider.submit(A_CAT, nowhere())
    server.end(submitted.id, Scenario(**scenario))
    return await provider.get(submitted.id)


async def test_a_prediction_whose_submit_response_was_lost_is_found_and_not_submitted_twice(
    replicate: ReplicateServer, provider: WebhookProvider
) -> None:
    callback = nowhere()
    replicate.lose_responses(1)
    with pytest.raises(ProviderUnavailable):
        await provider.submit(A_CAT, callback)
    found = await provider.find(Callback(callback.url, may_exist=True))
    assert found is not None
    assert list(replicate.predictions) == [found.id]


async def test_a_prediction_that_was_never_submitted_is_not_found(
    replicate: ReplicateServer, provider: WebhookProvider
) -> None:
    await provider.submit(A_CAT, nowhere())
    assert await provider.find(nowhere()) is None


@pytest.mark.parametrize("lists_webhooks", [True, False])
async def test_a_prediction_is_found_behind_many_others_whatever_the_list_says(
    replicate: ReplicateServer, provider: WebhookProvider, lists_webhooks: bool
) -> None:
    callback = nowhere()
    wanted = await provider.submit(A_CAT, callback)
    for _ in range(7):
        await provider.submit(A_CAT, nowhere())
    replicate.page_size, replicate.lists_webhooks = 3, lists_webhooks
    found = await provider.find(callback)
    assert found is not None
    assert found.id == wanted.id


async def test_the_search_stops_at_predictions_older_than_any_attempt(
    replicate: ReplicateServer, provider: WebhookProvider
) -> None:
    for _ in range(6):
        submitted = await provider.submit(A_CAT, nowhere())
        replicate.predictions[submitted.id]["created_at"] = "2026-01-01T00:00:00Z"
    replicate.page_size = 2
    assert await provider.find(nowhere()) is None
    assert len(replicate.called("GET /predictions")) == 1


async def test_the_api_key_is_not_sent_to_a_page_url_on_another_host(
    replicate: ReplicateServer, provider: WebhookProvider
) -> None:
    for _ in range(2):
        await provider.submit(A_CAT, nowhere())
    replicate.page_size, replicate.list_origin = 1, "http://169.254.169.254/v1"
    assert await provider.find(nowhere()) is None
    assert len(replicate.called("GET /predictions")) == 2


async def test_the_provider_calls_back_only_when_a_prediction_ends(
    replicate: ReplicateServer, provider: WebhookProvider
) -> None:
    callback = nowhere()
    await provider.submit(A_CAT, callback)
    [call] = replicate.submitted
    assert (call.body["webhook"], call.body["webhook_events_filter"]) == (callback.url, ["completed"])


async def test_the_settings_decide_version_deployment_and_input_names(replicate: ReplicateServer) -> None:
    version = "ab" * 32
    models = {
        "by_version": {"model": f"owner/name:{version}", "inputs": {"prompt": "text", "seed": ""}},
        "alone": {"model": version},
        "deployed": {"model": "deployments/owner/fast", "fixed": {"quality": 90}},
    }
    async with set_up(replicate, models=models) as provider:
        for action in models:
            await provider.submit(Generation(action, "a cat", {"seed": 1, "none": None}), nowhere())
        problems = list(provider.problems(Generation("deployed", "", {"quality": 1, "a b": 2})))
    sent = [(call.path, call.body.get("version"), call.body["input"]) for call in replicate.submitted]
    assert sent == [
        ("/predictions", version, {"text": "a cat"}),
        ("/predictions", version, {"prompt": "a cat", "seed": 1}),
        ("/deployments/owner/fast/predictions", None, {"prompt": "a cat", "seed": 1, "quality": 90}),
    ]
    assert [problem.field for problem in problems] == ["params.quality", "params.a b"]


async def test_canceling_a_prediction_stops_it_and_a_second_cancel_changes_nothing(
    replicate: ReplicateServer, provider: WebhookProvider
) -> None:
    replicate.scenario = HELD
    submitted = await provider.submit(A_CAT, nowhere())
    for _ in range(2):
        await provider.cancel(submitted.id)
    assert (await provider.get(submitted.id)).status == "canceled"
    await provider.cancel(new_id())


@pytest.mark.few_forms
@pytest.mark.parametrize("odd_id", ["", "../webhooks/default/secret", "a/b", "x" * 200, "é"])
async def test_an_odd_id_is_unknown_and_never_part_of_a_url(
    replicate: ReplicateServer, provider: WebhookProvider, odd_id: str
) -> None:
    with pytest.raises(ProviderError) as unknown:
        await provider.get(odd_id)
    assert not unknown.value.retryable
    assert replicate.calls == []


async def test_progress_is_read_from_the_log(replicate: ReplicateServer, provider: WebhookProvider) -> None:
    replicate.scenario = HELD
    submitted = await provider.submit(A_CAT, nowhere())
    assert (await provider.get(submitted.id)).percent is None
    replicate.progress(submitted.id, "loading 7%\n 10%|█     | 1/10\n 40%|████  | 4/10 [00:03<00:04,  1.1it/s]\n")
    running = await provider.get(submitted.id)
    assert (running.status, running.percent) == ("running", 40.0)


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("output", "addresses", "text"),
    [
        ("https://x.test/a.png", ("https://x.test/a.png",), None),
        (["https://x.test/a.png", "https://x.test/b.png"], ("https://x.test/a.png", "https://x.test/b.png"), None),
        ({"audio": "https://x.test/a.wav", "words": "hello"}, ("https://x.test/a.wav",), "hello"),
        ([{"mask": {"url": "https://x.test/m.png"}}, None, 3], ("https://x.test/m.png",), None),
        ("A cat sat.", (), "A cat sat."),
        (["A ", "cat ", "sat."], (), "A cat sat."),
        ({"label": "cat", "score": 0.9}, (), '{\n  "label": "cat",\n  "score": 0.9\n}'),
        (0.25, (), "0.25"),
        ("see https://x.test/a.png", (), "see https://x.test/a.png"),
        ("half \ud800 and \x00", (), "half ? and "),
    ],
)
async def test_outputs_of_every_shape_are_understood(
    replicate: ReplicateServer, provider: WebhookProvider, output: Any, addresses: tuple[str, ...], text: str | None
) -> None:
    prediction = await ended(provider, replicate, output=output)
    assert (prediction.status, prediction.outputs, prediction.text) == ("succeeded", addresses, text)


@pytest.mark.parametrize("output", [None, "", [], {}])
async def test_a_successful_prediction_without_output_is_a_failure(
    replicate: ReplicateServer, provider: WebhookProvider, output: Any
) -> None:
    prediction = await ended(provider, replicate, output=output)
    assert (prediction.status, prediction.error) == ("failed", "Replicate: the model made nothing.")


async def test_an_aborted_prediction_is_failed_and_a_canceled_prediction_is_canceled(
    replicate: ReplicateServer, provider: WebhookProvider
) -> None:
    aborted = await ended(provider, replicate, outcome="aborted")
    assert (aborted.status, aborted.error) == ("failed", "Replicate gave up the prediction before it started.")
    assert (await ended(provider, replicate, outcome="canceled")).status == "canceled"


async def test_an_unknown_status_counts_as_running(replicate: ReplicateServer, provider: WebhookProvider) -> None:
    replicate.scenario = HELD
    submitted = await provider.submit(A_CAT, nowhere())
    replicate.predictions[submitted.id]["status"] = "thinking"
    assert (await provider.get(submitted.id)).status == "running"


async def test_users_read_the_last_line_of_a_traceback_without_paths(
    replicate: ReplicateServer, provider: WebhookProvider
) -> None:
    error = (
        'Traceback (most recent call last):\n  File "/src/predict.py", line 3\nValueError: no /src/weights/a.bin\x00'
    )
    prediction = await ended(provider, replicate, outcome="failed", error=error)
    assert prediction.error == "ValueError: no a.bin"


def body_of(**changes: Any) -> bytes:
    prediction: dict[str, Any] = {"id": new_id(), "status": "succeeded", "output": "hello", **changes}
    return json.dumps(prediction).encode()


NOW = time.time()


async def test_a_signed_callback_is_accepted(provider: WebhookProvider) -> None:
    body = body_of(webhook="https://callsheet.test/x")
    prediction = await provider.read_callback(signed_headers(body, SECRET, NOW), body, NOW)
    assert (prediction.text, prediction.callback_url) == ("hello", "https://callsheet.test/x")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"webhook-signature": "v1,AAAA"}, "its signature is wrong"),
        ({"webhook-signature": "é" * 30}, "its signature is wrong"),
        ({"webhook-signature": "v1,a " * 30}, "it has too many signatures"),
        ({"webhook-signature": ""}, "it is not signed"),
        ({"webhook-id": ""}, "it is not signed"),
        ({"webhook-id": "msg_other"}, "its signature is wrong"),
        ({"webhook-timestamp": "yesterday"}, "its timestamp is not one"),
        ({"webhook-timestamp": "²"}, "its timestamp is not one"),
        ({"webhook-timestamp": str(int(NOW) + 1)}, "its signature is wrong"),
    ],
)
async def test_a_callback_without_the_providers_signature_is_refused(
    provider: WebhookProvider, changes: dict[str, str], reason: str
) -> None:
    body = body_of()
    headers = {**signed_headers(body, SECRET, NOW), **changes}
    with pytest.raises(CallbackRefused, match=reason):
        await provider.read_callback(headers, body, NOW)


async def test_a_callback_whose_body_was_changed_is_refused(provider: WebhookProvider) -> None:
    body = body_of()
    with pytest.raises(CallbackRefused):
        await provider.read_callback(signed_headers(body, SECRET, NOW), body.replace(b"hello", b"hallo"), NOW)


@pytest.mark.few_forms
@pytest.mark.parametrize(("age", "fresh"), [(0, True), (299, True), (-299, True), (302, False), (-302, False)])
async def test_an_old_callback_is_refused_and_so_is_one_from_the_future(
    provider: WebhookProvider, age: int, fresh: bool
) -> None:
    body = body_of()
    headers = signed_headers(body, SECRET, NOW - age)
    if fresh:
        await provider.read_callback(headers, body, NOW)
        return
    with pytest.raises(CallbackRefused, match="seconds"):
        await provider.read_callback(headers, body, NOW)


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"id": 3, "status": "x"}', b'{"id": "../x", "status": "x"}', b"[" * 100_000]
)
async def test_a_signed_body_that_is_not_a_prediction_is_refused(provider: WebhookProvider, body: bytes) -> None:
    with pytest.raises(CallbackRefused, match="not a prediction"):
        await provider.read_callback(signed_headers(body, SECRET, NOW), body, NOW)


async def test_one_valid_signature_of_several_is_enough(provider: WebhookProvider) -> None:
    body = body_of()
    headers = signed_headers(body, SECRET, NOW)
    signatures = f"{signed_headers(body, OTHER_SECRET, NOW)['webhook-signature']} v2,x {headers['webhook-signature']}"
    await provider.read_callback({**headers, "webhook-signature": signatures}, body, NOW)


async def test_the_secret_is_fetched_once_and_again_if_it_does_not_verify(
    replicate: ReplicateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = body_of()
    async with set_up(replicate) as provider:
        for _ in range(3):
            await provider.read_callback(signed_headers(body, SECRET, NOW), body, NOW)
        path = "GET /webhooks/default/secret"
        assert len(replicate.called(path)) == 1
        with pytest.raises(CallbackRefused):
            await provider.read_callback(signed_headers(body, OTHER_SECRET, NOW), body, NOW)
        assert len(replicate.called(path)) == 1
        monkeypatch.setattr("callsheet.providers.replicate.provider.SECRET_SECONDS", 0.0)
        replicate.secret = OTHER_SECRET
        try:
            await provider.read_callback(signed_headers(body, OTHER_SECRET, NOW), body, NOW)
        finally:
            replicate.secret = SECRET
        assert len(replicate.called(path)) == 2


async def test_a_configured_secret_is_never_fetched(replicate: ReplicateServer) -> None:
    body = body_of()
    async with set_up(replicate, webhook_secret=OTHER_SECRET) as provider:
        await provider.read_callback(signed_headers(body, OTHER_SECRET, NOW), body, NOW)
        with pytest.raises(CallbackRefused):
            await provider.read_callback(signed_headers(body, SECRET, NOW), body, NOW)
    assert replicate.calls == []


async def test_a_callback_must_be_sent_again_if_the_secret_cannot_be_fetched(
    replicate: ReplicateServer,
) -> None:
    body = body_of()
    replicate.refuse(1, 503)
    async with set_up(replicate) as provider:
        with pytest.raises(ProviderUnavailable):
            await provider.read_callback(signed_headers(body, SECRET, NOW), body, NOW)
        await provider.read_callback(signed_headers(body, SECRET, NOW), body, NOW)


async def test_a_provider_without_a_token_is_listed_and_names_the_missing_setting(replicate: ReplicateServer) -> None:
    async with set_up(replicate, token=None) as provider:
        [problem] = provider.problems(A_CAT)
        assert (problem.field, "providers.replicate.token" in problem.reason) == ("provider", True)
        with pytest.raises(ProviderError, match=r"providers\.replicate\.token"):
            await provider.submit(A_CAT, nowhere())
    assert replicate.calls == []
