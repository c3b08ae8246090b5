"""A password that a release published opens nothing to other machines: it cannot be set, served or overlooked."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.app.control_plane import ControlPlane, open_control_plane, running_control_plane
from callsheet.cli.shared.login import demo_password_file, read_demo_password
from callsheet.identity.access.known_passwords import DEMO_EMAIL, password_fits
from callsheet.identity.access.passwords import Passwords
from callsheet.operate.installation.examination import examine
from callsheet.settings import Settings
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.identity import PUBLISHED_PASSWORDS
from callsheet_demo.account import seed_account
from tests.support.database.installation import changed
from tests.support.run.ports import free_port

PUBLISHED = PUBLISHED_PASSWORDS[0]
MANY_ADDRESSES = "0.0.0.0"
REACHED_FROM_ELSEWHERE = [
    {"host": MANY_ADDRESSES},
    {"host": "::"},
    # A proxy in front.
    {"host": "127.0.0.1", "public_url": "https://callsheet.example.com"},
]


async def as_before(plane: ControlPlane) -> None:
    """The account as older demos made it: with the published password, which cannot be set any more."""
    await seed_account(plane)
    demo_password_file(plane.settings).unlink()
    await has_password(plane, PUBLISHED)


async def has_password(plane: ControlPlane, password: str) -> None:
    async with plane.databases.central.connection() as connection:
        password_hash = await Passwords().hash(password)
        await connection.execute("UPDATE users SET password_hash = $1 WHERE email = $2", password_hash, DEMO_EMAIL)


async def fits(plane: ControlPlane, password: str) -> bool:
    async with plane.databases.central.connection() as connection:
        return await password_fits(connection, Passwords(), DEMO_EMAIL, password)


@pytest.mark.parametrize(
    "server",
    [
        REACHED_FROM_ELSEWHERE[0],
        *(pytest.param(server, marks=pytest.mark.thorough) for server in REACHED_FROM_ELSEWHERE[1:]),
    ],
)
async def test_other_machines_are_not_served_until_the_known_password_is_changed(
    settings: Settings, server: dict[str, Any]
) -> None:
    async with open_control_plane(settings) as plane:
        await as_before(plane)
    public = changed(settings, server={"port": free_port(), **server})
    with pytest.raises(OperatorError, match=f"callsheet users set-password {DEMO_EMAIL}") as refused:
        async with running_control_plane(public):
            pytest.fail("it is served")
    assert PUBLISHED not in str(refused.value)
    async with running_control_plane(changed(settings, server={"port": free_port()})) as plane:
        await plane.accounts.set_password(DEMO_EMAIL, "another password")
    async with running_control_plane(public):
        pass


@pytest.mark.thorough
async def test_a_user_who_cannot_sign_in_does_not_block_serving(settings: Settings) -> None:
    public = changed(settings, server={"port": free_port(), "host": MANY_ADDRESSES})
    async with open_control_plane(settings) as plane:
        await as_before(plane)
        async with plane.databases.central.connection() as connection:
            await connection.execute("UPDATE users SET disabled_at = now() WHERE email = $1", DEMO_EMAIL)
    async with running_control_plane(public):
        pass


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("server", "status"), [({}, "warning"), *((server, "problem") for server in REACHED_FROM_ELSEWHERE)]
)
async def test_doctor_names_an_account_with_a_known_password(
    settings: Settings, server: dict[str, Any], status: str
) -> None:
    async with open_control_plane(settings) as plane:
        await as_before(plane)
        found = [each for each in await examine(changed(settings, server=server)) if each.part == "accounts"]
        assert [(each.status, each.advice) for each in found] == [
            (status, f"callsheet users set-password {DEMO_EMAIL}")
        ]
        assert DEMO_EMAIL in found[0].message
        await plane.accounts.set_password(DEMO_EMAIL, "another password")
        assert not [each for each in await examine(settings) if each.part == "accounts"]


@pytest.mark.thorough
async def test_the_demo_generates_a_password_and_keeps_it(settings: Settings) -> None:
    async with open_control_plane(settings) as plane:
        _, password = await seed_account(plane)
        assert password is not None
        assert password == read_demo_password(settings)
        assert password not in PUBLISHED_PASSWORDS
        assert await fits(plane, password)
        assert (await seed_account(plane))[1] == password


@pytest.mark.thorough
async def test_the_demo_replaces_a_published_password(settings: Settings) -> None:
    async with open_control_plane(settings) as plane:
        await as_before(plane)
        _, password = await seed_account(plane)
        assert password is not None
        assert password == read_demo_password(settings)
        assert await fits(plane, password)
        assert not await fits(plane, PUBLISHED)


@pytest.mark.thorough
@pytest.mark.parametrize("file_is_kept", [True, False])
async def test_the_demo_leaves_a_password_that_a_person_set(settings: Settings, file_is_kept: bool) -> None:
    async with open_control_plane(settings) as plane:
        await seed_account(plane)
        await plane.accounts.set_password(DEMO_EMAIL, "a password of mine")
        if not file_is_kept:
            demo_password_file(settings).unlink()
        assert (await seed_account(plane))[1] is None
        assert await fits(plane, "a password of mine")


@pytest.mark.thorough
async def test_a_demo_that_died_before_it_set_the_password_uses_the_one_it_wrote(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_control_plane(settings) as plane:

        async def dies(*_: object) -> None:
            raise ConnectionError

        with monkeypatch.context() as broken:
            broken.setattr("callsheet.identity.accounts.accounts.Accounts.create_user", dies)
            with pytest.raises(ConnectionError):
                await seed_account(plane)
        written = read_demo_password(settings)
        assert (await seed_account(plane))[1] == written is not None
