"""What every request of a worker has in common: its token, its body, and what it costs."""

from __future__ import annotations

import math
from typing import Any
from uuid import uuid4

import pytest
import structlog

from callsheet.app.control_plane import ControlPlane
from callsheet.fleet.protocol import polls as worker_polls
from callsheet.media.storage import owner
from callsheet.plumbing.database.sql import Statement
from tests.support.database.outages import closed
from tests.support.http.responses import assert_refused
from tests.support.http.scripted_worker import REPORTS, described, in_an_hour
from tests.support.http.worker_harness import OUTPUT, PNG, WorkerHarness, open_worker_harness


class TestRequests:
    @pytest.mark.few_forms
    @pytest.mark.parametrize("path", ["poll", *REPORTS])
    async def test_every_path_needs_the_token_of_a_worker(self, worker_harness: WorkerHarness, path: str) -> None:
        body = {
            "dispatch_id": 1,
            "lease_token": str(uuid4()),
            "provider_job_id": "p",
            "expires_at": in_an_hour(),
        }
        person = await worker_harness.jobs_api.person()
        for headers in ({}, {"authorization": "Bearer " + "0" * 64}, person.headers, {"authorization": "Basic x"}):
            for sent in (body, {}, []):
                response = await worker_harness.client.post(f"/api/worker/{path}", json=sent, headers=headers)
                assert_refused(response, 401, "not_authenticated")

    @pytest.mark.few_forms
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
    async def test_an_invalid_body_gets_the_usual_problem(
        self, worker_harness: WorkerHarness, content: bytes, content_type: str, status: int, code: str, field: str
    ) -> None:
        worker = await worker_harness.worker()
        headers = {"authorization": f"Bearer {worker.token}", "content-type": content_type}
        response = await worker_harness.client.post("/api/worker/poll", content=content, headers=headers)
        assert_refused(response, status, code, field)

    async def test_a_body_that_is_too_large_is_refused(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        response = await worker.post("/api/worker/poll", {"capabilities": {"x": "y" * 1_100_000}})
        assert_refused(response, 413, "body_too_large", "body")

    async def test_unknown_fields_and_nulls_are_ignored(self, worker_harness: WorkerHarness) -> None:
        worker = await worker_harness.worker()
        await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
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
        nothing = dict.fromkeys(("run_started", "run_waiting", "progress", "preview", "outputs", "refresh_inputs"))
        assert (await worker.heartbeat(job, worker_id=7, **nothing)).status_code == 200
        await worker.deliver(job, OUTPUT)
        output = {"size": len(OUTPUT), "mime_type": "video/mp4", "sha256": None, "metadata": None, "codec": "h264"}
        response = await worker.complete(job, output=output, outputs=None, provider_job_id=None, worker_id="me")
        assert response.json()["status"] == "completed"

    async def test_other_methods_and_similar_paths_get_the_usual_problem(self, worker_harness: WorkerHarness) -> None:
        refused = await worker_harness.client.get("/api/worker/poll")
        assert_refused(refused, 405, "method_not_allowed")
        assert refused.headers["allow"] == "POST"
        assert_refused(await worker_harness.client.post("/api/worker/poll/", json={}), 404, "not_found")
        assert_refused(await worker_harness.client.post("/api/worker/nothing", json={}), 404, "not_found")

    async def test_requests_are_counted_by_their_path(self, worker_harness: WorkerHarness) -> None:
        await (await worker_harness.worker()).poll()
        metrics = (await worker_harness.client.get("/metrics")).text
        assert 'callsheet_http_requests_total{method="POST",route="/api/worker/poll",status="200"}' in metrics

    async def test_an_unavailable_database_is_a_503(self, neighbour_plane: ControlPlane) -> None:
        async with open_worker_harness(neighbour_plane) as worker_harness:
            worker = await worker_harness.worker()
            async with closed(neighbour_plane.databases.central):
                response = await worker.post("/api/worker/poll", {})
            assert_refused(response, 503, "unavailable")
            assert response.headers["retry-after"] == "1"
            assert (await worker.poll())["reason"] == "empty"

    async def test_the_document_describes_every_message(self, worker_harness: WorkerHarness) -> None:
        document = (await worker_harness.client.get("/openapi.json")).json()
        for path, request, response in (
            ("poll", "PollRequest", "PollResponse"),
            ("heartbeat", "HeartbeatRequest", "HeartbeatResponse"),
            ("complete", "CompleteRequest", "CompleteResponse"),
            ("fail", "FailRequest", "DispatchResponse"),
            ("requeue", "RequeueRequest", "DispatchResponse"),
            ("defer", "DeferRequest", "DispatchResponse"),
        ):
            operation = document["paths"][f"/api/worker/{path}"]["post"]
            wanted = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            given = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
            assert (wanted.rpartition("/")[2], given.rpartition("/")[2]) == (request, response)
            assert operation["security"] == [{"WorkerToken": []}]
            assert operation["description"]


class TestCost:
    async def test_each_request_asks_the_databases_a_known_number_of_times(
        self, worker_harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Two checks are repeated after some seconds, which may pass in the middle of this test: the worker's token
        # during a poll, and the owner of the storage before a completion deletes the upload that it has copied.
        monkeypatch.setattr(worker_polls, "TRUSTED_SECONDS", math.inf)
        monkeypatch.setattr(owner, "TRUSTED_SECONDS", math.inf)
        await worker_harness.plane.rooms.storage.delete("not/there")
        statements = spied(monkeypatch)
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=20)
        await worker_harness.engine_job(person)
        worker_harness.client.headers["x-request-id"] = "counted"
        statements.clear()
        job = await worker.job(wait_seconds=10)
        assert without_queue_reads(statements) == ["authenticate", "take", "start_jobs", "record_events"]
        statements.clear()
        await worker.heartbeat(job)
        assert statements == ["authenticate", "heartbeat"]
        statements.clear()
        await worker.heartbeat(job, progress={"percent": 3}, outputs=[{"name": "a.png", **described(PNG, "image/png")}])
        assert statements == ["authenticate", "heartbeat", "record_progress"]
        await worker.deliver(job, OUTPUT)
        statements.clear()
        await worker.complete(job, output=described(OUTPUT, "video/mp4"))
        assert statements == ["authenticate", "find", "complete_jobs", "close", "record_events"]


def without_queue_reads(statements: list[str]) -> list[str]:
    """What each poll asks. The first one of a kind of worker reads who waits, and again every ten seconds."""
    return [name for name in statements if name not in ("terms", "lanes_with_work")]


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
