"""Tabs that a person looks away from. A browser without a window shows all of its tabs: the test hides them."""

from __future__ import annotations

from playwright.async_api import BrowserContext, Page

SET = """(state) => {
  Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
  Object.defineProperty(document, "hidden", { value: state === "hidden", configurable: true });
  document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
}"""


async def show(page: Page, *, is_shown: bool) -> None:
    await page.evaluate(SET, "visible" if is_shown else "hidden")


async def open_behind(context: BrowserContext) -> Page:
    """A new tab that is hidden from the start, as after a click with the middle button."""
    page = await context.new_page()
    await page.add_init_script(f"({SET})('hidden')")
    return page
