"""Memory of tabs that stay open on a busy installation: the overview, the jobs of all tenants, and a live run.

After a forced garbage collection, thirty times in the time given: what scripts use, nodes of documents (detached ones
included), listeners. The result is the mean of the last third over that of the first.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from playwright.async_api import Browser, CDPSession

from bench.busy_demo import busy
from bench.demo import browser, demo, signed_in
from bench.processes import fresh_home
from bench.results import Result

name = "web.tab_memory"
seconds = 1800.0
short = {"samples": 6}
SAMPLES = 30
# Tolerates noise of the current content. A leak of a few kB per response is far more in half an hour.
TARGET = 1.1
MEASURED = {"JSHeapUsedSize": "heap", "Nodes": "nodes", "JSEventListeners": "listeners"}


@dataclass(slots=True)
class Tab:
    name: str
    session: CDPSession
    series: dict[str, list[float]] = field(default_factory=lambda: {key: [] for key in MEASURED})

    async def measure(self) -> None:
        # The second collection frees the objects that the first one finalized.
        for _ in range(2):
            await self.session.send("HeapProfiler.collectGarbage")
        metrics = (await self.session.send("Performance.getMetrics"))["metrics"]
        found = {metric["name"]: float(metric["value"]) for metric in metrics}
        for key, values in self.series.items():
            values.append(found[key])

    def growth(self, key: str) -> float:
        values = self.series[key]
        third = max(1, len(values) // 3)
        return statistics.mean(values[-third:]) / statistics.mean(values[:third])

    def latest(self) -> str:
        heap, nodes, listeners = (values[-1] for values in self.series.values())
        return f"{self.name} {heap / 1e6:.2f} MB, {nodes:.0f} nodes, {listeners:.0f} listeners"


async def run(seconds: float, samples: int = SAMPLES) -> list[Result]:
    with fresh_home() as home:
        async with demo(home) as url, busy(url, home) as state, browser() as running:
            paths = {"overview": "/operate", "jobs": "/operate/jobs", "run": f"/runs/{state.run_id}"}
            tabs = await _open(running, url, home, paths)
            started, cost = time.monotonic(), len(state.jobs)
            for number in range(1, samples + 1):
                await asyncio.sleep(max(0.0, started + seconds * number / samples - time.monotonic()))
                for tab in tabs:
                    await tab.measure()
                latest = "; ".join(tab.latest() for tab in tabs)
                sys.stderr.write(f"  {time.monotonic() - started:5.0f} s, {len(state.jobs) - cost} jobs: {latest}\n")
    minutes = f"{seconds / 60:.3g} min"
    return [result for tab in tabs for result in _results(tab, minutes)]


async def _open(running: Browser, url: str, home: Path, paths: Mapping[str, str]) -> list[Tab]:
    """Opens each tab in its own profile, because tabs of one profile may share a process."""
    tabs = []
    for key, path in paths.items():
        context = await signed_in(running, url, home)
        page = await context.new_page()
        await page.goto(url + path)
        await page.get_by_role("heading", level=1).wait_for(timeout=180_000)
        session = await context.new_cdp_session(page)
        await session.send("HeapProfiler.enable")
        await session.send("Performance.enable")
        tabs.append(Tab(key, session))
    return tabs


def _results(tab: Tab, minutes: str) -> list[Result]:
    unit = f"times in {minutes}"
    heap = tab.series["JSHeapUsedSize"]
    # The tree of a growing run has more and more candidates to show.
    target = None if tab.name == "run" else TARGET
    return [
        Result(name=f"{name}.{tab.name}", value=tab.growth("JSHeapUsedSize"), unit=unit, target=target),
        Result(name=f"{name}.{tab.name}.heap", value=heap[-1] / 1e6, unit="MB at the end"),
        *(
            Result(name=f"{name}.{tab.name}.{word}", value=tab.growth(key), unit=unit, target=target)
            for key, word in MEASURED.items()
            if word != "heap"
        ),
    ]
