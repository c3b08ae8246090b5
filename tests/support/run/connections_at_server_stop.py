"""Handles connections that are accepted at the moment when their server stops.

asyncio loses them (python/cpython#109564): such a connection is never closed, its client waits forever, and the garbage
collector finds it in another test as an unclosed connection. This sometimes happens when an engine is killed while a
client polls it.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def late_connections_closed() -> Iterator[None]:
    accept = BaseSelectorEventLoop._accept_connection2  # type: ignore[attr-defined]

    async def accept_unless_late(
        loop: Any,
        factory: Any,
        connection: socket.socket,
        extra: Any,
        context: Any = None,
        server: asyncio.Server | None = None,
        *more: Any,
        **options: Any,
    ) -> None:
        if server is not None and not server.sockets:
            connection.close()
        else:
            await accept(loop, factory, connection, extra, context, server, *more, **options)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(BaseSelectorEventLoop, "_accept_connection2", accept_unless_late)
        yield
