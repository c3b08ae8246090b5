"""How a worker gets a job, and every reason why it gets none."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest

from callsheet.fleet.protocol import polls as polls_module
from callsheet.fleet.protocol import unnamed_leases
from callsheet.wire.errors import Unavailable
from tests.api.conftest import Started
from tests.support.http.responses import assert_refused
from tests.support.http.scripted_worker import ScriptedWorker, described
from tests.support.http.worker_harness import OUTPUT, WorkerHarness, open_worker_harness
from tests.support.jobs.race_control import open_transaction
from tests.support.waiting import until


class TestPolls:
    async def test_a_response_without_a_job_gives_the_reason(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        assert await worker.poll() == {"job": None, "reason": "empty"}

    async def test_a_draining_worker_gets_no_job(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        await worker_harness.jobs_api.post(f"/api/admin/workers/{worker.worker_id}/drain", {})
        assert await worker.poll(wait_seconds=5) == {"job": None, "reason": "draining"}
        await worker_harness.jobs_api.post(f"/api/admin/workers/{worker.worker_id}/undrain", {})
        assert (await worker.job())["kind"] == "effect"

    async def test_an_unapproved_worker_gets_no_job(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        await worker_harness.central(
            "UPDATE comfyui_workers SET is_approved = false WHERE worker_id = $1", worker.worker_id
        )
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        assert (await worker.poll())["reason"] == "not_approved"
        await worker_harness.jobs_api.post(f"/api/admin/workers/{worker.worker_id}/approve", {})
        assert (await worker.poll())["job"] is not None

    async def test_g4_a_worker_without_active_workflows_gets_no_job(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        await worker_harness.central(
            "UPDATE workflows SET is_active = false WHERE slug = $1", worker_harness.jobs_api.workflow
        )
        assert (await worker.poll())["reason"] == "no_workflows"

    async def test_the_shown_capacity_is_that_of_the_last_poll_up_to_the_registered_capacity(
        self, worker_harness: WorkerHarness
    ) -> None:
        worker = await worker_harness.worker(max_concurrency=3)
        shown = []
        for said in (
            {"max_concurrency": 1},
            {"max_concurrency": 2},
            {"max_concurrency": 9},
            {"max_concurrency": 1},
            {},
        ):
            await worker.poll(**said)
            query = "SELECT max_concurrency FROM comfyui_workers WHERE worker_id = $1"
            [row] = await worker_harness.central(query, worker.worker_id)
            shown.append(row["max_concurrency"])
        assert shown == [1, 2, 3, 1, 3]

    async def test_g4_only_declared_providers_are_served(self, worker_harness: WorkerHarness) -> None:
        worker, cloud = await worker_harness.worker(), await worker_harness.worker(providers=["cloud"])
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        assert (await cloud.poll())["reason"] == "empty"
        assert (await worker.poll(providers=["cloud"]))["reason"] == "empty"
        assert (await worker.poll(providers=[]))["reason"] == "empty"
        # A poll names no more than was registered.
        assert (await cloud.poll(providers=["cloud", "self_hosted"]))["reason"] == "empty"
        both = await worker_harness.worker(providers=["cloud", "self_hosted"])
        assert (await both.poll(providers=["cloud"]))["reason"] == "empty"
        assert (await both.poll(providers=["self_hosted"]))["job"] is not None

    async def test_a_worker_at_capacity_gets_no_job(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker(max_concurrency=2)
        person = await worker_harness.jobs_api.person(tokens=30)
        for _ in range(3):
            await worker_harness.engine_job(person)
        assert (await worker.poll(current_load=2))["reason"] == "at_capacity"
        assert (await worker.poll(max_concurrency=1))["job"] is not None
        # By what the queue knows, whatever the worker says.
        assert (await worker.poll(max_concurrency=1, current_load=0))["reason"] == "at_capacity"
        assert (await worker.poll())["job"] is not None
        assert (await worker.poll())["reason"] == "at_capacity"

    async def test_a_worker_may_prefetch_a_job_while_more_jobs_are_queued_than_workers_can_take(
        self, worker_harness: WorkerHarness
    ) -> None:
        worker, idle = await worker_harness.worker(), await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=100)
        for _ in range(2):
            await worker_harness.engine_job(person)
        first = await worker.job()
        # One is queued, and the other worker is free to take it.
        assert (await worker.poll(prefetch=True))["reason"] == "at_capacity"
        await worker_harness.engine_job(person)
        ahead = await worker.job(prefetch=True)
        assert ahead["dispatch_id"] != first["dispatch_id"]
        await worker_harness.engine_job(person)
        await worker_harness.engine_job(person)
        assert (await worker.poll(prefetch=True))["reason"] == "at_capacity"
        assert (await idle.poll())["job"] is not None

    async def test_a_worker_may_prefetch_one_job_per_running_job_while_no_other_worker_is_idle(
        self, worker_harness: WorkerHarness
    ) -> None:
        worker, neighbor, idle = (
            await worker_harness.worker(max_concurrency=2),
            await worker_harness.worker(),
            await worker_harness.worker(),
        )
        for person in [await worker_harness.jobs_api.person(tokens=30) for _ in range(2)]:
            for _ in range(3):
                await worker_harness.engine_job(person)
        for prefetch in (False, False, True, True):
            assert (await worker.poll(prefetch=prefetch))["job"] is not None
        assert (await worker.poll(prefetch=True))["reason"] == "at_capacity"
        await neighbor.job()
        # What the first one has fetched ahead does not take the place of the idle one, which may have the last job.
        assert (await neighbor.poll(prefetch=True))["reason"] == "at_capacity"
        await idle.job()

    async def test_a_repeated_poll_gets_the_same_lease_with_fresh_urls(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=20)
        for _ in range(2):
            await worker_harness.engine_job(person)
        first = await worker.job(poll_id="poll-1")
        again = await worker.job(poll_id="poll-1", current_load=1)
        assert (again["dispatch_id"], again["lease_token"]) == (first["dispatch_id"], first["lease_token"])
        assert again["lease_ttl_seconds"] <= first["lease_ttl_seconds"]
        assert (await worker.poll(poll_id="poll-2"))["reason"] == "at_capacity"
        await worker.deliver(again, OUTPUT)
        assert (await worker.complete(first, output=described(OUTPUT, "video/mp4"))).json()["status"] == "completed"
        assert (await worker.job(poll_id="poll-1"))["dispatch_id"] != first["dispatch_id"]

    async def test_the_poll_id_of_another_worker_does_not_return_its_lease(self, worker_harness: WorkerHarness) -> None:
        worker, other = await worker_harness.worker(), await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        await worker.job(poll_id="same")
        assert (await other.poll(poll_id="same"))["reason"] == "empty"

    async def test_a_lease_that_its_worker_does_not_know_is_requeued_without_counting_the_attempt(
        self, worker_harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        lost = await worker.job()
        monkeypatch.setattr(unnamed_leases, "CONFIRM_SECONDS", 0.0)
        # Too young: its answer may be on the way.
        assert (await worker.poll(active_leases=[]))["reason"] == "at_capacity"
        await age_lease(worker_harness, lost)
        assert (await worker.poll(active_leases=[lost["lease_token"]]))["reason"] == "at_capacity"
        assert (await worker.poll())["reason"] == "at_capacity"
        found = await worker.job(active_leases=[])
        assert found["dispatch_id"] == lost["dispatch_id"]
        assert found["lease_token"] != lost["lease_token"]
        row = await worker_harness.dispatch(found)
        assert (row["attempts"], row["requeues"]) == (1, 1)
        await worker_harness.audited(worker, "registered", "leased", "lease_requeued", "leased")

    async def test_a_lease_with_a_heartbeat_a_moment_ago_never_counts_as_unknown(
        self, worker_harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        monkeypatch.setattr(unnamed_leases, "CONFIRM_SECONDS", 0.0)
        job = await worker.job()
        await worker.heartbeat(job)
        await age_lease(worker_harness, job)
        for _ in range(2):
            assert (await worker.poll(active_leases=[]))["reason"] == "at_capacity"

    async def test_one_poll_is_not_enough_to_take_a_lease_from_its_worker(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        job = await worker.job()
        await age_lease(worker_harness, job)
        for _ in range(2):
            assert (await worker.poll(active_leases=[]))["reason"] == "at_capacity"
        assert (await worker.heartbeat(job)).status_code == 200

    @pytest.mark.parametrize("attempts", [1, 3])
    async def test_a_lease_that_its_worker_had_and_names_no_more_is_requeued_with_its_attempt(
        self, worker_harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, attempts: int
    ) -> None:
        """As after a database lost the report of its end."""
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        await worker_harness.central("UPDATE ai_job_dispatches SET max_attempts = $1", attempts)
        monkeypatch.setattr(unnamed_leases, "CONFIRM_SECONDS", 0.0)
        job = await worker.job()
        await worker.heartbeat(job)
        await make_silent(worker_harness, job)
        response = await worker.poll(active_leases=[])
        if attempts == 1:
            assert response == {"job": None, "reason": "empty"}
            assert (await worker_harness.shown(person, submitted["id"]))["error"]["type"] == "lease_lost"
            assert await worker_harness.balance(person) == 10
        else:
            assert response["job"]["job_id"] == submitted["id"]
            row = await worker_harness.dispatch(response["job"])
            assert (row["attempts"], row["requeues"]) == (2, 0)
        assert_refused(await worker.heartbeat(job), 409, "lease_lost")

    async def test_a_full_worker_loses_leases_that_its_heartbeats_do_not_name(
        self, worker_harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worker = await worker_harness.worker(max_concurrency=2)
        person = await worker_harness.jobs_api.person(tokens=20)
        for _ in range(2):
            await worker_harness.engine_job(person)
        monkeypatch.setattr(unnamed_leases, "CONFIRM_SECONDS", 0.0)
        kept, lost = await worker.job(), await worker.job()
        for job in (kept, lost):
            await worker.heartbeat(job)
            await make_silent(worker_harness, job)
        both = [kept["lease_token"], lost["lease_token"]]
        assert (await worker.heartbeat(kept, active_leases=both)).status_code == 200
        assert (await worker_harness.dispatch(lost))["status"] == "leased"
        assert (await worker.heartbeat(kept, active_leases=both[:1])).status_code == 200
        assert (await worker_harness.dispatch(lost))["status"] == "queued"
        assert (await worker_harness.dispatch(kept))["status"] == "leased"

    async def test_a_rotated_token_is_in_every_response_until_it_is_used(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        old = worker.token
        await worker_harness.jobs_api.post(f"/api/admin/workers/{worker.worker_id}/rotate-token", {})
        job = await worker.job()
        assert worker.token != old
        new, worker.token = worker.token, old
        told = await worker.heartbeat(job)
        assert told.json()["rotated_token"] == new
        assert "rotated_token" not in (await worker.heartbeat(job)).json()
        worker.token = old
        assert_refused(await worker.heartbeat(job), 401, "not_authenticated")

    async def test_a_job_that_cannot_be_handed_out_fails_and_the_next_one_is_given(
        self, worker_harness: WorkerHarness
    ) -> None:
        """G6: even if a payload names a file of another tenant, no worker gets the URL of that file."""
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=20)
        foreign = [{"key": "video", "path": f"tenants/{uuid4()}/uploads/x.mp4", "is_primary_input": True}]
        broken = await worker_harness.engine_job(person, assets=foreign)
        good = await worker_harness.engine_job(person)
        assert (await worker.job())["job_id"] == good["id"]
        shown = await worker_harness.shown(person, broken["id"])
        assert (shown["status"], shown["error"]["type"]) == ("failed", "undeliverable")
        await worker_harness.audited(worker, "registered", "undeliverable", "leased")
        assert await worker_harness.balance(person) == 13

    async def test_an_error_between_lease_and_response_returns_the_lease(
        self, worker_harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)

        def cannot_sign(*_: Any, **__: Any) -> Any:
            raise Unavailable("The keys of the object store are being renewed.")

        with monkeypatch.context() as broken:
            broken.setattr(worker_harness.plane.rooms.storage, "presign_put", cannot_sign)
            assert_refused(await worker.post("/api/worker/poll", {}), 503, "unavailable")
        [row] = await worker_harness.central(
            "SELECT * FROM ai_job_dispatches WHERE tenant_job_id = $1", UUID(submitted["id"])
        )
        assert (row["status"], row["attempts"], row["requeues"]) == ("queued", 0, 0)
        assert (await worker_harness.shown(person, submitted["id"]))["status"] == "queued"
        assert (await worker.job())["job_id"] == submitted["id"]


async def age_lease(worker_harness: WorkerHarness, job: dict[str, Any]) -> None:
    query = "UPDATE ai_job_dispatches SET last_leased_at = now() - interval '61 s' WHERE dispatch_id = $1"
    await worker_harness.central(query, job["dispatch_id"])


async def make_silent(worker_harness: WorkerHarness, job: dict[str, Any]) -> None:
    query = """UPDATE ai_job_dispatches
        SET last_leased_at = now() - interval '61 s', heartbeat_at = now() - interval '11 s' WHERE dispatch_id = $1"""
    await worker_harness.central(query, job["dispatch_id"])


class TestLongPolls:
    async def test_a_waiting_poll_ends_soon_while_a_lease_is_not_named(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker(max_concurrency=2)
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        await worker.job()
        async with asyncio.timeout(45):
            assert (await worker.poll(active_leases=[], wait_seconds=55))["reason"] == "empty"

    async def test_waiting_polls_end_when_central_may_have_lost_changes(self, worker_harness: WorkerHarness) -> None:
        """So that all workers name their leases again."""
        worker = await worker_harness.worker()
        polling = asyncio.create_task(worker.poll(wait_seconds=55))
        await waits(worker_harness)
        worker_harness.plane.listener._notify_subscribers("assignments", None)
        async with asyncio.timeout(45):
            assert (await polling)["reason"] == "empty"

    async def test_a_waiting_worker_gets_a_job_as_soon_as_there_is_one(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        polling = asyncio.create_task(worker.job(wait_seconds=55))
        await waits(worker_harness)
        submitted = await worker_harness.engine_job(person)
        assert (await polling)["job_id"] == submitted["id"]

    async def test_a_repeated_poll_ends_the_previous_one_at_once(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        before = asyncio.create_task(worker.poll(wait_seconds=55, poll_id="same"))
        await waits(worker_harness)
        repeated = asyncio.create_task(worker.job(wait_seconds=55, poll_id="same"))
        # Not after 55 seconds, which is longer than the client waits.
        assert await before == {"job": None, "reason": "empty"}
        submitted = await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        assert (await repeated)["job_id"] == submitted["id"]

    async def test_a_job_leased_to_a_poll_that_is_being_repeated_goes_to_the_repetition(
        self, worker_harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not missed until its worker is found not to know it, a minute later."""
        worker, person = await worker_harness.worker(), await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        repeats, end = asyncio.Event(), polls_module.WorkerPolls._end

        async def notice(polls: polls_module.WorkerPolls, predecessors: Any) -> None:
            if predecessors:
                repeats.set()
            await end(polls, predecessors)

        async def is_leased() -> bool:
            query = "SELECT 1 FROM ai_job_dispatches WHERE tenant_job_id = $1 AND status = 'leased'"
            return bool(await worker_harness.central(query, UUID(submitted["id"])))

        monkeypatch.setattr(polls_module.WorkerPolls, "_end", notice)
        pool = await worker_harness.plane.databases.pool(person.tenant.pool)
        # Leased in central, not started yet in the pool.
        async with open_transaction(pool, "SELECT 1 FROM ai_jobs WHERE id = $1 FOR UPDATE", UUID(submitted["id"])):
            before = asyncio.create_task(worker.job(wait_seconds=55, poll_id="same"))
            await until(is_leased)
            repeated = asyncio.create_task(worker.job(wait_seconds=55, poll_id="same"))
            await repeats.wait()
        assert (await before)["lease_token"] == (await repeated)["lease_token"]

    async def test_a_long_poll_without_a_job_ends(self, worker_harness: WorkerHarness) -> None:
        assert await (await worker_harness.worker()).poll(wait_seconds=0.2) == {"job": None, "reason": "empty"}

    async def test_a_client_disconnect_during_a_long_poll_leases_no_job(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        writer = await send_poll(worker_harness, worker, wait_seconds=55)
        await waits(worker_harness)
        writer.close()
        await until(lambda: len(worker_harness.plane.rooms.jobs.dispatch.waiters) == 0)
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        [row] = await worker_harness.central(
            "SELECT * FROM ai_job_dispatches WHERE tenant_job_id = $1", UUID(submitted["id"])
        )
        assert (row["status"], row["attempts"]) == ("queued", 0)

    async def test_a_client_disconnect_while_a_job_is_leased_returns_the_lease(
        self, worker_harness: WorkerHarness
    ) -> None:
        """Its connection closes while the start of the job waits for a lock in the tenant's database."""
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        pool = await worker_harness.plane.databases.pool(person.tenant.pool)
        lock = "SELECT FROM ai_jobs WHERE tenant_id = $1 AND id = $2 FOR UPDATE"
        dispatches = "SELECT * FROM ai_job_dispatches WHERE tenant_job_id = $1"

        async def row() -> Any:
            return (await worker_harness.central(dispatches, UUID(submitted["id"])))[0]

        async def has_status(status: str) -> bool:
            return bool((await row())["status"] == status)

        async with pool.transaction() as connection:
            await connection.fetch(lock, person.tenant.id, UUID(submitted["id"]))
            writer = await send_poll(worker_harness, worker, wait_seconds=55)
            await until(lambda: has_status("leased"))
            writer.close()
            await until(lambda: has_status("queued"))
        assert (await row())["attempts"] == 0

        async def is_queued() -> bool:
            return bool((await worker_harness.shown(person, submitted["id"]))["status"] == "queued")

        await until(is_queued)
        assert (await worker.job())["job_id"] == submitted["id"]

    async def test_a_waiting_poll_ends_at_once_when_its_worker_is_drained(self, worker_harness: WorkerHarness) -> None:
        worker, other = await worker_harness.worker(), await worker_harness.worker()
        polling = asyncio.create_task(worker.poll(wait_seconds=55))
        await waits(worker_harness)
        assert (
            await worker_harness.jobs_api.post(f"/api/admin/workers/{worker.worker_id}/drain", {})
        ).status_code == 200
        async with asyncio.timeout(50):
            assert await polling == {"job": None, "reason": "draining"}
        submitted = await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        assert await worker.poll() == {"job": None, "reason": "draining"}
        job = await other.job()
        assert job["job_id"] == submitted["id"]
        row = await worker_harness.dispatch(job)
        assert (row["attempts"], row["lease_seq"]) == (1, 1), "nobody had it before"

    async def test_a_drained_worker_whose_poll_missed_the_notification_gets_no_lease(
        self, worker_harness: WorkerHarness
    ) -> None:
        """The notification was lost; the wait goes on to its end, and the job to another worker."""
        worker = await worker_harness.worker()
        polling = asyncio.create_task(worker.poll(wait_seconds=1))
        await waits(worker_harness)
        query = "INSERT INTO worker_drains (worker_id, drained_by) VALUES ($1, 'operator')"
        await worker_harness.central(query, worker.worker_id)
        submitted = await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        assert await polling == {"job": None, "reason": "empty"}
        assert await worker.poll() == {"job": None, "reason": "draining"}
        job = await (await worker_harness.worker()).job()
        assert (job["job_id"], (await worker_harness.dispatch(job))["lease_seq"]) == (submitted["id"], 1)

    async def test_a_job_that_woke_a_drained_worker_goes_to_another_waiting_worker(
        self, worker_harness: WorkerHarness
    ) -> None:
        """One arrival wakes two pollers; here both are drained, and the third has other workflows besides."""
        other = f"besides-{uuid4().hex}"
        await worker_harness.jobs_api.core.add_workflow(other)
        drained = [await worker_harness.worker(), await worker_harness.worker()]
        third = await worker_harness.worker(workflow_slugs=[worker_harness.jobs_api.workflow, other])
        polls = [asyncio.create_task(worker.poll(wait_seconds=55)) for worker in drained]
        await until(lambda: len(worker_harness.plane.rooms.jobs.dispatch.waiters) == 2)
        polls.append(asyncio.create_task(third.poll(wait_seconds=55)))
        await until(lambda: len(worker_harness.plane.rooms.jobs.dispatch.waiters) == 3)
        for worker in drained:
            query = "INSERT INTO worker_drains (worker_id, drained_by) VALUES ($1, 'operator')"
            await worker_harness.central(query, worker.worker_id)
        submitted = await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        for worker in drained:
            await worker_harness.central("SELECT pg_notify('assignments', $1)", worker.worker_id)
        async with asyncio.timeout(50):
            responses = await asyncio.gather(*polls)
        assert [response["reason"] for response in responses[:2]] == ["draining"] * 2
        assert responses[2]["job"]["job_id"] == submitted["id"]

    async def test_a_lease_that_came_before_the_drain_is_handed_over(
        self, worker_harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # What was true when it came is not believed at all any more.
        monkeypatch.setattr(polls_module, "TRUSTED_SECONDS", 0.0)
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        pool = await worker_harness.plane.databases.pool(person.tenant.pool)

        async def is_leased() -> bool:
            return bool(
                await worker_harness.central("SELECT FROM ai_job_dispatches WHERE worker_id = $1", worker.worker_id)
            )

        async with pool.transaction() as connection:
            lock = "SELECT FROM ai_jobs WHERE tenant_id = $1 AND id = $2 FOR UPDATE"
            await connection.fetch(lock, person.tenant.id, UUID(submitted["id"]))
            polling = asyncio.create_task(worker.poll(wait_seconds=55))
            await until(is_leased)
            await worker_harness.jobs_api.post(f"/api/admin/workers/{worker.worker_id}/drain", {})
        response = await polling
        assert response["job"]["job_id"] == submitted["id"]
        assert (await worker_harness.dispatch(response["job"]))["lease_seq"] == 1
        assert await worker.poll() == {"job": None, "reason": "draining"}

    async def test_a_worker_revoked_during_a_long_poll_gets_no_job(
        self, worker_harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # What was true when it came is not believed at all any more.
        monkeypatch.setattr(polls_module, "TRUSTED_SECONDS", 0.0)
        worker, other = await worker_harness.worker(), await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        polling = asyncio.create_task(worker.post("/api/worker/poll", {"wait_seconds": 55}))
        await waits(worker_harness)
        assert (
            await worker_harness.jobs_api.post(f"/api/admin/workers/{worker.worker_id}/revoke", {})
        ).status_code == 200
        submitted = await worker_harness.engine_job(person)
        assert_refused(await polling, 401, "not_authenticated")
        worker_harness.workers.remove(worker)
        job = await other.job()
        assert job["job_id"] == submitted["id"]
        assert (await worker_harness.dispatch(job))["attempts"] == 1

    async def test_a_waiting_poll_ends_at_once_when_its_fleet_is_switched_off(
        self, worker_harness: WorkerHarness
    ) -> None:
        slug = f"fleet-{uuid4().hex}"
        fleet = (
            await worker_harness.jobs_api.post(
                "/api/admin/fleets", {"slug": slug, "workflow_slugs": [worker_harness.jobs_api.workflow]}
            )
        ).json()
        worker = await worker_harness.worker(workflow_slugs=None, fleet_slug=slug)
        polling = asyncio.create_task(worker.poll(wait_seconds=55))
        await waits(worker_harness)
        response = await worker_harness.client.patch(
            f"/api/admin/fleets/{fleet['id']}", json={"is_active": False}, headers=worker_harness.jobs_api.admin.headers
        )
        assert response.status_code == 200, response.text
        async with asyncio.timeout(50):
            assert await polling == {"job": None, "reason": "no_workflows"}

    async def test_two_polls_of_one_worker_at_once_get_no_more_than_it_can_run(
        self, worker_harness: WorkerHarness
    ) -> None:
        """A client that gave up waiting and polls again, while its first request is still open."""
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=30)
        polls = [asyncio.create_task(worker.poll(wait_seconds=55)) for _ in range(2)]
        await until(lambda: len(worker_harness.plane.rooms.jobs.dispatch.waiters) == 2)
        for _ in range(3):
            await worker_harness.engine_job(person)
        responses = await asyncio.gather(*polls)
        given = [response["job"]["dispatch_id"] for response in responses if response["job"]]
        assert [response["reason"] for response in responses if not response["job"]] == ["at_capacity"]
        held = await worker_harness.central(
            "SELECT dispatch_id, attempts FROM ai_job_dispatches WHERE worker_id = $1", worker.worker_id
        )
        assert [(row["dispatch_id"], row["attempts"]) for row in held] == [(number, 1) for number in given]

    async def test_a_worker_may_have_a_limited_number_of_waiting_polls(
        self, worker_harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(polls_module, "MAX_AT_ONCE", 2)
        worker, other = await worker_harness.worker(), await worker_harness.worker()
        polls = [asyncio.create_task(worker.poll(wait_seconds=55)) for _ in range(2)]
        await until(lambda: len(worker_harness.plane.rooms.jobs.dispatch.waiters) == 2)
        refused = await worker.post("/api/worker/poll", {"wait_seconds": 55})
        assert_refused(refused, 429, "rate_limited")
        assert refused.headers["ratelimit-policy"] == '"polls";q=2;qu="concurrent-requests"'
        assert (refused.headers["ratelimit"], refused.headers["retry-after"]) == ('"polls";r=0;t=1', "1")
        assert (await other.poll())["reason"] == "empty"
        for _ in polls:
            await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        await asyncio.gather(*polls)
        assert (await worker.poll())["job"] is None

    @pytest.mark.parametrize("by_fleet", [True, False])
    async def test_a_waiting_poll_learns_at_once_that_other_workflows_were_assigned(
        self, worker_harness: WorkerHarness, by_fleet: bool
    ) -> None:
        other = f"assigned-{uuid4().hex}"
        await worker_harness.jobs_api.core.add_workflow(other)
        fleet = (
            await worker_harness.jobs_api.post("/api/admin/fleets", {"slug": other, "workflow_slugs": [other]})
        ).json()
        joins = {"workflow_slugs": None, "fleet_slug": other} if by_fleet else {"workflow_slugs": [other]}
        worker = await worker_harness.worker(**joins)
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        polling = asyncio.create_task(worker.poll(wait_seconds=55))
        await waits(worker_harness)
        place = f"fleets/{fleet['id']}" if by_fleet else f"workers/{worker.worker_id}"
        response = await worker_harness.client.put(
            f"/api/admin/{place}/workflows",
            json={"workflow_slugs": [worker_harness.jobs_api.workflow]},
            headers=worker_harness.jobs_api.admin.headers,
        )
        assert response.status_code == 200, response.text
        async with asyncio.timeout(50):
            assert await polling == {"job": None, "reason": "empty"}
        assert (await worker.poll())["job"] is not None

    @pytest.mark.thorough
    async def test_a_stopping_control_plane_ends_long_polls_at_once(self, started: Started) -> None:
        async with started() as (plane, _), open_worker_harness(plane) as worker_harness:
            worker = await worker_harness.worker()
            polling = asyncio.create_task(worker.poll(wait_seconds=55))
            await waits(worker_harness)
            plane.rooms.jobs.dispatch.waiters.close()
            assert await polling == {"job": None, "reason": "empty"}


async def waits(worker_harness: WorkerHarness) -> None:
    await until(lambda: len(worker_harness.plane.rooms.jobs.dispatch.waiters) == 1)


async def send_poll(worker_harness: WorkerHarness, worker: ScriptedWorker, **fields: Any) -> asyncio.StreamWriter:
    """On a connection that the test can close whenever it likes."""
    parts = urlsplit(worker_harness.plane.settings.public_url)
    _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    body = json.dumps(fields).encode()
    head = (
        f"POST /api/worker/poll HTTP/1.1\r\nhost: {parts.netloc}\r\nauthorization: Bearer {worker.token}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    return writer
