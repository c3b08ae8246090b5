"""axe, the accessibility checker, on the page that is open: no violation of WCAG 2.2 AA, in light and in dark."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Page

AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
# What still fades in has colours of its own for a moment.
SETTLED = """() => Promise.all(
  document.getAnimations()
    .filter((each) => each.effect?.getComputedTiming().endTime !== Infinity)
    .map((each) => each.finished.catch(() => undefined)),
)"""
CHECK = """async (rules) => {
  const found = await axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
  return found.violations.map(({ id, help, nodes }) => ({
    id, help, nodes: nodes.map(({ html, failureSummary }) => `${html.slice(0, 200)} ${failureSummary}`),
  }));
}"""


async def assert_accessible(page: Page) -> None:
    """Without motion, so that nothing is looked at while it still fades in."""
    for theme in THEMES:
        await page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        # Evaluated and not added as a script, which the page's content security policy rightly refuses.
        await page.evaluate(_source())
        # What arrives during the first check fades in, too. A real violation is found again.
        violations = await _violations(page) and await _violations(page)
        assert violations == [], f"{theme} theme of {page.url}: {violations}"


async def _violations(page: Page) -> list[dict[str, Any]]:
    await page.evaluate(SETTLED)
    found: list[dict[str, Any]] = await page.evaluate(CHECK, RULES)
    return found


@lru_cache
def _source() -> str:
    return AXE.read_text(encoding="utf-8")
