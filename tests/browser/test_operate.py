"""An operator sees how the installation does; other people find no such page."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from callsheet import __version__
from tests.browser.accessibility import assert_accessible
from tests.browser.making import sell, submit
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack

pytestmark = pytest.mark.thorough


async def test_the_overview_shows_what_waits_and_follows_the_link(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    effect = await sell(stack, "Unserved painting", is_served=False)
    await submit(stack, account, effect, prompt="a lighthouse")
    await page.goto("/operate")
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()

    # The alert names the workflow that nothing serves, and what to do.
    alerts = page.get_by_role("region", name="Alerts")
    await expect(alerts).to_contain_text("no live worker")
    await expect(alerts).to_contain_text("What to do")
    await alerts.get_by_text("What it means").first.click()
    await expect(alerts).to_contain_text("No approved worker that could run them")
    # A chart is read aloud with its last values.
    queue = page.get_by_role("img", name="Queue. Waiting:")
    await expect(queue).to_be_visible()
    await expect(page.get_by_role("img", name="Tokens held. Held:")).to_be_visible()
    table = page.get_by_role("region", name="Workflows")
    await expect(table).to_contain_text("demo-")

    # The URL has the range and the workflow: another person sees the same.
    await page.get_by_role("radio", name="24 h").click()
    await table.get_by_role("link", name="demo-negative").click()
    await expect(page).to_have_url(f"{stack.url}/operate?range=24h&workflow=demo-negative")
    await expect(page.get_by_role("combobox", name="Workflow")).to_contain_text("demo-negative")
    await page.reload()
    await expect(page.get_by_role("radio", name="24 h")).to_be_checked()
    await expect(page.get_by_role("combobox", name="Workflow")).to_contain_text("demo-negative")
    await assert_accessible(page)
    await page.goto("/operate")
    await expect(queue).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "operate")


async def test_a_worker_is_drained_and_takes_jobs_again(page: Page, stack: Stack, screenshots: Screenshots) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto("/operate/workers")
    table = page.get_by_role("region", name="Workers")
    agent = table.get_by_role("row").filter(has_text="demo, production")
    await expect(agent).to_contain_text("Idle")
    await assert_accessible(page)
    await screenshots.take(page, "operate-workers")
    await agent.get_by_role("button", name="Actions for").click()
    await page.get_by_role("menuitem", name="Drain").click()
    await expect(page.get_by_text("takes no new job. What it runs goes on.")).to_be_visible()
    await expect(agent).to_contain_text("Drained")
    await expect(agent).to_contain_text("Drained by")
    await agent.get_by_role("button", name="Actions for").click()
    await page.get_by_role("menuitem", name="Undrain").click()
    await expect(agent).to_contain_text("Idle")
    # It is asked before a worker is revoked.
    await agent.get_by_role("button", name="Actions for").click()
    await page.get_by_role("menuitem", name="Revoke").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Jobs that it runs are queued again")
    await dialog.get_by_role("button", name="Keep it").click()
    await expect(agent).to_contain_text("Idle")
    await page.get_by_role("radio", name="Offline").click()
    await expect(page).to_have_url(f"{stack.url}/operate/workers?view=silent")


async def test_a_viewer_sees_workers_and_changes_nothing(page: Page, stack: Stack) -> None:
    await stack.sign_in(page, await stack.new_account(role="viewer"))
    await page.goto("/operate/workers")
    table = page.get_by_role("region", name="Workers")
    await expect(table).to_contain_text("demo, production")
    await expect(table.get_by_role("button")).to_have_count(0)


async def test_people_without_the_role_find_no_operate(signed_in: Page) -> None:
    page = signed_in
    await page.goto("/effects")
    navigation = page.get_by_role("navigation", name="Main").first
    await expect(navigation.get_by_role("link", name="Effects")).to_be_visible()
    await expect(navigation.get_by_role("link", name="Overview")).to_have_count(0)
    await page.goto("/operate")
    await expect(page.get_by_role("heading", name="Only operators see this page")).to_be_visible()
    assert (await page.context.request.get("/api/admin/statistics")).status == 403
    await assert_accessible(page)


async def test_an_alert_is_on_every_page_of_an_operator_until_it_is_hidden(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    effect = await sell(stack, "Unserved drawing", is_served=False)
    await submit(stack, account, effect, prompt="a lighthouse")
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto("/effects")
    banner = page.get_by_role("region", name="Alerts of the installation")
    # The control plane checks every 15 seconds, and the page asks as often.
    await expect(banner).to_contain_text("Critical", timeout=60_000)
    await assert_accessible(page)
    await screenshots.take(page, "alert-banner")
    await banner.get_by_role("link", name="Show alerts").click()
    await expect(page.get_by_role("region", name="Alerts", exact=True)).to_contain_text("What to do")
    await expect(banner).to_be_hidden()
    await page.goto("/jobs")
    await banner.get_by_role("button", name="Hide these alerts").click()
    await expect(banner).to_be_hidden()
    await page.reload()
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    await expect(banner).to_be_hidden()


async def test_a_worker_shows_its_job_versions_sessions_and_how_busy_it_was(
    page: Page, stack: Stack, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto("/operate/workers")
    table = page.get_by_role("region", name="Workers")
    await table.get_by_role("row").filter(has_text="demo, production").get_by_role("link").first.click()
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    details = page.get_by_role("region", name="Details")
    await expect(details).to_contain_text("self_hosted")
    await expect(details.get_by_text("Agent").locator("..")).to_contain_text(__version__)
    await expect(page.get_by_role("region", name="Sessions")).to_contain_text("Open")
    # The server samples once a minute, and the page asks as often.
    await expect(page.get_by_role("img", name="Utilisation. Busy")).to_be_visible(timeout=180_000)
    await assert_accessible(page)
    await screenshots.take(page, "operate-worker")
    await details.get_by_role("link", name="demo, production").click()
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await expect(page).to_have_url(re.compile(r"/operate/fleets/\d+$"))


async def test_a_registration_token_is_shown_once_rotated_and_revoked(
    page: Page, stack: Stack, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto("/operate/fleets")
    await expect(page.get_by_role("region", name="Fleets")).to_contain_text("Serves")
    await assert_accessible(page)
    await screenshots.take(page, "operate-fleets")
    await page.get_by_role("region", name="Fleets").get_by_role("link").first.click()
    await expect(page.get_by_role("region", name="Workflows")).to_contain_text("demo-")
    await page.get_by_role("button", name="Create token").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("image <b>7</b>")
    await dialog.get_by_role("button", name="Create token").click()
    command = dialog.get_by_text("callsheet worker --url")
    await expect(command).to_contain_text(stack.url)
    token = (await command.inner_text()).split("FLEET_SECRET=")[1].split()[0]
    await dialog.get_by_role("button", name="Done").click()
    row = page.get_by_role("row").filter(has_text="image <b>7</b>")
    await expect(row).to_contain_text("Accepted")
    assert token not in await page.content()
    await assert_accessible(page)
    await screenshots.take(page, "operate-fleet")
    await row.get_by_role("button", name="Rotate image").click()
    await expect(page.get_by_role("dialog")).to_contain_text("accepted for one more day")
    await page.get_by_role("dialog").get_by_role("button", name="Done").click()
    await expect(row).to_have_count(2)
    await row.first.get_by_role("button", name="Revoke image").click()
    await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(row.first).to_contain_text("Revoked")


async def test_a_viewer_sees_a_fleet_and_changes_nothing(page: Page, stack: Stack) -> None:
    await stack.sign_in(page, await stack.new_account(role="viewer"))
    await page.goto("/operate/fleets")
    await page.get_by_role("region", name="Fleets").get_by_role("link").first.click()
    await expect(page.get_by_role("region", name="Workflows")).to_contain_text("demo-")
    await expect(page.get_by_role("button", name="Create token")).to_have_count(0)
    await assert_accessible(page)
