"""The worker protocol as a worker lives it, on local storage and on S3, with tenants in two pools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.fleet.protocol.worker_protocol import open_protocol
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.worker.protocol import CompleteRequest, CompleteResponse
from tests.support.http.accounts import Person
from tests.support.http.catalog_api import MP4, CatalogApi
from tests.support.http.catalog_api import PNG as OVERLAY
from tests.support.http.responses import assert_refused
from tests.support.http.scripted_worker import ScriptedWorker, described
from tests.support.http.worker_harness import INPUT, OUTPUT, PNG, WorkerHarness, open_worker_harness
from tests.support.jobs.crashes import crashed_at
from tests.support.jobs.race_control import paused_at
from tests.support.rooms import EveryProvider
from tests.support.waiting import until


@pytest.fixture
async def worker_harness(stored_plane: ControlPlane) -> AsyncIterator[WorkerHarness]:
    async with open_worker_harness(stored_plane) as worker_harness:
        yield worker_harness


async def test_a_job_goes_from_poll_to_delivered_file_for_tenants_of_two_pools(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    for pool in ("pool_1", "pool_2"):
        person = await worker_harness.jobs_api.person(pool, tokens=10)
        submitted = await worker_harness.engine_job(person)
        job = await worker.job()
        assert (job["job_id"], job["tenant_id"]) == (submitted["id"], str(person.tenant.id))
        assert (await worker.heartbeat(job, run_started=True)).status_code == 200
        assert await worker.download(job["input_url"]) == INPUT
        await worker.deliver(job, OUTPUT)
        response = await worker.complete(job, output={**described(OUTPUT, "video/mp4"), "metadata": {"frames": 24}})
        assert response.json() == {"job_id": submitted["id"], "status": "completed"}

        shown = await worker_harness.shown(person, submitted["id"])
        assert shown["status"] == "completed"
        [file] = await worker_harness.files(person, submitted["id"])
        assert shown["result"] == {
            "outputs": [{"file_id": str(file["id"]), "name": "output.mp4", **described(OUTPUT, "video/mp4")}],
            "metadata": {"frames": 24},
        }
        assert file["path"].startswith(f"tenants/{person.tenant.id}/ai-jobs/{submitted['id']}/output-")
        assert (file["metadata"], file["disk"]) == ({"frames": 24}, worker_harness.plane.settings.storage.backend)
        assert await worker_harness.plane.rooms.storage.read(file["path"], 1000) == OUTPUT
        assert (await worker_harness.row(person, submitted["id"]))["output_file_id"] == file["id"]
        assert await worker_harness.balance(person) == 3


async def test_a_leased_job_has_every_field_that_a_worker_needs(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    await worker_harness.engine_job(person)
    job = await worker.job()
    assert job["lease_ttl_seconds"] == 900
    assert datetime.fromisoformat(job["lease_expires_at"]) > datetime.now(UTC) + timedelta(minutes=14)
    assert (job["kind"], job["actor"], job["provider"]) == ("effect", None, "self_hosted")
    assert (job["effect_id"], job["run_limit_seconds"]) == (None, 3600)
    [asset] = job["input_payload"]["assets"]
    assert "path" not in asset
    assert asset["download_url"] == job["input_url"]
    assert (asset["key"], asset["placeholder"], asset["is_primary_input"]) == ("video", "__INPUT_PATH__", True)
    assert job["input_payload"]["workflow"]["9"]["class_type"] == "SaveVideo"
    assert job["input_file"] == {
        "name": "clip.mp4",
        "mime_type": "video/mp4",
        "content_hash": asset["content_hash"],
    }
    assert job["output_file"] == {"name": "output.mp4", "extension": "mp4", "mime_type": "video/mp4"}
    assert job["output_headers"]["Content-Type"] == "video/mp4"


async def test_several_outputs_are_announced_uploaded_and_listed(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    files = {"first.png": ("image/png", PNG), "second.PNG": ("image/png", PNG + b"2"), "log": ("text/plain", b"ok")}
    outputs = await worker.deliver_named(job, files)
    response = await worker.complete(job, outputs=outputs, metadata={"seed": 4})
    assert response.json()["status"] == "completed"
    result = (await worker_harness.shown(person, submitted["id"]))["result"]
    assert [output["name"] for output in result["outputs"]] == list(files)
    assert result["metadata"] == {"seed": 4}
    stored = {row["id"]: row for row in await worker_harness.files(person, submitted["id"])}
    assert {row["path"].rpartition(".")[2] for row in stored.values()} == {"png", "bin"}
    first = (await worker_harness.row(person, submitted["id"]))["output_file_id"]
    assert str(first) == result["outputs"][0]["file_id"]


async def test_the_single_output_and_named_outputs_can_be_combined(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    await worker.deliver(job, OUTPUT)
    outputs = await worker.deliver_named(job, {"poster.png": ("image/png", PNG)})
    response = await worker.complete(job, output=described(OUTPUT, "video/mp4"), outputs=outputs)
    assert response.json()["status"] == "completed"
    result = (await worker_harness.shown(person, submitted["id"]))["result"]
    assert [output["name"] for output in result["outputs"]] == ["output.mp4", "poster.png"]


async def test_an_upload_that_differs_from_the_announcement_is_refused(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    await worker_harness.engine_job(person)
    job = await worker.job()
    announced = {"name": "a.png", **described(PNG, "image/png")}
    [upload] = (await worker.heartbeat(job, outputs=[announced])).json()["uploads"]
    assert (upload["name"], upload["method"]) == ("a.png", "PUT")
    other = bytes(reversed(PNG))
    assert (await worker.upload(upload["url"], upload["headers"], other)).status_code >= 400
    assert (await worker.upload(upload["url"], upload["headers"], PNG)).status_code == 200


async def test_an_empty_output_is_refused_when_it_is_announced_and_when_it_is_reported(
    worker_harness: WorkerHarness,
) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    await worker_harness.engine_job(person)
    job = await worker.job()
    announced = {"name": "a.png", **described(b"", "image/png")}
    refused = await worker.heartbeat(job, outputs=[announced])
    problem = assert_refused(refused, 422, "empty_output", "outputs.0.size")
    assert "'a.png' has 0 bytes" in problem["errors"][0]["reason"]

    await worker.deliver(job, b"")
    refused = await worker.complete(job, output=described(b"", "video/mp4"))
    problem = assert_refused(refused, 422, "content_mismatch", "output")
    assert "Report a failure of the type empty_output" in problem["errors"][0]["reason"]


@pytest.mark.parametrize(
    ("delivered", "claimed", "reason"),
    [
        (None, OUTPUT, "was not uploaded"),
        (b"", OUTPUT, "is empty"),
        (OUTPUT + b"more", OUTPUT, "its declared size"),
        (bytes(reversed(OUTPUT)), OUTPUT, "has the SHA-256"),
    ],
)
async def test_a_completion_without_the_file_is_refused_and_consumes_nothing(
    worker_harness: WorkerHarness, delivered: bytes | None, claimed: bytes, reason: str
) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    if delivered is not None:
        await worker.deliver(job, delivered)
    refused = await worker.complete(job, output=described(claimed, "video/mp4"))
    problem = assert_refused(refused, 422, "content_mismatch", "output")
    assert reason in problem["errors"][0]["reason"]
    assert (await worker_harness.shown(person, submitted["id"]))["status"] == "processing"
    assert await worker_harness.files(person, submitted["id"]) == []

    # Still its worker's: it uploads, and reports again.
    await worker.deliver(job, claimed)
    assert (await worker.complete(job, output=described(claimed, "video/mp4"))).json()["status"] == "completed"


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("delivered", "called", "name", "served_as", "disposition"),
    [
        (OUTPUT, "video/mp4", "output.mp4", "video/mp4", None),
        (PNG, "video/mp4", "output.png", "image/png", None),
        (
            b"<!doctype html><script>alert(1)</script>",
            "image/png",
            "output.bin",
            "application/octet-stream",
            'attachment; filename="output.bin"',
        ),
        (
            b"#EXTM3U\n#EXTINF:1,\nhttp://169.254.169.254/\n",
            "video/mp4",
            "output.bin",
            "application/octet-stream",
            'attachment; filename="output.bin"',
        ),
        (
            b"<script>alert(1)</script>",
            "text/html",
            "output.html",
            "application/octet-stream",
            'attachment; filename="output.html"',
        ),
        (
            b"alert(1)",
            "text/javascript",
            "output.js",
            "application/octet-stream",
            'attachment; filename="output.js"',
        ),
        (
            b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
            "image/svg+xml",
            "output.svg",
            "application/octet-stream",
            'attachment; filename="output.svg"',
        ),
        (b"a caption", "text/plain", "output.txt", "text/plain", 'attachment; filename="output.txt"'),
    ],
    ids=["video", "image", "page", "playlist", "declared page", "script", "drawing", "text"],
)
async def test_a_result_is_served_with_the_type_of_its_bytes(
    worker_harness: WorkerHarness, delivered: bytes, called: str, name: str, served_as: str, disposition: str | None
) -> None:
    """From the origin of S3 too, where the object keeps the type that its worker put it with."""
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    await worker.deliver(job, delivered)
    assert (await worker.complete(job, output=described(delivered, called))).json()["status"] == "completed"
    [output] = (await worker_harness.shown(person, submitted["id"]))["result"]["outputs"]
    file = (await worker_harness.jobs_api.get(person, f"/api/files/{output['file_id']}")).json()
    assert (output["name"], output["mime_type"]) == (file["name"], file["mime_type"])
    assert output["name"] == name
    served = await worker_harness.client.get(file["url"])
    assert (served.status_code, served.content) == (200, delivered)
    assert (served.headers["content-type"], served.headers.get("content-disposition")) == (served_as, disposition)


@pytest.mark.parametrize(
    ("name", "content", "called", "saved_as"),
    [
        ("setup.exe", PNG, "image/png", "setup.png"),
        ("clip.mp4", PNG, "video/mp4", "clip.png"),
        ("a.png", b"<!doctype html><script>", "image/png", "a.bin"),
        ("page.pdf", b"<!doctype html><script>", "text/html", "page.html"),
        ("caption", b"a caption", "text/plain", "caption.txt"),
        ("n" * 250 + ".jpg", PNG, "image/png", "n" * 196 + ".png"),
        ("weights.safetensors", b"\x01\x02", "application/octet-stream", "weights.safetensors"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
async def test_the_name_of_a_download_ends_with_the_extension_of_its_type(
    worker_harness: WorkerHarness, name: str, content: bytes, called: str, saved_as: str
) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    outputs = await worker.deliver_named(job, {name: (called, content)})
    assert (await worker.complete(job, outputs=outputs)).json()["status"] == "completed"
    [output] = (await worker_harness.shown(person, submitted["id"]))["result"]["outputs"]
    file = (await worker_harness.jobs_api.get(person, f"/api/files/{output['file_id']}?download=true")).json()
    assert file["name"] == name
    served = await worker_harness.client.get(file["url"])
    assert served.headers["content-disposition"] == f'attachment; filename="{saved_as}"'


async def test_fresh_urls_come_with_a_heartbeat(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    fresh = (await worker.heartbeat(job, refresh_inputs=True)).json()
    [asset] = fresh["inputs"]
    assert (asset["key"], asset["placeholder"]) == ("video", "__INPUT_PATH__")
    assert await worker.download(asset["download_url"]) == INPUT
    assert await worker.download(fresh["input_url"]) == INPUT
    await worker.deliver(fresh, OUTPUT)
    assert (await worker.complete(job, output=described(OUTPUT, "video/mp4"))).json()["status"] == "completed"
    assert (await worker_harness.shown(person, submitted["id"]))["status"] == "completed"


async def test_urls_expire_with_the_lease_and_are_replaced_by_a_heartbeat(worker_harness: WorkerHarness) -> None:
    """The first URLs are signed for two seconds, and are refused after that, though the lease was renewed."""
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    lasts = "UPDATE ai_job_dispatches SET lease_seconds = $2 WHERE tenant_job_id = $1"
    await worker_harness.central(lasts, UUID(submitted["id"]), 2)
    job = await worker.job()
    first = job["output_url"]
    # From its next heartbeat on, the lease does not end while the machine is paused.
    await worker_harness.central(lasts, UUID(submitted["id"]), 900)

    async def is_refused() -> bool:
        await worker.heartbeat(job)
        return (await worker.upload(first, job["output_headers"], OUTPUT)).status_code == 403

    await until(is_refused)
    fresh = (await worker.heartbeat(job, refresh_inputs=True)).json()
    assert fresh["output_url"] != first
    await worker.deliver(fresh, OUTPUT)
    assert (await worker.complete(job, output=described(OUTPUT, "video/mp4"))).json()["status"] == "completed"


async def test_g3_a_worker_with_a_lost_lease_cannot_overwrite_an_accepted_output(worker_harness: WorkerHarness) -> None:
    """The signed URLs of its lease are still valid, but lead to an object of that lease alone."""
    zombie, other = await worker_harness.worker(), await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    stale = await zombie.job()
    await worker_harness.jobs_api.core.expire_lease(stale["dispatch_id"])
    await worker_harness.jobs_api.core.reap()
    job = await other.job()
    assert job["job_id"] == stale["job_id"]
    await other.deliver(job, OUTPUT)
    await other.complete(job, output=described(OUTPUT, "video/mp4"))

    await zombie.deliver(stale, b"overwritten")
    assert_refused(await zombie.complete(stale, output=described(b"overwritten", "video/mp4")), 409, "lease_lost")
    [file] = await worker_harness.files(person, submitted["id"])
    assert await worker_harness.plane.rooms.storage.read(file["path"], 1000) == OUTPUT


async def outputs_of(worker_harness: WorkerHarness, person: Person, job_id: str) -> set[str]:
    """Every object in the job's folder."""
    folder = f"tenants/{person.tenant.id}/ai-jobs/{job_id}"
    return {entry.key async for entry in worker_harness.plane.rooms.storage.list(folder)}


