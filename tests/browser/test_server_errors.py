"""The server fails: the page explains the error and what to do, and continues when the server recovers."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.outages import pool_away, without_table
from tests.browser.page_errors import Watch
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.user_content import sell, submit

pytestmark = pytest.mark.thorough
UNEXPECTED = "An unexpected error happened on the server and was logged. Quote the request id when you report it."


async def copied_request_id(page: Page, alert: Locator) -> str:
    """The request id that the panel shows, after it was copied and compared with the clipboard."""
    shown = await alert.locator("code").inner_text()
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await alert.get_by_role("button", name="Copy request id").click()
    await expect(alert.get_by_role("button", name="Copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == shown
    return shown


async def test_an_unexpected_error_is_shown_with_its_request_id_and_can_be_tried_again(
    signed_in: Page, stack: Stack, watch: Watch, screenshots: Screenshots
) -> None:
    page = signed_in
    watch.is_server_failing = True
    async with without_table(stack, "token_transactions"):
        async with page.expect_response(lambda response: response.status == 500) as failing:
            await page.goto("/account")
        assert (await (await failing.value).json())["code"] == "internal_error"
        alert = page.get_by_role("alert").filter(has=page.get_by_role("heading", name=UNEXPECTED))
        await expect(alert).to_be_visible()
        # The same id is in the log of the control plane, with the error.
        request_id = await copied_request_id(page, alert)
        [line] = [line for line in stack.log().splitlines() if request_id in line and "UndefinedTable" in line]
        assert "token_transactions" in line
        await assert_accessible(page)
        await screenshots.take(page, "server-error")
    await alert.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("cell", name="Tokens added")).to_be_visible()
    await expect(alert).to_be_hidden()


async def test_a_form_survives_a_server_error_and_makes_one_job_when_it_is_sent_again(
    signed_in: Page, stack: Stack, account: Account, watch: Watch
) -> None:
    page = signed_in
    effect = await sell(stack, "Patient painting", is_served=False)
    await page.goto(f"/effects/{effect}")
    await page.get_by_role("textbox", name="Prompt").fill("a lighthouse")
    watch.is_server_failing = True
    async with without_table(stack, "outbox"):
        await page.get_by_role("button", name="Generate").click()
        alert = page.get_by_role("alert").filter(has=page.get_by_role("heading", name=UNEXPECTED))
        await expect(alert).to_be_visible()
        assert await copied_request_id(page, alert) in stack.log()
    await expect(page.get_by_role("textbox", name="Prompt")).to_have_value("a lighthouse")
    await page.get_by_role("button", name="Generate").click()
    await expect(page).to_have_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    async with stack.client(account.headers) as client:
        [job] = (await client.get("/api/ai-jobs")).json()["items"]
        assert page.url.endswith(job["id"])
        # Nothing is held for the attempt that failed.
        assert (await client.get("/api/wallet")).json()["balance"] == 995


async def test_a_page_of_an_unavailable_pool_recovers_with_the_pool(
    signed_in: Page, stack: Stack, account: Account, watch: Watch, screenshots: Screenshots
) -> None:
    page = signed_in
    job_id = await submit(stack, account, await sell(stack, "Patient painting", is_served=False), prompt="a lighthouse")
    await page.goto("/effects")
    await expect(page.locator("[data-card]").first).to_be_visible()
    watch.is_server_failing = True
    async with pool_away(stack):
        await page.goto(f"/jobs/{job_id}")
        alert = page.get_by_role("alert").filter(has=page.get_by_role("button", name="Try again"))
        await expect(alert).to_contain_text("is currently not available")
        await expect(alert.locator("code")).to_have_text(re.compile(r"\S{8,}"))
        await assert_accessible(page)
        await screenshots.take(page, "pool-away")
    # Without a click.
    await expect(page.get_by_role("heading", level=1, name="Patient painting")).to_be_visible()
