"""How soon a person who is signed in sees the gallery of a demo: its largest contentful paint in a real browser.

The ceiling is what the browser itself needs: a page of one word, from a server that does nothing else.
"""

from __future__ import annotations

import asyncio
import statistics
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from bench.processes import callsheet_command, environment, fresh_home, stop
from bench.results import Result
from callsheet.plumbing.server import free_address
from tools.chromium import ARGUMENTS, chromium_path

name = "web.gallery"
short = {"visits": 1}
HOST = "127.0.0.1"
EMAIL = "admin@demo.example"
TARGET_MS = 1000.0
SIZE = {"width": 1440, "height": 900}
WORD = b"<!doctype html><title>word</title><p>word</p>"
# What was painted before anybody clicked or scrolled; asked for when nothing was loaded for half a second.
LARGEST_PAINT = """() => new Promise((resolve) => new PerformanceObserver((list) => resolve(
    Math.max(...list.getEntries().map((entry) => entry.startTime))
)).observe({ type: "largest-contentful-paint", buffered: true }))"""


async def run(seconds: float, visits: int = 10) -> list[Result]:
    first, again, bare = list[float](), list[float](), list[float]()
    with fresh_home() as home:
        async with _demo(home) as url, _word() as word, _browser() as browser:
            for _ in range(visits):
                async with _signed_in(browser, url, home) as context:
                    page = await context.new_page()
                    first.append(await _paint(page, f"{url}/effects"))
                    again.append(await _paint(page, f"{url}/effects"))
                    bare.append(await _paint(page, word))
    ceiling = statistics.median(bare)
    return [
        Result(name=name, value=statistics.median(first), unit="ms", ceiling=ceiling, target=TARGET_MS),
        Result(name=f"{name}.again", value=statistics.median(again), unit="ms", ceiling=ceiling),
    ]


async def _paint(page: Page, url: str) -> float:
    await page.goto(url)
    # The stream of events stays open, so there is no end of all requests to wait for.
    await page.wait_for_load_state("load")
    await page.wait_for_timeout(1500)
    milliseconds: float = await page.evaluate(LARGEST_PAINT)
    return milliseconds


@asynccontextmanager
async def _demo(home: Path) -> AsyncIterator[str]:
    port = (await free_address(HOST, 0))[1]
    process = await asyncio.create_subprocess_exec(
        *callsheet_command("demo", "--port", str(port)),
        env=environment(home),
        cwd=home.parent,
        stdout=PIPE,
        stderr=STDOUT,
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            if b"Callsheet is running" in line:
                break
        else:
            raise RuntimeError("The demo did not start.")
        rest = asyncio.create_task(process.stdout.read())
        yield f"http://{HOST}:{port}"
    finally:
        await stop(process)
    await rest


@asynccontextmanager
async def _word() -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(WORD)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + WORD)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, HOST, 0)
    async with server:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}/"


@asynccontextmanager
async def _browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        yield browser
        await browser.close()


@asynccontextmanager
async def _signed_in(browser: Browser, url: str, home: Path) -> AsyncIterator[BrowserContext]:
    password = (home / "demo/password").read_text().strip()
    context = await browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
    answer = await context.request.post(f"{url}/api/auth/login", data={"email": EMAIL, "password": password})
    if not answer.ok:
        raise RuntimeError(f"Signing in failed: {await answer.text()}")
    yield context
    await context.close()
