"""Routes are built when they are used, not when a control plane starts."""

from __future__ import annotations

from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI, Query
from pydantic import BaseModel

from callsheet.plumbing.http.routing import DeferredRoute, Router


class Doubled(BaseModel):
    number: int


def application() -> tuple[FastAPI, DeferredRoute]:
    router = Router(prefix="/api", tags=["numbers"])

    @router.get("/doubled", status_code=203)
    async def doubled(number: Annotated[int, Query(ge=1)]) -> Doubled:
        """Twice the number."""
        return Doubled(number=2 * number)

    app = FastAPI()
    app.include_router(router)
    [route] = router.routes
    assert isinstance(route, DeferredRoute)
    return app, route


async def test_a_route_is_not_built_before_its_first_request_and_then_works_as_any_other():
    app, route = application()
    assert "dependant" not in vars(route)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        response = await client.get("/api/doubled", params={"number": 4})
        assert (response.status_code, response.json()) == (203, {"number": 8})
        assert (await client.get("/api/doubled", params={"number": 0})).status_code == 422
        assert (await client.post("/api/doubled")).status_code == 405


def test_the_document_describes_a_route_that_was_not_built():
    app, _ = application()
    operation = app.openapi()["paths"]["/api/doubled"]["get"]
    assert operation["tags"] == ["numbers"]
    assert operation["description"] == "Twice the number."
    assert operation["parameters"][0]["schema"]["minimum"] == 1
    assert operation["responses"]["203"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Doubled"
    }


def test_a_look_at_a_built_attribute_builds_the_route():
    _, route = application()
    assert (route.path, route.name, route.methods) == ("/api/doubled", "doubled", {"GET"})
    assert "dependant" not in vars(route)
    assert [parameter.name for parameter in route.dependant.query_params] == ["number"]
    assert route.response_model is Doubled


@pytest.mark.parametrize("is_built", [False, True])
def test_an_unknown_attribute_is_missing(is_built: bool):
    _, route = application()
    if is_built:
        assert route.dependant
    with pytest.raises(AttributeError, match="unknown"):
        _ = route.unknown
