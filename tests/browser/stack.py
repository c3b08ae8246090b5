"""Everything a person meets, as `callsheet demo` starts it: PostgreSQL, control plane, Lightbox, an agent, effects."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from playwright.async_api import Page

from tests.support.run.ports import free_port
from tests.support.waiting import until

_numbers = itertools.count(1)
PASSWORD = "correct horse battery"
# A dozen processes and a rendering: minutes on a machine that has much else to do.
START_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Account:
    id: str
    email: str
    key: str
    password: str = PASSWORD

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}


@dataclass
class Stack:
    home: Path
    port: int = field(default_factory=free_port)
    # Settings that differ from those of every demo.
    settings: Mapping[str, str] = field(default_factory=dict)
    # Where people reach it, if that is a load balancer in front of it.
    public_url: str | None = None
    _process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return self.public_url or self.own_url

    @property
    def own_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """Settings of every control plane of this installation."""
        public = {} if self.public_url is None else {"CALLSHEET_SERVER__PUBLIC_URL": self.public_url}
        return {**self.settings, **public}

    async def start(self) -> None:
        """Until its sample job is done: then everything works."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CALLSHEET_", "PG"))}
        log = self._log
        log.write_bytes(b"")
        with log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "callsheet", "demo", "--port", str(self.port)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.home.parent,
                env={**kept, **self.variables, "CALLSHEET_HOME": str(self.home)},
            )

        def is_running() -> bool:
            assert self._process is not None
            assert self._process.returncode is None, log.read_text()
            return "Callsheet is running" in log.read_text()

        await until(is_running, START_SECONDS)

    @property
    def _log(self) -> Path:
        return self.home.with_name("demo.log")

    def log(self) -> str:
        """Everything that the demo and its control plane have written since the last start."""
        return self._log.read_text()

    @property
    def link(self) -> str:
        """What it printed to open in a browser."""
        lines = self.log().splitlines()
        return next(line.split()[1] for line in lines if line.startswith("  Open "))

    async def kill(self) -> None:
        """As a machine that loses its power does it; `start` again finds everything."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.terminate()
        await self._process.wait()

    @property
    def operator(self) -> dict[str, str]:
        """The headers of the demo's operator."""
        return {"authorization": f"Bearer {json.loads((self.home / 'demo/login.json').read_text())['api_key']}"}

    def client(self, headers: dict[str, str] | None = None) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers=headers, trust_env=False, timeout=30)

    async def new_account(self, tokens: int = 1000, role: str = "user") -> Account:
        """In a tenant of its own."""
        name = f"person-{next(_numbers)}-{uuid.uuid4().hex[:6]}"
        email = f"{name}@example.com"
        async with self.client(self.operator) as client:
            await _posted(client, "/api/admin/tenants", {"slug": name, "name": name})
            user = await _posted(
                client,
                "/api/admin/users",
                {"tenant": name, "email": email, "password": PASSWORD, "name": "Ann Example", "role": role},
            )
            if tokens:
                credit = {"amount": tokens, "provider_transaction_id": f"test-{name}"}
                await _posted(client, f"/api/admin/users/{user['id']}/credits", credit)
        # A viewer may create nothing, not even a key.
        if role == "viewer":
            return Account(str(user["id"]), email, key="")
        async with self.client() as client:
            login = await client.post("/api/auth/login", json={"email": email, "password": PASSWORD})
            assert login.status_code == 200, login.text
            token = {"x-csrf-token": login.json()["csrf_token"]}
            created = await client.post("/api/keys", json={"name": "test"}, headers=token)
            assert created.status_code == 201, created.text
        return Account(str(user["id"]), email, created.json()["key"])

    async def sign_in(self, page: Page, account: Account) -> None:
        """Without the form, which has a test of its own."""
        response = await page.context.request.post(
            "/api/auth/login", data={"email": account.email, "password": account.password}
        )
        assert response.ok, await response.text()

    async def csrf_token(self, page: Page) -> str:
        return str((await (await page.context.request.get("/api/me")).json())["csrf_token"])


async def _posted(client: httpx.AsyncClient, path: str, body: dict[str, object]) -> dict[str, object]:
    response = await client.post(path, json=body)
    assert response.is_success, f"{path}: {response.status_code} {response.text}"
    found: dict[str, object] = response.json()
    return found


@asynccontextmanager
async def running_stack(directory: Path, settings: Mapping[str, str] | None = None) -> AsyncIterator[Stack]:
    stack = Stack(directory / "home", settings=settings or {})
    await stack.start()
    try:
        yield stack
    finally:
        await stack.stop()
