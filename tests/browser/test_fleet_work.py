"""An operator manages workers and fleets on the pages, and sees the effect of each change."""

from __future__ import annotations

import itertools
import re
import uuid
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from callsheet import __version__
from callsheet.fleet.registry.credentials import fleet_secret
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import load_settings
from tests.browser.accessibility import assert_accessible
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import ended, sell, submit
from tests.support.http.scripted_worker import ScriptedWorker
from tests.support.waiting import until

pytestmark = pytest.mark.thorough
numbers = itertools.count(1)
NODE = "NoSuchUpscaler"


def unique(name: str) -> str:
    return f"{name}-{next(numbers)}-{uuid.uuid4().hex[:6]}"


def plan_of(dialog: Locator) -> Locator:
    return dialog.get_by_role("status", name="What happens")


async def admin(stack: Stack, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    async with stack.client(stack.operator) as client:
        response = await client.request(method, f"/api/admin/{path}", json=body)
    assert response.is_success, response.text
    return response.json() if response.content else None


async def open_menu(page: Page, within: Locator, item: str) -> None:
    await within.get_by_role("button", name="Actions for").click()
    await page.get_by_role("menuitem", name=item).click()


async def test_a_fleet_is_created_changed_and_deleted(page: Page, stack: Stack, screenshots: Screenshots) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    slug = unique("farm")
    await page.goto("/operate/fleets")
    await page.get_by_role("button", name="Create fleet").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("Farm <i>one</i>")
    await dialog.get_by_label("Slug").fill("No Slug")
    await dialog.get_by_role("button", name="Create fleet").click()
    # The API refuses the field, and the form shows where and why.
    await expect(dialog.get_by_label("Slug")).to_have_attribute("aria-invalid", "true")
    await dialog.get_by_label("Slug").fill(slug)
    await expect(plan_of(dialog)).to_contain_text(app_text("fleets.fleets.plan.registers", slug, "production", 0))
    await dialog.get_by_label("Search workflows").fill("imagine")
    await dialog.get_by_text("demo-imagine", exact=True).click()
    await expect(plan_of(dialog)).to_contain_text(app_text("fleets.fleets.plan.registers", slug, "production", 1))
    await assert_accessible(page)
    await screenshots.take(page, "operate-fleet-create")
    await dialog.get_by_role("button", name="Create fleet").click()
    await expect(page).to_have_url(re.compile(r"/operate/fleets/\d+$"))
    await expect(page.get_by_role("heading", level=1)).to_have_text("Farm <i>one</i>")
    fleet_id = int(page.url.rpartition("/")[2])

    await page.get_by_role("button", name="Edit").click()
    await expect(plan_of(dialog)).to_have_text("Nothing changes.")
    await dialog.get_by_label("Wanted workers").fill("many")
    await expect(dialog.get_by_role("button", name="Save")).to_be_disabled()
    await dialog.get_by_label("Wanted workers").fill("2")
    await dialog.get_by_label("Name").fill("Farm two")
    await dialog.get_by_role("switch", name="Workers get jobs").click()
    await expect(plan_of(dialog)).to_contain_text(app_text("fleets.fleet.changes.name", "Farm two"))
    await expect(plan_of(dialog)).to_contain_text(app_text("fleets.fleet.changes.off", 0))
    await expect(plan_of(dialog)).to_contain_text(app_text("fleets.fleet.changes.desired", 2))
    await screenshots.take(page, "operate-fleet-edit")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Farm two")
    await expect(page.get_by_text("Switched off")).to_be_visible()

    await page.get_by_role("button", name="Change workflows").click()
    await dialog.get_by_label("Search workflows").fill("demo-")
    await dialog.get_by_text("demo-imagine", exact=True).click()
    await dialog.get_by_text("demo-relight", exact=True).click()
    await expect(plan_of(dialog)).to_contain_text(app_text("fleets.fleet.changes.added", "demo-relight"))
    await expect(plan_of(dialog)).to_contain_text(app_text("fleets.fleet.changes.removed", "demo-imagine"))
    await screenshots.take(page, "operate-fleet-workflows")
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("region", name="Workflows")).to_contain_text("demo-relight")
    changed = await admin(stack, "GET", f"fleets/{fleet_id}")
    assert (changed["name"], changed["is_active"], changed["desired_workers"]) == ("Farm two", False, 2)
    assert changed["workflows"] == ["demo-relight"]

    # The same slug in the same stage is refused at its field.
    await page.goto("/operate/fleets")
    await page.get_by_role("button", name="Create fleet").click()
    await dialog.get_by_label("Slug").fill(slug)
    await dialog.get_by_role("button", name="Create fleet").click()
    await expect(dialog).to_contain_text("This slug is already in use in this stage.")

    await page.goto(f"/operate/fleets/{fleet_id}")
    await open_menu(page, page.locator("main"), "Delete")
    await expect(dialog).to_contain_text(app_text("fleets.fleet.deleteText", 0))
    await dialog.get_by_role("button", name="Delete").click()
    await expect(page).to_have_url(f"{stack.url}/operate/fleets")
    async with stack.client(stack.operator) as client:
        assert (await client.get(f"/api/admin/fleets/{fleet_id}")).status_code == 404


