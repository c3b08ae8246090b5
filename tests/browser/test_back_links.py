"""The page of one thing leads back to its list, with the filters that the list had."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.runs import IMAGINE, add_pipeline, start_run
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Stack
from tests.browser.texts import app_text
from tests.browser.user_content import ended, submit

pytestmark = pytest.mark.thorough


async def test_the_page_of_one_thing_leads_back_to_its_filtered_list(page: Page, stack: Stack) -> None:
    operator = await stack.new_account(role="operator")
    job = await submit(stack, operator, "imagine", prompt="a pier")
    pipeline = await add_pipeline(stack, operator, "Piers", IMAGINE)
    run = await start_run(stack, operator, pipeline, "Piers at dawn", target_leaves=1)
    await ended(stack, operator, job)
    async with stack.client(stack.operator) as client:
        user = (await client.get(f"/api/admin/users/{operator.id}")).json()
        [fleet] = (await client.get("/api/admin/fleets?slug=demo")).json()["items"]
        worker = (await client.get("/api/admin/workers", params={"fleet": "demo", "live": True})).json()["items"][0]
    await stack.sign_in(page, operator)
    for lists, filters, one, label in (
        ("/operate/jobs", "?status=completed&workflow=demo-imagine", job, "All jobs"),
        ("/operate/workers", "?q=demo&view=all", worker["worker_id"], "Workers"),
        ("/operate/fleets", "", fleet["id"], "Fleets"),
        ("/operate/workflows", "?view=active", "demo-imagine", "Workflows"),
        ("/operate/effects", "?q=imagine", "imagine", "Effects"),
        ("/operate/tenants", "?q=person", user["tenant_id"], "All tenants"),
        ("/operate/users", "?q=person", operator.id, "All users"),
        ("/runs", "?status=active", run, "All runs"),
        ("/pipelines", "", pipeline, "All pipelines"),
    ):
        await page.goto(f"{lists}{filters}")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        # As a link from elsewhere does it, and after a reload.
        await page.goto(f"{lists}/{one}")
        main = page.get_by_role("main")
        await expect(main.get_by_role("heading", level=1)).to_be_visible()
        await main.get_by_role("link", name=label, exact=True).click()
        await expect(page).to_have_url(f"{stack.url}{lists}{filters}")


async def test_a_filter_that_was_changed_is_kept_on_the_way_back(page: Page, stack: Stack) -> None:
    operator = await stack.new_account(role="operator")
    job = await submit(stack, operator, "imagine", prompt="a pier")
    await ended(stack, operator, job)
    await stack.sign_in(page, operator)
    await page.goto("/operate/jobs")
    await page.get_by_role("button", name="Completed").click()
    await expect(page).to_have_url(re.compile("status=completed"))
    await page.get_by_role("list", name="Jobs").locator(f'a[href*="{job}"]').first.click()
    await expect(page.get_by_role("region", name=app_text("operator-job.operatorJob.waterfall"))).to_be_visible()
    await assert_accessible(page)
    await page.get_by_role("link", name="All jobs").click()
    await expect(page).to_have_url(f"{stack.url}/operate/jobs?status=completed")


async def test_the_page_of_one_thing_leads_to_its_jobs(page: Page, stack: Stack, screenshots: Screenshots) -> None:
    operator = await stack.new_account(role="operator")
    job = await submit(stack, operator, "imagine", prompt="a pier")
    await ended(stack, operator, job)
    async with stack.client(stack.operator) as client:
        user = (await client.get(f"/api/admin/users/{operator.id}")).json()
        worker = (await client.get(f"/api/admin/jobs/{job}")).json()["dispatch"]["worker_id"]
    await stack.sign_in(page, operator)
    jobs = page.get_by_role("list", name="Jobs")
    main = page.get_by_role("main")
    for path, name, value in (
        (f"users/{operator.id}", "user", operator.id),
        (f"tenants/{user['tenant_id']}", "tenant", user["tenant_id"]),
        (f"workers/{worker}", "worker", worker),
        ("workflows/demo-imagine", "workflow", "demo-imagine"),
        ("effects/imagine", "effect", "imagine"),
    ):
        await page.goto(f"/operate/{path}")
        await expect(main.get_by_role("heading", level=1)).to_be_visible()
        for width in (390, 1440):
            await page.set_viewport_size({"width": width, "height": 900})
            assert await page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
        await assert_accessible(page)
        await screenshots.take(page, f"jobs-of-{name}")
        await main.get_by_role("link", name="Jobs", exact=True).click()
        await expect(page).to_have_url(f"{stack.url}/operate/jobs?{name}={value}")
        await expect(jobs.locator(f'a[href*="{job}"]').first).to_be_visible()
    # A line of the wallet leads to its job.
    await page.goto(f"/operate/users/{operator.id}")
    await main.get_by_role("link", name="Imagine").first.click()
    await expect(page).to_have_url(f"{stack.url}/operate/jobs/{job}")
