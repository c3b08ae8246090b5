"""`/healthz`: the process lives. `/readyz`: it can serve. `/metrics`: for Prometheus."""

from __future__ import annotations

import asyncio
import hmac
from typing import Literal

from fastapi import APIRouter, Header
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response

from callsheet import __version__
from callsheet.plumbing.database import DATABASE_AWAY, Database
from callsheet.plumbing.databases import Databases
from callsheet.settings import ServerSettings
from callsheet.wire.base import Answer
from callsheet.wire.errors import NotAuthenticated, Unavailable

CHECK_SECONDS = 2.0


class Health(Answer):
    status: Literal["ok"] = "ok"
    version: str = __version__


class Readiness(Answer):
    status: Literal["ready"] = "ready"
    databases: dict[str, Literal["ok"]]


class Draining:
    """Set when the process was told to stop: load balancers should send nothing more."""

    def __init__(self) -> None:
        self.begun = False


def health_router(
    databases: Databases, draining: Draining, registry: CollectorRegistry, settings: ServerSettings
) -> APIRouter:
    router = APIRouter(tags=["operations"])

    @router.get("/healthz")
    async def healthz() -> Health:
        """The process runs and answers."""
        return Health()

    @router.get("/readyz")
    async def readyz() -> Readiness:
        """Every database answers; 503 otherwise, and while shutting down."""
        if draining.begun:
            raise Unavailable("Shutting down.")
        checked = (databases.central, *databases.pools)
        answers = await asyncio.gather(*(_answers(database) for database in checked))
        missing = [database.name for database, answered in zip(checked, answers, strict=True) if not answered]
        if missing:
            raise Unavailable(f"No answer from the database {', '.join(missing)}.")
        return Readiness(databases={database.name: "ok" for database in checked})

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics(authorization: str | None = Header(None, include_in_schema=False)) -> Response:
        """For Prometheus. Asks for the bearer token of server.metrics_token where that is set."""
        token = settings.metrics_token
        if token is not None:
            expected = f"Bearer {token.get_secret_value()}".encode()
            if not hmac.compare_digest((authorization or "").encode("utf-8", "replace"), expected):
                raise NotAuthenticated("/metrics asks for the bearer token of server.metrics_token.")
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router


async def _answers(database: Database) -> bool:
    try:
        async with asyncio.timeout(CHECK_SECONDS), database.connection() as connection:
            return await connection.fetchval("SELECT true") is True
    except DATABASE_AWAY:
        return False
