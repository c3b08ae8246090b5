"""An operator imports a workflow by drop, tests it, sells it and keeps track of its changes; a user buys it."""

from __future__ import annotations

import copy
import io
import json
from typing import Any

import pytest
from PIL import Image
from playwright.async_api import Browser, Page, expect

from tests.browser.catalog import (
    EXPORT,
    add_seed_property,
    assert_accessible_at_top,
    create_effect,
    create_workflow,
    drop,
    drop_export,
    find_effect,
    generate,
    node,
    publish,
    run_on_demo,
    run_test,
    unique,
)
from tests.browser.page_errors import Watch
from tests.browser.screenshots import SIZES, Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import ended

pytestmark = pytest.mark.thorough
MARKUP = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
PNG = {"output_node_id": "9", "output_extension": "png", "output_mime_type": "image/png"}
PROMPT = {"key": "prompt", "type": "text", "placeholder": "{{prompt}}", "user_configurable": True, "required": True}


async def made(stack: Stack, path: str, body: dict[str, Any]) -> dict[str, Any]:
    async with stack.client(stack.operator) as client:
        response = await client.post(f"/api/admin/{path}", json=body)
    assert response.is_success, response.text
    found: dict[str, Any] = response.json()
    return found


async def painting(stack: Stack, name: str, **changes: Any) -> str:
    """A workflow that paints a prompt, in no fleet."""
    graph = copy.deepcopy(EXPORT)
    graph["1"]["inputs"]["text"] = "{{prompt}}"
    body = {"slug": unique("painting"), "name": name, "graph": graph, "properties": [PROMPT], **PNG, **changes}
    return str((await made(stack, "workflows", body))["slug"])


