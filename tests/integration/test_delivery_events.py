"""Events of runs, candidates and wallets, and those that a room announces, are written with the change they report."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from standardwebhooks import Webhook

from callsheet.identity.accounts.tenant_pools import set_payer
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import BudgetReached, InvalidRequest
from callsheet.wire.pipelines.pipelines import Strategy
from callsheet.wire.webhook_endpoints import ChangeWebhookEndpoint
from tests.support.deliveries import Deliveries, delivering
from tests.support.http.webhook_receiver import receiving
from tests.support.jobs.budgets import add_budget
from tests.support.jobs.core import Core, Member
from tests.support.media.media_harness import open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import open_pipeline_harness

ANNOUNCE = "SELECT deliveries_announce($1, $2, $3, $4, $5, $6, $7)"
URL = "https://shop.example.com/hook"


async def bodies(deliveries: Deliveries, member: Member) -> list[dict[str, Any]]:
    return [row["body"] for row in await deliveries.rows(member)]


async def announce(
    core: Core,
    member: Member,
    event: str,
    *,
    effect: UUID | None = None,
    reference: str | None = None,
    data: dict[str, Any] | None = None,
) -> None:
    subject = uuid7()
    owner = (member.tenant_id, member.user_id)
    await core.rows(member.pool, ANNOUNCE, *owner, event, subject, effect, reference, data or {"id": str(subject)})


async def test_g13_an_event_is_written_with_the_change_of_its_caller_or_not_at_all(core: Core) -> None:
    ann = await core.member()
    async with delivering(core) as deliveries:
        await deliveries.endpoint(ann, URL, events=["batch.finished"])
        owner = (ann.tenant_id, ann.user_id)
        async with ann.pool.connection() as connection:
            change = connection.transaction()
            await change.start()
            await connection.execute(ANNOUNCE, *owner, "batch.finished", uuid7(), None, None, {"id": "1"})
            await change.rollback()
        assert await bodies(deliveries, ann) == []
        await announce(core, ann, "batch.finished", data={"id": "2", "name": None})
        [body] = await bodies(deliveries, ann)
        assert (body["type"], body["data"]) == ("batch.finished", {"id": "2"})
        assert body["timestamp"].endswith("Z")


async def test_filters_of_an_endpoint_apply_to_all_events_but_those_about_tokens(core: Core) -> None:
    ann, effect = await core.member(), uuid7()
    async with delivering(core) as deliveries:
        await deliveries.endpoint(ann, URL, effect_ids=[effect], client_references=["order-7"])
        await announce(core, ann, "candidate.created", effect=effect, reference="order-7")
        await announce(core, ann, "candidate.created", effect=effect, reference="order-8")
        await announce(core, ann, "candidate.created", effect=uuid7(), reference="order-7")
        await announce(core, ann, "run.finished", reference="order-7")
        await announce(core, ann, "budget.reached")
        assert [body["type"] for body in await bodies(deliveries, ann)] == ["candidate.created", "budget.reached"]


async def test_g6_an_announced_event_reaches_its_user_and_the_tenant_and_no_other(core: Core) -> None:
    ann, stranger = await core.member(), await core.member()
    colleague = await core.member(tenant=ann)
    async with delivering(core) as deliveries:
        for member in (ann, colleague, stranger):
            await deliveries.endpoint(member, URL)
        await deliveries.endpoint(colleague, URL, scope="tenant")
        await announce(core, ann, "budget.reached")
        assert len(await deliveries.rows(ann)) == 2
        assert await deliveries.rows(stranger) == []


async def test_a_run_announces_its_candidates_its_gate_and_its_end_in_order(core: Core, tmp_path: Path) -> None:
    ann = await core.member(tokens=1000)
    async with open_media_harness(core, ann, tmp_path / "home") as media, delivering(core) as deliveries:
        pipelines = open_pipeline_harness(core, ann, media)
        events = ["candidate.created", "run.gate", "run.finished"]
        await deliveries.endpoint(ann, URL, events=events, client_references=["order-7"])
        steps = await pipelines.steps("base", "fix", max_children=1)
        steps[0] |= {"top_k": 1, "requires_approval": True}
        pipeline = await pipelines.define(steps)
        order: dict[str, Any] = {"client_reference": "order-7", "metadata": {"cart": "4"}}
        started = await pipelines.run(pipeline, target_leaves=1, strategy=Strategy.BREADTH_FIRST, **order)
        await pipelines.run(pipeline, client_reference="order-8")
        run = await pipelines.finish(started)
        # The scheduler examines a run that waits again and again.
        await pipelines.due(run)
        await pipelines.tick()
        assert [body["type"] for body in await bodies(deliveries, ann)] == ["candidate.created", "run.gate"]
        await pipelines.room.guidance.branches.approve(principal_of(ann), run.id, "base")
        await pipelines.finish(run)
        found = await bodies(deliveries, ann)
        types = ["candidate.created", "run.gate", "candidate.created", "run.finished"]
        assert [body["type"] for body in found] == types
        candidate, gate, _, finished = [body["data"] for body in found]
        [first, *_] = await pipelines.candidates(run)
        assert (candidate["id"], candidate["run_id"], candidate["step"]) == (str(first["id"]), str(run.id), "base")
        assert gate["reason_detail"] == "The step 'base' waits for an approval."
        assert (finished["status"], finished["reason"]) == ("completed", "target_reached")
        assert all(body["data"]["metadata"] == {"cart": "4"} for body in found)
        assert {row["subject_id"] for row in await deliveries.rows(ann)} == {run.id}


async def test_a_canceled_run_is_finished_and_a_paused_one_is_not(core: Core, tmp_path: Path) -> None:
    ann = await core.member(tokens=1000)
    async with open_media_harness(core, ann, tmp_path / "home") as media, delivering(core) as deliveries:
        pipelines = open_pipeline_harness(core, ann, media)
        await deliveries.endpoint(ann, URL, events=["run.finished"])
        run = await pipelines.run(await pipelines.pipeline("base"))
        await pipelines.room.runs.pause(principal_of(ann), run.id)
        assert await bodies(deliveries, ann) == []
        await pipelines.room.runs.cancel(principal_of(ann), run.id)
        assert [body["data"]["status"] for body in await bodies(deliveries, ann)] == ["canceled"]


async def test_a_wallet_that_falls_below_a_limit_is_announced_once_until_it_rises_again(core: Core) -> None:
    ann = await core.member(tokens=100)
    async with delivering(core) as deliveries:
        await deliveries.endpoint(ann, URL, events=["wallet.low"], low_balance=90)
        await deliveries.endpoint(ann, URL, events=["wallet.low"], low_balance=1000)
        await core.submit(ann, cost=10)
        assert await bodies(deliveries, ann) == []
        job = await core.submit(ann, cost=10)
        await core.submit(ann, cost=10)
        data = {"user_id": str(ann.user_id), "owner": "user", "balance": 80, "low_balance": 90}
        assert [body["data"] for body in await bodies(deliveries, ann)] == [data]
        # Refunds lift the balance to 90, which is not below the limit.
        await core.fail(await core.start())
        await core.room.cancellation.cancel(ann.tenant_id, job.id, actor="user")
        await core.submit(ann, cost=20)
        assert [body["data"]["balance"] for body in await bodies(deliveries, ann)] == [80, 70]


async def test_a_low_wallet_of_a_tenant_is_announced_to_endpoints_of_the_tenant_only(core: Core) -> None:
    ann = await core.member(tokens=100)
    await core.credit(ann.tenant, 50)
    await set_payer(ann.pool, ann.tenant_id, is_tenant=True)
    async with delivering(core) as deliveries:
        await deliveries.endpoint(ann, URL, events=["wallet.low"], low_balance=45)
        await deliveries.endpoint(ann, URL, events=["wallet.low"], low_balance=45, scope="tenant")
        await core.submit(ann, cost=10)
        [body] = await bodies(deliveries, ann)
        assert body["data"] == {"owner": "tenant", "balance": 40, "low_balance": 45}


async def test_two_submits_at_once_announce_a_low_wallet_once(core: Core) -> None:
    ann = await core.member(tokens=100)
    async with delivering(core) as deliveries:
        await deliveries.endpoint(ann, URL, events=["wallet.low"], low_balance=95)
        await asyncio.gather(*(core.submit(ann, cost=10) for _ in range(4)))
        assert [body["data"]["balance"] for body in await bodies(deliveries, ann)] == [90]


async def test_a_job_with_a_url_of_its_own_is_sent_there_signed_with_the_secret_of_its_endpoint(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        endpoint = await deliveries.endpoint(ann, receiver.base, scope="job", events=["job.accepted"])
        await core.submit(ann)
        await core.submit(ann, webhook_url=f"{receiver.base}/orders/7?color=red")
        await deliveries.send()
        assert receiver.paths == ["/orders/7"]
        [(headers, body)] = receiver.requests
        assert Webhook(endpoint.secret).verify(body, headers)["type"] == "job.accepted"
        [row] = await deliveries.rows(ann)
        assert row["url"] == f"{receiver.base}/orders/7?color=red"


async def test_a_job_with_a_url_of_its_own_goes_to_the_endpoint_that_names_most_of_it(core: Core) -> None:
    ann = await core.member()
    async with delivering(core) as deliveries:
        events = ["job.accepted"]
        await deliveries.endpoint(ann, "https://shop.example.com", scope="job", events=events)
        nearest = await deliveries.endpoint(ann, "https://shop.example.com/orders/", scope="job", events=events)
        every = await deliveries.endpoint(ann, URL, events=events)
        await core.submit(ann, webhook_url="https://shop.example.com/orders/7")
        assert {row["endpoint_id"] for row in await deliveries.rows(ann)} == {nearest.id, every.id}


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example.com.example.org/hook",
        "https://shop.example.com@example.org/hook",
        "https://shop.example.com:8443/hook",
        "http://shop.example.com/hook",
        "https://switched-off.example.com/hook",
        "https://of-ben.example.com/hook",
        "https://without-scope.example.com/hook",
    ],
)
async def test_a_url_of_a_job_must_start_like_an_endpoint_of_its_user(core: Core, url: str) -> None:
    ann = await core.member()
    ben = await core.member(tenant=ann)
    async with delivering(core) as deliveries:
        await deliveries.endpoint(ann, "https://shop.example.com", scope="job")
        switched_off = await deliveries.endpoint(ann, "https://switched-off.example.com", scope="job")
        off = ChangeWebhookEndpoint(enabled=False)
        await deliveries.room.endpoints.change(principal_of(ann), switched_off.id, off)
        await deliveries.endpoint(ben, "https://of-ben.example.com", scope="job")
        await deliveries.endpoint(ann, "https://without-scope.example.com")
        with pytest.raises(InvalidRequest, match="scope `job`"):
            await core.submit(ann, webhook_url=url)
        assert await deliveries.rows(ann) == []
        assert await core.rows(ann.pool, "SELECT FROM token_transactions WHERE type = 'JOB_RESERVE'") == []


async def test_a_budget_is_announced_when_it_is_nearly_taken_and_when_it_refuses_a_job(core: Core) -> None:
    ann = await core.member()
    colleague = await core.member(tenant=ann)
    async with delivering(core) as deliveries:
        await deliveries.endpoint(ann, URL, events=["budget.reached"])
        await deliveries.endpoint(colleague, URL, events=["budget.reached"])
        await add_budget(ann, limit=10, user_id=ann.user_id)
        for cost in (7, 1, 1):
            await core.submit(ann, cost=cost)
        for _ in range(2):
            with pytest.raises(BudgetReached):
                await core.submit(ann, cost=5)
        found = [body["data"] for body in await bodies(deliveries, ann)]
        assert [(data["taken"], data["is_reached"]) for data in found] == [(8, False), (9, True)]
        assert found[0]["token_limit"] == 10
