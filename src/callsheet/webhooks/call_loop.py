"""The loop that does what is due about calls. Each runs by itself: a slow provider or download holds up no other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime

import asyncpg

from callsheet.plumbing.database import DATABASE_AWAY, is_away
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.webhooks.worklist import WORKS, ClaimedCall, Work, Worklist

log = get_logger(__name__)
AFTER_BUG_SECONDS = 30.0

Doing = Callable[[ClaimedCall], Awaitable[None]]


class CallLoop(Loop):
    """What its tick begins goes on after it; `settled` waits for that."""

    name = "provider_calls"
    interval_seconds = 1.0

    def __init__(self, worklist: Worklist, providers: Collection[str], doing: Mapping[Work, Doing], at_once: int):
        """`at_once`: of each provider and kind of work."""
        super().__init__()
        self._worklist = worklist
        self._providers = providers
        self._doing = doing
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
        """What is under way is given up at once: another process, or this one's next life, does it again."""
        await super().stop()
        given_up = [call for task, call in self._tasks.items() if task.cancel()]
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for call in given_up:
            await self._put_off(call, 0.0)

    def _begin(self, call: ClaimedCall) -> None:
        key = (call.provider, call.work)
        self._busy[key] += 1
        task = asyncio.create_task(self._do(call), name=f"provider_call:{call.call_id}")
        self._tasks[task] = call

        def over(done: asyncio.Task[None]) -> None:
            self._tasks.pop(done)
            self._busy[key] -= 1
            # There is room again, and what was done may have made more to do.
            self.wake()

        task.add_done_callback(over)

    async def _do(self, call: ClaimedCall) -> None:
        try:
            async with self._worklist.keeping(call):
                await self._doing[call.work](call)
        except Exception as error:  # one call's trouble is not the loop's
            what = {"call_id": call.call_id, "work": call.work, "job_id": str(call.job_id)}
            if is_away(error):
                log.warning("webhook.work_postponed", **what, reason=str(error))
            else:
                log.exception("webhook.work_failed", **what)
            await self._put_off(call, AFTER_BUG_SECONDS)

    async def _put_off(self, call: ClaimedCall, seconds: float) -> None:
        try:
            await self._worklist.postpone(call, seconds, counted=True)
        except (*DATABASE_AWAY, asyncpg.PostgresError) as error:  # the claim runs out by itself
            log.warning("webhook.not_put_off", call_id=call.call_id, error=repr(error))