async def test_a_workflow_is_imported_by_drop_tested_sold_and_bought(
    page: Page, chromium: Browser, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto("/operate/workflows")
    await expect(page.get_by_role("region", name="Workflows")).to_contain_text("demo-")

    # The export that ComfyUI offers first is of no use to an engine: the page says what to do.
    await drop(page, "wrong.json", json.dumps({"nodes": [], "links": [], "version": 0.4}))
    await expect(page.get_by_role("dialog")).to_contain_text("Export (API)")
    await page.get_by_role("dialog").get_by_role("button", name="Close").first.click()
    await drop(page, "notes.txt", "not a graph")
    await expect(page.get_by_role("dialog")).to_contain_text(app_text("workflows.workflows.notJson", "notes.txt"))
    await page.keyboard.press("Escape")

    # What no online worker has is said before anything is created.
    unknown = {"5": {"class_type": "NoSuchNode", "inputs": {}}, "6": {"class_type": "VHS_VideoCombine", "inputs": {}}}
    await drop(page, "unknown.json", json.dumps({**EXPORT, **unknown}))
    warning = page.get_by_role("dialog").get_by_role("status").filter(has_text="No worker has")
    await expect(warning).to_contain_text("the node class NoSuchNode or the node class VHS_VideoCombine.")
    await assert_accessible_at_top(page)
    await screenshots.take(page, "operate-import-missing")
    await page.keyboard.press("Escape")

    slug = unique("harbour")
    dialog = await drop_export(page, slug, "Harbour")
    await assert_accessible_at_top(page)
    await screenshots.take(page, "operate-import")
    await create_workflow(page, dialog, "Harbour")
    await expect(page).to_have_url(f"{stack.url}/operate/workflows/{slug}")

    # Inputs are chosen in the graph, and the form follows.
    await add_seed_property(page)
    await expect(page).to_have_url(f"{stack.url}/operate/workflows/{slug}?node=%221%22")
    form = page.get_by_role("region", name=app_text("workflows.workflows.form"))
    await expect(form.get_by_role("textbox", name="Paint", exact=True)).to_have_value("a harbour at dawn")
    await page.get_by_role("button", name="Paint text").click()
    await page.get_by_role("textbox", name="Label").fill("Scene")
    await expect(form.get_by_role("textbox", name="Scene")).to_be_visible()
    await (
        page.get_by_role("spinbutton", name="Most characters")
        .or_(page.get_by_role("textbox", name="Most characters"))
        .fill("200")
    )
    await expect(form).to_contain_text("200")
    # The seed is for effects only.
    await page.get_by_role("button", name="Paint: Seed seed").click()
    await expect(page.get_by_role("textbox", name="Default")).to_have_value("18446744073709551615")
    await page.get_by_role("switch", name=app_text("workflows.workflows.property.users")).click()
    await expect(form.get_by_role("group", name=app_text("workflows.workflows.hidden"))).to_contain_text("Seed")
    await node(page, "Save the image").click()
    await expect(
        page.get_by_role("region", name=app_text("workflows.workflows.node", "Save the image", "9"))
    ).to_contain_text(app_text("workflows.workflows.isResult"))
    await expect(form).to_contain_text(app_text("workflows.workflows.noFleet"))

    bar = page.get_by_role("region", name="Unsaved changes")
    await expect(bar).to_contain_text("1 node, 2 properties")
    await bar.get_by_role("button", name="Review").click()
    review = page.get_by_role("dialog")
    await expect(review).to_contain_text("Paint (node 1)")
    await expect(review).to_contain_text("{{seed}}")
    await review.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Harbour is saved.")).to_be_visible()
    await expect(bar).to_have_count(0)

    await run_on_demo(page)
    await assert_accessible_at_top(page)
    await screenshots.take(page, "operate-workflow-settings")

    # The test runs on the engine, and its result is beside the form.
    await page.get_by_role("tab", name="Graph and form").click()
    await run_test(page, "Scene", "a lighthouse in the fog")
    await assert_accessible_at_top(page)
    await screenshots.take(page, "operate-workflow")

    await create_effect(page, f"Fog of {slug}")
    await page.get_by_role("combobox", name="Category").fill("Places")
    await page.get_by_role("switch", name="Set Paint: Seed").click()
    await page.get_by_role("textbox", name="Seed").fill("42")
    # By keyboard, because a notice may cover the button.
    await page.get_by_role("button", name="Save").press("Enter")
    await expect(page.get_by_text(app_text("catalog-effects.catalogEffects.saved", f"Fog of {slug}"))).to_be_visible()

    # Its preview is rendered from a sample.
    await page.get_by_role("radio", name=app_text("catalog-effects.catalogEffects.renderTab")).click()
    await form.get_by_role("textbox", name="Scene").fill("a pier in the fog")
    await form.get_by_role("button", name="Run a test").click()
    await page.get_by_role("button", name=app_text("catalog-effects.catalogEffects.useResult")).click()
    await expect(page.get_by_text(app_text("catalog-effects.catalogEffects.previewSet"))).to_be_visible()
    await expect(page.get_by_role("button", name="Remove preview")).to_be_visible()
    await assert_accessible_at_top(page)
    await screenshots.take(page, "operate-effect")

    # No effect is free by accident.
    await publish(page, f"Fog of {slug}", price=7)

    context = await chromium.new_context(base_url=stack.url, locale="en-US")
    buyer = await context.new_page()
    await stack.sign_in(buyer, account)
    await find_effect(buyer, f"Fog of {slug}")
    await expect(buyer.get_by_role("textbox", name="Seed")).to_have_count(0)
    job = await ended(stack, account, await generate(buyer, "Scene", "a ferry in the fog"))
    await context.close()
    assert (job["status"], job["cost"]) == ("completed", 7)
    async with stack.client(account.headers) as client:
        assert (await client.get("/api/wallet")).json()["balance"] == 993
    async with stack.client(stack.operator) as client:
        assert (await client.get(f"/api/admin/workflows/{slug}")).json()["properties"][1]["default"] == 2**64 - 1


async def test_a_click_on_a_node_chooses_the_file_that_is_the_result(page: Page, stack: Stack) -> None:
    draft = {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "draft"}}
    graph = {**EXPORT, "8": {**draft, "_meta": {"title": "Save the draft"}}}
    slug = (await made(stack, "workflows", {"slug": unique("two-files"), "name": "Two files", "graph": graph, **PNG}))[
        "slug"
    ]

    async def output() -> str | None:
        async with stack.client(stack.operator) as client:
            found: str | None = (await client.get(f"/api/admin/workflows/{slug}")).json()["output_node_id"]
        return found

    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/workflows/{slug}")
    await node(page, "Save the draft").click()
    panel = page.get_by_role("region", name=app_text("workflows.workflows.node", "Save the draft", "8"))
    await panel.get_by_role("button", name=app_text("workflows.workflows.useAsResult")).click()
    await expect(panel).to_contain_text(app_text("workflows.workflows.isResult"))
    await save_changes(page)
    assert await output() == "8"
    # The node that was the result before is not the result any more, also after a reload.
    await page.reload()
    await node(page, "Save the image").click()
    other = page.get_by_role("region", name=app_text("workflows.workflows.node", "Save the image", "9"))
    await expect(other.get_by_role("button", name=app_text("workflows.workflows.useAsResult"))).to_be_visible()
    await expect(other).not_to_contain_text("Its file is the result of a job.")
    await assert_accessible_at_top(page)
    # Without a chosen node, every file is delivered.
    await node(page, "Save the draft").click()
    await panel.get_by_role("button", name=app_text("workflows.workflows.useAllFiles")).click()
    await save_changes(page)
    assert await output() is None


