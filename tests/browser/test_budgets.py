"""An administrator of a tenant limits what its jobs cost, and sees where the tokens went."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.async_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import ended, submit


async def test_a_budget_is_created_filled_changed_and_deleted(
    page: Page, stack: Stack, screenshots: Screenshots
) -> None:
    boss = await stack.new_account(role="tenant_admin")
    await stack.sign_in(page, boss)
    tenant = await tenant_of(stack, boss)
    await page.goto(f"/operate/tenants/{tenant}?tab=budgets")
    await expect(page.get_by_role("heading", name=app_text("budgets.budgets.none"))).to_be_visible()
    await assert_accessible(page)
    await page.get_by_role("button", name="Create budget").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("textbox", name=re.compile("^Name")).fill("Campaigns")
    limit = dialog.get_by_role("textbox", name=re.compile("^Tokens per period"))
    await limit.fill("many")
    await expect(dialog.get_by_text(app_text("budgets.budgets.limitProblem"))).to_be_visible()
    await limit.fill("5")
    await dialog.get_by_role("radio", name="Week").click()
    user = dialog.get_by_role("combobox", name=re.compile("^User"))
    await user.fill("nobody@example.com")
    await expect(dialog.get_by_text(app_text("budgets.budgets.userProblem"))).to_be_visible()
    await user.fill(boss.email)
    zone = dialog.get_by_role("combobox", name=re.compile("^Time zone"))
    await zone.fill("Europe/Atlantis")
    create = dialog.get_by_role("button", name="Create budget")
    await create.click()
    await expect(dialog.get_by_text("There is no such time zone.")).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "operate-budget-create")
    await zone.fill("Europe/Berlin")
    await create.click()

    row = page.get_by_role("list", name="Budgets").get_by_role("listitem")
    await expect(row).to_contain_text(f"Jobs of {boss.email}, per week")
    await expect(row).to_contain_text("0 of 5 tokens")
    await expect(row).to_contain_text(re.compile(r"Resets in .* 00:00 \(Europe/Berlin\)"))
    for prompt in ("a dune", "an island", "hills", "a lake"):
        await ended(stack, boss, await submit(stack, boss, "imagine", prompt=prompt))
    await expect(row).to_contain_text("4 of 5 tokens")
    await expect(row).to_contain_text(app_text("budgets.budgets.nearly"))
    await expect(row.get_by_role("progressbar", name="Taken of Campaigns")).to_have_attribute("aria-valuenow", "80")
    await assert_accessible(page)
    await screenshots.take(page, "operate-budgets")

    await row.get_by_role("button", name="Actions for Campaigns").click()
    await page.get_by_role("menuitem", name="Change").click()
    await dialog.get_by_role("textbox", name=re.compile("^Tokens per period")).fill("1,000")
    await dialog.get_by_role("button", name="Save").click()
    await expect(row).to_contain_text("4 of 1,000 tokens")

    await page.goto("/account")
    own = page.get_by_role("region", name="Budgets")
    await expect(own).to_contain_text("All your jobs, per week")
    await expect(own).to_contain_text("996 left")
    await assert_accessible(page)
    await screenshots.take(page, "account-budgets")

    await page.goto(f"/operate/tenants/{tenant}?tab=budgets")
    await row.get_by_role("button", name="Actions for Campaigns").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await dialog.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name=app_text("budgets.budgets.none"))).to_be_visible()


async def test_spending_is_drawn_by_day_and_downloaded(
    page: Page, stack: Stack, tmp_path: Path, screenshots: Screenshots
) -> None:
    boss = await stack.new_account(role="tenant_admin")
    await stack.sign_in(page, boss)
    tenant = await tenant_of(stack, boss)
    await page.goto(f"/operate/tenants/{tenant}?tab=spending")
    await expect(page.get_by_role("heading", name=app_text("budgets.spending.none"))).to_be_visible()
    for prompt in ("a dune", "an island"):
        await ended(stack, boss, await submit(stack, boss, "imagine", prompt=prompt))
    await page.reload()
    await expect(page.get_by_text("2 tokens in this time")).to_be_visible()
    await expect(page.get_by_role("img", name=re.compile("Tokens per day. Imagine: 2"))).to_be_visible()
    await expect(page.get_by_role("row", name="Imagine 2 2 100 %")).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "operate-spending")
    await page.get_by_role("radio", name="User").click()
    await expect(page.get_by_role("row", name=f"{boss.email} 2 2 100 %")).to_be_visible()
    await expect(page).to_have_url(re.compile("by=user"))
    async with page.expect_download() as saved:
        await page.get_by_role("link", name="Download CSV").click()
    await (await saved.value).save_as(tmp_path / "spending.csv")
    header, line = (tmp_path / "spending.csv").read_text().splitlines()
    assert header == "first_day,subject,name,jobs,tokens"
    assert line.endswith(f",{boss.email},2,2")


async def tenant_of(stack: Stack, account: Account) -> str:
    async with stack.client(account.headers) as client:
        return str((await client.get("/api/me")).json()["tenant_id"])
