"""Admins' views of providers, and the reset of a paused provider."""

from __future__ import annotations

from collections.abc import Mapping

from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import actor_of, record
from callsheet.plumbing.database.databases import Databases
from callsheet.providers.media import Finish
from callsheet.webhooks.breakers import Breakers, BreakerState
from callsheet.webhooks.worklist import Worklist
from callsheet.wire.errors import NotFound
from callsheet.wire.operate.providers import Provider


class ProviderOperations:
    def __init__(self, databases: Databases, breakers: Breakers, worklist: Worklist, finishes: Mapping[str, Finish]):
        self._databases = databases
        self._breakers = breakers
        self._worklist = worklist
        self._finishes = finishes

    async def list(self) -> list[Provider]:
        states = {state.provider: state for state in await self._breakers.read(self._finishes)}
        calls = await self._worklist.count(self._finishes)
        return [
            _view(name, finish, states.get(name), calls.get(name, 0)) for name, finish in sorted(self._finishes.items())
        ]

    async def reset(self, principal: Principal, provider: str) -> Provider:
        """Ends the pause of a provider and forgets its failures."""
        if provider not in self._finishes:
            raise NotFound("There is no such provider.")
        async with self._databases.central.transaction() as connection:
            await self._breakers.reset(connection, provider)
            await record(connection, actor_of(principal), "provider.reset", "provider", provider)
        await self._breakers.announce_reset(provider)
        return next(each for each in await self.list() if each.name == provider)


def _view(name: str, finish: Finish, state: BreakerState | None, calls: int) -> Provider:
    if state is None:
        return Provider(name=name, finish=finish.value, state="closed", failures=0, open_calls=calls)
    is_open = state.open_until is not None
    return Provider(
        name=name,
        finish=finish.value,
        state="closed" if not is_open else "open" if state.paused_seconds > 0 else "half_open",
        failures=state.failures,
        open_until=state.open_until,
        open_for=state.shut_for,
        open_calls=calls,
        failed_dispatches=list(state.dispatches),
        failed_tenants=list(state.tenants),
        pause_seconds=state.pause_seconds,
        last_error=state.last_error,
        last_error_at=state.last_error_at,
    )
