"""Requests that are sent again: after a lost connection, and when the control plane asks for it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from callsheet.client.errors import ClientError, NotConnected, UnknownResponse, Unreachable, refusal_of
from callsheet.client.transport import Transport
from callsheet.toolbox.outages import backoff_seconds
from callsheet.wire.errors import CallsheetError

Model = TypeVar("Model", bound=BaseModel)

# These statuses pass. A 409 or 429 is waited for only if the response says how long: a 409 says it while an earlier
# request with the same idempotency key runs.
PASSING = frozenset({408, 409, 429, 502, 503, 504})
ASKS_TO_WAIT = frozenset({409, 429})
# A repeated request of these methods does what the first one did.
REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})
# If no control plane has responded to a client yet, its URL is probably wrong, or the control plane was not started. So
# the client tries for this long only. A connection that is lost later is a restart or a failover: the client tries for
# its `retry_seconds`.
FIRST_SECONDS = 3.0
_random = Random()  # noqa: S311 (jitter)


class Patience:
    """The time for which something is tried again, from its first failure."""

    def __init__(self, seconds: float, monotonic: Callable[[], float] = time.monotonic):
        self._seconds = seconds
        self._monotonic = monotonic
        self._failures = 0
        self._start = 0.0

    def renew(self) -> None:
        """After a success."""
        self._failures = 0

    def wait_seconds(self, asked: float | None = None, at_most: float = math.inf) -> float | None:
        """How long to wait before the next attempt. None if the time is over before it, or `at_most` seconds are."""
        if self._failures == 0:
            self._start = self._monotonic()
        self._failures += 1
        seconds = backoff_seconds(self._failures, 0.2, 5.0, _random) if asked is None else asked
        end = self._start + min(self._seconds, at_most)
        return seconds if self._monotonic() + seconds < end else None


class Requests:
    def __init__(self, url: str, transport: Transport, retry_seconds: float):
        self.url = url
        self.transport = transport
        self.retry_seconds = retry_seconds
        # Whether the server has responded at least once.
        self._was_reached = False

    async def ask(
        self,
        model: type[Model],
        method: str,
        path: str,
        body: object = None,
        *,
        idempotency_key: str | None = None,
        repeat: bool | None = None,
    ) -> Model:
        response = await self.response(method, path, body, idempotency_key=idempotency_key, repeat=repeat)
        return self.read(model, response)

    async def response(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        idempotency_key: str | None = None,
        repeat: bool | None = None,
    ) -> httpx.Response:
        """A response of success. `repeat`: whether the request may be sent twice. By default, that depends on its
        method and on its idempotency key.
        """
        if repeat is None:
            repeat = method in REPEATABLE or idempotency_key is not None
        patience = Patience(self.retry_seconds if repeat else 0.0)
        headers = {"idempotency-key": idempotency_key} if idempotency_key is not None else {}
        while True:
            error: CallsheetError
            try:
                request = self.transport.api.build_request(method, path, json=body, headers=headers)
                response = await self.transport.send(request)
            except httpx.TransportError as lost:
                error = self._unreachable(lost)
            else:
                self._was_reached = True
                if response.is_success:
                    return response
                error = refusal_of(response)
            await self.pause(patience, error)

    async def pause(self, patience: Patience, error: CallsheetError) -> None:
        """Waits for the next attempt. Raises the error if it will not pass, or not in time."""
        asked = getattr(error, "retry_after_seconds", None)
        if not passes(error):
            raise error from None
        is_first = isinstance(error, NotConnected) and not self._was_reached
        seconds = patience.wait_seconds(asked, FIRST_SECONDS if is_first else math.inf)
        if seconds is None:
            raise error from None
        await self.transport.sleep(seconds)

    def read(self, model: type[Model], response: httpx.Response) -> Model:
        try:
            return model.model_validate_json(response.content)
        except ValidationError:
            raise self.no_callsheet() from None

    def json(self, response: httpx.Response) -> Any:
        try:
            return response.json() if response.content else None
        except ValueError:
            raise self.no_callsheet() from None

    def no_callsheet(self) -> ClientError:
        return UnknownResponse(f"The server at {self.url} does not respond like Callsheet. Check the URL.")

    def _unreachable(self, lost: httpx.TransportError) -> Unreachable:
        reason = f"No control plane responds at {self.url} ({type(lost).__name__})."
        if isinstance(lost, httpx.ConnectError | httpx.ConnectTimeout):
            return NotConnected(
                f"{reason} Check the host and the port of the URL, and that the control plane is running there."
            )
        return Unreachable(f"{reason} Check that it is running there.")


def passes(error: CallsheetError) -> bool:
    """Whether the same request may have success later."""
    if isinstance(error, Unreachable):
        return True
    status = getattr(error, "status", None)
    return status in PASSING and (status not in ASKS_TO_WAIT or getattr(error, "retry_after_seconds", None) is not None)


def quoted(text: object) -> str:
    return quote(str(text), safe="")


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}
