"""A real browser on the real stack: `stack` is a demo that runs, `page` a tab in which nothing may go wrong unseen."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, ViewportSize, async_playwright, expect

from tests.browser.page_errors import Watch
from tests.browser.pages import Library, fill_library
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack, running_stack
from tools.chromium import ARGUMENTS, ROOT, chromium_path

DESKTOP: ViewportSize = {"width": 1440, "height": 900}
# A page that is slow on a busy machine is not wrong.
PATIENCE_MS = 180_000
expect.set_options(timeout=PATIENCE_MS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", type=Path, default=None, help="where tests of the browser put pictures of pages")


@pytest.fixture(scope="session")
def screenshots(pytestconfig: pytest.Config) -> Screenshots:
    directory = pytestconfig.getoption("--screenshots", default=None)
    if directory is not None:
        directory = pytestconfig.invocation_params.dir / directory
        directory.mkdir(parents=True, exist_ok=True)
    return Screenshots(directory)


@pytest.fixture(scope="session")
def _built(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The web application as it is in the working tree. One process builds it, the others wait."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    with (tmp_path_factory.getbasetemp().parent / "web.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["make", "-s", "web", f"VENV={sys.prefix}"]
        made = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr


@pytest.fixture(scope="module")
async def stack(_built: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """One for the tests of a file, which use different users. No file sees the fleets, effects or jobs of another."""
    async with running_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture(scope="module")
async def library(stack: Stack) -> Library:
    """An account with something of every kind. Tests look at it and change nothing."""
    return await fill_library(stack)


@pytest.fixture
async def account(stack: Stack) -> Account:
    """A new user with 1,000 tokens."""
    return await stack.new_account()


@pytest.fixture(scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        yield browser
        await browser.close()


@pytest.fixture
def watch(stack: Stack) -> Watch:
    """What the page of the test complains about. A test that kills the server says so: `watch.is_server_away`."""
    return Watch(stack.url)


@pytest.fixture
async def page(chromium: Browser, stack: Stack, watch: Watch, request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    """A tab of a new browser profile. `@pytest.mark.parametrize("page", [{"width": 390, "height": 844}],
    indirect=True)` gives it another size.

    The test fails on whatever the page complains about: see `Watch`.
    """
    size = getattr(request, "param", DESKTOP)
    context = await chromium.new_context(base_url=stack.url, viewport=size, locale="en-US", timezone_id="UTC")
    context.set_default_timeout(PATIENCE_MS)
    await watch.follow(context)
    tab = await context.new_page()
    yield tab
    await context.close()
    watch.check()


@pytest.fixture
async def signed_in(page: Page, stack: Stack, account: Account) -> Page:
    """The tab of a user who has signed in; no page is open yet."""
    await stack.sign_in(page, account)
    return page
