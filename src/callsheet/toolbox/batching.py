"""Combines calls that arrive together into one batch. A single call does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)
Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """`await batcher(item)` runs `run([item, …])` with all other waiting items, and returns this item's result.

    One batch runs at a time: items that arrive meanwhile form the next one, so batches grow with the load and no timer
    is needed. With `at_once`, further batches run in parallel, each with at least half the limit: the next statement
    runs while the results of the last are handed out, and batches stay large. If a batch fails with an error of
    `isolate`, its items are run one by one, so that a bad item fails alone. If a caller was canceled while its item was
    running, `abandoned` gets the unused result.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        limit: int = 100,
        at_once: int = 1,
        isolate: tuple[type[Exception], ...] = (),
        abandoned: Callable[[Item, Result], Awaitable[None]] | None = None,
    ):
        self._run = run
        self._limit = limit
        self._at_once = at_once
        self._isolate = isolate
        self._abandoned = abandoned
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._runners: set[asyncio.Task[None]] = set()
        self.batches = 0
        self.items = 0

    @property
    def is_idle(self) -> bool:
        return not self._runners and not self._waiting

    def add(self, item: Item) -> asyncio.Future[Result]:
        """The future result of the item. For a caller that shields it: `asyncio.shield(batcher(item))` starts a task,
        which doubles the time of a call. `abandoned` gets only results of callers that cancel the future."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if not self._runners or self._is_worth_another(len(self._runners)):
            self._runners.add(asyncio.create_task(self._work()))
        return future

    async def __call__(self, item: Item) -> Result:
        future = self.add(item)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                # The caller was canceled before it could take its result.
                await asyncio.shield(self._report_abandoned(item, future.result()))
            raise

    def _is_worth_another(self, running: int) -> bool:
        """Whether another batch should start while this many are running."""
        return running < self._at_once and 2 * len(self._waiting) >= self._limit

    async def _work(self) -> None:
        runner = asyncio.current_task()
        assert runner is not None
        try:
            # Too few items for another batch wait for a running batch, which looks again when it ends.
            while self._waiting and (len(self._runners) == 1 or self._is_worth_another(len(self._runners) - 1)):
                batch, self._waiting = self._waiting[: self._limit], self._waiting[self._limit :]
                # Items of callers that were cancelled before the batch started are left out.
                batch = [(item, future) for item, future in batch if not future.cancelled()]
                if batch:
                    await self._settle(batch)
        finally:
            self._runners.discard(runner)

    async def _settle(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        self.batches += 1
        self.items += len(batch)
        try:
            results = await self._run([item for item, _ in batch])
        except self._isolate as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            for pair in batch:
                await self._settle([pair])
            return
        except Exception as error:  # noqa: BLE001 (not handled here: every caller of the batch gets it)
            _fail(batch, error)
            return
        except BaseException:
            # The event loop is closing: a caller that still waits would wait forever.
            for _, future in (*batch, *self._waiting):
                future.cancel()
            raise
        untaken: list[tuple[Item, Result]] = []
        for (item, future), result in zip(batch, results, strict=True):
            if future.done():
                untaken.append((item, result))
            else:
                future.set_result(result)
        for item, result in untaken:
            await self._report_abandoned(item, result)

    async def _report_abandoned(self, item: Item, result: Result) -> None:
        if self._abandoned is None:
            return
        try:
            await self._abandoned(item, result)
        except Exception as error:  # noqa: BLE001 (its caller is gone, and the others must not pay for it)
            log.warning("batch.result_abandoned", error=repr(error))


def _fail(batch: Sequence[tuple[object, asyncio.Future[Result]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
