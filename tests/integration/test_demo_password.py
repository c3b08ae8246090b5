"""The demo creates a random password for each installation, stores it, and leaves the password that a person set."""

from __future__ import annotations

import pytest

from callsheet.app.control_plane import ControlPlane, open_control_plane
from callsheet.cli.shared.login import demo_password_file, read_demo_password
from callsheet.identity.access.passwords import password_fits
from callsheet.settings import Settings
from callsheet_demo.account import DEMO_EMAIL, seed_account


async def fits(plane: ControlPlane, password: str) -> bool:
    async with plane.databases.central.connection() as connection:
        return await password_fits(connection, DEMO_EMAIL, password)


@pytest.mark.thorough
async def test_the_demo_generates_a_password_and_keeps_it(settings: Settings) -> None:
    async with open_control_plane(settings) as plane:
        _, password = await seed_account(plane)
        assert password is not None
        assert password == read_demo_password(settings)
        assert await fits(plane, password)
        assert (await seed_account(plane))[1] == password


@pytest.mark.thorough
@pytest.mark.parametrize("file_is_kept", [True, False])
async def test_the_demo_leaves_a_password_that_a_person_set(settings: Settings, file_is_kept: bool) -> None:
    async with open_control_plane(settings) as plane:
        await seed_account(plane)
        await plane.rooms.identity.accounts.set_password(DEMO_EMAIL, "a password of mine")
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
