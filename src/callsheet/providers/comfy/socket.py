"""The one socket to an engine. It stays open over all runs, and is reopened when it is lost.

There is one socket per client id: ComfyUI drops a second socket of the same id from its table when the first closes,
and the second then stays open and silent. That happens if a network lost the first socket and ComfyUI did not notice.
Therefore the follower of a run also polls over HTTP, and reopens a silent socket.
"""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import urlsplit

import websockets
from websockets.asyncio.client import ClientConnection, connect

from callsheet.providers.comfy.run_messages import Following
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.outages import backoff_seconds

log = get_logger(__name__)

PREVIEW, PREVIEW_WITH_METADATA = 1, 4
_IMAGES = {1: "image/jpeg", 2: "image/png"}
# Maximum size of a preview: a large image as PNG.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
FLAGS = json.dumps({"type": "feature_flags", "data": {"supports_preview_metadata": True}})
OPEN_SECONDS = 5.0
# Limits of messages that are kept for runs whose submission has no response yet. A run with more messages has missed
# some.
MAX_UNCLAIMED = 2000
MAX_UNCLAIMED_BYTES = 33_554_432


class EngineSocket:
    def __init__(self, address: str, random: Random | None = None):
        # The URL may contain an API key, so it is never logged.
        self._address = address
        self._random = random or Random()  # noqa: S311 (jitter)
        self._runs: dict[str, Following] = {}
        self._collecting = 0
        self._unclaimed: list[tuple[str, str | bytes]] = []
        self._unclaimed_bytes = 0
        self._current: str | None = None
        # When the socket last reported about any run. The engine sends other messages without working.
        self.last_sign = 0.0
        self._opened_at = self._heard_at = 0.0
        self._socket: ClientConnection | None = None
        self._connected = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def following(self, following: Following) -> Iterator[None]:
        self._runs[following.run.id] = following
        following.missed = following.missed or self._unclaimed_bytes > MAX_UNCLAIMED_BYTES
        for run_id, message in list(self._unclaimed):
            if run_id == following.run.id:
                self._heard(message)
        try:
            yield
        finally:
            self._runs.pop(following.run.id, None)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collects messages while an engine is asked for a run whose id it chooses. The follower of the run gets the
        earlier messages after the response.
        """
        self._collecting += 1
        try:
            yield
        finally:
            self._collecting -= 1
            if not self._collecting:
                self._unclaimed.clear()
                self._unclaimed_bytes = 0

    def follows_any(self, run_ids: Iterable[str]) -> bool:
        return any(run_id in self._runs for run_id in run_ids)

    async def ready(self, seconds: float = OPEN_SECONDS) -> bool:
        """Opens the socket the first time. Returns whether it is open. A run can continue without it."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep_open())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._connected.wait()
        return self._connected.is_set()

    @property
    def carries_images(self) -> bool:
        """Whether images come over the socket that are not stored elsewhere and would be lost with it."""
        return any(each.sends_images for each in self._runs.values())

    def is_settled(self, seconds: float) -> bool:
        """Whether the socket has been open long enough to receive the message with the current node."""
        return self._connected.is_set() and time.monotonic() - self._opened_at >= seconds

    def is_silent(self, since: float) -> bool:
        """Whether the socket is open, but got no message, not even about a change of the queue: the engine has
        forgotten it.
        """
        return self._connected.is_set() and self._heard_at < since

    async def wait_for_last_messages(self, following: Following, seconds: float) -> None:
        """Waits for the last messages of a run whose end was seen elsewhere, until none came for this many seconds.

        On a busy machine the history entry exists before the messages are read: a graph of 200 nodes sends 8 MB. The
        messages contain the times of each node, and may contain images.
        """
        while not following.has_heard_end and not following.missed and not self.is_silent(following.since):
            last_sign = following.last_sign
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await following.over.wait()
            if following.last_sign == last_sign:
                return

    async def reopen(self) -> None:
        """Reopens the socket. It is closed first: of two open sockets the engine forgets the second."""
        if self._socket is not None:
            log.info("engine.socket_reopened")
            await self._socket.close()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _keep_open(self) -> None:
        failures = 0
        while True:
            try:
                # This side sends pings, because ComfyUI sends none. A render that blocks its interpreter may respond
                # late.
                async with connect(
                    self._address,
                    open_timeout=OPEN_SECONDS,
                    ping_interval=20,
                    ping_timeout=60,
                    close_timeout=1,
                    max_size=MAX_MESSAGE_BYTES,
                    proxy=None,
                ) as socket:
                    failures = 0
                    await self._read(socket)
            except (OSError, TimeoutError, websockets.WebSocketException) as error:
                log.debug("engine.socket_lost", reason=type(error).__name__)
            finally:
                self._socket = None
                self._connected.clear()
                for following in self._runs.values():
                    following.missed = True
            failures += 1
            await asyncio.sleep(backoff_seconds(failures, 0.2, 5.0, self._random))

    async def _read(self, socket: ClientConnection) -> None:
        await socket.send(FLAGS)
        self._socket, self._opened_at = socket, time.monotonic()
        self._connected.set()
        async for message in socket:
            self._heard_at = time.monotonic()
            self._heard(message)

    def _heard(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            self._image(message)
        else:
            self._message(message)

    def _unclaim(self, run_id: str, message: str | bytes) -> None:
        if not self._collecting:
            return
        self._unclaimed_bytes += len(message)
        if len(self._unclaimed) < MAX_UNCLAIMED and self._unclaimed_bytes <= MAX_UNCLAIMED_BYTES:
            self._unclaimed.append((run_id, message))
        else:
            self._unclaimed_bytes = MAX_UNCLAIMED_BYTES + 1

    def _message(self, text: str) -> None:
        try:
            message: Any = json.loads(text)
        except ValueError:
            return
        data = message.get("data") if isinstance(message, dict) else None
        if not isinstance(data, dict):
            return
        run_id = data.get("prompt_id")
        if message.get("type") == "executing" and run_id is not None:
            self._current = str(run_id)
        if message.get("type") == "executing" and run_id is None and data.get("node") is not None:
            self._shown_at(str(data["node"]))
        if run_id is not None:
            self.last_sign = time.monotonic()
        following = self._runs.get(str(run_id))
        if following is not None:
            following.receive(str(message.get("type")), data)
        elif run_id is not None:
            self._unclaim(str(run_id), text)

    def _shown_at(self, node: str) -> None:
        """Handles a message after a reconnect that does not name its run. For a waiting run it means nothing, and
        the start of that run corrects it.
        """
        for following in self._runs.values():
            following.shown_at(node)

    def _image(self, message: bytes) -> None:
        found = image_in(message)
        if found is None:
            return
        run_id = found.run_id or self._current or ""
        following = self._runs.get(run_id)
        if following is not None:
            following.previewed(found.mime_type, found.content, found.node_id)
        else:
            self._unclaim(run_id, message)


@dataclass(frozen=True, slots=True)
class PreviewImage:
    """An image from the socket. Older engines do not name its run."""

    mime_type: str
    content: bytes
    run_id: str | None = None
    node_id: str | None = None


def image_in(message: bytes) -> PreviewImage | None:
    if len(message) < 8:
        return None
    event, number = struct.unpack(">II", message[:8])
    if event == PREVIEW and number in _IMAGES:
        return PreviewImage(_IMAGES[number], message[8:])
    if event != PREVIEW_WITH_METADATA or len(message) < 8 + number:
        return None
    try:
        metadata = json.loads(message[8 : 8 + number])
    except ValueError:
        return None
    if not isinstance(metadata, dict):
        return None
    run_id, node_id = (str(metadata[name]) if metadata.get(name) else None for name in ("prompt_id", "node_id"))
    return PreviewImage(str(metadata.get("image_type") or "image/jpeg"), message[8 + number :], run_id, node_id)


def socket_address(url: str) -> str:
    parts = urlsplit(url)
    return f"{'wss' if parts.scheme == 'https' else 'ws'}://{parts.netloc}{parts.path.rstrip('/')}"