async def swept(worker_harness: WorkerHarness, person: Person) -> None:
    """What the sweeper does by tomorrow, with whatever other tests left."""
    pool = await worker_harness.plane.databases.pool(person.tenant.pool)
    while await worker_harness.plane.rooms.media.sweeper.sweep(pool, datetime.now(UTC) + timedelta(days=1)):
        pass


async def test_an_accepted_output_cannot_be_replaced_by_its_own_worker(worker_harness: WorkerHarness) -> None:
    """Its signed URL is still good, and nothing that it stores from now on is ever served."""
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    # The answer to the first PUT may be lost on the way: until it is accepted, an output may be uploaded again.
    await worker.deliver(job, b"a first attempt")
    await worker.deliver(job, OUTPUT)
    assert (await worker.complete(job, output=described(OUTPUT, "video/mp4"))).json()["status"] == "completed"
    [file] = await worker_harness.files(person, submitted["id"])

    async def upload_is_deleted() -> bool:
        return await outputs_of(worker_harness, person, submitted["id"]) == {file["path"]}

    await until(upload_is_deleted)
    await worker.deliver(job, OUTPUT[::-1])
    [shown] = (await worker_harness.shown(person, submitted["id"]))["outputs"]
    assert await worker.download(shown["url"]) == OUTPUT
    assert len(await outputs_of(worker_harness, person, submitted["id"])) == 2
    await swept(worker_harness, person)
    assert await outputs_of(worker_harness, person, submitted["id"]) == {file["path"]}


