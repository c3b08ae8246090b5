"""Routers that are left out by the beginning of a path respond as the framework's own."""

from __future__ import annotations

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from callsheet.plumbing.http.routing import Router

REQUESTS = [
    ("GET", "/api/jobs"),
    ("GET", "/api/jobs/7"),
    ("GET", "/api/jobs/7/events"),
    ("GET", "/api/jobsandmore"),
    ("POST", "/api/jobs/7"),
    ("DELETE", "/api/wallet"),
    ("GET", "/api/wallet/"),
    ("GET", "/api"),
    ("GET", "/api/anything/at/all"),
    ("GET", "/elsewhere"),
    ("HEAD", "/raw/file"),
]


def application(kind: type[APIRouter]) -> FastAPI:
    app = FastAPI(redirect_slashes=False)
    jobs, wallet, files = kind(prefix="/api/jobs"), kind(), kind()

    @jobs.get("")
    async def every() -> str:
        return "every job"

    @jobs.get("/{job}")
    async def one(job: int) -> str:
        return f"job {job}"

    @wallet.get("/api/wallet")
    async def balance() -> str:
        return "balance"

    @wallet.get("/{rest:path}")
    async def rest(rest: str) -> str:
        return f"rest {rest}"

    async def raw(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.url.path)

    files.add_route("/raw/{name}", raw)
    for router in (jobs, files, wallet):
        app.include_router(router)
    return app


@pytest.mark.parametrize(("method", "path"), REQUESTS)
async def test_every_response_equals_that_of_the_framework(method: str, path: str) -> None:
    assert await response(Router, method, path) == await response(APIRouter, method, path)


async def response(kind: type[APIRouter], method: str, path: str) -> tuple[int, str]:
    transport = httpx.ASGITransport(application(kind))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        responded = await client.request(method, path)
    return responded.status_code, responded.text


def test_a_router_with_another_prefix_does_not_match_its_routes_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    router = Router(prefix="/api/jobs")
    router.add_api_route("/{job}", lambda job: job)
    monkeypatch.setattr(APIRouter, "matches", lambda *_: pytest.fail("looked"))
    assert router.matches({"type": "http", "method": "GET", "path": "/api/wallet"})[1] == {}
