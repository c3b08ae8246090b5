"""The loop that works on calls that are due. Each call has its own task: a slow provider delays no other call."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime

import asyncpg

from callsheet.plumbing.database.errors import DATABASE_AWAY, is_away
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.webhooks.worklist import WORKS, ClaimedCall, Work, Worklist

log = get_logger(__name__)
AFTER_BUG_SECONDS = 30.0

WorkHandler = Callable[[ClaimedCall], Awaitable[None]]


class CallLoop(Loop):
    """A tick starts tasks and does not wait for them; `settled` waits for all of them."""

    name = "provider_calls"
    interval_seconds = 1.0

    def __init__(
        self, worklist: Worklist, providers: Collection[str], handlers: Mapping[Work, WorkHandler], at_once: int
    ):
        """`at_once`: concurrent calls for each provider and kind of work."""
        super().__init__()
        self._worklist = worklist
        self._providers = providers
        self._handlers = handlers
        self._at_once = at_once
        self._busy: Counter[tuple[str, Work]] = Counter()
        self._tasks: dict[asyncio.Task[None], ClaimedCall] = {}

    async def tick(self, now: datetime) -> bool:
        if not self._providers:
            return False
        await self._worklist.find_closed(self._providers)
        room = {
            (provider, work): self._at_once - self._busy[provider, work]
            for provider in self._providers
            for work in WORKS
        }
        claimed = await self._worklist.claim(room)
        for call in claimed:
            self._begin(call)
        return False

    async def settled(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def stop(self) -> None:
        """Cancels the tasks at once. Another process, or the next start of this one, does their work."""
        await super().stop()
        canceled = [call for task, call in self._tasks.items() if task.cancel()]
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for call in canceled:
            await self._postpone(call, 0.0)

    def _begin(self, call: ClaimedCall) -> None:
        key = (call.provider, call.work)
        self._busy[key] += 1
        task = asyncio.create_task(self._do(call), name=f"provider_call:{call.call_id}")
        self._tasks[task] = call

        def over(done: asyncio.Task[None]) -> None:
            self._tasks.pop(done)
            self._busy[key] -= 1
            # There is room for another call, and this one may have created more work.
            self.wake()

        task.add_done_callback(over)

    async def _do(self, call: ClaimedCall) -> None:
        try:
            async with self._worklist.keeping(call):
                await self._handlers[call.work](call)
        except Exception as error:  # an error of one call must not stop the loop
            what = {"call_id": call.call_id, "work": call.work, "job_id": str(call.job_id)}
            if is_away(error):
                log.warning("webhook.work_postponed", **what, reason=str(error))
            else:
                log.exception("webhook.work_failed", **what)
            await self._postpone(call, AFTER_BUG_SECONDS)

    async def _postpone(self, call: ClaimedCall, seconds: float) -> None:
        try:
            await self._worklist.postpone(call, seconds, counted=True)
        except (*DATABASE_AWAY, asyncpg.PostgresError) as error:  # the claim expires by itself
            log.warning("webhook.not_put_off", call_id=call.call_id, error=repr(error))
