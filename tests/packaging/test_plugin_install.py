"""A package of others beside the base install: found, planned with and run, without a server package anywhere."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from callsheet.app.control_plane import running_control_plane
from callsheet.settings import Settings
from callsheet.wire.job_errors import UNKNOWN
from tests.support.database.installation import changed
from tests.support.http.accounts import People
from tests.support.http.actor_harness import ActorHarness
from tests.support.http.jobs_api import JobsApi
from tests.support.programs.wheels import fresh_environment, run
from tests.support.providers.plugin_wheel import NAME, plugin_wheel, unpacked_plugin

SECRET = "the-secret-of-this-fleet"
RUN_WHAT_THE_PACKAGE_BRINGS = """
import asyncio, json, pathlib, sys, tempfile
from callsheet.providers.actor import Task
from callsheet.providers.registry import open_registry
from callsheet.settings import load_settings

async def main():
    registry = open_registry(load_settings().providers)
    heard = []
    async def ran(actor, payload):
        plan = registry.actors[actor].plan(payload)
        with tempfile.TemporaryDirectory() as directory:
            report = lambda percent, message: heard.append([percent, message])
            done = await registry.actors[actor].run(Task("tq_1", payload, 1, pathlib.Path(directory), report))
            files = [[file.name, file.mime_type, file.path.read_bytes()[:8].hex()] for file in done.files]
        limit = [plan.concurrency.identifier, plan.concurrency.limit]
        return {"provider": plan.provider, "limit": limit, "result": done.result, "files": files}
    picture = {"provider": "tiny", "action_type": "txt2img", "prompt": "a dot"}
    answer = {
        "count": await ran("tiny_count", {"text": "seven77"}),
        "media": await ran("media", picture),
        "heard": heard,
        "loaded": [name for name in ("asyncpg", "fastapi", "granian", "cryptography") if name in sys.modules],
    }
    await registry.close()
    print(json.dumps(answer))

asyncio.run(main())
"""


pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("plugin")
    return fresh_environment(directory / "venv", wheel, plugin_wheel(directory))


def test_a_provider_and_an_actor_of_another_package_run_in_the_base_install(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "callsheet.toml").write_text("[providers.plugins.tiny]\nsignature = 'in the corner'\n")
    ended = run(environment / "python", "-W", "error", "-c", RUN_WHAT_THE_PACKAGE_BRINGS, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    response = json.loads(ended.stdout.splitlines()[-1])
    assert response["count"]["result"]["letters"] == 7
    assert "tiny" in response["count"]["result"]["providers"]
    assert response["count"]["limit"] == ["tiny_count", 5]
    assert response["media"] == {
        "provider": "tiny",
        "limit": ["media:tiny", 2],
        "result": {"provider": "tiny", "action": "txt2img", "details": {"signature": "in the corner"}},
        "files": [["tiny.png", "image/png", "89504e470d0a1a0a"]],
    }
    assert response["heard"] == [[100.0, "Counted"], [50.0, "Painting"]]
    assert response["loaded"] == []


def test_the_settings_of_the_package_are_listed_and_not_shown(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "callsheet.toml").write_text("[providers.plugins.tiny]\nsignature = 'in the corner'\n")
    listed = run(environment / "callsheet", "settings", "--json", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)["CALLSHEET_PROVIDERS__PLUGINS"] == {"tiny": "**********"}


@pytest.fixture
async def plugin_harness(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ActorHarness]:
    """A control plane that has the package too, and runs no task itself."""
    monkeypatch.syspath_prepend(str(unpacked_plugin(tmp_path)))
    chosen = changed(settings, fleet={"secret": SecretStr(SECRET)})
    async with (
        running_control_plane(chosen) as plane,
        httpx.AsyncClient(base_url=chosen.public_url, trust_env=False, timeout=60) as client,
    ):
        yield ActorHarness(
            plane,
            client,
            await JobsApi.open(plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys)),
            {},
        )
    sys.modules.pop(NAME, None)


async def test_a_worker_of_the_base_install_runs_tasks_of_the_package(
    environment: Path, plugin_harness: ActorHarness, tmp_path: Path
) -> None:
    ann = await plugin_harness.person()
    image = {"provider": "tiny", "action_type": "txt2img", "prompt": "a dot"}
    counted = await plugin_harness.submit(ann, "tiny_count", {"text": "seven77"})
    painted = await plugin_harness.submit(ann, "media", image)
    failing = await plugin_harness.submit(ann, "tiny_count", {"text": "fail"}, max_retries=0)
    worker = await asyncio.create_subprocess_exec(
        *(environment / "callsheet", "worker", "--tasks"),
        cwd=tmp_path,
        stderr=PIPE,
        env={
            "PATH": os.environ["PATH"],
            "API_BASE_URL": plugin_harness.plane.settings.public_url,
            "FLEET_SECRET": SECRET,
            "WORKER_ID": "elsewhere",
            "CALLSHEET_PROVIDERS__PLUGINS__TINY__SIGNATURE": "in the corner",
        },
    )
    assert worker.stderr is not None
    reading = asyncio.create_task(worker.stderr.read())
    try:
        assert (await plugin_harness.ended(ann, counted))["result"]["data"]["letters"] == 7
        result: dict[str, Any] = (await plugin_harness.ended(ann, painted))["result"]
        assert result["data"]["details"] == {"signature": "in the corner"}
        assert (await plugin_harness.client.get(result["urls"][0])).content.startswith(b"\x89PNG")
        failed = await plugin_harness.ended(ann, failing, "failed")
        assert failed["error"] == {"type": "tiny_failed", "message": UNKNOWN}
        worker.terminate()
        assert await worker.wait() == 0, (await reading).decode()
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
        printed = await reading
    assert b"Traceback" not in printed
