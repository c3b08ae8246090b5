"""Sends signed webhooks: the only sender, for alerts and for events of jobs.

The headers and the signature follow Standard Webhooks 1.0 (https://www.standardwebhooks.com), so that a receiver
verifies them with a library that it finds for its language.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from callsheet.toolbox.http.addresses import Network
from callsheet.toolbox.http.client import GuardedClient, OutgoingError
from callsheet.toolbox.http.connect import ThreadResolver
from callsheet.toolbox.webhook_signatures import key_of, signature_of

# What is kept of a response, and the largest one that is received.
MAX_RESPONSE_BYTES, MAX_RECEIVED_BYTES = 4096, 1_048_576
# Connections to one URL. Each URL has a client of its own: a request looks at all connections of its client, and that
# took most of the processor's time when a hundred endpoints shared one.
CONNECTIONS, MAX_CLIENTS = 8, 500


class WebhookMessage(NamedTuple):
    """`id` stays the same when a message is sent again, so that the receiver recognizes it."""

    url: str
    id: str
    body: bytes
    # During a rotation there are two, and the receiver accepts the signature of either.
    secrets: Sequence[str]


class WebhookResponse(NamedTuple):
    """What became of a request. Without a status there was no response, and `error` says why."""

    status: int | None
    text: str
    error: str | None
    milliseconds: int

    @property
    def is_accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class WebhookSender:
    """Sends one message per call. It follows no redirect and connects only to networks that it may reach."""

    def __init__(self, *, allow_networks: Iterable[Network], timeout_seconds: float):
        self._allow_networks = tuple(allow_networks)
        self._timeout_seconds = timeout_seconds
        self._resolver = ThreadResolver()
        # By URL; the one that was used last is the last one.
        self._clients: dict[str, GuardedClient] = {}
        self._in_use: Counter[str] = Counter()

    async def send(self, message: WebhookMessage) -> WebhookResponse:
        client = self._client_of(message.url)
        self._in_use[message.url] += 1
        try:
            return await self._send(client, message)
        finally:
            self._in_use[message.url] -= 1
            await self._close_unused()

    def _client_of(self, url: str) -> GuardedClient:
        client = self._clients.pop(url, None) or GuardedClient(
            allow_networks=self._allow_networks,
            timeout_seconds=self._timeout_seconds,
            max_bytes=MAX_RECEIVED_BYTES,
            follow_redirects=False,
            resolver=self._resolver,
            max_connections=CONNECTIONS,
            max_idle_connections=CONNECTIONS,
        )
        self._clients[url] = client
        return client

    async def _close_unused(self) -> None:
        if len(self._clients) > MAX_CLIENTS:
            oldest = next((url for url in self._clients if not self._in_use[url]), None)
            if oldest is not None:
                del self._in_use[oldest]
                await self._clients.pop(oldest).aclose()

    async def _send(self, client: GuardedClient, message: WebhookMessage) -> WebhookResponse:
        timestamp = int(time.time())
        headers = {"content-type": "application/json", "webhook-id": message.id, "webhook-timestamp": str(timestamp)}
        if message.secrets:
            headers["webhook-signature"] = " ".join(
                signature_of(key_of(secret), message.id, str(timestamp), message.body) for secret in message.secrets
            )
        started, status, error, received = time.monotonic(), None, None, bytearray()
        try:
            async with client.stream("POST", message.url, headers=headers, content=message.body) as response:
                status = response.status
                async for piece in response:
                    received += piece
                    if len(received) >= MAX_RESPONSE_BYTES:
                        break
        except OutgoingError as reason:
            # With a status the receiver has decided, and only the text of its response is incomplete.
            error = str(reason) if status is None else None
        if status is not None and not 200 <= status < 300:
            error = f"The endpoint returned {status}. It must return a status from 200 to 299."
        text = bytes(received[:MAX_RESPONSE_BYTES]).decode("utf-8", "replace").replace("\0", "\ufffd")
        return WebhookResponse(status, text, error, round((time.monotonic() - started) * 1000))

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        self._resolver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
