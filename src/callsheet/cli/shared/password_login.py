"""Creates an API key for this machine from a password: only a browser session creates keys, so one is opened and
ended.
"""

from __future__ import annotations

import asyncio
import socket

from callsheet.client.requests import Requests
from callsheet.client.transport import Looped
from callsheet.wire.identity import CreatedKey, Me

MAX_NAME_LENGTH = 200


def key_for(url: str, email: str, password: str) -> str:
    return asyncio.run(_key_for(url, email, password))


async def _key_for(url: str, email: str, password: str) -> str:
    """Creates a key. Each request is sent once: a second login or key could exceed a limit."""
    name = f"callsheet login on {socket.gethostname()}"[:MAX_NAME_LENGTH]
    # The session cookie authenticates, and no key.
    transport = Looped(url, None)
    requests = Requests(url, transport, retry_seconds=0.0)
    try:
        me = await requests.ask(Me, "POST", "/api/auth/login", {"email": email, "password": password})
        transport.api.headers["x-csrf-token"] = me.csrf_token or ""
        try:
            return (await requests.ask(CreatedKey, "POST", "/api/keys", {"name": name})).key
        finally:
            await transport.api.post("/api/auth/logout")
    finally:
        await transport.close()