async def test_an_accepted_output_cannot_be_replaced_by_announcing_its_name_again(
    worker_harness: WorkerHarness,
) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    other = PNG[:-1] + b"!"
    second = {"name": "a.png", **described(other, "image/png")}
    [kept_back] = (await worker.heartbeat(job, outputs=[second])).json()["uploads"]
    outputs = await worker.deliver_named(job, {"a.png": ("image/png", PNG)})
    assert (await worker.complete(job, outputs=outputs)).json()["status"] == "completed"
    assert (await worker.upload(kept_back["url"], kept_back["headers"], other)).status_code == 200
    [shown] = (await worker_harness.shown(person, submitted["id"]))["outputs"]
    assert await worker.download(shown["url"]) == PNG


async def reported(worker_harness: WorkerHarness, worker: ScriptedWorker, job: dict[str, Any]) -> CompleteResponse:
    """A completion in the test's own context, where it can be stopped at a failpoint."""
    plane = worker_harness.plane
    principal = await plane.rooms.fleet.authentication.of(f"Bearer {worker.token}")
    protocol = open_protocol(
        plane.databases, plane.rooms.storage, plane.rooms.jobs, plane.rooms.fleet, plane.settings, EveryProvider()
    )
    lease = {name: job[name] for name in ("dispatch_id", "lease_token")}
    request = CompleteRequest.model_validate({**lease, "output": described(OUTPUT, "video/mp4")})
    return await protocol.reports.complete(principal, request)


