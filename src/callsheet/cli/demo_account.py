"""Who the demo is: a tenant, an admin with a known password, a key that is kept for `callsheet submit`, and tokens."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import httpx

from callsheet.cli.client import Client
from callsheet.cli.login import Login, read_demo_login, write_demo_login
from callsheet.wire.identity import CreateTenantRequest, CreateUserRequest, Role, User
from callsheet.wire.wallet import Credit

if TYPE_CHECKING:
    from callsheet.app import ControlPlane

DEMO_TENANT = "demo"
DEMO_EMAIL = "admin@demo.example"
# Known to everybody who reads this, which is why the demo listens on its own machine only.
DEMO_PASSWORD = "callsheet-demo"  # noqa: S105
TOKENS = 1000
FEW_TOKENS = 100


async def seed_account(plane: ControlPlane) -> User:
    if await plane.accounts.find_tenant(DEMO_TENANT) is None:
        await plane.accounts.create_tenant(CreateTenantRequest(slug=DEMO_TENANT, name="Demo"))
    found = await plane.accounts.find_user(DEMO_EMAIL)
    return found or await plane.accounts.create_user(
        CreateUserRequest(
            tenant=DEMO_TENANT, email=DEMO_EMAIL, password=DEMO_PASSWORD, name="Demo admin", role=Role.OPERATOR
        )
    )


async def remembered_login(plane: ControlPlane, user: User) -> Login:
    """The key of the last time, if it still is one; kept in the data directory, where `callsheet submit` finds it."""
    settings = plane.settings
    known = read_demo_login(settings)
    key = known.api_key if known is not None and await _opens(settings.public_url, known.api_key) else None
    login = Login(settings.public_url, key or (await plane.keys.create(user.id, "demo")).key)
    if login != known:
        await asyncio.to_thread(write_demo_login, settings, login)
    return login


async def _opens(url: str, key: str) -> bool:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
        answer = await client.get("/api/me", headers={"authorization": f"Bearer {key}"})
        return answer.status_code == httpx.codes.OK and answer.json()["email"] == DEMO_EMAIL


async def fill_wallet(client: Client, user: User) -> None:
    if (await client.wallet()).balance < FEW_TOKENS:
        await client.credit(user.id, Credit(amount=TOKENS, provider_transaction_id=f"demo-{uuid.uuid4()}"))
