"""An artist guides runs: watches the tree, compares by keyboard, kills and restores, approves, takes the winners."""

from __future__ import annotations

import io
import re
import statistics
import zipfile
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.runs import GLOW, IMAGINE, add_pipeline, plant_tree, run_of, start_run, waits
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import content_of, sell
from tests.browser.voting import open_comparison_by_keyboard, vote_by_keyboard
from tests.support.waiting import until

pytestmark = pytest.mark.thorough
PHONE = {"width": 390, "height": 844}
# Milliseconds between frames, and what the code of the page took in each, while `window.frames` is an array.
WATCH_FRAMES = """() => {
  window.frames = [];
  let last = performance.now();
  const look = (now) => {
    window.frames.push(now - last);
    last = now;
    if (window.frames.length < 400) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""


async def test_a_run_is_voted_to_its_winner_by_keyboard_only(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    pipeline = await add_pipeline(stack, account, "Landscapes", {**IMAGINE, "max_children": 4}, GLOW)
    run_id = await start_run(stack, account, pipeline, "Dunes", target_leaves=4)
    assert (await waits(stack, account, run_id))["leaves"] == 4

    await open_comparison_by_keyboard(page, "Dunes", leaves=4)
    favourite = 4
    await vote_by_keyboard(page, favourite, pairs=6)

    votes: list[dict[str, Any]] = []

    # A vote is shown before it is saved.
    async def are_saved() -> bool:
        async with stack.client(account.headers) as client:
            votes[:] = (await client.get(f"/api/runs/{run_id}/votes")).json()["items"]
        return len(votes) == 6

    await until(are_saved)
    async with stack.client(account.headers) as client:
        winners = (await client.get(f"/api/runs/{run_id}/winners")).json()
    assert winners[0]["number"] == favourite
    assert sorted(vote["verdict"] for vote in votes) == ["both"] * 3 + ["winner"] * 3
    await assert_accessible(page)
    await screenshots.take(page, "run-winners")


async def test_a_branch_is_killed_after_its_refund_was_shown_and_restored(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    patient = await sell(stack, "Patient painting", cost=5, is_served=False)
    waiting = {"name": "Patient", "workflow": patient, "needs_run_prompt": True}
    pipeline = await add_pipeline(stack, account, "Waits", IMAGINE, waiting)
    run_id = await start_run(stack, account, pipeline, "Kill me", target_leaves=1)

    async def has_waiting_child() -> bool:
        return bool((await run_of(stack, account, run_id))["steps"][1]["in_flight"])

    await until(has_waiting_child, 600)
    await page.goto(f"/runs/{run_id}")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_text(app_text("runs.run.paused"))).to_be_visible()
    tree = page.get_by_role("application", name=re.compile("Tree of 1 candidate"))
    await tree.focus()
    await page.keyboard.press("ArrowRight")
    await expect(page).to_have_url(re.compile("candidate="))
    panel = page.get_by_role("complementary", name="Selected candidate")
    await expect(panel.get_by_role("heading", name="Candidate 1")).to_be_visible()
    await expect(panel).to_contain_text("dunes at dawn")
    await expect(panel).to_contain_text("Seed")
    await assert_accessible(page)
    await screenshots.take(page, "run-tree-selected")

    balance = await balance_of(stack, account)
    await panel.get_by_role("button", name="Kill branch").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(app_text("runs.panel.killCandidates", 1, False))
    await expect(dialog).to_contain_text(app_text("runs.panel.killJobs", 1, "5 tokens"))
    await assert_accessible(page)
    await screenshots.take(page, "run-kill")
    await dialog.get_by_role("button", name="Keep it").click()
    assert await balance_of(stack, account) == balance
    await panel.get_by_role("button", name="Kill branch").click()
    await dialog.get_by_role("button", name="Kill branch").click()
    await expect(page.get_by_text("1 job was canceled and refunded.")).to_be_visible()
    await expect(panel).to_contain_text("Killed")
    assert await balance_of(stack, account) == balance + 5

    await panel.get_by_role("button", name="Restore branch").click()
    await expect(dialog).to_contain_text(app_text("runs.panel.restoreCandidates", 1))
    await dialog.get_by_role("button", name="Restore").click()
    await expect(panel.get_by_role("button", name="Kill branch")).to_be_visible()
    await expect(panel).to_contain_text("Active")
    # The link shows the same to the same person.
    await page.reload()
    await expect(panel.get_by_role("heading", name="Candidate 1")).to_be_visible()


async def test_a_gate_is_approved_the_budget_changed_and_the_result_exported(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    gated = {**IMAGINE, "requires_approval": True}
    pipeline = await add_pipeline(stack, account, "With a gate", gated, GLOW)
    run_id = await start_run(stack, account, pipeline, "Gated", target_leaves=2, budget=20)
    await waits(stack, account, run_id)
    await page.goto("/runs?status=active")
    row = page.get_by_role("list", name="Runs").get_by_role("link")
    await expect(row).to_contain_text("Waits for you")
    await assert_accessible(page)
    await screenshots.take(page, "runs")
    await row.click()
    await page.get_by_role("tab", name="Gates").click()
    gate = page.get_by_role("region", name="Base → Glow")
    await expect(gate).to_contain_text(app_text("runs.gate.parents", 1))
    await expect(gate).to_contain_text(app_text("runs.gate.children", 2, "Glow"))
    await assert_accessible(page)
    await screenshots.take(page, "run-gates")
    await gate.get_by_role("button", name=app_text("runs.gate.approveCost", "2 tokens")).click()
    await expect(gate).to_contain_text("Approved")
    # Live: the run goes on to its end.
    await expect(page.get_by_text(app_text("runs.runs.finished", 2, 2))).to_be_visible()

    await page.get_by_role("tab", name="Budget").click()
    await expect(page.get_by_role("img", name=re.compile("Tokens used over time. Used in total: 3"))).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "run-budget")
    await page.get_by_role("button", name="Change the budget").click()
    field = page.get_by_role("spinbutton", name=app_text("runs.budget.newBudget"))
    await field.fill("30")
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(page.get_by_text(app_text("runs.budget.saved", "30 tokens"))).to_be_visible()
    assert (await run_of(stack, account, run_id))["budget"] == 30

    await page.get_by_role("tab", name="Gallery").click()
    cards = page.get_by_role("list", name="Candidates").get_by_role("listitem")
    await expect(cards).to_have_count(3)
    await page.get_by_role("combobox", name="Step").click()
    await page.get_by_role("option", name="Glow (2)").click()
    await expect(cards).to_have_count(2)
    await expect(page).to_have_url(re.compile("step=glow"))
    await assert_accessible(page)
    await screenshots.take(page, "run-gallery")

    await page.get_by_role("tab", name="Winners").click()
    await page.get_by_role("button", name="Export").click()
    async with page.expect_download() as downloading:
        await page.get_by_role("menuitem", name="All candidates (zip)").click()
    archive = zipfile.ZipFile(io.BytesIO(content_of(await (await downloading.value).path())))
    assert len([name for name in archive.namelist() if name.endswith(".png")]) == 3

    # The run has completed; it makes more where it is asked to.
    await page.get_by_role("button", name="Make more").click()
    dialog = page.get_by_role("dialog", name="Make more candidates")
    await expect(dialog).to_contain_text(app_text("runs.more.budgetHint", "2 tokens"))
    await expect(dialog.get_by_role("spinbutton", name=app_text("runs.more.target"))).to_have_value("4")
    await assert_accessible(page)
    await screenshots.take(page, "run-make-more")
    await dialog.get_by_role("button", name="Make more").click()
    await expect(page.get_by_text(app_text("runs.more.done", 4))).to_be_visible()
    await expect(page.get_by_text(app_text("runs.runs.finished", 4, 4))).to_be_visible()
    assert (await waits(stack, account, run_id))["reason"] == "target_reached"

    # An ended run is deleted after a question that says what goes.
    await page.get_by_role("button", name=app_text("runs.run.delete")).click()
    dialog = page.get_by_role("dialog", name=app_text("runs.run.deleteTitle"))
    await expect(dialog).to_contain_text(app_text("runs.run.deleteText", 6))
    await assert_accessible(page)
    await screenshots.take(page, "run-delete")
    await dialog.get_by_role("button", name=app_text("runs.run.delete")).click()
    await expect(page.get_by_text(app_text("runs.run.deleted"))).to_be_visible()
    await expect(page).to_have_url(re.compile("/runs$"))
    await expect(page.get_by_text("Gated")).to_have_count(0)
    await page.goto(f"/runs/{run_id}")
    await expect(page.get_by_text(app_text("run-not-found.runNotFound.title"))).to_be_visible()


async def test_the_tree_grows_while_it_is_watched_and_a_late_candidate_shows_its_lineage(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    # Each gate holds the run until the test has seen the tree as it is.
    gated = {"requires_approval": True, "max_children": 1}
    steps = ({**IMAGINE, **gated}, {**GLOW, **gated}, {**GLOW, "name": "Soft"})
    pipeline = await add_pipeline(stack, account, "Grows", *steps)
    run_id = await start_run(stack, account, pipeline, "Watched", target_leaves=1)
    await waits(stack, account, run_id)
    await page.goto(f"/runs/{run_id}")
    await expect(page.get_by_role("application", name=app_text("runs.tree.label", 1))).to_be_visible()
    await page.evaluate("window.isWatched = true")
    for number, step in ((2, "base"), (3, "glow")):
        async with stack.client(account.headers) as client:
            approved = await client.post(f"/api/runs/{run_id}/steps/{step}/approve")
            assert approved.is_success, approved.text
        await expect(page.get_by_role("application", name=f"Tree of {number} candidates")).to_be_visible()
        await waits(stack, account, run_id)
    await expect(page.get_by_text(app_text("runs.runs.finished", 1, 1))).to_be_visible()
    assert await page.evaluate("window.isWatched"), "the page was not loaded again"

    # The candidate of the last step, with what it was made from.
    await page.get_by_role("application", name=app_text("runs.tree.label", 3)).focus()
    for _ in range(3):
        await page.keyboard.press("ArrowRight")
    panel = page.get_by_role("complementary", name="Selected candidate")
    await expect(panel.get_by_role("heading", name="Candidate 3")).to_be_visible()
    made = panel.get_by_role("listitem")
    await expect(made).to_have_count(3)
    async with stack.client(account.headers) as client:
        candidate = await page.evaluate("new URL(location.href).searchParams.get('candidate')")
        lineage = (await client.get(f"/api/candidates/{candidate}/lineage")).json()["ancestors"]
    for place, name in enumerate(("Base", "Glow", "Soft")):
        await expect(made.nth(place)).to_contain_text(name)
        await expect(made.nth(place)).to_contain_text(f"Seed {lineage[place]['seed']}")
    await expect(made.nth(0)).to_contain_text("dunes at dawn")
    await expect(made.nth(2).get_by_role("button")).to_have_attribute("aria-current", "true")
    await assert_accessible(page)
    await screenshots.take(page, "run-lineage")
    await made.nth(0).get_by_role("button").click()
    await expect(panel.get_by_role("heading", name="Candidate 1")).to_be_visible()
    await expect(made).to_have_count(1)


@pytest.mark.parametrize("page", [PHONE], indirect=True)
async def test_pairs_are_judged_by_touch_on_a_phone(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    pipeline = await add_pipeline(stack, account, "Landscapes", {**IMAGINE, "max_children": 2}, GLOW)
    run_id = await start_run(stack, account, pipeline, "Pocket dunes", target_leaves=2)
    await waits(stack, account, run_id)
    await page.goto(f"/runs/{run_id}?tab=compare")
    side = page.get_by_role("button", name=app_text("runs.compare.choose", 3))
    await expect(side).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "run-compare")
    await side.click()
    await expect(page.get_by_role("heading", name=app_text("runs.compare.done"))).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await page.get_by_role("button", name="Neither").click()
    await expect(page.get_by_text(app_text("runs.compare.progress", 1, 1))).to_be_visible()

    async def is_saved() -> bool:
        async with stack.client(account.headers) as client:
            votes = (await client.get(f"/api/runs/{run_id}/votes")).json()["items"]
        return [vote["verdict"] for vote in votes] == ["neither"]

    await until(is_saved)


async def test_a_tree_of_five_thousand_candidates_is_drawn_zoomed_and_searched_by_keys(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    # Nothing serves the first step, so the run itself makes no candidate.
    unserved = await sell(stack, "Unserved painting", is_served=False)
    base = {"name": "Base", "workflow": unserved, "needs_run_prompt": True}
    pipeline = await add_pipeline(stack, account, "Large", base, GLOW, {**GLOW, "name": "Soft"})
    run_id = await start_run(stack, account, pipeline, "Five thousand", target_leaves=4000)
    async with stack.client(account.headers) as client:
        assert (await client.post(f"/api/runs/{run_id}/cancel")).is_success
    await waits(stack, account, run_id)
    count = await plant_tree(stack, account, run_id, 192)
    assert count == 4992
    await page.goto(f"/runs/{run_id}")
    tree = page.get_by_role("application", name=re.compile("Tree of 4,992 candidates"))
    await expect(tree).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "run-tree-large")
    box: Any = await tree.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    await page.mouse.move(*middle)
    for name, moves in (("pan, all in view", pan), ("zoom", zoom), ("pan, near", pan)):
        await page.evaluate(WATCH_FRAMES)
        await moves(page, *middle)
        frames: list[float] = (await page.evaluate("window.frames"))[5:]
        median, slowest = statistics.median(frames), statistics.quantiles(frames, n=20)[-1]
        print(f"{name}: {len(frames)} frames, median {median:.1f} ms, 95 % within {slowest:.1f} ms")  # noqa: T201
    await screenshots.take(page, "run-tree-large-near")
    await assert_map_leads(page)
    # The arrow keys lead to a candidate, and its panel shows it.
    await page.get_by_role("button", name="Show all").click()
    await tree.focus()
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowDown")
    panel = page.get_by_role("complementary", name="Selected candidate")
    await expect(panel.get_by_role("heading", name="Candidate 7")).to_be_visible()


async def assert_map_leads(page: Page) -> None:
    """The map frames what the window shows, a press moves the window there, and the whole tree needs no map."""
    shown = page.get_by_role("img", name=app_text("runs.tree.minimap"))
    frame = shown.locator("xpath=following-sibling::div")
    for corner in (0.1, 0.9):
        box: Any = await shown.bounding_box()
        x, y = box["x"] + box["width"] * corner, box["y"] + box["height"] * 0.5
        await page.mouse.click(x, y)

        async def is_framed(x: float = x, y: float = y) -> bool:
            around: Any = await frame.bounding_box()
            is_beside = around["x"] <= x <= around["x"] + around["width"] + 4
            return bool(is_beside and around["y"] <= y <= around["y"] + around["height"] + 4)

        await until(is_framed)
    await page.get_by_role("button", name="Show all").click()
    await expect(shown).to_be_hidden()
    await page.get_by_role("button", name="Zoom in").click()
    await expect(shown).to_be_visible()


async def pan(page: Page, x: float, y: float) -> None:
    await page.mouse.move(x, y)
    await page.mouse.down()
    for step in range(60):
        await page.mouse.move(x + step * 3, y + step)
    for step in range(60):
        await page.mouse.move(x + 180 - step * 3, y + 60 - step)
    await page.mouse.up()


async def zoom(page: Page, x: float, y: float) -> None:
    await page.mouse.move(x, y)
    for _ in range(60):
        await page.mouse.wheel(0, -40)


async def test_a_run_of_another_user_is_not_found(signed_in: Page, stack: Stack) -> None:
    stranger = await stack.new_account()
    pipeline = await add_pipeline(stack, stranger, "Private", IMAGINE)
    run_id = await start_run(stack, stranger, pipeline, "Secret", target_leaves=1)
    await signed_in.goto(f"/runs/{run_id}")
    await expect(signed_in.get_by_role("heading", name=app_text("run-not-found.runNotFound.title"))).to_be_visible()
    await signed_in.goto("/runs")
    await expect(signed_in.get_by_role("heading", name="No runs yet")).to_be_visible()
    await assert_accessible(signed_in)
    await signed_in.get_by_role("link", name="Choose a pipeline").click()
    await expect(signed_in).to_have_url(f"{stack.url}/pipelines")


async def balance_of(stack: Stack, account: Account) -> int:
    async with stack.client(account.headers) as client:
        return int((await client.get("/api/wallet")).json()["balance"])
