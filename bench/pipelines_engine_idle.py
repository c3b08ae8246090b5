"""How much of its time an engine is idle while a run of a pipeline has candidates made, one from the other.

Everything is real: control plane, agent and Lightbox are processes, the run has three steps. With two jobs at once, one
is rendered while the result of the other is accepted and its child is started; the agent hands both to the engine.
Beside it, in the same installation: the same with an agent that hands over one at a time, a run with one job at a time,
and the loop of the first design, which looks for an ended job every five seconds and then begins the next. The engine
itself reports on its socket when it has work; idle is the time from the first render to the last in which it has none.
"""

from __future__ import annotations

import asyncio
import statistics
from typing import Any

from bench.product import TRIVIAL, Graph, RunningProduct, image, lightbox, node, open_product
from bench.results import Result
from bench.worker_engine_idle import Watch, watching
from callsheet.wire.jobs import JobStatus

name = "pipelines.engine_idle"
seconds = 30.0
short = {"leaves": 2, "render_seconds": 0.1, "pipeline_leaves": 2, "ask_seconds": 0.2}
RENDER_SECONDS = 0.5
# One child each: as many candidates for a leaf as there are steps.
STEPS, LEAVES = 3, 11
TURN_SECONDS = 30.0
TARGET_PERCENT = 15.0
# As the first design has it, and for how many jobs.
ASK_SECONDS, PIPELINE_LEAVES = 5.0, 3
POLL_SECONDS = 0.1
RUN_SECONDS = 120.0
BASE, FIX = "bench-base", "bench-fix"
# An agent that has two jobs at its engine.
BOTH = {"CALLSHEET_WORKER__ID": "bench-agent-of-two", "CALLSHEET_WORKER__MAX_CONCURRENCY": "2"}
AT_ONCE = {"CALLSHEET_PIPELINES__JOBS_PER_RUN": "2", "CALLSHEET_PIPELINES__JOBS_IN_TOTAL": "2"}


async def run(
    seconds: float,
    leaves: int = LEAVES,
    render_seconds: float = RENDER_SECONDS,
    pipeline_leaves: int = PIPELINE_LEAVES,
    ask_seconds: float = ASK_SECONDS,
) -> list[Result]:
    shares: dict[str, list[float]] = {"two": [], "in turns": [], "one": []}
    async with (
        open_product(given=AT_ONCE) as product,
        lightbox(product.home) as engine,
        watching(engine) as watch,
    ):
        await _offer(product, render_seconds)
        rounds = range(max(1, round(seconds / TURN_SECONDS)))
        async with product.agent(f"{BASE},{FIX}", engine, **BOTH):
            await _run(product, 2, 1)
            watch.spans.clear()
            for _ in rounds:
                shares["two"].append(await _idle(product, watch, 2, leaves))
        async with product.agent(f"{BASE},{FIX}", engine):
            for _ in rounds:
                shares["in turns"].append(await _idle(product, watch, 2, leaves))
                shares["one"].append(await _idle(product, watch, 1, max(1, leaves // 2)))
            await _ask(product, pipeline_leaves, ask_seconds)
            idle = watch.idle_percent(pipeline_leaves)
    two, in_turns, one = (statistics.median(share) for share in shares.values())
    unit = f"% idle between {render_seconds:g} s renders of a run, two jobs at once"
    return [
        Result(name=name, value=two, unit=unit, peer=idle, target=TARGET_PERCENT),
        Result(
            name=f"{name}.handed_in_turns",
            value=in_turns,
            unit="% idle, two jobs at once",
            peer=idle,
            target=TARGET_PERCENT,
        ),
        Result(name=f"{name}.one_at_a_time", value=one, unit="% idle, one job at once", peer=idle),
    ]


async def _idle(product: RunningProduct, watch: Watch, concurrency: int, leaves: int) -> float:
    made = await _run(product, concurrency, leaves)
    if made != STEPS * leaves:
        raise RuntimeError(f"the run has made {made} candidates in place of {STEPS * leaves}")
    return watch.idle_percent(made)


async def _offer(product: RunningProduct, render_seconds: float) -> None:
    """The workflows of the steps, and one of the peer's own; each sleeps as long as a render takes."""
    sleep: dict[str, Any] = {"seconds": render_seconds, "steps": 10, "preview": False}
    paint = node("LightboxTextToImage", text="{{prompt}}", seed="{{seed}}", width=64, height=64, steps=1)
    base: Graph = {**TRIVIAL, "load": paint, "change": node("ProbeSleep", image=["load", 0], **sleep)}
    fix: Graph = {**TRIVIAL, "change": base["change"]}
    await product.offer(BASE, base)
    await product.offer(FIX, fix)
    steps = [
        {"name": f"step {number}", "workflow": FIX if number else BASE, "max_children": 1, **_needs(number)}
        for number in range(STEPS)
    ]
    response = await product.admin.post("/api/pipelines", json={"slug": "bench", "name": "Bench", "steps": steps})
    response.raise_for_status()


def _needs(number: int) -> dict[str, bool]:
    return {"needs_parent_image_path": True} if number else {"needs_run_prompt": True}


async def _run(product: RunningProduct, concurrency: int, leaves: int) -> int:
    """To its end; how many candidates it has made."""
    request = {"name": "Bench", "prompt": "dunes", "budget": 1000, "target_leaves": leaves, "concurrency": concurrency}
    response = await product.admin.post("/api/pipelines/bench/runs", json=request)
    path = f"/api/runs/{response.raise_for_status().json()['id']}"
    async with asyncio.timeout(RUN_SECONDS):
        while True:
            shown = (await product.admin.get(path)).raise_for_status().json()
            if shown["status"] == "completed":
                return int(shown["candidates"])
            if shown["reason"] is not None:
                raise RuntimeError(f"the run does not go on: {shown['reason_detail']}")
            await asyncio.sleep(POLL_SECONDS)


async def _ask(product: RunningProduct, jobs: int, ask_seconds: float) -> None:
    """One after the other: the next job is started when a check finds that the previous one has ended."""
    file = await product.upload(image(1))
    for _ in range(jobs):
        job = await product.client.submit(FIX, file=file)
        while (found := await job.refresh()).status is not JobStatus.COMPLETED:
            if found.status in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.EXPIRED):
                raise RuntimeError(f"a job has {found.status.value}: {found.error}")
            await asyncio.sleep(ask_seconds)