async def test_a_fleet_is_scaled_from_its_page_and_its_worker_comes(
    page: Page, stack: Stack, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    fleet = await admin(stack, "POST", "fleets", {"slug": unique("scaled"), "workflow_slugs": ["demo-relight"]})
    await page.goto(f"/operate/fleets/{fleet['id']}")
    scaling = page.get_by_role("region", name="Scaling", exact=True)
    await expect(scaling).to_contain_text(app_text("fleets.fleet.scaling.none"))
    await scaling.get_by_role("button", name="Set up scaling").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("Group", exact=False).first).to_be_visible()
    await dialog.get_by_role("button", name="Save").click()
    # The driver of Auto Scaling groups needs a group.
    await expect(dialog.get_by_label(re.compile("^Group"))).to_have_attribute("aria-invalid", "true")
    await dialog.get_by_role("combobox", name="Driver").click()
    await page.get_by_role("option", name="process").click()
    await expect(dialog).to_contain_text("Starts agents as processes")
    await dialog.get_by_role("switch", name="Lightbox").click()
    await dialog.get_by_role("switch", name="Leaves with the control plane").click()
    await dialog.get_by_label(app_text("fleets.fleet.scaling.minimum")).fill("3")
    await dialog.get_by_label(app_text("fleets.fleet.scaling.maximum")).fill("2")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_contain_text("The minimum must be between 0 and the maximum of 2.")
    await dialog.get_by_label(app_text("fleets.fleet.scaling.minimum")).fill("1")
    await expect(plan_of(dialog)).to_contain_text(app_text("fleets.fleet.scaling.plan.range", 1, 2))
    await expect(plan_of(dialog)).to_contain_text(app_text("fleets.fleet.scaling.plan.tooFew", 1))
    await assert_accessible(page)
    await screenshots.take(page, "operate-fleet-scaling")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_be_hidden()
    await expect(scaling).to_contain_text(app_text("fleets.fleet.scaledBy", "process"))
    # A real agent registers, and can run what the fleet serves.
    row = page.get_by_role("region", name="Workflows").get_by_role("row").filter(has_text="demo-relight")
    await expect(row).to_contain_text(app_text("fleets.fleet.queues.able", 1, 1))
    await screenshots.take(page, "operate-fleet-scaled")

    # Nothing is deleted while it is in use, and the page says what to do.
    await open_menu(page, page.locator("main"), "Delete")
    await dialog.get_by_role("button", name="Delete").click()
    await expect(dialog).to_contain_text("Stop scaling the fleet first.")
    await dialog.get_by_role("button", name="Cancel").click()
    await scaling.get_by_role("button", name="Stop scaling").click()
    await expect(dialog).to_contain_text(app_text("fleets.fleet.scaling.stopText"))
    await dialog.get_by_role("button", name="Stop scaling").click()
    await expect(scaling).to_contain_text(app_text("fleets.fleet.scaling.none"))
    await open_menu(page, page.locator("main"), "Delete")
    await dialog.get_by_role("button", name="Delete").click()
    await expect(dialog).to_contain_text("The fleet has workers. Stop or revoke them first.")

    # The worker is revoked with its registration token, so that its machine cannot come back.
    [worker] = (await admin(stack, "GET", f"workers?fleet={fleet['slug']}"))["items"]
    await page.goto(f"/operate/workers/{worker['worker_id']}")
    await open_menu(page, page.locator("main"), "Revoke")
    await dialog.get_by_role("switch", name=app_text("workers.workers.withToken")).click()
    await screenshots.take(page, "operate-worker-revoke")
    await dialog.get_by_role("button", name="Revoke", exact=True).click()
    await expect(page).to_have_url(f"{stack.url}/operate/workers")
    tokens = (await admin(stack, "GET", f"fleets/{fleet['id']}/tokens"))["items"]
    assert [token["is_accepted"] for token in tokens if token["id"] == worker["fleet_token_id"]] == [False]
    await page.goto(f"/operate/fleets/{fleet['id']}")
    await open_menu(page, page.locator("main"), "Delete")
    await dialog.get_by_role("button", name="Delete").click()
    await expect(page).to_have_url(f"{stack.url}/operate/fleets")


