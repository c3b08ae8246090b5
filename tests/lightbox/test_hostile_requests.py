"""For any request of a client, the engine responds and continues to render."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callsheet_lightbox.api.responses import LEFT, troubles
from callsheet_lightbox.folders import Folders
from callsheet_lightbox.graph import Schedule, needed_nodes, signatures
from callsheet_lightbox.nodes import build_registry
from callsheet_lightbox.server import RunningLightbox
from callsheet_lightbox.validation import validate_prompt
from tests.support.comfyui.graphs import node
from tests.support.comfyui.lightbox import idle, render

REGISTRY = build_registry()
ODD = [None, True, 0, -1, 1e400, "", "x", [], {}, [[]], {"a": {}}, "\ud800", "\0", "a" * 10_000, {"prompt": {"1": 5}}]
ROUTES = ["/prompt", "/queue", "/interrupt", "/history", "/free", "/upload/image", "/upload/mask", "/api/prompt"]


def plain() -> dict[str, Any]:
    return {
        "1": node("EmptyImage", width=8, height=8, batch_size=1, color=1),
        "2": node("SaveImage", images=["1", 0], filename_prefix="still"),
    }


async def test_a_client_disconnect_during_an_upload_is_not_a_server_error() -> None:
    async def upload(request: web.Request) -> web.StreamResponse:
        raise ConnectionResetError("Connection lost")

    request = make_mocked_request("POST", "/upload/image")
    assert (await troubles(request, upload)).status == LEFT


@pytest.mark.few_forms
@pytest.mark.parametrize("route", ROUTES)
async def test_unusual_bodies_get_a_response(route: str, lightbox_client: httpx.AsyncClient) -> None:
    keys = ("prompt", "client_id", "prompt_id", "extra_data", "number", "front", "partial_execution_targets")
    bodies = [*ODD, *({"prompt": plain(), key: value} for key in keys for value in ODD)]
    bodies += [{"delete": value} for value in ODD]
    for body in bodies:
        response = await lightbox_client.post(route, content=json.dumps(body))
        assert response.status_code in (200, 400, 500)
    for content in (b"", b"{", b"\xff\xfe", b"[" * 100_000):
        assert (await lightbox_client.post(route, content=content)).status_code in (200, 400, 500)
    await idle(lightbox_client)
    await lightbox_client.post("/history", json={"clear": True})
    assert (await render(lightbox_client, plain()))["status"]["status_str"] == "success"


async def test_unusual_inputs_at_most_fail_the_run(
    lightbox_client: httpx.AsyncClient, lightbox_engine: RunningLightbox
) -> None:
    for value in ODD:
        for name in ("images", "filename_prefix"):
            graph = plain()
            graph["2"]["inputs"][name] = value
            assert (await lightbox_client.post("/prompt", content=json.dumps({"prompt": graph}))).status_code in (
                200,
                400,
            )
        loads = {"1": node("LoadImage", image=value), "2": plain()["2"]}
        assert (await lightbox_client.post("/prompt", content=json.dumps({"prompt": loads}))).status_code in (200, 400)
    await idle(lightbox_client)
    assert (await render(lightbox_client, plain(), client_id="c"))["status"]["status_str"] == "success"
    assert not [each for each in lightbox_engine.folders.output.rglob("*") if each.name.endswith(".part")]


async def test_unusual_queries_get_a_response(lightbox_client: httpx.AsyncClient) -> None:
    for value in ("", "..", "/", "%00", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "x" * 5000):
        for key in ("filename", "subfolder", "type", "preview", "channel"):
            response = await lightbox_client.get("/view", params={"filename": "still_00001_.png", key: value})
            assert response.status_code < 600
        assert (await lightbox_client.get("/history", params={"max_items": value})).status_code in (200, 500)
        assert (await lightbox_client.get("/api/jobs", params={"limit": value, "sort_by": value})).status_code in (
            200,
            400,
        )
    assert (await render(lightbox_client, plain(), client_id="c"))["status"]["status_str"] == "success"


names = st.sampled_from(["EmptyImage", "ImageInvert", "ImageBlend", "SaveImage", "PreviewAny", "CreateVideo", "Nope"])
ids = st.sampled_from(["1", "2", "3", "4"])
links = st.tuples(ids, st.integers(-2, 2)).map(list)
values = st.one_of(links, st.integers(-5, 100), st.text(max_size=3), st.none(), st.lists(st.integers(), max_size=3))
keys = st.sampled_from(
    ["image", "images", "width", "height", "batch_size", "color", "filename_prefix", "source", "fps"]
)
nodes = st.fixed_dictionaries(
    {"class_type": names}, optional={"inputs": st.one_of(st.dictionaries(keys, values), st.none())}
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(graph=st.dictionaries(ids, nodes, max_size=4))
def test_any_graph_is_validated_and_an_accepted_graph_can_be_ordered(
    graph: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folders = Folders.under(tmp_path_factory.getbasetemp() / "judged")
    folders.prepare()
    verdict = validate_prompt(graph, REGISTRY, folders)
    json.dumps([verdict.error, verdict.node_errors])
    if verdict.error is not None:
        assert verdict.outputs == []
        return
    ordered = needed_nodes(graph, REGISTRY, verdict.outputs)
    assert signatures(graph, REGISTRY, folders, ordered).keys() == set(ordered)
    schedule, done = Schedule(graph, REGISTRY, verdict.outputs, set()), []
    while (node_id := schedule.next()) is not None:
        done.append(node_id)
        schedule.done(node_id)
    assert set(done) == set(ordered)
    assert len(done) == len(ordered)
