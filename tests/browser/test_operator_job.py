"""An operator sees where the time of a job went, why it failed, and replays it."""

from __future__ import annotations

import hashlib
import re
import uuid
from datetime import datetime
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.failing_jobs import failed_jobs
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import BROKEN_CHOICE, content_of, ended, job_of, sell, submit, upload
from tests.support.http.scripted_worker import ScriptedWorker

pytestmark = pytest.mark.thorough
MARKUP = "<img src=x onerror=alert(1)>"
WIDTHS = (390, 1440)
TRACEBACK = """Traceback (most recent call last):
  File "actors/poster.py", line 7, in run
    return titles["<b>poster</b>"]
KeyError: '<b>poster</b>'"""


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
        assert (await client.patch(f"/api/admin/fleets/{fleet['id']}/workflows", json={"add": [slug]})).is_success
        job = await client.post(
            "/api/admin/jobs", json={"user_id": account.id, "workflow": slug, "payload": payload, "cost": 3}
        )
        assert job.status_code == 201, job.text
    return str(job.json()["id"])


async def test_the_waterfall_shows_how_a_job_spent_its_time(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    job_id = await submit(stack, account, "noir", await upload(stack, account))
    await ended(stack, account, job_id)
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/jobs/{job_id}")
    table = page.get_by_role("region", name=app_text("operator-job.operatorJob.waterfall"))
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
        if tab != "Events":
            await screenshots.take(page, f"operate-job-{tab.lower()}")


async def test_operators_see_the_files_of_a_job_and_viewers_do_not(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    job_id = await submit(stack, account, "noir", await upload(stack, account))
    output = (await ended(stack, account, job_id))["outputs"][0]
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/jobs/{job_id}")
    files = page.get_by_role("region", name="Files")
    await expect(files.get_by_label(output["name"]).and_(files.locator("video"))).to_be_visible()
    async with page.expect_download() as started:
        await files.get_by_role("link", name=f"Download {output['name']}").click()
    saved = content_of(await (await started.value).path())
    assert hashlib.sha256(saved).hexdigest() == output["sha256"]
    await screenshots.take(page, "operate-job-files")
    # The input, in the player and in the URL.
    await files.get_by_role("list", name="Inputs").get_by_role("button", name="beach-walk.mp4").click()
    await expect(page).to_have_url(re.compile("file="))
    await page.reload()
    await expect(files.get_by_label("beach-walk.mp4").and_(files.locator("video"))).to_be_visible()
    await assert_fits(page)

    await stack.sign_in(page, await stack.new_account(role="viewer"))
    await page.goto(f"/operate/jobs/{job_id}")
    await expect(files).to_contain_text(app_text("operator-job.operatorJob.filesHidden"))
    await expect(files.get_by_role("link")).to_have_count(0)
    await assert_fits(page)
    await screenshots.take(page, "operate-job-files-viewer")


async def test_an_operator_reads_why_a_job_waits(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    job_id = await submit(stack, account, await sell(stack, "Nowhere", is_served=False), prompt="a pier")
    reason = (await job_of(stack, account, job_id))["why_waiting"]["message"]
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/jobs/{job_id}")
    await expect(page.get_by_role("status").filter(has_text=reason)).to_be_visible()
    await assert_fits(page)
    await screenshots.take(page, "operate-job-waiting")


async def test_an_event_leads_to_the_log_lines_of_its_request(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    async with stack.client(account.headers) as client:
        body = {"effect_id": "imagine", "input_payload": {"prompt": "a pier"}}
        created = await client.post("/api/ai-jobs", json=body)
    job_id, request_id = created.json()["id"], created.headers["x-request-id"]
    await ended(stack, account, job_id)
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto(f"/operate/jobs/{job_id}?tab=events")
    table = page.get_by_role("region", name=app_text("operator-job.operatorJob.waterfall"))
    await expect(table.get_by_role("row").filter(has_text="Accepted").first).to_contain_text(request_id)
    events = page.get_by_role("region", name="Events")
    await events.get_by_role(
        "button", name=app_text("operator-job.operatorJob.copyRequestId", request_id)
    ).first.click()
    await expect(events.get_by_role("button", name="Copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == request_id
    # One command for all of its requests.
    lines = page.get_by_role("region", name=app_text("operator-job.operatorJob.logs"))
    await lines.get_by_role("button", name="Copy the command").click()
    await expect(lines.get_by_role("button", name="Copied")).to_be_visible()
    command = str(await page.evaluate("navigator.clipboard.readText()"))
    assert f'grep -E "{job_id}|{request_id}|' in command
    await assert_fits(page)
    await screenshots.take(page, "operate-job-events")


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
    await expect(error).to_contain_text(BROKEN_CHOICE)
    await expect(error).to_contain_text("What to do:")
    # Other jobs with the same error are a click away, and lead back to their own pages.
    alike = page.get_by_role("region", name=app_text("operator-job.operatorJob.alike"))
    await expect(alike.get_by_role("link", name="Show these jobs")).to_have_attribute("href", re.compile("error="))
    await assert_fits(page)
    await screenshots.take(page, "operate-job-failed")
    await page.get_by_role("button", name="Replay").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(app_text("operator-job.operatorJob.replayText", "5 tokens"))
    await dialog.get_by_role("button", name="Replay it").click()
    await expect(page.get_by_text(app_text("operator-job.operatorJob.replayed"))).to_be_visible()
    # It fails again, in its second charge cycle, and the page follows by itself.
    table = page.get_by_role("region", name=app_text("operator-job.operatorJob.waterfall"))
    await expect(table.get_by_role("row").filter(has_text="Attempt 2 on")).to_be_visible()
    await expect(page.get_by_role("button", name="Replay")).to_be_visible()


async def test_the_traceback_is_shown_and_copied_and_jobs_with_the_same_error_are_counted(
    page: Page, stack: Stack, screenshots: Screenshots
) -> None:
    accounts = [await stack.new_account(), await stack.new_account()]
    error = {"type": "actor_error", "traceback": TRACEBACK, "details": {"exception": "KeyError", "note": MARKUP}}
    _, ids = await failed_jobs(stack, accounts, 2, ["The actor of the task failed."], **error)
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto(f"/operate/jobs/{ids[0]}")
    shown = page.get_by_role("region", name="Error")
    await expect(shown).to_contain_text("actor_error")
    await expect(shown).to_contain_text(app_text("failure-hints.failureHints.actor_error"))
    traceback = shown.locator("pre").filter(has_text="Traceback (most recent call last)")
    await expect(traceback).to_be_hidden()
    await shown.get_by_text("Traceback", exact=True).click()
    await expect(traceback).to_be_visible()
    await expect(traceback).to_have_text(TRACEBACK)
    await shown.get_by_role("button", name="Copy the traceback").click()
    await expect(shown.get_by_role("button", name="Copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == TRACEBACK
    await shown.get_by_text("Details", exact=True).click()
    await expect(shown.locator("pre").last).to_contain_text(MARKUP)
    await assert_fits(page)
    await screenshots.take(page, "operate-job-traceback")

    # Four jobs of two tenants: first seen when the first of them ended, last seen when the last of them ended.
    async with stack.client(stack.operator) as client:
        jobs = [(await client.get(f"/api/admin/jobs/{job_id}")).json() for job_id in ids]
    ends = sorted(job["completed_at"] for job in jobs)
    alike = page.get_by_role("region", name=app_text("operator-job.operatorJob.alike"))
    await expect(alike).to_contain_text(app_text("operator-job.operatorJob.alikeText", "4 jobs", "2 tenants"))
    times = await alike.locator("time").evaluate_all("all => all.map((one) => one.dateTime)")
    assert [datetime.fromisoformat(time) for time in times] == [datetime.fromisoformat(ends[n]) for n in (0, -1)]
    await alike.get_by_role("link", name="Show these jobs").click()
    await expect(page.get_by_role("list", name="Jobs").get_by_role("listitem")).to_have_count(4)


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
        table = page.get_by_role("region", name=app_text("operator-job.operatorJob.waterfall"))
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
    await page.get_by_role("button", name=app_text("operator-job.operatorJob.allNodes", "200")).click()
    table = page.get_by_role("region", name=app_text("operator-job.operatorJob.waterfall"))
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
    table = page.get_by_role("region", name=app_text("operator-job.operatorJob.waterfall"))
    await expect(table.get_by_role("row").filter(has_text=app_text("job.job.waitingStage"))).to_be_visible()
    await expect(page.get_by_text(app_text("operator-job.operatorJob.hidden"))).to_be_visible()
    await expect(page.get_by_role("button", name="Cancel job")).to_have_count(0)
    await page.goto("/operate/jobs/00000000-0000-0000-0000-000000000000")
    await expect(page.get_by_role("heading", name="Job not found")).to_be_visible()
    await assert_accessible(page)
