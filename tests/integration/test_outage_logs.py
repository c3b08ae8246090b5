"""A database outage is one line per component when it begins and one when it is over, not a traceback per attempt."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.plumbing.database.database import create_database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.embedded import EmbeddedPostgres, stop
from callsheet.settings import load_settings
from callsheet.toolbox.outages import Outage
from tests.support.database.outages import away
from tests.support.http.accounts import People
from tests.support.run.ports import free_port
from tests.support.waiting import until

# Loops that tick every few seconds and need central. Others may sleep through an outage, or leave out lost pools.
QUICK = ("database_watch", "reaper", "lane_keeper")


def lines(logged: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in logged.getvalue().splitlines()]


def counted(logged: io.StringIO, event: str) -> Counter[str]:
    return Counter(line["component"] for line in lines(logged) if line["event"] == event)


@pytest.mark.thorough
async def test_a_server_that_stops_and_starts_is_logged_once_per_component(tmp_path: Path, logged: io.StringIO) -> None:
    server = await EmbeddedPostgres.start(tmp_path / "server")
    await create_database(server.application_dsn("postgres"), "central", "callsheet")
    settings = load_settings(
        home=tmp_path / "home",
        # By DSN: nothing here brings it back. The role is that of applications: tables of the superuser would be given
        # to it at the next start of the server, under locks that can deadlock with the loops.
        database={"dsn": server.application_dsn("callsheet")},
        server={"port": free_port()},
        tasks={"in_process": 2},
    )
    async with (
        running_control_plane(settings) as plane,
        httpx.AsyncClient(base_url=settings.public_url, trust_env=False, timeout=60) as client,
    ):
        person = await People(plane.rooms.identity.accounts, plane.rooms.identity.keys).user()
        quick = [loop for loop in plane.loops if loop.name in QUICK]
        await until(lambda: all(loop.last_success is not None for loop in plane.loops))
        for loop in plane.loops:
            loop.retry_base_seconds, loop.retry_cap_seconds = 0.05, 0.2
        logged.truncate(0), logged.seek(0)
        await stop(tmp_path / "server")
        assert (await client.get("/api/me", headers=person.headers)).status_code == 503
        for _ in range(3):
            await until(lambda seen=[loop.failures for loop in quick]: more(quick, seen))
            assert (await client.get("/api/me", headers=person.headers)).status_code == 503
        server = await EmbeddedPostgres.start(tmp_path / "server")
        try:
            assert plane.databases.central.dsn == server.application_dsn("callsheet"), "the same port"
            await until(lambda: is_healthy(plane))

            async def is_served() -> bool:
                return (await client.get("/api/me", headers=person.headers)).status_code == 200

            await until(is_served)
        finally:
            await plane.loops.stop()
    await server.close()
    lost, found = counted(logged, "database.unreachable"), counted(logged, "database.reachable")
    assert set(lost.values()) == {1}, lost
    assert lost == found
    assert {f"loop {name}" for name in QUICK} | {"listener", "requests to central"} <= set(lost)
    assert "\n".join(line["exception"] for line in lines(logged) if "exception" in line) == ""
    assert "Traceback" not in logged.getvalue()
    over = next(
        line for line in lines(logged) if line["event"] == "database.reachable" and line["component"] == "loop reaper"
    )
    assert over["attempts"] >= 3
    assert over["after_seconds"] > 0


def more(loops: list[Any], seen: list[int]) -> bool:
    return all(loop.failures > before for loop, before in zip(loops, seen, strict=True))


def is_healthy(plane: ControlPlane) -> bool:
    return plane.listener.connected.is_set() and not any(loop.failures_in_a_row for loop in plane.loops)


def test_attempts_are_counted_and_not_logged(logged: io.StringIO) -> None:
    times = iter([10.0, 18.25])
    outage = Outage("relay", monotonic=lambda: next(times))
    outage.ended()
    for _ in range(68):
        outage.failed(ConnectionRefusedError("nobody there"))
    outage.ended()
    outage.ended()
    [begin, end] = lines(logged)
    assert (begin["event"], begin["component"], begin["reason"]) == ("database.unreachable", "relay", "nobody there")
    assert (end["event"], end["attempts"], end["after_seconds"]) == ("database.reachable", 68, 8.2)


async def test_the_result_of_an_earlier_attempt_neither_ends_an_outage_nor_starts_one(
    databases: Databases, logged: io.StringIO
) -> None:
    database = databases.central

    async def connect() -> None:
        async with database.connection():
            pass

    async def connect_and_fail_late() -> None:
        async with database.connection():
            await connect()
            raise ConnectionError("too late")

    async with database.connection(), away(database):
        with pytest.raises(ConnectionError):
            await connect()
    assert [line["event"] for line in lines(logged)] == ["database.unreachable"]
    with pytest.raises(ConnectionError, match="too late"):
        await connect_and_fail_late()
    assert [line["event"] for line in lines(logged)] == ["database.unreachable", "database.reachable"]
