"""A user opens the application, signs in, finds the pages and signs out."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import quote

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import sell, submit


async def test_a_user_signs_in_sees_the_frame_and_signs_out(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    await page.goto("/jobs")
    await expect(page).to_have_url(re.compile(r"/sign-in\?next="))
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "sign-in")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_text("Fill this in.")).to_have_count(2)
    await page.get_by_label("Email").fill(account.email)
    await page.get_by_role("button", name="Forgot your password?").click()
    await expect(page.get_by_text("This installation sends no mail.")).to_be_visible()
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


@pytest.mark.thorough
async def test_the_wallet_shows_no_balance_before_it_is_loaded(signed_in: Page) -> None:
    page = signed_in
    known = asyncio.Event()

    async def hold(route: Route) -> None:
        await known.wait()
        await route.continue_()

    # The stream of the tab sends the wallet, too.
    await page.route(re.compile(r"/api/(wallet|ai-jobs/stream)(\?|$)"), hold)
    await page.goto("/effects")
    navigation = page.get_by_role("navigation", name="Main").first
    await expect(navigation.get_by_text("Tokens", exact=True)).to_be_visible()
    await expect(navigation.get_by_text("None held")).to_have_count(0)
    known.set()
    await expect(navigation.get_by_text("None held")).to_be_visible()


PHONE = {"width": 360, "height": 740}


@pytest.mark.parametrize("page", [PHONE], indirect=True, ids=["360 px"])
async def test_every_page_can_be_reached_on_a_phone(signed_in: Page, stack: Stack) -> None:
    page = signed_in
    await page.goto("/")
    await expect(page).to_have_url(f"{stack.url}/effects")
    await expect(page.get_by_text("1,000 tokens")).to_be_visible()
    bar = page.get_by_role("navigation", name="Main")
    await bar.get_by_role("link", name="Account").click()
    await expect(page.get_by_role("heading", level=1, name="Account")).to_be_visible()
    wide = await page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["width"]
    await assert_accessible(page)


@pytest.mark.thorough
async def test_every_page_can_be_reached_by_keyboard(signed_in: Page, stack: Stack, screenshots: Screenshots) -> None:
    page = signed_in
    await page.goto("/jobs")
    await expect(page.get_by_role("heading", level=1, name="Jobs")).to_be_visible()
    await page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    await expect(keys).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "keys")
    await page.keyboard.press("Escape")
    await expect(keys).to_be_hidden()

    await page.keyboard.press("g")
    await page.keyboard.press("a")
    await expect(page).to_have_url(f"{stack.url}/account")

    await page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Command palette")
    await expect(palette.get_by_role("option", name="Imagine")).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "palette")
    await page.keyboard.type("imagi")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{stack.url}/effects/imagine")
    await expect(palette).to_be_hidden()


@pytest.mark.thorough
async def test_the_palette_finds_a_job_by_its_words_and_by_its_id(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    effect = await sell(stack, "Waits", is_served=False)
    job = await submit(stack, account, effect, prompt="an unmistakable lighthouse <b>at dusk</b>")
    await page.goto("/account")
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("combobox", name="Command palette").fill("unmistakable")
    found = page.get_by_role("dialog").get_by_role("option", name="an unmistakable lighthouse <b>at dusk</b>")
    await expect(found).to_be_visible()
    await expect(page.get_by_text("Nothing found.")).to_be_hidden()
    await assert_accessible(page)
    await screenshots.take(page, "palette-jobs")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{stack.url}/jobs/{job}")

    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Command palette").fill(job)
    await page.get_by_role("dialog").get_by_role("option", name=f"Open job {job}").click()
    await expect(page).to_have_url(f"{stack.url}/jobs/{job}")


@pytest.mark.thorough
async def test_the_chosen_theme_is_kept(signed_in: Page) -> None:
    page = signed_in
    await page.emulate_media(color_scheme="light")
    await page.goto("/effects")
    background = "getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(background)
    await page.get_by_role("button", name="Account").click()
    await page.get_by_role("menuitem", name="Dark").click()
    dark = await page.evaluate(background)
    assert dark != light
    await page.reload()
    assert await page.evaluate(background) == dark


@pytest.mark.thorough
async def test_an_unknown_path_shows_a_link_back(signed_in: Page, stack: Stack) -> None:
    page = signed_in
    await page.goto("/nowhere/at/all")
    await expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    await page.get_by_role("link", name="Go to effects").click()
    await expect(page).to_have_url(f"{stack.url}/effects")


async def test_signing_in_again_returns_to_the_same_page(signed_in: Page, stack: Stack, account: Account) -> None:
    page = signed_in
    await page.goto("/jobs?status=failed")
    await expect(page.get_by_text("Live", exact=True)).to_be_visible()
    # Signed out elsewhere: the live stream ends, and the tab learns it without being touched.
    await page.context.request.post("/api/auth/logout", headers={"x-csrf-token": await stack.csrf_token(page)})
    await expect(page.get_by_text(app_text("sign-in.signIn.sessionEnded"))).to_be_visible()
    await page.get_by_label("Email").fill(account.email)
    await page.get_by_label("Password").fill(account.password)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(re.compile(r"/jobs\?status=failed$"))


async def test_the_link_of_the_demo_opens_signed_in_once(page: Page, stack: Stack) -> None:
    await page.goto(stack.link)
    await expect(page).to_have_url(f"{stack.url}/effects")
    await expect(page.get_by_role("navigation", name="Main").first).to_be_visible()
    # Opened again by the same person it leads to the same place; by another one to the form.
    await page.goto(stack.link)
    await expect(page).to_have_url(f"{stack.url}/effects")
    known = [
        each for each in await page.context.cookies(f"{stack.url}/api/auth/demo") if each["name"] == "callsheet_demo"
    ]
    await page.context.clear_cookies()
    await page.goto("about:blank")
    await page.goto(stack.link)
    await expect(page.get_by_text(app_text("sign-in.signIn.linkUsed"))).to_be_visible()
    assert "once" not in page.url
    await expect(page.get_by_role("button", name="Enter the demo")).to_have_count(0)

    # A browser that has used the link, of the user who runs the demo: its account is one click away.
    await page.context.add_cookies(known)
    await page.reload()
    await page.get_by_role("button", name="Enter the demo").click()
    await expect(page).to_have_url(f"{stack.url}/effects")
    await expect(page.get_by_role("navigation", name="Main").first).to_be_visible()


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["//example.com/", "javascript:alert(1)"])
async def test_signing_in_never_redirects_to_another_site(
    page: Page, stack: Stack, account: Account, target: str
) -> None:
    await page.goto(f"/sign-in?next={quote(target, safe='')}")
    await page.get_by_label("Email").fill(account.email)
    await page.get_by_label("Password").fill(account.password)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(f"{stack.url}/effects")
