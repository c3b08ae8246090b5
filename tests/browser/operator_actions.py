"""Operators' actions on jobs in the browser, and checks of the API and the ledger."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import UUID

from playwright.async_api import Locator, Page, ViewportSize, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import DESKTOP
from tests.browser.job_history import databases_of
from tests.browser.stack import Stack
from tests.browser.texts import app_text
from tests.support.waiting import until

PHONE: ViewportSize = {"width": 390, "height": 844}


async def listed(stack: Stack, **wanted: Any) -> list[dict[str, Any]]:
    """All jobs of a filter, by the API."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    async with stack.client(stack.operator) as client:
        while True:
            page = (await client.get("/api/admin/jobs", params={**wanted, **cursor, "limit": 200})).json()
            found += page["items"]
            if page["next_cursor"] is None:
                return found
            cursor = {"cursor": page["next_cursor"]}


async def audited(stack: Stack) -> None:
    """Every balance is the sum of its transactions, and every job is charged once."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CALLSHEET_", "PG"))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "callsheet", "wallet", "audit"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=stack.home.parent,
        env={**kept, "CALLSHEET_HOME": str(stack.home)},
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


def rows_of(page: Page) -> Locator:
    return page.get_by_role("list", name="Jobs").get_by_role("listitem")


async def fits(page: Page) -> None:
    """At both widths, in both themes."""
    for size in (PHONE, DESKTOP):
        await page.set_viewport_size(size)
        assert await page.evaluate("document.documentElement.scrollWidth") <= size["width"], size
        await assert_accessible(page)


async def retry_a_thousand(page: Page) -> Locator:
    """Retries the 1,000 jobs of the filter that the page shows; returns where the progress is, once some are done."""
    await rows_of(page).first.locator("label").click()
    bar = page.get_by_role("toolbar", name="Selected jobs")
    await bar.get_by_role("button", name="Select all 1,000").click()
    await expect(bar).to_contain_text(app_text("all-jobs.allJobs.all", "1,000"))
    await bar.get_by_role("button", name="Retry").click()
    dialog = page.get_by_role("dialog", name="Retry 1,000 jobs?")
    await expect(dialog).to_contain_text("reserves 1,000 tokens")
    await dialog.get_by_role("button", name="Retry").click()
    running = page.get_by_role("region", name="Bulk actions")
    await expect(running).to_contain_text("of 1,000 done")
    await expect(running.get_by_text(re.compile(r"^[1-9]\d* of 1,000 done"))).to_be_visible()
    return running


@asynccontextmanager
async def holding(stack: Stack, workflow: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Yields a function that locks the jobs of the workflow that were not retried yet: their retry waits until the
    block ends. Without it a fast machine would retry all jobs before a test stops it."""
    ids = [UUID(job["id"]) for job in await listed(stack, workflow=workflow)]
    async with databases_of(stack) as (_, pool), pool.transaction():

        async def hold() -> None:
            untouched = "SELECT id FROM ai_jobs WHERE id = ANY($1) AND charge_cycle = 1 FOR UPDATE SKIP LOCKED"
            assert await pool.fetch(untouched, ids)

        yield hold


async def stop_retry(page: Page, running: Locator) -> None:
    async with page.expect_response(re.compile(r"/api/admin/bulk-actions/[^/]+/stop$")):
        await running.get_by_role("button", name="Stop Retry").click()


class StoppedRetry(NamedTuple):
    action: dict[str, Any]
    retried: list[dict[str, Any]]
    untouched: list[dict[str, Any]]


async def stopped_retry(stack: Stack, workflow: str) -> StoppedRetry:
    """A bulk retry of 1,000 jobs that was stopped: every job was retried once, or was left as it was."""
    action: dict[str, Any] = {}
    jobs: list[dict[str, Any]] = []

    # The batch that was under way is counted when it is done.
    async def is_counted() -> bool:
        async with stack.client(stack.operator) as client:
            shown = (await client.get("/api/admin/bulk-actions")).json()["items"]
        action.update(next(each for each in shown if each["filter"]["workflow"] == [workflow]))
        jobs[:] = await listed(stack, workflow=workflow)
        return bool(action["done"] == sum(job["charge_cycle"] == 2 for job in jobs))

    await until(is_counted)
    retried = [job for job in jobs if job["charge_cycle"] == 2]
    untouched = [job for job in jobs if job["charge_cycle"] == 1]
    assert len(retried) + len(untouched) == len(jobs) == 1000
    assert (action["state"], action["total"], action["refused"]) == ("stopped", 1000, 0)
    assert (action["done"], action["untouched"]) == (len(retried), len(untouched))
    assert 0 < len(retried) < 1000
    assert {job["status"] for job in untouched} == {"failed"}
    return StoppedRetry(action, retried, untouched)
