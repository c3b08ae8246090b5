"""Events of jobs are sent to endpoints: signed, in order, at least once, and no endpoint delays another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from callsheet.deliveries.delivery_rows import BATCH, Claim, DueEndpoint
from callsheet.deliveries.keeper import disabled_endpoints
from callsheet.plumbing.failpoints import Failpoint
from callsheet.settings.server import OutgoingSettings
from callsheet.toolbox.webhook_signatures import new_secret
from callsheet.wire.errors import Forbidden, InvalidRequest, NotFound, QuotaExceeded
from callsheet.wire.webhook_endpoints import ChangeWebhookEndpoint, CreateWebhookEndpoint, EndpointScope, ReplayRange
from tests.support.deliveries import admin_of, delivering
from tests.support.http.webhook_receiver import Receiver, receiving
from tests.support.jobs.core import Core, Member
from tests.support.jobs.crashes import crashed_at
from tests.support.media.media_harness import principal_of
from tests.support.waiting import until


def events(receiver: Receiver) -> list[str]:
    return [content["type"] for content in receiver.contents]


def per_job(receiver: Receiver) -> dict[str, list[str]]:
    """The events of each job in the order in which they arrived, each once."""
    found: dict[str, list[str]] = {}
    for content in receiver.contents:
        seen = found.setdefault(content["data"]["id"], [])
        if content["type"] not in seen:
            seen.append(content["type"])
    return found


async def a_completed_job(core: Core, member: Member, **changes: Any) -> UUID:
    job = await core.submit(member, **changes)
    await core.complete(await core.start())
    return job.id


async def test_each_change_of_a_job_is_sent_signed_and_in_order(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        endpoint = await deliveries.endpoint(ann, receiver.url)
        job_id = await a_completed_job(core, ann, client_reference="order-7")
        await core.submit(ann)
        await core.fail(await core.start())
        canceled = await core.submit(ann)
        await core.room.cancellation.cancel(ann.tenant_id, canceled.id, actor="user")
        await deliveries.send()
        assert per_job(receiver)[str(job_id)] == ["job.accepted", "job.started", "job.completed"]
        assert sorted(map(tuple, per_job(receiver).values())) == [
            ("job.accepted", "job.canceled"),
            ("job.accepted", "job.started", "job.completed"),
            ("job.accepted", "job.started", "job.failed"),
        ]
        ids = {headers["webhook-id"] for headers, _ in receiver.requests}
        assert len(ids) == len(receiver.requests) == 8
        for headers, body in receiver.requests:
            content = Webhook(endpoint.secret).verify(body, headers)
            with pytest.raises(WebhookVerificationError):
                Webhook(new_secret()).verify(body, headers)
            assert content["data"]["user_id"] == str(ann.user_id)
        [completed] = [each["data"] for each in receiver.contents if each["type"] == "job.completed"]
        assert completed["client_reference"] == "order-7"
        assert completed["status"] == "completed"
        assert completed["completed_at"].endswith("Z")
        assert "output_file_id" in completed
        [failed] = [each["data"] for each in receiver.contents if each["type"] == "job.failed"]
        assert failed["error_type"] == "engine_error"
        # What the worker reported is for operators.
        assert "The engine stopped." not in str(failed)
        await deliveries.send()
        assert len(receiver.requests) == 8


async def test_a_retry_is_accepted_again_in_the_next_charge_cycle(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        job = await core.submit(ann)
        await core.fail(await core.start())
        await core.room.retries.retry(ann.tenant_id, job.id, actor="user")
        await deliveries.send()
        assert [content["data"]["charge_cycle"] for content in receiver.contents] == [1, 2]


async def test_a_submit_that_is_refused_leaves_no_event(core: Core) -> None:
    ann = await core.member(tokens=5)
    async with delivering(core) as deliveries:
        await deliveries.endpoint(ann, "https://shop.example.com/hook")
        with pytest.raises(Exception, match="token"):
            await core.submit(ann, cost=10)
        assert await deliveries.rows(ann) == []


async def test_g6_an_endpoint_gets_only_the_jobs_of_its_scope(core: Core) -> None:
    ann, stranger = await core.member(), await core.member()
    colleague = await core.member(tenant=ann)
    async with receiving() as receiver, delivering(core) as deliveries:
        await deliveries.endpoint(ann, f"{receiver.base}/own", events=["job.accepted"])
        await deliveries.endpoint(ann, f"{receiver.base}/tenant", events=["job.accepted"], scope="tenant")
        for member in (ann, colleague, stranger):
            await core.submit(member)
        await deliveries.send()
        got = {path: set() for path in receiver.paths}
        for path, content in zip(receiver.paths, receiver.contents, strict=True):
            got[path].add(content["data"]["user_id"])
        assert got == {"/own": {str(ann.user_id)}, "/tenant": {str(ann.user_id), str(colleague.user_id)}}


async def test_filters_choose_events_and_references(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        await deliveries.endpoint(ann, receiver.url, events=["job.completed"], client_references=["order-7"])
        await deliveries.endpoint(ann, receiver.url, effect_ids=["01900000-0000-7000-8000-000000000000"])
        wanted = await a_completed_job(core, ann, client_reference="order-7")
        await a_completed_job(core, ann, client_reference="order-8")
        await deliveries.send()
        assert per_job(receiver) == {str(wanted): ["job.completed"]}


async def test_an_event_is_sent_again_until_it_is_accepted_and_later_events_of_its_job_wait(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        await deliveries.endpoint(ann, receiver.url)
        receiver.status, receiver.body = 503, b"closed \x00" + b"x" * 9000
        await a_completed_job(core, ann)
        for _ in range(4):
            await deliveries.send()
            await deliveries.let_time_pass()
        assert events(receiver) == ["job.accepted"] * 4
        assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 1
        first = (await deliveries.rows(ann))[0]
        assert (first["status"], first["attempts"], first["response_status"]) == ("waiting", 4, 503)
        assert first["error"] == "The endpoint returned 503. It must return a status from 200 to 299."
        assert len(first["response_text"]) == 4096
        assert first["response_text"].startswith("closed \ufffdx")
        receiver.status = 200
        await deliveries.send()
        assert per_job(receiver) == {str(first["subject_id"]): ["job.accepted", "job.started", "job.completed"]}
        assert [row["status"] for row in await deliveries.rows(ann)] == ["delivered"] * 3


async def test_the_next_attempt_comes_later_each_time(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        receiver.status = 500
        await core.submit(ann)
        waits = []
        for _ in range(12):
            await deliveries.send()
            [row] = await core.rows(
                ann.pool, "SELECT extract(epoch FROM due_at - clock_timestamp()) AS wait FROM webhook_deliveries"
            )
            waits.append(float(row["wait"]))
            await deliveries.let_time_pass()
        assert waits[:5] == sorted(waits[:5])
        assert waits[0] < 6
        assert max(waits) <= 3600 * 1.1


async def test_a_redirect_is_a_failure_and_is_not_followed(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        receiver.status, receiver.headers = 302, [(b"location", f"{receiver.base}/elsewhere".encode())]
        await core.submit(ann)
        await deliveries.send()
        assert receiver.paths == ["/hook"]
        [row] = await deliveries.rows(ann)
        assert (row["status"], row["response_status"]) == ("waiting", 302)


async def test_no_request_goes_into_a_private_network(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core, outgoing=OutgoingSettings(), allow_http=True) as deliveries:
        # A name that the resolver leads to this machine.
        await deliveries.endpoint(ann, receiver.url.replace("127.0.0.1", "127.1"), events=["job.accepted"])
        await core.submit(ann)
        await deliveries.send()
        assert receiver.requests == []
        [row] = await deliveries.rows(ann)
        assert row["response_status"] is None
        assert row["error"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://shop.example.com/hook", "Use https://"),
        ("ftp://shop.example.com/hook", "Use a URL like"),
        ("https://ann:secret@shop.example.com/hook", "with a user name"),
        ("https://[::1/hook", "Use a URL like"),
        ("https:///hook-without-host", "Use a URL like"),
        ("https://10.1.2.3/hook", "The operator can allow its network"),
        ("https://169.254.169.254/hook", "The operator can allow its network"),
        ("http://[::1]:8000/hook", "The operator can allow its network"),
    ],
)
async def test_g10_a_url_that_cannot_be_used_is_refused_with_its_reason(core: Core, url: str, reason: str) -> None:
    ann = await core.member()
    async with delivering(core) as deliveries:
        with pytest.raises(InvalidRequest) as refused:
            await deliveries.endpoint(ann, url)
        assert reason in str(refused.value.errors)


async def test_http_is_accepted_elsewhere_if_the_operator_allows_it(core: Core) -> None:
    ann = await core.member()
    async with delivering(core, allow_http=True) as deliveries:
        assert (await deliveries.endpoint(ann, "http://shop.example.com/hook")).enabled


async def test_a_hanging_endpoint_delays_no_other(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        released = receiver.held["/hangs"] = asyncio.Event()
        hanging = await deliveries.endpoint(ann, f"{receiver.base}/hangs")
        working = await deliveries.endpoint(ann, f"{receiver.base}/works")
        for _ in range(20):
            await deliveries.room.endpoints.write_test(principal_of(ann), hanging.id)
        await deliveries.room.sender.tick(datetime.now(UTC))
        await until(lambda: "/hangs" in receiver.paths)
        for _ in range(20):
            await deliveries.room.endpoints.write_test(principal_of(ann), working.id)
        await deliveries.room.sender.tick(datetime.now(UTC))
        await until(lambda: receiver.paths.count("/works") == 20)
        # It has no more than its share of the connections.
        assert receiver.paths.count("/hangs") == BATCH
        released.set()
        await deliveries.room.sender.idle()


async def test_an_event_that_is_written_while_nothing_more_is_found_does_not_wait_for_the_next_tick(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        sender = deliveries.room.sender

        rows = sender.rows_of(ann.pool)
        claim = rows.claim
        submitted = False

        async def late(endpoint: DueEndpoint) -> Sequence[Claim]:
            """Another job is submitted, and the sender is woken, after the first claim that found nothing."""
            nonlocal submitted
            found = await claim(endpoint)
            if not found and not submitted:
                submitted = True
                await core.submit(ann)
                await sender.tick(datetime.now(UTC))
            return found

        rows.claim = late  # type: ignore[method-assign]
        await core.submit(ann)
        await deliveries.send()
        assert events(receiver) == ["job.accepted", "job.accepted"]


async def test_what_a_person_sends_does_not_wait_for_the_pause_of_the_endpoint(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        endpoint = await deliveries.endpoint(ann, receiver.url)
        await core.rows(ann.pool, "UPDATE webhook_endpoints SET paused_until = 'infinity'")
        test = await deliveries.room.endpoints.write_test(principal_of(ann), endpoint.id)
        await deliveries.send()
        [content] = receiver.contents
        assert content == test.body
        await core.rows(ann.pool, "UPDATE webhook_endpoints SET paused_until = 'infinity'")
        await deliveries.room.endpoints.redeliver(principal_of(ann), endpoint.id, test.id)
        await deliveries.send()
        assert receiver.contents == [content, content]


async def test_an_endpoint_that_fails_for_a_day_is_disabled_and_goes_on_when_it_is_enabled(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        endpoint = await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        receiver.status = 500
        await core.submit(ann)
        await deliveries.send()
        await core.rows(ann.pool, "UPDATE webhook_endpoints SET failing_since = failing_since - interval '25 hours'")
        await deliveries.let_time_pass()
        await deliveries.send()
        shown = await deliveries.room.endpoints.get(principal_of(ann), endpoint.id)
        assert shown.disabled_at is not None
        assert shown.disabled_reason is not None
        assert "The endpoint returned 500." in shown.disabled_reason
        [found] = await disabled_endpoints(core.databases.pools, 10)
        assert found.id == endpoint.id
        # Events are written meanwhile, and nothing is sent.
        receiver.status = 200
        await core.submit(ann)
        await deliveries.let_time_pass()
        await deliveries.send()
        assert len(receiver.requests) == 2
        await deliveries.room.endpoints.change(principal_of(ann), endpoint.id, ChangeWebhookEndpoint(enabled=True))
        await deliveries.send()
        assert len(per_job(receiver)) == 2
        assert await disabled_endpoints(core.databases.pools, 10) == []


async def test_an_endpoint_that_is_gone_is_disabled_at_once(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        endpoint = await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        receiver.status = 410
        await core.submit(ann)
        await deliveries.send()
        shown = await deliveries.room.endpoints.get(principal_of(ann), endpoint.id)
        assert shown.disabled_reason == "The endpoint returned 410 (gone)."


async def test_an_event_is_given_up_after_a_day_and_old_ones_are_deleted(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        endpoint = await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        receiver.status = 500
        await core.submit(ann)
        await deliveries.send()
        keeper = deliveries.room.keeper
        await keeper.tick(datetime.now(UTC))
        assert [row["status"] for row in await deliveries.rows(ann)] == ["waiting"]
        await core.rows(ann.pool, "UPDATE webhook_deliveries SET queued_at = queued_at - interval '25 hours'")
        await keeper.tick(datetime.now(UTC))
        [row] = await deliveries.rows(ann)
        assert row["status"] == "given_up"
        # Its user can still send it again.
        receiver.status = 200
        await deliveries.room.endpoints.redeliver(principal_of(ann), endpoint.id, row["number"])
        await deliveries.let_time_pass()
        await deliveries.send()
        assert [row["status"] for row in await deliveries.rows(ann)] == ["delivered"]
        await core.rows(ann.pool, "UPDATE webhook_deliveries SET created_at = created_at - interval '8 days'")
        await keeper.tick(datetime.now(UTC))
        assert await deliveries.rows(ann) == []


async def test_a_range_of_time_is_replayed(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        endpoint = await deliveries.endpoint(ann, receiver.url)
        job_id = await a_completed_job(core, ann)
        await deliveries.send()
        everything = ReplayRange(since=datetime.now(UTC) - timedelta(hours=1))
        nothing = ReplayRange(since=datetime.now(UTC) + timedelta(hours=1))
        endpoints = deliveries.room.endpoints
        assert (await endpoints.replay(principal_of(ann), endpoint.id, nothing)).deliveries == 0
        replayed = await endpoints.replay(principal_of(ann), endpoint.id, everything)
        assert (replayed.deliveries, replayed.has_more) == (3, False)
        await deliveries.send()
        assert events(receiver) == ["job.accepted", "job.started", "job.completed"] * 2
        assert {content["data"]["id"] for content in receiver.contents} == {str(job_id)}
        failed = everything.model_copy(update={"only_failed": True})
        assert (await endpoints.replay(principal_of(ann), endpoint.id, failed)).deliveries == 0


async def test_g6_endpoints_and_their_logs_are_there_only_for_their_users(core: Core) -> None:
    ann, stranger = await core.member(), await core.member()
    colleague = await core.member(tenant=ann)
    async with delivering(core, endpoints_per_user=1) as deliveries:
        endpoints = deliveries.room.endpoints
        own = await deliveries.endpoint(ann, "https://shop.example.com/hook")
        with pytest.raises(QuotaExceeded):
            await deliveries.endpoint(ann, "https://shop.example.com/hook")
        test = await endpoints.write_test(principal_of(ann), own.id)
        with pytest.raises(Forbidden):
            await endpoints.create(principal_of(ann), _for_tenant())
        for other in (principal_of(colleague), principal_of(stranger), admin_of(colleague), admin_of(stranger)):
            with pytest.raises(NotFound):
                await endpoints.get(other, own.id)
            with pytest.raises(NotFound):
                await endpoints.redeliver(other, own.id, test.id)
            assert (await endpoints.page(other, None, 10)).items == []
        shared = await deliveries.endpoint(colleague, "https://shop.example.com/all", scope="tenant")
        assert [each.id for each in (await endpoints.page(admin_of(ann), None, 10)).items] == [shared.id, own.id]
        with pytest.raises(NotFound):
            await endpoints.get(admin_of(stranger), shared.id)
        # A number of another endpoint is not found through one's own.
        theirs = await deliveries.endpoint(stranger, "https://shop.example.com/hook")
        with pytest.raises(NotFound):
            await endpoints.redeliver(principal_of(stranger), theirs.id, test.id)
        await endpoints.delete(principal_of(ann), own.id)
        assert await deliveries.rows(ann) == []


def _for_tenant() -> Any:
    return CreateWebhookEndpoint(url="https://shop.example.com/hook", scope=EndpointScope.TENANT)


@pytest.mark.parametrize("point", [Failpoint.DELIVERY_CLAIMED_BEFORE_SEND, Failpoint.DELIVERY_SENT_BEFORE_ROW])
async def test_g13_a_sender_that_crashes_loses_no_event(core: Core, point: Failpoint) -> None:
    ann = await core.member()
    async with receiving() as receiver:
        async with delivering(core) as deliveries:
            await deliveries.endpoint(ann, receiver.url)
            job_id = await a_completed_job(core, ann)
            # The task of the endpoint may end before the sender waits for it, so the row says that it crashed.
            await crashed_at(point, deliveries.send())
            first = (await deliveries.rows(ann))[0]
            assert (first["status"], first["attempts"]) == ("waiting", 1)
        async with delivering(core) as deliveries:
            # The claim of the dead process still holds.
            await deliveries.send()
            assert len(receiver.requests) == (0 if point is Failpoint.DELIVERY_CLAIMED_BEFORE_SEND else 1)
            await deliveries.let_time_pass()
            await deliveries.send()
        assert per_job(receiver) == {str(job_id): ["job.accepted", "job.started", "job.completed"]}


async def test_g13_a_sender_that_crashes_after_a_failure_sends_the_event_again(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        receiver.status = 500
        await core.submit(ann)
        await crashed_at(Failpoint.DELIVERY_ROW_BEFORE_ENDPOINT, deliveries.send())
        [row] = await deliveries.rows(ann)
        assert (row["status"], row["response_status"]) == ("waiting", 500)
        receiver.status = 200
        await deliveries.let_time_pass()
        await deliveries.send()
        assert [row["status"] for row in await deliveries.rows(ann)] == ["delivered"]


@pytest.mark.parametrize(
    "point", [Failpoint.SUBMIT_BEFORE_RELAY, Failpoint.RELAY_BEFORE_QUEUED, Failpoint.COMPLETE_BEFORE_CLOSE]
)
async def test_g13_a_control_plane_that_crashes_after_a_change_has_written_its_event(
    core: Core, point: Failpoint
) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        await deliveries.endpoint(ann, receiver.url)
        if point is Failpoint.COMPLETE_BEFORE_CLOSE:
            await core.submit(ann)
            started = await core.start()
            assert await crashed_at(point, core.complete(started))
            assert (await deliveries.rows(ann))[-1]["event"] == "job.completed"
        else:
            assert await crashed_at(point, core.submit(ann))
            assert [row["event"] for row in await deliveries.rows(ann)] == ["job.accepted"]
        await core.drain()
        await core.check_drained()
        await deliveries.send()
        assert list(per_job(receiver).values()) == [["job.accepted", "job.started", "job.completed"]]


async def test_g13_two_control_planes_send_each_event_once_and_in_order(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as one, delivering(core) as two:
        await one.endpoint(ann, receiver.url)
        jobs = [await a_completed_job(core, ann) for _ in range(12)]
        while any(row["status"] == "waiting" for row in await one.rows(ann)):
            await asyncio.gather(one.send(), two.send())
        assert len(receiver.requests) == 3 * len(jobs)
        assert set(map(tuple, per_job(receiver).values())) == {("job.accepted", "job.started", "job.completed")}


async def test_an_event_of_a_job_wakes_the_sender_only_for_tenants_with_endpoints(core: Core) -> None:
    ann, stranger = await core.member(), await core.member()
    async with delivering(core) as deliveries:
        await deliveries.endpoint(ann, "https://shop.example.com/hook", events=["job.expired"])
        sender = deliveries.room.sender
        await sender.tick(datetime.now(UTC))
        woken: list[str] = []
        sender.wake = lambda: woken.append("woken")  # type: ignore[method-assign]
        sender.received(f"{stranger.tenant_id}/{stranger.user_id}/{stranger.user_id}")
        assert woken == []
        sender.received(f"{ann.tenant_id}/{ann.user_id}/{ann.user_id}")
        sender.received(None)
        assert woken == ["woken", "woken"]
