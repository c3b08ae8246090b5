"""Pages of operators without a mouse: Tab reaches every control and shows the focus."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.pages import OPERATED, Library
from tests.browser.stack import Stack

pytestmark = pytest.mark.thorough

# A page that shows more than this has a list that is loaded while it is walked through.
MAX_STEPS = 400
# What Tab should reach, each with a number. A group in which arrow keys move hands the focus to one of its members.
NUMBER_ALL = """() => {
  const usable = "a[href], button, input, select, textarea, summary, [tabindex]";
  const found = [...document.querySelectorAll(usable)].filter((element) =>
    element.tabIndex >= 0 && !element.disabled && !element.closest("[inert], [aria-hidden=true]")
      && element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0
      && !["radiogroup", "tablist"].includes(element.role));
  found.forEach((element, index) => { element.dataset.number = index; });
  return found.map((element) => element.outerHTML.slice(0, 160));
}"""
# Where the focus is: its number, and what is wrong with how it is shown.
FOCUSED = """() => {
  const element = document.activeElement;
  if (element === null || element === document.body) return null;
  const style = getComputedStyle(element);
  const hasRing = ({ outlineStyle, outlineWidth, boxShadow }) =>
    (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none";
  // The link of a row covers the row, and has its ring around it.
  const ringed = (each) => [null, "::after"].some((part) => hasRing(getComputedStyle(each, part)));
  const wrong = [];
  // A drawn control may stand for the one that has the focus.
  const shown = [element, element.parentElement, element.nextElementSibling];
  if (!shown.some((each) => each && ringed(each))) wrong.push("no ring");
  const box = element.getBoundingClientRect();
  const left = Math.max(box.left, 0), right = Math.min(box.right, innerWidth);
  const top = Math.max(box.top, 0), bottom = Math.min(box.bottom, innerHeight);
  if (box.width > 2 && (right <= left || bottom <= top)) wrong.push("out of sight");
  else if (box.width > 2) {
    const seen = [0.1, 0.5, 0.9].some((x) => [0.1, 0.5, 0.9].some((y) => {
      const hit = document.elementFromPoint(left + (right - left) * x, top + (bottom - top) * y);
      return hit && (element.contains(hit) || (hit.contains(element) && hit !== document.body));
    }));
    if (!seen && style.opacity !== "0") wrong.push("covered");
  }
  return { number: element.dataset.number ?? null, wrong, html: element.outerHTML.slice(0, 160) };
}"""

NUMBERS = "() => [...document.querySelectorAll('[data-number]')].map((each) => each.dataset.number)"


async def walk(page: Page) -> tuple[set[str], dict[str, list[str]]]:
    """Presses Tab from the beginning of the page to its end: (numbers of what had the focus, what was wrong)."""
    reached: set[str] = set()
    latest: str | None = None
    wrong: dict[str, list[str]] = {}
    for _ in range(MAX_STEPS):
        await page.keyboard.press("Tab")
        found: dict[str, Any] | None = await page.evaluate(FOCUSED)
        number = found and found["number"]
        # A field for a date has several places for the focus.
        if found is None or (number in reached and number != latest):
            break
        latest = number
        if number is not None:
            reached.add(number)
        if found["wrong"]:
            wrong[found["html"]] = found["wrong"]
    return reached, wrong


@pytest.mark.parametrize("name", OPERATED)
async def test_a_page_of_operators_is_used_without_a_mouse(
    page: Page, stack: Stack, library: Library, name: str
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(OPERATED[name].format(**library[1]))
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await expect(page.locator(".skeleton")).to_have_count(0)
    there: list[str] = await page.evaluate(NUMBER_ALL)
    reached, wrong = await walk(page)
    assert wrong == {}
    # A page that changes while it is walked through has replaced some of them.
    left = await page.evaluate(
        "() => [...document.querySelectorAll('[data-number]')].map((each) => each.dataset.number)"
    )
    assert [there[int(number)] for number in left if number not in reached] == []


# A page, and the button or link that opens a dialog there.
DIALOGS = (
    ("/operate/tenants", "Create tenant"),
    ("/operate/users", "Add user"),
    ("/operate/users/{user}", "Add tokens"),
    ("/operate/providers", "Set a limit"),
    ("/operate/fleets/{fleet}", "Create token"),
    ("/operate/jobs/{failed}", "Replay"),
    ("/operate/jobs/{waiting}", "Cancel job"),
)


async def test_dialogs_of_operators_open_and_close_by_keyboard(page: Page, stack: Stack, library: Library) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    for path, name in DIALOGS:
        await page.goto(path.format(**library[1]))
        opener = page.get_by_role("main").get_by_role("button", name=name, exact=True)
        await opener.focus()
        await page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_be_visible()
        await expect(dialog.locator(":focus")).to_have_count(1)
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        # The person continues where the dialog was opened.
        await expect(opener).to_be_focused()
