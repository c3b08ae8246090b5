"""Every message in docs/protocol.md is one that was really sent: a run of the protocol is recorded and compared.

After a change of the protocol, `UPDATE_DOCUMENT=1 pytest tests/api/test_protocol_document.py` writes what is sent now.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from tests.support.http.protocol_examples import names_in, rendered, with_examples
from tests.support.http.scripted_worker import ScriptedWorker, described
from tests.support.http.worker_harness import OUTPUT, PNG, WorkerHarness, open_worker_harness

DOCUMENT = Path(__file__).parents[2] / "docs" / "protocol.md"
PREVIEW = {"mime_type": "image/png", "data": "iVBORw0KGgo="}
TRACE = {
    "phases": [
        {"name": "download", "start_ms": 2, "end_ms": 310},
        {"name": "run", "start_ms": 330, "end_ms": 31200},
        {"name": "upload", "start_ms": 31260, "end_ms": 33900},
    ],
    "nodes": [
        {"node_id": "1", "start_ms": 332, "end_ms": 332, "cached": True},
        {"node_id": "3", "start_ms": 340, "end_ms": 31100},
    ],
}
ENVIRONMENT = {
    "node_classes": ["CheckpointLoaderSimple", "SaveImage"],
    "models": [{"name": "sd15.safetensors"}],
    "engine_versions": ["0.3.57"],
}


class Recorder:
    def __init__(self, worker_harness: WorkerHarness):
        self.worker_harness = worker_harness
        self.examples: dict[str, str] = {}

    def note(self, name: str, worker: ScriptedWorker, status: int = 200) -> httpx.Response:
        """The last exchange of this worker becomes the example of that name."""
        path, body, response = worker.exchanges[-1]
        assert response.status_code == status, response.text
        # Every test has a worker and a workflow of its own.
        text = rendered(path, body, response).replace(worker.worker_id, "gpu-1")
        self.examples[name] = text.replace(self.worker_harness.jobs_api.workflow, "face-swap")
        return response


@pytest.fixture
async def recorded(plane: ControlPlane) -> dict[str, str]:
    async with open_worker_harness(plane) as worker_harness:
        recorder = Recorder(worker_harness)
        await use_every_operation(recorder)
        await poll_and_complete(recorder)
        await deliver_several(recorder)
        await report_otherwise(recorder)
        return recorder.examples


async def use_every_operation(recorder: Recorder) -> None:
    worker_harness = recorder.worker_harness
    slug = f"fleet-{worker_harness.jobs_api.workflow}"
    fleet = {"slug": slug, "workflow_slugs": [worker_harness.jobs_api.workflow]}
    assert (await worker_harness.jobs_api.post("/api/admin/fleets", fleet)).status_code == 201
    worker = ScriptedWorker(worker_harness.client, f"{worker_harness.jobs_api.workflow}-1")
    await worker.register(
        worker_harness.secret,
        fleet_slug=slug,
        stage="production",
        max_concurrency=1,
        capabilities={"gpu": "RTX 4090", "engine": "ComfyUI 0.3.57"},
        capacity_type="spot",
    )
    recorder.note("register-fleet", worker, 201)
    recorder.examples["register-fleet"] = recorder.examples["register-fleet"].replace("fleet-face-swap", "video-gpus")
    await worker.post("/api/worker/environment", ENVIRONMENT)
    recorder.note("environment", worker)
    await worker.deregister("spot interruption")
    recorder.note("deregister", worker, 204)

    other = ScriptedWorker(worker_harness.client, f"{worker_harness.jobs_api.workflow}-2")
    await other.register(worker_harness.secret, workflow_slugs=[worker_harness.jobs_api.workflow])
    recorder.note("register-workflows", other, 201)
    await other.ask_to_register(worker_harness.secret, workflow_slugs=[worker_harness.jobs_api.workflow])
    recorder.note("register-refused", other, 409)
    recorder.examples["register-refused"] = with_seconds(recorder.examples["register-refused"])
    await other.deregister()


def with_seconds(text: str) -> str:
    """How long it has to wait depends on when it was seen."""
    for seconds in range(80, 90):
        text = text.replace(f"{seconds} seconds", "90 seconds").replace(f'seconds": {seconds}', 'seconds": 90')
    return text


async def poll_and_complete(recorder: Recorder) -> None:
    worker_harness = recorder.worker_harness
    worker = await worker_harness.worker()
    await worker.poll(wait_seconds=0)
    recorder.note("poll-empty", worker)
    person = await worker_harness.jobs_api.person(tokens=100)
    await worker_harness.engine_job(person)
    job = await worker.job(current_load=0, max_concurrency=1, wait_seconds=55, poll_id="01J9-7", active_leases=[])
    recorder.note("poll-job", worker)
    await worker.heartbeat(job, run_started=True)
    recorder.note("heartbeat", worker)
    progress = {"percent": 40.0, "message": "step 8 of 20", "elapsed_ms": 12400, "node_id": "3"}
    await worker.heartbeat(job, progress=progress, preview=PREVIEW)
    recorder.note("heartbeat-progress", worker)
    await worker.heartbeat(job, refresh_inputs=True)
    recorder.note("heartbeat-refresh", worker)
    output: dict[str, Any] = {**described(OUTPUT, "video/mp4"), "metadata": {"frames": 120}}
    await worker.complete(job, output=output)
    recorder.note("complete-refused", worker, 422)
    await worker.deliver(job, OUTPUT)
    await worker.complete(job, provider_job_id="prompt-1", output=output, trace=TRACE)
    recorder.note("complete", worker)


async def deliver_several(recorder: Recorder) -> None:
    worker_harness = recorder.worker_harness
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=100)
    await worker_harness.engine_job(person)
    job = await worker.job()
    outputs = await worker.deliver_named(job, {"frame-1.png": ("image/png", PNG), "frame-2.png": ("image/png", PNG)})
    recorder.note("heartbeat-outputs", worker)
    await worker.complete(job, outputs=outputs, metadata={"seed": 4})
    recorder.note("complete-several", worker)
    await worker_harness.jobs_api.submit(person, kind="task", payload={"prompt": "a poem about cats"})
    task = await worker.job()
    recorder.note("poll-task", worker)
    await worker.complete(task, result={"text": "Soft paws …"}, metadata={"model": "poet-1"})
    recorder.note("complete-task", worker)


async def report_otherwise(recorder: Recorder) -> None:
    worker_harness = recorder.worker_harness
    worker, other = await worker_harness.worker(), await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=100)
    await worker_harness.engine_job(person)
    job = await worker.job()
    await worker_harness.jobs_api.post(f"/api/admin/workers/{worker.worker_id}/rotate-token", {})
    await worker.requeue(job, "spot interruption")
    recorder.note("requeue-rotated", worker)
    job = await worker.job()
    await worker_harness.jobs_api.core.expire_lease(job["dispatch_id"])
    await worker_harness.jobs_api.core.reap()
    taken = await other.job()
    await worker.heartbeat(job)
    recorder.note("lease-lost", worker, 409)
    error = {"type": "OutOfMemory", "message": "CUDA out of memory", "details": {"node": "9"}, "retryable": True}
    await other.fail(taken, "CUDA out of memory", error=error)
    recorder.note("fail-retryable", other)
    await worker_harness.engine_job(person)
    job = await worker.job()
    engine = {"exception_type": "ValueError", "exception_message": "The image is too small", "node_id": "3"}
    await worker.fail(job, engine)
    recorder.note("fail", worker)
    await worker_harness.engine_job(person)
    job = await worker.job()
    await worker.defer(job, "prediction-8xk2", "2046-02-15T13:00:00Z")
    recorder.note("defer", worker)
    await worker.complete({**job, "dispatch_id": 2**40}, output=described(OUTPUT, "video/mp4"))
    recorder.note("not-found", worker, 404)


async def test_every_example_in_the_document_was_really_sent(recorded: dict[str, str]) -> None:
    document = DOCUMENT.read_text("utf-8")
    assert sorted(names_in(document)) == sorted(recorded)
    fresh = with_examples(document, recorded)
    if os.environ.get("UPDATE_DOCUMENT"):
        DOCUMENT.write_text(fresh, "utf-8")
    assert fresh == DOCUMENT.read_text("utf-8"), "docs/protocol.md is stale: see the head of this test"


async def test_every_path_of_the_protocol_is_in_the_document(plane: ControlPlane, client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    protocol = [path for path in paths if path.startswith("/api/worker/")]
    document = DOCUMENT.read_text("utf-8")
    assert len(protocol) == 9
    assert [path for path in protocol if f"POST {path}" not in document] == []


async def test_every_field_of_every_request_is_in_the_document(client: httpx.AsyncClient) -> None:
    """An author of a worker does not have to read the code."""
    openapi = (await client.get("/openapi.json")).json()
    document = DOCUMENT.read_text("utf-8")
    operations = [paths["post"] for path, paths in openapi["paths"].items() if path.startswith("/api/worker/")]
    fields = set().union(*(fields_of(openapi, operation) for operation in operations))
    assert sorted(name for name in fields if f"`{name}`" not in document) == []


def fields_of(document: dict[str, Any], operation: dict[str, Any]) -> set[str]:
    """The names of all fields of the request, also of objects within."""
    waiting: list[Any] = [operation["requestBody"]["content"]["application/json"]["schema"]]
    found: set[str] = set()
    while waiting:
        schema = waiting.pop()
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        found |= set(schema.get("properties", {}))
        waiting += schema.get("properties", {}).values()
        waiting += schema.get("anyOf", [])
        if isinstance(schema.get("items"), dict):
            waiting.append(schema["items"])
    return found
