"""Routes that describe the engine and its nodes."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from callsheet import __version__
from callsheet.wire.plurals import counted
from callsheet_lightbox.folders import Folders
from callsheet_lightbox.node import NodeRegistry

# The server whose responses are imitated.
COMFYUI_VERSION = "0.7.0"


def features(max_upload_bytes: int) -> dict[str, Any]:
    return {
        "supports_preview_metadata": True,
        "max_upload_size": max_upload_bytes,
        "extension": {"manager": {"supports_v4": True}},
    }


class InfoRoutes:
    def __init__(self, registry: NodeRegistry, folders: Folders, known_features: Mapping[str, Any]) -> None:
        self._registry = registry
        self._folders = folders
        self._features = known_features

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self.welcome),
            web.get("/system_stats", self.system_stats),
            web.get("/object_info", self.object_info),
            web.get("/object_info/{name}", self.object_info_of),
            web.get("/features", self.features),
            web.get("/customnode/installed", self.installed_packages),
        ]

    async def welcome(self, request: web.Request) -> web.Response:
        """The page for a person who opens the URL in a browser. ComfyUI would show its editor."""
        return web.Response(
            text=f"This is Lightbox, an engine with ComfyUI's API ({COMFYUI_VERSION}) that renders on the CPU.\n"
            f"It has {counted(len(self._registry.nodes), 'node')}: see /object_info. Send a graph to POST /prompt.\n"
        )

    async def features(self, request: web.Request) -> web.Response:
        return web.json_response(self._features)

    async def installed_packages(self, request: web.Request) -> web.Response:
        """Lists packages as ComfyUI-Manager does. Nodes in a separate file have no version and are not listed."""
        own = {"ver": __version__, "cnr_id": "lightbox", "aux_id": None, "enabled": True}
        return web.json_response({"lightbox": own})

    async def object_info(self, request: web.Request) -> web.Response:
        return web.json_response({name: self._registry.describe(name, self._folders) for name in self._registry.nodes})

    async def object_info_of(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        known = name in self._registry.nodes
        return web.json_response({name: self._registry.describe(name, self._folders)} if known else {})

    async def system_stats(self, request: web.Request) -> web.Response:
        total, free = _memory()
        system = {
            "os": sys.platform,
            "ram_total": total,
            "ram_free": free,
            "comfyui_version": COMFYUI_VERSION,
            "required_frontend_version": "1.35.9",
            "installed_templates_version": "0.7.65",
            "required_templates_version": "0.7.65",
            "python_version": sys.version,
            # There is no GPU; the renderer is named here, where a client looks for it.
            "pytorch_version": f"none (Lightbox on {platform.machine()})",
            "embedded_python": False,
            "argv": ["lightbox"],
        }
        device = {
            "name": "cpu",
            "type": "cpu",
            "index": None,
            "vram_total": total,
            "vram_free": free,
            "torch_vram_total": total,
            "torch_vram_free": free,
        }
        return web.json_response({"system": system, "devices": [device]})


def _memory() -> tuple[int, int]:
    """Total and free memory in bytes; 0 if the system does not report it, as on Windows."""
    page, total, free = (_configured(name) for name in ("SC_PAGE_SIZE", "SC_PHYS_PAGES", "SC_AVPHYS_PAGES"))
    return page * total, page * (free or total)


def _configured(name: str) -> int:
    if name not in getattr(os, "sysconf_names", {}):
        return 0
    try:
        return max(0, os.sysconf(name))
    except OSError:
        return 0
