"""Screenshots of pages for people to look at: `pytest tests/browser --screenshots DIRECTORY`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Page

from tests.browser.accessibility import THEMES

SIZES = ((360, 740), (390, 844), (768, 1024), (1440, 900), (2560, 1440))


@dataclass(frozen=True, slots=True)
class Screenshots:
    # None: no screenshots were requested.
    directory: Path | None

    async def take(self, page: Page, name: str) -> None:
        """The page as it is now, in both themes and every size: `name-light-1440.png`."""
        if self.directory is None:
            return
        before = page.viewport_size
        for width, height in SIZES:
            await page.set_viewport_size({"width": width, "height": height})
            for theme in THEMES:
                await page.emulate_media(color_scheme=theme, reduced_motion="reduce")
                await page.evaluate("document.fonts.ready")
                await page.screenshot(path=self.directory / f"{name}-{theme}-{width}.png")
        if before is not None:
            await page.set_viewport_size(before)
