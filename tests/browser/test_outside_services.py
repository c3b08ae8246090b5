"""Operators' work on the pages when a mail server or a provider refuses requests of Callsheet."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.conftest import DESKTOP, PATIENCE_MS
from tests.browser.operator_actions import fits
from tests.browser.page_errors import Watch
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack, running_stack
from tests.browser.texts import app_text
from tests.support.http.smtp_server import SmtpServer, smtp_server
from tests.support.providers.replicate_server import SECRET, TOKEN, ReplicateServer, Scenario, replicate_server
from tests.support.waiting import until

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("_built")]
ON_CALL = "on@call.example"


@dataclass(frozen=True)
class Services:
    """A stack with a mail server and a Replicate that are here. One failure pauses the provider."""

    stack: Stack
    mail: SmtpServer
    replicate: ReplicateServer
    operator: Account


@pytest.fixture(scope="module")
async def services(_built: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Services]:
    models = json.dumps({"tts": {"model": "studio/voice"}})
    with smtp_server() as mail:
        async with replicate_server() as replicate:
            parts = {
                "MAIL": mail.settings,
                "ALERTS": {"emails": ON_CALL},
                "WEBHOOKS": {"breaker_failures": 1, "breaker_pause_seconds": 600},
                "PROVIDERS__REPLICATE": {
                    "url": replicate.url,
                    "token": TOKEN,
                    "webhook_secret": SECRET,
                    "models": models,
                },
                "OUTGOING": {"allow_networks": "127.0.0.0/8"},
            }
            settings = {
                f"CALLSHEET_{part}__{name.upper()}": str(value)
                for part, values in parts.items()
                for name, value in values.items()
            }
            async with running_stack(tmp_path_factory.mktemp("services"), settings) as stack:
                yield Services(stack, mail, replicate, await stack.new_account(role="operator"))


@pytest.fixture
async def tab(services: Services, chromium: Browser) -> AsyncIterator[Page]:
    """The tab of an operator."""
    watch = Watch(services.stack.url)
    context = await chromium.new_context(base_url=services.stack.url, viewport=DESKTOP, locale="en-US")
    context.set_default_timeout(PATIENCE_MS)
    await watch.follow(context)
    page = await context.new_page()
    await services.stack.sign_in(page, services.operator)
    yield page
    await context.close()
    watch.check()


async def test_an_operator_sends_a_test_alert(services: Services, tab: Page, screenshots: Screenshots) -> None:
    await tab.goto("/operate/health")
    panel = tab.get_by_role("region", name="Messages about alerts")
    await panel.get_by_role("button", name=app_text("health.testAlert.send")).click()
    await expect(panel.get_by_role("status")).to_contain_text(f"A test alert is sent to {ON_CALL}")
    await until(lambda: any(mail["To"] == ON_CALL for mail in services.mail.mails))
    [subject] = [str(mail["Subject"]) for mail in services.mail.mails if mail["To"] == ON_CALL]
    assert subject == "Callsheet test of alerts: This is a test. Nothing is wrong."
    await fits(tab)
    await screenshots.take(tab, "operate-test-alert")


async def test_an_email_that_failed_for_good_is_sent_again(
    services: Services, tab: Page, screenshots: Screenshots
) -> None:
    services.mail.refusal = "550 No such user"
    tenant = services.operator.email.partition("@")[0]
    async with services.stack.client(services.stack.operator) as client:
        invited = await client.post("/api/admin/invitations", json={"tenant": tenant, "email": "carla@acme.example"})
        assert invited.status_code == 201, invited.text
    await tab.goto("/operate/users")
    await tab.get_by_role("radio", name="Unsent e-mails").click()
    row = tab.get_by_role("region", name="Unsent e-mails").get_by_role("row").filter(has_text="carla@acme.example")
    await expect(row.get_by_text("Failed permanently").last).to_be_visible()
    await expect(row).to_contain_text("550")
    await expect(row).to_contain_text("No such user")
    await fits(tab)
    await screenshots.take(tab, "operate-mails")
    # The alert leads to the list.
    await tab.goto("/operate")
    await tab.get_by_role("region", name="Alerts", exact=True).get_by_role("link", name="Show unsent e-mails").click()
    services.mail.refusal = None
    await row.get_by_role("button", name=app_text("users.mail.sendTo", "carla@acme.example")).click()
    await expect(tab.get_by_text(app_text("users.mail.sent", "carla@acme.example"))).to_be_visible()
    # It leaves the list as soon as the server has it.
    await expect(tab.get_by_text(app_text("users.mail.none"))).to_be_visible()
    assert [mail["To"] for mail in services.mail.mails].count("carla@acme.example") == 1


async def test_an_operator_ends_the_pause_of_a_provider(
    services: Services, tab: Page, screenshots: Screenshots
) -> None:
    account = await services.stack.new_account()
    services.replicate.scenario = Scenario(output=services.replicate.file("sound.wav"))
    services.replicate.refuse(1, 503)
    async with services.stack.client(account.headers) as client:
        body = {"actor": "tts", "payload": {"text": "It glows in the dark."}}
        created = await client.post("/api/task", json=body)
        assert created.is_success, created.text
    await tab.goto("/operate/providers")
    card = tab.get_by_role("region", name="replicate", exact=True)
    await expect(card).to_contain_text("Paused")
    await expect(card).to_contain_text("503")
    await expect(card.locator("dt", has_text="Failures in a row").locator("+ dd")).to_have_text("1")
    await expect(card.locator("dt", has_text="Next attempt").locator("+ dd")).to_contain_text("pause 10 m 0 s")
    await fits(tab)
    await screenshots.take(tab, "operate-provider-paused")
    await card.get_by_role("button", name=app_text("providers.providers.resetOf", "replicate")).click()
    dialog = tab.get_by_role("dialog", name=app_text("providers.providers.resetTitle", "replicate"))
    await expect(dialog).to_contain_text(app_text("providers.providers.resetText"))
    await dialog.get_by_role("button", name="End the pause").click()
    await expect(tab.get_by_text(app_text("providers.providers.wasReset", "replicate"))).to_be_visible()
    await expect(card).to_contain_text("Working")
    await expect(card.get_by_role("button", name=app_text("providers.providers.resetOf", "replicate"))).to_have_count(0)

    # The job that waited runs.
    async def is_completed() -> bool:
        async with services.stack.client(account.headers) as client:
            found = await client.get(f"/api/task/{created.json()['task_id']}")
        return bool(found.json()["status"] == "completed")

    await until(is_completed, 120)
