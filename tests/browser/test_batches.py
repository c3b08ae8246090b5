"""A user drops several files, submits one batch, and sees its results as a grid."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.test_create import chooser
from tests.browser.texts import app_text
from tests.support.media.clips import make_image

NAMES = ("river.png", "harbour.png", "meadow.png")


async def test_several_files_become_a_batch_and_its_results_a_grid(
    signed_in: Page, stack: Stack, account: Account, tmp_path: Path, screenshots: Screenshots
) -> None:
    page = signed_in
    for name in NAMES:
        make_image(tmp_path / name)
    (tmp_path / "notes.png").write_text("not an image\n")
    await page.goto("/effects/glow")
    await chooser(page).set_input_files([tmp_path / name for name in (*NAMES, "notes.png")])
    await expect(page.get_by_text("3 of 4 files uploaded")).to_be_visible()
    await expect(page.get_by_text("1 file cannot be used.")).to_be_visible()
    await screenshots.take(page, "batch-form")
    generate = page.get_by_role("button", name=re.compile("^Generate 4"))
    await generate.click()
    await expect(page).to_have_url(re.compile("/effects/glow"))
    await page.get_by_role("button", name="Remove notes.png").click()
    await expect(page.get_by_text("3 of 3 files uploaded")).to_be_visible()
    await assert_accessible(page)
    await page.get_by_role("button", name=re.compile("^Generate 3")).dblclick()

    await expect(page).to_have_url(re.compile(r"/batches/[0-9a-f-]{36}$"))
    await expect(page.get_by_role("heading", level=1)).to_have_text("Glow: 3 items")
    await expect(page.get_by_text("3 of 3 items")).to_be_visible()
    for number, name in enumerate(NAMES, 1):
        await expect(page.get_by_role("link", name=f"Item {number} {name}")).to_be_visible()
    download = page.get_by_role("link", name="Download all")
    async with page.expect_download() as saved:
        await download.click()
    assert (await saved.value).suggested_filename.startswith("batch-")
    await assert_accessible(page)
    await screenshots.take(page, "batch")
    async with stack.client(account.headers) as client:
        [batch] = (await client.get("/api/batches")).json()["items"]
    assert batch["counts"]["completed"] == 3

    await page.get_by_role("link", name="Item 2 harbour.png").click()
    await page.get_by_role("link", name="Item 2", exact=True).click()
    await expect(page).to_have_url(re.compile(batch["id"]))


async def test_a_page_on_a_slow_network_is_a_skeleton_in_its_frame(
    signed_in: Page, stack: Stack, account: Account
) -> None:
    page = signed_in
    wanted = {"effect_id": "imagine", "grid": {"values": {"prompt": ["a dune", "an island"]}}}
    async with stack.client(account.headers) as client:
        batch = (await client.post("/api/batches", json=wanted)).json()["id"]
    knows_user, knows_batch = asyncio.Event(), asyncio.Event()

    def after(event: asyncio.Event) -> Callable[[Route], Awaitable[None]]:
        async def wait(route: Route) -> None:
            await event.wait()
            await route.continue_()

        return wait

    await page.route("**/api/me", after(knows_user))
    await page.route(f"**/api/batches/{batch}", after(knows_batch))
    await page.goto(f"/batches/{batch}")
    await expect(page.locator("#first")).to_be_visible()
    knows_user.set()
    await expect(page.get_by_role("main").get_by_role("status")).to_have_text(app_text("frame.frame.loading"))
    await expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    await expect(page.locator("#first")).to_be_hidden()
    knows_batch.set()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Imagine: 2 items")


async def test_batches_are_listed_with_their_progress_without_a_reload(
    signed_in: Page, stack: Stack, account: Account
) -> None:
    page = signed_in
    await page.goto("/batches")
    await expect(page.get_by_role("heading", name=app_text("batches.batches.none"))).to_be_visible()
    await assert_accessible(page)
    wanted = {"effect_id": "imagine", "grid": {"values": {"prompt": ["a dune", "an island"]}}}
    async with stack.client(account.headers) as client:
        for reference in ("order-7", "order-8"):
            made = await client.post("/api/batches", json={**wanted, "client_reference": reference})
            assert made.status_code == 201, made.text
    batches = page.get_by_role("list", name="Batches").get_by_role("listitem")
    await expect(batches).to_have_count(2)
    await expect(batches.filter(has_text="2 of 2 items").filter(has_text="Completed")).to_have_count(2)
    await assert_accessible(page)
    current = page.get_by_role("navigation", name="Main").get_by_role("link", name="Batches")
    await expect(current).to_have_attribute("aria-current", "page")

    await page.get_by_role("searchbox", name=app_text("batches.batches.reference")).fill("order-7")
    await expect(batches).to_have_count(1)
    await expect(page).to_have_url(re.compile("reference=order-7"))
    await page.get_by_role("radio", name="In progress").click()
    await expect(page.get_by_role("heading", name=app_text("batches.batches.noneFound"))).to_be_visible()
    await page.get_by_role("button", name=app_text("batches.batches.clear")).click()
    await batches.filter(has_text="order-8").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Imagine: 2 items")
    await expect(current).to_have_attribute("aria-current", "page")
    await page.get_by_role("link", name=app_text("batch.batch.back")).click()
    await expect(batches).to_have_count(2)


@pytest.mark.thorough
async def test_the_rest_of_a_batch_is_canceled(signed_in: Page, stack: Stack, account: Account) -> None:
    """More items than the renderer makes before the user cancels them."""
    page = signed_in
    wanted = {"effect_id": "imagine", "grid": {"values": {"prompt": ["a dune"], "seed": list(range(40))}}}
    async with stack.client(account.headers) as client:
        batch = (await client.post("/api/batches", json=wanted)).json()
    await page.goto(f"/batches/{batch['id']}")
    await page.get_by_role("button", name="Cancel the rest").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel the rest").click()
    await expect(page.get_by_text("40 of 40 items")).to_be_visible()
    await expect(page.get_by_role("button", name="Cancel the rest")).to_have_count(0)
    await expect(page.get_by_role("definition").last).to_have_text(re.compile(r"^\d+$"))
    async with stack.client(account.headers) as client:
        counts = (await client.get(f"/api/batches/{batch['id']}")).json()["counts"]
    assert counts["canceled"] > 0
    assert counts["active"] == 0


async def test_lists_of_values_become_a_batch_of_every_combination(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    await page.goto("/effects/imagine")
    await page.get_by_role("radio", name="Several values").click()
    await expect(page).to_have_url(re.compile("several=true"))
    prompts = page.get_by_role("textbox", name=re.compile("^Prompt"))
    seeds = page.get_by_role("textbox", name=re.compile("^Seed"))
    await prompts.fill("a dune\nan island")
    await seeds.fill("1..600")
    await expect(page.get_by_text(app_text("grid.grid.tooMany", 1200, 1000))).to_be_visible()
    await expect(page.get_by_role("button", name=re.compile("^Generate"))).to_be_disabled()
    await seeds.fill("1, x")
    await expect(page.get_by_text(app_text("grid.grid.notNumber", "x"))).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "grid-form-wrong")
    await seeds.fill("1..3")
    await page.get_by_role("radio", name="Row by row").click()
    await expect(page.get_by_text(app_text("grid.grid.otherLength", 2, 3))).to_be_visible()
    await page.get_by_role("radio", name="Every combination").click()
    await page.reload()
    await expect(prompts).to_have_value("a dune\nan island")
    await expect(page.get_by_role("status").filter(has_text="6 jobs")).to_be_visible()
    await expect(page.get_by_text("6 tokens for 6 jobs")).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "grid-form")
    await page.get_by_role("button", name=re.compile("^Generate 6")).dblclick()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Imagine: 6 items")
    await expect(page.get_by_role("columnheader")).to_have_text(["Seed 1", "Seed 2", "Seed 3"])
    await expect(page.get_by_role("rowheader")).to_have_text(["a dune", "an island"])
    await expect(page.get_by_text("6 of 6 items")).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "batch-grid")
    async with stack.client(account.headers) as client:
        [batch] = (await client.get("/api/batches")).json()["items"]
    assert (batch["items"], batch["cost"]) == (6, 6)


async def test_files_of_a_batch_survive_a_reload(
    signed_in: Page, stack: Stack, account: Account, tmp_path: Path
) -> None:
    page = signed_in
    for name in NAMES[:2]:
        make_image(tmp_path / name)
    await page.goto("/effects/glow?several=true")
    await page.get_by_role("button", name=re.compile("^Generate")).click()
    await expect(page.get_by_text(app_text("effect.effectPage.needsFile.image"))).to_be_visible()
    await page.get_by_label("Add files").set_input_files([tmp_path / name for name in NAMES[:2]])
    await expect(page.get_by_text("2 of 2 files uploaded")).to_be_visible()
    strength = page.get_by_role("textbox", name=re.compile("^Strength"))
    await strength.fill("0.5, 1")
    await page.reload()
    await expect(page.get_by_text("2 of 2 files uploaded")).to_be_visible()
    await expect(strength).to_have_value("0.5, 1")
    await page.get_by_role("button", name=re.compile("^Generate 4")).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Glow: 4 items")
    async with stack.client(account.headers) as client:
        [batch] = (await client.get("/api/batches")).json()["items"]
    assert batch["items"] == 4
