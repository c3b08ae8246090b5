"""Operators manage tenants, users and tokens in the browser; each role sees what it may change and nothing more."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.operator_actions import fits
from tests.browser.page_errors import Watch
from tests.browser.screenshots import Screenshots
from tests.browser.stack import PASSWORD, Account, Stack
from tests.browser.texts import app_text
from tests.support.waiting import until

pytestmark = pytest.mark.thorough


@pytest.fixture
async def second(chromium: Browser, stack: Stack, watch: Watch) -> AsyncIterator[BrowserContext]:
    """Another person's browser."""
    context = await chromium.new_context(base_url=stack.url, locale="en-US", timezone_id="UTC")
    context.set_default_timeout(180_000)
    await watch.follow(context)
    yield context
    await context.close()


async def sign_in(page: Page, email: str, password: str) -> None:
    await page.goto("/sign-in?next=/account")
    await page.get_by_label("Email").fill(email)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in", exact=True).click()


async def test_a_new_customer_gets_tokens_and_is_signed_out_when_disabled(
    page: Page, second: BrowserContext, stack: Stack, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    name = f"Studio {uuid.uuid4().hex[:6]}"
    await page.goto("/operate/tenants")
    await page.get_by_role("button", name="Create tenant").click()
    dialog = page.get_by_role("dialog", name="Create a tenant")
    await dialog.get_by_label("Name").fill(name)
    # The slug follows the name, and a slug that is taken is shown at its field.
    slug = dialog.get_by_label("Slug")
    await expect(slug).to_have_value(name.lower().replace(" ", "-"))
    await slug.fill("demo")
    await dialog.get_by_role("button", name="Create tenant").click()
    await expect(dialog.get_by_text("This slug is already in use.")).to_be_visible()
    await slug.fill(name.lower().replace(" ", "-"))
    await assert_accessible(page)
    await dialog.get_by_role("button", name="Create tenant").click()
    await expect(page.get_by_role("heading", name=name)).to_be_visible()
    # The figures are there before a user is.
    await expect(page.get_by_text(app_text("tenants.tenant.figures.held", 0))).to_be_visible()

    # A user with a password that is shown once.
    email = f"{uuid.uuid4().hex[:8]}@example.com"
    await page.get_by_role("button", name="Add user").click()
    dialog = page.get_by_role("dialog", name="Add a user")
    await dialog.get_by_role("radio", name="Password").click()
    await dialog.get_by_label("E-mail address").fill(email)
    await dialog.get_by_role("button", name="Create user").click()
    shown = page.get_by_role("dialog", name=app_text("users.addUser.createdTitle"))
    password = await shown.locator("code").inner_text()
    await shown.get_by_role("button", name="Done").click()
    await expect(page.get_by_role("region", name="Users").get_by_role("link", name=email)).to_be_visible()
    await screenshots.take(page, "operate-tenant")
    await page.get_by_role("region", name="Users").get_by_role("link", name=email).click()
    await expect(page.get_by_role("heading", name=email)).to_be_visible()

    # The question shows the new balance. Two clicks are one credit.
    await page.get_by_role("button", name="Add tokens").click()
    dialog = page.get_by_role("dialog", name=app_text("wallets.credit.title", ""))
    await dialog.get_by_label("Tokens", exact=True).fill("1,200")
    await dialog.get_by_label("Reason").fill("Invoice 2026-07")
    await expect(dialog.get_by_role("definition").last).to_have_text("1,200 tokens")
    await assert_accessible(page)
    await screenshots.take(page, "operate-credit")
    await dialog.get_by_role("button", name="Add 1,200 tokens").dblclick()
    await expect(page.get_by_text(app_text("wallets.credit.done", "1,200 tokens"))).to_be_visible()
    await expect(page.get_by_role("region", name="Wallet history").get_by_text("+1,200")).to_have_count(1)
    await assert_accessible(page)
    await screenshots.take(page, "operate-user")

    # The user signs in with the password and sees the balance.
    theirs = await second.new_page()
    await sign_in(theirs, email, password)
    await expect(theirs.get_by_text("Tokens added")).to_be_visible()
    await expect(theirs.get_by_role("navigation", name="Main").get_by_role("link", name="Tokens")).to_contain_text(
        "1,200"
    )

    # Some are taken back, and both read why.
    await page.get_by_role("button", name="Actions").click()
    await page.get_by_role("menuitem", name="Take tokens back").click()
    dialog = page.get_by_role("dialog", name=app_text("wallets.debit.title", ""))
    await dialog.get_by_label("Tokens", exact=True).fill("200")
    await dialog.get_by_label("Reason").fill("Chargeback 17")
    await dialog.get_by_role("button", name="Take back 200 tokens").dblclick()
    history = page.get_by_role("region", name="Wallet history")
    await expect(history.get_by_text("Chargeback 17")).to_have_count(1)
    await theirs.reload()
    await expect(theirs.get_by_text("Chargeback 17")).to_be_visible()
    await page.reload()
    await page.get_by_role("tab", name="Sessions").click()
    await expect(page.get_by_role("list", name="Sessions").get_by_role("listitem")).to_have_count(1)
    await assert_accessible(page)

    # Disabled: the page that is open in the other browser is signed out, without a reload.
    await page.get_by_role("button", name="Actions").click()
    await page.get_by_role("menuitem", name="Disable").click()
    dialog = page.get_by_role("dialog", name=f"Disable {email}?")
    await expect(dialog).to_contain_text(app_text("users.user.disableText"))
    await dialog.get_by_role("button", name="Disable").click()
    await expect(page.get_by_text(app_text("users.user.wasDisabled", ""))).to_be_visible()
    await expect(theirs.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    await sign_in(theirs, email, password)
    await expect(theirs.get_by_role("alert").first).to_be_visible()
    # And enabled again.
    await page.get_by_role("button", name="Actions").click()
    await page.get_by_role("menuitem", name="Enable").click()
    await expect(page.get_by_text(app_text("users.user.wasEnabled", ""))).to_be_visible()
    await sign_in(theirs, email, password)
    await expect(theirs.get_by_text("Tokens added")).to_be_visible()


async def test_users_sign_in_through_an_invitation_and_a_password_link(
    page: Page, second: BrowserContext, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    tenant = account.email.partition("@")[0]
    email = f"invited-{uuid.uuid4().hex[:8]}@example.com"
    await page.goto(f"/operate/users?tenant={tenant}")
    await page.get_by_role("button", name="Add user").click()
    dialog = page.get_by_role("dialog", name="Add a user")
    await dialog.get_by_label("E-mail address").fill(email)
    await dialog.get_by_role("button", name="Invite").click()
    shown = page.get_by_role("dialog", name="Send this link")
    link = await shown.locator("code").inner_text()
    await shown.get_by_role("button", name="Done").click()
    await page.get_by_role("radio", name="Invitations").click()
    await expect(page.get_by_role("row").filter(has_text=email)).to_contain_text("Open")
    await assert_accessible(page)
    theirs = await second.new_page()
    assert (await theirs.goto(link)) is not None
    await expect(theirs.get_by_label("E-mail address")).to_have_value(email)

    # A link to set a new password, for a user who forgot it.
    await page.goto(f"/operate/users?q={account.email}")
    await expect(page.get_by_role("region", name="Users").get_by_role("row")).to_have_count(2)
    await assert_accessible(page)
    await screenshots.take(page, "operate-users")
    await page.get_by_role("link", name=account.email).click()
    await page.get_by_role("button", name="Actions").click()
    await page.get_by_role("menuitem", name="Create password link").click()
    await page.get_by_role("button", name="Create link").click()
    link = await page.get_by_role("dialog", name="Send this link").locator("code").inner_text()
    assert link.startswith(stack.url)


async def test_limits_of_a_tenant_are_changed_and_checked(
    page: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto(f"/operate/tenants?q={account.email.partition('@')[0]}")
    row = page.get_by_role("region", name="Tenants").get_by_role("row").last
    await expect(row).to_contain_text("1,000")
    await assert_accessible(page)
    await screenshots.take(page, "operate-tenants")
    await row.get_by_role("link").click()
    await page.get_by_role("tab", name="Limits").click()
    await page.get_by_label("Weight").fill("2.5")
    await page.get_by_label("Jobs at once", exact=True).fill("many")
    await expect(page.get_by_text(app_text("providers.limit.wrong"))).to_be_visible()
    await page.get_by_label("Jobs at once", exact=True).fill("4")
    await page.get_by_role("button", name="Save").first.click()
    await expect(page.get_by_text(app_text("tenants.weight.saved"))).to_be_visible()
    await page.get_by_label(app_text("tenants.quota.fields.tenant_storage_bytes")).fill("20 GB")
    await page.get_by_label(app_text("tenants.quota.fields.user_database_bytes")).fill("3 GB")
    await page.get_by_label(app_text("tenants.quota.fields.keys_per_user")).fill("7")
    await page.get_by_role("button", name="Save").last.click()
    await expect(page.get_by_text(app_text("tenants.quota.saved"))).to_be_visible()
    await page.reload()
    await expect(page.get_by_label("Weight")).to_have_value("2.5")
    await expect(page.get_by_label(app_text("tenants.quota.fields.tenant_storage_bytes"))).to_have_value("20 GB")
    await expect(page.get_by_label(app_text("tenants.quota.fields.keys_per_user"))).to_have_value("7")
    await assert_accessible(page)
    await screenshots.take(page, "operate-tenant-limits")
    async with stack.client(account.headers) as client:
        storage = (await client.get("/api/me")).json()["storage"]
    assert storage["tenant"]["bytes_limit"] == 20_000_000_000
    assert storage["database"]["bytes_limit"] == 3_000_000_000


async def test_a_filter_of_the_audit_log_opens_the_same_in_another_browser(
    page: Page, second: BrowserContext, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    operator = await stack.new_account(role="operator")
    await stack.sign_in(page, operator)
    async with stack.client(operator.headers) as client:
        for action in ("disable", "enable", "disable", "enable"):
            assert (await client.post(f"/api/admin/users/{account.id}/{action}")).is_success
    await page.goto("/operate/audit")
    await page.get_by_label("Who").fill(operator.email)
    await page.get_by_label("Action").fill("user.disable")
    await page.get_by_role("button", name="Filter", exact=True).click()
    table = page.get_by_role("region", name="Audit log")
    await expect(table.get_by_role("row")).to_have_count(3)
    await table.get_by_role("link", name=account.email).first.click()
    await expect(page).to_have_url(re.compile(f"action=user.disable.*subject={account.id}"))
    await expect(table.get_by_role("row")).to_have_count(3)
    await assert_accessible(page)
    await screenshots.take(page, "operate-audit")
    rows = await table.get_by_role("row").all_inner_texts()

    other = await second.new_page()
    response = await second.request.post("/api/auth/login", data={"email": operator.email, "password": PASSWORD})
    assert response.ok
    await other.goto(page.url)
    same = other.get_by_role("region", name="Audit log")
    await expect(same.get_by_role("row")).to_have_count(3)
    # Without the times, which are relative.
    assert [row.split("\t")[1:] for row in await same.get_by_role("row").all_inner_texts()] == [
        row.split("\t")[1:] for row in rows
    ]
    # A time before all of it.
    await page.get_by_label("Until").fill("2020-01-01T00:00")
    await page.get_by_role("button", name="Filter", exact=True).click()
    await expect(page.get_by_text("No entry matches")).to_be_visible()
    await page.get_by_role("button", name="Clear filters").click()
    await expect(page).to_have_url(f"{stack.url}/operate/audit")


async def test_the_audit_log_names_a_fleet_that_was_deleted(page: Page, stack: Stack, screenshots: Screenshots) -> None:
    slug = f"short-lived-{uuid.uuid4().hex[:6]}"
    operator = await stack.new_account(role="operator")
    async with stack.client(operator.headers) as client:
        fleet = (await client.post("/api/admin/fleets", json={"slug": slug, "name": "Before"})).json()
        assert (await client.patch(f"/api/admin/fleets/{fleet['id']}", json={"name": "After"})).is_success
        assert (await client.delete(f"/api/admin/fleets/{fleet['id']}")).is_success
    await stack.sign_in(page, operator)
    await page.goto(f"/operate/audit?actor={operator.email}")
    log = page.get_by_role("region", name="Audit log")
    for action in ("fleet.create", "fleet.update", "fleet.delete"):
        await expect(log.get_by_role("row").filter(has_text=action)).to_contain_text(f"{slug}, production")
    await assert_accessible(page)
    await screenshots.take(page, "operate-audit-names")
    # Its name leads to its entries, and those of a user to the user's page.
    await log.get_by_role("row").filter(has_text="fleet.create").get_by_role("link", name=slug).first.click()
    await expect(page).to_have_url(re.compile("type=fleet&subject="))
    await expect(log.get_by_role("row")).to_have_count(4)
    await page.goto(f"/operate/audit?type=fleet&subject={fleet['id']}&action=fleet.delete")
    await expect(log.get_by_role("row")).to_have_count(2)
    await expect(log).to_contain_text(slug)
    await page.goto(f"/operate/audit?subject={operator.id}&type=user&action=user.create")
    await log.get_by_role("link", name=f"Open the page of {operator.email}").click()
    await expect(page).to_have_url(f"{stack.url}/operate/users/{operator.id}")


async def test_an_audit_of_the_ledger_runs_and_shows_its_result(
    page: Page, stack: Stack, screenshots: Screenshots
) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto("/operate/ledger")
    await page.get_by_role("button", name="Run an audit").click()
    await expect(page.get_by_text(app_text("ledger.ledger.started"))).to_be_visible()
    result = page.get_by_role("region", name="Last run")
    await expect(result).to_contain_text("Every wallet balances.")
    await expect(page.get_by_role("region", name=app_text("ledger.ledger.pools"))).to_contain_text("pool_1")
    await expect(page.get_by_role("region", name="Audits", exact=True).get_by_role("row")).not_to_have_count(1)
    await assert_accessible(page)
    await screenshots.take(page, "operate-ledger")


async def has_spend(stack: Stack) -> bool:
    async with stack.client(stack.operator) as client:
        return bool((await client.get("/api/admin/provider-spend")).json()["providers"])


async def test_settings_providers_and_health_are_shown(page: Page, stack: Stack, screenshots: Screenshots) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    await page.goto("/operate/settings")
    await page.get_by_role("searchbox").fill("server port")
    await expect(page).to_have_url(f"{stack.url}/operate/settings?q=server+port")
    row = page.get_by_role("listitem").filter(has_text="server.port")
    await expect(row).to_contain_text(str(stack.port))
    await expect(row).to_contain_text("From the command line")
    await assert_accessible(page)
    await page.goto("/operate/settings?view=changed")
    await expect(page.get_by_text("server.port", exact=True)).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "operate-settings")

    # Calls are counted once a minute.
    await until(lambda: has_spend(stack), 300)
    await page.goto("/operate/providers")
    await expect(page.get_by_role("region", name="Use and cost").get_by_role("row", name="self_hosted")).to_be_visible()
    await page.get_by_role("radio", name="30 days").click()
    await expect(page).to_have_url(f"{stack.url}/operate/providers?range=30d")
    await page.get_by_role("button", name="Set a limit").click()
    dialog = page.get_by_role("dialog", name="Concurrency limit")
    identifier = f"limit-{uuid.uuid4().hex[:6]}"
    await dialog.get_by_label("Identifier").fill(identifier)
    await dialog.get_by_label("Jobs at once").fill("0")
    await dialog.get_by_role("button", name="Save").click()
    limit = page.get_by_role("row").filter(has_text=identifier)
    await expect(limit).to_contain_text("Paused")
    await limit.get_by_role("button", name="Change the limit").click()
    await dialog.get_by_label("Jobs at once").fill("3")
    await dialog.get_by_role("button", name="Save").click()
    await expect(limit).to_contain_text("3")
    await fits(page)
    await screenshots.take(page, "operate-providers")

    await page.goto("/operate/health")
    findings = page.get_by_role("list", name="Findings")
    await expect(findings).to_contain_text("PostgreSQL")
    await expect(findings).to_contain_text("An object was written, read and deleted")
    await assert_accessible(page)
    await screenshots.take(page, "operate-health")


async def test_a_viewer_sees_everything_and_no_button_that_changes_something(
    page: Page, stack: Stack, account: Account
) -> None:
    await stack.sign_in(page, await stack.new_account(role="viewer"))
    tenant = account.email.partition("@")[0]
    await page.goto(f"/operate/tenants?q={tenant}")
    main = page.get_by_role("main")
    await expect(main.get_by_role("link", name=tenant)).to_be_visible()
    await expect(main.get_by_role("button", name="Create tenant")).to_have_count(0)
    await main.get_by_role("link", name=tenant).click()
    await expect(main.get_by_role("link", name=account.email)).to_be_visible()
    for name in ("Disable", "Add user"):
        await expect(main.get_by_role("button", name=name)).to_have_count(0)
    await page.get_by_role("tab", name="Limits").click()
    await expect(page.get_by_label("Weight")).to_be_disabled()
    await expect(main.get_by_role("button", name="Save")).to_have_count(0)
    for tab in ("", "?tab=keys", "?tab=sessions"):
        await page.goto(f"/operate/users/{account.id}{tab}")
        await expect(page.get_by_role("heading", name=account.email)).to_be_visible()
        await expect(page.locator(".skeleton")).to_have_count(0)
        await expect(main.get_by_role("button")).to_have_count(0)
    for path, heading in (("ledger", "Ledger"), ("providers", "Providers"), ("audit", "Audit log")):
        await page.goto(f"/operate/{path}")
        await expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
        await expect(page.locator(".skeleton")).to_have_count(0)
        for name in ("Run an audit", "Set a limit", "Change", "End the pause"):
            await expect(main.get_by_role("button", name=name)).to_have_count(0)
    await assert_accessible(page)


async def test_a_tenant_admin_sees_only_their_own_tenant_and_its_users(page: Page, stack: Stack) -> None:
    tenant_admin = await stack.new_account(role="tenant_admin")
    stranger = await stack.new_account()
    await stack.sign_in(page, tenant_admin)
    await page.goto("/operate/users")
    navigation = page.get_by_role("navigation", name="Main").first
    await expect(navigation.get_by_role("link", name="Tenants")).to_be_visible()
    await expect(navigation.get_by_role("link", name="Audit log")).to_have_count(0)
    await expect(page.get_by_role("region", name="Users").get_by_role("row")).to_have_count(2)
    # No one else may be found, not even by the URL.
    await page.goto(f"/operate/users/{stranger.id}")
    await expect(page.get_by_role("heading", name=app_text("users.user.notFound"))).to_be_visible()
    await page.goto("/operate/users")
    await page.get_by_role("button", name="Add user").click()
    dialog = page.get_by_role("dialog", name="Add a user")
    await expect(dialog.get_by_label("Tenant")).to_have_count(0)
    email = f"{uuid.uuid4().hex[:8]}@example.com"
    await dialog.get_by_role("radio", name="Password").click()
    await dialog.get_by_label("E-mail address").fill(email)
    await dialog.get_by_role("button", name="Create user").click()
    await page.get_by_role("button", name="Done").click()
    await page.get_by_role("link", name=email).click()
    await expect(page.get_by_role("heading", name=email)).to_be_visible()
    # Tokens come from operators.
    await expect(page.get_by_role("button", name="Add tokens")).to_have_count(0)
    await expect(page.get_by_role("button", name="Actions")).to_be_visible()
    await page.goto("/operate/settings")
    await expect(page.get_by_role("heading", name=app_text("operate.operate.notAllowed"))).to_be_visible()
    await page.goto("/operate/tenants")
    await expect(page.get_by_role("region", name="Tenants").get_by_role("row")).to_have_count(2)
    await assert_accessible(page)


@pytest.mark.parametrize("page", [{"width": 390, "height": 844}], indirect=True)
async def test_the_pages_fit_a_phone(page: Page, stack: Stack, account: Account) -> None:
    await stack.sign_in(page, await stack.new_account(role="operator"))
    async with stack.client(stack.operator) as client:
        tenant = (await client.get(f"/api/admin/users/{account.id}")).json()["tenant_id"]
    paths = ("tenants", f"tenants/{tenant}", f"tenants/{tenant}?tab=limits", "users", f"users/{account.id}")
    for path in (*paths, "providers", "audit", "ledger", "settings", "health"):
        await page.goto(f"/operate/{path}")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.locator(".skeleton")).to_have_count(0)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390, path
        await expect(page.get_by_role("navigation", name="Operate").locator("[aria-current]")).to_be_in_viewport()
        await assert_accessible(page)
    await page.goto("/operate/audit")
    await expect(page.get_by_label("Who")).to_be_hidden()
    await page.get_by_role("button", name="Filters").click()
    await page.get_by_label("Action").fill("tenant.create")
    await page.get_by_role("button", name="Filter", exact=True).click()
    await expect(page).to_have_url(f"{stack.url}/operate/audit?action=tenant.create")
