"""What goes wrong between a worker and the control plane, and what each of them is told."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import httpx
import pytest
import structlog

from callsheet.app import ControlPlane
from callsheet.plumbing.sql import Statement
from callsheet.wire.errors import Unavailable
from tests.api.conftest import Started
from tests.support.answers import assert_refused
from tests.support.scripted_worker import ScriptedWorker, described
from tests.support.waiting import until
from tests.support.workshop import OUTPUT, PNG, Workshop, open_workshop

REPORTS = ("heartbeat", "complete", "fail", "requeue", "defer")


@pytest.fixture
async def shop(plane: ControlPlane) -> AsyncIterator[Workshop]:
    async with open_workshop(plane) as shop:
        yield shop


async def report(worker: ScriptedWorker, kind: str, job: dict[str, Any]) -> httpx.Response:
    match kind:
        case "heartbeat":
            return await worker.heartbeat(job)
        case "complete":
            return await worker.complete(job, output=described(OUTPUT, "video/mp4"))
        case "fail":
            return await worker.fail(job, "It broke.")
        case "requeue":
            return await worker.requeue(job, "spot interruption")
        case _:
            return await worker.defer(job, "prediction-1", in_an_hour())


def in_an_hour() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


class TestReports:
    @pytest.mark.parametrize("kind", ["complete", "fail", "requeue"])
    async def test_a_repeated_report_gets_the_recorded_answer_and_changes_nothing(
        self, shop: Workshop, kind: str
    ) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=10)
        submitted = await shop.engine_job(person)
        job = await worker.job()
        await worker.deliver(job, OUTPUT)
        first = await report(worker, kind, job)
        before = await shop.row(person, submitted["id"])
        second = await report(worker, kind, job)
        assert (first.status_code, second.status_code) == (200, 200)
        assert first.json() == second.json()
        assert first.json()["status"] == {"complete": "completed", "fail": "failed", "requeue": "queued"}[kind]
        assert await shop.row(person, submitted["id"]) == before
        assert await shop.balance(person) == (3 if kind != "fail" else 10)
        noted = {"complete": "completed", "fail": "failed", "requeue": "requeued"}[kind]
        await shop.audited(worker, "registered", "leased", noted)

    @pytest.mark.parametrize("kind", REPORTS)
    async def test_a_lease_that_another_took_over_is_lost(self, shop: Workshop, kind: str) -> None:
        worker, other = await shop.worker(), await shop.worker()
        person = await shop.desk.person(tokens=10)
        submitted = await shop.engine_job(person)
        stale = await worker.job()
        await shop.desk.core.expire_lease(stale["dispatch_id"])
        await shop.desk.core.reap()
        job = await other.job()
        before = await shop.dispatch(job)
        assert_refused(await report(worker, kind, stale), 409, "lease_lost")
        assert await shop.dispatch(job) == before
        assert (await shop.shown(person, submitted["id"]))["status"] == "processing"

    @pytest.mark.parametrize("kind", REPORTS)
    async def test_a_lease_of_another_worker_an_unknown_token_and_an_unknown_dispatch_are_not_found(
        self, shop: Workshop, kind: str
    ) -> None:
        worker, other = await shop.worker(), await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        job = await worker.job()
        for asker, about in (
            (other, job),
            (worker, {**job, "lease_token": str(uuid4())}),
            (worker, {**job, "dispatch_id": 2**52}),
        ):
            before = await shop.dispatch(job)
            assert_refused(await report(asker, kind, about), 404, "not_found")
            assert await shop.dispatch(job) == before

    async def test_a_finished_lease_is_its_own_workers_only(self, shop: Workshop) -> None:
        worker, other = await shop.worker(), await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        job = await worker.job()
        assert (await worker.fail(job, "It broke.")).status_code == 200
        assert_refused(await other.fail(job, "It broke."), 404, "not_found")

    async def test_a_canceled_job_tells_its_worker_and_keeps_nothing_of_the_report(self, shop: Workshop) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=10)
        submitted = await shop.engine_job(person)
        job = await worker.job()
        assert (await worker.heartbeat(job)).json()["cancel_requested"] is False
        await shop.desk.post_as(person, f"/api/ai-jobs/{submitted['id']}/cancel")
        assert (await worker.heartbeat(job)).json()["cancel_requested"] is True
        await worker.deliver(job, OUTPUT)
        for _ in range(2):
            answer = await worker.complete(job, output=described(OUTPUT, "video/mp4"))
            assert (answer.status_code, answer.json()["status"]) == (200, "canceled")
        assert (await shop.shown(person, submitted["id"]))["result"] is None
        assert await shop.files(person, submitted["id"]) == []
        assert await shop.balance(person) == 10
        await shop.audited(worker, "registered", "leased", "completed")
        await shop.session(worker, jobs_completed=0, jobs_failed=0, jobs_requeued=0)

    async def test_an_expired_job_answers_a_late_report_with_that(self, shop: Workshop) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=10)
        submitted = await shop.engine_job(person)
        job = await worker.job()
        await shop.desk.core.rows(
            await shop.plane.databases.pool(person.tenant.pool),
            "UPDATE ai_jobs SET deadline_at = now() WHERE id = $1",
            UUID(submitted["id"]),
        )
        await shop.desk.core.enforce_deadlines()
        assert (await worker.fail(job, "too late")).json()["status"] == "expired"

    async def test_a_requeue_gives_the_attempt_back(self, shop: Workshop) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=10)
        await shop.engine_job(person)
        first = await worker.job()
        assert (await worker.requeue(first, "spot\x07 interruption of /mnt/scratch")).json() == {
            "dispatch_id": first["dispatch_id"],
            "status": "queued",
        }
        row = await shop.dispatch(first)
        assert (row["attempts"], row["requeues"]) == (0, 1)
        assert row["last_error"] == "Requeued: spot interruption of [path]"
        second = await worker.job()
        assert second["dispatch_id"] == first["dispatch_id"]
        assert second["lease_token"] != first["lease_token"]
        await shop.session(worker, jobs_requeued=1, jobs_failed=0)

    async def test_a_retryable_failure_waits_and_comes_back_until_attempts_run_out(self, shop: Workshop) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=10)
        submitted = await shop.engine_job(person)
        for attempt in (1, 2, 3):
            job = await worker.job()
            answer = await worker.fail(job, "CUDA out of memory", error={"retryable": True, "type": "OOM"})
            assert answer.json()["status"] == ("queued" if attempt < 3 else "failed")
            if attempt < 3:
                assert (await shop.dispatch(job))["not_before"] is not None
                assert (await worker.poll())["reason"] == "empty"
                await shop.plane.jobs.queue.promote(datetime.now(UTC) + timedelta(days=1))
        shown = await shop.shown(person, submitted["id"])
        assert (shown["status"], shown["error"]) == ("failed", {"type": "OOM", "message": "CUDA out of memory"})
        assert await shop.balance(person) == 10
        await shop.session(worker, jobs_failed=3)

    async def test_users_read_a_clean_message_and_admins_keep_the_rest(self, shop: Workshop) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=10)
        submitted = await shop.engine_job(person)
        job = await worker.job()
        engine = {
            "exception_type": "FileNotFoundError",
            "exception_message": "No such file: /opt/ComfyUI/models/x.safetensors\x00\n",
            "traceback": ["line one", "line two"],
        }
        answer = await worker.fail(job, engine)
        assert answer.json() == {"dispatch_id": job["dispatch_id"], "status": "failed"}
        shown = await shop.shown(person, submitted["id"])
        assert shown["error"] == {"type": "FileNotFoundError", "message": "No such file: x.safetensors"}
        assert "opt/ComfyUI" not in json.dumps(shown)
        kept = (await shop.row(person, submitted["id"]))["error"]
        assert kept["traceback"] == "line one\nline two"
        assert "/opt/ComfyUI" in kept["details"]["reported"]["exception_message"]
        events = await shop.desk.get(person, f"/api/ai-jobs/{submitted['id']}/events")
        assert "opt/ComfyUI" not in events.text

    async def test_a_deferred_job_waits_for_its_callback_and_frees_its_worker(self, shop: Workshop) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=20)
        await shop.engine_job(person)
        job = await worker.job()
        answer = await worker.defer(job, "prediction-1", in_an_hour())
        assert answer.json() == {"dispatch_id": job["dispatch_id"], "status": "waiting"}
        row = await shop.dispatch(job)
        assert (row["status"], row["provider_job_id"], row["worker_id"]) == ("waiting", "prediction-1", None)
        assert (await worker.defer(job, "prediction-1", in_an_hour())).json()["status"] == "waiting"
        await shop.engine_job(person)
        assert (await worker.job())["dispatch_id"] != job["dispatch_id"]


class TestOutputs:
    async def test_a_job_of_an_engine_delivers_one_file_at_least(self, shop: Workshop) -> None:
        worker = await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        job = await worker.job()
        for nothing in ({}, {"output": None, "outputs": None}, {"outputs": []}, {"result": {"text": "done"}}):
            assert_refused(await worker.complete(job, **nothing), 422, "content_mismatch", "output")

    async def test_a_task_may_answer_without_files(self, shop: Workshop) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=10)
        # Its payload is its actor's: whatever stands in it is handed over as it is.
        payload = {"workflow": {}, "assets": [{"path": f"tenants/{uuid4()}/secret.mp4"}], "prompt": "a cat"}
        submitted = await shop.desk.submit(person, kind="task", payload=payload)
        job = await worker.job()
        assert job["input_payload"] == payload
        assert (job["input_url"], job["output_url"], job["output_headers"]) == (None, None, {})
        assert (job["input_file"], job["output_file"]) == (None, None)
        answer = await worker.complete(job, result={"text": "a poem"}, metadata={"model": "m"}, provider_job_id="p-1")
        assert answer.json()["status"] == "completed"
        row = await shop.row(person, submitted["id"])
        assert row["result"] == {"outputs": [], "metadata": {"model": "m"}, "result": {"text": "a poem"}}
        assert row["provider_job_id"] == "p-1"

    async def test_a_task_may_bring_files_too(self, shop: Workshop) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=10)
        submitted = await shop.desk.submit(person, kind="task", payload={"prompt": "a cat"})
        job = await worker.job()
        outputs = await worker.deliver_named(job, {"cat.png": ("image/png", PNG)})
        assert (await worker.complete(job, outputs=outputs)).json()["status"] == "completed"
        assert [row["name"] for row in await shop.files(person, submitted["id"])] == ["cat.png"]

    async def test_names_are_used_once_and_sizes_have_a_bound(self, shop: Workshop) -> None:
        worker = await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        job = await worker.job()
        output = {"name": "a.png", **described(PNG, "image/png")}
        assert_refused(await worker.heartbeat(job, outputs=[output, output]), 422, "invalid_request", "outputs")
        assert_refused(await worker.complete(job, outputs=[output, output]), 422, "invalid_request", "outputs")
        huge = {**output, "size": shop.plane.settings.storage.max_upload_bytes + 1}
        assert_refused(await worker.heartbeat(job, outputs=[huge]), 422, "invalid_request", "outputs.0.size")

    async def test_the_refusal_names_each_output_that_is_missing(self, shop: Workshop) -> None:
        worker = await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        job = await worker.job()
        [there] = await worker.deliver_named(job, {"there.png": ("image/png", PNG)})
        missing = {"name": "missing.png", **described(PNG, "image/png")}
        refused = await worker.complete(job, output=described(OUTPUT, "video/mp4"), outputs=[there, missing])
        assert_refused(refused, 422, "content_mismatch", "output", "outputs.1")

    async def test_what_does_not_look_like_its_type_is_accepted_with_a_warning(self, shop: Workshop) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=10)
        submitted = await shop.engine_job(person)
        job = await worker.job()
        await worker.deliver(job, PNG)
        assert (await worker.complete(job, output=described(PNG, "video/mp4"))).json()["status"] == "completed"
        metadata = (await shop.shown(person, submitted["id"]))["result"]["metadata"]
        assert metadata == {"warnings": ["output.mp4 looks like image/png, not video/mp4"]}
        metrics = (await shop.client.get("/metrics")).text
        assert "callsheet_output_warnings_total" in metrics

    async def test_warn_accepts_what_was_not_delivered_and_says_so(self, started: Started) -> None:
        async with started(fleet={"output_validation": "warn"}) as (plane, _), open_workshop(plane) as shop:
            worker = await shop.worker()
            person = await shop.desk.person(tokens=10)
            submitted = await shop.engine_job(person)
            job = await worker.job()
            answer = await worker.complete(job, output=described(OUTPUT, "video/mp4"))
            assert answer.json()["status"] == "completed"
            result = (await shop.shown(person, submitted["id"]))["result"]
            assert result["metadata"] == {"warnings": ["output.mp4 was not uploaded"]}
            metrics = (await shop.client.get("/metrics")).text
            assert "callsheet_output_warnings_total 1.0" in metrics


class TestPolls:
    async def test_without_work_the_answer_is_empty_and_says_why(self, shop: Workshop) -> None:
        worker = await shop.worker()
        assert await worker.poll() == {"job": None, "reason": "empty"}

    async def test_a_draining_worker_gets_nothing(self, shop: Workshop) -> None:
        worker = await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        await shop.desk.post(f"/api/admin/workers/{worker.worker_id}/drain", {})
        assert await worker.poll(wait_seconds=5) == {"job": None, "reason": "draining"}
        await shop.desk.post(f"/api/admin/workers/{worker.worker_id}/undrain", {})
        assert (await worker.job())["kind"] == "effect"

    async def test_a_worker_nobody_approved_gets_nothing(self, shop: Workshop) -> None:
        worker = await shop.worker()
        await shop.central("UPDATE comfyui_workers SET is_approved = false WHERE worker_id = $1", worker.worker_id)
        await shop.engine_job(await shop.desk.person(tokens=10))
        assert (await worker.poll())["reason"] == "not_approved"
        await shop.desk.post(f"/api/admin/workers/{worker.worker_id}/approve", {})
        assert (await worker.poll())["job"] is not None

    async def test_g4_a_worker_without_active_workflows_gets_nothing(self, shop: Workshop) -> None:
        worker = await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        await shop.central("UPDATE workflows SET is_active = false WHERE slug = $1", shop.desk.workflow)
        assert (await worker.poll())["reason"] == "no_workflows"

    async def test_g4_only_declared_providers_are_served(self, shop: Workshop) -> None:
        worker, cloud = await shop.worker(), await shop.worker(providers=["cloud"])
        await shop.engine_job(await shop.desk.person(tokens=10))
        assert (await cloud.poll())["reason"] == "empty"
        assert (await worker.poll(providers=["cloud"]))["reason"] == "empty"
        assert (await worker.poll(providers=[]))["reason"] == "empty"
        assert (await cloud.poll(providers=["cloud", "self_hosted"]))["job"] is not None

    async def test_a_worker_at_capacity_gets_no_more(self, shop: Workshop) -> None:
        worker = await shop.worker(max_concurrency=2)
        person = await shop.desk.person(tokens=30)
        for _ in range(3):
            await shop.engine_job(person)
        assert (await worker.poll(current_load=2))["reason"] == "at_capacity"
        assert (await worker.poll(max_concurrency=1))["job"] is not None
        # By what the queue knows, whatever the worker says.
        assert (await worker.poll(max_concurrency=1, current_load=0))["reason"] == "at_capacity"
        assert (await worker.poll())["job"] is not None
        assert (await worker.poll())["reason"] == "at_capacity"

    async def test_one_may_be_fetched_ahead_while_more_is_queued_than_workers_can_take(self, shop: Workshop) -> None:
        worker, idle = await shop.worker(), await shop.worker()
        person = await shop.desk.person(tokens=100)
        for _ in range(2):
            await shop.engine_job(person)
        first = await worker.job()
        # One is queued, and the other worker is free to take it.
        assert (await worker.poll(prefetch=True))["reason"] == "at_capacity"
        await shop.engine_job(person)
        ahead = await worker.job(prefetch=True)
        assert ahead["dispatch_id"] != first["dispatch_id"]
        await shop.engine_job(person)
        await shop.engine_job(person)
        assert (await worker.poll(prefetch=True))["reason"] == "at_capacity"
        assert (await idle.poll())["job"] is not None

    async def test_a_repeated_poll_gets_the_same_lease_with_fresh_addresses(self, shop: Workshop) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=20)
        for _ in range(2):
            await shop.engine_job(person)
        first = await worker.job(poll_id="poll-1")
        again = await worker.job(poll_id="poll-1", current_load=1)
        assert (again["dispatch_id"], again["lease_token"]) == (first["dispatch_id"], first["lease_token"])
        assert again["lease_ttl_seconds"] <= first["lease_ttl_seconds"]
        assert (await worker.poll(poll_id="poll-2"))["reason"] == "at_capacity"
        await worker.deliver(again, OUTPUT)
        assert (await worker.complete(first, output=described(OUTPUT, "video/mp4"))).json()["status"] == "completed"
        assert (await worker.job(poll_id="poll-1"))["dispatch_id"] != first["dispatch_id"]

    async def test_a_poll_id_of_another_worker_gives_nothing_of_its_lease(self, shop: Workshop) -> None:
        worker, other = await shop.worker(), await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        await worker.job(poll_id="same")
        assert (await other.poll(poll_id="same"))["reason"] == "empty"

    async def test_a_lease_its_worker_does_not_know_goes_back_with_its_attempt(self, shop: Workshop) -> None:
        worker = await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        lost = await worker.job()
        # Too young: its answer may be on the way.
        assert (await worker.poll(active_leases=[]))["reason"] == "at_capacity"
        await make_old(shop, lost)
        assert (await worker.poll(active_leases=[lost["lease_token"]]))["reason"] == "at_capacity"
        assert (await worker.poll())["reason"] == "at_capacity"
        found = await worker.job(active_leases=[])
        assert found["dispatch_id"] == lost["dispatch_id"]
        assert found["lease_token"] != lost["lease_token"]
        row = await shop.dispatch(found)
        assert (row["attempts"], row["requeues"]) == (1, 1)
        await shop.audited(worker, "registered", "leased", "lease_put_back", "leased")

    async def test_a_lease_with_a_heartbeat_is_never_taken_for_unknown(self, shop: Workshop) -> None:
        worker = await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        job = await worker.job()
        await worker.heartbeat(job)
        await make_old(shop, job)
        assert (await worker.poll(active_leases=[]))["reason"] == "at_capacity"

    async def test_a_rotated_token_comes_with_every_answer_until_it_is_used(self, shop: Workshop) -> None:
        worker = await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        old = worker.token
        await shop.desk.post(f"/api/admin/workers/{worker.worker_id}/rotate-token", {})
        job = await worker.job()
        assert worker.token != old
        new, worker.token = worker.token, old
        told = await worker.heartbeat(job)
        assert told.json()["rotated_token"] == new
        assert "rotated_token" not in (await worker.heartbeat(job)).json()
        worker.token = old
        assert_refused(await worker.heartbeat(job), 401, "not_authenticated")

    async def test_a_job_that_cannot_be_handed_out_fails_and_the_next_one_is_given(self, shop: Workshop) -> None:
        """G6: should a payload ever name a file of another tenant, nobody gets its address."""
        worker = await shop.worker()
        person = await shop.desk.person(tokens=20)
        foreign = [{"key": "video", "path": f"tenants/{uuid4()}/uploads/x.mp4", "is_primary_input": True}]
        broken = await shop.engine_job(person, assets=foreign)
        good = await shop.engine_job(person)
        assert (await worker.job())["job_id"] == good["id"]
        shown = await shop.shown(person, broken["id"])
        assert (shown["status"], shown["error"]["type"]) == ("failed", "undeliverable")
        await shop.audited(worker, "registered", "undeliverable", "leased")
        assert await shop.balance(person) == 13

    async def test_an_error_between_lease_and_answer_releases_the_lease(
        self, shop: Workshop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=10)
        submitted = await shop.engine_job(person)

        def cannot_sign(*_: Any, **__: Any) -> Any:
            raise Unavailable("The keys of the object store are being renewed.")

        with monkeypatch.context() as broken:
            broken.setattr(shop.plane.storage, "presign_put", cannot_sign)
            assert_refused(await worker.post("/api/worker/poll", {}), 503, "unavailable")
        [row] = await shop.central("SELECT * FROM ai_job_dispatches WHERE tenant_job_id = $1", UUID(submitted["id"]))
        assert (row["status"], row["attempts"], row["requeues"]) == ("queued", 0, 0)
        assert (await shop.shown(person, submitted["id"]))["status"] == "queued"
        assert (await worker.job())["job_id"] == submitted["id"]


async def make_old(shop: Workshop, job: dict[str, Any]) -> None:
    query = "UPDATE ai_job_dispatches SET last_leased_at = now() - interval '61 s' WHERE dispatch_id = $1"
    await shop.central(query, job["dispatch_id"])


class TestLongPolls:
    async def test_a_waiting_worker_gets_a_job_as_soon_as_there_is_one(self, shop: Workshop) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=10)
        polling = asyncio.create_task(worker.job(wait_seconds=55))
        await waits(shop)
        submitted = await shop.engine_job(person)
        assert (await polling)["job_id"] == submitted["id"]

    async def test_a_wait_without_work_ends(self, shop: Workshop) -> None:
        assert await (await shop.worker()).poll(wait_seconds=0.2) == {"job": None, "reason": "empty"}

    async def test_a_worker_that_leaves_while_it_waits_is_given_nothing(self, shop: Workshop) -> None:
        worker = await shop.worker()
        writer = await send_poll(shop, worker, wait_seconds=55)
        await waits(shop)
        writer.close()
        await until(lambda: len(shop.plane.jobs.waiters) == 0)
        person = await shop.desk.person(tokens=10)
        submitted = await shop.engine_job(person)
        [row] = await shop.central("SELECT * FROM ai_job_dispatches WHERE tenant_job_id = $1", UUID(submitted["id"]))
        assert (row["status"], row["attempts"]) == ("queued", 0)

    async def test_a_worker_that_leaves_while_it_is_given_a_job_gives_it_back(self, shop: Workshop) -> None:
        """Its connection closes while the start of the job waits for a lock in the tenant's database."""
        worker = await shop.worker()
        person = await shop.desk.person(tokens=10)
        submitted = await shop.engine_job(person)
        pool = await shop.plane.databases.pool(person.tenant.pool)
        lock = "SELECT FROM ai_jobs WHERE tenant_id = $1 AND id = $2 FOR UPDATE"
        dispatches = "SELECT * FROM ai_job_dispatches WHERE tenant_job_id = $1"

        async def row() -> Any:
            return (await shop.central(dispatches, UUID(submitted["id"])))[0]

        async def has_status(status: str) -> bool:
            return bool((await row())["status"] == status)

        async with pool.transaction() as connection:
            await connection.fetch(lock, person.tenant.id, UUID(submitted["id"]))
            writer = await send_poll(shop, worker, wait_seconds=55)
            await until(lambda: has_status("leased"))
            writer.close()
            await until(lambda: has_status("queued"))
        assert (await row())["attempts"] == 0

        async def is_queued() -> bool:
            return bool((await shop.shown(person, submitted["id"]))["status"] == "queued")

        await until(is_queued)
        assert (await worker.job())["job_id"] == submitted["id"]

    @pytest.mark.parametrize("what", ["drain", "revoke"])
    async def test_a_worker_that_is_sent_away_while_it_waits_gets_nothing(
        self, shop: Workshop, what: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # What was true when it came is not believed at all any more.
        monkeypatch.setattr("callsheet.fleet.polls.TRUSTED_SECONDS", 0.0)
        worker, other = await shop.worker(), await shop.worker()
        person = await shop.desk.person(tokens=10)
        polling = asyncio.create_task(worker.post("/api/worker/poll", {"wait_seconds": 55}))
        await waits(shop)
        assert (await shop.desk.post(f"/api/admin/workers/{worker.worker_id}/{what}", {})).status_code == 200
        submitted = await shop.engine_job(person)
        answer = await polling
        if what == "drain":
            assert answer.json() == {"job": None, "reason": "draining"}
        else:
            assert_refused(answer, 401, "not_authenticated")
            shop.workers.remove(worker)
        job = await other.job()
        assert job["job_id"] == submitted["id"]
        assert (await shop.dispatch(job))["attempts"] == 1

    async def test_two_polls_of_one_worker_at_once_get_no_more_than_it_can_run(self, shop: Workshop) -> None:
        """A client that gave up waiting and asks again, while its first request still stands."""
        worker = await shop.worker()
        person = await shop.desk.person(tokens=30)
        polls = [asyncio.create_task(worker.poll(wait_seconds=55)) for _ in range(2)]
        await until(lambda: len(shop.plane.jobs.waiters) == 2)
        for _ in range(3):
            await shop.engine_job(person)
        answers = await asyncio.gather(*polls)
        given = [answer["job"]["dispatch_id"] for answer in answers if answer["job"]]
        assert [answer["reason"] for answer in answers if not answer["job"]] == ["at_capacity"]
        held = await shop.central(
            "SELECT dispatch_id, attempts FROM ai_job_dispatches WHERE worker_id = $1", worker.worker_id
        )
        assert [(row["dispatch_id"], row["attempts"]) for row in held] == [(number, 1) for number in given]

    async def test_a_stopping_control_plane_does_not_sit_out_long_polls(self, started: Started) -> None:
        async with started() as (plane, _), open_workshop(plane) as shop:
            worker = await shop.worker()
            polling = asyncio.create_task(worker.poll(wait_seconds=55))
            await waits(shop)
            plane.jobs.waiters.close()
            assert await polling == {"job": None, "reason": "empty"}


async def waits(shop: Workshop) -> None:
    await until(lambda: len(shop.plane.jobs.waiters) == 1)


async def send_poll(shop: Workshop, worker: ScriptedWorker, **fields: Any) -> asyncio.StreamWriter:
    """On a connection that the test can close whenever it likes."""
    parts = urlsplit(shop.plane.settings.public_url)
    _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    body = json.dumps(fields).encode()
    head = (
        f"POST /api/worker/poll HTTP/1.1\r\nhost: {parts.netloc}\r\nauthorization: Bearer {worker.token}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    return writer


class TestHeartbeats:
    async def test_progress_and_preview_reach_the_user(self, shop: Workshop) -> None:
        worker = await shop.worker()
        person = await shop.desk.person(tokens=10)
        submitted = await shop.engine_job(person)
        job = await worker.job()
        preview = {"mime_type": "image/png", "data": base64.b64encode(PNG).decode()}
        progress = {"percent": 40.5, "message": "step 8 of\x07 20", "elapsed_ms": 1200}
        assert (await worker.heartbeat(job, progress=progress, preview=preview)).status_code == 200
        pool = await shop.plane.databases.pool(person.tenant.pool)
        [row] = await shop.desk.core.rows(pool, "SELECT * FROM job_progress WHERE job_id = $1", UUID(submitted["id"]))
        assert (row["percent"], row["message"], row["elapsed_ms"]) == (40.5, "step 8 of  20", 1200)
        assert (row["preview"], row["preview_type"]) == (PNG, "image/png")

    async def test_a_heartbeat_extends_the_lease_and_marks_the_start_of_the_run(self, shop: Workshop) -> None:
        worker = await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        job = await worker.job()
        answer = (await worker.heartbeat(job, run_started=True)).json()
        assert set(answer) == {"lease_expires_at", "lease_ttl_seconds", "cancel_requested"}
        assert datetime.fromisoformat(answer["lease_expires_at"]) > datetime.fromisoformat(job["lease_expires_at"])
        assert 899 < answer["lease_ttl_seconds"] <= 900
        assert (await shop.dispatch(job))["run_started_at"] is not None

    @pytest.mark.parametrize(
        ("preview", "field"),
        [
            ({"mime_type": "image/svg+xml", "data": "AAAA"}, "preview.mime_type"),
            ({"mime_type": "image/png", "data": "not base64!"}, "preview.data"),
            ({"mime_type": "image/png", "data": base64.b64encode(b"x" * 65_537).decode()}, "preview.data"),
            ({"mime_type": "image/png"}, "preview.data"),
        ],
    )
    async def test_a_preview_is_a_small_picture(self, shop: Workshop, preview: dict[str, str], field: str) -> None:
        worker = await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        job = await worker.job()
        assert_refused(await worker.heartbeat(job, preview=preview), 422, "invalid_request", field)
        largest = {"mime_type": "image/png", "data": base64.b64encode(b"x" * 65_536).decode()}
        assert (await worker.heartbeat(job, preview=largest)).status_code == 200

    async def test_timing_counts_from_the_start_of_the_run(self, shop: Workshop) -> None:
        worker = await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        job = await worker.job()
        await worker.heartbeat(job, run_started=True)
        back = """UPDATE ai_job_dispatches SET last_leased_at = now() - interval '100 s',
                  run_started_at = now() - interval '40 s' WHERE dispatch_id = $1"""
        await shop.central(back, job["dispatch_id"])
        await worker.deliver(job, OUTPUT)
        await worker.complete(job, output=described(OUTPUT, "video/mp4"))
        [row] = await shop.central("SELECT * FROM dispatch_history WHERE dispatch_id = $1", job["dispatch_id"])
        assert 40 <= row["duration_seconds"] < 60
        assert (await shop.session(worker, jobs_completed=1))["busy_seconds"] >= 100


class TestCost:
    async def test_each_request_asks_the_databases_a_known_number_of_times(
        self, shop: Workshop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = spied(monkeypatch)
        worker = await shop.worker()
        person = await shop.desk.person(tokens=20)
        await shop.engine_job(person)
        shop.client.headers["x-request-id"] = "counted"
        asked.clear()
        job = await worker.job(wait_seconds=10)
        assert asked == ["authenticate", "lease", "move", "record_events"]
        asked.clear()
        await worker.heartbeat(job)
        assert asked == ["authenticate", "heartbeat"]
        asked.clear()
        await worker.heartbeat(job, progress={"percent": 3}, outputs=[{"name": "a.png", **described(PNG, "image/png")}])
        assert asked == ["authenticate", "heartbeat", "record_progress"]
        await worker.deliver(job, OUTPUT)
        asked.clear()
        await worker.complete(job, output=described(OUTPUT, "video/mp4"))
        assert asked == ["authenticate", "find", "move", "close", "record_events"]


def spied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the statements that requests with the id `counted` run; loops of the control plane do not count."""
    names: list[str] = []
    for method in ("rows", "row", "value", "run"):
        original = getattr(Statement, method)

        def spy(self: Statement, *arguments: Any, original: Any = original, **values: Any) -> Any:
            if structlog.contextvars.get_contextvars().get("request_id") == "counted":
                names.append(self.name)
            return original(self, *arguments, **values)

        monkeypatch.setattr(Statement, method, spy)
    return names


class TestRequests:
    @pytest.mark.parametrize("path", ["poll", *REPORTS])
    async def test_every_address_wants_a_workers_token(self, shop: Workshop, path: str) -> None:
        body = {
            "dispatch_id": 1,
            "lease_token": str(uuid4()),
            "provider_job_id": "p",
            "expires_at": in_an_hour(),
        }
        person = await shop.desk.person()
        for headers in ({}, {"authorization": "Bearer " + "0" * 64}, person.headers, {"authorization": "Basic x"}):
            for sent in (body, {}, []):
                answer = await shop.client.post(f"/api/worker/{path}", json=sent, headers=headers)
                assert_refused(answer, 401, "not_authenticated")

    @pytest.mark.parametrize(
        ("content", "content_type", "status", "code", "field"),
        [
            (b"{}", "text/plain", 415, "unsupported_media_type", "content-type"),
            (b"{}", "", 415, "unsupported_media_type", "content-type"),
            (b"{", "application/json", 400, "malformed_request", "body"),
            (b"", "application/json", 400, "malformed_request", "body"),
            (b"\xff\xfe", "application/json", 400, "malformed_request", "body"),
            (b'{"poll_id": "\xff"}', "application/json", 400, "malformed_request", "body"),
            (b"[" * 100_000, "application/json", 400, "malformed_request", "body"),
            (b"[]", "application/json", 422, "invalid_request", "body"),
            (b"null", "application/json", 422, "invalid_request", "body"),
            (b'{"wait_seconds": 56}', "application/json", 422, "invalid_request", "wait_seconds"),
            (b'{"wait_seconds": NaN}', "application/json", 422, "invalid_request", "wait_seconds"),
            (b'{"current_load": -1}', "application/json", 422, "invalid_request", "current_load"),
            (b'{"poll_id": "a\\u0000b"}', "application/json", 422, "invalid_request", "poll_id"),
            (b'{"active_leases": ["x"]}', "application/json", 422, "invalid_request", "active_leases.0"),
            (b'{"providers": ["No"]}', "application/json", 422, "invalid_request", "providers.0"),
        ],
    )
    async def test_a_bad_body_gets_the_same_answer_as_anywhere(
        self, shop: Workshop, content: bytes, content_type: str, status: int, code: str, field: str
    ) -> None:
        worker = await shop.worker()
        headers = {"authorization": f"Bearer {worker.token}", "content-type": content_type}
        answer = await shop.client.post("/api/worker/poll", content=content, headers=headers)
        assert_refused(answer, status, code, field)

    async def test_a_body_that_is_too_large_is_refused(self, shop: Workshop) -> None:
        worker = await shop.worker()
        answer = await worker.post("/api/worker/poll", {"capabilities": {"x": "y" * 1_100_000}})
        assert_refused(answer, 413, "body_too_large", "body")

    async def test_unknown_fields_and_nulls_are_ignored(self, shop: Workshop) -> None:
        worker = await shop.worker()
        await shop.engine_job(await shop.desk.person(tokens=10))
        fields = (
            "max_concurrency",
            "capabilities",
            "providers",
            "wait_seconds",
            "poll_id",
            "active_leases",
            "prefetch",
        )
        job = await worker.job(**dict.fromkeys(fields), from_the_future={"a": 1})
        nothing = dict.fromkeys(("run_started", "progress", "preview", "outputs", "refresh_inputs"))
        assert (await worker.heartbeat(job, worker_id=7, **nothing)).status_code == 200
        await worker.deliver(job, OUTPUT)
        output = {"size": len(OUTPUT), "mime_type": "video/mp4", "sha256": None, "metadata": None, "codec": "h264"}
        answer = await worker.complete(job, output=output, outputs=None, provider_job_id=None, worker_id="me")
        assert answer.json()["status"] == "completed"

    async def test_other_methods_and_neighbouring_addresses_are_answered_as_anywhere(self, shop: Workshop) -> None:
        refused = await shop.client.get("/api/worker/poll")
        assert_refused(refused, 405, "method_not_allowed")
        assert refused.headers["allow"] == "POST"
        assert_refused(await shop.client.post("/api/worker/poll/", json={}), 404, "not_found")
        assert_refused(await shop.client.post("/api/worker/nothing", json={}), 404, "not_found")

    async def test_requests_are_counted_by_their_address(self, shop: Workshop) -> None:
        await (await shop.worker()).poll()
        metrics = (await shop.client.get("/metrics")).text
        assert 'callsheet_http_requests_total{method="POST",route="/api/worker/poll",status="200"}' in metrics

    async def test_a_database_that_is_away_is_said_to_be_away(self, started: Started) -> None:
        async with started() as (plane, _), open_workshop(plane) as shop:
            worker = await shop.worker()
            await plane.databases.central.close()
            answer = await worker.post("/api/worker/poll", {})
            assert_refused(answer, 503, "unavailable")
            assert answer.headers["retry-after"] == "1"
            await plane.databases.central.open()
            assert (await worker.poll())["reason"] == "empty"

    async def test_the_document_describes_every_message(self, shop: Workshop) -> None:
        document = (await shop.client.get("/openapi.json")).json()
        for path, request, answer in (
            ("poll", "PollRequest", "PollAnswer"),
            ("heartbeat", "HeartbeatRequest", "HeartbeatAnswer"),
            ("complete", "CompleteRequest", "CompleteAnswer"),
            ("fail", "FailRequest", "DispatchAnswer"),
            ("requeue", "RequeueRequest", "DispatchAnswer"),
            ("defer", "DeferRequest", "DispatchAnswer"),
        ):
            operation = document["paths"][f"/api/worker/{path}"]["post"]
            asked = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            given = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
            assert (asked.rpartition("/")[2], given.rpartition("/")[2]) == (request, answer)
            assert operation["security"] == [{"WorkerToken": []}]
            assert operation["description"]
