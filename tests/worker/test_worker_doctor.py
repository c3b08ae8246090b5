"""`callsheet doctor --worker`: what a machine with an engine and nothing else needs, and what to do about problems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from callsheet.cli.fleet.worker_doctor import examine_worker
from callsheet.settings import load_settings
from callsheet.settings.findings import SettingsFinding
from tests.worker.harness import AgentHarness

CLOSED_URL = "http://127.0.0.1:1"


async def examined(
    agent_harness: AgentHarness, home: Path, engine_url: str | None = None, **worker: Any
) -> Mapping[str, SettingsFinding]:
    given = {
        "api_url": agent_harness.worker_harness.plane.settings.public_url,
        "secret": agent_harness.worker_harness.secret,
        "id": "gpu-1",
        "fleet": "gpus",
    }
    settings = load_settings(
        home=home, engine={"url": engine_url or agent_harness.engine.url}, worker={**given, **worker}
    )
    return {finding.part: finding for finding in await examine_worker(settings)}


async def test_doctor_describes_the_worker_if_every_check_passes(agent_harness: AgentHarness, tmp_path: Path) -> None:
    found = await examined(agent_harness, tmp_path / "not" / "there", cache_bytes=0)
    assert {part: finding.status for part, finding in found.items()} == dict.fromkeys(
        ("worker", "server", "secret", "clock", "engine", "disk"), "ok"
    )
    assert found["worker"].message == "Worker gpu-1 serves the fleet gpus."
    assert agent_harness.engine.version in found["engine"].message
    assert not (tmp_path / "not").exists()
    assert await agent_harness.workers() == [], "no worker is registered"
    assert agent_harness.worker_harness.secret not in str(found)


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("part", "changes", "message", "advice"),
    [
        ("worker", {"fleet": None}, "neither a registration token nor a fleet", "FLEET_SLUG"),
        ("server", {"api_url": CLOSED_URL}, f"No control plane responds at {CLOSED_URL}", "API_BASE_URL"),
        ("secret", {"secret": None}, "no fleet secret", "callsheet fleets tokens create"),
        ("secret", {"secret": "wrong-" * 4}, "refuses the fleet secret", "callsheet fleets tokens create"),
        ("engine", {"engine_url": CLOSED_URL}, f"The engine at {CLOSED_URL} takes no job", "COMFYUI_BASE_URL"),
    ],
    ids=["fleet", "server", "no secret", "wrong secret", "engine"],
)
async def test_a_missing_part_is_a_problem_with_advice(
    agent_harness: AgentHarness, tmp_path: Path, part: str, changes: dict[str, Any], message: str, advice: str
) -> None:
    found = (await examined(agent_harness, tmp_path, **changes))[part]
    assert (found.status, message in found.message, advice in found.advice) == ("problem", True, True), found


async def test_with_a_registration_token_a_worker_needs_no_fleet(agent_harness: AgentHarness, tmp_path: Path) -> None:
    worker_harness = agent_harness.worker_harness
    created = await worker_harness.jobs_api.post(
        "/api/admin/fleets", {"slug": "tokens", "workflow_slugs": [worker_harness.jobs_api.workflow]}
    )
    token = (await worker_harness.jobs_api.post(f"/api/admin/fleets/{created.json()['id']}/tokens", {})).json()["token"]
    found = await examined(agent_harness, tmp_path, fleet=None, secret=token)
    assert (found["worker"].status, found["secret"].status) == ("ok", "ok")
    assert found["worker"].message == "Worker gpu-1 serves the fleet of its registration token."


async def test_a_directory_that_is_not_the_engines_is_a_problem(agent_harness: AgentHarness, tmp_path: Path) -> None:
    (tmp_path / "output").mkdir()
    engine = {"url": agent_harness.engine.url, "directory": tmp_path}
    found = {each.part: each for each in await examine_worker(load_settings(home=tmp_path, engine=engine))}["engine"]
    assert (found.status, found.message) == ("problem", f"{tmp_path} has no directory input in it.")
    assert "CALLSHEET_ENGINE__DIRECTORY" in found.advice
    (tmp_path / "input").mkdir()
    found = {each.part: each for each in await examine_worker(load_settings(home=tmp_path, engine=engine))}["engine"]
    assert found.status == "ok"


async def test_a_cache_that_does_not_fit_on_the_disk_is_a_warning(agent_harness: AgentHarness, tmp_path: Path) -> None:
    found = (await examined(agent_harness, tmp_path, cache_bytes=2**60))["disk"]
    assert (found.status, "CACHE_BYTES" in found.advice) == ("warning", True)
