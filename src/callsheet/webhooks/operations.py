"""Providers as admins see them, and what they may do to them."""

from __future__ import annotations

from collections.abc import Mapping

import asyncpg

from callsheet.identity.audit import actor_of, record
from callsheet.identity.principal import Principal
from callsheet.plumbing.databases import Databases
from callsheet.providers.media import Finish
from callsheet.webhooks.breakers import Breakers
from callsheet.webhooks.worklist import Worklist
from callsheet.wire.errors import NotFound
from callsheet.wire.providers import Provider


class ProviderOperations:
    def __init__(self, databases: Databases, breakers: Breakers, worklist: Worklist, finishes: Mapping[str, Finish]):
        self._databases = databases
        self._breakers = breakers
        self._worklist = worklist
        self._finishes = finishes

    async def list(self) -> list[Provider]:
        rows = {row["provider"]: row for row in await self._breakers.read(self._finishes)}
        calls = await self._worklist.count(self._finishes)
        return [
            _view(name, finish, rows.get(name), calls.get(name, 0)) for name, finish in sorted(self._finishes.items())
        ]

    async def reset(self, principal: Principal, provider: str) -> Provider:
        """Called again from now on, as if nothing had happened."""
        if provider not in self._finishes:
            raise NotFound("There is no such provider.")
        async with self._databases.central.transaction() as connection:
            await self._breakers.reset(connection, provider)
            await record(connection, actor_of(principal), "provider.reset", "provider", provider)
        await self._breakers.told_of_reset(provider)
        return next(each for each in await self.list() if each.name == provider)


def _view(name: str, finish: Finish, row: asyncpg.Record | None, calls: int) -> Provider:
    if row is None:
        return Provider(name=name, finish=finish.value, state="closed", failures=0, open_calls=calls)
    opened = row["open_until"] is not None
    return Provider(
        name=name,
        finish=finish.value,
        state="closed" if not opened else "open" if row["paused_seconds"] > 0 else "half_open",
        failures=row["failures"],
        open_until=row["open_until"],
        open_for=row["shut_for"],
        open_calls=calls,
        last_error=row["last_error"],
        last_error_at=row["last_error_at"],
    )
