"""A package of others beside the base install: found, planned with and run, without a server package anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.plugin_wheel import plugin_wheel
from tests.support.wheels import fresh_environment, run

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
            say = lambda percent, message: heard.append([percent, message])
            done = await registry.actors[actor].run(Task("tq_1", payload, 1, pathlib.Path(directory), say))
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


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("plugin")
    return fresh_environment(directory / "venv", wheel, plugin_wheel(directory))


def test_a_provider_and_an_actor_of_others_run_beside_the_base_install(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "callsheet.toml").write_text("[providers.plugins.tiny]\nsignature = 'in the corner'\n")
    ended = run(environment / "python", "-W", "error", "-c", RUN_WHAT_THE_PACKAGE_BRINGS, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout.splitlines()[-1])
    assert answer["count"]["result"]["letters"] == 7
    assert "tiny" in answer["count"]["result"]["providers"]
    assert answer["count"]["limit"] == ["tiny_count", 5]
    assert answer["media"] == {
        "provider": "tiny",
        "limit": ["media:tiny", 2],
        "result": {"provider": "tiny", "action": "txt2img", "details": {"signature": "in the corner"}},
        "files": [["tiny.png", "image/png", "89504e470d0a1a0a"]],
    }
    assert answer["heard"] == [[100.0, "Counted"], [50.0, "Painting"]]
    assert answer["loaded"] == []


def test_the_settings_of_the_package_are_listed_and_not_shown(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "callsheet.toml").write_text("[providers.plugins.tiny]\nsignature = 'in the corner'\n")
    listed = run(environment / "callsheet", "settings", "--json", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)["CALLSHEET_PROVIDERS__PLUGINS"] == {"tiny": "**********"}
