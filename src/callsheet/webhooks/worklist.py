"""Calls of providers that need work. One process at a time claims a call, keeps the claim while it works, and then
postpones or ends the call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from callsheet.dispatch.facts import JobCycle
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.database.sql import statements
from callsheet.providers.media import Prediction
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.redaction.redaction import redact_start


def as_row(prediction: Prediction) -> dict[str, Any]:
    return {
        "id": prediction.id,
        "status": prediction.status,
        "outputs": list(prediction.outputs),
        "text": _clean(prediction.text),
        "error": _clean(prediction.error),
    }


def of_row(row: Mapping[str, Any]) -> Prediction:
    return Prediction(row["id"], row["status"], tuple(row.get("outputs") or ()), row.get("text"), row.get("error"))


def _clean(text: str | None) -> str | None:
    """Removes characters that PostgreSQL cannot store."""
    return None if text is None else text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


SQL = statements("callsheet.webhooks")
log = get_logger(__name__)

Work = Literal["follow", "collect", "cancel"]
WORKS: tuple[Work, ...] = ("follow", "collect", "cancel")
# Claims of a dead process expire after this time.
CLAIM_SECONDS = 60.0
CLOSED_AT_ONCE = 500


class ClaimedCall(NamedTuple):
    call_id: int
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    dispatch_id: int
    lease_seq: int
    provider: str
    work: Work
    claims: int
    # Failed attempts in a row before this one.
    failures: int
    callback_hash: bytes
    prediction_row: Mapping[str, Any] | None
    # Predictions that a worker submitted in addition to the one that the job waits for.
    strays: Sequence[str]
    # Status of the dispatch. None if its rows were deleted by hand.
    status: str | None
    is_finished: bool
    provider_job_id: str | None
    reported_seconds_ago: float | None

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)

    @property
    def prediction(self) -> Prediction | None:
        return None if self.prediction_row is None else of_row(self.prediction_row)


class CallCount(NamedTuple):
    provider: str
    calls: int


class Worklist:
    def __init__(self, databases: Databases):
        self._databases = databases

    async def find_closed(self, providers: Collection[str]) -> int:
        """Marks calls for cancellation whose job ended before the callback; returns how many."""
        async with self._databases.central.ordinary() as connection:
            return await SQL["find_closed"].run(connection, providers=list(providers), limit=CLOSED_AT_ONCE)

    async def claim(self, room: Mapping[tuple[str, Work], int]) -> list[ClaimedCall]:
        """Claims calls that are due: for each provider and kind of work up to the given number."""
        wanted = {key: free for key, free in room.items() if free > 0}
        if not wanted:
            return []
        async with self._databases.central.ordinary() as connection:
            return await SQL["claim"].rows(
                connection,
                ClaimedCall,
                providers=[provider for provider, _ in wanted],
                works=[work for _, work in wanted],
                free=list(wanted.values()),
                claim_seconds=CLAIM_SECONDS,
            )

    @asynccontextmanager
    async def keeping(self, call: ClaimedCall) -> AsyncIterator[None]:
        """Renews the claim until the block ends."""
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
            except DATABASE_AWAY as error:  # another process may claim the call; only one of them can end the job
                log.warning("webhook.claim_not_kept", call_id=call.call_id, error=repr(error))

    async def take(self, call: ClaimedCall, prediction: Prediction) -> None:
        """Records the final prediction that the provider returned to a request."""
        async with self._databases.central.connection() as connection:
            await SQL["take_prediction"].run(
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
        """Sets the time of the next work, and its kind. `counted`: as one more attempt in a row. Otherwise the count
        starts again."""
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
            return dict(await SQL["count_calls"].rows(connection, CallCount, providers=list(providers)))


AT_ONCE = 1000


class CallSweeper(Loop):
    """Deletes calls that ended long ago, with their callbacks. Jobs and their outputs stay."""

    name = "provider_call_sweeper"
    interval_seconds = 600.0

    def __init__(self, databases: Databases, keep_days: int):
        super().__init__()
        self._databases = databases
        self._keep_days = keep_days

    async def tick(self, now: datetime) -> bool:
        async with self._databases.central.ordinary() as connection:
            swept = await SQL["sweep_calls"].run(connection, days=self._keep_days, limit=AT_ONCE)
        return swept == AT_ONCE
