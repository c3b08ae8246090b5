"""The account of the demo: a tenant, an operator with a random password, a key that `callsheet submit` uses, and
tokens.
"""

from __future__ import annotations

import asyncio
import secrets
import uuid
from typing import TYPE_CHECKING

import httpx

from callsheet.cli.shared.login import Login, read_demo_login, read_demo_password, write_demo_login, write_demo_password
from callsheet.client import AsyncCallsheet
from callsheet.identity.access.passwords import password_fits
from callsheet.toolbox.http.certificates import certificates
from callsheet.wire.identity import CreateKeyRequest, CreateTenantRequest, CreateUserRequest, Role, User
from callsheet.wire.money.wallet import Credit

if TYPE_CHECKING:
    from callsheet.app.control_plane import ControlPlane

DEMO_TENANT = "demo"
DEMO_EMAIL = "admin@demo.example"
TOKENS = 1000
FEW_TOKENS = 100


async def seed_account(plane: ControlPlane) -> tuple[User, str | None]:
    """The operator and the password; None if a person has set another password.

    The password is random and stored in the data directory. It is written before it is set: a demo that dies between
    the two finds it the next time.
    """
    if await plane.rooms.identity.accounts.find_tenant(DEMO_TENANT) is None:
        await plane.rooms.identity.accounts.create_tenant(CreateTenantRequest(slug=DEMO_TENANT, name="Demo"))
    found = await plane.rooms.identity.accounts.find_user(DEMO_EMAIL)
    kept = await asyncio.to_thread(read_demo_password, plane.settings)
    if found is None:
        password = kept or await _make_up_password(plane)
        return await plane.rooms.identity.accounts.create_user(
            CreateUserRequest(
                tenant=DEMO_TENANT, email=DEMO_EMAIL, password=password, name="Demo admin", role=Role.OPERATOR
            )
        ), password
    async with plane.databases.central.connection() as connection:
        is_ours = kept is not None and await password_fits(connection, DEMO_EMAIL, kept)
    return found, kept if is_ours else None


async def _make_up_password(plane: ControlPlane) -> str:
    password = secrets.token_urlsafe(12)
    await asyncio.to_thread(write_demo_password, plane.settings, password)
    return password


async def remembered_login(plane: ControlPlane, user: User) -> Login:
    """The key of the last time, if it is still valid. It is in the data directory, where `callsheet submit` finds
    it.
    """
    settings = plane.settings
    known = read_demo_login(settings)
    key = known.api_key if known is not None and await _opens(settings.public_url, known.api_key) else None
    login = Login(
        settings.public_url, key or (await plane.rooms.identity.keys.create(user.id, CreateKeyRequest(name="demo"))).key
    )
    if login != known:
        await asyncio.to_thread(write_demo_login, settings, login)
    return login


async def _opens(url: str, key: str) -> bool:
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=certificates(), timeout=30) as client:
        response = await client.get("/api/me", headers={"authorization": f"Bearer {key}"})
        return response.status_code == httpx.codes.OK and response.json()["email"] == DEMO_EMAIL


async def fill_wallet(client: AsyncCallsheet, user: User) -> None:
    if (await client.wallet()).balance < FEW_TOKENS:
        credit = Credit(amount=TOKENS, provider_transaction_id=f"demo-{uuid.uuid4()}")
        await client.request("POST", f"/api/admin/users/{user.id}/credits", credit.model_dump())
