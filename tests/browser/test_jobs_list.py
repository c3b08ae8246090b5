"""A user looks through the list of jobs, and acts on several jobs at once."""

from __future__ import annotations

import io
import re
import zipfile

import pytest
from playwright.async_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import content_of, ended, sell, submit

pytestmark = pytest.mark.thorough


async def test_the_list_updates_searches_and_acts_on_several_jobs(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    await page.goto("/jobs")
    await expect(page.get_by_text("Nothing here yet")).to_be_visible()
    waiting = await sell(stack, "Patient painting", is_served=False)
    lighthouse = await submit(stack, account, "imagine", prompt="a lighthouse in the rain")
    await ended(stack, account, lighthouse)
    rows = page.get_by_role("list", name="Jobs").get_by_role("listitem")

    await expect(rows).to_have_count(1)
    await expect(rows.first).to_contain_text("Completed")

    # New rows announce themselves; those that are there stay where they are.
    hills = await submit(stack, account, waiting, prompt="<b>hills</b> at dawn")
    await expect(page.get_by_role("button", name="1 new job")).to_be_visible()
    await expect(rows).to_have_count(1)
    await page.get_by_role("button", name="1 new job").click()
    await expect(rows).to_have_count(2)
    await expect(rows.first).to_contain_text("<b>hills</b> at dawn")
    await assert_accessible(page)
    await screenshots.take(page, "jobs")

    # A row changes in place.
    async with stack.client(account.headers) as client:
        await client.post(f"/api/ai-jobs/{hills}/cancel")
    await expect(rows.first).to_contain_text("Canceled")

    # The search text is part of the URL.
    await page.get_by_role("searchbox").fill("LIGHTHOUSE rain")
    await expect(page).to_have_url(re.compile(r"\?q="))
    await expect(rows).to_have_count(1)
    await page.reload()
    await expect(rows).to_have_count(1)
    await page.get_by_role("button", name="Clear filters").last.click()
    await page.get_by_role("button", name="Canceled", exact=False).click()
    await expect(rows).to_have_count(1)
    await page.get_by_role("button", name="All", exact=False).first.click()
    await expect(rows).to_have_count(2)

    # J and K move, X selects.
    for key in ("j", "x", "j", "x"):
        await page.keyboard.press(key)
    bar = page.get_by_role("toolbar", name="Selected jobs")
    await expect(bar).to_contain_text("2 selected")
    await assert_accessible(page)
    async with page.expect_download() as downloading:
        await bar.get_by_role("link", name="Download").click()
    archive = zipfile.ZipFile(io.BytesIO(content_of(await (await downloading.value).path())))
    assert len([name for name in archive.namelist() if name.endswith(".png")]) == 1
    await bar.get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog", name="Delete 2 jobs?").get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("Nothing here yet")).to_be_visible()
    await page.goto(f"/jobs/{hills}")
    await expect(page.get_by_role("heading", name="Job not found")).to_be_visible()


async def test_several_jobs_are_canceled_and_retried_after_the_page_showed_the_cost(
    signed_in: Page, stack: Stack, account: Account
) -> None:
    page = signed_in
    waiting = await sell(stack, "Patient painting", is_served=False)
    broken = await sell(stack, "Broken lens", is_broken=True)
    for number in range(2):
        await submit(stack, account, waiting, prompt=f"hills {number}")
        await ended(stack, account, await submit(stack, account, broken, prompt=f"hills {number}"))
    await page.goto("/jobs")
    rows = page.get_by_role("list", name="Jobs").get_by_role("listitem")
    await expect(rows).to_have_count(4)
    wallet = page.get_by_role("navigation", name="Main").get_by_role("link", name="Tokens")
    await expect(wallet).to_contain_text("990")

    await page.get_by_role("button", name="Select").click()
    await page.get_by_role("button", name="Select all loaded").click()
    bar = page.get_by_role("toolbar", name="Selected jobs")
    await bar.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancel 2 jobs?")
    await expect(dialog).to_contain_text("10 tokens")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_text("2 jobs canceled.")).to_be_visible()
    await expect(wallet).to_contain_text("1,000")

    await page.get_by_role("button", name="Failed", exact=False).click()
    await expect(rows).to_have_count(2)
    for key in ("j", "x", "j", "x"):
        await page.keyboard.press(key)
    await bar.get_by_role("button", name="Try again").click()
    dialog = page.get_by_role("dialog", name=app_text("jobs.jobs.retryTitle", 2))
    await expect(dialog).to_contain_text(app_text("jobs.jobs.retryText", "10 tokens"))
    await assert_accessible(page)
    await dialog.get_by_role("button", name="Keep them").click()
    await expect(rows.get_by_text("Failed")).to_have_count(2)
    await bar.get_by_role("button", name="Try again").click()
    await dialog.get_by_role("button", name="Try again").click()
    await expect(page.get_by_text("2 jobs started again.")).to_be_visible()
