"""`callsheet up`: one command, and a task that asks for an image gets one."""

from __future__ import annotations

import io
import signal
import time
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.support.programs.commands import SECONDS, Callsheet

pytestmark = pytest.mark.usefixtures("installed_with_one_pool")

SMALL = {"width": 64, "height": 64}
IMAGE = {"provider": "lightbox", "action_type": "txt2img", "prompt": "a red fox", "params": SMALL}


def ended(client: httpx.Client, task: dict[str, Any]) -> dict[str, Any]:
    deadline = time.monotonic() + SECONDS
    while (shown := client.get(f"/api/task/{task['task_id']}").json())["completed_at"] is None:
        assert time.monotonic() < deadline, shown
        time.sleep(0.05)
    return dict(shown)


@pytest.mark.thorough
def test_the_command_up_alone_is_enough_to_make_an_image(callsheet: Callsheet) -> None:
    everything = callsheet.having(LIGHTBOX__PORT="0")
    everything.succeed("tenants", "create", "acme")
    everything.succeed("users", "create", "ann@example.com", "--tenant", "acme")
    key = everything.succeed("keys", "create", "--user", "ann@example.com", "--name", "test", "--json").json["key"]
    with everything.running("up", "--port", "0") as up:
        url = up.wait_for("Callsheet is at").split()[3]
        with httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=60
        ) as client:
            response = client.post("/api/task", json={"actor": "media", "payload": IMAGE})
            assert response.status_code == 201, response.text
            shown = ended(client, response.json())
            assert shown["status"] == "completed", shown
            [address] = shown["result"]["urls"]
            image = Image.open(io.BytesIO(httpx.get(address, trust_env=False, timeout=60).content))
            assert image.size == (64, 64)
        left = up.end(signal.SIGTERM)
    assert left.code == 0, left
    assert "Traceback" not in left.err


@pytest.mark.thorough
def test_the_command_up_refuses_to_start_without_tasks(callsheet: Callsheet) -> None:
    assert "callsheet serve" in callsheet.having(TASKS__IN_PROCESS="0").call("up").sentence
