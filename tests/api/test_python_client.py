"""`callsheet.client` against a running control plane: both clients, lost responses, and servers that are killed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.client import AsyncCallsheet, AsyncJobHandle, Callsheet, JobHandle, JobNotCompleted, NotEnded, requests
from callsheet.client.errors import (
    ClientError,
    IdempotencyKeyReused,
    InsufficientTokens,
    InvalidRequest,
    NotAuthenticated,
    NotConnected,
    NotFound,
    UnusableFile,
)
from callsheet.wire.jobs import JobEvent, JobProgress
from callsheet.wire.tenant.service_keys import CreateServiceKey, ServiceScope
from tests.support.database.installation import changed
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import MP4, PNG, CatalogApi
from tests.support.http.scripted_worker import ScriptedWorker, described
from tests.support.http.worker_harness import OUTPUT, WorkerHarness
from tests.support.programs.control_plane_process import control_plane_process
from tests.support.run.ports import free_port
from tests.support.waiting import until
from tests.worker.failing_proxies import refusing_proxy_to

AnyClient = Callsheet | AsyncCallsheet
COST = 7


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


@pytest.fixture
async def effect(catalog_api: CatalogApi) -> dict[str, Any]:
    return await catalog_api.effect(credits_cost=COST)


@pytest.fixture
async def ann(catalog_api: CatalogApi) -> Person:
    return await catalog_api.person(tokens=100)


@pytest.fixture(params=[Callsheet, AsyncCallsheet])
def kind(request: pytest.FixtureRequest) -> type[AnyClient]:
    chosen: type[AnyClient] = request.param
    return chosen


@pytest.fixture
async def callsheet(kind: type[AnyClient], plane: ControlPlane, ann: Person) -> AsyncIterator[AnyClient]:
    opened = kind(plane.settings.public_url, ann.key, retry_seconds=20)
    yield opened
    await call(opened.close)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    (tmp_path / "in.mp4").write_bytes(MP4)
    return tmp_path / "in.mp4"


async def call(method: Any, *given: Any, **named: Any) -> Any:
    """Calls a method of either client. The one without an event loop must not block that of the control plane."""
    if inspect.iscoroutinefunction(method):
        return await method(*given, **named)
    return await asyncio.to_thread(method, *given, **named)


async def everything(stream: Any) -> list[Any]:
    if isinstance(stream, Iterator):
        return await asyncio.to_thread(list, stream)
    return [item async for item in stream]


async def balance(client: httpx.AsyncClient, person: Person) -> int:
    return int((await client.get("/api/wallet", headers=person.headers)).json()["balance"])


async def complete(worker: ScriptedWorker, lease: dict[str, Any]) -> None:
    await worker.deliver(lease, OUTPUT)
    response = await worker.complete(lease, output=described(OUTPUT, "video/mp4"))
    assert response.status_code == 200, response.text


async def test_run_uploads_submits_waits_and_fetches(
    callsheet: AnyClient, effect: dict[str, Any], worker_harness: WorkerHarness, clip: Path, tmp_path: Path
) -> None:
    worker = await worker_harness.worker(workflow_slugs=[effect["workflow"]])
    sent: list[tuple[int, int]] = []
    seen: list[JobProgress] = []
    image = tmp_path / "over.png"
    image.write_bytes(PNG)
    given = {"video": clip, "overlay": image, "prompt": "a cat", "strength": 0.5, "client_reference": "order-7"}
    given["metadata"] = {"page": "12"}
    heard: dict[str, Any] = {"on_upload": lambda done, size: sent.append((done, size)), "on_progress": seen.append}
    running = asyncio.create_task(call(callsheet.run, effect["slug"], **given, **heard))
    lease = await worker.job(wait_seconds=20)
    assert await worker.download(lease["input_url"]) == MP4
    await worker.heartbeat(lease, run_started=True, progress={"percent": 40.0, "message": "sampling"})
    await until(lambda: seen)
    await complete(worker, lease)
    result = await running
    assert (result.mime_type, result.size) == ("video/mp4", len(OUTPUT))
    assert await call(result.read) == OUTPUT
    assert (await call(result.save, tmp_path / "out.mp4")).read_bytes() == OUTPUT
    assert {(len(MP4), len(MP4)), (len(PNG), len(PNG))} <= set(sent)
    assert seen[0].percent == 40.0
    assert (await call(callsheet.wallet)).balance == 100 - COST
    [job] = (await call(callsheet.request, "GET", "/api/ai-jobs?client_reference=order-7"))["items"]
    assert (job["status"], job["client_reference"], job["metadata"]) == ("completed", "order-7", {"page": "12"})


async def test_a_batch_is_submitted_waited_for_and_saved(
    callsheet: AnyClient, effect: dict[str, Any], worker_harness: WorkerHarness, clip: Path, tmp_path: Path
) -> None:
    worker = await worker_harness.worker(workflow_slugs=[effect["workflow"]])
    other = tmp_path / "other.mp4"
    other.write_bytes(MP4)
    items = [clip, {"file": other, "strength": 0.5}, {"video": clip, "prompt": "a dog"}]
    seen: list[Any] = []
    batch = await call(callsheet.batch, effect["slug"], items, values={"prompt": "a cat"}, client_reference="order-7")
    assert (batch.now.items, batch.now.cost, batch.now.client_reference) == (3, 3 * COST, "order-7")
    waiting = asyncio.create_task(call(batch.wait, seen.append))
    for _ in range(3):
        await complete(worker, await worker.job(wait_seconds=20))
    ended = await waiting
    assert (ended.status, ended.counts.completed) == ("finished", 3)
    assert seen[-1] == ended
    results = tmp_path / "results"
    results.mkdir()
    saved = await call(batch.save, results)
    assert [path.name for path in saved] == ["0001-in.mp4", "0002-other.mp4", "0003-in.mp4"]
    assert {path.read_bytes() for path in saved} == {OUTPUT}
    found = await call(callsheet.batch_of, batch.id)
    prompts = [(await call(callsheet.job, job.id)).now.prompt for job in await call(found.jobs)]
    assert ["dog" in prompt for prompt in prompts] == [False, False, True]
    archive = await call(found.save_archive, tmp_path / "all.zip")
    assert archive.stat().st_size > 3 * len(OUTPUT)
    grid = await call(
        callsheet.batch, effect["slug"], grid={"video": [clip], "strength": [1, 2]}, values={"prompt": "a"}
    )
    assert grid.now.items == 2
    assert (await call(grid.cancel)).counts.canceled == 2
    assert (await call(grid.retry)).counts.canceled == 2
    with pytest.raises(InvalidRequest, match="has no such property"):
        await call(callsheet.batch, effect["slug"], [{"file": clip, "colour": "red"}])


async def test_a_job_is_found_again_watched_and_canceled(
    callsheet: AnyClient, kind: type[AnyClient], effect: dict[str, Any]
) -> None:
    file = await call(callsheet.upload, MP4, "in.mp4")
    job = await call(callsheet.submit, effect["slug"], file=file, prompt="a cat", idempotency_key="order-1")
    assert isinstance(job, JobHandle if kind is Callsheet else AsyncJobHandle)
    again = await call(callsheet.submit, effect["slug"], file=file, prompt="a cat", idempotency_key="order-1")
    assert (await call(callsheet.job, str(job.id))).id == again.id == job.id
    streaming = asyncio.create_task(everything(job.stream()))
    waiting = asyncio.create_task(call(again.wait))
    assert (await call(job.cancel)).status == job.status == "canceled"
    assert [item.to_status for item in await streaming if isinstance(item, JobEvent)][-1] == "canceled"
    with pytest.raises(JobNotCompleted, match=f"Job {job.id} was canceled") as ended:
        await waiting
    assert ended.value.job.status == again.status == "canceled"
    assert (await call(job.cancel)).status == "canceled"
    assert (await call(callsheet.wallet)).balance == 100


async def test_waiting_has_a_limit(plane: ControlPlane, ann: Person, effect: dict[str, Any], clip: Path) -> None:
    with Callsheet(plane.settings.public_url, ann.key) as callsheet:
        job = await asyncio.to_thread(callsheet.submit, effect["slug"], file=clip, prompt="a cat")
        with pytest.raises(NotEnded, match="It goes on"):
            await asyncio.to_thread(job.wait, timeout=0.2)
        assert await asyncio.to_thread(job.refresh) == job.now
    async with AsyncCallsheet(plane.settings.public_url, ann.key) as looped:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await (await looped.job(job.id)).wait()


async def test_a_refusal_has_the_class_of_its_code(
    callsheet: AnyClient, kind: type[AnyClient], catalog_api: CatalogApi, ann: Person, clip: Path
) -> None:
    dear = await catalog_api.effect(credits_cost=1000)
    file = await call(callsheet.upload, clip)
    with pytest.raises(InsufficientTokens, match="costs 1000 tokens, and the wallet of the user has 100") as poor:
        await call(callsheet.submit, dear["slug"], file=file, prompt="a cat")
    assert poor.value.data == {"required_tokens": 1000, "balance": 100, "paid_by": "user"}
    assert (poor.value.code, poor.value.status) == ("insufficient_tokens", 402)
    assert poor.value.request_id
    with pytest.raises(InvalidRequest) as wrong:
        await call(callsheet.submit, dear["slug"], file=file, prompt="a cat", strength=99)
    assert [error.field for error in wrong.value.errors] == ["input_payload.strength"]
    with pytest.raises(NotFound):
        await call(callsheet.job, uuid4())
    stranger = kind(callsheet.url, "cs_wrong")
    with pytest.raises(NotAuthenticated) as unknown:
        await call(stranger.wallet)
    assert unknown.value.status == 401
    await call(stranger.close)


async def test_what_cannot_be_sent_is_refused_before_it_is_uploaded(
    callsheet: AnyClient, effect: dict[str, Any], clip: Path, client: httpx.AsyncClient, ann: Person
) -> None:
    with pytest.raises(InvalidRequest, match=r"has no such property\. It has: overlay, prompt"):
        await call(callsheet.submit, effect["slug"], image=clip, prompt="a cat")
    (clip.parent / "empty.mp4").touch()
    for wrong, reason in (("none.mp4", "cannot be read"), ("empty.mp4", "is empty"), ("in.doc", "extension")):
        with pytest.raises(UnusableFile, match=reason):
            await call(callsheet.submit, effect["slug"], video=clip.parent / wrong, prompt="a cat")
    me = (await client.get("/api/me", headers=ann.headers)).json()
    assert me["storage"]["user"]["files"] == 0


async def test_a_server_acts_for_a_user_of_its_tenant(
    kind: type[AnyClient], plane: ControlPlane, client: httpx.AsyncClient, ann: Person, effect: dict[str, Any]
) -> None:
    wanted = CreateServiceKey(name="shop", scopes=list(ServiceScope))
    key = await plane.rooms.identity.service_keys.create(ann.tenant.id, wanted, "operator", may_credit=True)
    callsheet = kind(plane.settings.public_url, key.key, on_behalf_of=f"email:{ann.user.email}")
    file = await call(callsheet.upload, MP4, "in.mp4")
    job = await call(callsheet.submit, effect["slug"], file=file, prompt="a cat")
    assert (await call(callsheet.wallet)).held == COST
    await call(callsheet.close)
    listed = (await client.get("/api/ai-jobs", headers=ann.headers)).json()["items"]
    assert [each["id"] for each in listed] == [str(job.id)]
    with pytest.raises(ClientError, match="printable ASCII"):
        kind(plane.settings.public_url, key.key, on_behalf_of="external:\u20ac")


async def test_g5_a_submit_whose_response_was_lost_is_charged_once(
    kind: type[AnyClient], plane: ControlPlane, client: httpx.AsyncClient, ann: Person, effect: dict[str, Any]
) -> None:
    async with refusing_proxy_to(plane.settings.public_url) as proxy:
        proxy.swallows.add("/api/ai-jobs")
        callsheet = kind(proxy.url, ann.key, retry_seconds=60)
        file = await call(callsheet.upload, MP4, "in.mp4")
        submitting = asyncio.create_task(call(callsheet.submit, effect["slug"], file=file, prompt="a cat"))

        async def is_charged() -> bool:
            return await balance(client, ann) == 100 - COST

        await until(is_charged)
        proxy.swallows.clear()
        job = await submitting
        await call(callsheet.close)
    listed = (await client.get("/api/ai-jobs", headers=ann.headers)).json()["items"]
    assert [each["id"] for each in listed] == [str(job.id)]
    assert await balance(client, ann) == 100 - COST


async def test_a_server_that_is_not_there_is_reported_without_waiting_for_a_restart(
    kind: type[AnyClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "FIRST_SECONDS", 0.3)
    callsheet = kind(f"http://127.0.0.1:{free_port()}", "cs_key", retry_seconds=3600)
    with pytest.raises(NotConnected, match=r"No control plane responds at http://127.*Check the host and the port"):
        await call(callsheet.effects)
    await call(callsheet.close)


async def test_another_request_with_the_same_key_is_refused(callsheet: AnyClient, effect: dict[str, Any]) -> None:
    file = await call(callsheet.upload, MP4, "in.mp4")
    await call(callsheet.submit, effect["slug"], file=file, prompt="a cat", idempotency_key="order-2")
    with pytest.raises(IdempotencyKeyReused):
        await call(callsheet.submit, effect["slug"], file=file, prompt="a dog", idempotency_key="order-2")


async def test_g9_waiting_and_watching_go_on_when_the_control_plane_was_killed(
    kind: type[AnyClient],
    plane: ControlPlane,
    ann: Person,
    effect: dict[str, Any],
    worker_harness: WorkerHarness,
    clip: Path,
    tmp_path: Path,
) -> None:
    settings = changed(plane.settings, server={"port": free_port()})
    worker = await worker_harness.worker(workflow_slugs=[effect["workflow"]])
    seen: list[JobProgress] = []
    lost: list[str] = []
    async with control_plane_process(settings, tmp_path) as process:
        callsheet = kind(settings.public_url, ann.key, retry_seconds=120)
        job = await call(callsheet.submit, effect["slug"], video=clip, prompt="a cat")
        waiting = asyncio.create_task(call(job.wait, on_progress=seen.append))
        streaming = asyncio.create_task(everything(job.stream(on_lost=lost.append)))
        lease = await worker.job(wait_seconds=20)
        await worker.heartbeat(lease, run_started=True, progress={"percent": 40.0})
        await until(lambda: seen)
        await process.kill()
        await until(lambda: lost)
        await complete(worker, lease)
        await process.start()
        await waiting
        assert await call(job.file.read) == OUTPUT
        events = [item for item in await streaming if isinstance(item, JobEvent)]
        await call(callsheet.close)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].to_status == "completed"


async def test_a_quote_of_a_batch_is_what_the_batch_costs_also_before_its_files_are_uploaded(
    callsheet: AnyClient, catalog_api: CatalogApi, clip: Path
) -> None:
    effect = await catalog_api.effect(price_formula="strength * 3")
    grid, values = {"strength": [1, 2]}, {"prompt": "a cat"}
    early = await call(callsheet.quote_batch, effect["slug"], grid=grid, values=values)
    assert (early.cost, early.jobs, [each.field for each in early.missing]) == (9, 2, ["grid.input_file_ids"])
    whole = {"file": [await call(callsheet.upload, clip)], **grid}
    quote = await call(callsheet.quote_batch, effect["slug"], grid=whole, values=values)
    assert (quote.cost, quote.jobs, quote.missing) == (9, 2, [])
    batch = await call(callsheet.batch, effect["slug"], grid=whole, values=values)
    assert batch.now.cost == quote.cost


async def test_a_quote_is_what_the_submit_of_the_same_file_costs(
    callsheet: AnyClient, catalog_api: CatalogApi, clip: Path
) -> None:
    effect = await catalog_api.effect(price_formula="strength * 3")
    uploaded = await call(callsheet.upload, clip)
    quote = await call(callsheet.quote, effect["slug"], video=uploaded, prompt="a cat", strength=2)
    assert (quote.cost, quote.balance, quote.missing, quote.can_submit) == (6, 100, [], True)
    job = await call(callsheet.submit, effect["slug"], video=uploaded, prompt="a cat", strength=2)
    assert job.now.cost == quote.cost
    incomplete = await call(callsheet.quote, effect["slug"], strength=2)
    assert (incomplete.cost, incomplete.can_submit) == (6, False)
    assert {each.field for each in incomplete.missing} == {"input_file_id", "input_payload.prompt"}
