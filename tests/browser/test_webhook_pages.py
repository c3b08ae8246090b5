"""A user creates a webhook endpoint, tests it, and reads its log."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect
from standardwebhooks import Webhook

from tests.browser.accessibility import assert_accessible
from tests.browser.screenshots import Screenshots
from tests.browser.texts import app_text
from tests.support.http.webhook_receiver import receiving

pytestmark = pytest.mark.thorough


async def test_an_endpoint_is_created_tested_and_its_log_is_read(signed_in: Page, screenshots: Screenshots) -> None:
    page = signed_in
    await page.goto("/account?tab=webhooks")
    await expect(page.get_by_text(app_text("webhooks.webhook.noneText"))).to_be_visible()
    async with receiving() as receiver:
        receiver.body = b"<b>thank you</b>"
        await page.get_by_role("button", name="Create endpoint").click()
        dialog = page.get_by_role("dialog", name=app_text("webhooks.webhook.createTitle"))
        await dialog.get_by_label("URL").fill("http://shop.example.com")
        await dialog.get_by_role("button", name="Create endpoint").click()
        await expect(dialog).to_contain_text("Use https://.")
        await dialog.get_by_label("URL").fill(receiver.url)
        await dialog.get_by_label("wallet.low").check()
        await expect(dialog.get_by_label(app_text("webhooks.webhook.lowBalance"))).to_have_value("100")
        await assert_accessible(page)
        await screenshots.take(page, "webhook-create")
        await dialog.get_by_role("button", name="Create endpoint").click()
        shown = page.get_by_role("dialog", name=app_text("webhooks.webhook.created"))
        secret = await shown.locator("code").first.inner_text()
        await screenshots.take(page, "webhook-secret")
        await shown.get_by_role("button", name="Done").click()
        assert secret not in await page.content()
        await assert_accessible(page)
        await screenshots.take(page, "webhooks")

        await page.get_by_role("link", name=receiver.url).click()
        await page.get_by_role("button", name="Send test").click()
        row = page.get_by_role("row").filter(has_text="webhook.test")
        await expect(row).to_contain_text("Delivered")
        [(headers, body)] = receiver.requests
        assert Webhook(secret).verify(body, headers)["type"] == "webhook.test"
        await assert_accessible(page)
        await row.get_by_role("button").click()
        delivery = page.get_by_role("dialog", name=app_text("webhooks.webhook.delivery", "webhook.test"))
        await expect(delivery).to_contain_text("<b>thank you</b>")
        await expect(delivery).to_contain_text(headers["webhook-id"])
        await assert_accessible(page)
        await screenshots.take(page, "webhook-delivery")
        await delivery.get_by_role("button", name=app_text("webhooks.webhook.redeliver")).click()
        await expect(page.get_by_text(app_text("webhooks.webhook.redelivered"))).to_be_visible()
        await page.keyboard.press("Escape")

        receiver.status = 410
        await page.get_by_role("button", name="Send test").click()
        await expect(page.get_by_text("The endpoint returned 410 (gone).")).to_be_visible(timeout=20_000)
        await screenshots.take(page, "webhook-endpoint")
        await page.get_by_role("button", name="Enable").click()
        await expect(page.get_by_role("button", name="Switch off")).to_be_visible()
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text(app_text("webhooks.webhook.noneText"))).to_be_visible()
