"""The control plane is away for two minutes, storage for one: a job in hand is finished once, charged once, and costs
one attempt.

The agent is the real one; control plane, store and engine are processes that are stopped (frozen) or killed. By default
the agent's patience is scaled down and an outage lasts until several steps of it have failed; the long form takes its
own and the whole time.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from callsheet.fleet.registry.credentials import fleet_secret
from callsheet.media.storage import open_storage
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from callsheet.settings import S3Settings, Settings
from callsheet.worker.agent import control_plane, transfers
from callsheet.worker.agent.agent import Agent
from callsheet.worker.agent.config import AgentConfig
from tests.support.comfyui.graphs import image_graph
from tests.support.comfyui.lightbox import LightboxProcess, lightbox_process
from tests.support.database.installation import changed
from tests.support.jobs.core import Core, Member, Row, open_core
from tests.support.media.clips import make_image
from tests.support.media.seaweedfs import BUCKET, SeaweedFS, seaweedfs_process
from tests.support.programs.control_plane_process import ControlPlaneProcess, control_plane_process
from tests.support.waiting import until

pytestmark = pytest.mark.thorough

CONTROL_PLANE_SECONDS, STORAGE_SECONDS = 120.0, 60.0
# What must have failed before an outage of the short form ends.
FAILURES = 4
TOKENS, COST = 100, 7
How = Literal["frozen", "killed"]


@dataclass
class OutageSetup:
    """An installation with one user and a Lightbox process, and what the agent logs."""

    settings: Settings
    directory: Path
    core: Core
    member: Member
    slug: str
    lightbox: LightboxProcess
    log: io.StringIO
    is_long: bool

    async def submit(self, seconds: float) -> None:
        """Submits an image that takes this many seconds to render."""
        image = self.directory / "picture.png"
        make_image(image)
        content = image.read_bytes()
        path = f"tenants/{self.member.tenant_id}/uploads/outage/picture.png"
        storage = open_storage(self.settings, master_secret(self.settings), None)
        await storage.put(path, content, content_type="image/png")
        await storage.close()
        asset = {
            "key": "image",
            "placeholder": "__INPUT_PATH__",
            "path": path,
            "content_hash": hashlib.sha256(content).hexdigest(),
            "is_primary_input": True,
        }
        graph = image_graph("__INPUT_PATH__", ("ProbeSleep", {"seconds": seconds, "steps": 20, "preview": True}))
        payload = {"workflow": graph, "assets": [asset], "output_node_id": "save", "input_name": "picture.png"}
        await self.core.submit(self.member, payload=payload, cost=COST)

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[None]:
        config = AgentConfig(
            api_url=self.settings.public_url,
            worker_id="outage",
            secret=fleet_secret(self.settings.fleet, master_secret(self.settings)),
            directory=self.directory / "agent",
            workflows=(self.slug,),
            heartbeat_seconds=30.0 if self.is_long else 0.3,
            stop_seconds=0.0,
            progress_seconds=0.2,
        )
        agent = Agent(config, [ComfyUI(self.lightbox.url, patience=Patience(poll=0.1))])
        task = asyncio.create_task(agent.run())
        try:
            yield
        finally:
            agent.departure.begin("test", 0)
            await task

    async def renders(self) -> None:
        async with httpx.AsyncClient(base_url=self.lightbox.url, trust_env=False, timeout=60) as client:

            async def has_started() -> bool:
                # It may be over already where this process was held up longer than it takes.
                queue, history = [(await client.get(path)).json() for path in ("/queue", "/history")]
                return bool(queue["queue_running"] or history)

            await until(has_started)

    async def outage(self, seconds: float, *events: str) -> None:
        """Until it has lasted long enough."""
        before = self.failures(*events)
        if self.is_long:
            await asyncio.sleep(seconds)
        await until(lambda: self.failures(*events) >= before + (1 if self.is_long else FAILURES))

    def failures(self, *events: str) -> int:
        text = self.log.getvalue()
        return sum(text.count(f'"event": "{event}"') for event in events)

    async def was_finished_once(self) -> None:
        async def has_ended() -> bool:
            [job] = await self.core.rows(self.member.pool, "SELECT status, error FROM ai_jobs")
            assert job["status"] in ("queued", "processing", "completed"), job
            return bool(job["status"] == "completed")

        await until(has_ended)
        history: list[Row] = []

        async def is_closed() -> bool:
            history[:] = await self.core.rows(self.core.databases.central, "SELECT * FROM dispatch_history")
            return bool(history)

        await until(is_closed)
        [dispatch] = history
        assert (dispatch["status"], dispatch["attempts"], dispatch["requeues"]) == ("completed", 1, 0)
        assert dispatch["lease_seq"] == 1
        await self.core.check_drained()
        [wallet] = await self.core.rows(self.member.pool, "SELECT balance FROM token_wallets")
        assert wallet["balance"] == TOKENS - COST
        [file] = await self.core.rows(self.member.pool, "SELECT path, size FROM files")
        storage = open_storage(self.settings, master_secret(self.settings), None)
        assert len(await storage.read(file["path"], 1_000_000)) == file["size"]
        await storage.close()


@asynccontextmanager
async def open_scene(
    settings: Settings, databases: Databases, log: io.StringIO, is_long: bool
) -> AsyncIterator[OutageSetup]:
    directory = settings.home.parent / "scene"
    directory.mkdir()
    core = open_core(databases)
    core.workflow = await core.add_workflow("outage")
    member = await core.member("pool_1", TOKENS)
    async with lightbox_process(directory / "lightbox") as lightbox:
        yield OutageSetup(settings, directory, core, member, "outage", lightbox, log, is_long)


@pytest.fixture
def _scaled(monkeypatch: pytest.MonkeyPatch, long_form: bool) -> None:
    if not long_form:
        monkeypatch.setattr(control_plane, "RESPONSE_SECONDS", 0.5)
        monkeypatch.setattr(control_plane, "RETRY_CAP_SECONDS", 0.5)
        monkeypatch.setattr(transfers, "SECONDS", httpx.Timeout(0.5))


@pytest.mark.usefixtures("_scaled")
@pytest.mark.parametrize("how", ["frozen", "killed"])
async def test_g1_g2_a_job_finished_during_an_outage_of_the_control_plane_is_completed(
    settings: Settings, databases: Databases, logged: io.StringIO, how: How, long_form: bool
) -> None:
    async with (
        open_scene(settings, databases, logged, long_form) as outage_setup,
        control_plane_process(settings, outage_setup.directory) as plane,
    ):
        await outage_setup.submit(2.0)
        async with outage_setup.agent():
            await outage_setup.renders()
            await away(plane, how)
            await outage_setup.outage(CONTROL_PLANE_SECONDS, "lease.not_renewed", "worker.poll_failed")
            await back(plane, how)
            await outage_setup.was_finished_once()


async def away(plane: ControlPlaneProcess, how: How) -> None:
    if how == "frozen":
        plane.send(signal.SIGSTOP)
    else:
        await plane.kill()


async def back(plane: ControlPlaneProcess, how: How) -> None:
    if how == "frozen":
        plane.send(signal.SIGCONT)
    else:
        await plane.start()


@pytest.mark.usefixtures("_scaled")
async def test_g1_g2_downloads_and_uploads_wait_for_unavailable_storage(
    settings: Settings,
    databases: Databases,
    logged: io.StringIO,
    long_form: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "store").mkdir()
    with seaweedfs_process(tmp_path / "store") as store:
        await asyncio.to_thread(store.server.create_bucket, BUCKET)
        storage: dict[str, Any] = {"backend": "s3", "s3": S3Settings.model_validate(store.server.settings)}
        chosen = changed(settings, storage=storage)
        async with (
            open_scene(chosen, databases, logged, long_form) as outage_setup,
            control_plane_process(chosen, outage_setup.directory),
        ):
            await outage_setup.submit(2.0)
            store.send(signal.SIGSTOP)
            kill_during_the_first_upload(monkeypatch, store)
            async with outage_setup.agent():
                await outage_setup.outage(STORAGE_SECONDS, "job.download_failed")
                store.send(signal.SIGCONT)
                await outage_setup.outage(STORAGE_SECONDS, "job.upload_failed")
                await asyncio.to_thread(store.start)
                await outage_setup.was_finished_once()


def kill_during_the_first_upload(monkeypatch: pytest.MonkeyPatch, store: SeaweedFS) -> None:
    """In the middle of it: some of its bytes have gone."""
    whole = transfers._pieces
    is_first = True

    async def pieces(path: Path) -> AsyncIterator[bytes]:
        nonlocal is_first
        async for piece in whole(path):
            yield piece[:100]
            if is_first:
                is_first = False
                await asyncio.to_thread(store.kill)
            yield piece[100:]

    monkeypatch.setattr(transfers, "_pieces", pieces)
