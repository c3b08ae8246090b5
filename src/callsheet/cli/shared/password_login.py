"""Creates an API key for this machine from a password: only a browser session creates keys, so one is opened and
ended.
"""

from __future__ import annotations

import asyncio
import socket

from callsheet.cli.shared.client import Client
from callsheet.wire.identity import CreatedKey, Me

MAX_NAME_LENGTH = 200


def key_for(url: str, email: str, password: str) -> str:
    return asyncio.run(_key_for(url, email, password))


async def _key_for(url: str, email: str, password: str) -> str:
    async with SessionClient(url) as client:
        return await client.create_key(email, password, f"callsheet login on {socket.gethostname()}"[:MAX_NAME_LENGTH])


class SessionClient(Client):
    """A client that authenticates with a session cookie instead of a key."""

    def __init__(self, url: str):
        super().__init__(url, "")
        del self._http.headers["authorization"]

    async def create_key(self, email: str, password: str, name: str) -> str:
        """Creates a key. Each request is sent once: a second login or key could exceed a limit."""
        login = {"email": email, "password": password}
        me = await self._ask(Me, "POST", "/api/auth/login", login, attempts=1)
        self._http.headers["x-csrf-token"] = me.csrf_token or ""
        try:
            return (await self._ask(CreatedKey, "POST", "/api/keys", {"name": name}, attempts=1)).key
        finally:
            await self._http.post("/api/auth/logout")
