"""Calls that something is to be done about: claimed by one process at a time, kept while it works, put off or ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import asyncpg

from callsheet.plumbing.database import DATABASE_AWAY
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import statements
from callsheet.providers.media import Prediction
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.redaction import redact_start
from callsheet.webhooks.predictions import as_row, of_row

SQL = statements("callsheet.webhooks")
log = get_logger(__name__)

Work = Literal["follow", "collect", "cancel"]
WORKS: tuple[Work, ...] = ("follow", "collect", "cancel")
# Claims of a dead process expire after this time.
CLAIM_SECONDS = 60.0
CLOSED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ClaimedCall:
    call_id: int
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    dispatch_id: int
    lease_seq: int
    provider: str
    callback_hash: bytes
    work: Work
    claims: int
    # In a row, before this try.
    failures: int
    prediction: Prediction | None
    # Submitted beside the one that is waited for.
    strays: Sequence[str]
    # Status of the dispatch; None if its row was deleted by hand.
    status: str | None
    is_finished: bool
    provider_job_id: str | None
    reported_seconds_ago: float | None


class Worklist:
    def __init__(self, databases: Databases):
        self._databases = databases

    async def find_closed(self, providers: Collection[str]) -> int:
        """Calls whose job ended while they were waited for: from now on they are to be canceled."""
        async with self._databases.central.ordinary() as connection:
            return await SQL["find_closed"].run(connection, providers=list(providers), limit=CLOSED_AT_ONCE)

    async def claim(self, room: Mapping[tuple[str, Work], int]) -> list[ClaimedCall]:
        """What is due, of each provider and kind as many as there is room for."""
        wanted = {key: free for key, free in room.items() if free > 0}
        if not wanted:
            return []
        async with self._databases.central.ordinary() as connection:
            rows = await SQL["claim"].rows(
                connection,
                providers=[provider for provider, _ in wanted],
                works=[work for _, work in wanted],
                free=list(wanted.values()),
                claim_seconds=CLAIM_SECONDS,
            )
        return [_claimed(row) for row in rows]

    @asynccontextmanager
    async def keeping(self, call: ClaimedCall) -> AsyncIterator[None]:
        """The claim does not run out while this lasts."""
        keeper = asyncio.create_task(self._keep(call), name=f"claim:{call.call_id}")
        try:
            yield
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    async def _keep(self, call: ClaimedCall) -> None:
        while True:
            await asyncio.sleep(CLAIM_SECONDS / 4)
            try:
                async with self._databases.central.ordinary() as connection:
                    await SQL["keep_claim"].run(
                        connection,
                        call_id=call.call_id,
                        claims=call.claims,
                        held=call.work,
                        claim_seconds=CLAIM_SECONDS,
                    )
            except DATABASE_AWAY as error:  # another may take it over; only one of them can end the job
                log.warning("webhook.claim_not_kept", call_id=call.call_id, error=repr(error))

    async def take(self, call: ClaimedCall, prediction: Prediction) -> None:
        """The provider was asked, and says how it ended."""
        async with self._databases.central.connection() as connection:
            await SQL["take_prediction"].row(
                connection,
                call_id=call.call_id,
                prediction=as_row(prediction),
                delivery_id=None,
                status=prediction.status,
            )

    async def postpone(
        self,
        call: ClaimedCall,
        seconds: float,
        *,
        work: Work | None = None,
        counted: bool = False,
        error: str | None = None,
    ) -> None:
        """To another time, or to another kind of work. `counted`: one more in a row, otherwise they count anew."""
        async with self._databases.central.ordinary() as connection:
            await SQL["postpone"].run(
                connection,
                call_id=call.call_id,
                claims=call.claims,
                held=call.work,
                work=work or call.work,
                seconds=seconds,
                failures=call.failures + 1 if counted else 0,
                error=None if error is None else redact_start(error, 500),
            )

    async def forget(self, call: ClaimedCall, strays: Sequence[str]) -> None:
        async with self._databases.central.ordinary() as connection:
            await SQL["forget_strays"].run(connection, call_id=call.call_id, strays=list(strays))

    async def end(self, call: ClaimedCall, error: str | None = None) -> None:
        async with self._databases.central.ordinary() as connection:
            await SQL["end_call"].run(
                connection, call_id=call.call_id, error=None if error is None else redact_start(error, 500)
            )

    async def count(self, providers: Collection[str]) -> dict[str, int]:
        async with self._databases.central.ordinary() as connection:
            rows = await SQL["count_calls"].rows(connection, providers=list(providers))
        return {row["provider"]: row["calls"] for row in rows}


def _claimed(row: asyncpg.Record) -> ClaimedCall:
    values: dict[str, Any] = {name: row[name] for name in ClaimedCall.__slots__}
    if values["prediction"] is not None:
        values["prediction"] = of_row(values["prediction"])
    return ClaimedCall(**values)
