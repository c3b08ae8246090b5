"""A run is compared and voted to its winner by keyboard only."""

from __future__ import annotations

import re

from playwright.async_api import Locator, Page, expect

from tests.browser.texts import app_text

# Milliseconds from a key to the frame that shows the next pair, with both images decoded.
WATCH_VOTES = """() => {
  window.votes = [];
  document.addEventListener("keydown", (event) => {
    const shown = () => document.querySelector("[data-pair]")?.dataset.pair;
    const [before, at] = [shown(), event.timeStamp];
    if (!before || !event.key.startsWith("Arrow")) return;
    const look = () => {
      const images = [...document.querySelectorAll("[data-pair] > :not([aria-hidden=true]) img")];
      if (shown() === before || !images.every((each) => each.complete && each.naturalWidth > 0)) {
        return requestAnimationFrame(look);
      }
      window.votes.push(performance.now() - at);
    };
    requestAnimationFrame(look);
  }, true);
}"""


async def press_until(page: Page, key: str, wanted: Locator) -> None:
    """Moves the focus as a person without a mouse does."""
    for _ in range(60):
        if await wanted.evaluate("(element) => element === document.activeElement"):
            return
        await page.keyboard.press(key)
    raise AssertionError(f"{key} does not lead to {wanted}")


async def judged_for(page: Page, favourite: int) -> str:
    """The key for the pair that is shown: the favourite wins, and two others are equally good."""
    pair = page.get_by_role("region", name="Pair to compare")
    sides = pair.get_by_role("button", name=re.compile(r"Candidate \d+ is better"))
    await expect(sides).to_have_count(2)
    numbers = [int(re.findall(r"\d+", str(await sides.nth(side).get_attribute("aria-label")))[0]) for side in (0, 1)]
    if favourite not in numbers:
        return "ArrowUp"
    return "ArrowLeft" if numbers[0] == favourite else "ArrowRight"


async def open_comparison_by_keyboard(page: Page, name: str, leaves: int) -> None:
    """From any page to the pairs of the person's only run."""
    await page.goto("/effects")
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await page.keyboard.press("g")
    await page.keyboard.press("r")
    await expect(page).to_have_url(re.compile("/runs$"))
    link = page.get_by_role("list", name="Runs").get_by_role("link")
    await expect(link).to_contain_text(app_text("runs.runs.finished", leaves, leaves))
    await press_until(page, "Tab", link)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name=name)).to_be_visible()
    await press_until(page, "Tab", page.get_by_role("tab", name="Tree"))
    await press_until(page, "ArrowRight", page.get_by_role("tab", name="Compare"))
    await expect(page).to_have_url(re.compile("tab=compare"))
    # Out of the list of tabs, where the arrows mean something else.
    await page.keyboard.press("Tab")


async def vote_by_keyboard(page: Page, favourite: int, pairs: int) -> None:
    """Every pair, with one vote taken back, until the favourite is shown as the first of the winners."""
    progress = page.get_by_role("tabpanel").get_by_role("status").first
    await expect(progress).to_have_text(app_text("runs.compare.progress", 0, pairs))
    await page.evaluate(WATCH_VOTES)
    pair = page.get_by_role("region", name="Pair to compare")
    first = str(await pair.get_attribute("data-pair"))
    await page.keyboard.press(await judged_for(page, favourite))
    await expect(progress).to_have_text(app_text("runs.compare.progress", 1, pairs))
    # A vote that was a mistake is taken back, and the pair comes again.
    await page.keyboard.press("u")
    await expect(progress).to_have_text(app_text("runs.compare.progress", 0, pairs))
    await expect(pair).to_have_attribute("data-pair", first)
    for judged in range(1, pairs + 1):
        await page.keyboard.press(await judged_for(page, favourite))
        await expect(progress).to_have_text(app_text("runs.compare.progress", judged, pairs))
    await expect(page.get_by_role("heading", name=app_text("runs.compare.done"))).to_be_visible()
    times: list[float] = await page.evaluate("window.votes")
    print(f"from a vote to the next pair: {[round(each) for each in times]} ms")  # noqa: T201  measured, not asserted
    await press_until(page, "Tab", page.get_by_role("link", name="Show the winners"))
    await page.keyboard.press("Enter")
    best = page.get_by_role("listitem", name="Number 1", exact=True)
    await expect(best).to_contain_text(f"Candidate {favourite}")