async def save_changes(page: Page) -> None:
    bar = page.get_by_role("region", name="Unsaved changes")
    await bar.get_by_role("button", name="Review").click()
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(bar).to_have_count(0)


async def test_a_changed_workflow_shows_what_changed(page: Page, stack: Stack, screenshots: Screenshots) -> None:
    slug = await painting(stack, "Changing painting")
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/workflows/{slug}")
    await expect(node(page, "Paint")).to_be_visible()
    changed = copy.deepcopy(EXPORT)
    changed["1"]["inputs"]["steps"] = 8
    changed["3"] = {"class_type": "ImageBlur", "inputs": {"image": ["1", 0], "blur_radius": 2, "sigma": 1.0}}
    changed["9"]["inputs"]["images"] = ["3", 0]
    del changed["2"]
    await drop(page, "changed.json", json.dumps(changed))
    bar = page.get_by_role("region", name="Unsaved changes")
    # The property stays, because its input is still there.
    await expect(bar).to_contain_text("4 nodes")
    await expect(page.get_by_role("button", name="Prompt prompt")).to_be_visible()
    await expect(node(page, "ImageBlur")).to_contain_text("New")

    # A look at another page loses nothing.
    await page.get_by_role("link", name="Workflows").first.click()
    await page.get_by_role("link", name="Changing painting").first.click()
    await expect(bar).to_contain_text("4 nodes")
    await bar.get_by_role("button", name="Review").click()
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(page.get_by_text(app_text("workflows.workflows.saved", "Changing painting"))).to_be_visible()

    await page.get_by_role("tab", name="Versions").click()
    await expect(page.get_by_role("heading", name=app_text("workflows.workflows.whatChanged", 1, 2))).to_be_visible()
    difference = page.get_by_role("group", name="What changed")
    await expect(difference).to_contain_text("ImageBlur (node 3)")
    await expect(difference).to_contain_text("Invert (node 2)")
    await expect(difference).to_contain_text("steps4→ becomes 8")
    await assert_accessible_at_top(page)
    await screenshots.take(page, "operate-workflow-versions")

    # The earlier version comes back as a change that is saved like any other.
    versions = page.get_by_role("navigation", name="Versions")
    await versions.get_by_role("button", name="Version 1").click()
    await expect(page).to_have_url(f"{stack.url}/operate/workflows/{slug}?tab=versions&version=1")
    await page.get_by_role("button", name="Restore this version").click()
    await expect(node(page, "Invert")).to_be_visible()
    await bar.get_by_role("button", name="Review").click()
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await page.get_by_role("tab", name="Versions").click()
    await expect(versions.get_by_role("button")).to_have_count(3)


