"""Schemathesis makes up requests from our own OpenAPI document: no 5xx, and every answer is as documented."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.wire.identity import Role
from callsheet.wire.tenant.service_keys import CreateServiceKey, ServiceScope
from tests.api.conftest import Started
from tests.support.http.accounts import People, Person
from tests.support.http.jobs_api import JobsApi

CONFIG = Path(__file__).with_name("schemathesis.toml")
# It finds its own key in a list and revokes it, or disables its own tenant. After that, it would only test 401.
KEEP_ACCESS = """
CREATE FUNCTION keep_key() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.revoked_at := NULL; RETURN NEW; END';
CREATE FUNCTION keep_enabled() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.disabled_at := NULL; RETURN NEW; END';
CREATE TRIGGER keep BEFORE UPDATE ON api_keys FOR EACH ROW EXECUTE FUNCTION keep_key();
CREATE TRIGGER keep BEFORE UPDATE ON tenants FOR EACH ROW EXECUTE FUNCTION keep_enabled();
"""
# A text of exactly as many characters takes minutes to make up, as does one of any length by a pattern with groups.
LONG_TEXT = 1000


def without_costly_lengths(node: Any) -> Any:
    """The document without the limits of length that schemathesis would look for texts of for minutes."""
    if isinstance(node, list):
        return [without_costly_lengths(each) for each in node]
    if not isinstance(node, dict):
        return node
    is_costly = isinstance(node.get("type"), str) and (
        node.get("maxLength", 0) > LONG_TEXT or "(" in node.get("pattern", "")
    )
    dropped = {"minLength", "maxLength"} if is_costly else set()
    return {name: without_costly_lengths(value) for name, value in node.items() if name not in dropped}


SERVICE_KEY = "service key"


async def headers_of(plane: ControlPlane, caller: str, person: Person) -> dict[str, str]:
    """The user's own key, or a service key that acts for the user. Schemathesis leaves out `Authorization` in some
    requests, and finds it by this spelling only.
    """
    if caller != SERVICE_KEY:
        return {"Authorization": f"Bearer {person.key}"}
    wanted = CreateServiceKey(name="shop", scopes=list(ServiceScope))
    key = await plane.rooms.identity.service_keys.create(person.tenant.id, wanted, "operator", may_credit=True)
    return {"Authorization": f"Bearer {key.key}", "Callsheet-On-Behalf-Of": f"user:{person.user.id}"}


@pytest.mark.thorough
@pytest.mark.parametrize("caller", [Role.USER.value, Role.OPERATOR.value, SERVICE_KEY])
async def test_generated_requests_cause_no_server_error_and_match_the_api_document(
    started: Started, caller: str, tmp_path: Path
) -> None:
    document = tmp_path / "openapi.json"
    async with started(identity={"login_attempts_per_address": 100_000}) as (plane, client):
        people = People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        person = await people.user(role=Role.USER if caller == SERVICE_KEY else Role(caller))
        headers = await headers_of(plane, caller, person)
        job = await (await JobsApi.open(plane, client, people)).submit(person, cost=0)
        async with plane.databases.central.connection() as connection:
            await connection.execute(KEEP_ACCESS)
        # A stream that ends only with its job would be waited for, for ever.
        plane.rooms.jobs.feeds.close()
        found = (await client.get("/openapi.json", timeout=300)).json()
        document.write_text(json.dumps(without_costly_lengths(found)))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "--no-color", "--config-file", str(CONFIG)),
            *("run", str(document), "--url", plane.settings.public_url),
            *(part for name, value in headers.items() for part in ("--header", f"{name}: {value}")),
            env=os.environ | {"NO_PROXY": "*", "JOB_ID": job["id"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await process.communicate())[0].decode()
        assert process.returncode == 0, output

        operations = sum(len(methods) for methods in found["paths"].values())
        assert f"Selected: {operations}/{operations}\n  Tested: {operations}\n" in output, output
        metrics = (await client.get("/metrics")).text
        statuses = re.findall(r'^callsheet_http_requests_total\{.*status="(\d+)"\} (\S+)$', metrics, re.MULTILINE)
        assert sum(float(count) for _, count in statuses) > 500
        assert {status for status, _ in statuses} >= {"200", "201", "204", "400", "401", "403", "404", "405", "422"}
        assert not [status for status, _ in statuses if status >= "500"]
        assert (await client.get("/api/wallet", headers=headers)).status_code == 200
        # It was found, and among other things canceled; maybe deleted after that.
        pool = await plane.databases.pool(person.tenant.pool)
        async with pool.connection() as connection:
            status = await connection.fetchval("SELECT status FROM ai_jobs WHERE id = $1::uuid", job["id"])
        assert status == "canceled"
