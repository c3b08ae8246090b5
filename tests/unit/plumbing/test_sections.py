"""Each section of the URLs is an application of its own, built for its first request, and responds as one application
with all routes would."""

from __future__ import annotations

from typing import Annotated

import httpx
import pytest
from fastapi import Query
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from callsheet.plumbing.http import routing
from callsheet.plumbing.http.api_document import ApiDocument
from callsheet.plumbing.http.problems import no_such_path
from callsheet.plumbing.http.routing import DeclaredRoute, MountedFiles, Router, Sections, build, section_of

REQUESTS = [
    ("GET", "/"),
    ("GET", "/api/jobs"),
    ("GET", "/api/jobs/7"),
    ("GET", "/api/jobs/seven"),
    ("GET", "/api/jobs/7/"),
    ("GET", "/api/jobs/7/events"),
    ("GET", "/api/jobs/finished"),
    ("PUT", "/api/jobs/finished"),
    ("GET", "/api/jobsandmore"),
    ("POST", "/api/jobs/7"),
    ("DELETE", "/api/wallet"),
    ("GET", "/api/wallet/"),
    ("GET", "/api"),
    ("GET", "/api/admin"),
    ("GET", "/api/admin/users"),
    ("GET", "/api/admin/users/7"),
    ("GET", "/api/admin/users/7/keys"),
    ("GET", "/elsewhere"),
    ("GET", "/raw/deep/file"),
    ("HEAD", "/raw/file"),
]


class Doubled(BaseModel):
    number: int


def declared() -> list[DeclaredRoute | MountedFiles]:
    front, jobs, users, wallet = Router(), Router(prefix="/api/jobs"), Router(prefix="/api/admin/users"), Router()

    @front.get("/")
    async def page() -> str:
        return "front page"

    @jobs.get("")
    async def every() -> str:
        return "every job"

    @jobs.get("/finished")
    async def finished() -> str:
        return "finished jobs"

    @jobs.get("/{job}")
    async def one(job: int) -> str:
        return f"job {job}"

    @jobs.put("/{job}")
    async def change(job: str) -> str:
        return f"changed {job}"

    @users.get("/{user}")
    async def user(user: int) -> str:
        return f"user {user}"

    @wallet.get("/api/wallet")
    async def balance() -> str:
        return "balance"

    async def raw(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.url.path)

    front.mount("/raw/deep", Starlette(routes=[Route("/file", raw)]))
    front.head("/raw/{name}")(raw)
    return [*front.routes, *jobs.routes, *users.routes, *wallet.routes]


@pytest.mark.parametrize(("method", "path"), REQUESTS)
async def test_every_response_equals_that_of_one_application(method: str, path: str) -> None:
    apart = await response(Sections(declared(), {}, no_such_path), method, path)
    together = await response(build(declared()), method, path)
    assert (apart.status_code, apart.text) == (together.status_code, together.text)
    assert apart.headers.get("allow") == together.headers.get("allow")


async def response(app: ASGIApp, method: str, path: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        return await client.request(method, path)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The paths of each application that was built."""
    found: list[list[str]] = []

    def recording(routes: tuple[DeclaredRoute, ...], *others: object, keeper: object) -> ASGIApp:
        found.append([route.path for route in routes])
        return build(routes)

    monkeypatch.setattr(routing, "build", recording)
    return found


async def test_only_the_section_of_a_request_is_built_and_only_once(built: list[list[str]]) -> None:
    app = Sections(declared(), {}, no_such_path)
    assert built == []
    for _ in range(2):
        assert (await response(app, "GET", "/api/admin/users/7")).text == '"user 7"'
        assert (await response(app, "GET", "/api/admin/others/7")).status_code == 404
    assert built == [["/api/admin/users/{user}"]]


async def test_a_section_with_an_application_of_its_own_is_only_documented_by_its_routes(
    built: list[list[str]],
) -> None:
    own = Starlette(routes=[Route("/api/wallet", lambda _: PlainTextResponse("by hand"))])
    app = Sections(declared(), {"/api/wallet": own}, no_such_path)
    assert (await response(app, "GET", "/api/wallet")).text == "by hand"
    assert built == []
    assert "/api/wallet" in ApiDocument(declared()).content()["paths"]


async def test_paths_without_a_route_get_one_response_in_and_outside_of_sections() -> None:
    def unknown(request: Request) -> Response:
        return PlainTextResponse(f"nothing at {request.url.path}", 404)

    app = Sections(declared(), {}, unknown)
    for path in ("/elsewhere", "/api/jobs/7/events"):
        assert (await response(app, "GET", path)).text == f"nothing at {path}"


def test_a_route_with_a_parameter_in_its_section_is_refused() -> None:
    router = Router()
    router.get("/api/{kind}/all")(lambda kind: kind)
    with pytest.raises(ValueError, match=r"The section of /api/\{kind\}/all must be fixed"):
        Sections(router.routes, {}, no_such_path)


@pytest.mark.parametrize(
    ("path", "section"),
    [
        ("/", "/"),
        ("/healthz", "/healthz"),
        ("/storage/a/b/c/d/e", "/storage"),
        ("/api", "/api"),
        ("/api/jobs/7/events/8/9", "/api/jobs"),
        ("/api/admin", "/api/admin"),
        ("/api/admin/users/7/keys", "/api/admin/users"),
        ("/apiary/admin/users", "/apiary"),
        ("*", "*"),
    ],
)
def test_the_section_is_the_beginning_of_the_path(path: str, section: str) -> None:
    assert section_of(path) == section


async def test_a_declared_route_is_served_and_documented_with_all_of_its_options() -> None:
    router = Router(prefix="/api", tags=["numbers"])

    @router.get("/doubled", status_code=203)
    async def doubled(number: Annotated[int, Query(ge=1)]) -> Doubled:
        """Twice the number."""
        return Doubled(number=2 * number)

    app = build(router.routes)
    returned = await response(app, "GET", "/api/doubled?number=4")
    assert (returned.status_code, returned.json()) == (203, {"number": 8})
    assert (await response(app, "GET", "/api/doubled?number=0")).status_code == 422
    operation = ApiDocument(router.routes).content()["paths"]["/api/doubled"]["get"]
    assert operation["tags"] == ["numbers"]
    assert operation["description"] == "Twice the number."
    assert operation["parameters"][0]["schema"]["minimum"] == 1
    assert operation["responses"]["203"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Doubled"
    }


def test_routes_of_a_hidden_router_are_not_documented() -> None:
    hidden = Router(include_in_schema=False)
    hidden.get("/page")(lambda: "page")
    shown = Router()
    shown.get("/other", include_in_schema=False)(lambda: "page")
    shown.get("/third")(lambda: "page")
    assert list(ApiDocument([*hidden.routes, *shown.routes]).content()["paths"]) == ["/third"]
