"""The whole product as processes, in its own data directory: control plane, Lightbox, agent, and a user with a key."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from PIL import Image

from bench.http_me import HOST
from bench.installation import TOKENS, unread_logs
from bench.processes import ROOT, START_SECONDS, Command, callsheet_command, environment, fresh_home, serving, stop
from callsheet.client import AsyncCallsheet, AsyncJobHandle
from callsheet.identity.access.keys import Keys
from callsheet.identity.access.passwords import Passwords
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.accounts.quotas import Quotas
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.http.server import free_address
from callsheet.settings import SHORT_NAMES, QuotaSettings, load_settings
from callsheet.wallet.ledger import credit
from callsheet.wire.identity import CreateKeyRequest, CreateTenantRequest, CreateUserRequest, Role

FLEET_SECRET = "the-secret-of-a-bench-fleet"
INPUT = "__INPUT_PATH__"
OUTPUT_LINES = 40
# One user submits a whole batch at once.
ACTIVE_JOBS = 1000
Graph = dict[str, Any]


def node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


# The smallest amount of work for an engine: one input image, one output image.
TRIVIAL: Graph = {
    "load": node("LoadImage", image=INPUT),
    "change": node("ImageInvert", image=["load", 0]),
    "save": node("SaveImage", images=["change", 0], filename_prefix="bench"),
}


def image(number: int) -> bytes:
    """The files are small, and no two are alike: neither the agent's cache nor the engine's cache replaces the work."""
    written = io.BytesIO()
    Image.new("RGB", (64, 64), (number % 256, number // 256 % 256, 90)).save(written, "PNG")
    return written.getvalue()


# Lightbox then responds with the delays of a real ComfyUI.
COMFYUI_TIMING = {"CALLSHEET_LIGHTBOX__COMFYUI_TIMING": "true"}


@dataclass(frozen=True, slots=True)
class RunningProduct:
    home: Path
    url: str
    # The process of the control plane, and the API key of the user.
    pid: int
    key: str
    client: AsyncCallsheet
    admin: httpx.AsyncClient
    command: Command

    async def offer(self, slug: str, graph: Graph, extension: str = "png", mime_type: str = "image/png") -> None:
        """A workflow and an effect of the same name, with an image of the user as the input of the graph."""
        taken = {"key": "input", "type": "image", "placeholder": INPUT, "required": True, "is_primary_input": True}
        workflow = {
            "slug": slug,
            "name": slug,
            "graph": graph,
            "properties": [taken] if INPUT in json.dumps(graph) else [],
            "output_node_id": "save",
            "output_extension": extension,
            "output_mime_type": mime_type,
        }
        effect = {"slug": slug, "name": slug, "workflow": slug, "credits_cost": 1, "is_published": True}
        for path, body in (("workflows", workflow), ("effects", effect)):
            response = await self.admin.post(f"/api/admin/{path}", json=body)
            response.raise_for_status()

    async def upload(self, content: bytes) -> UUID:
        """The id of a file that jobs may use."""
        return (await self.client.upload(content, "input.png")).id

    async def ended(self, job: AsyncJobHandle) -> None:
        """Waits with a stream, as `callsheet submit --watch` does."""
        await job.wait()

    @asynccontextmanager
    async def agent(self, workflow: str, engine: str, **settings: str) -> AsyncIterator[int]:
        """Starts `callsheet worker`, ready for the jobs of a workflow. Returns its process."""
        given = {
            "CALLSHEET_WORKER__API_URL": self.url,
            "CALLSHEET_WORKER__ID": "bench-agent",
            "CALLSHEET_WORKER__SECRET": FLEET_SECRET,
            "CALLSHEET_WORKER__WORKFLOWS": workflow,
            "CALLSHEET_ENGINE__URL": engine,
            **settings,
        }
        process = await asyncio.create_subprocess_exec(
            *self.command("worker"), env=_environment(self.home, given), cwd=self.home.parent, stderr=PIPE
        )
        is_ready, output = asyncio.Event(), deque[str](maxlen=OUTPUT_LINES)
        reading = asyncio.create_task(_read(process, is_ready, output))
        try:
            async with asyncio.timeout(START_SECONDS):
                await is_ready.wait()
            if process.returncode is not None:
                raise RuntimeError("the agent did not start:\n" + "".join(output))
            yield process.pid
        finally:
            await stop(process)
            await reading


@asynccontextmanager
async def open_product(
    public_url: str | None = None,
    port: int | None = None,
    given: Mapping[str, str] | None = None,
    command: Command = callsheet_command,
) -> AsyncIterator[RunningProduct]:
    """`public_url` is the URL of storage, if it differs from the control plane's own URL; `given` are settings of the
    control plane, as it finds them in its environment; `command` starts the control plane and the agents."""
    async with AsyncExitStack() as undo:
        home = undo.enter_context(fresh_home())
        undo.enter_context(unread_logs())
        databases = await open_databases(load_settings(home=home, database={"dsn": None}))
        undo.push_async_callback(databases.close)
        key = await _person(databases)
        port = port or (await free_address(HOST, 0))[1]
        settings = {"CALLSHEET_FLEET__SECRET": FLEET_SECRET, "CALLSHEET_JOBS__ACTIVE_PER_USER": str(ACTIVE_JOBS)}
        settings["CALLSHEET_JOBS__SUBMITS_PER_MINUTE"] = "1000000"
        settings |= given or {}
        if public_url is not None:
            settings["CALLSHEET_SERVER__PUBLIC_URL"] = public_url
        plane = await undo.enter_async_context(serving(home, port, settings, command))
        url = f"http://{HOST}:{port}"
        client = await undo.enter_async_context(AsyncCallsheet(url, key))
        headers = {"authorization": f"Bearer {key}"}
        admin = await undo.enter_async_context(
            httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=60)
        )
        yield RunningProduct(home, url, plane.pid, key, client, admin, command)


@asynccontextmanager
async def lightbox(
    home: Path, directory: str = "lightbox", variables: Mapping[str, str] | None = None
) -> AsyncIterator[str]:
    """The engine as `callsheet lightbox` starts it, with the nodes of `bench.lightbox`. Returns its URL.

    Only this engine uses the `directory` in the home.
    """
    port = (await free_address(HOST, 0))[1]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.lightbox", "lightbox", "--probes", "--port", str(port)),
        *("--directory", str(home / directory)),
        env={**_environment(home, {}), "PYTHONPATH": str(ROOT), **(variables or {})},
        cwd=home.parent,
        stderr=DEVNULL,
    )
    url = f"http://{HOST}:{port}"
    try:
        async with asyncio.timeout(START_SECONDS), httpx.AsyncClient(trust_env=False) as client:
            while process.returncode is None:
                try:
                    await client.get(f"{url}/system_stats")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.02)
        yield url
    finally:
        await stop(process)


async def _person(databases: Databases) -> str:
    """Creates an admin with enough tokens. Returns the API key."""
    accounts = Accounts(databases, Passwords())
    tenant = await accounts.create_tenant(CreateTenantRequest(slug="bench", name="Bench"))
    user = await accounts.create_user(
        CreateUserRequest(tenant="bench", email="bench@example.com", password="not a real password", role=Role.OPERATOR)
    )
    await credit(databases.pools[0], tenant.id, user.id, TOKENS, "bench")
    return (
        await Keys(databases, Quotas(databases, QuotaSettings())).create(user.id, CreateKeyRequest(name="bench"))
    ).key


async def _read(process: Process, is_ready: asyncio.Event, output: deque[str]) -> None:
    assert process.stderr is not None
    async for line in process.stderr:
        output.append(line.decode(errors="replace"))
        if b'"worker.ready"' in line:
            is_ready.set()
    await process.wait()
    is_ready.set()


def _environment(home: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Also without the short names: a COMFY_CLOUD_API_KEY in the shell would send the benchmark to Comfy Cloud."""
    kept = {name: value for name, value in environment(home).items() if name.upper() not in SHORT_NAMES}
    return {**kept, **settings}
