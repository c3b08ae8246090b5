"""The WebSocket side: the connected clients, and the messages for each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

PREVIEW = 1
PREVIEW_WITH_METADATA = 4
IMAGE_TYPES = {"image/jpeg": 1, "image/png": 2}
# A listener that is this far behind does not read at all. Images are sent here too, so their bytes count as well.
MAX_WAITING = 20_000
MAX_WAITING_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class PreviewFrame:
    """An encoded image on its way to a listener."""

    image: bytes
    media_type: str
    metadata: Mapping[str, Any]

    def packed(self, with_metadata: bool) -> bytes:
        if not with_metadata:
            return struct.pack(">II", PREVIEW, IMAGE_TYPES[self.media_type]) + self.image
        metadata = json.dumps({**self.metadata, "image_type": self.media_type}).encode()
        return struct.pack(">II", PREVIEW_WITH_METADATA, len(metadata)) + metadata + self.image


@dataclass
class _Listener:
    socket: web.WebSocketResponse
    waiting: asyncio.Queue[str | bytes] = field(default_factory=lambda: asyncio.Queue(MAX_WAITING))
    waiting_bytes: int = 0
    wants_metadata: bool = False

    def put(self, message: str | bytes) -> None:
        if self.waiting.full() or self.waiting_bytes + len(message) > MAX_WAITING_BYTES:
            return
        self.waiting_bytes += len(message)
        self.waiting.put_nowait(message)

    async def send_waiting(self) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                message = await self.waiting.get()
                self.waiting_bytes -= len(message)
                await (self.socket.send_str(message) if isinstance(message, str) else self.socket.send_bytes(message))


class Sockets:
    """All methods run in the server's loop; `publish` from another thread by `call_soon_threadsafe`."""

    def __init__(self, features: Mapping[str, Any], all_listen: bool = False) -> None:
        self._features = features
        # Set by a message that is not JSON, for example if a node shows a number of numpy. ComfyUI's process ends then,
        # and so does this one (comfyui-api.md §8).
        self.broke = asyncio.Event()
        # Comfy Cloud ignores the client id: every socket of the account gets every message.
        self._all_listen = all_listen
        self._listeners: dict[str, _Listener] = {}
        self._open: set[web.WebSocketResponse] = set()

    async def listen(
        self, request: web.Request, status: Mapping[str, Any], current_node: Mapping[str, str]
    ) -> web.WebSocketResponse:
        """Serves one socket until it closes. `current_node`: the running node of each client id."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        client = request.query.get("clientId", "") or uuid.uuid4().hex
        if self._all_listen:
            client = uuid.uuid4().hex
        listener = self._listeners[client] = _Listener(socket)
        self._open.add(socket)
        sender = asyncio.create_task(listener.send_waiting())
        self.publish("status", {**status, "sid": client}, client)
        if client in current_node:
            self.publish("executing", {"node": current_node[client]}, client)
        try:
            await self._read(socket, listener)
        finally:
            sender.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sender
            self._open.discard(socket)
            # Removed by name, not by socket: a second socket of the same client goes silent when the first one closes.
            # ComfyUI does this, and an agent has to handle it.
            self._listeners.pop(client, None)
        return socket

    async def _read(self, socket: web.WebSocketResponse, listener: _Listener) -> None:
        first = True
        async for message in socket:
            if message.type == WSMsgType.TEXT and first:
                self._take_features(message.data, listener)
            first = False

    def _take_features(self, text: str, listener: _Listener) -> None:
        with contextlib.suppress(ValueError):
            message = json.loads(text)
            if isinstance(message, dict) and message.get("type") == "feature_flags":
                flags = message.get("data")
                listener.wants_metadata = isinstance(flags, dict) and bool(flags.get("supports_preview_metadata"))
                listener.put(json.dumps({"type": "feature_flags", "data": self._features}))

    def publish(self, event: str, data: Mapping[str, Any], client: str | None = None) -> None:
        """Sends a message to one client, or to all clients if none is given."""
        listeners = self._listeners_of(client)
        if not listeners or self.broke.is_set():
            return
        try:
            # Only if a client listens: the state of a long graph is a long message, and is sent once per node.
            message = json.dumps({"type": event, "data": data})
        except TypeError as error:
            log.error("message_is_no_json", type=event, reason=str(error))
            self.broke.set()
            return
        for listener in listeners:
            listener.put(message)

    def publish_preview(self, preview: PreviewFrame, client: str | None, with_metadata: bool) -> None:
        """Sends the preview to the clients that asked for metadata, or to those that did not."""
        for listener in self._listeners_of(client):
            if listener.wants_metadata is with_metadata:
                listener.put(preview.packed(with_metadata))

    def _listeners_of(self, client: str | None) -> list[_Listener]:
        if client is None or self._all_listen:
            return list(self._listeners.values())
        return [self._listeners[client]] if client in self._listeners else []

    async def close(self) -> None:
        await asyncio.gather(*(socket.close(code=1001, message=b"going away") for socket in list(self._open)))
