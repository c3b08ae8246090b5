"""Many callers at once, one job per call: what sharing statements and commits gives. The peer is PgQueuer at batch 100.

The ceiling is the bare statements, twenty jobs at a time.
"""

from __future__ import annotations

from bench.alternating_queues import Drainable, take_turns
from bench.installation import open_bench_installation
from bench.peers import pgqueuer
from bench.processor_time import processor_clock
from bench.queues import OurQueue, bare_queue
from bench.results import Result

name = "dispatch.batch"
CALLERS = 200
PEER_BATCH = 100
BARE_AT_ONCE = 20
# Ten for each tenant. On a busy machine a slice would have so few that learning who waits would be most of their cost.
MIN_JOBS = 10_000
short = {"min_jobs": 100}


async def run(seconds: float, min_jobs: int = MIN_JOBS) -> list[Result]:
    async with (
        open_bench_installation(loops=("lane_keeper",)) as installation,
        bare_queue(installation, at_once=BARE_AT_ONCE) as bare,
        pgqueuer(installation, PEER_BATCH) as peer,
    ):
        queues: dict[str, Drainable] = {"bare": bare, "ours": OurQueue(installation, CALLERS), "peer": peer}
        rates = await take_turns(queues, seconds, processor_clock(installation), min_jobs)
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
