"""A user shows a result to people who have no account."""

from __future__ import annotations

from playwright.async_api import Browser, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.making import ended, submit, upload
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack


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
    link = await dialog.get_by_label("Public link").input_value()
    assert link.startswith(f"{stack.url}/share/")
    await expect(dialog.get_by_text("Not opened yet")).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "share-dialog")

    # A stranger sees before and after, and nothing of the account.
    strangers = await chromium.new_context(base_url=stack.url)
    public = await strangers.new_page()
    asked: list[str] = []
    public.on("request", lambda request: asked.append(request.url))
    await public.goto(link)
    await expect(public.get_by_role("heading", level=1, name="Glow")).to_be_visible()
    await expect(public.get_by_role("slider", name="Divider between before and after")).to_be_visible()
    text = await public.locator("body").inner_text()
    assert account.email not in text
    assert "beach-walk" not in text
    assert job_id not in await public.content()
    assert all("/api/shares/" in url for url in asked if "/api/" in url), asked
    await assert_accessible(public)
    await screenshots.take(public, "share")

    await dialog.get_by_role("button", name="Revoke").click()
    # The question covers the list, so that the list is hidden before the link is revoked.
    async with page.expect_response(lambda response: response.request.method == "DELETE"):
        await page.get_by_role("dialog", name="Revoke this link?").get_by_role("button", name="Revoke").click()
    await expect(dialog.get_by_role("heading", name="Links that work now")).to_be_hidden()
    await public.reload()
    await expect(public.get_by_role("heading", level=1, name="This link shows nothing")).to_be_visible()
    await assert_accessible(public)
    await strangers.close()
