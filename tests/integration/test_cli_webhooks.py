"""`callsheet webhooks` as people use it: over HTTP, with an API key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.settings import Settings
from tests.support.deliveries import LOOPBACK
from tests.support.http.accounts import People
from tests.support.http.webhook_receiver import receiving
from tests.support.programs.commands import Callsheet


@pytest.fixture
async def plane(settings: Settings) -> AsyncIterator[ControlPlane]:
    async with running_control_plane(settings.model_copy(update={"outgoing": LOOPBACK})) as plane:
        yield plane


async def test_an_endpoint_is_created_tested_repaired_and_deleted(
    plane: ControlPlane, people: People, tmp_path: Path
) -> None:
    callsheet = Callsheet(tmp_path, CLIENT__URL=plane.settings.public_url)

    async def run(*arguments: str, code: int = 0) -> str:
        result = await asyncio.to_thread(callsheet.call, *arguments)
        assert result.code == code, result
        return str(result.out)

    async def parsed(*arguments: str) -> Any:
        return json.loads(await run(*arguments, "--json"))

    ann = await people.user()
    login = ("login", plane.settings.public_url, "--key-stdin")
    assert (await asyncio.to_thread(callsheet.call, *login, input=f"{ann.key}\n")).code == 0
    async with receiving() as receiver:
        wanted = ("--event", "job.completed", "--event", "wallet.low", "--low-balance", "7", "--description", "shop")
        created = await parsed("webhooks", "create", receiver.url, *wanted)
        endpoint = created["id"]
        [listed] = await parsed("webhooks", "list")
        assert (listed["events"], listed["low_balance"]) == (["job.completed", "wallet.low"], 7)
        assert "secret" not in listed
        assert "accepted the test with status 200" in await run("webhooks", "test", endpoint)
        [(headers, body)] = receiver.requests
        assert Webhook(created["secret"]).verify(body, headers)["type"] == "webhook.test"
        rotated = await parsed("webhooks", "rotate", endpoint)
        receiver.status = 410
        assert "returned 410" in await run("webhooks", "test", endpoint)
        headers, body = receiver.requests[-1]
        assert Webhook(rotated["secret"]).verify(body, headers)
        assert "disabled: The endpoint returned 410 (gone)." in " ".join((await run("webhooks", "list")).split())
        [refused, accepted] = await parsed("webhooks", "log", endpoint)
        assert (refused["response_status"], accepted["status"]) == (410, "delivered")
        receiver.status = 200
        assert "is enabled" in await run("webhooks", "enable", endpoint)
        assert "sent again" in await run("webhooks", "redeliver", endpoint, str(accepted["id"]))
        assert "switched off" in await run("webhooks", "disable", endpoint)
        await run("webhooks", "delete", endpoint, "--yes")
        assert await parsed("webhooks", "list") == []
        problem = await run("webhooks", "log", endpoint, code=1)
        assert problem == ""


async def test_a_wrong_url_is_named_as_the_field_that_is_wrong(
    plane: ControlPlane, people: People, tmp_path: Path
) -> None:
    callsheet = Callsheet(tmp_path, CLIENT__URL=plane.settings.public_url)
    ann = await people.user()
    login = ("login", plane.settings.public_url, "--key-stdin")
    assert (await asyncio.to_thread(callsheet.call, *login, input=f"{ann.key}\n")).code == 0
    result = await asyncio.to_thread(callsheet.call, "webhooks", "create", "http://shop.example.com/hook")
    assert result.code == 1
    assert "Use https://" in result.err
