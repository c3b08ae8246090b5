"""Cards of the gallery show an effect with a clip, which moves only while a user looks at it."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.stack import Stack
from tests.support.waiting import until

pytestmark = pytest.mark.thorough
# Two frames later React has done what an event asked for.
SETTLED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


async def card_with_a_clip(page: Page, stack: Stack) -> Locator:
    """The gallery is open, and an effect in it has its clip: the demo renders those after its start."""

    async def has_clip() -> bool:
        async with stack.client(stack.operator) as client:
            effects = (await client.get("/api/effects")).json()["items"]
        return any(((effect.get("preview") or {}).get("after") or {}).get("preview_url") for effect in effects)

    await until(has_clip)
    await page.goto("/effects")
    card = page.locator("[data-card]").filter(has=page.locator("video")).first
    await expect(card.locator("img")).to_be_visible()
    return card


async def moves(clip: Locator) -> bool:
    """Whether it is seen and plays."""
    state = await clip.evaluate(
        "(one) => !one.paused && one.currentTime > 0 && Number(getComputedStyle(one).opacity) > 0"
    )
    return bool(state)


async def is_still(clip: Locator) -> bool:
    """Whether it is paused and the poster is seen instead of it."""
    return bool(await clip.evaluate("(one) => one.paused && Number(getComputedStyle(one).opacity) === 0"))


async def test_a_clip_of_the_gallery_plays_under_the_pointer_and_under_the_focus(signed_in: Page, stack: Stack) -> None:
    page = signed_in
    card = await card_with_a_clip(page, stack)
    clip = card.locator("video")
    # Nothing is loaded before a user wants to see it, and it never makes a sound.
    assert await clip.evaluate("(one) => [one.paused, one.readyState, one.muted]") == [True, 0, True]

    await card.hover()
    await until(lambda: moves(clip))
    await page.mouse.move(0, 0)
    await until(lambda: is_still(clip))

    await card.focus()
    await until(lambda: moves(clip))
    await page.keyboard.press("Shift+Tab")
    await expect(card).not_to_be_focused()
    await until(lambda: is_still(clip))

    # Other cards stay still.
    others = page.locator("[data-card] video")
    played = await others.evaluate_all("(found) => found.map((one) => one.played.length)")
    assert sum(played) == 1


async def test_no_clip_plays_where_the_system_asks_for_less_motion(signed_in: Page, stack: Stack) -> None:
    page = signed_in
    await page.emulate_media(reduced_motion="reduce")
    card = await card_with_a_clip(page, stack)
    clip = card.locator("video")
    for show in (card.hover, card.focus):
        await show()
        await page.evaluate(SETTLED)
        assert await clip.evaluate("(one) => [one.paused, one.readyState]") == [True, 0]
    # The pointer and the focus were noticed: the clip plays as soon as the system allows it, and stops again.
    await page.emulate_media(reduced_motion="no-preference")
    await until(lambda: moves(clip))
    await page.emulate_media(reduced_motion="reduce")
    await until(lambda: is_still(clip))
