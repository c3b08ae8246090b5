"""An authenticated `GET /api/me`: what the edge, authentication and one query cost on top of the bare framework."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from bench.load_generator import Load, run_load
from bench.processes import ROOT, cpu_seconds, fresh_home, serving, stop
from bench.results import Result
from callsheet.identity.access.keys import Keys
from callsheet.identity.access.passwords import Passwords
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.accounts.quotas import Quotas
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.http.server import free_address
from callsheet.settings import QuotaSettings, load_settings
from callsheet.wire.identity import CreateKeyRequest, CreateTenantRequest, CreateUserRequest

name = "http.me"
HOST = "127.0.0.1"
SLICE_SECONDS = 1.0
WARM_UP_SECONDS = 0.5


@dataclass(slots=True)
class Target:
    """One URL under load, and the figures of its slices."""

    pid: int
    port: int
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    loads: list[Load] = field(default_factory=list)
    cpu_microseconds: list[float] = field(default_factory=list)

    async def slice(self, seconds: float) -> None:
        before = cpu_seconds(self.pid)
        load = await run_load(HOST, self.port, self.path, seconds, self.headers)
        self.cpu_microseconds.append(1e6 * (cpu_seconds(self.pid) - before) / load.responses)
        self.loads.append(load)

    def per_second(self) -> float:
        return statistics.median(load.per_second for load in self.loads)

    def cpu(self) -> float:
        return statistics.median(self.cpu_microseconds)


async def run(seconds: float) -> list[Result]:
    with fresh_home() as home:
        # Whatever the shell's environment says: users are created below, and never in a real database.
        databases = await open_databases(load_settings(home=home, database={"dsn": None}))
        try:
            user_id, key = await create_user(databases)
            port = (await free_address(HOST, 0))[1]
            async with serving(home, port) as plane, bare_server(databases.central.dsn, user_id) as (bare_pid, other):
                me = Target(plane.pid, port, "/api/me", {"Authorization": f"Bearer {key}"})
                bare, select = Target(bare_pid, other, "/bare"), Target(bare_pid, other, "/select")
                await _take_turns([bare, me, select], seconds)
        finally:
            await databases.close()
    return _results(me, bare, select)


async def _take_turns(targets: list[Target], seconds: float) -> None:
    for target in targets:
        await run_load(HOST, target.port, target.path, min(WARM_UP_SECONDS, seconds), target.headers)
    rounds = max(1, round(seconds / (SLICE_SECONDS * len(targets))))
    for _ in range(rounds):
        for target in targets:
            await target.slice(min(SLICE_SECONDS, seconds / len(targets)))


def _results(me: Target, bare: Target, select: Target) -> list[Result]:
    return [
        Result(
            name=name,
            value=me.per_second(),
            unit="requests/s",
            ceiling=bare.per_second(),
            peer=select.per_second(),
            p50_ms=statistics.median(load.p50_ms for load in me.loads),
            p99_ms=statistics.median(load.p99_ms for load in me.loads),
        ),
        # A busy machine moves this far less than requests per second.
        Result(name=f"{name}.cpu", value=me.cpu(), unit="µs CPU/request", ceiling=bare.cpu(), peer=select.cpu()),
    ]


async def create_user(databases: Databases) -> tuple[UUID, str]:
    accounts = Accounts(databases, Passwords())
    await accounts.create_tenant(CreateTenantRequest(slug="bench", name="Bench"))
    user = await accounts.create_user(
        CreateUserRequest(tenant="bench", email="bench@example.com", password="not a real password")
    )
    return user.id, (
        await Keys(databases, Quotas(databases, QuotaSettings())).create(user.id, CreateKeyRequest(name="bench"))
    ).key


@asynccontextmanager
async def bare_server(dsn: str, user_id: UUID, payload: dict[str, Any] | None = None) -> AsyncIterator[tuple[int, int]]:
    """With a payload it has the bare worker protocol too (bench/bare_protocol.py)."""
    port = (await free_address(HOST, 0))[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.bare_server", stdin=PIPE, stdout=PIPE, cwd=ROOT, env=dict(os.environ)
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        order = {"dsn": dsn, "user_id": str(user_id), "port": port, "payload": payload}
        process.stdin.write(json.dumps(order).encode() + b"\n")
        if await process.stdout.readline() != b"ready\n":
            raise RuntimeError("the bare server did not start; what it said is above")
        yield process.pid, port
        process.stdin.close()
        await process.wait()
    finally:
        await stop(process)
