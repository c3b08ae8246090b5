"""Markup in names and prompts is text, wherever it is shown."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.browser.page_errors import Watch
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import ended, sell, submit, upload

pytestmark = pytest.mark.thorough
MARKUP = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
EFFECT, PROMPT, FILE = f"Evil {MARKUP}", f"prompt {MARKUP} <svg/onload=alert(3)>", "f<img src=x onerror=alert(4)>.png"


async def assert_text(page: Page, *texts: str) -> None:
    """Every one of them can be read as it was written, and none of them is anything else."""
    for text in texts:
        await expect(shown(page, text)).to_be_visible()
    assert await page.locator("img[src=x], svg[onload], script:not([src])").count() == 0


def shown(page: Page, text: str) -> Locator:
    return page.get_by_text(text).locator("visible=true").first


async def test_markup_stays_text_on_every_page(
    signed_in: Page, chromium: Browser, stack: Stack, account: Account, watch: Watch
) -> None:
    page = signed_in
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    effect = await sell(stack, EFFECT, takes_bytes=1_000_000)
    job_id = await submit(stack, account, effect, await upload(stack, account, FILE), prompt=PROMPT)
    assert (await ended(stack, account, job_id))["status"] == "completed"

    await page.goto("/effects?q=Evil")
    await assert_text(page, EFFECT)
    await page.goto(f"/effects/{effect}?from={job_id}")
    await assert_text(page, EFFECT, FILE)
    assert EFFECT in await page.title()
    await expect(page.get_by_role("textbox").first).to_have_value(PROMPT)
    await page.goto(f"/jobs/{job_id}")
    await assert_text(page, EFFECT, PROMPT)
    assert EFFECT in await page.title()
    for path in ("/jobs", f"/jobs?q={quote(MARKUP)}"):
        await page.goto(path)
        await assert_text(page, EFFECT, PROMPT)
    # A filter that the user received as a link.
    await page.goto(f"/jobs?effect={quote(MARKUP)}")
    await assert_text(page, MARKUP)
    await page.goto("/account")
    await assert_text(page, EFFECT)
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Command palette").fill("Evil")
    await expect(page.get_by_role("dialog").get_by_role("option").filter(has_text=EFFECT).first).to_be_visible()
    await assert_text(page)

    async with stack.client(account.headers) as client:
        link = (await client.post(f"/api/ai-jobs/{job_id}/shares", json={"show_prompt": True})).json()["url"]
    strangers = await chromium.new_context(base_url=stack.url)
    await watch.follow(strangers)
    public = await strangers.new_page()
    public.on("dialog", lambda dialog: dialogs.append(dialog.message))
    await public.goto(link)
    await assert_text(public, EFFECT, PROMPT)
    assert EFFECT in await public.title()
    await strangers.close()
    assert dialogs == []


async def test_markup_in_error_messages_stays_text(page: Page, stack: Stack) -> None:
    account = await stack.new_account(role="operator")
    await stack.sign_in(page, account)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    # Without a slash, which looks like a path of the worker and is left out of what people read.
    choice = 'Choice "><img src=x onerror=alert(5)>'
    effect = await sell(stack, EFFECT, is_broken=True, broken_choice=choice)
    job_id = await submit(stack, account, effect, prompt=PROMPT)
    await ended(stack, account, job_id)
    await page.goto(f"/jobs/{job_id}")
    await page.get_by_role("link", name=app_text("job.job.reported")).click()
    await assert_text(page, EFFECT, choice)
    await page.goto(f"/operate/jobs?user={account.id}")
    await assert_text(page, EFFECT, choice)
    assert dialogs == []


async def test_markup_in_what_workers_lack_stays_text(page: Page, stack: Stack) -> None:
    account = await stack.new_account(role="operator")
    await stack.sign_in(page, account)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    node = 'Node "><img src=x onerror=alert(6)>'
    effect = await sell(stack, EFFECT, missing_node=node)
    job_id = await submit(stack, account, effect, prompt=PROMPT)
    for path in (f"/jobs/{job_id}", f"/operate/jobs/{job_id}", f"/operate/workflows/{effect}"):
        await page.goto(path)
        await assert_text(page, EFFECT, node)
    assert dialogs == []
