"""A reader of server-sent events: enough for tests to see what a browser would see."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.http.accounts import Person
from tests.support.waiting import PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class Event:
    # The number of the event. None for messages without a position in the stream: progress and previews.
    id: int | None
    name: str
    data: dict[str, Any]
    # The whole id, to resume after this event.
    position: str = ""

    @property
    def to_status(self) -> str:
        return str(self.data["to_status"])


class EventStream:
    def __init__(self, response: httpx.Response, *, with_wallet: bool = False):
        self.response = response
        self._with_wallet = with_wallet
        self._lines = response.aiter_lines()

    async def next(self, count: int, seconds: float = PATIENCE_SECONDS) -> list[Event]:
        """The next events; fewer if the stream ends before."""
        found: list[Event] = []
        async with asyncio.timeout(seconds):
            while len(found) < count and (event := await self._event()) is not None:
                found.append(event)
        return found

    async def rest(self) -> list[Event]:
        return await self.next(1_000_000)

    async def comment(self, text: str) -> None:
        """Reads on until the server has sent this comment."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for line in self._lines:
                if line == f": {text}":
                    return
        raise AssertionError(f"the stream ended without saying {text!r}")

    async def _event(self) -> Event | None:
        """The next event; None at the end."""
        fields: dict[str, str] = {}
        async for line in self._lines:
            name, _, value = line.partition(": ")
            if name:
                fields[name] = value
            elif not line and fields.get("event") == "wallet" and not self._with_wallet:
                # The wallet event comes at the start and with every job, and most tests are about jobs, so it is
                # skipped.
                fields = {}
            elif not line and fields:
                position = fields.get("id", "")
                number = int(position.partition("-")[0]) if position else None
                return Event(number, fields["event"], json.loads(fields["data"]), position)
        return None


@asynccontextmanager
async def opened(
    client: httpx.AsyncClient,
    person: Person,
    path: str,
    last_event_id: int | str | None = None,
    *,
    with_wallet: bool = False,
) -> AsyncIterator[EventStream]:
    headers = person.headers | ({"last-event-id": str(last_event_id)} if last_event_id is not None else {})
    async with client.stream("GET", path, headers=headers) as response:
        yield EventStream(response, with_wallet=with_wallet)
