"""How many jobs a simulation replays in a second of one core's time.

Ten million jobs a year with an office's day curve, of 300 tenants, on up to 60 workers that follow the queue. The
ceiling is the minimum that a simulation must do: the same arrivals and run times through as many workers, in the order
of arrival, with only a heap. Both are measured in processor time, so that other programs have little effect.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from heapq import heappop, heappush

from bench.results import Result
from callsheet.scaling.policy import Policy
from callsheet_simulation.arrivals import CURVES, Arrivals, make_trace
from callsheet_simulation.replay import TraceReplay
from callsheet_simulation.trace import QueueTrace

name = "scaling.simulate"
short = {"days": 0.02}
YEAR_JOBS = 10_000_000
JOBS_PER_DAY = YEAR_JOBS / 365
TENANTS, MAX_WORKERS = 300, 60
TARGET_MINUTES = 10.0
TARGET = YEAR_JOBS / (TARGET_MINUTES * 60)


async def run(seconds: float, days: float = 2.0) -> list[Result]:
    trace = make_trace(Arrivals(JOBS_PER_DAY, days, CURVES["office"], run_seconds=60.0, tenants=TENANTS))
    policy = Policy(maximum=MAX_WORKERS)
    rates: dict[str, list[float]] = {"ours": [], "bare": []}
    until = time.perf_counter() + seconds
    while not rates["ours"] or time.perf_counter() < until:
        started_at = time.process_time()
        waits = TraceReplay(trace, policy).run().waits
        between = time.process_time()
        bare = bare_replay(trace)
        ended = time.process_time()
        if len(waits) != len(bare):
            raise RuntimeError(f"{len(waits)} jobs were served and {len(bare)} expected")
        rates["ours"].append(len(trace) / (between - started_at))
        rates["bare"].append(len(trace) / (ended - between))
    ours, ceiling = statistics.median(rates["ours"]), statistics.median(rates["bare"])
    minutes = YEAR_JOBS / ours / 60
    return [
        Result(name=name, value=ours, unit="jobs/s of one core", ceiling=ceiling, target=TARGET),
        Result(name=f"{name}.year", value=minutes, unit="minutes for 10 million jobs", target=TARGET_MINUTES),
    ]


def bare_replay(trace: QueueTrace) -> list[float]:
    """The wait of each job, in the order of arrival, with a fixed number of workers."""
    waits: list[float] = []
    ends: list[float] = []
    waiting: deque[int] = deque()
    submitted, run_seconds = trace.submitted, trace.run_seconds
    free = MAX_WORKERS
    place, total = 0, len(trace)
    while len(waits) < total:
        if place < total and (not ends or submitted[place] <= ends[0]):
            now = submitted[place]
            waiting.append(place)
            place += 1
        else:
            now = heappop(ends)
            free += 1
        while waiting and free:
            job = waiting.popleft()
            free -= 1
            waits.append(now - submitted[job])
            heappush(ends, now + run_seconds[job])
    return waits
