"""HTTP calls to an engine. Every call is timed and logged, and failures of the connection are distinguished from
errors of the engine.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import httpx

from callsheet.providers.engine import EngineError, EngineUnreachable, FetchedOutput
from callsheet.toolbox.concurrently import off_loop
from callsheet.toolbox.http.certificates import certificates
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.outages import backoff_seconds

log = get_logger(__name__)

Result = TypeVar("Result")

PIECE = 262_144
CONNECT_SECONDS = 5.0
# Any other failure may happen after the engine has read the request.
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.InvalidURL, httpx.UnsupportedProtocol)
# The least time for the last look at an engine that was absent, for example because this process slept.
LAST_CHECK_SECONDS = 1.0
STOPPED = "The engine stopped responding."
_random = Random()  # noqa: S311 (jitter)


class EngineHttp:
    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float = 60.0,
        retries: int = 0,
        absent_seconds: float = math.inf,
    ):
        """`seconds`: the timeout between two pieces of a response, not for the whole response, which may have a
        gigabyte. `retries`: how often `again` repeats a call, unless the engine was absent for `absent_seconds`.
        """
        self.url = url.rstrip("/")
        self._seconds, self._retries, self._absent_seconds = seconds, retries, absent_seconds
        timeout = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
        self._client = httpx.AsyncClient(
            timeout=timeout, trust_env=False, verify=certificates(), headers=dict(headers or {})
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The whole response, for any status."""
        async with self.stream(method, path, **options) as response:
            await _read(response)
        return response

    async def again(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """The result of the call, which is repeated if the connection failed."""
        absent_since = math.inf
        for attempt in range(1, self._retries + 1):
            try:
                return await call()
            except EngineUnreachable as error:
                # A transfer may take long, so the time counts from when the engine stopped responding.
                silent = self._seconds if isinstance(error.__cause__, httpx.TimeoutException) else 0.0
                absent_since = min(absent_since, time.monotonic() - silent)
                if time.monotonic() - absent_since >= self._absent_seconds:
                    raise
                await pause(attempt)
        return await call()

    async def upload(self, address: str, fields: Mapping[str, str], name: str, path: Path) -> httpx.Response:
        """Uploads a file in a form. ComfyUI calls the field `image` for every type."""

        async def send() -> httpx.Response:
            with path.open("rb") as file:
                return await self.call("POST", address, data=dict(fields), files={"image": (name, file)})

        return await self.again(send)

    async def get_object(self, path: str) -> dict[str, Any]:
        """A JSON object. Raises EngineUnreachable otherwise: a failing engine returns 500 in plain text."""
        response = await self.call("GET", path)
        body = json_of(response)
        if response.status_code != 200 or not isinstance(body, dict):
            raise EngineUnreachable(
                "The engine returned an unexpected response.", path=path, status=response.status_code
            )
        return body

    async def get_small(self, path: str, max_bytes: int) -> object:
        """A JSON value; None if there is no such path, or if the response is not JSON or too large."""
        content = bytearray()
        async with self.stream("GET", path) as response:
            if response.status_code != 200:
                return None
            async for piece in response.aiter_bytes(PIECE):
                content += piece
                if len(content) > max_bytes:
                    return None
        try:
            body: object = json.loads(content)
        except (ValueError, RecursionError):
            return None
        return body

    @asynccontextmanager
    async def stream(self, method: str, path: str, **options: Any) -> AsyncIterator[httpx.Response]:
        """Yields the response as soon as its headers have arrived. The path may be a whole URL elsewhere."""
        started = time.perf_counter()
        address = path if "://" in path else f"{self.url}{path}"
        shown = path.partition("?")[0]
        result: int | str = "canceled"
        try:
            async with self._client.stream(method, address, **options) as response:
                result = response.status_code
                yield response
        except (httpx.TransportError, httpx.InvalidURL, httpx.StreamError) as error:
            result = type(error).__name__
            raise EngineUnreachable(
                _reason_of(error),
                may_have_arrived=not isinstance(error, _NEVER_SENT),
                reason=type(error).__name__,
                path=shown,
            ) from error
        finally:
            # The time includes the body, which may take much longer than the headers.
            self._note(method, shown, result, started)

    async def save(self, path: str, target: Path, **options: Any) -> FetchedOutput:
        """Saves the body of a response as a file, piece by piece, and returns its checksum."""
        async with self.stream("GET", path, **options) as response:
            if response.status_code != 200:
                raise unreadable(response.status_code)
            return await save_body(response, target)

    def _note(self, method: str, path: str, result: int | str, started: float) -> None:
        is_bad = isinstance(result, str) or result >= 400
        (log.info if is_bad else log.debug)(
            "engine.call",
            method=method,
            path=path.partition("?")[0],
            result=result,
            milliseconds=round((time.perf_counter() - started) * 1000, 1),
        )


async def pause(attempt: int, base: float = 0.5, cap: float = 5.0) -> None:
    """Waits before the next attempt."""
    await asyncio.sleep(backoff_seconds(attempt, base, cap, _random))


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Raises EngineUnreachable if the calls take longer: a frozen engine accepts connections and responds to none."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise EngineUnreachable(STOPPED) from error


async def save_body(response: httpx.Response, target: Path) -> FetchedOutput:
    digest, size = hashlib.sha256(), 0
    with target.open("wb") as file:
        async for piece in response.aiter_bytes(PIECE):
            # This runs in a thread: hashing and writing a gigabyte would delay every heartbeat for seconds.
            await off_loop(len(piece), _keep, file.write, digest.update, piece)
            size += len(piece)
    return FetchedOutput(size, digest.hexdigest())


def unreadable(status: int) -> EngineError:
    # The engine refuses a name with two dots, and a removed file does not exist. A retry does not help in either case.
    return EngineError(
        "output_unreadable",
        f"The engine did not return its output (status {status}).",
        retryable=status >= 500,
        details={"status": status},
    )


def json_of(response: httpx.Response) -> object:
    """The body, or None. Python's parser accepts the bare NaN and Infinity that custom nodes produce."""
    try:
        body: object = response.json()
    except ValueError:
        return None
    return body


def _reason_of(error: Exception) -> str:
    if isinstance(error, _NEVER_SENT):
        return "The engine cannot be reached."
    return STOPPED if isinstance(error, httpx.TimeoutException) else "The connection to the engine was lost."


async def _read(response: httpx.Response) -> None:
    await response.aread()


def _keep(write: Any, update: Any, piece: bytes) -> None:
    write(piece)
    update(piece)
