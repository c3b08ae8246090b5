"""An operator sees where the time of a job went, why it failed, and replays it."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.making import ended, sell, submit, upload
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.support.scripted_worker import ScriptedWorker

pytestmark = pytest.mark.thorough
MARKUP = "<img src=x onerror=alert(1)>"
WIDTHS = (390, 1440)


async def assert_fits(page: Page) -> None:
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, width
        await assert_accessible(page)


async def large_graph_job(stack: Stack, account: Account, nodes: int) -> str:
    """A job of a graph of so many nodes, whose titles have markup."""
    slug = f"large-{uuid.uuid4().hex[:6]}"
    graph: dict[str, Any] = {
        "0": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": 255}}
    }
    for number in range(1, nodes - 1):
        title = {"title": f"{MARKUP} {number}"}
        graph[str(number)] = {"class_type": "ImageInvert", "inputs": {"image": [str(number - 1), 0]}, "_meta": title}
    graph["save"] = {"class_type": "SaveImage", "inputs": {"images": [str(nodes - 2), 0], "filename_prefix": "test"}}
    payload = {"workflow": graph, "assets": [], "output_node_id": "save", "output_extension": "png"}
    async with stack.client(stack.operator) as client:
        created = await client.post(
            "/api/admin/workflows",
            json={
                "slug": slug,
                "name": slug,
                "graph": graph,
                "properties": [],
                "output_node_id": "save",
                "output_extension": "png",
                "output_mime_type": "image/png",
            },
        )
        assert created.status_code == 201, created.text
        [fleet] = (await client.get("/api/admin/fleets?slug=demo")).json()["items"]
        served = {"workflow_slugs": [*fleet["workflows"], slug]}
        assert (await client.put(f"/api/admin/fleets/{fleet['id']}/workflows", json=served)).is_success
        job = await client.post(
            "/api/admin/jobs", json={"user_id": account.id, "workflow": slug, "payload": payload, "cost": 3}
        )
        assert job.status_code == 201, job.text
    return str(job.json()["id"])


async def test_where_the_time_of_a_job_went(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    job_id = await submit(stack, account, "noir", await upload(stack, account))
    await ended(stack, account, job_id)
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/jobs/{job_id}")
    table = page.get_by_role("region", name="Where the time went")
    for row in ("Waiting for a worker", "Attempt 1 on", "Download of the inputs", "Upload of the result", "Completed"):
        await expect(table.get_by_role("row").filter(has_text=row).first).to_be_visible()
    # Nodes are named as in the graph, and the graph shows the time of each.
    await expect(table.get_by_role("row").filter(has_text="SaveVideo").first).to_contain_text("s")
    node = page.get_by_role("button", name="SaveVideo")
    await expect(node).to_be_visible()
    await node.click()
    await expect(page.get_by_role("region", name="Inputs of")).to_contain_text("ran")
    await expect(page).to_have_url(f"{stack.url}/operate/jobs/{job_id}?node={await node_in_url(page)}")
    await assert_fits(page)
    await screenshots.take(page, "operate-job")

    # One attempt alone, in the URL.
    await page.get_by_role("combobox", name="Shown part").click()
    await page.get_by_role("option", name="Attempt 1").click()
    await page.reload()
    await expect(page.get_by_role("combobox", name="Shown part")).to_contain_text("Attempt 1")
    for tab, text in (("Payload", "output_node_id"), ("Events", "worker:"), ("Tokens", "Spent")):
        await page.get_by_role("tab", name=tab).click()
        await expect(page.get_by_role("tabpanel")).to_contain_text(text)
        await assert_accessible(page)
        await screenshots.take(page, f"operate-job-{tab.lower()}")


async def node_in_url(page: Page) -> str:
    return str(await page.evaluate("new URL(location.href).searchParams.get('node')"))


async def test_a_failed_job_says_what_to_do_and_is_replayed(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    effect = await sell(stack, "Broken lens", is_broken=True)
    other, job_id = [await submit(stack, account, effect, prompt="a portrait") for _ in range(2)]
    for each in (other, job_id):
        await ended(stack, account, each)
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/jobs/{job_id}")
    error = page.get_by_role("region", name="Error")
    await expect(error).to_contain_text("NoSuchNode")
    await expect(error).to_contain_text("What to do:")
    # Other jobs with the same error are a click away, and lead back to their own pages.
    alike = page.get_by_role("region", name="Jobs that failed like this one")
    await expect(alike.get_by_role("link", name="Show these jobs")).to_have_attribute("href", re.compile("error="))
    await assert_fits(page)
    await screenshots.take(page, "operate-job-failed")
    await page.get_by_role("button", name="Replay").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("5 tokens are held")
    await dialog.get_by_role("button", name="Replay it").click()
    await expect(page.get_by_text("The job is in the queue again.")).to_be_visible()
    # It fails again, in its second charge cycle, and the page follows by itself.
    table = page.get_by_role("region", name="Where the time went")
    await expect(table.get_by_role("row").filter(has_text="Attempt 2 on")).to_be_visible()
    await expect(page.get_by_role("button", name="Replay")).to_be_visible()


async def test_the_node_that_runs_is_lit_until_the_job_is_canceled(page: Page, stack: Stack, account: Account) -> None:
    effect = await sell(stack, "Slow painting", is_served=False)
    job_id = await submit(stack, account, effect, prompt="a lighthouse")
    await stack.sign_in(page, await stack.new_account(role="operator"))
    async with stack.client(stack.operator) as operator, stack.client() as client:
        place = {"slug": effect, "workflow_slugs": [effect]}
        fleet = (await operator.post("/api/admin/fleets", json=place)).json()
        token = (await operator.post(f"/api/admin/fleets/{fleet['id']}/tokens", json={"name": "test"})).json()["token"]
        # It works on the node for as long as the test wants.
        worker = await ScriptedWorker(client, effect).register(token, fleet_slug=effect, stage="production")
        await operator.post(f"/api/admin/workers/{effect}/approve")
        job = await worker.job(max_concurrency=1, wait_seconds=20)
        assert (await worker.heartbeat(job, progress={"percent": 10, "node_id": "paint"})).status_code == 200
        await page.goto(f"/operate/jobs/{job_id}")
        await expect(page.locator(".graph-box.is-running")).to_contain_text("LightboxTextToImage")
        await page.get_by_role("button", name="Cancel job").click()
        await page.get_by_role("dialog").get_by_role("button", name="Cancel it").click()
        table = page.get_by_role("region", name="Where the time went")
        await expect(table.get_by_role("row").filter(has_text="Canceled").last).to_be_visible()
        await expect(page.locator(".graph-box.is-running")).to_have_count(0)
        await worker.deregister("the test is over")


async def test_a_graph_of_200_nodes_with_markup_in_its_titles_stays_text(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    job_id = await large_graph_job(stack, account, 200)
    assert (await ended(stack, account, job_id))["status"] == "completed"
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/jobs/{job_id}")
    await expect(page.locator(".react-flow__node")).to_have_count(200)
    await page.get_by_role("button", name="Show all 200 nodes").click()
    table = page.get_by_role("region", name="Where the time went")
    await expect(table.get_by_role("row").filter(has_text=f"{MARKUP} 7").first).to_be_visible()
    assert await page.locator("img[src=x]").count() == 0
    # By keyboard: the node that has the focus is in sight.
    await page.get_by_role("tabpanel").focus()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Inputs of EmptyImage")).to_contain_text("width")
    await expect(page.locator(".react-flow__node button").first).to_be_in_viewport()
    await assert_accessible(page)
    await screenshots.take(page, "operate-job-large")


async def test_a_viewer_sees_the_waterfall_and_no_payload(page: Page, stack: Stack, account: Account) -> None:
    job_id = await submit(stack, account, await sell(stack, "Waiting", is_served=False), prompt="hills")
    await stack.sign_in(page, await stack.new_account(role="viewer"))
    await page.goto(f"/operate/jobs/{job_id}")
    table = page.get_by_role("region", name="Where the time went")
    await expect(table.get_by_role("row").filter(has_text="Waiting for a worker")).to_be_visible()
    await expect(page.get_by_text("Your role does not see payloads")).to_be_visible()
    await expect(page.get_by_role("button", name="Cancel job")).to_have_count(0)
    await page.goto("/operate/jobs/00000000-0000-0000-0000-000000000000")
    await expect(page.get_by_role("heading", name="Job not found")).to_be_visible()
    await assert_accessible(page)
