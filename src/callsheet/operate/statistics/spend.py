"""Reads the use of providers and its cost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from callsheet.operate.statistics.spend_keeper import CENTRAL_SQL, DAYS, POOL_SQL
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import unless_unavailable
from callsheet.wire.operate.providers import ProviderSpend, ProviderSpending, SpendWindow


class ProviderCallsRow(NamedTuple):
    provider: str
    calls: int
    completed: int
    failed: int
    day_calls: int
    day_completed: int
    day_failed: int


class ProviderTokensRow(NamedTuple):
    provider: str
    tokens: Decimal
    day_tokens: Decimal


class Spend:
    def __init__(self, databases: Databases, prices: Mapping[str, float], currency: str):
        """`prices`: the price of one call in money, by provider."""
        self._databases = databases
        self._prices = prices
        self._currency = currency

    async def read(self) -> ProviderSpending:
        pools = self._databases.pools
        async with self._databases.central.reports() as connection:
            calls = await CENTRAL_SQL["read_calls"].rows(connection, ProviderCallsRow, days=DAYS)
        tokens = await asyncio.gather(*(unless_unavailable(_tokens_of(pool)) for pool in pools))
        away = {pool.name for pool, rows in zip(pools, tokens, strict=True) if rows is None}
        return ProviderSpending(
            currency=self._currency,
            providers=spending(calls, [row for rows in tokens for row in rows or ()], self._prices),
            unavailable_pools=sorted({*away, *self._databases.unavailable}),
        )


async def _tokens_of(pool: Database) -> list[ProviderTokensRow]:
    async with pool.reports() as connection:
        return await POOL_SQL["read_tokens"].rows(connection, ProviderTokensRow, days=DAYS)


def spending(
    calls: Sequence[ProviderCallsRow], tokens: Sequence[ProviderTokensRow], prices: Mapping[str, float]
) -> list[ProviderSpend]:
    """The spending, ordered by name. A provider may have tokens without calls, and calls without tokens, because the
    two are counted separately.
    """
    called = {row.provider: row for row in calls}
    of_day: Counter[str] = Counter()
    of_month: Counter[str] = Counter()
    for each in tokens:
        of_day[each.provider] += int(each.day_tokens)
        of_month[each.provider] += int(each.tokens)
    found = []
    for provider in sorted({*called, *of_month}):
        row = called.get(provider) or ProviderCallsRow(provider, 0, 0, 0, 0, 0, 0)
        price = prices.get(provider)
        day = _window(row.day_calls, row.day_completed, row.day_failed, of_day[provider], price)
        month = _window(row.calls, row.completed, row.failed, of_month[provider], price)
        found.append(ProviderSpend(provider=provider, price_per_call=price, last_24h=day, last_30d=month))
    return found


def _window(calls: int, completed: int, failed: int, tokens: int, price: float | None) -> SpendWindow:
    money = None if price is None else round(calls * price, 6)
    return SpendWindow(calls=calls, completed=completed, failed=failed, tokens=tokens, estimated_money=money)