async def test_an_unsaved_change_is_tested_before_it_is_saved(page: Page, stack: Stack) -> None:
    slug = await painting(stack, "Draft painting")
    async with stack.client(stack.operator) as client:
        [fleet] = (await client.get("/api/admin/fleets?slug=demo")).json()["items"]
        assert (await client.patch(f"/api/admin/fleets/{fleet['id']}/workflows", json={"add": [slug]})).is_success
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/workflows/{slug}")
    form = page.get_by_role("region", name=app_text("workflows.workflows.form"))
    await expect(form.get_by_role("button", name="Run a test")).to_be_visible()
    await drop(page, "broken.json", json.dumps({**EXPORT, "5": {"class_type": "NoSuchNode", "inputs": {}}}))
    await expect(form).to_contain_text(app_text("workflows.workflows.unsavedTest"))
    # A required value is asked for before anything is sent.
    await form.get_by_role("button", name="Run a test").click()
    await expect(form.get_by_role("textbox", name="Prompt")).to_have_attribute("aria-invalid", "true")
    await form.get_by_role("textbox", name="Prompt").fill("a mill")
    await form.get_by_role("button", name="Run a test").click()
    result = page.get_by_role("region", name=app_text("workflows.workflows.result"))
    await expect(result).to_contain_text(app_text("workflows.workflows.failed"))
    await expect(result).to_contain_text("NoSuchNode")
    async with stack.client(stack.operator) as client:
        saved = (await client.get(f"/api/admin/workflows/{slug}")).json()
    assert "5" not in saved["graph"]
    await page.get_by_role("button", name="Discard").click()
    await page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    await expect(page.get_by_role("region", name="Unsaved changes")).to_have_count(0)


async def test_requirements_are_edited_beside_the_workers_that_fulfil_them(
    page: Page, stack: Stack, screenshots: Screenshots
) -> None:
    slug = await painting(stack, "Demanding painting")
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/workflows/{slug}?tab=requirements")
    workers = page.get_by_role("region", name="Workers")
    await expect(workers).to_contain_text(app_text("requirements.requirements.noWorkers"))
    async with stack.client(stack.operator) as client:
        [fleet] = (await client.get("/api/admin/fleets?slug=demo")).json()["items"]
        assert (await client.patch(f"/api/admin/fleets/{fleet['id']}/workflows", json={"add": [slug]})).is_success
    await page.reload()
    await expect(workers).to_contain_text("can run it")
    await expect(workers).not_to_contain_text("Cannot run it")

    await expect(workers).not_to_contain_text("Your changes are not saved")
    await page.get_by_role("textbox", name="More node classes").fill("NodeOfNobody\n")
    # Workers are compared with what is saved.
    await expect(workers.get_by_role("status")).to_contain_text(app_text("requirements.requirements.unsaved"))
    await page.get_by_role("button", name="Add a model").click()
    await page.get_by_role("textbox", name=app_text("requirements.requirements.modelName", 1)).fill("rare.safetensors")
    await page.get_by_role("textbox", name=app_text("requirements.requirements.modelHash", 1)).fill("abc")
    await expect(page.get_by_text(app_text("requirements.requirements.wrongHash"))).to_be_visible()
    await page.get_by_role("textbox", name=app_text("requirements.requirements.modelHash", 1)).fill("ab" * 32)
    await page.get_by_role("textbox", name="Engine versions").fill("newest")
    bar = page.get_by_role("region", name="Unsaved changes")
    await bar.get_by_role("button", name="Review").click()
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    # The reason is at its field.
    await expect(page.get_by_role("textbox", name="Engine versions")).to_have_attribute("aria-invalid", "true")
    await page.get_by_role("textbox", name="Engine versions").fill(">=0.1")
    await bar.get_by_role("button", name="Review").click()
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(page.get_by_text(app_text("workflows.workflows.saved", "Demanding painting"))).to_be_visible()
    await expect(workers).to_contain_text("Cannot run it")
    await expect(workers).not_to_contain_text("Your changes are not saved")
    await expect(workers).to_contain_text("Missing: node class NodeOfNobody, model rare.safetensors")
    await assert_accessible_at_top(page)
    await screenshots.take(page, "operate-workflow-requirements")
    async with stack.client(stack.operator) as client:
        saved = (await client.get(f"/api/admin/workflows/{slug}")).json()["requirements"]
    assert saved["models"] == [{"name": "rare.safetensors", "sha256": "ab" * 32}]
    assert (saved["node_classes"], saved["engine_version"]) == (["NodeOfNobody"], ">=0.1")

    await page.get_by_role("button", name=app_text("requirements.requirements.removeModel", "rare.safetensors")).click()
    await page.get_by_role("textbox", name="More node classes").fill("")
    await bar.get_by_role("button", name="Review").click()
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(workers).not_to_contain_text("Cannot run it")


