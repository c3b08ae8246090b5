"""The inventory of an engine: its version, its nodes, its models, and the versions of its packages of custom nodes.

ComfyUI itself reports no versions of packages. ComfyUI-Manager lists them, Manager 3 under `/customnode/installed` and
Manager 4 under `/v2/customnode/installed`. The list is an object with the names of the folders, and for each of them
`{"ver": "8.2.1", "cnr_id": …, "aux_id": …, "enabled": true}`. The version of a package that was cloned with git is its
commit.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from callsheet.providers.comfy.http import EngineHttp, json_of
from callsheet.providers.comfy.models import custom_nodes_of_object_info, models_of_object_info
from callsheet.providers.comfy.node_forms import forms_of_object_info
from callsheet.providers.engine import EngineError, EngineUnreachable, Inventory

# Before this version, the engine chooses the id of a run, which this worker does not know.
OLDEST: Final = (0, 3, 45)
INSTALLED_PATHS: Final = ("/customnode/installed", "/v2/customnode/installed")
# A thousand packages are about 200 kB.
MAX_LIST_BYTES: Final = 2_000_000
MAX_VERSION_LENGTH: Final = 100
# ComfyUI-Manager asks git for the commit of each package. The list of nodes must not wait for it.
VERSIONS_SECONDS: Final = 5.0


async def read_inventory(http: EngineHttp) -> Inventory:
    stats = await http.get_object("/system_stats")
    # The response has megabytes, so it is parsed in a thread, and heartbeats continue.
    response = await http.call("GET", "/object_info")
    info = await asyncio.to_thread(json_of, response)
    if response.status_code != 200 or not isinstance(info, dict):
        raise EngineUnreachable("The engine does not list its nodes.", status=response.status_code)
    system = stats.get("system")
    version = system.get("comfyui_version") if isinstance(system, dict) else None
    models = await asyncio.to_thread(models_of_object_info, info)
    custom_nodes = frozenset(custom_nodes_of_object_info(info))
    return Inventory(
        frozenset(info),
        frozenset(models),
        (str(version),) if version else (),
        custom_nodes,
        await _versions_of(http, custom_nodes),
        await asyncio.to_thread(forms_of_object_info, info),
    )


async def _versions_of(http: EngineHttp, packages: frozenset[str]) -> Mapping[str, str]:
    """The versions, as ComfyUI-Manager lists them; empty without it. An engine that does not report versions can run
    jobs all the same.
    """
    with suppress(EngineError, TimeoutError):
        async with asyncio.timeout(VERSIONS_SECONDS):
            for path in INSTALLED_PATHS if packages else ():
                versions = versions_of_installed(await http.get_small(path, MAX_LIST_BYTES), packages)
                if versions:
                    return versions
    return {}


def versions_of_installed(listed: object, names: Iterable[str]) -> dict[str, str]:
    """The versions of these packages, in a response of ComfyUI-Manager. Unreadable entries are left out."""
    if not isinstance(listed, Mapping):
        return {}
    found = {str(name): version for name, entry in listed.items() if (version := _version(entry)) is not None}
    # Manager changes the case of some folder names.
    folded = {name.casefold(): version for name, version in found.items()}
    versions = {name: found.get(name) or folded.get(name.casefold()) for name in names}
    return {name: version for name, version in versions.items() if version is not None}


def _version(entry: object) -> str | None:
    if not isinstance(entry, Mapping) or entry.get("enabled") is False:
        return None
    version = entry.get("ver")
    if not isinstance(version, str) or not version.isprintable():
        return None
    version = version.strip()
    return version if 0 < len(version) <= MAX_VERSION_LENGTH else None


def too_old(version: str) -> EngineError:
    oldest = ".".join(map(str, OLDEST))
    message = f"This ComfyUI is too old ({version}): {oldest} or newer is needed."
    return EngineError("engine_too_old", message, retryable=True)


def version_of(text: object) -> tuple[int, ...] | None:
    """The version as numbers. None if it cannot be read; it then counts as very old."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text) if isinstance(text, str) else None
    return tuple(map(int, found.groups())) if found else None
