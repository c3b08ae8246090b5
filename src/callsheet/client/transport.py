"""How requests are sent: with or without an event loop. The rest of the client is written once, with `await`.

The coroutines of `Blocking` never wait for an event loop: each returns when its work is done. So `finished` and
`iterated` run for `Callsheet` the code that an event loop runs for `AsyncCallsheet`, without a loop or a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import httpx

from callsheet.client.errors import ClientError
from callsheet.toolbox.http.certificates import certificates
from callsheet.toolbox.http.redirects import refuse_unsafe_redirect, refuse_unsafe_redirect_now

Value = TypeVar("Value")
Item = TypeVar("Item")
# Starts a piece of work that others are done beside.
Work: TypeAlias = Callable[[], Coroutine[Any, Any, Value]]
# Called with the bytes so far and the size of the whole.
Counted = Callable[[int, int], object]

PIECE = 262_144
SECONDS = httpx.Timeout(60.0, connect=10.0)


class Transport(Protocol):
    """`api` sends the key; `storage` follows redirects of signed URLs and must not send it."""

    @property
    def api(self) -> httpx.Client | httpx.AsyncClient: ...

    @property
    def storage(self) -> httpx.Client | httpx.AsyncClient: ...

    async def send(
        self, request: httpx.Request, *, is_stored: bool = False, stream: bool = False
    ) -> httpx.Response: ...

    async def read(self, response: httpx.Response) -> bytes: ...

    async def leave(self, response: httpx.Response) -> None: ...

    def lines(self, response: httpx.Response) -> AsyncIterator[str]: ...

    def pieces(self, response: httpx.Response) -> AsyncIterator[bytes]: ...

    def body(self, path: Path, start: int, size: int, counted: Counted) -> Any: ...

    def together(self, works: Sequence[Work[Value]], at_once: int) -> AsyncIterator[Value]: ...

    async def work(self, function: Callable[..., Value], *arguments: Any) -> Value: ...

    async def sleep(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


def _options(key: str | None, on_behalf_of: str | None = None) -> dict[str, Any]:
    headers = {"user-agent": "callsheet", **({"authorization": f"Bearer {key}"} if key else {})}
    if on_behalf_of is not None:
        if not on_behalf_of.isascii() or not on_behalf_of.isprintable():
            raise ClientError("on_behalf_of can have printable ASCII characters only. Name the user by its id.")
        headers["callsheet-on-behalf-of"] = on_behalf_of
    return {"headers": headers, "timeout": SECONDS, "trust_env": False, "verify": certificates()}


class Blocking:
    """Waits in the calling thread."""

    def __init__(self, url: str, key: str | None, on_behalf_of: str | None = None):
        self.api = httpx.Client(base_url=url, **_options(key, on_behalf_of))
        hooks: dict[str, list[Callable[..., Any]]] = {"response": [refuse_unsafe_redirect_now]}
        self.storage = httpx.Client(follow_redirects=True, event_hooks=hooks, **_options(None))

    async def send(self, request: httpx.Request, *, is_stored: bool = False, stream: bool = False) -> httpx.Response:
        return (self.storage if is_stored else self.api).send(request, stream=stream)

    async def read(self, response: httpx.Response) -> bytes:
        return response.read()

    async def leave(self, response: httpx.Response) -> None:
        response.close()

    async def lines(self, response: httpx.Response) -> AsyncIterator[str]:
        for line in response.iter_lines():
            yield line

    async def pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        for piece in response.iter_bytes(PIECE):
            yield piece

    def body(self, path: Path, start: int, size: int, counted: Counted) -> Iterator[bytes]:
        sent = 0
        with path.open("rb") as file:
            file.seek(start)
            while piece := file.read(min(PIECE, size - sent)):
                yield piece
                sent += len(piece)
                counted(sent, size)

    async def together(self, works: Sequence[Work[Value]], at_once: int) -> AsyncIterator[Value]:
        """In threads. The calling thread gets the results, so callbacks run in it."""
        threads = ThreadPoolExecutor(at_once, thread_name_prefix="callsheet")
        try:
            for ended in as_completed([threads.submit(lambda work=work: finished(work())) for work in works]):  # type: ignore[misc]
                yield ended.result()
        finally:
            threads.shutdown(cancel_futures=True)

    async def work(self, function: Callable[..., Value], *arguments: Any) -> Value:
        return function(*arguments)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 (there is no event loop)

    async def close(self) -> None:
        self.api.close()
        self.storage.close()


class Looped:
    """Waits in the event loop."""

    def __init__(self, url: str, key: str | None, on_behalf_of: str | None = None):
        self.api = httpx.AsyncClient(base_url=url, **_options(key, on_behalf_of))
        hooks: dict[str, list[Callable[..., Any]]] = {"response": [refuse_unsafe_redirect]}
        self.storage = httpx.AsyncClient(follow_redirects=True, event_hooks=hooks, **_options(None))

    async def send(self, request: httpx.Request, *, is_stored: bool = False, stream: bool = False) -> httpx.Response:
        return await (self.storage if is_stored else self.api).send(request, stream=stream)

    async def read(self, response: httpx.Response) -> bytes:
        return await response.aread()

    async def leave(self, response: httpx.Response) -> None:
        await response.aclose()

    def lines(self, response: httpx.Response) -> AsyncIterator[str]:
        return response.aiter_lines()

    def pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        return response.aiter_bytes(PIECE)

    async def body(self, path: Path, start: int, size: int, counted: Counted) -> AsyncIterator[bytes]:
        sent = 0
        with path.open("rb") as file:
            file.seek(start)
            while piece := await asyncio.to_thread(file.read, min(PIECE, size - sent)):
                yield piece
                sent += len(piece)
                counted(sent, size)

    async def together(self, works: Sequence[Work[Value]], at_once: int) -> AsyncIterator[Value]:
        places = asyncio.Semaphore(at_once)

        async def in_turn(work: Work[Value]) -> Value:
            async with places:
                return await work()

        tasks = [asyncio.create_task(in_turn(work)) for work in works]
        try:
            for ended in asyncio.as_completed(tasks):
                yield await ended
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def work(self, function: Callable[..., Value], *arguments: Any) -> Value:
        return await asyncio.to_thread(function, *arguments)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self.api.aclose()
        await self.storage.aclose()


def finished(work: Coroutine[Any, Any, Value]) -> Value:
    """The result of a coroutine that waits only for coroutines of `Blocking`."""
    try:
        work.send(None)
    except StopIteration as end:
        result: Value = end.value
        return result
    work.close()
    raise RuntimeError("the coroutine waits for an event loop")


def iterated(items: AsyncGenerator[Item, None]) -> Iterator[Item]:
    try:
        while True:
            try:
                item = finished(_next(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        finished(_closed(items))


async def _next(items: AsyncGenerator[Item, None]) -> Item:
    return await anext(items)


async def _closed(items: AsyncGenerator[Item, None]) -> None:
    await items.aclose()
