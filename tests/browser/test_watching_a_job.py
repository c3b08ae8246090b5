"""A user watches a job until it ends, and downloads the result."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, Route, expect

from callsheet.wire.job_errors import SENTENCES
from tests.browser.accessibility import assert_accessible
from tests.browser.failing_jobs import let_fail
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import BROKEN_CHOICE, content_of, ended, sell, serve, submit, upload


async def test_a_user_watches_a_job_compares_and_downloads(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    file_id = await upload(stack, account)
    job_id = await submit(stack, account, "noir", file_id)
    await page.goto(f"/jobs/{job_id}")
    await expect(page.get_by_role("heading", level=1, name="Film noir on beach-walk.mp4")).to_be_visible()

    divider = page.get_by_role("slider", name=app_text("media.media.divider"))
    await expect(divider).to_be_visible()
    await divider.press("Home")
    await expect(divider).to_have_attribute("aria-valuenow", "0")
    timeline = page.get_by_role("list").filter(has_text=app_text("job.event.created", "2 tokens"))
    await expect(timeline.get_by_text("Completed")).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "job-completed")

    job = await ended(stack, account, job_id)
    async with page.expect_download() as downloading, stack.client() as client:
        await page.get_by_role("link", name="Download").click()
        made = await client.get(job["outputs"][0]["url"])
    download = await downloading.value
    assert download.suggested_filename == job["outputs"][0]["name"]
    assert content_of(await download.path()) == made.content

    again = page.get_by_role("link", name="Run again with changes")
    await expect(again).to_have_attribute("href", f"/effects/noir?from={job_id}")


async def test_a_job_that_failed_says_why_and_that_the_tokens_came_back(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    effect = await sell(stack, "Broken lens", is_broken=True)
    job_id = await submit(stack, account, effect, prompt="<img src=x onerror=alert(1)>")
    await page.goto(f"/jobs/{job_id}")
    await expect(page.get_by_text("This job failed")).to_be_visible()
    await expect(page.get_by_text(SENTENCES["invalid_workflow"]).first).to_be_visible()
    # The text of the engine is for operators.
    await expect(page.get_by_text(BROKEN_CHOICE)).to_have_count(0)
    await expect(page.get_by_role("link", name=app_text("job.job.reported"))).to_have_count(0)
    await expect(page.get_by_text(app_text("job.job.cameBack", "5 tokens")).first).to_be_visible()
    # Markup stays text.
    await expect(page.get_by_text("<img src=x onerror=alert(1)>")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Main").get_by_text("1,000", exact=True)).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "job-failed")

    await page.get_by_role("button", name=app_text("job.job.retryCosts", "5 tokens")).click()
    timeline = page.get_by_role("list").filter(has_text=app_text("job.event.created", "5 tokens"))
    await expect(timeline.get_by_text("Tried again")).to_be_visible()


async def test_a_job_that_failed_is_submitted_again_with_another_file(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    effect = await sell(stack, "Broken camera", is_served=False, takes_bytes=1_000_000)
    file_id = await upload(stack, account, "first.png")
    job_id = await submit(stack, account, effect, file_id, prompt="a lighthouse")
    await let_fail(stack, effect, "The camera is broken.")
    await page.goto(f"/jobs/{job_id}")
    await expect(page.get_by_role("button", name=app_text("job.job.retryCosts", "5 tokens"))).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "job-failed-with-a-file")
    await page.get_by_role("link", name=app_text("job.job.otherFile")).click()
    # The values are those of the failed job, and the file is to be chosen.
    await expect(page.get_by_role("textbox", name="Prompt")).to_have_value("a lighthouse")
    await expect(page.get_by_text("first.png")).to_have_count(0)
    await screenshots.take(page, "effect-another-file")
    await page.goto(f"/effects/{effect}?from={job_id}")
    await expect(page.get_by_text("first.png")).to_be_visible()


@pytest.mark.thorough
async def test_a_user_cancels_a_waiting_job_and_sees_the_refund(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    effect = await sell(stack, "Patient painting", is_served=False)
    job_id = await submit(stack, account, effect, prompt="a lighthouse in heavy rain")
    await page.goto(f"/jobs/{job_id}")
    stages = page.get_by_role("list", name="Stages")
    await expect(stages.get_by_role("listitem").first).to_have_attribute("aria-current", "step")
    await expect(page.get_by_text("No worker")).to_be_visible()
    wallet = page.get_by_role("navigation", name="Main")
    await expect(wallet.get_by_text("995", exact=True)).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "job-waiting")

    await page.get_by_role("button", name=app_text("job.job.cancelAndRefund", "5 tokens")).click()
    dialog = page.get_by_role("dialog", name="Cancel this job?")
    await expect(dialog).to_contain_text("your wallet gets 5 tokens back")
    await dialog.get_by_role("button", name="Cancel the job").click()
    await expect(page.get_by_text(app_text("job.job.canceledTitle"))).to_be_visible()
    await expect(page.get_by_text(app_text("job.job.cameBack", "5 tokens")).first).to_be_visible()
    await expect(wallet.get_by_text("1,000", exact=True)).to_be_visible()


@pytest.mark.thorough
async def test_previews_appear_during_the_render_and_the_image_can_be_enlarged(
    signed_in: Page, stack: Stack, account: Account
) -> None:
    page = signed_in
    # Ten images of 1,000 steps, and none before the page is open.
    effect = await sell(stack, "Patient painting", is_served=False, paintings=10)
    job_id = await submit(stack, account, effect, prompt="a lighthouse", steps=1000)
    await page.goto(f"/jobs/{job_id}")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Patient painting")
    await serve(stack, effect)
    preview = page.get_by_role("img", name=app_text("job.job.previewAlt"))
    await expect(preview).to_be_visible()
    await page.wait_for_function("image => image.naturalWidth > 0", arg=await preview.element_handle())
    await expect(page.get_by_role("progressbar", name="Progress")).to_have_attribute("aria-valuenow", re.compile("."))

    await page.get_by_role("button", name=app_text("media.media.openLarge")).click()
    large = page.get_by_role("dialog").get_by_role("img")
    await page.get_by_role("button", name="Zoom in").click()
    await expect(page.get_by_role("button", name="Zoom out")).to_be_visible()
    # Pixel by pixel.
    assert await large.evaluate("image => [image.width, image.naturalWidth]") == [256, 256]
    await assert_accessible(page)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.thorough
async def test_an_error_shows_a_request_id_to_quote(signed_in: Page, stack: Stack, account: Account) -> None:
    page = signed_in
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    job_id = await submit(stack, account, await sell(stack, "Waits", is_served=False), prompt="a lighthouse")

    async def refuse(route: Route) -> None:
        problem = {"title": "That is too much.", "status": 422, "code": "invalid_request", "request_id": "abc123"}
        await route.fulfill(status=422, content_type="application/problem+json", json=problem)

    await page.route(re.compile(r"/api/wallet/transactions"), refuse)
    await page.goto("/account")
    panel = page.get_by_role("alert").filter(has_text="That is too much.")
    await panel.get_by_role("button", name="Copy request id").click()
    assert await page.evaluate("navigator.clipboard.readText()") == "abc123"
    await page.goto(f"/jobs/{job_id}")
    await page.get_by_role("button", name="Copy job id").click()
    assert await page.evaluate("navigator.clipboard.readText()") == job_id


@pytest.mark.thorough
async def test_each_of_several_outputs_has_a_link(signed_in: Page, stack: Stack, account: Account) -> None:
    page = signed_in
    job_id = await submit(stack, account, await sell(stack, "Three views", images=3), prompt="a lighthouse")
    assert len((await ended(stack, account, job_id))["outputs"]) == 3
    await page.goto(f"/jobs/{job_id}")
    outputs = page.get_by_role("group", name="Outputs").get_by_role("button")
    await outputs.nth(1).click()
    await expect(page).to_have_url(re.compile(r"\?output=2$"))
    await page.reload()
    await expect(outputs.nth(1)).to_have_attribute("aria-pressed", "true")
    await expect(page.get_by_role("link", name="Download all")).to_be_visible()
    # One that is not there shows the first.
    await page.goto(f"/jobs/{job_id}?output=9")
    await expect(outputs.first).to_have_attribute("aria-pressed", "true")
