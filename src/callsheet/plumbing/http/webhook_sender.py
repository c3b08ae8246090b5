"""Sends signed webhooks: the only sender, for alerts and for events of jobs.

The headers and the signature follow Standard Webhooks 1.0 (https://www.standardwebhooks.com), so that a receiver
verifies them with a library that it finds for its language.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from callsheet.toolbox.http.addresses import Network
from callsheet.toolbox.http.connect import OutgoingError, Resolver
from callsheet.toolbox.webhook_signatures import key_of, signature_of

if TYPE_CHECKING:
    from callsheet.plumbing.http.guarded_posts import GuardedPosts

# What is kept of a response; nothing after it is read.
MAX_RESPONSE_BYTES = 4096
HEADERS = {"user-agent": "callsheet", "content-type": "application/json", "accept-encoding": "identity"}


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

    def __init__(
        self,
        *,
        allow_networks: Iterable[Network],
        timeout_seconds: float,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ):
        self._allow_networks = tuple(allow_networks)
        self._timeout_seconds = timeout_seconds
        self._resolver = resolver
        self._ssl_context = ssl_context
        self._opened: GuardedPosts | None = None

    async def send(self, message: WebhookMessage) -> WebhookResponse:
        timestamp = str(int(time.time()))
        headers = {"webhook-id": message.id, "webhook-timestamp": timestamp}
        if message.secrets:
            headers["webhook-signature"] = " ".join(
                signature_of(key_of(secret), message.id, timestamp, message.body) for secret in message.secrets
            )
        started, status, error, received = time.monotonic(), None, None, bytearray()
        try:
            async with self._posts().post(message.url, headers, message.body) as response:
                status = response.status
                async for piece in response.content.iter_any():
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

    def _posts(self) -> GuardedPosts:
        if self._opened is None:
            # The import takes 160 ms and 9 MB, which a control plane without webhooks saves.
            from callsheet.plumbing.http.guarded_posts import GuardedPosts

            self._opened = GuardedPosts(
                headers=HEADERS,
                allow_networks=self._allow_networks,
                timeout_seconds=self._timeout_seconds,
                resolver=self._resolver,
                ssl_context=self._ssl_context,
            )
        return self._opened

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
