"""Lease and finish, one job per call, eight callers: our dispatch room, the bare statements, and Procrastinate."""

from __future__ import annotations

from bench.alternating_queues import Drainable, take_turns
from bench.installation import open_bench_installation
from bench.peers import procrastinate
from bench.processor_time import processor_clock
from bench.queues import OurQueue, bare_queue
from bench.results import Result

name = "dispatch.core"
CALLERS = 8


async def run(seconds: float) -> list[Result]:
    async with (
        open_bench_installation(loops=("lane_keeper",)) as installation,
        bare_queue(installation, connections=CALLERS) as bare,
        procrastinate(installation) as peer,
    ):
        queues: dict[str, Drainable] = {"bare": bare, "ours": OurQueue(installation, CALLERS), "peer": peer}
        rates = await take_turns(queues, seconds, processor_clock(installation))
    return [
        Result(
            name=name,
            value=rates["ours"].per_second,
            unit="jobs/s",
            ceiling=rates["bare"].per_second,
            peer=rates["peer"].per_second,
        ),
        Result(
            name=f"{name}.processor",
            value=rates["ours"].processor_microseconds,
            unit="µs/job",
            ceiling=rates["bare"].processor_microseconds,
            peer=rates["peer"].processor_microseconds,
        ),
    ]
