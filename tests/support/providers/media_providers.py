"""Providers of media as docs/how-to/add-a-provider.md configures them, with the URL of a test's server."""

from __future__ import annotations

import re
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from callsheet.providers.actor import Task
from callsheet.providers.config import ProvidersConfig
from callsheet.providers.registry import ActorRegistry, open_registry
from tests.support.providers.media_service import SECRET, MediaService

HERE = (ip_network("127.0.0.0/8"),)
DOCUMENT = Path(__file__).parents[3] / "docs" / "how-to" / "add-a-provider.md"


def documented_services() -> dict[str, dict[str, Any]]:
    """The tables `[providers.http.NAME]` that the document shows, by their names."""
    blocks = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    found: dict[str, dict[str, Any]] = {}
    for block in blocks:
        found |= tomllib.loads(block).get("providers", {}).get("http", {})
    return found


def service_table(name: str, service: MediaService, **changes: Any) -> dict[str, Any]:
    """The documented table with the URL of the test's server and short waits. `poll` and `download` in the changes
    replace single values of the documented tables.
    """
    table = documented_services()[name]
    table |= {"base_url": f"{service.url}/{name}", "secret": SECRET}
    table["poll"]["every_seconds"] = 0.01
    for key, value in changes.items():
        table[key] = {**table.get(key, {}), **value} if key in ("poll", "download") else value
    return table


@asynccontextmanager
async def opened(*, networks: Any = HERE, **config: Any) -> AsyncIterator[ActorRegistry]:
    """A registry of these settings."""
    registry = open_registry(ProvidersConfig.model_validate(config), allow_networks=networks)
    try:
        yield registry
    finally:
        await registry.close()


@dataclass
class ProgressLog:
    percents: list[float | None] = field(default_factory=list)
    messages: list[str | None] = field(default_factory=list)

    def __call__(self, percent: float | None, message: str | None) -> None:
        self.percents.append(percent)
        self.messages.append(message)


def media_task(directory: Path, progress: ProgressLog | None = None, **payload: Any) -> Task:
    given = {"provider": "leonardo", "action_type": "txt2img", "prompt": "a lighthouse", **payload}
    return Task("tq_1", given, 1, directory, progress or ProgressLog())
