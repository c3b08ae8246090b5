"""Many callers at once, one job per call: what sharing statements and commits gives. The peer is PgQueuer at batch 100.

The ceiling is the bare statements, twenty jobs at a time.
"""

from __future__ import annotations

from bench.ground import open_ground
from bench.peers import pgqueuer
from bench.queues import OurQueue, bare_queue
from bench.results import Result
from bench.turns import take_turns

name = "dispatch.batch"
CALLERS = 200
PEER_BATCH = 100
BARE_AT_ONCE = 20


async def run(seconds: float) -> list[Result]:
    async with (
        open_ground(loops=("lane_keeper",)) as ground,
        bare_queue(ground, at_once=BARE_AT_ONCE) as bare,
        pgqueuer(ground, PEER_BATCH) as peer,
    ):
        rates = await take_turns({"bare": bare, "ours": OurQueue(ground, CALLERS), "peer": peer}, seconds)
    return [
        Result(
            name=name,
            value=rates["ours"].per_second,
            unit="jobs/s",
            ceiling=rates["bare"].per_second,
            peer=rates["peer"].per_second,
        )
    ]
