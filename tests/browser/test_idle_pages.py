"""Requests of an open page while nothing happens, and while the user looks at another tab."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import pytest
from playwright.async_api import Browser, Page, Request, Route, StorageState, expect

from tests.browser.conftest import DESKTOP, PATIENCE_MS
from tests.browser.page_errors import Watch
from tests.browser.pages import OPERATED, PAGES, Library
from tests.browser.stack import Account, Stack
from tests.browser.visibility import show

pytestmark = pytest.mark.thorough

SECONDS = 10
MAX_PER_SECOND = 2
# So many tabs are looked at together.
TOGETHER = 9
STREAM = "**/api/ai-jobs/stream"


@dataclass
class PageRequests:
    """The requests of a tab, by method and URL."""

    page: Page
    urls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", self._note)

    def _note(self, request: Request) -> None:
        # What the page has already, such as an image that was chosen, costs the server nothing.
        if not request.url.startswith(("blob:", "data:")):
            self.urls.append(f"{request.method} {request.url}")

    async def settled(self) -> None:
        """What it shows first is there: for a second it asked nothing. A page that never stops is counted as it is."""
        for _ in range(20):
            before = len(self.urls)
            await self.page.wait_for_timeout(1000)
            if len(self.urls) == before:
                return

    async def counted(self) -> Counter[str]:
        before = len(self.urls)
        await self.page.wait_for_timeout(SECONDS * 1000)
        return Counter(self.urls[before:])


def excess(found: Mapping[str, Counter[str]], max_per_second: float) -> dict[str, dict[str, int]]:
    """The pages that asked more often than `most` in a second, with what they asked for."""
    return {name: dict(counts) for name, counts in found.items() if counts.total() > max_per_second * SECONDS}


@dataclass
class Profiles:
    """Browser profiles in which one account has signed in. Each tab has its own, as tabs of one profile share six
    connections."""

    browser: Browser
    stack: Stack
    watch: Watch
    account: Account
    response_streams: Callable[[Route], Awaitable[None]] | None = None
    _state: StorageState | None = None

    async def opened(self, path: str) -> PageRequests:
        context = await self.browser.new_context(
            base_url=self.stack.url, viewport=DESKTOP, locale="en-US", storage_state=self._state
        )
        context.set_default_timeout(PATIENCE_MS)
        await self.watch.follow(context)
        if self.response_streams is not None:
            await context.route(STREAM, self.response_streams)
        page = await context.new_page()
        if self._state is None:
            await self.stack.sign_in(page, self.account)
            self._state = await context.storage_state()
        requests = PageRequests(page)
        await page.goto(path)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.locator(".skeleton")).to_have_count(0)
        await requests.settled()
        return requests

    async def counted(self, paths: Mapping[str, str]) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
        """What each page asked while it was looked at, and while it was hidden."""
        tabs = await asyncio.gather(*(self.opened(path) for path in paths.values()))
        shown = await asyncio.gather(*(tab.counted() for tab in tabs))
        for tab in tabs:
            await show(tab.page, is_shown=False)
        # Responses that are on their way may ask for more.
        await asyncio.gather(*(tab.settled() for tab in tabs))
        hidden = await asyncio.gather(*(tab.counted() for tab in tabs))
        for tab in tabs:
            await tab.page.context.close()
        return dict(zip(paths, shown, strict=True)), dict(zip(paths, hidden, strict=True))

    async def assert_quiet(self, pages: Mapping[str, str]) -> None:
        shown: dict[str, Counter[str]] = {}
        hidden: dict[str, Counter[str]] = {}
        names = list(pages)
        for start in range(0, len(names), TOGETHER):
            visible, away = await self.counted({name: pages[name] for name in names[start : start + TOGETHER]})
            shown |= visible
            hidden |= away
        assert excess(shown, MAX_PER_SECOND) == {}
        assert excess(hidden, 0) == {}
        self.watch.check()


async def test_no_page_asks_more_than_twice_a_second_and_a_hidden_one_asks_nothing(
    chromium: Browser, stack: Stack, watch: Watch, library: Library
) -> None:
    account, made = library
    pages = {name: path.format(**made) for name, path in PAGES.items() if name != "sign-in"}
    await Profiles(chromium, stack, watch, account).assert_quiet(pages)


async def test_no_page_of_operators_asks_more_than_twice_a_second_and_a_hidden_one_asks_nothing(
    chromium: Browser, stack: Stack, watch: Watch, library: Library
) -> None:
    pages = {name: path.format(**library[1]) for name, path in OPERATED.items()}
    operator = await stack.new_account(role="operator")
    await Profiles(chromium, stack, watch, operator).assert_quiet(pages)


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "cut at once"])
async def test_without_a_stream_pages_ask_no_more_than_twice_a_second(
    chromium: Browser, stack: Stack, watch: Watch, library: Library, is_refused: bool
) -> None:
    """Refused because there are too many, or cut by a proxy: the tab asks instead, and opens no loop of streams."""

    async def response(route: Route) -> None:
        if is_refused:
            await route.fulfill(status=429, content_type="application/problem+json", body="{}")
        else:
            await route.fulfill(status=200, content_type="text/event-stream", body=": hello\n\n")

    account, made = library
    paths = {name: PAGES[name].format(**made) for name in ("jobs", "job-waiting", "run", "effects", "wallet")}
    await Profiles(chromium, stack, watch, account, response).assert_quiet(paths)
    paths = {name: OPERATED[name].format(**made) for name in ("operate-overview", "operate-jobs-all")}
    await Profiles(chromium, stack, watch, await stack.new_account(role="operator"), response).assert_quiet(paths)
