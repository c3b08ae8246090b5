"""Every page as people find it: it fits at every width, is accessible in both themes, and can be looked at.

`pytest tests/browser/test_every_page.py --screenshots DIRECTORY` takes the screenshots.
"""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.pages import OPERATED, PAGES, Library
from tests.browser.screenshots import SIZES, Screenshots
from tests.browser.stack import Stack

pytestmark = pytest.mark.thorough
CHECKED = (360, 1440)
PHONE = 390
# A phone shows fewer columns: numbers out of sight and columns of single letters cannot be read. Images side by side
# scroll.
WIDE_TABLES = """() => [...document.querySelectorAll("table:not([data-scrolls])")]
  .filter((table) => table.scrollWidth > table.parentElement.clientWidth)
  .map((table) => table.parentElement.ariaLabel)"""


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_fits_every_screen_and_is_accessible(
    page: Page, stack: Stack, library: Library, screenshots: Screenshots, name: str
) -> None:
    account, made = library
    await stack.sign_in(page, account)
    await assert_fits(page, PAGES[name].format(**made), screenshots, name)


@pytest.mark.parametrize("name", OPERATED)
async def test_a_page_of_operators_fits_every_screen_and_is_accessible(
    page: Page, stack: Stack, library: Library, screenshots: Screenshots, name: str
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await assert_fits(page, OPERATED[name].format(**library[1]), screenshots, name)


async def assert_fits(page: Page, path: str, screenshots: Screenshots, name: str) -> None:
    await page.goto(path)
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await expect(page.locator(".skeleton")).to_have_count(0)
    for width, height in SIZES:
        await page.set_viewport_size({"width": width, "height": height})
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, width
        if width <= PHONE:
            assert await page.evaluate(WIDE_TABLES) == [], width
        if width in CHECKED:
            await assert_accessible(page)
    await screenshots.take(page, name)
