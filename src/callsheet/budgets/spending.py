"""Where the tokens of a tenant went: by key, effect, provider or user, in each day, week or month."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from callsheet.budgets.budgets import SQL, Budgets
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.money.budgets import BudgetPeriod, SpendingBy, SpendingRow, TenantSpending

MAX_ROWS = 5000
MAX_DAYS = 400
DEFAULT_DAYS = 30
HEADER = ("first_day", "subject", "name", "jobs", "tokens")
# A spreadsheet would run a text that starts with one of these.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class SpentRow(NamedTuple):
    first_day: str
    subject: str | None
    jobs: int
    tokens: int


class SpendingReport:
    def __init__(self, routing: TenantRouting, budgets: Budgets):
        self._routing = routing
        self._budgets = budgets

    async def read(
        self,
        tenant_id: UUID,
        by: SpendingBy,
        period: BudgetPeriod,
        time_zone: str,
        since: datetime | None,
        until: datetime | None,
    ) -> TenantSpending:
        until = until or datetime.now(UTC)
        since = since or until - timedelta(days=DEFAULT_DAYS)
        if not timedelta() <= until - since <= timedelta(days=MAX_DAYS):
            raise InvalidRequest.field("since", f"The time must be at most {MAX_DAYS} days before `until`.")
        pool = await self._routing.pool_of_tenant(tenant_id)
        async with pool.ordinary() as connection:
            if not await SQL["has_time_zone"].value(connection, time_zone=time_zone):
                raise InvalidRequest.field(
                    "time_zone", "There is no such time zone. Use a name like Europe/Berlin or UTC."
                )
            rows = await SQL["spending"].rows(
                connection,
                SpentRow,
                tenant_id=tenant_id,
                by=by.value,
                period=period.value,
                time_zone=time_zone,
                from_id=_first_id(since),
                to_id=_first_id(until),
                limit=MAX_ROWS + 1,
            )
        names = {} if by is SpendingBy.PROVIDER else await self._names(tenant_id, rows)
        shown = [
            SpendingRow(
                first_day=datetime.fromisoformat(row.first_day).date(),
                subject=row.subject,
                name=names.get(row.subject or ""),
                jobs=row.jobs,
                tokens=row.tokens,
            )
            for row in rows[:MAX_ROWS]
        ]
        return TenantSpending(
            by=by,
            period=period,
            time_zone=time_zone,
            since=since,
            until=until,
            tokens=sum(row.tokens for row in shown),
            rows=shown,
            is_complete=len(rows) <= MAX_ROWS,
        )

    async def _names(self, tenant_id: UUID, rows: list[SpentRow]) -> dict[str, str]:
        ids = {UUID(row.subject) for row in rows if row.subject is not None}
        return {str(each): name for each, name in (await self._budgets.names(tenant_id, list(ids))).items()}


def as_csv(spending: TenantSpending) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(HEADER)
    writer.writerows(_cells(spending))
    return text.getvalue()


def _cells(spending: TenantSpending) -> Iterator[tuple[object, ...]]:
    for row in spending.rows:
        name = row.name or ""
        yield row.first_day, row.subject or "", f"'{name}" if name.startswith(FORMULA) else name, row.jobs, row.tokens


def _first_id(moment: datetime) -> UUID:
    """The smallest id of a job of this time: an id begins with its milliseconds."""
    milliseconds = min(max(0, int(moment.timestamp() * 1000)), 2**48 - 1)
    return UUID(int=milliseconds << 80)
