"""`/healthz`: the process runs. `/readyz`: it can serve requests. `/metrics`: metrics for Prometheus."""

from __future__ import annotations

import asyncio
import hmac
from typing import Literal

from fastapi import Header
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response

from callsheet import __version__
from callsheet.plumbing.database.databases import CENTRAL, Databases
from callsheet.plumbing.http.routing import Router
from callsheet.settings import ServerSettings
from callsheet.wire.base import ResponseModel
from callsheet.wire.errors import NotAuthenticated, Unavailable
from callsheet.wire.plurals import counted

# Signed URLs end too early or too late by as much, and storage services refuse requests at 15 minutes.
MAX_CLOCK_OFFSET_SECONDS = 60.0


class Liveness(ResponseModel):
    status: Literal["ok"] = "ok"
    version: str = __version__


class Readiness(ResponseModel):
    # Degraded: a pool is not available. Its tenants get 503, everything else works.
    status: Literal["ready", "degraded"]
    databases: dict[str, Literal["ok", "unavailable"]]


def health_router(
    databases: Databases, draining: asyncio.Event, registry: CollectorRegistry, settings: ServerSettings
) -> Router:
    """The routes. `draining` is set when the process stops: `/readyz` then fails, so that load balancers send
    nothing more.
    """
    router = Router(tags=["operations"])

    @router.get("/healthz")
    async def healthz() -> Liveness:
        """The process runs and responds."""
        return Liveness()

    @router.get("/readyz")
    async def readyz() -> Readiness:
        """Whether this process can serve: `ready`, or `degraded` while some pools are not available. 503 if central
        or every pool is not available, if this machine's clock is wrong, and while shutting down."""
        return await readiness(databases, draining)

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics(authorization: str | None = Header(None, include_in_schema=False)) -> Response:
        """Metrics for Prometheus. Requires the bearer token of server.metrics_token if that is set."""
        token = settings.metrics_token
        if token is not None:
            expected = f"Bearer {token.get_secret_value()}".encode()
            if not hmac.compare_digest((authorization or "").encode("utf-8", "replace"), expected):
                raise NotAuthenticated("/metrics requires the bearer token of server.metrics_token.")
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router


async def readiness(databases: Databases, draining: asyncio.Event) -> Readiness:
    """The readiness of this process, by the pulses of its databases: requests that wait for a lock or a connection do
    not matter. Raises Unavailable.
    """
    if draining.is_set():
        raise Unavailable("Shutting down.")
    checked = (databases.central, *databases.pools)
    responses = await asyncio.gather(*(database.is_fine() for database in checked))
    responded = {database.name: response for database, response in zip(checked, responses, strict=True)}
    # The alerts and the log show the reason to operators.
    pools = {name: responded.get(name, False) for name in (*responded, *databases.unavailable) if name != CENTRAL}
    if not responded[CENTRAL] or not any(pools.values()):
        missing = [name for name, is_there in {CENTRAL: responded[CENTRAL], **pools}.items() if not is_there]
        raise Unavailable(f"No server of these databases accepts writes: {', '.join(missing)}.")
    _require_right_clock(databases.central.pulse.clock_offset)
    return Readiness(
        status="ready" if all(pools.values()) else "degraded",
        databases={
            CENTRAL: "ok",
            **{name: "ok" if is_there else "unavailable" for name, is_there in pools.items()},
        },
    )


async def is_ready(databases: Databases, draining: asyncio.Event) -> bool:
    try:
        return (await readiness(databases, draining)).status == "ready"
    except Unavailable:
        return False


def _require_right_clock(offset: float) -> None:
    if abs(offset) > MAX_CLOCK_OFFSET_SECONDS:
        difference = counted(round(abs(offset)), "second")
        raise Unavailable(
            f"The clock of this machine is {difference} {'ahead of' if offset > 0 else 'behind'} the database's. Run a "
            "time service (chrony, systemd-timesyncd) on both."
        )
