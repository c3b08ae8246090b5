"""A demo as a separate process, and a browser in which its operator has signed in."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, BrowserContext, ViewportSize, async_playwright

from bench.processes import callsheet_command, environment, stop
from callsheet.plumbing.http.server import free_address
from tools.chromium import ARGUMENTS, chromium_path

HOST = "127.0.0.1"
EMAIL = "admin@demo.example"
SIZE: ViewportSize = {"width": 1440, "height": 900}


@asynccontextmanager
async def demo(home: Path) -> AsyncIterator[str]:
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
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        yield running
        await running.close()


async def signed_in(running: Browser, url: str, home: Path) -> BrowserContext:
    """A browser profile of its own; the caller closes it, or the browser does."""
    password = (home / "demo/password").read_text().strip()
    context = await running.new_context(viewport=SIZE)
    response = await context.request.post(f"{url}/api/auth/login", data={"email": EMAIL, "password": password})
    if not response.ok:
        raise RuntimeError(f"Signing in failed: {await response.text()}")
    return context
