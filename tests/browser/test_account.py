"""A user manages tokens, keys, the password and sessions."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import sell, submit

pytestmark = pytest.mark.thorough


async def test_the_wallet_names_what_each_job_holds(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    effect = await sell(stack, "Patient painting", is_served=False)
    await page.goto("/account")
    await expect(page.get_by_text("Tokens added")).to_be_visible()
    box = page.get_by_role("navigation", name="Main").get_by_role("link", name="Tokens")
    await expect(box).to_contain_text("None held")

    # The box in the frame is updated without a reload.
    job_id = await submit(stack, account, effect, prompt="a lighthouse")
    await expect(box).to_contain_text(app_text("frame.frame.held", "5"))
    await expect(box).to_contain_text("995")
    # In the list of holds, and in the history.
    named = page.get_by_role("link", name="Patient painting")
    await expect(named).to_have_count(2)
    for link in await named.all():
        await expect(link).to_have_attribute("href", f"/jobs/{job_id}")
    await expect(page.get_by_role("cell", name=app_text("account.wallet.types.JOB_RESERVE"))).to_be_visible()
    await assert_accessible(page)
    # What the job was submitted with counts in the database.
    await page.reload()
    stored = page.get_by_role("region", name=app_text("account.wallet.stored"))
    async with stack.client(account.headers) as client:
        used = (await client.get("/api/me")).json()["storage"]["database"]["bytes"]
    assert used > 0
    await expect(stored).to_contain_text(app_text("account.wallet.of", "10.7 GB"))
    # The note about the tokens comes from the stream, which opens again after the reload.
    await expect(page.locator("[data-connection=live]").first).to_be_visible()
    await expect(stored).not_to_contain_text(f"{app_text('account.wallet.database')}0 B")
    await screenshots.take(page, "wallet")

    async with stack.client(account.headers) as client:
        await client.post(f"/api/ai-jobs/{job_id}/cancel")
    await expect(page.get_by_text(app_text("frame.frame.cameBack", "5 tokens"))).to_be_visible()
    await expect(box).to_contain_text("None held")
    await expect(page.get_by_role("cell", name="Refunded")).to_be_visible()


async def test_a_new_key_is_shown_once_works_and_is_revoked(
    signed_in: Page, stack: Stack, screenshots: Screenshots
) -> None:
    page = signed_in
    await page.goto("/account?tab=keys")
    await page.get_by_role("button", name="Create key").click()
    dialog = page.get_by_role("dialog", name=app_text("account.key.createTitle"))
    await dialog.get_by_label("Name").fill("<i>Render farm</i>")
    await dialog.get_by_label("Submit").uncheck()
    await assert_accessible(page)
    await dialog.get_by_role("button", name="Create key").click()
    shown = page.get_by_role("dialog", name="Your new key")
    key = await shown.locator("code").first.inner_text()
    await expect(shown.locator("code").last).to_have_text(
        f"curl -H 'Authorization: Bearer {key}' {stack.url}/api/wallet"
    )
    await assert_accessible(page)
    await screenshots.take(page, "key-shown-once")
    headers = {"authorization": f"Bearer {key}"}
    async with stack.client(headers) as client:
        assert (await client.get("/api/wallet")).json()["balance"] == 1000
        assert (await client.post("/api/keys", json={"name": "x"})).status_code == 403
    await shown.get_by_role("button", name="Done").click()
    row = page.get_by_role("row").filter(has_text="<i>Render farm</i>")
    await expect(row).to_contain_text("Read")
    assert key not in await page.content()
    await screenshots.take(page, "keys")

    await row.get_by_role("button", name="Revoke").click()
    await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(row).to_contain_text("Revoked")
    async with stack.client(headers) as client:
        assert (await client.get("/api/wallet")).status_code == 401


async def test_an_admin_of_a_tenant_creates_and_revokes_its_service_key(
    page: Page, stack: Stack, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="tenant_admin"))
    await page.goto("/account?tab=keys")
    create = page.get_by_role("button", name=app_text("account.serviceKey.create"))
    await create.click()
    dialog = page.get_by_role("dialog", name=app_text("account.serviceKey.createTitle"))
    await dialog.get_by_label("Name").fill("Shop")
    # Only an operator gives this right.
    await expect(dialog.get_by_label("Credit users")).to_have_count(0)
    await assert_accessible(page)
    await screenshots.take(page, "service-key-dialog")
    await dialog.get_by_role("button", name=app_text("account.serviceKey.create")).click()
    shown = page.get_by_role("dialog", name=app_text("account.serviceKey.created"))
    headers = {"authorization": f"Bearer {await shown.locator('code').first.inner_text()}"}
    async with stack.client(headers) as client:
        assert (await client.get("/api/tenant/jobs")).json()["is_last"] is True
    await shown.get_by_role("button", name="Done").click()
    row = page.get_by_role("row").filter(has_text="Shop")
    await expect(row).to_contain_text("Submit for users")
    await assert_accessible(page)
    await screenshots.take(page, "service-keys")
    await row.get_by_role("button", name="Revoke").click()
    await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(row).to_contain_text("Revoked")
    async with stack.client(headers) as client:
        assert (await client.get("/api/tenant/jobs")).status_code == 401


async def test_a_password_is_changed_and_other_sessions_end(
    signed_in: Page, chromium: Browser, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    contexts = [await chromium.new_context(base_url=stack.url) for _ in range(2)]
    others = [await context.new_page() for context in contexts]
    for other in others:
        await stack.sign_in(other, account)
        await other.goto("/jobs")
        await expect(other.get_by_role("heading", level=1, name="Jobs")).to_be_visible()
    await page.goto("/account?tab=security")
    sessions = page.get_by_role("listitem").filter(has_text="Signed in")
    # The account's own first one, this one and the two.
    await expect(sessions).to_have_count(4)
    await expect(sessions.filter(has_text="This browser")).to_have_count(1)
    await assert_accessible(page)
    await screenshots.take(page, "security")
    await sessions.get_by_role("button", name="Sign out").first.click()
    await expect(sessions).to_have_count(3)

    await page.get_by_label("Current password").fill("not my password")
    await page.get_by_label("New password").fill("another horse battery")
    await page.get_by_role("button", name="Change password").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.get_by_label("Current password").fill(account.password)
    await page.get_by_role("button", name="Change password").click()
    await expect(sessions).to_have_count(1)
    # The other browsers notice by themselves: their stream ends with their session.
    for other in others:
        await expect(other.get_by_text(app_text("sign-in.signIn.sessionEnded"))).to_be_visible()
    for context in contexts:
        await context.close()
