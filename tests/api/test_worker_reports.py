"""Workers' reports: heartbeats, endings and outputs, also repeated, late and about leases of others."""

from __future__ import annotations

import base64
import io
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.jobs.repair.reap import EXPIRED
from callsheet.toolbox.logs import configure_logs
from callsheet.wire.job_errors import UNKNOWN
from tests.support.http.responses import assert_refused
from tests.support.http.scripted_worker import REPORTS, ScriptedWorker, described, in_an_hour
from tests.support.http.worker_harness import OUTPUT, PNG, WorkerHarness, open_worker_harness


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


async def warnings(worker_harness: WorkerHarness) -> float:
    """How many outputs were accepted with one."""
    token = worker_harness.plane.settings.server.metrics_token
    headers = {"authorization": f"Bearer {token.get_secret_value()}"} if token else {}
    metrics = (await worker_harness.client.get("/metrics", headers=headers)).text
    [count] = re.findall(r"^callsheet_output_warnings_total (\S+)$", metrics, re.MULTILINE)
    return float(count)


class TestReports:
    @pytest.mark.parametrize("kind", ["complete", "fail", "requeue"])
    async def test_a_repeated_report_returns_the_recorded_outcome_and_changes_nothing(
        self, worker_harness: WorkerHarness, kind: str
    ) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        job = await worker.job()
        await worker.deliver(job, OUTPUT)
        first = await report(worker, kind, job)
        before = await worker_harness.row(person, submitted["id"])
        second = await report(worker, kind, job)
        assert (first.status_code, second.status_code) == (200, 200)
        assert first.json() == second.json()
        assert first.json()["status"] == {"complete": "completed", "fail": "failed", "requeue": "queued"}[kind]
        assert await worker_harness.row(person, submitted["id"]) == before
        assert await worker_harness.balance(person) == (3 if kind != "fail" else 10)
        noted = {"complete": "completed", "fail": "failed", "requeue": "requeued"}[kind]
        await worker_harness.audited(worker, "registered", "leased", noted)

    @pytest.mark.few_forms
    @pytest.mark.parametrize("kind", REPORTS)
    async def test_a_lease_that_another_worker_took_over_is_lost(
        self, worker_harness: WorkerHarness, kind: str
    ) -> None:
        worker, other = await worker_harness.worker(), await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        stale = await worker.job()
        await worker_harness.jobs_api.core.expire_lease(stale["dispatch_id"])
        await worker_harness.jobs_api.core.reap()
        job = await other.job()
        before = await worker_harness.dispatch(job)
        assert_refused(await report(worker, kind, stale), 409, "lease_lost")
        assert await worker_harness.dispatch(job) == before
        assert (await worker_harness.shown(person, submitted["id"]))["status"] == "processing"

    @pytest.mark.few_forms
    @pytest.mark.parametrize("kind", REPORTS)
    async def test_a_lease_of_another_worker_an_unknown_token_and_an_unknown_dispatch_are_not_found(
        self, worker_harness: WorkerHarness, kind: str
    ) -> None:
        worker, other = await worker_harness.worker(), await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        job = await worker.job()
        for asker, about in (
            (other, job),
            (worker, {**job, "lease_token": str(uuid4())}),
            (worker, {**job, "dispatch_id": 2**52}),
        ):
            before = await worker_harness.dispatch(job)
            assert_refused(await report(asker, kind, about), 404, "not_found")
            assert await worker_harness.dispatch(job) == before

    async def test_only_the_worker_of_a_finished_lease_can_report_on_it(self, worker_harness: WorkerHarness) -> None:
        worker, other = await worker_harness.worker(), await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        job = await worker.job()
        assert (await worker.fail(job, "It broke.")).status_code == 200
        assert_refused(await other.fail(job, "It broke."), 404, "not_found")

    async def test_a_worker_learns_that_its_job_is_canceled_and_its_report_is_not_stored(
        self, worker_harness: WorkerHarness
    ) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        job = await worker.job()
        assert (await worker.heartbeat(job)).json()["cancel_requested"] is False
        await worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{submitted['id']}/cancel")
        assert (await worker.heartbeat(job)).json()["cancel_requested"] is True
        await worker.deliver(job, OUTPUT)
        for _ in range(2):
            response = await worker.complete(job, output=described(OUTPUT, "video/mp4"))
            assert (response.status_code, response.json()["status"]) == (200, "canceled")
        assert (await worker_harness.shown(person, submitted["id"]))["result"] is None
        assert await worker_harness.files(person, submitted["id"]) == []
        assert await worker_harness.balance(person) == 10
        await worker_harness.audited(worker, "registered", "leased", "completed")
        await worker_harness.session(worker, jobs_completed=0, jobs_failed=0, jobs_requeued=0)

    async def test_a_canceled_job_is_not_asked_for_an_output(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        job = await worker.job()
        await worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{submitted['id']}/cancel")
        response = await worker.complete(job, output=described(OUTPUT, "video/mp4"))
        assert (response.status_code, response.json()["status"]) == (200, "canceled")
        assert await worker_harness.balance(person) == 10

    async def test_a_late_report_about_an_expired_job_returns_expired(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        job = await worker.job()
        await worker_harness.jobs_api.core.rows(
            await worker_harness.plane.databases.pool(person.tenant.pool),
            "UPDATE ai_jobs SET deadline_at = now() WHERE id = $1",
            UUID(submitted["id"]),
        )
        await worker_harness.jobs_api.core.enforce_deadlines()
        assert (await worker.fail(job, "too late")).json()["status"] == "expired"

    async def test_a_requeue_gives_the_attempt_back(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        await worker_harness.engine_job(person)
        first = await worker.job()
        assert (await worker.requeue(first, "spot\x07 interruption of /mnt/scratch")).json() == {
            "dispatch_id": first["dispatch_id"],
            "status": "queued",
        }
        row = await worker_harness.dispatch(first)
        assert (row["attempts"], row["requeues"]) == (0, 1)
        assert row["last_error"] == "Requeued: spot interruption of [path]"
        second = await worker.job()
        assert second["dispatch_id"] == first["dispatch_id"]
        assert second["lease_token"] != first["lease_token"]
        await worker_harness.session(worker, jobs_requeued=1, jobs_failed=0)

    async def test_a_retryable_failure_waits_and_comes_back_until_attempts_run_out(
        self, worker_harness: WorkerHarness
    ) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        for attempt in (1, 2, 3):
            job = await worker.job()
            response = await worker.fail(job, "CUDA out of memory", error={"retryable": True, "type": "OOM"})
            assert response.json()["status"] == ("queued" if attempt < 3 else "failed")
            if attempt < 3:
                assert (await worker_harness.dispatch(job))["not_before"] is not None
                assert (await worker.poll())["reason"] == "empty"
                await worker_harness.plane.rooms.jobs.dispatch.queue.promote(datetime.now(UTC) + timedelta(days=1))
        shown = await worker_harness.shown(person, submitted["id"])
        assert (shown["status"], shown["error"]) == ("failed", {"type": "OOM", "message": UNKNOWN})
        assert await worker_harness.balance(person) == 10
        await worker_harness.session(worker, jobs_failed=3)

    async def test_users_read_the_sentence_of_the_error_type(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        job = await worker.job()
        engine = {
            "exception_type": "FileNotFoundError",
            "exception_message": "No such file: /opt/ComfyUI/models/x.safetensors\x00\n",
            "traceback": ["line one", "line two"],
        }
        response = await worker.fail(job, engine)
        assert response.json() == {"dispatch_id": job["dispatch_id"], "status": "failed"}
        shown = await worker_harness.shown(person, submitted["id"])
        assert shown["error"] == {"type": "FileNotFoundError", "message": UNKNOWN}
        kept = (await worker_harness.row(person, submitted["id"]))["error"]
        assert kept["reported"] == "No such file: x.safetensors"
        assert kept["traceback"] == "line one\nline two"
        assert "/opt/ComfyUI" in kept["details"]["reported"]["exception_message"]
        events = await worker_harness.jobs_api.get(person, f"/api/ai-jobs/{submitted['id']}/events")
        assert "No such file" not in events.text

    @pytest.mark.parametrize("how", ["report", "heartbeat", "lease ends"])
    async def test_the_id_at_the_provider_is_kept_from_the_submit_on_also_of_a_failed_job(
        self, worker_harness: WorkerHarness, how: str
    ) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        job = await worker.job()
        if how != "report":
            assert (await worker.heartbeat(job, provider_job_id="run-1")).status_code == 200
            assert (await worker.heartbeat(job)).status_code == 200
            assert (await worker_harness.dispatch(job))["provider_job_id"] == "run-1"
        if how == "lease ends":
            await worker_harness.central("UPDATE ai_job_dispatches SET attempts = max_attempts")
            await worker_harness.jobs_api.core.expire_lease(job["dispatch_id"])
            await worker_harness.jobs_api.core.reap()
        else:
            known = {"provider_job_id": "run-1"} if how == "report" else {}
            await worker.fail(job, "boom", error={"type": "execution_error"}, **known)
        row = await worker_harness.row(person, submitted["id"])
        assert (row["status"], row["provider_job_id"]) == ("failed", "run-1")
        [past] = await worker_harness.central(
            "SELECT provider_job_id FROM dispatch_history WHERE dispatch_id = $1", job["dispatch_id"]
        )
        assert past["provider_job_id"] == "run-1"

    async def test_the_log_names_the_outputs_of_a_job(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        await worker_harness.engine_job(person)
        job = await worker.job()
        stream = io.StringIO()
        configure_logs("info", "json", stream)
        try:
            await worker.deliver(job, OUTPUT)
            assert (await worker.complete(job, output=described(OUTPUT, "video/mp4"))).status_code == 200
        finally:
            configure_logs()
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        [line] = [line for line in lines if line["event"] == "job.completed"]
        size = len(OUTPUT)
        assert line["outputs"] == {"count": 1, "types": ["video/mp4"], "sizes": [size], "bytes": size}

    async def test_a_lease_that_expired_is_a_warning_with_its_worker_and_the_reason(
        self, worker_harness: WorkerHarness
    ) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        job = await worker.job()
        await worker_harness.jobs_api.core.expire_lease(job["dispatch_id"])
        stream = io.StringIO()
        configure_logs("warning", "json", stream)
        try:
            await worker_harness.jobs_api.core.reap()
        finally:
            configure_logs()
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        [line] = [line for line in lines if line["event"] == "lease.recovered" and line["job_id"] == submitted["id"]]
        assert (line["level"], line["worker_id"], line["status"]) == ("warning", worker.worker_id, "queued")
        assert line["reason"] == EXPIRED

    async def test_a_deferred_job_waits_for_its_callback_and_frees_its_worker(
        self, worker_harness: WorkerHarness
    ) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=20)
        await worker_harness.engine_job(person)
        job = await worker.job()
        response = await worker.defer(job, "prediction-1", in_an_hour())
        assert response.json() == {"dispatch_id": job["dispatch_id"], "status": "waiting"}
        row = await worker_harness.dispatch(job)
        assert (row["status"], row["provider_job_id"], row["worker_id"]) == ("waiting", "prediction-1", None)
        assert (await worker.defer(job, "prediction-1", in_an_hour())).json()["status"] == "waiting"
        await worker_harness.engine_job(person)
        assert (await worker.job())["dispatch_id"] != job["dispatch_id"]

    @pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"])
    async def test_an_invalid_utc_time_is_refused_by_its_field(
        self, worker_harness: WorkerHarness, moment: str
    ) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        response = await worker.defer(await worker.job(), "prediction-1", moment)
        assert_refused(response, 422, "invalid_request", "expires_at")


class TestHeartbeats:
    async def test_progress_and_preview_reach_the_user(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        job = await worker.job()
        preview = {"mime_type": "image/png", "data": base64.b64encode(PNG).decode()}
        progress = {"percent": 40.5, "message": "step 8 of\x07 20", "elapsed_ms": 1200}
        assert (await worker.heartbeat(job, progress=progress, preview=preview)).status_code == 200
        pool = await worker_harness.plane.databases.pool(person.tenant.pool)
        [row] = await worker_harness.jobs_api.core.rows(
            pool, "SELECT * FROM job_progress WHERE job_id = $1", UUID(submitted["id"])
        )
        assert (row["percent"], row["message"], row["elapsed_ms"]) == (40.5, "step 8 of  20", 1200)
        assert (row["preview"], row["preview_type"]) == (PNG, "image/png")

    async def test_a_heartbeat_extends_the_lease_and_marks_the_start_of_the_run(
        self, worker_harness: WorkerHarness
    ) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        job = await worker.job()
        response = (await worker.heartbeat(job, run_started=True)).json()
        assert set(response) == {"lease_expires_at", "lease_ttl_seconds", "cancel_requested"}
        assert datetime.fromisoformat(response["lease_expires_at"]) > datetime.fromisoformat(job["lease_expires_at"])
        assert 899 < response["lease_ttl_seconds"] <= 900
        assert (await worker_harness.dispatch(job))["run_started_at"] is not None

    @pytest.mark.parametrize(
        ("preview", "field"),
        [
            ({"mime_type": "image/svg+xml", "data": "AAAA"}, "preview.mime_type"),
            ({"mime_type": "image/png", "data": "not base64!"}, "preview.data"),
            ({"mime_type": "image/png", "data": base64.b64encode(b"x" * 65_537).decode()}, "preview.data"),
            ({"mime_type": "image/png"}, "preview.data"),
        ],
    )
    async def test_a_preview_is_a_small_image(
        self, worker_harness: WorkerHarness, preview: dict[str, str], field: str
    ) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        job = await worker.job()
        assert_refused(await worker.heartbeat(job, preview=preview), 422, "invalid_request", field)
        largest = {"mime_type": "image/png", "data": base64.b64encode(b"x" * 65_536).decode()}
        assert (await worker.heartbeat(job, preview=largest)).status_code == 200

    async def test_timing_counts_from_the_start_of_the_run(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        job = await worker.job()
        await worker.heartbeat(job, run_started=True)
        back = """UPDATE ai_job_dispatches SET last_leased_at = now() - interval '100 s',
                  run_started_at = now() - interval '40 s' WHERE dispatch_id = $1"""
        await worker_harness.central(back, job["dispatch_id"])
        await worker.deliver(job, OUTPUT)
        await worker.complete(job, output=described(OUTPUT, "video/mp4"))
        [row] = await worker_harness.central(
            "SELECT * FROM dispatch_history WHERE dispatch_id = $1", job["dispatch_id"]
        )
        assert 40 <= row["duration_seconds"] < 60
        assert (await worker_harness.session(worker, jobs_completed=1))["busy_seconds"] >= 100


class TestOutputs:
    async def test_a_job_of_an_engine_delivers_at_least_one_file(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        job = await worker.job()
        for nothing in ({}, {"output": None, "outputs": None}, {"outputs": []}, {"result": {"text": "done"}}):
            assert_refused(await worker.complete(job, **nothing), 422, "content_mismatch", "output")

    async def test_a_task_may_complete_without_files(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        # Its payload belongs to its actor: all of it is handed over unchanged.
        payload = {"workflow": {}, "assets": [{"path": f"tenants/{uuid4()}/secret.mp4"}], "prompt": "a cat"}
        submitted = await worker_harness.jobs_api.submit(person, kind="task", payload=payload)
        job = await worker.job()
        assert job["input_payload"] == payload
        assert (job["input_url"], job["output_url"], job["output_headers"]) == (None, None, {})
        assert (job["input_file"], job["output_file"]) == (None, None)
        response = await worker.complete(job, result={"text": "a poem"}, metadata={"model": "m"}, provider_job_id="p-1")
        assert response.json()["status"] == "completed"
        row = await worker_harness.row(person, submitted["id"])
        assert row["result"] == {"outputs": [], "metadata": {"model": "m"}, "result": {"text": "a poem"}}
        assert row["provider_job_id"] == "p-1"

    async def test_a_task_may_deliver_files(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.jobs_api.submit(person, kind="task", payload={"prompt": "a cat"})
        job = await worker.job()
        outputs = await worker.deliver_named(job, {"cat.png": ("image/png", PNG)})
        assert (await worker.complete(job, outputs=outputs)).json()["status"] == "completed"
        assert [row["name"] for row in await worker_harness.files(person, submitted["id"])] == ["cat.png"]

    async def test_names_of_outputs_are_unique_and_sizes_are_limited(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        job = await worker.job()
        output = {"name": "a.png", **described(PNG, "image/png")}
        assert_refused(await worker.heartbeat(job, outputs=[output, output]), 422, "invalid_request", "outputs")
        assert_refused(await worker.complete(job, outputs=[output, output]), 422, "invalid_request", "outputs")
        huge = {**output, "size": worker_harness.plane.settings.storage.max_upload_bytes + 1}
        assert_refused(await worker.heartbeat(job, outputs=[huge]), 422, "invalid_request", "outputs.0.size")

    async def test_the_refusal_names_each_output_that_is_missing(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
        job = await worker.job()
        [there] = await worker.deliver_named(job, {"there.png": ("image/png", PNG)})
        missing = {"name": "missing.png", **described(PNG, "image/png")}
        refused = await worker.complete(job, output=described(OUTPUT, "video/mp4"), outputs=[there, missing])
        assert_refused(refused, 422, "content_mismatch", "output", "outputs.1")

    async def test_an_output_that_does_not_look_like_its_type_is_accepted_with_a_warning(
        self, worker_harness: WorkerHarness
    ) -> None:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        submitted = await worker_harness.engine_job(person)
        job = await worker.job()
        await worker.deliver(job, PNG)
        before = await warnings(worker_harness)
        assert (await worker.complete(job, output=described(PNG, "video/mp4"))).json()["status"] == "completed"
        metadata = (await worker_harness.shown(person, submitted["id"]))["result"]["metadata"]
        assert metadata == {"warnings": ["output.mp4: The output looks like image/png, but video/mp4 was declared."]}
        assert await warnings(worker_harness) == before + 1

    async def test_the_policy_warn_accepts_missing_outputs_with_a_warning(self, strict_plane: ControlPlane) -> None:
        async with open_worker_harness(strict_plane) as worker_harness:
            worker = await worker_harness.worker()
            person = await worker_harness.jobs_api.person(tokens=10)
            submitted = await worker_harness.engine_job(person)
            job = await worker.job()
            before = await warnings(worker_harness)
            response = await worker.complete(job, output=described(OUTPUT, "video/mp4"))
            assert response.json()["status"] == "completed"
            result = (await worker_harness.shown(person, submitted["id"]))["result"]
            assert result["metadata"] == {
                "warnings": ["output.mp4: The output was not uploaded. Upload it and report again."]
            }
            assert await warnings(worker_harness) == before + 1
