"""How long it takes until the product responds, and how much memory it uses while it is idle."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from bench.processes import (
    callsheet_command,
    environment,
    find_keeper,
    fresh_home,
    proportional_mb,
    resident_mb,
    serving,
)
from bench.results import Result
from callsheet.plumbing.http.server import free_address

name = "startup.demo"
COLD_STARTS = 2
SECOND_STARTS = 3
IDLE_SECONDS = 3.0
COLD_TARGET, SECOND_TARGET, MEMORY_TARGET = 20.0, 5.0, 150.0


async def run(seconds: float) -> list[Result]:
    """Starts a fixed number of times. `seconds` has no effect."""
    cold, second = [], []
    for number in range(COLD_STARTS):
        with fresh_home() as home:
            cold.append(await _seconds_to_ready(home))
            if number == COLD_STARTS - 1:
                second = [await _seconds_to_ready(home) for _ in range(SECOND_STARTS)]
                memory = await _idle_memory(home)
    return [
        Result(name=f"{name}.cold", value=statistics.median(cold), unit="s", target=COLD_TARGET),
        Result(name=f"{name}.second", value=statistics.median(second), unit="s", target=SECOND_TARGET),
        *memory,
    ]


async def _seconds_to_ready(home: Path) -> float:
    """From the command to its line of JSON: the client is signed in over HTTP, and every check returned 200."""
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *callsheet_command("demo", "--exit", "--port", "0"),
        env=environment(home),
        cwd=home.parent,
        stdout=PIPE,
        stderr=DEVNULL,
    )
    assert process.stdout is not None
    line = await process.stdout.readline()
    elapsed = time.perf_counter() - started
    if await process.wait() != 0 or json.loads(line)["status"] != "ready":
        raise RuntimeError(f"callsheet demo failed: {line.decode()}")
    return elapsed


async def _idle_memory(home: Path) -> list[Result]:
    port = (await free_address("127.0.0.1", 0))[1]
    async with serving(home, port) as process:
        await asyncio.sleep(IDLE_SECONDS)
        keeper = find_keeper(home)
        postgres = sum(proportional_mb(child) for child in keeper.children(recursive=True))
        return [
            Result(name=f"{name}.idle", value=resident_mb(process.pid), unit="MB resident", target=MEMORY_TARGET),
            Result(name=f"{name}.idle.postgres", value=postgres, unit="MB"),
            Result(name=f"{name}.idle.keeper", value=resident_mb(keeper.pid), unit="MB resident"),
        ]
