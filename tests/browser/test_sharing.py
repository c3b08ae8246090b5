"""A user shows a result to people without an account."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import ended, submit, upload

pytestmark = pytest.mark.thorough


async def test_a_public_link_shows_the_result_until_it_is_revoked(
    signed_in: Page, chromium: Browser, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    job_id = await submit(stack, account, "glow", await upload(stack, account, "beach-walk.png"))
    await ended(stack, account, job_id)
    await page.goto(f"/jobs/{job_id}")
    await page.get_by_role("button", name="Share").click()
    dialog = page.get_by_role("dialog", name="Share this result")
    await dialog.get_by_role("button", name="Create link").click()
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await dialog.get_by_role("button", name="Copy link").click()
    await expect(dialog.get_by_role("button", name="Copied")).to_be_visible()
    link = str(await page.evaluate("navigator.clipboard.readText()"))
    assert link == await dialog.get_by_label("Public link").input_value()
    assert link.startswith(f"{stack.url}/share/")
    await expect(dialog.get_by_text("Not opened yet")).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "share-dialog")

    # A stranger sees before and after, and nothing of the account.
    strangers = await chromium.new_context(base_url=stack.url)
    public = await strangers.new_page()
    requested: list[str] = []
    public.on("request", lambda request: requested.append(request.url))
    await public.goto(link)
    await expect(public.get_by_role("heading", level=1, name="Glow")).to_be_visible()
    await expect(public.get_by_role("slider", name=app_text("media.media.divider"))).to_be_visible()
    text = await public.locator("body").inner_text()
    assert account.email not in text
    assert "beach-walk" not in text
    assert job_id not in await public.content()
    assert all("/api/shares/" in url for url in requested if "/api/" in url), requested
    await assert_accessible(public)
    await screenshots.take(public, "share")

    await dialog.get_by_role("button", name="Revoke").click()
    # The question covers the list, so that the list is hidden before the link is revoked.
    async with page.expect_response(lambda response: response.request.method == "DELETE"):
        await page.get_by_role("dialog", name="Revoke this link?").get_by_role("button", name="Revoke").click()
    await expect(dialog.get_by_role("heading", name="Active links")).to_be_hidden()
    await public.reload()
    await expect(public.get_by_role("heading", level=1, name=app_text("share.share.endedTitle"))).to_be_visible()
    await assert_accessible(public)
    await strangers.close()


# What a browser does not have for a page that came by http from another machine.
NO_CLIPBOARD = 'Object.defineProperty(Navigator.prototype, "clipboard", { get: () => undefined })'


@pytest.mark.parametrize("script", ["", NO_CLIPBOARD], ids=["https or loopback", "http"])
async def test_the_url_of_a_job_page_shows_nothing_to_a_person_without_an_account(
    signed_in: Page, chromium: Browser, stack: Stack, account: Account, script: str
) -> None:
    page = signed_in
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.add_init_script(script)
    job_id = await submit(stack, account, "glow", await upload(stack, account, "beach-walk.png"))
    await ended(stack, account, job_id)
    await page.goto(f"/jobs/{job_id}")
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name=app_text("job.job.copyLink")).click()
    await expect(page.get_by_text(app_text("job.job.linkCopied"))).to_be_visible()
    # Pasted as people do it.
    await page.goto("/jobs")
    await page.get_by_role("searchbox").fill("")
    await page.keyboard.press("Control+V")
    assert await page.get_by_role("searchbox").input_value() == f"{stack.url}/jobs/{job_id}"

    strangers = await chromium.new_context(base_url=stack.url)
    public = await strangers.new_page()
    requested: list[str] = []
    public.on("response", lambda response: requested.append(response.url) if response.ok else None)
    await public.goto(f"{stack.url}/jobs/{job_id}")
    await expect(public).to_have_url(re.compile("/sign-in"))
    await expect(public.get_by_label("Password")).to_be_visible()
    text = await public.locator("body").inner_text()
    for private in (account.email, "beach-walk", "Glow"):
        assert private not in text
    assert not any(job_id in url for url in requested if "/api/" in url), requested
    await strangers.close()
