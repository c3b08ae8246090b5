"""A job that an engine refuses, because it lacks a model, a node class or a choice, goes where it can run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from callsheet.fleet.protocol.engine_refusals import missing_for
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.worker.protocol import RefusedInput
from tests.support.http.accounts import Person
from tests.support.http.scripted_worker import Json, ScriptedWorker
from tests.support.http.worker_harness import WorkerHarness
from tests.support.jobs.race_control import open_transaction, paused_at, start_blocked

MODEL = "sd15.safetensors"
GRAPH = {
    "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": MODEL}},
    "3": {"class_type": "KSampler", "inputs": {"model": ["1", 0], "sampler_name": "fine"}},
    "2": {"class_type": "SaveImage", "inputs": {"images": ["3", 0]}},
}
CLASSES = ["CheckpointLoaderSimple", "KSampler", "SaveImage"]
WHOLE = {"node_classes": CLASSES, "models": [{"name": MODEL}]}
WITHOUT = {"node_classes": CLASSES, "models": []}
NO_MODEL = [{"node_id": "1", "node_class": "CheckpointLoaderSimple", "input_name": "ckpt_name", "value": MODEL}]
NO_CLASS = [{"node_id": "3", "node_class": "KSampler"}]
NO_SAMPLER = [{"node_id": "3", "node_class": "KSampler", "input_name": "sampler_name", "value": "fine"}]
# The user of the job named it: the graph of the workflow has another value there.
NO_CHOICE_OF_JOB = [{"node_id": "3", "node_class": "KSampler", "input_name": "sampler_name", "value": "coarse"}]


@pytest.fixture
async def ann(worker_harness: WorkerHarness) -> Person:
    path = f"/api/admin/workflows/{worker_harness.jobs_api.workflow}"
    headers = worker_harness.jobs_api.admin.headers
    response = await worker_harness.client.patch(path, json={"graph": GRAPH}, headers=headers)
    assert response.status_code == 200, response.text
    return await worker_harness.jobs_api.person("pool_2", tokens=1000)


async def refuse(worker: ScriptedWorker, job: Json, inputs: list[Json]) -> str:
    error = {"type": "invalid_workflow", "message": "The engine has no such thing.", "retryable": False}
    lease = {"dispatch_id": job["dispatch_id"], "lease_token": job["lease_token"]}
    body = {**lease, "reason": error["message"], "refusal": {"error": error, "inputs": inputs}}
    response = await worker.post("/api/worker/requeue", body)
    assert response.status_code == 200, response.text
    return str(response.json()["status"])


async def report(worker_harness: WorkerHarness, worker: ScriptedWorker, environment: Json) -> None:
    worker_harness.plane.rooms.fleet.registry._reported.clear()
    response = await worker.post("/api/worker/environment", environment)
    assert response.status_code == 200, response.text


@asynccontextmanager
async def in_process(worker_harness: WorkerHarness, worker: ScriptedWorker) -> AsyncIterator[ScriptedWorker]:
    """The same worker, with requests that a test can pause."""
    transport = httpx.ASGITransport(app=worker_harness.plane.http.asgi)
    async with httpx.AsyncClient(transport=transport, base_url=worker_harness.plane.settings.public_url) as client:
        yield ScriptedWorker(client, worker.worker_id, worker.token)


async def why(worker_harness: WorkerHarness, person: Person, job_id: str) -> str:
    return str((await worker_harness.shown(person, job_id))["why_waiting"]["message"])


async def test_a_job_goes_to_the_worker_that_still_has_the_model_and_its_attempt_does_not_count(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    losing = await worker_harness.worker(environment=WHOLE)
    job_id = (await worker_harness.engine_job(ann))["id"]
    job = await losing.job()
    able = await worker_harness.worker(environment=WHOLE)
    await report(worker_harness, losing, WITHOUT)
    assert await refuse(losing, job, NO_MODEL) == "queued"
    assert (await losing.poll())["reason"] == "no_workflows"
    found = await able.job()
    assert (found["job_id"], found["attempt"]) == (job_id, 1)


@pytest.mark.parametrize(
    ("inputs", "missing"),
    [(NO_MODEL, f"the model {MODEL}"), (NO_CLASS, "the node class KSampler")],
    ids=["model", "class"],
)
async def test_an_engine_that_refuses_what_its_environment_lists_gets_no_job_of_the_workflow(
    worker_harness: WorkerHarness, ann: Person, inputs: list[Json], missing: str
) -> None:
    worker = await worker_harness.worker(environment=WHOLE)
    job_id = (await worker_harness.engine_job(ann))["id"]
    assert await refuse(worker, await worker.job(), inputs) == "queued"
    assert (await worker.poll())["reason"] == "no_workflows"
    assert await why(worker_harness, ann, job_id) == f"No worker has {missing}."
    assert await worker_harness.balance(ann) == 1000 - 7
    # The agent reports again after some minutes, and then gets a job again.
    await report(worker_harness, worker, WHOLE)
    assert (await worker.job())["job_id"] == job_id


async def test_a_job_that_no_worker_can_run_fails_and_is_refunded(worker_harness: WorkerHarness, ann: Person) -> None:
    one, two = [await worker_harness.worker(environment=WHOLE) for _ in range(2)]
    job_id = (await worker_harness.engine_job(ann))["id"]
    assert await refuse(one, await one.job(), NO_SAMPLER) == "queued"
    assert (await one.poll())["reason"] == "no_workflows", "the other worker may have the choice"
    assert await refuse(two, await two.job(), NO_SAMPLER) == "failed"
    shown = await worker_harness.shown(ann, job_id)
    assert shown["error"]["type"] == "invalid_workflow"
    assert await worker_harness.balance(ann) == 1000


async def test_what_a_user_chose_keeps_no_worker_away_from_the_workflow(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    one, two = [await worker_harness.worker(environment=WHOLE) for _ in range(2)]
    await worker_harness.engine_job(ann)
    job = await one.job()
    assert await refuse(one, job, NO_CHOICE_OF_JOB) == "queued"
    assert (await one.poll())["reason"] == "empty", "the job is delayed, and the worker is not excluded"
    row = await worker_harness.dispatch(job)
    assert (row["attempts"], row["requeues"], row["refused_by"]) == (0, 1, [one.worker_id])
    assert row["not_before"] is not None
    await worker_harness.central("UPDATE ai_job_dispatches SET not_before = NULL")
    await worker_harness.plane.rooms.jobs.dispatch.queue.maintain()
    assert await refuse(two, await two.job(), NO_CHOICE_OF_JOB) == "failed"


async def test_an_engine_that_contradicts_itself_cannot_requeue_a_job_forever(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    worker = await worker_harness.worker(environment=WHOLE)
    job_id = (await worker_harness.engine_job(ann))["id"]
    for _ in range(worker_harness.plane.settings.jobs.free_requeues + 3):
        await worker_harness.central("UPDATE ai_job_dispatches SET not_before = NULL")
        await worker_harness.plane.rooms.jobs.dispatch.queue.maintain()
        await report(worker_harness, worker, WHOLE)
        status = await refuse(worker, await worker.job(), NO_MODEL)
    assert status == "failed"
    assert (await worker_harness.shown(ann, job_id))["error"]["type"] == "invalid_workflow"
    assert await worker_harness.balance(ann) == 1000


@pytest.mark.parametrize("inputs", [NO_MODEL, NO_CHOICE_OF_JOB], ids=["of_workflow", "of_job"])
async def test_the_last_able_worker_leaves_while_the_job_goes_back(
    worker_harness: WorkerHarness, ann: Person, inputs: list[Json]
) -> None:
    losing = await worker_harness.worker(environment=WHOLE)
    job_id = (await worker_harness.engine_job(ann))["id"]
    job = await losing.job()
    last = await worker_harness.worker(environment=WHOLE)
    async with in_process(worker_harness, losing) as pausable:
        async with paused_at(Failpoint.REFUSAL_BEFORE_REQUEUE, refuse(pausable, job, inputs)) as refusing:
            await last.deregister("leaves")
        assert await refusing == "queued"
    await worker_harness.central("UPDATE ai_job_dispatches SET not_before = NULL")
    await worker_harness.plane.rooms.jobs.dispatch.queue.maintain()
    if inputs is NO_MODEL:
        assert await why(worker_harness, ann, job_id) == f"No worker has the model {MODEL}."
        back = await worker_harness.worker(environment=WHOLE)
        assert (await back.job())["job_id"] == job_id
        return
    assert await refuse(losing, await losing.job(), inputs) == "failed"
    assert await worker_harness.balance(ann) == 1000


async def test_a_newer_report_of_the_worker_wins_over_its_refusal(worker_harness: WorkerHarness, ann: Person) -> None:
    worker = await worker_harness.worker(environment=WHOLE)
    await worker_harness.engine_job(ann)
    job = await worker.job()
    central = worker_harness.plane.databases.central
    other = await worker_harness.worker(environment={**WHOLE, "engine_versions": ["0.8.0"]})
    take = """UPDATE comfyui_workers SET environment = (
        SELECT environment FROM comfyui_workers WHERE worker_id = $2) WHERE worker_id = $1"""
    async with open_transaction(central, take, worker.worker_id, other.worker_id):
        [refusing] = await start_blocked(central, refuse(worker, job, NO_MODEL))
    assert await refusing == "queued"
    assert (await worker.job())["dispatch_id"] == job["dispatch_id"], "what it reported last counts"


async def test_a_killed_control_plane_leaves_the_lease_and_the_repeated_report_ends_it(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    worker = await worker_harness.worker(environment=WHOLE)
    await worker_harness.engine_job(ann)
    job = await worker.job()
    async with in_process(worker_harness, worker) as pausable:
        async with paused_at(Failpoint.REFUSAL_BEFORE_REQUEUE, refuse(pausable, job, NO_MODEL)) as refusing:
            assert (await worker_harness.dispatch(job))["status"] == "leased"
            # The repeated report finds the worker excluded already.
            assert await refuse(worker, job, NO_MODEL) == "queued"
        assert await refusing == "queued"
    row = await worker_harness.dispatch(job)
    assert (row["attempts"], row["requeues"]) == (0, 1)


@pytest.mark.parametrize(
    ("value", "expected"), [("__MODEL__", []), (MODEL, [("model", MODEL)]), ("other.safetensors", [])]
)
def test_a_value_of_a_placeholder_is_never_a_fault_of_the_workflow(value: str, expected: list[Any]) -> None:
    graph = {"1": {"class_type": "Loader", "inputs": {"name": value if value == "__MODEL__" else MODEL}}}
    refused = RefusedInput(node_id="1", node_class="Loader", input_name="name", value=value)
    assert [(lack.kind, lack.name) for lack in missing_for(graph, ["__MODEL__"], [refused])] == expected
