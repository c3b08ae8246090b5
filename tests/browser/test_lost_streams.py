"""A tab stays open while the stream is refused or cut, or its server dies, and the page recovers."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.browser.page_errors import Watch
from tests.browser.stack import Account, Stack
from tests.browser.user_content import sell, submit
from tests.browser.visibility import show
from tests.support.waiting import until

pytestmark = pytest.mark.thorough

STREAM = re.compile(r"/api/ai-jobs/stream")


def in_frame(page: Page, text: str) -> Locator:
    return page.get_by_role("navigation", name="Main").first.get_by_text(text, exact=True)


# A stream that the test writes, in place of the server's.
OWN_STREAM = """
const fetched = window.fetch;
window.fetch = (url, options) => {
  if (!String(url.url ?? url).includes("/api/ai-jobs/stream")) return fetched(url, options);
  const body = new ReadableStream({ start: (controller) => {
    window.say = (text) => controller.enqueue(new TextEncoder().encode(text));
    window.say(": open\\n\\n");
  } });
  return Promise.resolve(new Response(body, { headers: { "content-type": "text/event-stream" } }));
};
"""


async def hold_some_tokens(stack: Stack, account: Account) -> None:
    """A job of another program of the same account, of which this tab hears from the server or not at all."""
    await submit(stack, account, await sell(stack, "Waits", cost=7, is_served=False), prompt="a lighthouse")


async def sees_the_hold(page: Page) -> None:
    await expect(in_frame(page, "993")).to_be_visible()
    await expect(in_frame(page, "7 held for running jobs")).to_be_visible()
    await expect(in_frame(page, "1 active")).to_be_visible()


async def test_the_balance_changes_while_the_page_is_open(signed_in: Page, stack: Stack, account: Account) -> None:
    await signed_in.goto("/account")
    await expect(in_frame(signed_in, "Live")).to_be_visible()
    await hold_some_tokens(stack, account)
    await sees_the_hold(signed_in)


async def test_a_page_without_a_stream_polls(signed_in: Page, stack: Stack, account: Account) -> None:
    async def refuse(route: Route) -> None:
        await route.fulfill(status=429, content_type="application/problem+json", body="{}")

    await signed_in.route(STREAM, refuse)
    await signed_in.goto("/account")
    await expect(in_frame(signed_in, "Every few seconds")).to_be_visible()
    await hold_some_tokens(stack, account)
    await sees_the_hold(signed_in)


async def test_an_interrupted_stream_resumes_where_it_stopped(signed_in: Page, stack: Stack, account: Account) -> None:
    """As after a laptop's sleep: the stream of before has ended, and the new one asks for what came meanwhile."""
    requests: list[str | None] = []

    async def once(route: Route) -> None:
        requests.append(await route.request.header_value("last-event-id"))
        if len(requests) == 1:
            event = 'id: 0\nevent: job.created\ndata: {"job_id": "none", "seq": 1, "event": "job.created"}\n\n'
            await route.fulfill(status=200, content_type="text/event-stream", body=event)
        else:
            await route.continue_()

    await signed_in.route(STREAM, once)
    await signed_in.goto("/account")
    await expect(in_frame(signed_in, "Live")).to_be_visible()
    await hold_some_tokens(stack, account)
    await sees_the_hold(signed_in)
    # On a busy machine the page may have read the wallet after the hold, and shows it before the second stream.
    await until(lambda: len(requests) > 1)
    assert requests[:2] == [None, "0"]


async def test_a_page_reads_everything_again_when_the_server_lost_events(
    signed_in: Page, stack: Stack, account: Account
) -> None:
    await signed_in.add_init_script(OWN_STREAM)
    await signed_in.goto("/account")
    await expect(in_frame(signed_in, "Live")).to_be_visible()
    await signed_in.wait_for_load_state("networkidle")
    await hold_some_tokens(stack, account)
    await expect(in_frame(signed_in, "1,000")).to_be_visible()
    await signed_in.evaluate('say(\'id: 7-1\\nevent: reset\\ndata: {"reason": "lost"}\\n\\n\')')
    await sees_the_hold(signed_in)


async def test_a_page_reconnects_to_a_restarted_server(
    signed_in: Page, stack: Stack, account: Account, watch: Watch
) -> None:
    await signed_in.goto("/jobs")
    await expect(in_frame(signed_in, "Live")).to_be_visible()
    await hold_some_tokens(stack, account)
    bar = signed_in.get_by_role("status").filter(has_text="Reconnecting")
    watch.is_server_away = True
    await stack.kill()
    await expect(bar).to_be_visible()
    await stack.start()
    await expect(in_frame(signed_in, "Live")).to_be_visible()
    watch.is_server_away = False
    await expect(bar).to_be_hidden()
    await sees_the_hold(signed_in)


