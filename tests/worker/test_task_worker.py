"""`callsheet worker --tasks`: a process of its own that leases tasks over HTTP, and what is left when it is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.settings import Settings
from tests.support.database.installation import changed
from tests.support.http.accounts import People, Person
from tests.support.http.jobs_api import JobsApi
from tests.support.programs.control_plane_process import control_plane_process
from tests.support.run.left_over_programs import tied
from tests.support.run.ports import free_port
from tests.support.waiting import until

SECRET = "the-secret-of-a-test-fleet"
PAGE = b"<html><head><title>A lamp</title></head><body><p>It glows.</p></body></html>"


@dataclass
class SlowPages:
    """A shop whose pages come when the gate is open."""

    port: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    requests: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/lamp"

    async def response(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /robots.txt"):
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            else:
                self.requests += 1
                await self.gate.wait()
                kind = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
                writer.write(kind + b"Content-Length: %d\r\n\r\n" % len(PAGE) + PAGE)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@dataclass
class TaskWorkerHarness:
    """A control plane that runs no tasks itself, a user, slow pages to scrape, and processes of task workers."""

    plane: ControlPlane
    jobs_api: JobsApi
    person: Person
    pages: SlowPages
    directory: Path

    async def submit(self, **changes: Any) -> dict[str, Any]:
        body = {"actor": "scrape", "payload": {"url": self.pages.url}, **changes}
        response = await self.jobs_api.client.post("/api/task", json=body, headers=self.person.headers)
        assert response.status_code == 201, response.text
        task: dict[str, Any] = response.json()
        return task

    async def get(self, task: dict[str, Any]) -> dict[str, Any]:
        response = await self.jobs_api.get(self.person, f"/api/task/{task['task_id']}")
        shown: dict[str, Any] = response.json()
        return shown

    async def until_status(self, task: dict[str, Any], status: str) -> dict[str, Any]:
        async def reached() -> bool:
            return (await self.get(task))["status"] == status

        await until(reached)
        return await self.get(task)

    async def workers(self) -> list[str]:
        response = await self.jobs_api.get(self.jobs_api.admin, "/api/admin/workers")
        return [worker["worker_id"] for worker in response.json()["items"]]

    async def leases_run_out(self) -> None:
        """Expires the leases of the killed worker at once. Short leases would also expire for live workers if the
        machine is paused for a moment."""

        async def have_run_out() -> bool:
            # Again, should the killed one's last heartbeat come after it.
            expire = "UPDATE ai_job_dispatches SET lease_expires_at = now() WHERE status = 'leased' RETURNING 1"
            return await self.jobs_api.core.rows(self.plane.databases.central, expire) == []

        await until(have_run_out)

    @asynccontextmanager
    async def worker(self, name: str, *arguments: str, **variables: str) -> AsyncIterator[Process]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CALLSHEET_")}
        process = await asyncio.create_subprocess_exec(
            *tied(sys.executable, "-m", "callsheet.worker", "--tasks", *arguments),
            cwd=self.directory,
            stderr=PIPE,
            env={
                **kept,
                "API_BASE_URL": self.plane.settings.public_url,
                "FLEET_SECRET": SECRET,
                "WORKER_ID": name,
                "CALLSHEET_HOME": str(self.directory / "home"),
                "CALLSHEET_OUTGOING__ALLOW_NETWORKS": "127.0.0.0/8",
                "CALLSHEET_TASKS__HEARTBEAT_SECONDS": "1",
                "CALLSHEET_LOG__FORMAT": "json",
                **variables,
            },
        )
        assert process.stderr is not None
        reading = asyncio.create_task(process.stderr.read())
        try:

            async def registered() -> bool:
                assert process.returncode is None, (await reading).decode()
                return name in await self.workers()

            await until(registered)
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            assert b"Traceback" not in await reading


@pytest.fixture
async def task_worker_harness(settings: Settings, tmp_path: Path) -> AsyncIterator[TaskWorkerHarness]:
    """A control plane and processes of task workers."""
    chosen = settings.model_copy(
        update={
            "tasks": settings.tasks.model_copy(update={"lease_seconds": 60, "queues": ("night",)}),
            "fleet": settings.fleet.model_copy(update={"secret": SecretStr(SECRET)}),
        }
    )
    pages = SlowPages()
    server = await asyncio.start_server(pages.response, "127.0.0.1", 0)
    pages.port = server.sockets[0].getsockname()[1]
    async with (
        server,
        running_control_plane(chosen) as plane,
        httpx.AsyncClient(base_url=chosen.public_url, trust_env=False, timeout=30) as client,
    ):
        jobs_api = await JobsApi.open(plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys))
        yield TaskWorkerHarness(plane, jobs_api, await jobs_api.person(tokens=100), pages, tmp_path)
        pages.gate.set()


async def balance(task_worker_harness: TaskWorkerHarness) -> int:
    return int((await task_worker_harness.jobs_api.get(task_worker_harness.person, "/api/wallet")).json()["balance"])


async def test_a_worker_on_another_machine_runs_the_task_and_stops_cleanly(
    task_worker_harness: TaskWorkerHarness,
) -> None:
    task_worker_harness.pages.gate.set()
    async with task_worker_harness.worker("elsewhere") as process:
        shown = await task_worker_harness.until_status(await task_worker_harness.submit(), "completed")
        assert shown["result"]["data"]["product"]["title"] == "A lamp"
        assert (shown["retry_count"], shown["max_retries"]) == (0, 3)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert "elsewhere" not in await task_worker_harness.workers()
    assert await balance(task_worker_harness) == 99


@pytest.mark.thorough
async def test_a_task_whose_worker_was_killed_is_finished_by_another_once(
    task_worker_harness: TaskWorkerHarness,
) -> None:
    async with task_worker_harness.worker("first") as first:
        task = await task_worker_harness.submit()
        await until(lambda: task_worker_harness.pages.requests == 1)
        first.kill()
        await first.wait()
    await task_worker_harness.leases_run_out()
    task_worker_harness.pages.gate.set()
    async with task_worker_harness.worker("second"):
        shown = await task_worker_harness.until_status(task, "completed")
    assert (shown["retry_count"], task_worker_harness.pages.requests) == (1, 2)
    assert await balance(task_worker_harness) == 99


@pytest.mark.thorough
async def test_tasks_and_synchronous_jobs_of_a_control_plane_that_was_killed_are_finished_by_the_next_once(
    task_worker_harness: TaskWorkerHarness,
) -> None:
    chosen = task_worker_harness.plane.settings
    other = changed(chosen, server={"port": free_port()})
    async with (
        control_plane_process(
            other,
            task_worker_harness.directory,
            CALLSHEET_TASKS__IN_PROCESS="4",
            CALLSHEET_TASKS__LEASE_SECONDS="60",
            CALLSHEET_TASKS__HEARTBEAT_SECONDS="1",
            CALLSHEET_OUTGOING__ALLOW_NETWORKS="127.0.0.0/8",
        ) as process,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{other.server.port}", trust_env=False, timeout=60) as client,
    ):
        task = await task_worker_harness.submit()
        await until(lambda: task_worker_harness.pages.requests == 1)
        # Its client waits for the answer when everything goes down.
        submitting = asyncio.create_task(
            client.post(
                "/api/generate/scrape",
                json={"url": task_worker_harness.pages.url},
                headers=task_worker_harness.person.headers,
            )
        )
        await until(lambda: task_worker_harness.pages.requests == 2)
        await process.kill()
        with pytest.raises(httpx.TransportError):
            await submitting
        await task_worker_harness.leases_run_out()
        task_worker_harness.pages.gate.set()
        await process.start()
        tasks = (await task_worker_harness.jobs_api.get(task_worker_harness.person, "/api/task")).json()["items"]
        for each in tasks:
            shown = await task_worker_harness.until_status(each, "completed")
            assert shown["retry_count"] == 1
        assert task["task_id"] in {each["task_id"] for each in tasks}
    assert (len(tasks), task_worker_harness.pages.requests) == (2, 4)
    assert await balance(task_worker_harness) == 98
    await task_worker_harness.jobs_api.core.check()


@pytest.mark.thorough
async def test_a_worker_that_is_stopped_requeues_what_it_cannot_finish(task_worker_harness: TaskWorkerHarness) -> None:
    async with task_worker_harness.worker("leaving", CALLSHEET_WORKER__STOP_SECONDS="0") as leaving:
        task = await task_worker_harness.submit(max_retries=0)
        await until(lambda: task_worker_harness.pages.requests == 1)
        leaving.send_signal(signal.SIGTERM)
        assert await leaving.wait() == 0
        # Not always at once: a poll of its own that was under way may have been given it once more, which is noticed.
        await task_worker_harness.until_status(task, "queued")
    task_worker_harness.pages.gate.set()
    async with task_worker_harness.worker("staying"):
        # Without a single retry: the attempt was given back.
        await task_worker_harness.until_status(task, "completed")


@pytest.mark.thorough
async def test_a_canceled_task_is_stopped_where_it_runs(task_worker_harness: TaskWorkerHarness) -> None:
    async with task_worker_harness.worker("stopped"):
        task = await task_worker_harness.submit()
        await until(lambda: task_worker_harness.pages.requests == 1)
        response = await task_worker_harness.jobs_api.client.post(
            f"/api/task/{task['task_id']}/cancel", headers=task_worker_harness.person.headers
        )
        assert response.json()["status"] == "canceled"

        async def is_free() -> bool:
            response = await task_worker_harness.jobs_api.get(
                task_worker_harness.jobs_api.admin, "/api/admin/dispatches"
            )
            return not response.json()["items"]

        await until(is_free)
    assert await balance(task_worker_harness) == 100


@pytest.mark.thorough
async def test_a_worker_takes_tasks_of_its_queues_only(task_worker_harness: TaskWorkerHarness) -> None:
    task_worker_harness.pages.gate.set()
    async with task_worker_harness.worker("at-night", "--queues", "night"):
        day = await task_worker_harness.submit()
        night = await task_worker_harness.submit(queue_name="night")
        await task_worker_harness.until_status(night, "completed")
        assert (await task_worker_harness.get(day))["status"] == "queued"


@pytest.mark.thorough
async def test_a_queue_that_no_control_plane_has_is_named_with_the_setting_that_makes_it(
    task_worker_harness: TaskWorkerHarness,
) -> None:
    with pytest.raises(AssertionError, match=r"actor:copy:nowhere.*tasks\.queues"):
        async with task_worker_harness.worker("lost", "--queues", "nowhere"):
            raise AssertionError("it registered")


@pytest.mark.thorough
async def test_a_task_worker_without_the_fleet_secret_names_the_missing_setting(
    task_worker_harness: TaskWorkerHarness, tmp_path: Path
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "callsheet", "worker", "--tasks", cwd=tmp_path, stderr=PIPE
    )
    _, printed = await process.communicate()
    assert process.returncode == 1
    assert b"callsheet fleets tokens create" in printed


@pytest.mark.thorough
async def test_options_of_an_engine_worker_are_refused_for_a_task_worker(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "callsheet", "worker", "--tasks", "--fleet", "gpus", cwd=tmp_path, stderr=PIPE
    )
    _, printed = await process.communicate()
    assert process.returncode == 1
    assert b"no --fleet" in printed