async def test_bytes_uploaded_during_the_completion_do_not_become_the_output(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    await worker.deliver(job, OUTPUT)
    async with paused_at(Failpoint.COMPLETE_BEFORE_POOL, reported(worker_harness, worker, job)) as completing:
        await worker.deliver(job, OUTPUT[::-1])
    assert (await completing).status == "completed"
    [shown] = (await worker_harness.shown(person, submitted["id"]))["outputs"]
    assert await worker.download(shown["url"]) == OUTPUT


@pytest.mark.parametrize("point", [Failpoint.COMPLETE_BEFORE_POOL, Failpoint.OUTPUT_ACCEPTED_BEFORE_DELETE])
async def test_g12_a_crash_around_the_acceptance_keeps_the_output_once(
    worker_harness: WorkerHarness, point: Failpoint
) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    await worker.deliver(job, OUTPUT)
    assert await crashed_at(point, reported(worker_harness, worker, job))
    assert len(await outputs_of(worker_harness, person, submitted["id"])) == 2
    assert (await worker.complete(job, output=described(OUTPUT, "video/mp4"))).json()["status"] == "completed"
    [file] = await worker_harness.files(person, submitted["id"])
    await swept(worker_harness, person)
    assert await outputs_of(worker_harness, person, submitted["id"]) == {file["path"]}
    assert await worker_harness.plane.rooms.storage.read(file["path"], 1000) == OUTPUT
    assert await worker_harness.balance(person) == 3


async def test_a_refused_completion_leaves_no_copy_in_storage(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    await worker.deliver(job, b"something else")
    for _ in range(2):
        refused = await worker.complete(job, output=described(OUTPUT, "video/mp4"))
        assert_refused(refused, 422, "content_mismatch", "output")
    assert len(await outputs_of(worker_harness, person, submitted["id"])) == 1


@pytest.mark.parametrize("pool", ["pool_1", "pool_2"])
async def test_an_effect_is_applied_to_a_video_from_upload_to_result(worker_harness: WorkerHarness, pool: str) -> None:
    """All by HTTP: the catalog's graph and assets, a person's upload, the worker, and the result to download."""
    catalog_api = await CatalogApi.open(worker_harness.plane, worker_harness.client, worker_harness.jobs_api.people)
    recipe = await catalog_api.workflow()
    effect = await catalog_api.effect(recipe["slug"], credits_cost=5)
    person = await catalog_api.person(pool, tokens=8)
    video = await catalog_api.video(person)
    submitted = await catalog_api.submit(person, effect, video_id=video)

    worker = await worker_harness.worker(workflow_slugs=[recipe["slug"]])
    job = await worker.job(wait_seconds=20)
    assert (job["job_id"], job["effect_id"]) == (submitted["id"], effect["id"])
    assert job["input_payload"]["workflow"]["3"]["inputs"]["text"] == "a cat, in a noir look"
    downloads = {asset["key"]: await worker.download(asset["download_url"]) for asset in job["input_payload"]["assets"]}
    assert downloads == {"input": MP4, "overlay": OVERLAY}
    assert await worker.download(job["input_url"]) == MP4
    await worker.heartbeat(job, run_started=True, progress={"percent": 50, "message": "half"})
    shown = (await catalog_api.call("GET", f"/api/videos/{video}", person=person)).json()
    assert (shown["status"], shown["progress"]["percent"]) == ("processing", 50)
    await worker.deliver(job, OUTPUT)
    assert (await worker.complete(job, output=described(OUTPUT, "video/mp4"))).json()["status"] == "completed"

    shown = (await catalog_api.call("GET", f"/api/videos/{video}", person=person)).json()
    assert shown["status"] == "completed"
    assert await worker.download(shown["processed_file_url"]) == OUTPUT
    assert await worker_harness.balance(person) == 3

    async def is_timed() -> bool:
        sold = (await catalog_api.call("GET", f"/api/effects/{effect['slug']}")).json()
        return sold["last_processing_time_seconds"] is not None

    await until(is_timed)
