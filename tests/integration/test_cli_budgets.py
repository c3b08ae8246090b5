"""`callsheet budgets` as administrators of a tenant use it: over HTTP, with an API key."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx

from callsheet.app.control_plane import ControlPlane
from callsheet.wire.identity import Role
from tests.support.http.accounts import People
from tests.support.http.catalog_api import CatalogApi
from tests.support.programs.commands import Callsheet


async def test_an_administrator_of_a_tenant_manages_its_budgets(
    plane: ControlPlane, people: People, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    api = await CatalogApi.open(plane, client, people)
    ann = await api.person()
    boss = await people.user(ann.tenant, Role.TENANT_ADMIN)
    stranger = await people.user(role=Role.TENANT_ADMIN)
    callsheet = Callsheet(tmp_path, CLIENT__URL=plane.settings.public_url)

    async def run(*arguments: str, code: int = 0) -> str:
        result = await asyncio.to_thread(callsheet.call, "budgets", *arguments)
        assert result.code == code, result
        return str(result.out if code == 0 else result.err)

    async def parsed(*arguments: str) -> Any:
        return json.loads(await run(*arguments, "--json"))

    async def sign_in(key: str) -> None:
        login = ("login", plane.settings.public_url, "--key-stdin")
        assert (await asyncio.to_thread(callsheet.call, *login, input=f"{key}\n")).code == 0

    await sign_in(boss.key)
    created = await parsed("create", "Campaigns", "--limit", "12", "--period", "day", "--user", str(ann.user.id))
    assert (created["limit"], created["user_id"]) == (12, str(ann.user.id))
    effect = await api.effect(credits_cost=5)
    body = {"effect_id": effect["slug"], "input_file_id": await api.file(ann), "input_payload": {"prompt": "a cat"}}
    assert (await api.call("POST", "/api/ai-jobs", body, person=ann)).status_code == 201
    [listed] = await parsed("list", "--tenant", ann.tenant.slug)
    assert (listed["id"], listed["taken"], listed["left"]) == (created["id"], 5, 7)
    table = " ".join((await run("list")).split())
    assert f"user {ann.user.email}" in table
    assert "5 tokens of 10 left" in await run("change", created["id"], "--limit", "10")
    spent = await parsed("spending", "--by", "user")
    assert [(row["subject"], row["jobs"], row["tokens"]) for row in spent["rows"]] == [(str(ann.user.id), 1, 5)]
    assert "5 tokens in total." in await run("spending", "--period", "month")
    assert "the name 'Campaigns'" in await run("create", "Campaigns", "--limit", "1", code=1)
    await sign_in(stranger.key)
    assert await parsed("list") == []
    await run("list", "--tenant", str(ann.tenant.id), code=1)
    await run("delete", created["id"], "--tenant", str(ann.tenant.id), "--yes", code=1)
    await sign_in(boss.key)
    await run("delete", created["id"], "--yes")
    assert await parsed("list") == []
