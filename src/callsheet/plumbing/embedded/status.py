"""Looking at the server of a home without starting it."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from callsheet.plumbing.embedded.binaries import find_binaries
from callsheet.plumbing.embedded.cluster import cluster_version
from callsheet.plumbing.embedded.launch import HOST, server_version
from callsheet.plumbing.embedded.layout import USER, EmbeddedPostgresError, Layout
from callsheet.plumbing.embedded.locks import is_held


@dataclass(frozen=True, slots=True)
class EmbeddedStatus:
    """`version` is the running server's ("18.6") or else the cluster's ("18"); None before the first start."""

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


def psql_command(home: Path, database: str) -> list[str]:
    """The command of a shell on a running server. The password stays in its file, out of the process list."""
    layout = Layout.of(home)
    port = layout.recorded_port()
    if port is None:
        raise EmbeddedPostgresError(f"There is no PostgreSQL server in {layout.directory} yet. Start Callsheet first.")
    embedded = find_binaries().psql
    psql = str(embedded) if embedded.exists() else shutil.which("psql")
    if psql is None:
        raise EmbeddedPostgresError("psql is not installed. Install your system's PostgreSQL client package.")
    return [
        psql,
        f"host={HOST} port={port} user={USER} dbname={_quoted(database)} "
        f"passfile={_quoted(str(layout.passfile))} sslmode=disable",
    ]


def _quoted(value: str) -> str:
    """A value of a libpq connection string."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _size(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                # The running server removes files while we count.
                continue
    return total