async def test_retiring_a_workflow_shows_its_consequences(page: Page, stack: Stack, account: Account) -> None:
    slug = await painting(stack, "Retired painting")
    effect = {"slug": slug, "name": "Sold painting", "workflow": slug, "credits_cost": 3, "is_published": True}
    await made(stack, "effects", effect)
    async with stack.client(account.headers) as client:
        body = {"effect_id": slug, "input_payload": {"prompt": "a mill"}}
        assert (await client.post("/api/ai-jobs", json=body)).status_code == 201
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/workflows/{slug}")
    await page.get_by_role("button", name=app_text("workflows.workflows.actions")).click()
    await page.get_by_role("menuitem", name="Deactivate").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(f"{app_text('workflows.workflows.retireEffects', 1)}Sold painting")
    await expect(dialog).to_contain_text("1 job waits")
    await assert_accessible_at_top(page)
    await dialog.get_by_role("button", name="Deactivate").click()
    await expect(page.get_by_text(app_text("workflows.workflows.retired", "Retired painting"))).to_be_visible()
    await expect(page.get_by_role("region", name=app_text("workflows.workflows.form"))).to_contain_text(
        app_text("workflows.workflows.inactiveTest")
    )
    # It has an effect and jobs, so it stays.
    await page.get_by_role("button", name=app_text("workflows.workflows.actions")).click()
    await page.get_by_role("menuitem", name="Delete").click()
    await dialog.get_by_role("button", name="Delete").click()
    await expect(dialog).to_contain_text("has effects. Delete them first, or leave it deactivated.")
    await dialog.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Activate").click()
    await expect(page.get_by_text(app_text("workflows.workflows.activated", "Retired painting"))).to_be_visible()


async def test_a_preview_is_uploaded_and_an_effect_without_jobs_deleted(page: Page, stack: Stack) -> None:
    workflow = await painting(stack, "Shown painting")
    slug = unique("shown")
    await made(stack, "effects", {"slug": slug, "name": f"Shown {slug}", "workflow": workflow, "credits_cost": 3})
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/effects/{slug}")
    button = page.get_by_role("button", name="Use these files")
    await expect(button).to_be_disabled()
    text = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"no image"}
    await page.get_by_label("Result").set_input_files([text])
    await button.click()
    await expect(page.get_by_role("alert")).to_contain_text("notes.txt")
    for label, colour in (("Result", "teal"), ("Original", "grey")):
        content = io.BytesIO()
        Image.new("RGB", (320, 200), colour).save(content, "PNG")
        file = {"name": f"{slug}-{colour}.png", "mimeType": "image/png", "buffer": content.getvalue()}
        await page.get_by_label(label).set_input_files([file])
    await button.click()
    await expect(page.get_by_text(app_text("catalog-effects.catalogEffects.previewSet"))).to_be_visible()
    await expect(page.get_by_role("button", name="Remove preview")).to_be_visible()
    # The preview is a copy, so the uploads are not left in the list of assets.
    await expect(button).to_be_disabled()
    async with stack.client(stack.operator) as client:
        assets = (await client.get("/api/admin/assets")).json()["items"]
    assert not [each["name"] for each in assets if each["name"].startswith(slug)]
    await page.get_by_role("button", name="Remove preview").click()
    await expect(page.get_by_text(app_text("catalog-effects.catalogEffects.removed"))).to_be_visible()

    await page.get_by_role("button", name=app_text("catalog-effects.catalogEffects.actions")).click()
    await page.get_by_role("menuitem", name="Delete").click()
    dialog = page.get_by_role("dialog", name=f"Delete Shown {slug}?")
    await expect(dialog).to_be_visible()
    await assert_accessible_at_top(page)
    await dialog.get_by_role("button", name="Delete", exact=True).click()
    await expect(page).to_have_url(f"{stack.url}/operate/effects")
    async with stack.client(stack.operator) as client:
        assert (await client.get(f"/api/admin/effects/{slug}")).status_code == 404