async def test_a_worker_is_approved_shows_its_progress_and_is_refused_after_it_is_revoked(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    workflow = await sell(stack, "Approved painting", is_served=False)
    settings = load_settings(home=stack.home)
    secret = fleet_secret(settings.fleet, master_secret(settings))
    async with stack.client() as client:
        first = await ScriptedWorker(client, unique("first")).register(secret, workflow_slugs=[workflow])
        job_id = await submit(stack, account, workflow, prompt="a lighthouse")
        held = await first.job()
        assert held["job_id"] == job_id
        await page.goto("/operate/workers")
        table = page.get_by_role("region", name="Workers")
        row = table.get_by_role("row").filter(has_text=first.worker_id)
        await open_menu(page, row, "Revoke")
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name="Revoke", exact=True).click()
        await expect(page.get_by_text(f"{first.worker_id} is revoked.")).to_be_visible()
        await expect(row).to_have_count(0)
        assert (await first.heartbeat(held)).status_code == 401
        assert (await first.ask_to_register(secret, workflow_slugs=[workflow])).status_code == 403

        # A worker with the same secret may be the revoked one under another name: a person decides.
        second = await ScriptedWorker(client, unique("second")).register(secret, workflow_slugs=[workflow])
        assert (await second.poll())["job"] is None
        row = table.get_by_role("row").filter(has_text=second.worker_id)
        await expect(row).to_contain_text("Waits for approval")
        await screenshots.take(page, "operate-workers-unapproved")
        await open_menu(page, row, "Approve")
        await expect(page.get_by_text(app_text("workers.workers.done.approve", second.worker_id))).to_be_visible()
        await expect(row).to_contain_text("Idle")
        # The job of the revoked worker was queued again.
        held = await second.job(wait_seconds=20)
        assert held["job_id"] == job_id

        progress = {"percent": 42.5, "message": "Sampling <b>4</b> of 8"}
        assert (await second.heartbeat(held, run_started=True, progress=progress)).status_code == 200
        await expect(row).to_contain_text("Busy")
        link = row.get_by_role("link").filter(has_text=workflow)
        await expect(link).to_contain_text("42\u00a0%")
        bar = row.get_by_role("progressbar", name=f"Progress of {workflow}")
        await expect(bar).to_have_attribute("aria-valuenow", "42.5")
        await assert_accessible(page)
        await screenshots.take(page, "operate-workers-busy")
        assert await link.get_attribute("href") == f"/operate/jobs/{job_id}"
        assert (await second.heartbeat(held, progress={"percent": 77})).status_code == 200
        await expect(link).to_contain_text("77\u00a0%")
        await row.get_by_role("link", name=second.worker_id).click()
        jobs = page.get_by_role("region", name="Jobs")
        await expect(jobs).to_contain_text("77\u00a0% · Sampling <b>4</b> of 8")
        await screenshots.take(page, "operate-worker-busy")
        await jobs.get_by_role("link", name=job_id).click()
        await expect(page).to_have_url(f"{stack.url}/operate/jobs/{job_id}")

        # Approved again, the first one may come back.
        await page.goto("/operate/workers?view=all")
        row = table.get_by_role("row").filter(has_text=first.worker_id)
        await expect(row).to_contain_text("Revoked")
        await open_menu(page, row, "Approve")
        await expect(row).not_to_contain_text("Revoked")
        await first.register(secret, workflow_slugs=[workflow])
        await second.fail(held, "The test is over.")
        for worker in (first, second):
            assert (await worker.deregister("the test is over")).is_success


