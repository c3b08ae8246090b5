"""How soon a person who is signed in sees the gallery of a demo: its largest contentful paint in a real browser.

The ceiling is the time of the browser itself: a page with one word, from a server that does nothing else.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Page

from bench.demo import HOST, browser, demo, signed_in
from bench.processes import fresh_home
from bench.results import Result

name = "web.gallery"
short = {"visits": 1}
TARGET_MS = 1000.0
WORD = b"<!doctype html><title>word</title><p>word</p>"
# The paint before any click or scroll. It is read 1.5 seconds after the page is loaded.
CONTENTFUL_PAINT = """() => new Promise((resolve) => new PerformanceObserver((list) => resolve(
    Math.max(...list.getEntries().map((entry) => entry.startTime))
)).observe({ type: "largest-contentful-paint", buffered: true }))"""


async def run(seconds: float, visits: int = 10) -> list[Result]:
    first, again, bare = list[float](), list[float](), list[float]()
    with fresh_home() as home:
        async with demo(home) as url, _word() as word, browser() as running:
            for _ in range(visits):
                context = await signed_in(running, url, home)
                page = await context.new_page()
                first.append(await _paint(page, f"{url}/effects"))
                again.append(await _paint(page, f"{url}/effects"))
                bare.append(await _paint(page, word))
                await context.close()
    ceiling = statistics.median(bare)
    return [
        Result(name=name, value=statistics.median(first), unit="ms", ceiling=ceiling, target=TARGET_MS),
        Result(name=f"{name}.again", value=statistics.median(again), unit="ms", ceiling=ceiling),
    ]


async def _paint(page: Page, url: str) -> float:
    await page.goto(url)
    # The stream of events stays open, so the browser never reports that all requests have ended.
    await page.wait_for_load_state("load")
    await page.wait_for_timeout(1500)
    milliseconds: float = await page.evaluate(CONTENTFUL_PAINT)
    return milliseconds


@asynccontextmanager
async def _word() -> AsyncIterator[str]:
    async def response(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(WORD)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + WORD)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(response, HOST, 0)
    async with server:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}/"
