"""A person designs a pipeline, tries it, saves it, changes it, and starts runs; from a template in three clicks."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from callsheet_demo.account import DEMO_EMAIL
from callsheet_demo.pipeline import PIPELINE
from tests.browser.accessibility import assert_accessible
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.support.waiting import until

pytestmark = pytest.mark.thorough
RUN_PAGE = re.compile(r"/runs/[0-9a-f-]{36}")


async def choose(step: Locator, page: Page, name: str) -> None:
    await step.get_by_role("combobox", name=app_text("pipelines.editor.workflow")).click()
    await page.get_by_role("option", name=name).click()


async def finished_run(stack: Stack, account: Account, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def has_ended() -> bool:
        async with stack.client(account.headers) as client:
            found.update((await client.get(f"/api/runs/{run_id}")).json())
        return bool(found["ended_at"])

    await until(has_ended)
    return found


async def test_a_user_designs_tries_saves_changes_and_starts_a_pipeline(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    await page.goto("/pipelines")
    await expect(page.get_by_role("heading", name="No pipeline yet")).to_be_visible()
    await assert_accessible(page)
    await page.get_by_role("link", name="New pipeline").click()
    await page.get_by_role("textbox", name="Name", exact=True).fill("Dunes by night")

    # The first step paints. Its prompt is the run's own until another text is written.
    steps = page.get_by_role("main").locator("ol > li")
    await choose(steps.nth(0), page, "Imagine")
    prompt = steps.nth(0).get_by_role("textbox", name="Prompt")
    await expect(prompt).to_have_value("{{prompt}}")
    # A brace opens the list of variables; the keyboard chooses, and a new name is marked as new.
    await prompt.fill("")
    await prompt.press_sequentially("{pr")
    await expect(page.get_by_role("option", name="{{prompt}}")).to_be_visible()
    await prompt.press("Enter")
    await prompt.press_sequentially(", {{style")
    await prompt.press("Enter")
    await expect(prompt).to_have_value("{{prompt}}, {{style}}")
    await expect(steps.nth(0)).to_contain_text(app_text("pipelines.editor.newName", "style"))
    # A name that is nearly a known one is offered; one that cannot be is marked as wrong.
    await prompt.press_sequentially(" {{promt}}")
    await steps.nth(0).get_by_role("button", name=app_text("pipelines.editor.didYouMean", "prompt")).click()
    await expect(prompt).to_have_value("{{prompt}}, {{style}} {{prompt}}")
    await prompt.fill("{{prompt}}, {{Style}}")
    await expect(steps.nth(0)).to_contain_text(app_text("pipelines.editor.wrongName", "Style"))
    await prompt.fill("{{prompt}}, {{style}}")

    # The second step works on its images; counts multiply above the steps.
    await page.get_by_role("button", name="Add a step").click()
    await choose(steps.nth(1), page, "Relight")
    await expect(steps.nth(1)).to_contain_text(app_text("pipelines.editor.parentNote"))
    children = steps.nth(0).get_by_role("textbox", name=app_text("pipelines.editor.children"))
    await children.fill("4")
    await expect(page.get_by_role("region", name=app_text("pipelines.editor.drawing"))).to_contain_text(
        "1 → 4 for each first image"
    )
    await page.get_by_role("textbox", name=app_text("pipelines.runPanel.leaves")).fill("4")
    await expect(
        page.get_by_role("img", name=app_text("pipelines.pipelines.chainLabel", "Imagine 1, Relight 4"))
    ).to_be_visible()

    # Moved by button, by the keyboard, and back by dragging.
    await steps.nth(1).get_by_role("button", name="Move Relight up").press("Enter")
    await expect(steps.nth(0).get_by_role("textbox", name="Step 1: Name of the step")).to_have_value("Relight")
    # The server says at the field what is wrong with a first step that needs an image.
    await page.get_by_role("button", name="Dry run").click()
    await expect(steps.nth(0)).to_contain_text("the first step has no parent")
    await expect(page.get_by_text(app_text("pipelines.runPanel.fixSteps"))).to_be_visible()
    await steps.nth(1).get_by_test_id("drag").drag_to(steps.nth(0))
    await expect(steps.nth(0).get_by_role("textbox", name="Step 1: Name of the step")).to_have_value("Imagine")

    # The dry run asks for what is missing, then shows the first job.
    panel = page.get_by_role("region", name="Try and run")
    await expect(panel).to_contain_text("needs a prompt")
    await panel.get_by_role("textbox", name="Prompt").fill("dunes")
    await panel.get_by_role("textbox", name="Style").fill("by night")
    result = panel.get_by_role("region", name=app_text("pipelines.runPanel.result"))
    await expect(result).to_contain_text("dunes, by night")
    await expect(result).to_contain_text("5 tokens")
    await assert_accessible(page)
    await screenshots.take(page, "pipeline-new")
    async with stack.client(account.headers) as client:
        assert (await client.get("/api/pipelines")).json()["items"] == []

    await page.get_by_role("button", name="Create pipeline").click()
    await expect(page).to_have_url(f"{stack.url}/pipelines/dunes-by-night")
    await expect(page.get_by_text(app_text("pipelines.editor.created"))).to_be_visible()
    save = page.get_by_role("button", name="Save", exact=True)
    await expect(save).to_be_disabled()

    # A change is a new version, and what changed can be read.
    await steps.nth(0).get_by_role("textbox", name="Prompt").fill("{{prompt}}, {{style}}, in the manner of an old film")
    await steps.nth(0).get_by_role("textbox", name=app_text("pipelines.editor.children")).fill("2")
    await steps.nth(0).get_by_role("switch", name="Wait for approval").click()
    await expect(page.get_by_text("Unsaved changes")).to_be_visible()
    await save.click()
    await expect(page.get_by_text(app_text("pipelines.editor.saved", 2))).to_be_visible()
    await page.get_by_role("tab", name="Versions (2)").click()
    comparison = page.get_by_role("region", name=app_text("pipelines.version.compared", 2, 1))
    await expect(comparison.locator("ins").filter(has_text="in the manner of an old film")).to_be_visible()
    await expect(comparison).to_contain_text(app_text("pipelines.editor.children"))
    await expect(comparison).to_contain_text("Wait for approval")
    await assert_accessible(page)
    await screenshots.take(page, "pipeline-versions")
    # The link shows another person the same; an old version can be taken up again.
    await page.get_by_role("button", name="Version 1").click()
    await expect(page).to_have_url(f"{stack.url}/pipelines/dunes-by-night?tab=versions&version=1")
    await page.reload()
    await page.get_by_role("button", name=app_text("pipelines.version.restore")).click()
    await expect(steps.nth(0).get_by_role("textbox", name=app_text("pipelines.editor.children"))).to_have_value("4")
    await assert_accessible(page)
    await screenshots.take(page, "pipeline")

    # A removed step comes back by undo.
    await steps.nth(1).get_by_role("button", name="Remove Relight").click()
    await expect(steps).to_have_count(1)
    await page.get_by_role("button", name="Undo").click()
    await expect(steps).to_have_count(2)

    await page.get_by_role("button", name=app_text("pipelines.runPanel.saveAndStart")).click()
    await expect(page).to_have_url(RUN_PAGE)
    run = await finished_run(stack, account, page.url.rpartition("/")[2].partition("?")[0])
    assert (run["pipeline_version"], run["prompt"], run["variables"]) == (3, "dunes", {"style": "by night"})
    assert [step["candidates"] for step in run["steps"]] == [1, 4]
    assert (run["status"], run["spent"]) == ("completed", 5)
    await page.goto("/pipelines")
    card = page.get_by_role("article").filter(has_text="Dunes by night")
    await expect(card).to_contain_text("Completed")
    await assert_accessible(page)
    await screenshots.take(page, "pipelines")


async def test_a_run_starts_from_a_template_in_three_clicks(signed_in: Page, stack: Stack, account: Account) -> None:
    page = signed_in
    await page.goto("/effects")
    await page.get_by_role("navigation", name="Main").first.get_by_role("link", name="Pipelines").click()
    await page.get_by_role("link", name="Start a run: Explore an idea").click()
    await expect(page.get_by_role("dialog")).to_contain_text("Explore an idea")
    await assert_accessible(page)
    await page.get_by_role("button", name="Start run").click()
    await expect(page).to_have_url(RUN_PAGE)
    run_id = page.url.rpartition("/")[2].partition("?")[0]
    run = await finished_run(stack, account, run_id)
    # The cheapest workflows are those of the demo.
    assert [step["candidates"] for step in run["steps"]] == [2, 6, 12]
    # The same template again is another run of the same pipeline.
    await page.goto("/pipelines?start=explore-an-idea")
    await page.get_by_role("button", name="Start run").click()
    await expect(page).to_have_url(RUN_PAGE)
    async with stack.client(account.headers) as client:
        await client.post(f"/api/runs/{page.url.rpartition('/')[2].partition('?')[0]}/cancel")
        assert [each["slug"] for each in (await client.get("/api/pipelines")).json()["items"]] == ["explore-an-idea"]
        assert len((await client.get("/api/runs")).json()["items"]) == 2


async def test_an_actor_is_a_step_with_a_form_from_its_schema(signed_in: Page) -> None:
    page = signed_in
    await page.goto("/pipelines/new")
    steps = page.get_by_role("main").locator("ol > li")
    await choose(steps.nth(0), page, "Imagine")
    await page.get_by_role("button", name="Add a step").click()
    await steps.nth(1).get_by_role("combobox", name=app_text("pipelines.editor.workflow")).click()
    await page.get_by_role("option", name=re.compile("Actors")).first.click()
    await expect(steps.nth(1).get_by_role("combobox", name="What to make")).to_contain_text("Image to image")
    # Its form begins with what the step has: the prompt, the parent's image, a seed.
    await expect(steps.nth(1).get_by_role("textbox", name="Prompt")).to_have_value("{{prompt}}")
    await expect(steps.nth(1).get_by_role("textbox", name="Image URL")).to_have_value("{{parent_image_path}}")
    # A number comes from a variable, and gets a value of its own again.
    await steps.nth(1).get_by_role("button", name=app_text("form.form.fromVariable", "Strength")).click()
    await expect(steps.nth(1).get_by_role("textbox", name="Strength")).to_have_value("{{strength}}")
    panel = page.get_by_role("region", name="Try and run")
    await panel.get_by_role("textbox", name="Prompt").fill("dunes")
    await panel.get_by_role("textbox", name="Strength").fill("0.4")
    await page.get_by_role("button", name="Dry run").click()
    await expect(panel.get_by_role("region", name=app_text("pipelines.runPanel.result"))).to_contain_text("First job")
    await steps.nth(1).get_by_role("button", name=app_text("form.form.ownValue", "Strength")).click()
    await expect(panel.get_by_role("textbox", name="Strength")).to_have_count(0)
    await assert_accessible(page)


@pytest.mark.parametrize("page", [{"width": 390, "height": 844}], indirect=True)
async def test_the_editor_fits_a_phone(page: Page, stack: Stack) -> None:
    """Signed in as the demo's operator, who has the demo's pipeline and sees the graph of the first job."""
    async with stack.client(stack.operator) as client:
        assert (await client.get("/api/pipelines/demo-landscapes")).status_code == 200
    password = (stack.home / "demo" / "password").read_text().strip()
    entered = await page.context.request.post("/api/auth/login", data={"email": DEMO_EMAIL, "password": password})
    assert entered.ok, await entered.text()
    await page.goto("/pipelines/demo-landscapes")
    await expect(page.get_by_role("heading", name=PIPELINE.name)).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    panel = page.get_by_role("region", name="Try and run")
    await panel.get_by_role("textbox", name="Prompt").fill("dunes")
    await panel.get_by_role("button", name="Dry run").click()
    await panel.get_by_text(app_text("pipelines.runPanel.graph")).click()
    await expect(panel).to_contain_text("LightboxTextToImage")
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await assert_accessible(page)


async def test_a_viewer_creates_nothing(page: Page, stack: Stack) -> None:
    await stack.sign_in(page, await stack.new_account(role="viewer"))
    await page.goto("/pipelines")
    await expect(page.get_by_text(app_text("pipelines.pipelines.noneViewer"))).to_be_visible()
    await expect(page.get_by_role("link", name="New pipeline")).to_have_count(0)
    await expect(page.get_by_role("link", name="Start a run")).to_have_count(0)
    await page.goto("/pipelines/new")
    await expect(page.get_by_text(app_text("pipelines.pipelines.noneViewer"))).to_be_visible()


async def test_the_pipeline_of_the_demo_makes_a_tree_of_three_levels(stack: Stack) -> None:
    async with stack.client(stack.operator) as client:
        body = {"name": "Tree", "prompt": "dunes at dawn", "budget": 100, "target_leaves": 12, "seed": 1}
        started = await client.post("/api/pipelines/demo-landscapes/runs", json=body)
        assert started.status_code == 201, started.text
        run_id = started.json()["id"]

        async def has_ended() -> bool:
            return bool((await client.get(f"/api/runs/{run_id}")).json()["ended_at"])

        await until(has_ended)
        run = (await client.get(f"/api/runs/{run_id}")).json()
        assert (run["status"], run["reason"], run["spent"]) == ("completed", "target_reached", 20)
        tree = (await client.get(f"/api/runs/{run_id}/tree")).json()["items"]
    by_level = {level: [node for node in tree if node["position"] == level] for level in (1, 2, 3)}
    assert {level: len(nodes) for level, nodes in by_level.items()} == {1: 2, 2: 6, 3: 12}
    assert {node["parent_id"] for node in by_level[3]} == {node["id"] for node in by_level[2]}
