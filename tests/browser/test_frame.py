"""Somebody comes, signs in, finds their way around and leaves."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect

from tests.browser.stack import Account, Stack


async def test_somebody_signs_in_sees_the_frame_and_signs_out(page: Page, stack: Stack, account: Account) -> None:
    await page.goto("/jobs")
    await expect(page).to_have_url(re.compile(r"/sign-in\?next="))
    await page.get_by_label("Email").fill(account.email)
    await page.get_by_label("Password").fill("not my password")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.get_by_label("Password").fill(account.password)
    await page.get_by_role("button", name="Sign in").click()

    # Back to the page that was asked for.
    await expect(page).to_have_url(f"{stack.url}/jobs")
    navigation = page.get_by_role("navigation", name="Main").first
    await expect(navigation.get_by_role("link", name="Jobs")).to_have_attribute("aria-current", "page")
    await expect(navigation.get_by_text("1,000", exact=True)).to_be_visible()
    await expect(navigation.get_by_text("Live", exact=True)).to_be_visible()

    await page.get_by_role("button", name="Account").click()
    await expect(page.get_by_text(account.email)).to_be_visible()
    await page.get_by_role("menuitem", name="Sign out").click()
    await expect(page).to_have_url(re.compile("/sign-in$"))
    await page.goto("/effects")
    await expect(page.get_by_label("Password")).to_be_visible()
