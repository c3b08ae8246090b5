"""An operator sells an effect by a formula, and a buyer sees the price of the job while the form changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.catalog import EXPORT, assert_accessible_at_top, find_effect, unique
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text

pytestmark = pytest.mark.thorough
FORMULA = 'ceil(steps / 2) * quality["draft": 1, "final": 3]'


def properties() -> list[dict[str, Any]]:
    named = {"user_configurable": True}
    steps = {"min": 1, "max": 20, "integer": True}
    choices = {"choices": ["draft", "final"]}
    return [
        {"key": "prompt", "type": "text", "placeholder": "{{prompt}}", "required": True, **named},
        {"key": "steps", "type": "number", "placeholder": "{{steps}}", "default": 4, "limits": steps, **named},
        {"key": "quality", "type": "choice", "placeholder": "{{q}}", "default": "draft", "limits": choices, **named},
    ]


async def effect_without_price(stack: Stack) -> tuple[str, str]:
    """The slug and the name of an effect that is not published."""
    graph = copy.deepcopy(EXPORT)
    graph["1"]["inputs"] |= {"text": "{{prompt}}, {{q}}", "steps": "{{steps}}"}
    slug, name = unique("priced"), unique("Priced painting")
    image = {"output_node_id": "9", "output_extension": "png", "output_mime_type": "image/png"}
    async with stack.client(stack.operator) as client:
        body = {"slug": slug, "name": name, "graph": graph, "properties": properties(), **image}
        assert (await client.post("/api/admin/workflows", json=body)).is_success
        effect = {"slug": slug, "name": name, "workflow": slug}
        assert (await client.post("/api/admin/effects", json=effect)).is_success
    return slug, name


async def test_a_formula_is_saved_by_an_operator_and_followed_by_a_buyer(
    page: Page, chromium: Browser, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    slug, name = await effect_without_price(stack)
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/effects/{slug}")
    formula = page.get_by_role("textbox", name=app_text("catalog-effects.catalogEffects.formula"))
    await page.get_by_text(app_text("catalog-effects.catalogEffects.formulaHelp")).click()
    await expect(page.get_by_text("Values: prompt.length, steps, quality")).to_be_visible()
    await formula.fill('quality["draft": 1]')
    await page.get_by_role("button", name="Save").press("Enter")
    await expect(page.get_by_text('There is no price for quality = "final". Add a case, or else.')).to_have_count(1)
    bar = page.get_by_role("region", name="Unsaved changes")
    await expect(bar).to_contain_text(app_text("catalog-effects.catalogEffects.notSaved"))
    await assert_accessible_at_top(page)
    await screenshots.take(page, "operate-effect-formula")
    await formula.fill(FORMULA)
    await page.get_by_role("button", name="Save").press("Enter")
    await expect(page.get_by_text(app_text("catalog-effects.catalogEffects.saved", name))).to_be_visible()
    await expect(
        page.get_by_role("textbox", name=app_text("catalog-effects.catalogEffects.lowestPrice"))
    ).to_have_value("1")
    await page.get_by_role("button", name="Publish").click()
    await expect(page.get_by_role("dialog")).to_contain_text(FORMULA)
    await page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    await expect(page.get_by_text(f"{name} is published.")).to_be_visible()

    context = await chromium.new_context(base_url=stack.url, locale="en-US")
    buyer = await context.new_page()
    await stack.sign_in(buyer, account)
    await buyer.goto(f"/effects?q={name}")
    await expect(buyer.get_by_role("link", name=name)).to_contain_text("From 1 token")
    await find_effect(buyer, name)
    # The price is there before the form is complete, and it follows each change.
    price = buyer.get_by_role("definition").first
    await expect(price).to_have_text("2 tokens")
    await buyer.get_by_role("textbox", name="Steps").or_(buyer.get_by_role("spinbutton", name="Steps")).fill("9")
    await expect(price).to_have_text("5 tokens")
    await buyer.get_by_role("radio", name="Final").click()
    await expect(price).to_have_text("15 tokens")
    await assert_accessible_at_top(buyer)
    await screenshots.take(buyer, "effect-formula")
    await buyer.get_by_role("textbox", name="Prompt").fill("a harbour")
    await buyer.get_by_role("button", name="Generate").click()
    await buyer.wait_for_url("**/jobs/*")
    async with stack.client(account.headers) as client:
        job = (await client.get(f"/api/ai-jobs/{buyer.url.rpartition('/')[2]}")).json()
        assert (job["cost"], (await client.get("/api/wallet")).json()["balance"]) == (15, 985)
    await context.close()