async def test_a_rotated_token_reaches_the_agent_and_its_jobs_go_on(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    [worker] = (await admin(stack, "GET", "workers?fleet=demo&live=true"))["items"]
    await page.goto(f"/operate/workers/{worker['worker_id']}")
    packages = page.get_by_role("region", name="Details").get_by_text("Custom nodes", exact=True).locator("..")
    await expect(packages).to_contain_text(f"lightbox {__version__}")
    await expect(packages).to_contain_text("websocket_image_save version unknown")
    await open_menu(page, page.locator("main"), "Rotate token")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(app_text("workers.workers.rotateText"))
    await expect(dialog).to_contain_text(app_text("workers.workers.rotateText"))
    await assert_accessible(page)
    await screenshots.take(page, "operate-worker-rotate")
    await dialog.get_by_role("button", name="Rotate token").click()
    await expect(page.get_by_text(app_text("workers.workers.rotateText"))).to_be_visible()
    await expect(page.get_by_role("region", name="Events")).to_contain_text("rotate_token")

    async def is_used() -> bool:
        return not (await admin(stack, "GET", f"workers/{worker['worker_id']}"))["rotation_pending"]

    await until(is_used, 120)
    token = page.get_by_role("region", name="Details").get_by_text("Token", exact=True).locator("..")
    await expect(token).to_contain_text("In use")
    job_id = await submit(stack, account, "imagine", prompt="a lighthouse")
    assert (await ended(stack, account, job_id))["status"] == "completed"
    after = await admin(stack, "GET", f"workers/{worker['worker_id']}")
    # The agent did not have to register again.
    assert after["session_id"] == worker["session_id"]


async def test_a_fleet_shows_what_its_workers_lack_and_what_waits_in_its_stage(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    workflow = await sell(stack, "Upscaled painting")
    await admin(stack, "PATCH", f"workflows/{workflow}", {"requirements": {"node_classes": [NODE]}})
    job_id = await submit(stack, account, workflow, prompt="a lighthouse")
    [fleet] = (await admin(stack, "GET", "fleets?slug=demo"))["items"]
    other = await admin(
        stack, "POST", "fleets", {"slug": unique("other"), "stage": "staging", "workflow_slugs": [workflow]}
    )
    await page.goto(f"/operate/fleets/{fleet['id']}")
    table = page.get_by_role("region", name="Workflows")
    row = table.get_by_role("row").filter(has_text=workflow)
    await expect(row).to_contain_text("0 of 1")
    await expect(row).to_contain_text(f"1 worker lacks node class {NODE}")
    waiting = row.get_by_role("cell").nth(2)
    await expect(waiting).to_have_text("1")
    able = table.get_by_role("row").filter(has_text="demo-imagine")
    await expect(able).to_contain_text("1 of 1")
    await assert_accessible(page)
    await screenshots.take(page, "operate-fleet-lacks")

    # Taking the workflow away says that a job waits for it.
    await page.get_by_role("button", name="Change workflows").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Search workflows").fill(workflow)
    await dialog.get_by_text(workflow, exact=True).click()
    await expect(plan_of(dialog)).to_contain_text(app_text("fleets.fleet.changes.removedWaiting", 1, workflow))
    await page.keyboard.press("Escape")

    # The job is of another stage.
    await page.goto(f"/operate/fleets/{other['id']}")
    row = table.get_by_role("row").filter(has_text=workflow)
    await expect(row).to_contain_text("No live worker")
    await expect(row.get_by_role("cell").nth(2)).to_have_text("0")
    async with stack.client(account.headers) as client:
        assert (await client.post(f"/api/ai-jobs/{job_id}/cancel")).is_success
    await admin(stack, "PATCH", f"fleets/{fleet['id']}/workflows", {"remove": [workflow]})
    await admin(stack, "DELETE", f"fleets/{other['id']}")
