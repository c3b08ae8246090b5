"""An operator finds jobs of all tenants, sees which jobs fail, and retries many of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import PATIENCE_MS
from tests.browser.failing_jobs import failed_jobs
from tests.browser.operator_actions import (
    PHONE,
    audited,
    fits,
    holding,
    retry_a_thousand,
    rows_of,
    stop_retry,
    stopped_retry,
)
from tests.browser.page_errors import Watch
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import sell, submit

pytestmark = pytest.mark.thorough

MEMORY = [f"CUDA out of memory. Tried to allocate {number}.50 GiB on GPU 0" for number in range(2, 5)]
MODEL = "<b>dreamshaper_8.safetensors is not in the list of checkpoints"


async def test_an_operator_finds_jobs_by_their_error_and_shares_the_filter_as_a_link(
    page: Page, stack: Stack, chromium: Browser, watch: Watch, screenshots: Screenshots
) -> None:
    accounts = [await stack.new_account(), await stack.new_account()]
    slug, ids = await failed_jobs(stack, accounts, 4, [*MEMORY, MODEL])
    waiting = await submit(stack, accounts[0], await sell(stack, "Patient painting", is_served=False), prompt="hills")
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto("/operate")
    await page.get_by_role("navigation", name="Main").first.get_by_role("link", name="Jobs", exact=True).last.click()
    await expect(page.get_by_role("heading", name=app_text("all-jobs.allJobs.title"))).to_be_visible()
    await expect(rows_of(page).first).to_contain_text("Patient painting")
    await expect(rows_of(page).first).to_contain_text(accounts[0].email)
    await fits(page)
    await screenshots.take(page, "operate-jobs")

    # A row changes in place.
    async with stack.client(accounts[0].headers) as client:
        assert (await client.post(f"/api/ai-jobs/{waiting}/cancel")).is_success
    await expect(rows_of(page).first).to_contain_text("Canceled")
    # A new row says that it is there, and pushes nothing away.
    another = await submit(stack, accounts[1], "imagine", prompt="a lighthouse")
    await expect(rows_of(page).first).to_contain_text("Patient painting")
    await page.get_by_role("button", name="new job").click()
    await expect(rows_of(page).first.get_by_role("link").first).to_have_attribute("href", f"/operate/jobs/{another}")

    # Errors in groups: numbers differ, and it is one error.
    await page.get_by_role("radio", name="Errors").click()
    await page.get_by_role("combobox", name="Workflow").click()
    await page.get_by_role("option", name=slug).click()
    table = page.get_by_role("region", name="Errors")
    await expect(table.get_by_role("row")).to_have_count(3)
    await expect(table.get_by_role("row").nth(1)).to_contain_text("CUDA out of memory")
    await expect(table.get_by_role("row").nth(1).get_by_role("cell").nth(1)).to_have_text("6")
    await expect(table.get_by_role("row").nth(2)).to_contain_text("<b>dreamshaper_8.safetensors")
    await fits(page)
    await screenshots.take(page, "operate-errors")
    await table.get_by_role("link", name="CUDA out of memory").click()
    await expect(rows_of(page)).to_have_count(6)
    await expect(page.get_by_text(app_text("all-jobs.allJobs.group", "6", 2))).to_be_visible()
    await expect(page).to_have_url(re.compile(r"error=[0-9a-f%2]+"))
    await fits(page)
    await screenshots.take(page, "operate-jobs-error")

    # The link, in another browser.
    context = await chromium.new_context(base_url=stack.url, viewport=PHONE, locale="en-US", timezone_id="UTC")
    context.set_default_timeout(PATIENCE_MS)
    await watch.follow(context)
    other = await context.new_page()
    await stack.sign_in(other, await stack.new_account(role="viewer"))
    await other.goto(page.url)
    await expect(rows_of(other)).to_have_count(6)
    for tab in (page, other):
        links = await rows_of(tab).get_by_role("link").evaluate_all("all => all.map((link) => link.pathname)")
        assert sorted({link.rpartition("/")[2] for link in links if len(link) > len("/operate/jobs/")}) == sorted(
            ids[:3] + ids[4:7]
        )
    # A viewer selects nothing.
    await expect(other.get_by_role("checkbox")).to_have_count(0)
    await fits(other)
    await context.close()

    # An id in the search field is enough.
    await page.goto("/operate/jobs")
    await page.get_by_role("searchbox").fill(ids[0])
    await expect(rows_of(page)).to_have_count(1)
    await expect(rows_of(page).first).to_contain_text("CUDA out of memory")


async def test_a_link_shows_the_same_jobs_hours_later_for_each_filter(
    page: Page, stack: Stack, chromium: Browser, watch: Watch, screenshots: Screenshots
) -> None:
    accounts = [await stack.new_account(), await stack.new_account()]
    slug, ids = await failed_jobs(stack, accounts, 2, ["The engine stopped."])
    async with stack.client(stack.operator) as client:
        waiting = {"user_id": accounts[0].id, "workflow": slug, "payload": {}, "cost": 1, "kind": "tts"}
        spoken = (await client.post("/api/admin/jobs", json=waiting)).json()["id"]
        # The workers share a queue, so each takes jobs of both accounts.
        jobs = [(await client.get(f"/api/admin/jobs/{job_id}")).json() for job_id in ids]
    worker = jobs[0]["dispatch"]["worker_id"]
    of_worker = {job["id"] for job in jobs if job["dispatch"]["worker_id"] == worker}
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto("/operate/jobs")
    await choose(page, "Time", "Last hour")
    await expect(page.get_by_role("combobox", name="Time")).to_contain_text("Since")
    await choose(page, "Workflow", slug)
    links = {page.url: {*ids, spoken}}
    # The worker has left, so the list does not offer it.
    await page.goto(f"{page.url}&worker={worker}")
    await expect(rows_of(page)).to_have_count(len(of_worker))
    links[page.url] = of_worker
    await choose(page, "Worker", "Any worker")
    await choose(page, "Workflow", "Any workflow")
    await choose(page, "Tenant", accounts[0].email.partition("@")[0])
    links[page.url] = {*ids[:2], spoken}
    await choose(page, "Kind", "Speech")
    links[page.url] = {spoken}
    # A range that has an end, in the time zone of the operator.
    await choose(page, "Kind", "Any kind")
    await choose(page, "Time", "From … until …")
    dialog = page.get_by_role("dialog", name=app_text("all-jobs.allJobs.rangeTitle"))
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    await dialog.get_by_label("Until").fill(f"{tomorrow - timedelta(days=9):%Y-%m-%dT%H:%M}")
    await expect(dialog).to_contain_text(app_text("all-jobs.allJobs.untilWrong"))
    await fits(page)
    await screenshots.take(page, "operate-jobs-range")
    await dialog.get_by_label("Until").fill(f"{tomorrow:%Y-%m-%dT%H:%M}")
    await dialog.get_by_role("button", name="Show these jobs").click()
    await expect(page).to_have_url(re.compile("from=.*until="))
    links[page.url] = {*ids[:2], spoken}
    await screenshots.take(page, "operate-jobs-of-a-range")
    # A range of last week has none of them.
    week = {"from": tomorrow - timedelta(days=9), "until": tomorrow - timedelta(days=2)}
    times = "&".join(f"{name}={at:%Y-%m-%dT%H:%M}Z" for name, at in week.items())
    links[f"{stack.url}/operate/jobs?workflow={slug}&{times}"] = set()

    context = await chromium.new_context(base_url=stack.url, locale="en-US", timezone_id="Asia/Tokyo")
    context.set_default_timeout(PATIENCE_MS)
    await watch.follow(context)
    await context.clock.install(time=datetime.now(UTC) + timedelta(hours=3))
    other = await context.new_page()
    await stack.sign_in(other, await stack.new_account(role="viewer"))
    for link, expected in links.items():
        assert "time=" not in link
        await other.goto(link)
        if not expected:
            await expect(other.get_by_text("No job matches")).to_be_visible()
        else:
            await expect(rows_of(other)).to_have_count(len(expected))
            assert await shown_ids(other) == expected, link
    # A link that names the last hour gets the time at which this hour started.
    await page.goto(f"/operate/jobs?workflow={slug}&time=hour")
    await expect(page).to_have_url(re.compile("from="))
    await expect(rows_of(page)).to_have_count(5)
    await context.close()


async def choose(page: Page, field: str, value: str) -> None:
    before = page.url
    await page.get_by_role("combobox", name=field).click()
    await page.get_by_role("option", name=value, exact=True).click()
    if value != "From … until …":
        await page.wait_for_url(lambda url: url != before)


async def shown_ids(page: Page) -> set[str]:
    links = rows_of(page).get_by_role("link")
    found = await links.evaluate_all("all => all.map((link) => link.pathname)")
    return {path.rpartition("/")[2] for path in found if path != "/operate/jobs"}


@pytest.mark.parametrize("page", [PHONE], indirect=True)
async def test_the_chosen_status_is_in_sight_on_a_phone(page: Page, stack: Stack) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    for path in ("/operate/jobs", "/jobs"):
        await page.goto(f"{path}?status=canceled")
        chosen = page.get_by_role("group", name="Status").get_by_role("button", name="Canceled")
        await expect(chosen).to_be_in_viewport(ratio=0.9)


async def test_the_priority_of_selected_jobs_is_set_and_a_job_is_canceled(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    effect = await sell(stack, "Waiting in line", is_served=False)
    for _ in range(3):
        await submit(stack, account, effect, prompt="hills")
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/jobs?user={account.id}")
    await expect(rows_of(page)).to_have_count(3)
    bar = page.get_by_role("toolbar", name="Selected jobs")
    for number in range(2):
        await rows_of(page).nth(number).locator("label").click()
    await expect(bar).to_contain_text("2 selected")
    await expect(bar.get_by_role("button", name="Retry")).to_have_count(0)
    await bar.get_by_role("button", name="Set priority").click()
    dialog = page.get_by_role("dialog", name=app_text("all-jobs.allJobs.questions.set_priority", 2))
    await expect(dialog).to_contain_text("No tokens move")
    await dialog.get_by_role("textbox", name="Priority").fill("many")
    await expect(dialog).to_contain_text(app_text("all-jobs.allJobs.priorityWrong"))
    await dialog.get_by_role("textbox", name="Priority").fill("7")
    await fits(page)
    await screenshots.take(page, "operate-jobs-question")
    await dialog.get_by_role("button", name="Set priority").click()
    await expect(page.get_by_text(app_text("all-jobs.allJobs.counts", 2, "2"))).to_be_visible()
    await expect(rows_of(page).filter(has_text="Priority 7")).to_have_count(2)
    await rows_of(page).nth(0).locator("label").click()
    await bar.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancel 1 job?")
    await expect(dialog).to_contain_text("5 tokens")
    await dialog.get_by_role("textbox", name="Reason").fill("a test")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(rows_of(page).nth(0)).to_contain_text("Canceled")
    await page.get_by_role("radio", name="Bulk actions").click()
    actions = page.get_by_role("list", name="Bulk actions").get_by_role("listitem")
    await expect(actions.filter(has_text="1 selected job · a test")).to_contain_text("Completed")
    await expect(actions.filter(has_text=app_text("all-jobs.allJobs.toPriority", 7)).first).to_contain_text(
        app_text("all-jobs.allJobs.counts", 2, "2")
    )
    await fits(page)
    await screenshots.take(page, "operate-bulk-actions")


async def test_a_bulk_retry_of_a_thousand_jobs_is_stopped_half_way(
    page: Page, stack: Stack, screenshots: Screenshots
) -> None:
    accounts = [await stack.new_account() for _ in range(4)]
    slug, ids = await failed_jobs(stack, accounts, 250, ["The engine stopped."])
    assert len(ids) == 1000
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/jobs?status=failed&workflow={slug}")
    async with holding(stack, slug) as hold:
        running = await retry_a_thousand(page)
        await hold()
        await screenshots.take(page, "operate-bulk-running")
        await stop_retry(page, running)
    await expect(running).to_contain_text("Stopped by")
    await expect(running).to_contain_text("untouched")
    await assert_accessible(page)
    retried = (await stopped_retry(stack, slug)).retried
    assert {job["status"] for job in retried} <= {"pending", "queued"}
    await audited(stack)
