"""Speed of a run in a real browser: its tree of 5,000 candidates with thumbnails, votes, and the demo's pipeline.

A frame is the time between two frames of the page while a pointer drags the tree or zooms into it. A vote is the time
from the key to the frame that shows the next pair with both images decoded.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
from playwright.async_api import Page

from bench.demo import browser, demo, signed_in
from bench.planted_tree import planted_run
from bench.processes import fresh_home
from bench.results import Result

name = "web.runs"
short = {"bases": 4, "leaves": 3, "votes": 3}
# With 26 candidates each, 4,992 in all.
BASES = 192
LEAVES = 12
VOTES = 20
FRAME_TARGET_MS, VOTE_TARGET_MS, TREE_TARGET_SECONDS = 16.7, 100.0, 60.0
PIPELINE = "demo-landscapes"
PATIENCE_MS = 600_000
# The first frames show the state before the pointer moved.
SKIPPED = 5
# Visible images are requested after a short delay, in batches.
LOADING_MS = 1000
MAX_STEPS = 60

WATCH_FRAMES = """() => {
  window.frames = [];
  window.isWatching = true;
  let last = performance.now();
  const look = (now) => {
    window.frames.push(now - last);
    last = now;
    if (window.isWatching) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""
TAKE_FRAMES = "() => { window.isWatching = false; return window.frames; }"
WATCH_VOTES = """() => {
  window.votes = [];
  document.addEventListener("keydown", (event) => {
    const shown = () => document.querySelector("[data-pair]")?.dataset.pair;
    const [before, at] = [shown(), event.timeStamp];
    if (!before || !event.key.startsWith("Arrow")) return;
    const look = () => {
      const images = [...document.querySelectorAll("[data-pair] > :not([aria-hidden=true]) img")];
      if (!shown()) return;
      if (shown() === before || !images.every((each) => each.complete && each.naturalWidth > 0)) {
        return requestAnimationFrame(look);
      }
      window.votes.push(performance.now() - at);
    };
    requestAnimationFrame(look);
  }, true);
}"""
NEXT_OR_LAST = "(count) => window.votes.length >= count || !document.querySelector('[data-pair]')"
Move = Callable[[Page, float, float], Awaitable[None]]


async def run(seconds: float, bases: int = BASES, leaves: int = LEAVES, votes: int = VOTES) -> list[Result]:
    with fresh_home() as home:
        async with demo(home) as url, browser() as running, _operator(url, home) as client:
            context = await signed_in(running, url, home)
            context.set_default_timeout(PATIENCE_MS)
            page = await context.new_page()
            run_id, grown = await _grow(page, client, url, leaves)
            return [
                Result(name=f"{name}.demo", value=grown, unit=f"s for {leaves} leaves", target=TREE_TARGET_SECONDS),
                await _vote(page, f"{url}/runs/{run_id}?tab=compare", votes),
                *await _move(page, client, url, home, bases),
            ]


def _operator(url: str, home: Path) -> httpx.AsyncClient:
    key = json.loads((home / "demo/login.json").read_text())["api_key"]
    return httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {key}"}, trust_env=False, timeout=120)


async def _grow(page: Page, client: httpx.AsyncClient, url: str, leaves: int) -> tuple[str, float]:
    """Measures from the start of a run of the demo's pipeline until the page shows its whole tree."""
    body = {"name": "Measured", "budget": 1000, "prompt": "dunes at dawn", "seed": 7, "target_leaves": leaves}
    started = time.perf_counter()
    response = await client.post(f"/api/pipelines/{PIPELINE}/runs", json=body)
    response.raise_for_status()
    run_id = str(response.json()["id"])
    await page.goto(f"{url}/runs/{run_id}")
    await page.get_by_text(f"{leaves} of {leaves} finished").wait_for()
    return run_id, time.perf_counter() - started


async def _vote(page: Page, url: str, votes: int) -> Result:
    await page.goto(url)
    await page.locator("[data-pair]").wait_for()
    await page.wait_for_load_state("load")
    await page.evaluate(WATCH_VOTES)
    for number in range(1, votes + 1):
        await page.keyboard.press("ArrowLeft" if number % 2 else "ArrowRight")
        await page.wait_for_function(NEXT_OR_LAST, arg=number)
        # After the last pair there is no next pair.
        if await page.locator("[data-pair]").count() == 0:
            break
    times: list[float] = await page.evaluate("window.votes")
    return Result(
        name=f"{name}.vote",
        value=statistics.median(times),
        unit=f"ms, median of {len(times)}",
        target=VOTE_TARGET_MS,
        p99_ms=max(times),
    )


async def _move(page: Page, client: httpx.AsyncClient, url: str, home: Path, bases: int) -> list[Result]:
    run_id, count = await planted_run(client, home, bases)
    thumbnails: list[str] = []
    page.on("response", lambda response: thumbnails.append(response.url) if ".webp" in response.url else None)
    await page.goto(f"{url}/runs/{run_id}")
    tree = page.get_by_role("application", name=f"Tree of {count:,} candidates")
    await tree.wait_for()
    box = await tree.bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    drawn = f"{count:,} candidates"
    far = await _frames(page, _drag, *middle)
    await _zoom_to_thumbnails(page, thumbnails, *middle)
    near = await _frames(page, _drag, *middle)
    loaded = len(set(thumbnails))
    await page.get_by_role("button", name="Show all").click()
    zoomed = await _frames(page, _zoom, *middle)
    return [
        _frame_result("all", far, drawn),
        _frame_result("thumbnails", near, f"{loaded} thumbnails loaded"),
        _frame_result("zoom", zoomed, drawn),
    ]


def _frame_result(part: str, frames: list[float], what: str) -> Result:
    median, slowest = statistics.median(frames), statistics.quantiles(frames, n=100)[-1]
    return Result(
        name=f"{name}.tree.{part}",
        value=median,
        unit=f"ms per frame, {what}",
        target=FRAME_TARGET_MS,
        p50_ms=median,
        p99_ms=slowest,
    )


async def _zoom_to_thumbnails(page: Page, thumbnails: list[str], x: float, y: float) -> None:
    """Zooms until candidates are drawn with their images. Most images are visible then. Waits for them."""
    await page.mouse.move(x, y)
    for _ in range(MAX_STEPS):
        await page.mouse.wheel(0, -40)
        await page.wait_for_timeout(LOADING_MS)
        if thumbnails:
            break
    else:
        raise RuntimeError("The tree shows no thumbnails.")
    before = 0
    while len(thumbnails) > before:
        before = len(thumbnails)
        await page.wait_for_timeout(2 * LOADING_MS)


async def _frames(page: Page, move: Move, x: float, y: float) -> list[float]:
    await page.mouse.move(x, y)
    await page.evaluate(WATCH_FRAMES)
    await move(page, x, y)
    frames: list[float] = await page.evaluate(TAKE_FRAMES)
    return frames[SKIPPED:]


async def _drag(page: Page, x: float, y: float) -> None:
    await page.mouse.move(x, y)
    await page.mouse.down()
    for step in range(120):
        await page.mouse.move(x + step * 2, y + step)
    for step in range(120):
        await page.mouse.move(x + 240 - step * 2, y + 120 - step)
    await page.mouse.up()


async def _zoom(page: Page, x: float, y: float) -> None:
    await page.mouse.move(x, y)
    for _ in range(120):
        await page.mouse.wheel(0, -20)
