"""With `as_cloud`, Lightbox responds as Comfy Cloud does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from callsheet_lightbox.server import RunningLightbox
from tests.support.comfyui.graphs import Graph, node
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.waiting import until

KEY = "the-account's-key"
TERMINAL = ("success", "error", "cancelled")


@pytest_asyncio.fixture(scope="module")
async def cloud_engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningLightbox]:
    async with lightbox_here(tmp_path_factory.mktemp("cloud") / "engine", as_cloud=True, cloud_api_key=KEY) as running:
        yield running


@pytest_asyncio.fixture(scope="module")
async def cloud_account(cloud_engine: RunningLightbox) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"X-API-Key": KEY}
    async with httpx.AsyncClient(base_url=cloud_engine.url, headers=headers, timeout=60, trust_env=False) as opened:
        yield opened


def still(color: int) -> Graph:
    return {
        "1": node("EmptyImage", width=16, height=16, batch_size=1, color=color),
        "2": node("SaveImage", images=["1", 0], filename_prefix="cloud"),
    }


def sleeping(seconds: float) -> Graph:
    sleep = node("ProbeSleep", image=["1", 0], seconds=seconds, steps=round(seconds * 20), preview=False)
    return {**still(1), "3": sleep, "2": node("SaveImage", images=["3", 0], filename_prefix="cloud")}


async def submit(account: httpx.AsyncClient, graph: Graph) -> str:
    response = await account.post("/api/prompt", json={"prompt": graph, "client_id": "ignored"})
    assert response.status_code == 200
    return str(response.json()["prompt_id"])


async def ended(account: httpx.AsyncClient, job_id: str) -> str:
    found: dict[str, Any] = {}

    async def is_terminal() -> bool:
        found.update((await account.get(f"/api/job/{job_id}/status")).json())
        return found["status"] in TERMINAL

    await until(is_terminal)
    return str(found["status"])


async def until_status(account: httpx.AsyncClient, job_id: str, status: str) -> None:
    async def is_there() -> bool:
        return bool((await account.get(f"/api/job/{job_id}/status")).json()["status"] == status)

    await until(is_there)


async def test_every_request_without_the_key_is_refused(cloud_engine: RunningLightbox) -> None:
    async with httpx.AsyncClient(base_url=cloud_engine.url, timeout=60) as stranger:
        for headers in ({}, {"X-API-Key": "wrong"}, {"X-API-Key": "nicht-äscii".encode("latin-1")}):
            for method, path in (("POST", "/api/prompt"), ("GET", "/api/jobs"), ("GET", "/api/view?filename=x")):
                assert (await stranger.request(method, path, headers=headers)).status_code == 401
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{cloud_engine.url.replace('http', 'ws')}/ws?clientId=x", proxy=None)
        assert refused.value.response.status_code == 401


async def test_an_account_that_cannot_pay_is_refused_with_the_reason(cloud_engine: RunningLightbox) -> None:
    async with httpx.AsyncClient(base_url=cloud_engine.url, timeout=60) as client:
        for key, status in (("key-without-credits", 402), ("key-of-inactive-subscription", 429)):
            response = await client.post("/api/prompt", json={"prompt": still(1)}, headers={"X-API-Key": key})
            assert response.status_code == status


async def test_a_job_succeeds_and_its_file_has_a_signed_url(
    cloud_account: httpx.AsyncClient, cloud_engine: RunningLightbox
) -> None:
    job_id = await submit(cloud_account, still(0x102030))
    assert await ended(cloud_account, job_id) == "success"
    job = (await cloud_account.get(f"/api/jobs/{job_id}")).json()
    assert job["status"] == "completed"
    (file,) = job["outputs"]["2"]["images"]
    assert (await cloud_account.get(f"/api/history_v2/{job_id}")).json()[job_id]["outputs"] == job["outputs"]
    listed = (await cloud_account.get("/api/history_v2")).json()["history"]
    assert job_id in [each["prompt_id"] for each in listed]
    view = await cloud_account.get("/api/view", params=file)
    assert view.status_code == 302
    location = view.headers["location"]
    async with httpx.AsyncClient(base_url=cloud_engine.url, timeout=60) as stranger:
        content = await stranger.get(location)
        assert content.status_code == 200
        assert content.content == (cloud_engine.folders.output / file["filename"]).read_bytes()
        part = await stranger.get(location, headers={"Range": "bytes=0-3"})
        assert (part.status_code, part.content) == (206, b"\x89PNG")
        assert (await stranger.get(location.replace("cloud_", "other_"))).status_code == 403
        assert (await stranger.get(location.split("&signature")[0])).status_code == 403
    # The key of the account is not for the storage.
    assert (await cloud_account.get(location)).status_code == 400


async def test_an_upload_is_named_by_its_content(
    cloud_account: httpx.AsyncClient, cloud_engine: RunningLightbox
) -> None:
    content = b"any bytes"
    for name in ("a.PNG", "../b.png", "ü 日本.png"):
        response = await cloud_account.post(
            "/api/upload/image", files={"image": (name, content)}, data={"subfolder": "ignored", "type": "input"}
        )
        digest = hashlib.sha256(content).hexdigest()
        assert response.json() == {"name": f"{digest}.png", "subfolder": "", "type": "input"}
    assert (cloud_engine.folders.input / f"{digest}.png").read_bytes() == content
    assert (await cloud_account.post("/api/upload/image", data={"image": "text"})).status_code == 400


async def test_a_refused_graph_and_a_failed_run_are_distinguished(cloud_account: httpx.AsyncClient) -> None:
    refused = await cloud_account.post("/api/prompt", json={"prompt": {"1": node("NoSuchNode")}})
    assert refused.status_code == 400
    assert refused.json()["error"]["type"] == "invalid_prompt"
    failing = {**still(3), "3": node("ProbeFail", image=["1", 0], message="boom", kind="OOM")}
    failing["2"] = node("SaveImage", images=["3", 0], filename_prefix="x")
    job_id = await submit(cloud_account, failing)
    assert await ended(cloud_account, job_id) == "error"
    status = (await cloud_account.get(f"/api/job/{job_id}/status")).json()
    assert status["error_message"].startswith("boom")
    job = (await cloud_account.get(f"/api/jobs/{job_id}")).json()
    assert (job["status"], job["execution_error"]["node_id"]) == ("failed", "3")


async def test_jobs_are_cancelled_while_waiting_and_while_running(cloud_account: httpx.AsyncClient) -> None:
    running, waiting = await submit(cloud_account, sleeping(60)), await submit(cloud_account, still(4))
    await until_status(cloud_account, running, "executing")
    await until_status(cloud_account, waiting, "queued_waiting")
    await cloud_account.post("/api/queue", json={"delete": [waiting]})
    assert await ended(cloud_account, waiting) == "cancelled"
    assert (await cloud_account.get(f"/api/jobs/{waiting}")).json()["status"] == "cancelled"
    await cloud_account.post("/api/interrupt")
    assert await ended(cloud_account, running) == "cancelled"
    listed = (await cloud_account.get("/api/jobs", params={"status": "cancelled"})).json()["jobs"]
    assert {running, waiting} == {each["id"] for each in listed}
    assert (await cloud_account.get("/api/jobs", params={"limit": 1001})).status_code == 400


async def test_an_unknown_job_is_not_found(cloud_account: httpx.AsyncClient) -> None:
    assert (await cloud_account.get("/api/job/unknown/status")).status_code == 404
    assert (await cloud_account.get("/api/jobs/unknown")).status_code == 404
    assert (await cloud_account.get("/prompt")).status_code == 404


async def test_every_socket_of_the_account_gets_messages_of_every_run(
    cloud_account: httpx.AsyncClient, cloud_engine: RunningLightbox
) -> None:
    address = f"{cloud_engine.url.replace('http', 'ws')}/ws?clientId=any&token={KEY}"
    async with connect(address, proxy=None) as one, connect(address, proxy=None) as other:
        job_id = await submit(cloud_account, still(5))
        for socket in (one, other):
            kinds = []
            while "execution_success" not in kinds:
                message = json.loads(await socket.recv())
                kinds.append(message["type"])
            assert message["data"]["prompt_id"] == job_id
            assert "executed" in kinds
