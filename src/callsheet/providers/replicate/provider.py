"""`replicate`: predictions of its models, deployments and versions, which call back when they have ended.

Its token is sent to the configured URL only: ids are read from responses, URLs never are.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

from callsheet.providers.context import BuiltInContext
from callsheet.providers.errors import ProviderError, ProviderUnavailable
from callsheet.providers.media import Callback, CallbackRefused, Concurrency, Finish, Generation, Prediction
from callsheet.providers.replicate.config import INPUT_NAME, ReplicateConfig, ReplicateModel
from callsheet.providers.replicate.responses import NAME, is_prediction_id, prediction_of
from callsheet.providers.service_calls import Service
from callsheet.providers.webhook_signatures import WrongSignature, verify
from callsheet.toolbox.http.client import GuardedClient
from callsheet.toolbox.webhook_signatures import key_of
from callsheet.wire.errors import FieldProblem

# Pages of 100 predictions. No known account makes more in the minutes between two attempts.
MAX_PAGES: Final = 20
# If the list does not contain the callback URLs, the predictions are read one by one.
MAX_LOOKUPS: Final = 100
ATTEMPT_SECONDS: Final = 600
# If a signature does not fit, the secret was changed at Replicate, or the callback is not theirs. The secret is fetched
# again, but not each time.
SECRET_SECONDS: Final = 300.0
EVENTS: Final = ("completed",)
NOT_SET_UP: Final = "providers.replicate.token is not set"


class Replicate:
    name = NAME
    finish = Finish.WEBHOOK
    paid = True
    run_limit_seconds = ATTEMPT_SECONDS

    def __init__(self, config: ReplicateConfig, client: GuardedClient):
        token = "" if config.token is None else config.token.get_secret_value()
        self._config = config
        self._service = Service(NAME, config.url, client, {"Authorization": f"Bearer {token}"}, config.request_seconds)
        self._key: bytes | None = None
        self._key_read_at = float("-inf")
        self._key_lock = asyncio.Lock()

    @property
    def actions(self) -> frozenset[str]:
        return frozenset(self._config.models)

    @property
    def callback_seconds(self) -> float:
        return self._config.callback_seconds

    @property
    def is_set_up(self) -> bool:
        return self._config.token is not None

    def problems(self, generation: Generation) -> Iterable[FieldProblem]:
        if self._config.token is None:
            yield FieldProblem("provider", f"The provider is not configured: {NOT_SET_UP}.")
        fixed = self._config.models[generation.action].fixed
        for name in generation.params:
            if not re.fullmatch(INPUT_NAME, name):
                yield FieldProblem(
                    f"params.{name[:100]}", "The name of an input must be letters, digits and underscores."
                )
            elif name in fixed:
                yield FieldProblem(f"params.{name}", "This input has a fixed value and cannot be set.")

    def concurrency(self, generation: Generation) -> Concurrency:
        own = self._config.models[generation.action].max_concurrent
        if own is not None:
            return Concurrency(f"media:{NAME}:{generation.action}", own)
        return Concurrency(f"media:{NAME}", self._config.max_concurrent)

    def preview_info(self, generation: Generation) -> Mapping[str, Any]:
        return {"model": self._config.models[generation.action].model}

    async def close(self) -> None:
        """Does nothing: `Clients` closes the HTTP client."""

    async def submit(self, generation: Generation, callback: Callback) -> Prediction:
        model = self._config.models[generation.action]
        path, version = route_of(model.model)
        body: dict[str, Any] = {
            "input": input_of(model, generation),
            "webhook": callback.url,
            "webhook_events_filter": list(EVENTS),
        }
        if version is not None:
            body["version"] = version
        return self._prediction(await self._call("POST", path, body))

    async def find(self, callback: Callback) -> Prediction | None:
        silent: list[str] = []
        async for each in self._latest():
            if each.get("webhook") == callback.url:
                return self._prediction(each)
            if "webhook" not in each and each.get("source", "api") == "api" and is_prediction_id(each.get("id")):
                silent.append(each["id"])
            if len(silent) == MAX_LOOKUPS:
                break
        for prediction_id in silent:
            prediction = await self._get_or_none(prediction_id)
            if prediction is not None and prediction.callback_url == callback.url:
                return prediction
        return None

    async def get(self, provider_job_id: str) -> Prediction:
        return self._prediction(await self._call("GET", f"/predictions/{_checked(provider_job_id)}"))

    async def cancel(self, provider_job_id: str) -> None:
        try:
            await self._call("POST", f"/predictions/{_checked(provider_job_id)}/cancel")
        except ProviderError as error:
            # A missing prediction needs no cancellation.
            if not is_unknown(error):
                raise

    async def read_callback(self, headers: Mapping[str, str], body: bytes, now: float) -> Prediction:
        try:
            verify(await self._signing_key(), headers, body, now)
        except WrongSignature:
            if not await self._has_another_key():
                raise
            verify(await self._signing_key(), headers, body, now)
        try:
            return prediction_of(json.loads(body))
        except (ValueError, RecursionError):
            raise CallbackRefused("the signature is valid, but the body is not a prediction") from None

    async def _latest(self) -> AsyncIterator[dict[str, Any]]:
        """Predictions from the list, newest first, as far back as an attempt can be."""
        path = "/predictions"
        for _ in range(MAX_PAGES):
            page = await self._call("GET", path)
            results = page.get("results") if isinstance(page, dict) else None
            for each in results if isinstance(results, list) else []:
                if isinstance(each, dict):
                    yield each
            cursor = _cursor_of(page, time.time() - 2 * self._config.callback_seconds)
            if cursor is None:
                return
            path = f"/predictions?cursor={quote(cursor, safe='')}"

    async def _get_or_none(self, prediction_id: str) -> Prediction | None:
        try:
            return await self.get(prediction_id)
        except ProviderError as error:
            if not is_unknown(error):
                raise
            return None

    async def _signing_key(self) -> bytes:
        if self._config.webhook_secret is not None:
            return key_of(self._config.webhook_secret.get_secret_value())
        async with self._key_lock:
            if self._key is None:
                self._key = await self._ask_for_key()
            return self._key

    async def _has_another_key(self) -> bool:
        """Fetches the secret again, unless that was done a moment ago. Returns whether it changed."""
        if self._config.webhook_secret is not None or time.monotonic() - self._key_read_at < SECRET_SECONDS:
            return False
        async with self._key_lock:
            before = self._key
            with suppress(ProviderError):
                self._key = await self._ask_for_key()
            return self._key != before

    async def _ask_for_key(self) -> bytes:
        self._key_read_at = time.monotonic()
        response = await self._call("GET", "/webhooks/default/secret")
        try:
            return key_of(response["key"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ProviderUnavailable(NAME, "Replicate did not return its signing secret.") from None

    def _prediction(self, body: object) -> Prediction:
        try:
            return prediction_of(body)
        except (ValueError, RecursionError):
            raise ProviderUnavailable(NAME, "Replicate returned an unexpected response.") from None

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        if self._config.token is None:
            raise ProviderError("provider_not_set_up", f"Replicate is not configured: {NOT_SET_UP}.")
        return await self._service.call(method, path, body)


def configured(context: BuiltInContext) -> Iterable[Replicate]:
    config = context.config.replicate
    # The provider exists also without a token: its tasks are refused with the missing setting.
    yield Replicate(config, context.clients.trusted())


def route_of(model: str) -> tuple[str, str | None]:
    """The path for the submission, and the version of the model."""
    if model.startswith("deployments/"):
        return f"/{model}/predictions", None
    name, _, version = model.partition(":")
    if version or "/" not in name:
        return "/predictions", version or name
    return f"/models/{name}/predictions", None


def input_of(model: ReplicateModel, generation: Generation) -> dict[str, Any]:
    given = dict(generation.params)
    if generation.prompt:
        given["prompt"] = generation.prompt
    named = {model.inputs.get(name, name): value for name, value in given.items() if value is not None}
    return {**{name: value for name, value in named.items() if name}, **model.fixed}


def _checked(provider_job_id: str) -> str:
    """The id, if it is valid as part of a URL."""
    if not is_prediction_id(provider_job_id):
        raise ProviderError("provider_not_found", "This is not the id of a prediction.", details={"status": 404})
    return provider_job_id


def is_unknown(error: ProviderError) -> bool:
    return error.details.get("status") == 404


def _cursor_of(page: object, oldest: float) -> str | None:
    """The cursor of the next page, if it can contain what is searched. The URL of the page itself is not used."""
    if not isinstance(page, dict) or not isinstance(page.get("next"), str):
        return None
    results = page.get("results")
    last = results[-1] if isinstance(results, list) and results else None
    created = _time_of(last.get("created_at")) if isinstance(last, dict) else None
    if created is not None and created < oldest:
        return None
    try:
        return parse_qs(urlsplit(page["next"]).query).get("cursor", [None])[0]
    except ValueError:
        return None


def _time_of(value: object) -> float | None:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
