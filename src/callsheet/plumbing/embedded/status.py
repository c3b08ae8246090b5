"""Reads the status of the server of a home without starting it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from callsheet.plumbing.embedded.cluster import cluster_version
from callsheet.plumbing.embedded.launch import server_version
from callsheet.plumbing.embedded.layout import Layout
from callsheet.plumbing.embedded.locks import is_held


@dataclass(frozen=True, slots=True)
class EmbeddedStatus:
    """The status. `version` is the running server's ("18.6") or else the cluster's ("18"); None before the first
    start.
    """

    running: bool
    port: int | None
    version: str | None
    data_directory: Path
    size_bytes: int


async def status(home: Path) -> EmbeddedStatus:
    layout = Layout.of(home)
    version = None
    with layout.accessible():
        port, held = layout.recorded_port(), is_held(layout.keeper_lock)
        made_by = cluster_version(layout)
    if port is not None and held:
        version = await server_version(layout, port)
    return EmbeddedStatus(
        running=version is not None,
        port=port if version is not None else None,
        version=version or made_by,
        data_directory=layout.data,
        size_bytes=await asyncio.to_thread(_size, layout.data),
    )


def _size(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                # The running server may remove files during the count.
                continue
    return total
