"""How an operator imports, tests and sells a workflow on the pages of the catalog, and how a user buys it."""

from __future__ import annotations

import json
import uuid
from typing import Any

from playwright.async_api import Locator, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.texts import app_text

EXPORT: dict[str, Any] = {
    "1": {
        "class_type": "LightboxTextToImage",
        "inputs": {"text": "a harbour at dawn", "seed": 18446744073709551615, "width": 320, "height": 200, "steps": 4},
        "_meta": {"title": "Paint"},
    },
    "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}, "_meta": {"title": "Invert"}},
    "9": {
        "class_type": "SaveImage",
        "inputs": {"images": ["2", 0], "filename_prefix": "harbour"},
        "_meta": {"title": "Save the image"},
    },
}


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:6]}"


async def drop(page: Page, name: str, content: str) -> None:
    """A file that is let go somewhere over the page, which has replaced its skeleton."""
    await expect(page.get_by_role("heading", level=1).first).to_be_visible()
    files = await page.evaluate_handle(
        """([name, content]) => {
            const files = new DataTransfer();
            files.items.add(new File([content], name, { type: "application/json" }));
            return files;
        }""",
        [name, content],
    )
    for event in ("dragenter", "dragover", "drop"):
        await page.dispatch_event("main", event, {"dataTransfer": files})


async def assert_accessible_at_top(page: Page) -> None:
    """Not where the bar above happens to cover half of a button."""
    await page.evaluate("scrollTo(0, 0)")
    await assert_accessible(page)


def node(page: Page, title: str) -> Locator:
    return page.locator(".graph").get_by_role("button", name=title)


async def drop_export(page: Page, slug: str, name: str) -> Locator:
    """Drops the export of a workflow; returns the dialog, which has understood it, with the name filled in."""
    await drop(page, f"{slug}.json", json.dumps(EXPORT))
    dialog = page.get_by_role("dialog", name=f"Import {slug}.json")
    await expect(dialog).to_contain_text(app_text("workflows.workflows.resultOf", "SaveImage", "9", "png"))
    await expect(dialog.get_by_text("Paint", exact=True)).to_be_visible()
    await dialog.get_by_role("textbox", name="Name", exact=False).first.fill(name)
    return dialog


async def create_workflow(page: Page, dialog: Locator, name: str) -> None:
    await dialog.get_by_role("button", name="Create workflow").click()
    await expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()


async def add_seed_property(page: Page) -> Locator:
    """By a click on the node that paints, whose text was proposed; returns the panel of the node."""
    await node(page, "Paint").click()
    panel = page.get_by_role("region", name="Paint, node 1")
    await expect(panel).to_contain_text(app_text("workflows.workflows.setBy", "text"))
    await panel.get_by_role("button", name=app_text("workflows.workflows.makeProperty", "seed")).click()
    await page.get_by_role("menuitem", name=app_text("workflows.workflows.types.number")).click()
    await expect(panel).to_contain_text(app_text("workflows.workflows.setBy", "seed"))
    return panel


async def run_on_demo(page: Page) -> None:
    """Has the fleet of the demo run the workflow."""
    await (
        page.get_by_role("region", name=app_text("workflows.workflows.form"))
        .get_by_role("button", name="Choose fleets")
        .click()
    )
    await page.get_by_role("switch", name=app_text("workflows.workflows.runsOn", "demo, production")).click()
    await expect(page.get_by_text(app_text("workflows.workflows.fleetAdded", "demo, production"))).to_be_visible()


async def run_test(page: Page, field: str, text: str) -> None:
    """Until the result is beside the form."""
    form = page.get_by_role("region", name=app_text("workflows.workflows.form"))
    await form.get_by_role("textbox", name=field, exact=True).fill(text)
    await form.get_by_role("button", name="Run a test").click()
    result = page.get_by_role("region", name=app_text("workflows.workflows.result"))
    await expect(result).to_contain_text("Completed")
    await expect(result.get_by_role("img").first).to_be_visible()


async def create_effect(page: Page, name: str) -> None:
    """From the page of its workflow."""
    await page.get_by_role("tab", name="Effects").click()
    await page.get_by_role("link", name="New effect").click()
    dialog = page.get_by_role("dialog", name="New effect")
    await dialog.get_by_role("textbox", name="Name").first.fill(name)
    await dialog.get_by_role("button", name="Create effect").click()
    await expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()


async def publish(page: Page, name: str, price: int) -> None:
    """No effect is free by accident: without a price it cannot be published."""
    await page.get_by_role("button", name="Publish").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name="Publish")).to_be_disabled()
    await dialog.get_by_role("textbox", name="Price in tokens").fill(str(price))
    await dialog.get_by_role("button", name="Publish").click()
    await expect(page.get_by_text(f"{name} is published.")).to_be_visible()


async def find_effect(buyer: Page, name: str) -> None:
    await buyer.goto(f"/effects?q={name}")
    await buyer.get_by_role("link", name=name).click()


async def generate(buyer: Page, field: str, text: str) -> str:
    """Buys the effect whose page is open; returns the id of the job."""
    await buyer.get_by_role("textbox", name=field, exact=True).fill(text)
    await buyer.get_by_role("button", name="Generate").click()
    await buyer.wait_for_url("**/jobs/*")
    return buyer.url.rpartition("/")[2]
