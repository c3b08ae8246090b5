"""Hidden tabs. A browser without a window shows all of its tabs, so the test hides them."""

from __future__ import annotations

from playwright.async_api import Page

SET = """(state) => {
  Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
  Object.defineProperty(document, "hidden", { value: state === "hidden", configurable: true });
  document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
}"""


async def show(page: Page, *, is_shown: bool) -> None:
    await page.evaluate(SET, "visible" if is_shown else "hidden")
