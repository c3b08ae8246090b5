"""The secret key is rotated with an overlap: nothing that was made under the old key breaks before `secrets finish`."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.deliveries.room import open_deliveries
from callsheet.fleet.registry.credentials import fleet_secret
from callsheet.identity.access.principal import Principal
from callsheet.plumbing.database.databases import open_databases, open_installation
from callsheet.plumbing.installation import secrets
from callsheet.plumbing.installation.installation_key import WrongKey
from callsheet.plumbing.installation.reseal import read_seals
from callsheet.plumbing.installation.secrets import fingerprint, master_secret, seal, unseal
from callsheet.settings import Settings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.ids import uuid7
from callsheet.toolbox.signing import KeyPair, SigningKeys
from callsheet.wire.identity import Role
from callsheet.wire.webhook_endpoints import CreateWebhookEndpoint
from tests.support.database.installation import changed
from tests.support.http.accounts import People, Person, sign_in
from tests.support.jobs.core import open_core
from tests.support.programs.commands import Callsheet

_numbers = itertools.count(1)
OLD, NEW = "the old key, with more than 32 characters", "the new key, with more than 32 characters"


@dataclass(frozen=True)
class Running:
    settings: Settings
    plane: ControlPlane
    client: httpx.AsyncClient

    @property
    def fleet_secret(self) -> str:
        return fleet_secret(self.settings.fleet, master_secret(self.settings))

    async def register(self, secret: str, worker_id: str | None = None) -> httpx.Response:
        body = {"worker_id": worker_id or f"gpu-{next(_numbers)}", "workflow_slugs": ["rotating"]}
        return await self.client.post("/api/worker/register", json=body, headers={"x-fleet-secret": secret})

    async def new_key_name(self, browser: Browser) -> int:
        """A request that changes something, as a page that was loaded before sends it."""
        response = await self.client.post("/api/keys", json={"name": "x"}, headers=browser.headers)
        return response.status_code


@dataclass(frozen=True)
class Browser:
    headers: dict[str, str]


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Running]:
    # The one that is derived from the key.
    settings = changed(settings, fleet={"secret": None, "auto_approve": None})
    async with (
        running_control_plane(settings) as plane,
        httpx.AsyncClient(base_url=settings.public_url, trust_env=False, timeout=30) as client,
    ):
        yield Running(settings, plane, client)


@dataclass(frozen=True)
class InFlight:
    """What is out there when the key is replaced."""

    person: Person
    browser: Browser
    upload: str
    download: str
    fleet_secret: str
    worker_token: str


async def put_out(here: Running) -> InFlight:
    plane, storage = here.plane, here.plane.rooms.storage
    person = await People(plane.rooms.identity.accounts, plane.rooms.identity.keys).user(pool="pool_2")
    await storage.put("kept/object", b"hello", content_type="text/plain")
    signed_in = await sign_in(here.client, person)
    cookie = signed_in.headers["set-cookie"].split(";")[0]
    headers = {"x-csrf-token": signed_in.json()["csrf_token"], "cookie": cookie}
    await open_core(plane.databases).add_workflow("rotating")
    registered = (await here.register(here.fleet_secret, "gpu")).json()
    await plane.rooms.fleet.workers.rotate_token("gpu", "test")
    here.client.cookies.clear()
    return InFlight(
        person=person,
        browser=Browser(headers),
        upload=storage.presign_put("new/object", content_type="text/plain", size=5).url,
        download=storage.presign_get("kept/object").url,
        fleet_secret=here.fleet_secret,
        worker_token=registered["token"],
    )


async def check_all_works(here: Running, out: InFlight) -> None:
    assert (await here.client.get(out.download)).content == b"hello"
    sent = await here.client.put(out.upload, content=b"bytes", headers={"content-type": "text/plain"})
    assert sent.status_code in (200, 201, 204), sent.text
    assert (await here.register(out.fleet_secret)).status_code in (200, 201)
    assert await here.new_key_name(out.browser) == 201
    # The sealed DSN of its pool is opened.
    assert (await here.client.get("/api/wallet", headers=out.person.headers)).status_code == 200


async def rotated_token(here: Running, out: InFlight) -> str | None:
    return (await here.plane.rooms.fleet.authentication.of(f"Bearer {out.worker_token}", for_poll=True)).rotated_token


def command_for(settings: Settings, directory: Path, **variables: str) -> Callsheet:
    assert settings.database.dsn is not None
    dsn = settings.database.dsn.get_secret_value()
    return Callsheet(directory, HOME=str(settings.home), DATABASE__DSN=dsn, **variables)


@pytest.mark.thorough
async def test_a_key_of_the_data_directory_is_rotated_under_a_running_control_plane(
    settings: Settings, tmp_path: Path
) -> None:
    callsheet = command_for(settings, tmp_path)
    before = callsheet.succeed("secrets", "status", "--json").json
    assert (before["source"], before["second_key"], before["sealed_with_key"]) == ("data directory", None, ["pool_2"])
    async with running(settings) as here:
        out = await put_out(here)
        token = await rotated_token(here, out)
        printed = callsheet.succeed("secrets", "rotate").out
        assert "Restart every control plane" in printed
        assert "DSNs sealed with the new key: pool_2." in printed
        # The process still has the old key only, and keeps what it has opened.
        await here.plane.databases.refresh_pools()
        assert here.plane.databases.unavailable == {}
        await check_all_works(here, out)
    assert (settings.home / "second_secret_key").stat().st_mode & 0o777 == 0o600
    async with running(settings) as here:
        await check_all_works(here, out)
        # The same token as before the restart, or the worker would get a token that no control plane knows.
        assert await rotated_token(here, out) == token
        assert here.fleet_secret != out.fleet_secret
        assert (await here.register(here.fleet_secret)).status_code in (200, 201)
        later = here.plane.rooms.storage.presign_get("kept/object").url
    status = callsheet.succeed("secrets", "status", "--json").json
    assert status["second_key"] == before["key"]
    assert status["sealed_with_key"] == ["pool_2"]
    assert "The old key was removed" in callsheet.succeed("secrets", "finish").out
    assert callsheet.succeed("secrets", "finish").out == "No rotation is in progress.\n"
    async with running(settings) as here:
        assert here.plane.databases.unavailable == {}
        assert (await here.client.get(later)).content == b"hello"
        assert (await here.client.get(out.download)).status_code == 403
        assert (await here.register(out.fleet_secret)).status_code == 401
        assert await here.new_key_name(out.browser) == 403
        # Sessions and API keys are not derived from the secret.
        assert (await here.client.get("/api/me", headers=out.browser.headers)).status_code == 200
        assert (await here.client.get("/api/me", headers=out.person.headers)).status_code == 200


def with_keys(settings: Settings, first: str, second: str | None = None) -> Settings:
    given = {"secret_key": SecretStr(first), "second_secret_key": None if second is None else SecretStr(second)}
    return settings.model_copy(update=given)


async def seal_an_endpoint(settings: Settings, key: str) -> None:
    """Creates a webhook endpoint under this key."""
    principal = Principal(
        user_id=uuid7(),
        tenant_id=uuid7(),
        tenant="ann",
        pool="pool_2",
        email="ann@example.com",
        name="Ann",
        role=Role.USER,
        signed_in_with="api_key",
    )
    databases = await open_installation(settings)
    room = open_deliveries(databases, settings, key.encode())
    try:
        pool = await databases.pool("pool_2")
        async with pool.connection() as connection:
            await connection.execute("INSERT INTO pool_tenants (tenant_id) VALUES ($1)", principal.tenant_id)
        await room.endpoints.create(principal, CreateWebhookEndpoint(url="https://shop.example.com/hook"))
    finally:
        await room.close()
        await databases.close()


@pytest.mark.thorough
async def test_a_key_of_the_settings_is_rotated_in_two_rounds_of_restarts(settings: Settings, tmp_path: Path) -> None:
    """Every control plane accepts the new key before any of them uses it."""
    assert settings.database.dsn is not None
    kept = master_secret(settings)
    assert isinstance(kept, bytes)
    first = kept.decode()
    callsheet = command_for(settings, tmp_path, SECRET_KEY=first)
    printed = callsheet.succeed("secrets", "rotate").out
    assert "1. Set CALLSHEET_SECOND_SECRET_KEY" in printed
    new = printed.splitlines()[0].removeprefix("New key: ")
    assert len(new) >= 32
    async with running(with_keys(settings, first)) as here:
        out = await put_out(here)
    async with running(with_keys(settings, first, new)) as here:
        await check_all_works(here, out)
        # A control plane of the next round signs with the new key.
        ahead = SigningKeys(KeyPair(new.encode(), kept), "storage-urls")
        assert SigningKeys(KeyPair(kept, new.encode()), "storage-urls").verify(ahead.sign("x"), "x")
    assert "If you have rotated it" in callsheet.having(SECRET_KEY=new).call("users", "list").sentence
    swapped = callsheet.having(SECRET_KEY=new, SECOND_SECRET_KEY=first)
    assert "is sealed with the second key only. Run: callsheet secrets rotate" in swapped.run("secrets", "finish").err
    async with running(with_keys(settings, new, first)) as here:
        await check_all_works(here, out)
        assert "sealed with the new key: pool_2" in swapped.succeed("secrets", "rotate").out
        assert "none was needed" in swapped.succeed("secrets", "rotate").out
    await seal_an_endpoint(with_keys(settings, new, first), first)
    assert (
        "The secrets of 1 webhook endpoint are sealed with the second key only" in swapped.run("secrets", "finish").err
    )
    async with running(with_keys(settings, new, first)) as here:
        await here.plane.rooms.deliveries.keeper.tick(datetime.now(UTC))
    assert "Remove CALLSHEET_SECOND_SECRET_KEY" in swapped.succeed("secrets", "finish").out
    assert callsheet.having(SECRET_KEY=new).succeed("users", "list").code == 0
    assert "has another secret key" in callsheet.call("users", "list").sentence
    seals = await read_seals(settings.database.dsn.get_secret_value(), new.encode())
    assert (seals.first, seals.second, seals.neither) == (["pool_2"], [], [])


async def test_a_control_plane_or_command_with_another_key_is_refused_and_a_lost_key_can_be_replaced(
    settings: Settings, tmp_path: Path
) -> None:
    await (await open_databases(settings)).close()
    mine, other = with_keys(settings, OLD), command_for(settings, tmp_path, SECRET_KEY=OLD)
    with pytest.raises(WrongKey, match="callsheet secrets reset"):
        await open_databases(mine)
    assert "This installation has another secret key" in other.call("users", "list").sentence
    doctor = other.call("doctor", "--json")
    assert [each["status"] for each in doctor.json if "This installation has another" in each["message"]] == ["problem"]
    status = other.call("secrets", "status", "--json").json
    assert status["installation_key"] != status["key"] == fingerprint(OLD.encode())
    # A machine without a key runs commands that need none, and starts no control plane with a new key.
    keyless = settings.model_copy(update={"home": tmp_path / "keyless"})
    with pytest.raises(OperatorError, match="The secret key of this installation is not here"):
        await open_databases(keyless)
    assert not (tmp_path / "keyless" / "secret_key").exists()
    assert command_for(keyless, tmp_path).call("users", "list").sentence.startswith("The secret key of this")

    assert other.call("secrets", "reset").sentence.startswith("Nothing was changed.")
    printed = other.call("secrets", "reset", "--yes").out
    assert f"The secret key of this installation is now {fingerprint(OLD.encode())}." in printed
    assert "callsheet db add-pool pool_2 DSN" in printed
    databases = await open_databases(mine)
    [(name, problem)] = databases.unavailable.items()
    assert name == "pool_2"
    assert "pool pool_2 was sealed with another secret key. Set CALLSHEET_SECRET_KEY" in problem
    await databases.close()
    with pytest.raises(WrongKey):
        await open_databases(settings)


async def test_a_control_plane_whose_key_opens_no_pool_does_not_record_its_key(settings: Settings) -> None:
    """The first start after an update, on a machine with the wrong key."""
    await (await open_databases(with_keys(settings, OLD))).close()
    await (await open_databases(settings)).close()
    with pytest.raises(WrongKey):
        await open_databases(with_keys(settings, OLD))


def test_a_rotation_that_was_interrupted_is_continued(tmp_path: Path, settings: Settings) -> None:
    old = master_secret(settings)
    secret, second = settings.home / "secret_key", settings.home / "second_secret_key"
    # As after a crash between the two steps: the same key under both names, which does not count as a rotation.
    second.hardlink_to(secret)
    assert master_secret(settings) == old
    secrets.replace_kept(settings.home)
    found = master_secret(settings)
    assert isinstance(found, KeyPair)
    assert found.second == old
    assert found.first != old
    assert secret.stat().st_mode & 0o777 == 0o600
    assert sorted(file.name for file in settings.home.iterdir() if "secret" in file.name) == [
        "second_secret_key",
        "secret_key",
    ]


@pytest.mark.parametrize("purpose", ["storage-urls", "csrf token", "fleet secret"])
def test_both_keys_verify_and_the_first_one_signs(purpose: str) -> None:
    old, new = SigningKeys(OLD.encode(), purpose), SigningKeys(NEW.encode(), purpose)
    both = SigningKeys(KeyPair(NEW.encode(), OLD.encode()), purpose)
    assert both.sign("a", "b") == new.sign("a", "b")
    assert both.verify(old.sign("a", "b"), "a", "b")
    assert both.verify(new.sign("a", "b"), "a", "b")
    assert not both.verify(old.sign("a", "b"), "ab")
    assert not new.verify(old.sign("a", "b"), "a", "b")


def test_a_sealed_text_is_opened_with_either_key() -> None:
    both = KeyPair(NEW.encode(), OLD.encode())
    assert unseal(both, "pool dsn", seal(OLD.encode(), "pool dsn", "text")) == "text"
    assert unseal(NEW.encode(), "pool dsn", seal(both, "pool dsn", "text")) == "text"
    assert unseal(OLD.encode(), "pool dsn", seal(both, "pool dsn", "text")) is None
