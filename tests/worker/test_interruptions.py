"""Whatever takes an agent, its machine or its neighbours away: no job is lost, none waits for its lease to run out."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from callsheet.worker.agent import Agent
from callsheet.worker.transfers import Transfers
from tests.support.waiting import until
from tests.worker.harness import Site
from tests.worker.proxies import gate_to, wire_to


async def processing(site: Site, count: int = 1) -> None:
    await until(lambda: len(site.engine.called("/prompt")) >= count and site.engine.running)


async def put_back(site: Site) -> None:
    async def is_queued() -> bool:
        rows = await site.shop.central("SELECT status, attempts FROM ai_job_dispatches")
        return bool(rows) and all((row["status"], row["attempts"]) == ("queued", 0) for row in rows)

    await until(is_queued)


async def test_a_stopped_agent_puts_its_jobs_back_with_their_attempts_and_says_goodbye(site: Site) -> None:
    site.engine.scenario = "held"
    person = await site.person()
    jobs = [await site.submit(person) for _ in range(3)]
    agent = site.agent()
    await processing(site)
    await until(lambda: len(site.engine.called("/upload/image")) == 2)
    await site.leave(agent, "SIGTERM")
    await put_back(site)
    assert await site.workers() == []
    assert site.engine.running is None
    assert site.left_over() == []
    site.engine.release.set()
    site.agent()
    for job_id in jobs:
        await site.ends(person, job_id)


async def test_a_job_that_can_be_finished_in_time_is_finished(site: Site) -> None:
    site.engine.scenario = "held"
    person = await site.person()
    job_id = await site.submit(person)
    agent = site.agent()
    await processing(site)
    agent.departure.begin("SIGTERM", 60)
    site.engine.release.set()
    await agent.task  # type: ignore[attr-defined]
    assert (await site.shop.shown(person, job_id))["status"] == "completed"
    assert await site.workers() == []


async def test_a_drained_worker_finishes_and_leaves(site: Site) -> None:
    site.engine.scenario = "held"
    person = await site.person()
    job_id = await site.submit(person)
    agent = site.agent(wait_seconds=0.2)
    await processing(site)
    await site.shop.central("UPDATE comfyui_workers SET is_draining = true")
    site.engine.release.set()
    await site.ends(person, job_id)
    await agent.task  # type: ignore[attr-defined]
    assert await site.workers() == []


async def test_a_control_plane_that_is_away_is_outlived(site: Site) -> None:
    async with wire_to(site.shop.plane.settings.public_url) as wire:
        site.engine.scenario = "held"
        person = await site.person()
        job_id = await site.submit(person)
        agent = site.agent(api_url=wire.url)
        await processing(site)
        await wire.cut()
        site.engine.release.set()
        await until(lambda: len(site.engine.called("/view")) == 3)
        assert (await site.shop.shown(person, job_id))["status"] == "processing"
        await wire.connect()
        await site.ends(person, job_id)
        await site.leave(agent)


async def test_a_report_that_could_not_be_sent_is_sent_by_the_next_agent(site: Site) -> None:
    async with gate_to(site.shop.plane.settings.public_url) as gate:
        gate.closed_for.add("/api/worker/complete")
        person = await site.person()
        job_id = await site.submit(person)
        agent = site.agent(api_url=gate.url, worker_id="gpu-9")
        await until(lambda: gate.turned_away)
        await kill(agent)
        gate.closed_for.clear()
        next_one = site.agent(api_url=gate.url, worker_id="gpu-9")
        await site.ends(person, job_id)
        assert len(site.engine.called("/prompt")) == 1
        await site.leave(next_one)


async def kill(agent: Agent) -> None:
    agent.task.cancel()  # type: ignore[attr-defined]
    await asyncio.gather(agent.task, return_exceptions=True)  # type: ignore[attr-defined]


async def test_an_engine_that_was_killed_costs_one_attempt_and_the_job_is_done_by_the_next(site: Site) -> None:
    site.engine.scenario = "held"
    person = await site.person()
    job_id = await site.submit(person)
    site.agent()
    await processing(site)
    await site.engine.kill()
    site.engine.scenario = "SaveImage_batch3"
    await site.engine.start()

    async def was_put_back() -> bool:
        rows = await site.shop.central("SELECT status, attempts FROM ai_job_dispatches")
        return [(row["status"], row["attempts"]) for row in rows] == [("queued", 1)]

    await until(was_put_back)
    await site.shop.central("UPDATE ai_job_dispatches SET not_before = NULL")
    await site.ends(person, job_id)


class MetadataService:
    """EC2's, version 2: nothing without a token, 404 where nothing is announced."""

    def __init__(self) -> None:
        self.said = {"instance-id": "i-0abc", "instance-type": "g5.xlarge", "instance-life-cycle": "spot"}
        self.said["autoscaling/target-lifecycle-state"] = "InService"
        self.tokens = {"token-1"}
        self.url = ""

    async def token(self, request: web.Request) -> web.Response:
        assert int(request.headers["X-aws-ec2-metadata-token-ttl-seconds"]) > 0
        self.tokens = {f"token-{len(self.tokens) + 1}"}
        return web.Response(text=next(iter(self.tokens)))

    async def read(self, request: web.Request) -> web.Response:
        if request.headers.get("X-aws-ec2-metadata-token") not in self.tokens:
            return web.Response(status=401)
        found = self.said.get(request.match_info["name"])
        return web.Response(status=404) if found is None else web.Response(text=found)


