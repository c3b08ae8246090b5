"""Pages recover by themselves: reloads, a control plane that dies, several tabs, phones, many jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.page_errors import Watch
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import sell, submit, upload

pytestmark = pytest.mark.thorough
PHONE = {"width": 360, "height": 740}


async def test_a_reload_in_the_middle_shows_the_job_as_it_is(signed_in: Page, stack: Stack, account: Account) -> None:
    page = signed_in
    effect = await sell(stack, "Patient painting")
    job_id = await submit(stack, account, effect, prompt="a lighthouse", steps=200)
    await page.goto(f"/jobs/{job_id}")
    await expect(page.get_by_role("list", name="Stages").get_by_text("Rendering")).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("Completed").first).to_be_visible()
    await expect(page.get_by_role("link", name="Download")).to_be_visible()


async def test_two_tabs_show_the_same(signed_in: Page, stack: Stack, account: Account) -> None:
    page = signed_in
    effect = await sell(stack, "Patient painting", is_served=False)
    job_id = await submit(stack, account, effect, prompt="a lighthouse")
    other = await page.context.new_page()
    for tab in (page, other):
        await tab.goto(f"/jobs/{job_id}")
        await expect(tab.get_by_role("button", name=app_text("job.job.cancelAndRefund", "5 tokens"))).to_be_visible()
    await page.get_by_role("button", name=app_text("job.job.cancelAndRefund", "5 tokens")).click()
    await page.get_by_role("button", name="Cancel the job").click()
    for tab in (page, other):
        await expect(tab.get_by_text(app_text("job.job.canceledTitle"))).to_be_visible()
        await expect(tab.get_by_role("navigation", name="Main").get_by_text("1,000", exact=True)).to_be_visible()


@pytest.mark.parametrize("page", [PHONE], indirect=True, ids=["360 px"])
async def test_a_phone_shows_jobs_and_results(signed_in: Page, stack: Stack, account: Account) -> None:
    page = signed_in
    job_id = await submit(stack, account, "glow", await upload(stack, account, f"{'a-long-name-' * 8}.png"))
    for path, visible in (
        (f"/jobs/{job_id}", page.get_by_role("slider", name=app_text("media.media.divider"))),
        ("/jobs", page.get_by_role("list", name="Jobs").get_by_text("Glow")),
        ("/account", page.get_by_text("Tokens added")),
        ("/account?tab=security", page.get_by_text("This browser")),
    ):
        await page.goto(path)
        await expect(visible.first).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        await assert_accessible(page)


async def test_a_job_of_another_user_is_not_found(signed_in: Page, stack: Stack, screenshots: Screenshots) -> None:
    page = signed_in
    other = await stack.new_account()
    job_id = await submit(stack, other, await sell(stack, "Patient painting", is_served=False), prompt="mine")
    for path in (f"/jobs/{job_id}", "/jobs/00000000-0000-7000-8000-000000000000", "/jobs/no-id"):
        await page.goto(path)
        await expect(page.get_by_role("heading", level=1, name="Job not found")).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "job-not-found")


async def test_a_page_recovers_by_itself_when_the_control_plane_was_killed(
    signed_in: Page, stack: Stack, account: Account, watch: Watch
) -> None:
    page = signed_in
    effect = await sell(stack, "Patient painting", is_served=False)
    job_id = await submit(stack, account, effect, prompt="a lighthouse")
    await page.goto(f"/jobs/{job_id}")
    await expect(page.get_by_text("No worker")).to_be_visible()

    watch.is_server_away = True
    await stack.kill()
    await expect(page.get_by_role("status").filter(has_text="Reconnecting…")).to_be_visible()
    # What was there can still be read.
    await expect(page.get_by_role("heading", level=1, name="Patient painting")).to_be_visible()
    await stack.start()
    await expect(page.get_by_role("status").filter(has_text="Reconnecting…")).to_be_hidden()
    watch.is_server_away = False
    async with stack.client(account.headers) as client:
        await client.post(f"/api/ai-jobs/{job_id}/cancel")
    await expect(page.get_by_text(app_text("job.job.canceledTitle"))).to_be_visible()


MANY = 10_000


async def test_ten_thousand_jobs_scroll_with_a_few_rows_in_the_page(signed_in: Page, stack: Stack) -> None:
    """The rows come from the test: what the API does with as many jobs is measured by `make bench`."""
    page = signed_in

    async def response(route: Route) -> None:
        before = parse_qs(urlsplit(route.request.url).query).get("cursor", [_id_of(MANY)])[0]
        first = int(before[-12:], 16) - 1
        numbers = range(first, max(first - 100, -1), -1)
        items = [_summary(number) for number in numbers]
        await route.fulfill(
            json={"items": items, "next_cursor": items[-1]["id"] if items[-1]["title"] != "Job 0" else None}
        )

    await page.context.route("**/api/library/jobs?*", response)
    await page.goto("/jobs")
    rows = page.get_by_role("list", name="Jobs").get_by_role("listitem")
    await expect(rows.first).to_contain_text(f"Job {MANY - 1}")
    end = page.get_by_text(app_text("jobs.jobs.end", "10,000"))
    while not await end.is_visible():
        await page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
        assert await rows.count() < 60
    await page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
    await expect(rows.last).to_contain_text("Job 0")
    await expect(rows.last).to_have_attribute("aria-setsize", str(MANY))
    # There and back, one long stride a frame: nothing is asked for again, and no row is missing.
    gaps = await page.evaluate(SCROLL)
    assert gaps == 0


SCROLL = """async () => {
  let gaps = 0;
  for (let step = 40; step >= 0; step--) {
    window.scrollTo(0, (document.documentElement.scrollHeight * step) / 40);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const box = document.querySelector("ul[aria-label=Jobs]").getBoundingClientRect();
    const middle = Math.min(Math.max(window.innerHeight / 2, box.top + 4), box.bottom - 4);
    if (middle <= 0 || middle >= window.innerHeight) continue;
    if (!document.elementFromPoint(window.innerWidth / 2, middle)?.closest("li")) gaps++;
  }
  return gaps;
}"""


def _id_of(number: int) -> str:
    return f"01a1e44b-0000-7000-8000-{number:012x}"


def _summary(number: int) -> dict[str, object]:
    at = datetime.fromtimestamp(1_700_000_000 + number, UTC).isoformat()
    return {
        "id": _id_of(number),
        "kind": "effect",
        "status": "completed",
        "title": f"Job {number}",
        "cost": 1,
        "created_at": at,
        "submitted_at": at,
        "completed_at": at,
        "output_count": 0,
    }
