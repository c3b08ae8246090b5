"""What waits for an endpoint and its log are limited, and the user of an endpoint that is disabled gets a mail."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from callsheet.deliveries.keeper import disabled_endpoints
from callsheet.plumbing.failpoints import Failpoint
from callsheet.settings.identity import MailSettings
from callsheet.wire.errors import QuotaExceeded
from callsheet.wire.webhook_endpoints import ChangeWebhookEndpoint, CreateWebhookEndpoint
from tests.support.deliveries import Deliveries, delivering
from tests.support.http.smtp_server import SmtpServer, smtp_server
from tests.support.http.webhook_receiver import receiving
from tests.support.jobs.core import Core, Member
from tests.support.jobs.crashes import crashed_at
from tests.support.media.media_harness import principal_of

ENABLED = ChangeWebhookEndpoint(enabled=True)


@pytest.fixture
def mail() -> Iterator[SmtpServer]:
    with smtp_server() as server:
        yield server


async def keep(deliveries: Deliveries) -> None:
    await deliveries.room.keeper.tick(datetime.now(UTC))


async def age(core: Core, member: Member) -> None:
    """The endpoints were enabled more than an hour ago."""
    await core.rows(member.pool, "UPDATE webhook_endpoints SET enabled_at = enabled_at - interval '2 hours'")


@pytest.mark.parametrize("limit", [{"waiting_per_endpoint": 2}, {"waiting_bytes_per_endpoint": 65_536}])
async def test_g13_an_endpoint_for_which_too_many_events_wait_is_disabled_and_no_more_are_written(
    core: Core, limit: dict[str, int]
) -> None:
    ann = await core.member()
    async with delivering(core, **limit) as deliveries:
        endpoint = await deliveries.endpoint(ann, "https://shop.example.com/hook", events=["job.accepted"])
        await age(core, ann)
        text = {"text": "x" * 900}
        await core.submit(ann)
        await keep(deliveries)
        shown = await deliveries.room.endpoints.get(principal_of(ann), endpoint.id)
        assert shown.disabled_at is None
        if "waiting_per_endpoint" in limit:
            await core.submit(ann)
            await core.submit(ann)
        else:
            await core.rows(ann.pool, "UPDATE webhook_deliveries SET body = body || $1", {"noise": _noise(70_000)})
        await keep(deliveries)
        shown = await deliveries.room.endpoints.get(principal_of(ann), endpoint.id)
        assert shown.disabled_reason is not None
        assert "wait for it, and more are not written since" in shown.disabled_reason
        [alert] = await disabled_endpoints(core.databases.pools, 10)
        assert alert.id == endpoint.id
        written = len(await deliveries.rows(ann))
        await core.submit(ann, metadata=text)
        assert len(await deliveries.rows(ann)) == written


def _noise(length: int) -> str:
    """A text that cannot be compressed much."""
    import random

    return "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=length))


async def test_an_endpoint_that_is_enabled_again_may_have_twice_as_many_events_for_an_hour(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core, waiting_per_endpoint=2) as deliveries:
        endpoint = await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        await age(core, ann)
        for _ in range(3):
            await core.submit(ann)
        await keep(deliveries)
        enabled = await deliveries.room.endpoints.change(principal_of(ann), endpoint.id, ENABLED)
        assert (enabled.disabled_at, enabled.disabled_reason) == (None, None)
        await core.submit(ann)
        await keep(deliveries)
        assert (await deliveries.room.endpoints.get(principal_of(ann), endpoint.id)).disabled_at is None
        assert len(await deliveries.rows(ann)) == 4
        await core.submit(ann)
        await keep(deliveries)
        assert (await deliveries.room.endpoints.get(principal_of(ann), endpoint.id)).disabled_at is not None
        await deliveries.room.endpoints.change(principal_of(ann), endpoint.id, ENABLED)
        await deliveries.send()
        await keep(deliveries)
        assert len(receiver.requests) == 5
        assert (await deliveries.room.endpoints.get(principal_of(ann), endpoint.id)).disabled_at is None


async def test_the_log_of_an_endpoint_keeps_its_newest_deliveries_and_those_that_wait(core: Core) -> None:
    ann = await core.member(tokens=0)
    async with delivering(core, keep_per_endpoint=100) as deliveries:
        busy, quiet = [await deliveries.endpoint(ann, "https://shop.example.com/hook") for _ in range(2)]
        query = """INSERT INTO webhook_deliveries (tenant_id, endpoint_id, event, body, status, ended_at)
            SELECT $1, $2, 'webhook.test', '{}', $3, CASE WHEN $3 <> 'waiting' THEN clock_timestamp() END
            FROM generate_series(1, $4::integer)"""
        for endpoint, status, number in ((busy, "waiting", 1), (busy, "delivered", 105), (quiet, "delivered", 3)):
            await core.rows(ann.pool, query, ann.tenant_id, endpoint.id, status, number)
        before = await deliveries.rows(ann)
        await keep(deliveries)
        after = await deliveries.rows(ann)
        assert [row["number"] for row in after] == [row["number"] for row in [before[0], *before[6:]]]


async def test_a_tenant_has_a_limit_of_endpoints_of_all_its_users(core: Core) -> None:
    ann = await core.member()
    colleague, stranger = await core.member(tenant=ann), await core.member()
    async with delivering(core, endpoints_per_tenant=1) as deliveries:
        await deliveries.endpoint(ann, "https://shop.example.com/hook")
        wanted = CreateWebhookEndpoint(url="https://shop.example.com/hook")
        with pytest.raises(QuotaExceeded, match="Your tenant has 1 webhook endpoint, and the limit is 1"):
            await deliveries.room.endpoints.create(principal_of(colleague), wanted)
        await deliveries.endpoint(stranger, "https://shop.example.com/hook")


async def account_of(core: Core, member: Member, email: str) -> None:
    """Gives a user of the pool a row in central."""
    query = "INSERT INTO users (id, tenant_id, email, password_hash) VALUES ($1, $2, $3, '$argon2id$')"
    await core.rows(core.databases.central, query, member.user_id, member.tenant_id, email)


async def test_the_user_of_an_endpoint_that_is_disabled_gets_one_mail(core: Core, mail: SmtpServer) -> None:
    ann = await core.member()
    await account_of(core, ann, "ann@example.com")
    settings = MailSettings(**mail.settings)
    async with receiving() as receiver, delivering(core, mail=settings) as deliveries:
        endpoint = await deliveries.endpoint(ann, receiver.url, events=["job.accepted"], description="the shop")
        receiver.status = 410
        await core.submit(ann)
        await deliveries.send()
        mail.refusal = "451 try later"
        await keep(deliveries)
        assert mail.mails == []
        mail.refusal = None
        await keep(deliveries)
        assert mail.mails == []
        due = "UPDATE webhook_endpoints SET mail_due_at = clock_timestamp()"
        await core.rows(ann.pool, due)
        assert await crashed_at(Failpoint.ENDPOINT_MAIL_SENT_BEFORE_ROW, keep(deliveries))
        await keep(deliveries)
        [sent] = mail.mails
        assert sent["To"] == "ann@example.com"
        for part in (f"{receiver.url} (the shop)", "The endpoint returned 410 (gone).", f"enable {endpoint.id}"):
            assert part in mail.text()
        # The process crashed before it noted the mail: it is sent twice, and then never again.
        await core.rows(ann.pool, due)
        await keep(deliveries)
        await keep(deliveries)
        assert len(mail.mails) == 2
        assert (await core.rows(ann.pool, "SELECT mail_due_at FROM webhook_endpoints")) == [{"mail_due_at": None}]


async def test_an_endpoint_of_a_user_who_is_gone_gets_no_mail(core: Core, mail: SmtpServer) -> None:
    ann = await core.member()
    settings = MailSettings(**mail.settings)
    async with receiving() as receiver, delivering(core, mail=settings) as deliveries:
        await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        receiver.status = 410
        await core.submit(ann)
        await deliveries.send()
        await keep(deliveries)
        assert mail.mails == []
        assert (await core.rows(ann.pool, "SELECT mail_due_at FROM webhook_endpoints")) == [{"mail_due_at": None}]