@asynccontextmanager
async def metadata_service() -> AsyncIterator[MetadataService]:
    service = MetadataService()
    app = web.Application()
    app.router.add_put("/latest/api/token", service.token)
    app.router.add_get("/latest/meta-data/{name:.*}", service.read)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield service
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "spot/instance-action",
            json.dumps(
                {"action": "terminate", "time": f"{datetime.now(UTC) + timedelta(seconds=15):%Y-%m-%dT%H:%M:%SZ}"}
            ),
        ),
        ("autoscaling/target-lifecycle-state", "Terminated"),
    ],
)
async def test_a_machine_that_is_taken_away_puts_its_job_back_before(
    site: Site, name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callsheet.worker.machine.TERMINATION_SECONDS", 0.0)
    async with metadata_service() as metadata:
        site.engine.scenario = "held"
        person = await site.person()
        await site.submit(person)
        agent = site.agent(metadata_url=metadata.url, metadata_seconds=0.05)
        await processing(site)
        [worker] = await site.workers()
        assert (worker["instance_type"], worker["capacity_type"]) == ("g5.xlarge", "spot")
        # A token that ran out is renewed.
        metadata.tokens = {"another"}
        metadata.said[name] = said
        await agent.task  # type: ignore[attr-defined]
        await put_back(site)
        assert await site.workers() == []


async def test_after_a_rebalance_recommendation_the_job_in_hand_is_finished_and_no_other_taken(site: Site) -> None:
    async with metadata_service() as metadata:
        site.engine.scenario = "held"
        person = await site.person()
        jobs = [await site.submit(person) for _ in range(2)]
        agent = site.agent(metadata_url=metadata.url, metadata_seconds=0.05, prefetch=False)
        await processing(site)
        metadata.said["events/recommendations/rebalance"] = '{"noticeTime": "2026-02-15T12:00:00Z"}'
        await until(lambda: agent.departure.has_begun)
        site.engine.release.set()
        await agent.task  # type: ignore[attr-defined]
        statuses = [(await site.shop.shown(person, job_id))["status"] for job_id in jobs]
        assert statuses == ["completed", "queued"]


async def test_the_autoscaling_group_is_kept_from_ending_the_machine_while_a_job_runs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    asked: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        form = await request.post()
        asked.append((str(form["InstanceIds.member.1"]), str(form["ProtectedFromScaleIn"])))
        return web.Response(
            text="<SetInstanceProtectionResponse><SetInstanceProtectionResult/></SetInstanceProtectionResponse>"
        )

    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with metadata_service() as metadata:
        site.engine.scenario = "held"
        person = await site.person()
        job_id = await site.submit(person)
        agent = site.agent(
            metadata_url=metadata.url,
            asg_name="gpus",
            asg_region="us-east-1",
            asg_endpoint_url=f"http://127.0.0.1:{runner.addresses[0][1]}",
        )
        await until(lambda: asked == [("i-0abc", "true")])
        site.engine.release.set()
        await site.ends(person, job_id)
        await site.leave(agent)
        assert asked == [("i-0abc", "true"), ("i-0abc", "false")]
    await runner.cleanup()


@contextmanager
def worker_process(site: Site, directory: Path, worker_id: str) -> Iterator[subprocess.Popen[str]]:
    """`callsheet worker`, told what to do by the names machine images use."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("CALLSHEET_", "AWS_", "COVERAGE"))
    }
    environment |= {
        "API_BASE_URL": site.shop.plane.settings.public_url,
        "FLEET_SECRET": site.shop.secret,
        "WORKER_ID": worker_id,
        "COMFYUI_BASE_URL": site.engine.url,
        "MAX_CONCURRENCY": "1",
        "HEARTBEAT_INTERVAL_SECONDS": "1",
        "CAPABILITIES": '{"gpu": "none"}',
        "CALLSHEET_WORKER__WORKFLOWS": site.shop.desk.workflow,
        "CALLSHEET_WORKER__STOP_SECONDS": "0",
        "CALLSHEET_WORKER__METADATA_URL": "http://127.0.0.1:9",
    }
    with (directory / f"{worker_id}.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "callsheet", "worker"],
            cwd=directory,
            env=environment,
            stdout=log,
            stderr=log,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_command_stops_on_a_signal_and_puts_its_job_back(
    site: Site, tmp_path: Path, number: signal.Signals
) -> None:
    site.engine.scenario = "held"
    person = await site.person()
    await site.submit(person)
    with worker_process(site, tmp_path, "gpu-1") as process:
        await processing(site)
        process.send_signal(number)
        assert await asyncio.to_thread(process.wait, 60) == 0
    await put_back(site)
    assert await site.workers() == []


async def test_a_killed_agents_job_is_finished_by_the_next_one_on_the_machine_at_once(
    site: Site, tmp_path: Path
) -> None:
    site.engine.scenario = "held"
    person = await site.person()
    job_id = await site.submit(person)
    with worker_process(site, tmp_path, "gpu-1") as process:
        await processing(site)
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait, 60)
    site.engine.release.set()
    site.engine.scenario = "SaveImage_batch3"
    with worker_process(site, tmp_path, "gpu-1"):
        await site.ends(person, job_id)
    [row] = await site.shop.central("SELECT requeues FROM dispatch_history")
    assert row["requeues"] == 1


async def test_storage_that_is_away_is_waited_for_on_both_ways(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async with gate_to(site.shop.plane.settings.public_url) as gate:
        # Signed addresses lead to the control plane itself; here they lead through a gate that can be closed.
        for name in ("download", "upload"):
            whole = getattr(Transfers, name)

            async def through_the_gate(transfers: Transfers, url: str, *rest: object, whole: Any = whole) -> object:
                return await whole(transfers, url.replace(site.shop.plane.settings.public_url, gate.url), *rest)

            monkeypatch.setattr(Transfers, name, through_the_gate)
        site.engine.scenario = "held"
        gate.is_open = False
        person = await site.person()
        job_id = await site.submit(person)
        site.agent()
        await until(lambda: gate.turned_away)
        gate.is_open = True
        await processing(site)
        gate.is_open, turned_away = False, gate.turned_away
        site.engine.release.set()
        await until(lambda: gate.turned_away > turned_away)
        assert (await site.shop.shown(person, job_id))["status"] == "processing"
        gate.is_open = True
        await site.ends(person, job_id)
