"""An installation of the size that operators have, in the browser: two control planes, ten workers, 50,000 jobs.

Each scenario leaves jobs that the next ones find. When all are done, no job may be lost and no token charged twice:
that is the end of the fixture `large`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.catalog import (
    add_seed_property,
    assert_accessible_at_top,
    create_effect,
    create_workflow,
    drop_export,
    find_effect,
    generate,
    publish,
    run_on_demo,
    run_test,
    unique,
)
from tests.browser.conftest import DESKTOP, PATIENCE_MS
from tests.browser.large_installation import JOBS, PATIENCE_SECONDS, LargeInstallation, Truth, large_installation
from tests.browser.operator_actions import (
    audited,
    holding,
    retry_a_thousand,
    rows_of,
    stop_retry,
    stopped_retry,
)
from tests.browser.page_errors import Watch
from tests.browser.runs import GLOW, IMAGINE, add_pipeline, start_run, waits
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import ended
from tests.browser.voting import open_comparison_by_keyboard, vote_by_keyboard
from tests.support.waiting import until

pytestmark = pytest.mark.thorough
# Label and value of each figure at the top of the overview, with the line below.
FIGURES = """() => Object.fromEntries([...document.querySelectorAll("main div.panel")]
  .filter((panel) => panel.querySelector(":scope > .num"))
  .map((panel) => [panel.children[0].textContent, [...panel.children].slice(1).map((line) => line.textContent)]))"""
# Cells of the rows of the table of workflows, by the name of the workflow.
WORKFLOWS = """() => Object.fromEntries([...document.querySelectorAll("[aria-label=Workflows] tbody tr")]
  .map((row) => [...row.cells].map((cell) => cell.textContent)).map(([name, ...cells]) => [name, cells]))"""


@pytest.fixture(scope="module")
async def large(_built: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LargeInstallation]:
    async with large_installation(tmp_path_factory.mktemp("large")) as installation:
        yield installation


@pytest.fixture(scope="module")
def stack(large: LargeInstallation) -> Stack:
    """Pages, accounts and watches of these tests are of the large installation."""
    return large.stack


@asynccontextmanager
async def another_browser(chromium: Browser, stack: Stack, watch: Watch) -> AsyncIterator[Page]:
    context = await chromium.new_context(base_url=stack.url, viewport=DESKTOP, locale="en-US", timezone_id="UTC")
    context.set_default_timeout(PATIENCE_MS)
    await watch.follow(context)
    yield await context.new_page()
    await context.close()


def compact(number: float) -> str:
    """As the page shows it."""
    if number < 999.95:
        return f"{number:.1f}".removesuffix(".0")
    return f"{number / 1000:.1f}".removesuffix(".0") + "K"


async def wrong_figures(page: Page, truth: Truth) -> list[str]:
    """What the overview says of this moment, whatever the range is, and the databases say differently."""
    shown: dict[str, list[str]] = await page.evaluate(FIGURES)
    expected = {
        "Waiting": [compact(truth.waiting), f"Running: {compact(truth.running)}"],
        "Workers busy": [f"{truth.busy_workers} of {truth.online_workers}"],
        "Tokens held": [compact(truth.tokens_held)],
    }
    return [
        f"{name}: {shown.get(name)}, not {lines}"
        for name, lines in expected.items()
        if shown.get(name, [])[: len(lines)] != lines
    ]


async def differences(page: Page, large: LargeInstallation, truth: Truth) -> list[str]:
    """Where the overview of the last hour says something else than the databases."""
    found = await wrong_figures(page, truth)
    shown: dict[str, list[str]] = await page.evaluate(FIGURES)
    all_finished = sum(completed + failed for completed, failed in truth.finished.values())
    per_minute = float(shown.get("Jobs per minute", ["-1"])[0])
    # The last minute is not over, and the figure has one decimal.
    if not all_finished / 60 - 0.1 <= per_minute <= all_finished / 59 + 0.1:
        found.append(f"Jobs per minute: {per_minute}, of {all_finished} jobs")
    rows: dict[str, list[str]] = await page.evaluate(WORKFLOWS)
    for workflow in (large.effect, large.failing):
        counted = [compact(number) for number in truth.finished.get(workflow, (0, 0))]
        cells = rows.get(workflow, [""] * 7)
        if cells[4:6] != counted:
            found.append(f"{workflow}: {cells}, not {counted}")
    return found


async def becomes_true(page: Page, large: LargeInstallation) -> None:
    """Nothing changes meanwhile: the workers hold their jobs."""
    found: list[str] = []

    async def is_true() -> bool:
        found[:] = await differences(page, large, await large.truth())
        return not found

    try:
        await until(is_true, PATIENCE_SECONDS, every=1)
    except TimeoutError:
        raise AssertionError(found) from None


async def test_the_overview_is_true_while_jobs_run_and_after_a_control_plane_was_killed(
    page: Page, large: LargeInstallation, stack: Stack, watch: Watch, screenshots: Screenshots
) -> None:
    large.balancer.prefer(large.second.settings.server.port)
    await stack.sign_in(page, await stack.new_account(role="operator"))
    large.fleet.hold()
    await large.submit_failing()
    await large.submit(200)
    await large.all_held()
    await page.goto("/operate")
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await becomes_true(page, large)
    await assert_accessible(page)
    await screenshots.take(page, "size-overview-queue")

    # Jobs run through both control planes, and one of them dies in the middle: the page goes on by the other.
    before = large.balancer.accepted[stack.port]
    watch.is_server_away = True
    large.fleet.release()
    await until(lambda: len(large.fleet.completed) + len(large.fleet.failed) >= 100, PATIENCE_SECONDS)
    await large.second.kill()
    await large.all_ended()
    assert large.balancer.accepted[stack.port] > before
    large.fleet.hold()
    await large.submit(40)
    await large.all_held()
    await becomes_true(page, large)
    await expect(page.get_by_role("status").filter(has_text="Reconnecting")).to_be_hidden()
    await large.second.start()
    watch.is_server_away = False

    # A month of jobs.
    await page.get_by_role("radio", name="30 d").click()
    await expect(page.get_by_role("region", name="Workflows")).to_contain_text("demo-imagine")

    async def are_counted() -> bool:
        rows: dict[str, list[str]] = await page.evaluate(WORKFLOWS)
        counted = sum(_number(cells[4]) + _number(cells[5]) for cells in rows.values())
        return counted > 0.95 * JOBS and not await wrong_figures(page, await large.truth())

    await until(are_counted, PATIENCE_SECONDS, every=1)
    await assert_accessible(page)
    await screenshots.take(page, "size-overview-month")
    large.fleet.release()
    await large.all_ended()


def _number(text: str) -> float:
    return float(text.removesuffix("K")) * (1000 if text.endswith("K") else 1)


async def test_a_link_to_a_filter_shows_the_same_rows_in_another_browser(
    page: Page, chromium: Browser, large: LargeInstallation, stack: Stack, watch: Watch, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto("/operate/jobs")
    await expect(rows_of(page).first).to_be_visible()
    await screenshots.take(page, "size-jobs")
    await page.get_by_role("button", name=re.compile("^Failed")).first.click()
    await page.get_by_role("combobox", name="Workflow").click()
    await page.get_by_role("option", name="demo-negative").click()
    await expect(page).to_have_url(re.compile("workflow=demo-negative"))
    await expect(rows_of(page).first).to_contain_text("Failed")
    await assert_accessible(page)
    await screenshots.take(page, "size-jobs-filtered")
    mine = await shown_jobs(page)
    assert len(mine) > 5
    # The other person is connected to the other control plane.
    large.balancer.prefer(large.second.settings.server.port)
    before = large.balancer.accepted[large.second.settings.server.port]
    async with another_browser(chromium, stack, watch) as other:
        await stack.sign_in(other, await stack.new_account(role="viewer"))
        await other.goto(page.url)
        await expect(rows_of(other).first).to_contain_text("Failed")
        assert await shown_jobs(other) == mine
        await assert_accessible(other)
    assert large.balancer.accepted[large.second.settings.server.port] > before


async def shown_jobs(page: Page) -> list[str]:
    """The ids of the rows on the page, newest first."""
    await expect(page.locator(".skeleton")).to_have_count(0)
    links: list[str] = await rows_of(page).get_by_role("link").evaluate_all("all => all.map((link) => link.pathname)")
    return list(dict.fromkeys(link for link in links if re.fullmatch(r"/operate/jobs/[0-9a-f-]{36}", link)))


async def test_a_bulk_retry_is_stopped_half_way_and_both_control_planes_show_it(
    page: Page, chromium: Browser, large: LargeInstallation, stack: Stack, watch: Watch, screenshots: Screenshots
) -> None:
    await large.submit_failing()
    await large.all_ended()
    # What is retried waits: the workers hold what they have.
    large.fleet.hold()
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/jobs?status=failed&workflow={large.failing}")
    await expect(rows_of(page).first).to_be_visible()
    large.balancer.prefer(large.second.settings.server.port)
    async with another_browser(chromium, stack, watch) as other:
        await stack.sign_in(other, await stack.new_account(role="operator"))
        await other.goto("/operate/jobs?view=actions")
        async with holding(stack, large.failing) as hold:
            running = await retry_a_thousand(page)
            await hold()
            await stop_retry(page, running)
        await expect(running).to_contain_text("Stopped by")
        await expect(running).to_contain_text("untouched")
        await assert_accessible(page)
        await screenshots.take(page, "size-bulk-stopped")
        stopped = await stopped_retry(stack, large.failing)
        assert {job["status"] for job in stopped.retried} <= {"pending", "queued", "processing"}
        await expect(running).to_contain_text(app_text("all-jobs.allJobs.counts", len(stopped.retried), "1,000"))
        actions = other.get_by_role("list", name="Bulk actions").get_by_role("listitem")
        await expect(actions.first).to_contain_text(app_text("all-jobs.allJobs.counts", len(stopped.retried), "1,000"))
        await expect(actions.first).to_contain_text("Stopped by")
        await assert_accessible(other)
        await screenshots.take(other, "size-bulk-actions")
    await audited(stack)
    large.fleet.release()
    await large.all_ended()


async def test_a_drained_worker_ends_its_job_and_leaves(
    page: Page, large: LargeInstallation, stack: Stack, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await large.all_ended()
    large.fleet.hold()
    await large.submit(20)
    await large.all_held()
    worker = large.fleet.workers[-1]
    await page.goto("/operate/workers")
    table = page.get_by_role("region", name="Workers")
    row = table.get_by_role("row").filter(has_text=worker.worker_id)
    await expect(table.get_by_role("row").filter(has_text="Busy")).to_have_count(10)
    await assert_accessible(page)
    await screenshots.take(page, "size-workers")
    await row.get_by_role("button", name="Actions for").click()
    await page.get_by_role("menuitem", name="Drain").click()
    await expect(page.get_by_text(app_text("workers.workers.done.drain", worker.worker_id))).to_be_visible()
    await expect(row).to_contain_text("Draining")
    # The job that it has is done by it, and it takes no other.
    completed = len(large.fleet.completed)
    large.fleet.release()
    await until(worker.left.is_set, PATIENCE_SECONDS)
    await large.all_ended()
    assert len(large.fleet.completed) == completed + 20
    await expect(row).to_have_count(0)
    await page.get_by_role("radio", name="Offline").click()
    await expect(row).to_contain_text("Offline")
    await assert_accessible(page)
    await row.get_by_role("link").first.click()
    await expect(page.get_by_role("region", name="Sessions")).to_contain_text("drained")
    details = page.get_by_role("region", name="Details")
    await expect(details).to_contain_text("render-farm, production")
    # What its last session does not keep is not made up.
    await expect(details).not_to_contain_text("with the shared secret")
    await assert_accessible(page)
    await screenshots.take(page, "size-worker-gone")


async def test_a_workflow_is_imported_tested_sold_and_bought_by_another_person(
    page: Page,
    chromium: Browser,
    large: LargeInstallation,
    stack: Stack,
    account: Account,
    watch: Watch,
    screenshots: Screenshots,
) -> None:
    slug, name = unique("fog"), f"Fog {unique('harbour')}"
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto("/operate/workflows")
    await expect(page.get_by_role("region", name="Workflows")).to_contain_text("demo-")
    await create_workflow(page, await drop_export(page, slug, name), name)
    await add_seed_property(page)
    bar = page.get_by_role("region", name="Unsaved changes")
    await bar.get_by_role("button", name="Review").click()
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(page.get_by_text(f"{name} is saved.")).to_be_visible()
    await run_on_demo(page)
    await page.get_by_role("tab", name="Graph and form").click()
    await run_test(page, "Paint", "a lighthouse in the fog")
    await assert_accessible_at_top(page)
    await screenshots.take(page, "size-workflow")
    await create_effect(page, name)
    await publish(page, name, price=7)
    await assert_accessible_at_top(page)

    large.balancer.prefer(large.second.settings.server.port)
    async with another_browser(chromium, stack, watch) as buyer:
        await stack.sign_in(buyer, account)
        await find_effect(buyer, name)
        await expect(buyer.get_by_role("heading", level=1, name=name)).to_be_visible()
        await assert_accessible_at_top(buyer)
        job = await ended(stack, account, await generate(buyer, "Paint", "a ferry in the fog"))
        large.accepted.append(job["id"])
        assert (job["status"], job["cost"]) == ("completed", 7)
        await expect(buyer.get_by_role("link", name="Download").first).to_be_visible()
        await expect(buyer.get_by_role("main").get_by_role("img").first).to_be_visible()
        await assert_accessible_at_top(buyer)
        await screenshots.take(buyer, "size-bought")
        await buyer.goto("/account")
        await expect(buyer.get_by_role("main")).to_contain_text("993")
        await assert_accessible(buyer)
    async with stack.client(account.headers) as client:
        lines = (await client.get("/api/wallet/transactions")).json()["items"]
    assert [line["amount"] for line in lines if line["type"] == "JOB_RESERVE"] == [-7]


async def test_a_run_is_voted_to_its_winner_by_keyboard(signed_in: Page, stack: Stack, account: Account) -> None:
    pipeline = await add_pipeline(stack, account, "Landscapes", {**IMAGINE, "max_children": 4}, GLOW)
    run_id = await start_run(stack, account, pipeline, "Dunes", target_leaves=4)
    await waits(stack, account, run_id)
    await open_comparison_by_keyboard(signed_in, "Dunes", leaves=4)
    await vote_by_keyboard(signed_in, favourite=4, pairs=6)
    await assert_accessible(signed_in)
    async with stack.client(account.headers) as client:
        winners = (await client.get(f"/api/runs/{run_id}/winners")).json()
    assert winners[0]["number"] == 4
