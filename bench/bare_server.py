"""The baseline without Callsheet: the same framework on the same server, as a separate process.

`/bare` returns a small JSON object, `/select` returns one row found by an index. There is no edge and no
authentication. If its order has a payload, it also has the bare worker protocol.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from uuid import UUID

import uvloop
from fastapi import FastAPI
from pydantic import BaseModel

from bench.bare_protocol import add_protocol
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.http.server import HttpServer
from callsheet.settings import DatabaseSettings, ServerSettings

SELECT = "SELECT id, email, name, role FROM users WHERE id = $1"


class User(BaseModel):
    id: UUID
    email: str
    name: str
    role: str


def application(database: Database, user_id: UUID) -> FastAPI:
    app = FastAPI()
    response = User(id=user_id, email="somebody@example.com", name="Somebody", role="user")

    @app.get("/bare")
    async def bare() -> User:
        return response

    @app.get("/select")
    async def select() -> User:
        async with database.connection() as connection:
            row = await connection.fetchrow(SELECT, user_id)
        assert row is not None
        return User(**row)

    return app


async def _serve(dsn: str, user_id: UUID, port: int, payload: dict[str, Any] | None) -> None:
    database = Database("central", "central", dsn, DatabaseSettings())
    await database.open()
    app = application(database, user_id)
    if payload is not None:
        add_protocol(app, database, payload)
    server = HttpServer(app, ServerSettings(port=port))
    await server.start()
    print("ready", flush=True)
    # The parent closes our standard input when it is done with us, also when it is killed.
    await asyncio.to_thread(sys.stdin.read)
    await server.stop()
    await database.close()


def main() -> None:
    order = json.loads(sys.stdin.readline())
    uvloop.run(_serve(order["dsn"], UUID(order["user_id"]), order["port"], order["payload"]))


if __name__ == "__main__":
    main()
