"""An operator lets a tenant pay for its users on the page of the tenant, and its users see who pays."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.page_errors import Watch
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Stack
from tests.browser.texts import app_text
from tests.browser.user_content import ended, sell, submit

pytestmark = pytest.mark.thorough


async def test_a_tenant_pays_for_its_users_and_takes_back_only_what_is_left(
    page: Page, chromium: Browser, watch: Watch, stack: Stack, screenshots: Screenshots
) -> None:
    person = await stack.new_account(tokens=3)
    async with stack.client(person.headers) as client:
        tenant = (await client.get("/api/me")).json()["tenant_id"]
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/tenants/{tenant}")
    await page.get_by_role("tab", name="Wallet").click()
    payer = page.get_by_role("region", name=app_text("wallets.payer.title"))
    await expect(payer).to_contain_text(app_text("wallets.payer.now.user"))
    await expect(page.get_by_text(app_text("wallets.ownedWallet.idle.tenant"))).to_be_visible()

    # The question says what changes for jobs that are active, and that the wallet is empty.
    dialog = page.get_by_role("dialog")
    await payer.get_by_role("button", name=app_text("wallets.payer.change.tenant")).click()
    await expect(dialog).to_contain_text(app_text("wallets.payer.runningJobs"))
    await expect(dialog).to_contain_text(app_text("wallets.payer.nothingLeft"))
    await assert_accessible(page)
    await screenshots.take(page, "operate-tenant-payer")
    await dialog.get_by_role("button", name=app_text("wallets.payer.change.tenant")).click()
    await expect(payer).to_contain_text(app_text("wallets.payer.now.tenant"))

    # The user reads that the tenant has too few tokens, though the wallet of the user has some.
    context = await chromium.new_context(base_url=stack.url, locale="en-US", timezone_id="UTC")
    await watch.follow(context)
    theirs = await context.new_page()
    await stack.sign_in(theirs, person)
    await theirs.goto("/effects/imagine")
    await expect(theirs.get_by_role("alert")).to_contain_text(app_text("effect.effectPage.missingText.tenant"))
    await screenshots.take(theirs, "effect-tenant-pays")

    await page.get_by_role("button", name=app_text("wallets.credit.sendNothing")).click()
    await dialog.get_by_label("Tokens", exact=True).fill("500")
    await dialog.get_by_label("Reason").fill("Contract 7")
    await dialog.get_by_role("button", name=app_text("wallets.credit.send", "500 tokens")).dblclick()
    history = page.get_by_role("region", name=app_text("wallets.ownedWallet.history"))
    await expect(history.get_by_text("+500")).to_have_count(1)
    waits = await sell(stack, "Patient mural", is_served=False)
    await ended(stack, person, await submit(stack, person, "imagine", prompt="a dune"))
    await submit(stack, person, waits, prompt="hills")
    await theirs.goto("/account")
    tokens = theirs.get_by_role("navigation", name="Main").get_by_role(
        "link", name=re.compile(app_text("frame.frame.wallet.tenant"))
    )
    await expect(tokens).to_contain_text("494")
    await expect(theirs.get_by_text(app_text("account.wallet.balanceHint.tenant"))).to_be_visible()
    await expect(theirs.get_by_text(app_text("account.wallet.fromTenant")).first).to_be_visible()
    await assert_accessible(theirs)
    await screenshots.take(theirs, "account-tenant-pays")
    await context.close()

    # Held tokens cannot be taken back.
    await page.reload()
    await page.get_by_role("button", name=app_text("wallets.debit.sendNothing")).click()
    await dialog.get_by_label("Tokens", exact=True).fill("495")
    await expect(dialog).to_contain_text(app_text("wallets.amount.tooMany", "494 tokens"))
    await dialog.get_by_label("Tokens", exact=True).fill("94")
    await dialog.get_by_label("Reason").fill("Chargeback 7")
    await assert_accessible(page)
    await screenshots.take(page, "operate-tenant-debit")
    await dialog.get_by_role("button", name=app_text("wallets.debit.send", "94 tokens")).click()
    await expect(history.get_by_text("-94")).to_have_count(1)
    await expect(page.get_by_role("main")).to_contain_text("400")
    await assert_accessible(page)
    await screenshots.take(page, "operate-tenant-wallet")

    # The page of a user says it, and leads back to the wallet that pays.
    await page.goto(f"/operate/users/{person.id}")
    await expect(page.get_by_role("main")).to_contain_text(app_text("wallets.ownedWallet.idle.user"))
    await page.get_by_role("link", name=app_text("wallets.ownedWallet.toTenant")).click()
    await payer.get_by_role("button", name=app_text("wallets.payer.change.user")).click()
    await dialog.get_by_role("button", name=app_text("wallets.payer.change.user")).click()
    await expect(payer).to_contain_text(app_text("wallets.payer.now.user"))