async def test_an_effect_with_jobs_cannot_be_deleted(page: Page, stack: Stack, account: Account) -> None:
    slug = await painting(stack, "Used painting")
    effect = {"slug": slug, "name": "Used painting", "workflow": slug, "credits_cost": 3, "is_published": True}
    await made(stack, "effects", effect)
    async with stack.client(account.headers) as client:
        body = {"effect_id": slug, "input_payload": {"prompt": "a mill"}}
        assert (await client.post("/api/ai-jobs", json=body)).status_code == 201
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/effects/{slug}")
    await page.get_by_role("button", name=app_text("catalog-effects.catalogEffects.actions")).click()
    await page.get_by_role("menuitem", name="Delete").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(app_text("catalog-effects.catalogEffects.deleteHasJobs"))
    await expect(dialog.get_by_role("button", name="Delete", exact=True)).to_have_count(0)


async def test_an_asset_is_uploaded_used_and_deleted_only_when_unused(
    page: Page, stack: Stack, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto("/operate/assets")
    content = io.BytesIO()
    Image.new("RGB", (64, 48), "teal").save(content, "PNG")
    name = f"{unique('overlay')}.png"
    file = {"name": name, "mimeType": "image/png", "buffer": content.getvalue()}
    await page.get_by_label("Upload…").first.set_input_files([file])
    await expect(page.get_by_text(f"{name} is uploaded.")).to_be_visible()
    row = page.get_by_role("row").filter(has_text=name)
    await expect(row).to_contain_text("Nothing uses it")
    async with stack.client(stack.operator) as client:
        items = (await client.get("/api/admin/assets")).json()["items"]
    asset = next(each["id"] for each in items if each["name"] == name)
    graph = {**EXPORT, "4": {"class_type": "LoadImage", "inputs": {"image": "__OVERLAY__"}}}
    graph["9"] = {**EXPORT["9"], "inputs": {"images": ["4", 0], "filename_prefix": "x"}}
    default = {"key": "overlay", "type": "image", "placeholder": "__OVERLAY__", "default": asset}
    slug = await painting(stack, "With an overlay", graph=graph, properties=[default])
    await page.reload()
    await expect(row).to_contain_text(app_text("assets.assets.workflow", "With an overlay"))
    await assert_accessible_at_top(page)
    await screenshots.take(page, "operate-assets")
    await row.get_by_role("button", name=f"Delete {name}").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("is in use")
    await expect(dialog.get_by_role("button", name="Delete", exact=True)).to_have_count(0)
    await dialog.get_by_role("button", name="Keep it").click()
    async with stack.client(stack.operator) as client:
        for path in (f"{slug}/deactivate", slug):
            sent = await client.request("POST" if "/" in path else "DELETE", f"/api/admin/workflows/{path}")
            assert sent.is_success, sent.text
    await page.reload()
    await expect(row).to_contain_text("Nothing uses it")
    await row.get_by_role("button", name=f"Delete {name}").click()
    await dialog.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_text(f"{name} is deleted.")).to_be_visible()
    await expect(row).to_have_count(0)


async def test_a_viewer_sees_the_catalog_and_changes_nothing(page: Page, stack: Stack) -> None:
    slug = await painting(stack, "Seen painting")
    await stack.sign_in(page, await stack.new_account(role="viewer"))
    await page.goto(f"/operate/workflows/{slug}")
    await expect(page.get_by_role("heading", name="Seen painting", level=1)).to_be_visible()
    await page.get_by_role("button", name="Prompt prompt").click()
    await expect(page.get_by_role("textbox", name="Label")).to_be_disabled()
    for name in ("Run a test", "New graph…", "Actions for the workflow"):
        await expect(page.get_by_role("button", name=name)).to_have_count(0)
    await page.goto("/operate/effects/noir")
    await expect(page.get_by_role("textbox", name="Name")).to_be_disabled()
    await expect(page.get_by_role("button", name=app_text("catalog-effects.catalogEffects.actions"))).to_have_count(0)
    for path in ("workflows", "effects", "assets"):
        await page.goto(f"/operate/{path}")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.locator("main").get_by_role("button", name="…")).to_have_count(0)


