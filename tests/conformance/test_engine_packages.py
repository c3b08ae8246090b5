"""The versions of custom nodes come from ComfyUI-Manager, and an engine without it is read all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from callsheet import __version__
from callsheet.providers.comfy import inventory
from callsheet.providers.comfy.inventory import MAX_LIST_BYTES
from callsheet.providers.comfy.self_hosted import ComfyUI
from callsheet.providers.engine import Inventory
from tests.support.comfyui.lightbox import lightbox_here

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
LISTED = {"pack": {"ver": "1.2.3", "cnr_id": "pack", "aux_id": None, "enabled": True}}


@asynccontextmanager
async def engine_with(path: str | None, handler: Handler | None) -> AsyncIterator[str]:
    """The URL of a server with one custom node, and this route of its manager."""

    async def stats(request: web.Request) -> web.Response:
        return web.json_response({"system": {"comfyui_version": "0.7.0"}, "devices": []})

    async def nodes(request: web.Request) -> web.Response:
        return web.json_response({"Upscale": {"python_module": "custom_nodes.pack", "input": {}}})

    app = web.Application()
    app.add_routes([web.get("/system_stats", stats), web.get("/object_info", nodes)])
    if path is not None and handler is not None:
        app.add_routes([web.get(path, handler)])
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


async def inventory_of(url: str) -> Inventory:
    engine = ComfyUI(url)
    try:
        return await engine.inventory()
    finally:
        await engine.close()


async def test_lightbox_lists_the_version_of_its_own_package(tmp_path: Path) -> None:
    async with lightbox_here(tmp_path / "lightbox") as running:
        found = await inventory_of(running.url)
    assert found.custom_nodes == {"lightbox", "websocket_image_save"}
    # A node in a file of its own has no version, in ComfyUI either.
    assert found.custom_node_versions == {"lightbox": __version__}


@pytest.mark.parametrize("path", ["/customnode/installed", "/v2/customnode/installed"])
async def test_both_routes_of_the_manager_are_read(path: str) -> None:
    async def installed(request: web.Request) -> web.Response:
        return web.json_response(LISTED)

    async with engine_with(path, installed) as url:
        assert (await inventory_of(url)).custom_node_versions == {"pack": "1.2.3"}


async def page(request: web.Request) -> web.Response:
    return web.Response(text="<html>not JSON</html>", content_type="text/html")


async def failure(request: web.Request) -> web.Response:
    return web.json_response(LISTED, status=500)


async def too_deep(request: web.Request) -> web.Response:
    return web.Response(text="[" * 100_000, content_type="application/json")


async def too_large(request: web.Request) -> web.Response:
    return web.json_response({**LISTED, "rest": {"ver": "x" * MAX_LIST_BYTES}})


async def closed(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


@pytest.mark.parametrize("handler", [None, page, failure, too_deep, too_large, closed])
async def test_an_engine_that_lists_no_versions_is_read_all_the_same(handler: Handler | None) -> None:
    async with engine_with("/customnode/installed", handler) as url:
        found = await inventory_of(url)
    assert (found.node_classes, found.custom_nodes, found.custom_node_versions) == ({"Upscale"}, {"pack"}, {})


async def test_a_manager_that_does_not_respond_does_not_hold_up_the_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "VERSIONS_SECONDS", 0.1)
    released = asyncio.Event()

    async def waits(request: web.Request) -> web.Response:
        await released.wait()
        return web.json_response(LISTED)

    async with engine_with("/customnode/installed", waits) as url:
        found = await inventory_of(url)
        released.set()
    assert (found.custom_nodes, found.custom_node_versions) == ({"pack"}, {})
