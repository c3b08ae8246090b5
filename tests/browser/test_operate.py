"""An operator sees how the installation does; other people find no such page."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Page, Route, expect

from callsheet import __version__
from tests.browser.accessibility import assert_accessible
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import ended, sell, submit

pytestmark = pytest.mark.thorough


async def test_the_overview_shows_waiting_jobs_and_links_to_them(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    effect = await sell(stack, "Unserved painting", is_served=False)
    await submit(stack, account, effect, prompt="a lighthouse")
    # Shares have a value where a job finished.
    served = await sell(stack, "Served painting")
    await ended(stack, account, await submit(stack, account, served, prompt="a lighthouse"))
    await page.goto("/operate")
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()

    # The alert names the workflow that nothing serves, and what to do.
    alerts = page.get_by_role("region", name="Alerts")
    await expect(alerts).to_contain_text("no live worker")
    await expect(alerts).to_contain_text("What to do")
    await alerts.get_by_text("What it means").first.click()
    await expect(alerts).to_contain_text("No approved worker that could run them")
    # Commands are shown as code, and the step is a page, not a call of the API.
    await expect(alerts.locator("code").filter(has_text="callsheet fleets assign").first).to_be_visible()
    await expect(alerts).to_contain_text("choose other fleets for the workflow: under Operate, Workflows")
    await expect(alerts).not_to_contain_text("/api/")
    # A chart is read aloud with its last values.
    queue = page.get_by_role("img", name="Queue. Waiting:")
    await expect(queue).to_be_visible()
    await expect(page.get_by_role("img", name="Tokens held. Held:")).to_be_visible()
    table = page.get_by_role("region", name="Workflows")
    await expect(table).to_contain_text("demo-")
    await assert_shares_have_values(page)

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


async def test_what_waits_is_read_on_a_phone_without_scrolling_sideways(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    effect = await sell(stack, "A very long name for a painting", is_served=True)
    async with stack.client(stack.operator) as client:
        [fleet] = (await client.get("/api/admin/fleets?slug=demo")).json()["items"]
    await ended(stack, account, await submit(stack, account, effect, prompt="a lighthouse"))
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.set_viewport_size({"width": 390, "height": 844})
    for name, path, words in (
        ("overview", "/operate", ("Waiting", "Running", "Oldest waits", "Live workers", "Failed")),
        ("fleet", f"/operate/fleets/{fleet['id']}", ("Can run it", "Waiting", "Oldest waits", "Running", "Run time")),
    ):
        await page.goto(path)
        region = page.get_by_role("region", name="Workflows")
        row = region.get_by_role("row").filter(has_text=effect)
        for word in words:
            # The name of the column is in front of the value.
            cell = row.locator(f'[data-name="{word}"]')
            await expect(cell).to_be_visible()
            assert await cell.evaluate("each => getComputedStyle(each, '::before').content") == f'"{word}"'
        assert await region.evaluate("each => each.scrollWidth <= each.clientWidth"), path
        await row.scroll_into_view_if_needed()
        await assert_accessible(page)
        await screenshots.take(page, f"phone-{name}-workflows")
    await page.goto("/operate/fleets")
    region = page.get_by_role("region", name="Fleets")
    await expect(region.get_by_role("row").filter(has_text="Demo").locator('[data-name="Waiting"]')).to_be_visible()
    assert await region.evaluate("each => each.scrollWidth <= each.clientWidth")
    await assert_accessible(page)


async def test_figures_of_the_overview_lead_to_the_lists_behind_them(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    broken = await sell(stack, "Broken painting", is_broken=True)
    failed = await submit(stack, account, broken, prompt="a lighthouse")
    assert (await ended(stack, account, failed))["error"]
    waiting = await submit(stack, account, await sell(stack, "Unserved painting", is_served=False), prompt="a pier")
    await stack.sign_in(page, await stack.new_account(role="operator"))
    jobs = page.get_by_role("list", name="Jobs")
    shown, other = jobs.locator(f'a[href*="{waiting}"]'), jobs.locator(f'a[href*="{failed}"]')

    async def follow(link: str, url: str) -> None:
        await page.goto("/operate?range=24h")
        await page.get_by_role("link", name=link).click()
        await expect(page).to_have_url(re.compile(rf"{url}$"))

    await follow("Show the jobs that wait", r"/operate/jobs\?status=queued")
    await expect(page.get_by_role("button", name="Waiting", pressed=True)).to_be_visible()
    await expect(shown.first).to_be_visible()
    await expect(other).to_have_count(0)
    await assert_accessible(page)
    await screenshots.take(page, "operate-jobs-waiting")
    await follow("Show the failed jobs of this time", r"/operate/jobs\?from=[^&]+&status=failed")
    await expect(other.first).to_be_visible()
    await expect(shown).to_have_count(0)
    await expect(page.get_by_role("combobox", name="Time")).to_contain_text("Since")
    await follow("Show the active jobs", r"/operate/jobs\?status=active")
    await expect(shown.first).to_be_visible()
    # Of one workflow, from its figures.
    await page.goto(f"/operate?workflow={broken}")
    await page.get_by_role("link", name=app_text("operate.operate.links.failed")).click()
    await expect(page).to_have_url(re.compile(f"workflow={broken}"))
    await expect(other.first).to_be_visible()
    workers = page.get_by_role("region", name="Workers")
    await follow("Show the idle workers", r"/operate/workers\?view=idle")
    await expect(workers).to_contain_text("demo, production")
    await follow("Show the busy workers", r"/operate/workers\?view=busy")
    await expect(page.get_by_text(app_text("workers.workers.none.busy"))).to_be_visible()


async def test_workers_are_searched_by_id_name_and_fleet(page: Page, stack: Stack, screenshots: Screenshots) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto("/operate/workers")
    workers = page.get_by_role("region", name="Workers")
    await expect(workers).to_contain_text("demo, production")
    search = page.get_by_role("searchbox", name=app_text("workers.workers.search"))
    # The server filters, not the page: it has thousands of workers.
    async with page.expect_response(re.compile(r"/api/admin/workers\?.*q=no-such-worker")) as filtered:
        await search.fill("no-such-worker")
    assert (await (await filtered.value).json())["items"] == []
    await expect(page.get_by_text(app_text("workers.workers.noneFound", "no-such-worker"))).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "operate-workers-not-found")
    await search.fill("DEMO")
    await expect(workers).to_contain_text("demo, production")
    await page.get_by_role("radio", name="All").click()
    await expect(page).to_have_url(f"{stack.url}/operate/workers?q=DEMO&view=all")
    await page.reload()
    await expect(search).to_have_value("DEMO")
    await expect(workers).to_contain_text("demo, production")
    await assert_accessible(page)
    await screenshots.take(page, "operate-workers-search")


@pytest.mark.parametrize("range_name", ["1 h", "24 h", "30 d"])
async def test_errors_and_idle_slots_are_drawn_in_every_range(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots, range_name: str
) -> None:
    effect = await sell(stack, "Broken painting", is_broken=True)
    assert (await ended(stack, account, await submit(stack, account, effect, prompt="a lighthouse")))["error"]
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate?workflow={effect}")
    await page.get_by_role("radio", name=range_name).click()
    # The only job of the workflow failed. Slots are those of all workers.
    await assert_shares_have_values(page, failed_share="100 %")
    await screenshots.take(page, f"operate-shares-{range_name.replace(' ', '')}")


async def test_charts_are_drawn_before_the_metrics_arrive(page: Page, stack: Stack) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    is_drawn = asyncio.Event()

    async def wait_for_charts(route: Route) -> None:
        await is_drawn.wait()
        await route.continue_()

    await page.route(re.compile("/api/admin/metrics"), wait_for_charts)
    await page.goto("/operate")
    await expect(page.get_by_role("img", name="Queue. Waiting:")).to_be_visible()
    await expect(page.get_by_text("Jobs per minute")).to_have_count(0)
    is_drawn.set()
    await expect(page.get_by_text("Jobs per minute")).to_be_visible()
    await page.unroute_all(behavior="ignoreErrors")


async def assert_shares_have_values(page: Page, failed_share: str = "") -> None:
    # A failed job is drawn as a count when its step is over, and as a share at once.
    errors = re.compile(rf"^Errors\. Failed: [0-9.K]+, Failed share: {failed_share or '[0-9.]+ %'}$")
    await expect(page.get_by_role("img", name=errors)).to_be_visible()
    idle = page.get_by_role("img", name=re.compile(r"^Engine idle share\. Idle: [0-9.]+ %$"))
    await expect(idle).to_be_visible()
    await expect(page.get_by_text(app_text("operate.operate.charts.engineIdleHelp"))).to_be_visible()


async def test_a_worker_is_drained_and_takes_jobs_again(page: Page, stack: Stack, screenshots: Screenshots) -> None:
    operator = await stack.new_account(role="operator")
    await stack.sign_in(page, operator)
    await page.goto("/operate/workers")
    table = page.get_by_role("region", name="Workers")
    agent = table.get_by_role("row").filter(has_text="demo, production")
    await expect(agent).to_contain_text("Idle")
    await assert_accessible(page)
    await screenshots.take(page, "operate-workers")
    await agent.get_by_role("button", name="Actions for").click()
    await page.get_by_role("menuitem", name="Drain").click()
    await expect(page.get_by_text(app_text("workers.workers.done.drain", ""))).to_be_visible()
    await expect(agent).to_contain_text("Drained")
    await expect(agent).to_contain_text(f"Drained by {operator.email}")
    await screenshots.take(page, "operate-workers-drained")
    await agent.get_by_role("button", name="Actions for").click()
    await page.get_by_role("menuitem", name="Undrain").click()
    await expect(agent).to_contain_text("Idle")
    # It is asked before a worker is revoked.
    await agent.get_by_role("button", name="Actions for").click()
    await page.get_by_role("menuitem", name="Revoke").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(app_text("workers.workers.revokeText"))
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


async def test_users_without_the_role_do_not_see_the_operate_area(signed_in: Page) -> None:
    page = signed_in
    await page.goto("/effects")
    navigation = page.get_by_role("navigation", name="Main").first
    await expect(navigation.get_by_role("link", name="Effects")).to_be_visible()
    await expect(navigation.get_by_role("link", name="Overview")).to_have_count(0)
    await page.goto("/operate")
    await expect(page.get_by_role("heading", name=app_text("operate.operate.notAllowed"))).to_be_visible()
    assert (await page.context.request.get("/api/admin/statistics")).status == 403
    await assert_accessible(page)


async def test_an_alert_is_on_every_page_of_an_operator_until_it_is_hidden(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    effect = await sell(stack, "Unserved drawing", is_served=False)
    await submit(stack, account, effect, prompt="a lighthouse")
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await show_only_alerts_of(page, effect)
    await page.goto("/effects")
    banner = page.get_by_role("region", name=app_text("operate.operate.banner.label"))
    # The control plane checks every 15 seconds, and the page asks as often.
    await expect(banner).to_contain_text("Critical")
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
    await page.unroute_all(behavior="ignoreErrors")


async def show_only_alerts_of(page: Page, workflow: str) -> None:
    """Jobs of other tests raise alerts at any time, and the banner shows a new alert also after others were hidden."""

    async def respond(route: Route) -> None:
        response = await route.fetch()
        found = await response.json()
        own = [alert for alert in found["alerts"] if workflow in alert["message"]]
        await route.fulfill(response=response, json={**found, "alerts": own})

    await page.route(re.compile("/api/admin/alerts"), respond)


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
    await page.get_by_role("region", name="Fleets").get_by_role("link", name="Demo", exact=True).click()
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
    await expect(page.get_by_role("dialog")).to_contain_text(app_text("fleets.fleet.tokens.shownText"))
    await page.get_by_role("dialog").get_by_role("button", name="Done").click()
    await expect(row).to_have_count(2)
    await row.first.get_by_role("button", name="Revoke image").click()
    await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(row.first).to_contain_text("Revoked")


async def test_a_viewer_sees_a_fleet_and_changes_nothing(page: Page, stack: Stack) -> None:
    await stack.sign_in(page, await stack.new_account(role="viewer"))
    await page.goto("/operate/fleets")
    await page.get_by_role("region", name="Fleets").get_by_role("link", name="Demo", exact=True).click()
    await expect(page.get_by_role("region", name="Workflows")).to_contain_text("demo-")
    await expect(page.get_by_role("button", name="Create token")).to_have_count(0)
    await assert_accessible(page)