async def test_markup_in_titles_and_names_stays_text(page: Page, stack: Stack, watch: Watch) -> None:
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    graph = copy.deepcopy(EXPORT)
    graph["1"] |= {"_meta": {"title": f"Paint {MARKUP}"}}
    graph["1"]["inputs"]["text"] = f"{{{{prompt}}}} {MARKUP}"
    label = {"label": f"Label {MARKUP}", "description": f"Hint {MARKUP}"}
    slug = await painting(stack, f"Evil {MARKUP}", graph=graph, properties=[{**PROMPT, **label}])
    await made(stack, "effects", {"slug": slug, "name": f"Effect {MARKUP}", "workflow": slug, "category": MARKUP})
    async with stack.client(stack.operator) as client:
        graph["1"]["_meta"]["title"] = f"Repaint {MARKUP}"
        assert (await client.patch(f"/api/admin/workflows/{slug}", json={"graph": graph})).is_success
    await stack.sign_in(page, await stack.new_account(role="operator"))
    shown = {
        f"/operate/workflows/{slug}?node=1": (f"Evil {MARKUP}", f"Repaint {MARKUP}", f"Label {MARKUP}"),
        f"/operate/workflows/{slug}?tab=versions": (f"Repaint {MARKUP} (node 1)",),
        f"/operate/effects/{slug}": (f"Effect {MARKUP}", f"Label {MARKUP}"),
        f"/operate/effects?q={slug}": (f"Effect {MARKUP}",),
        "/operate/workflows": (f"Evil {MARKUP}",),
    }
    for path, texts in shown.items():
        await page.goto(path)
        for text in texts:
            await expect(page.get_by_text(text).locator("visible=true").first).to_be_visible()
        assert await page.locator("img[src=x], svg[onload], script:not([src])").count() == 0
    assert dialogs == []


PAGES = {
    "operate-workflows": "/operate/workflows",
    "operate-workflows-none": "/operate/workflows?view=inactive",
    "operate-workflow-node": "/operate/workflows/demo-negative?node={node}",
    "operate-workflow-effects": "/operate/workflows/demo-negative?tab=effects",
    "operate-workflow-not-found": "/operate/workflows/none",
    "operate-effects": "/operate/effects",
    "operate-effects-new": "/operate/effects?new=demo-negative",
    "operate-workflow-requirements-demo": "/operate/workflows/demo-negative?tab=requirements",
    "operate-effect-demo": "/operate/effects/noir",
    "operate-effect-render": "/operate/effects/watermark?preview=render",
    "operate-effect-not-found": "/operate/effects/none",
    "operate-assets-list": "/operate/assets",
}


@pytest.mark.parametrize("name", PAGES)
async def test_every_page_of_the_catalog_fits_every_screen_and_is_accessible(
    page: Page, stack: Stack, screenshots: Screenshots, name: str
) -> None:
    async with stack.client(stack.operator) as client:
        graph = (await client.get("/api/admin/workflows/demo-negative")).json()["graph"]
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(PAGES[name].format(node=next(iter(graph))))
    await expect(page.locator("h1")).to_be_visible()
    await expect(page.locator(".skeleton")).to_have_count(0)
    for width, height in SIZES:
        await page.set_viewport_size({"width": width, "height": height})
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, width
        if width in (390, 1440):
            await assert_accessible_at_top(page)
    await screenshots.take(page, name)


async def test_changes_of_another_operator_are_not_overwritten(page: Page, stack: Stack) -> None:
    slug = await painting(stack, "Shared painting")
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/workflows/{slug}?tab=settings")
    await page.get_by_role("textbox", name=app_text("workflows.workflows.settings.runLimit")).fill("60")
    async with stack.client(stack.operator) as client:
        changed = await client.patch(f"/api/admin/workflows/{slug}", json={"description": "Of another operator"})
        assert changed.is_success, changed.text
    bar = page.get_by_role("region", name="Unsaved changes")
    await bar.get_by_role("button", name="Review").click()
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(bar).to_contain_text(app_text("workflows.workflows.changedByOther"))
    await bar.get_by_role("button", name=app_text("workflows.workflows.goOn")).click()
    await expect(page.get_by_role("textbox", name="Description")).to_have_value("Of another operator")
    await bar.get_by_role("button", name="Review").click()
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(page.get_by_text(app_text("workflows.workflows.saved", "Shared painting"))).to_be_visible()
    async with stack.client(stack.operator) as client:
        saved = (await client.get(f"/api/admin/workflows/{slug}")).json()
    assert (saved["run_limit_seconds"], saved["description"], saved["version"]) == (60, "Of another operator", 3)
