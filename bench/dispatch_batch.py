"""Many callers at once, one job per call: what sharing statements and commits gives. The peer is PgQueuer at batch 100.

The ceiling is the bare statements, twenty jobs at a time.
"""

from __future__ import annotations

from bench.ground import open_ground
from bench.peers import pgqueuer
from bench.processor import processor_clock
from bench.queues import OurQueue, bare_queue
from bench.results import Result
from bench.turns import Drainable, take_turns

name = "dispatch.batch"
CALLERS = 200
PEER_BATCH = 100
BARE_AT_ONCE = 20
# Ten for each tenant. On a busy machine a slice would have so few that learning who waits would be most of their cost.
LEAST_JOBS = 10_000
short = {"least_jobs": 100}


async def run(seconds: float, least_jobs: int = LEAST_JOBS) -> list[Result]:
    async with (
        open_ground(loops=("lane_keeper",)) as ground,
        bare_queue(ground, at_once=BARE_AT_ONCE) as bare,
        pgqueuer(ground, PEER_BATCH) as peer,
    ):
        queues: dict[str, Drainable] = {"bare": bare, "ours": OurQueue(ground, CALLERS), "peer": peer}
        rates = await take_turns(queues, seconds, processor_clock(ground), least_jobs)
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