async def test_a_laptop_that_slept_opens_a_new_stream(signed_in: Page, stack: Stack, account: Account) -> None:
    """Its connection looks open, but nothing comes: a minute passes at once, as it does for timers of a laptop."""
    requests: list[str | None] = []
    page = signed_in
    page.on("request", lambda request: requests.append(request.url) if STREAM.search(request.url) else None)
    await page.clock.install()
    await page.goto("/account")
    await expect(in_frame(page, "Live")).to_be_visible()
    assert len(requests) == 1
    await page.clock.fast_forward(60_000)
    await hold_some_tokens(stack, account)
    await sees_the_hold(page)
    await expect(in_frame(page, "Live")).to_be_visible()
    assert len(requests) == 2


async def test_a_hidden_tab_closes_its_stream_and_catches_up_later(
    signed_in: Page, stack: Stack, account: Account
) -> None:
    page = signed_in
    opened: list[str] = []
    page.on("request", lambda request: opened.append(request.url) if STREAM.search(request.url) else None)
    await page.clock.install()
    await page.goto("/account")
    await expect(in_frame(page, "Live")).to_be_visible()
    # A look at another tab costs nothing.
    await show(page, is_shown=False)
    await page.clock.fast_forward(3_000)
    await show(page, is_shown=True)
    await page.clock.fast_forward(10_000)
    assert len(opened) == 1
    await show(page, is_shown=False)
    async with page.expect_event("requestfailed", lambda request: STREAM.search(request.url) is not None):
        await page.clock.fast_forward(6_000)
    await hold_some_tokens(stack, account)
    assert len(opened) == 1
    await show(page, is_shown=True)
    await sees_the_hold(page)
    # It opens a stream once it knows that no other tab has one; what it shows may be there before.
    await until(lambda: len(opened) == 2)
    await expect(in_frame(page, "Live")).to_be_visible()


async def test_many_visible_tabs_share_one_stream(signed_in: Page, stack: Stack, account: Account) -> None:
    """A browser opens six connections to a server without HTTP/2. Windows side by side are all visible."""
    opened: list[Page] = []
    tabs = [signed_in, *[await signed_in.context.new_page() for _ in range(7)]]
    for tab in tabs:
        tab.on("request", lambda request, tab=tab: opened.append(tab) if STREAM.search(request.url) else None)
        await tab.goto("/account")
        await expect(in_frame(tab, "Live")).to_be_visible()
    assert opened == [signed_in]
    await hold_some_tokens(stack, account)
    for tab in tabs:
        await sees_the_hold(tab)
    assert opened == [signed_in]

    # The tab that has the stream is closed: one of the others goes on from its last event.
    await signed_in.close()
    await until(lambda: len(opened) == 2)
    await hold_some_tokens(stack, account)
    for tab in tabs[1:]:
        await expect(in_frame(tab, "14 held for running jobs")).to_be_visible()
        await expect(in_frame(tab, "Live")).to_be_visible()
    assert len(opened) == 2


async def test_a_tab_in_sight_takes_the_stream_of_one_that_was_hidden(
    signed_in: Page, stack: Stack, account: Account
) -> None:
    opened: list[Page] = []
    tabs = [signed_in, await signed_in.context.new_page()]
    for tab in tabs:
        tab.on("request", lambda request, tab=tab: opened.append(tab) if STREAM.search(request.url) else None)
        await tab.clock.install()
        await tab.goto("/account")
        await expect(in_frame(tab, "Live")).to_be_visible()
    await show(signed_in, is_shown=False)
    await signed_in.clock.fast_forward(6_000)
    await until(lambda: opened == tabs)
    await hold_some_tokens(stack, account)
    await sees_the_hold(tabs[1])
    # It comes back, follows the other, and asks for what it has missed.
    await show(signed_in, is_shown=True)
    await sees_the_hold(signed_in)
    assert opened == tabs


async def test_where_streams_are_refused_all_visible_tabs_ask(signed_in: Page, stack: Stack, account: Account) -> None:
    async def refuse(route: Route) -> None:
        await route.fulfill(status=429, content_type="application/problem+json", body="{}")

    await signed_in.context.route(STREAM, refuse)
    tabs = [signed_in, await signed_in.context.new_page()]
    for tab in tabs:
        await tab.goto("/account")
        await expect(in_frame(tab, "Every few seconds")).to_be_visible()
    await hold_some_tokens(stack, account)
    for tab in tabs:
        await sees_the_hold(tab)
