"""Pollers that wait for work: one arrival wakes one or two that may take it, and no others."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from callsheet.dispatch.facts import Criteria, Lane
from callsheet.dispatch.order.affinity import Cold
from callsheet.dispatch.queue_notifications import CHANNEL, Arrival, announcer
from callsheet.dispatch.waiters import WOKEN_PER_ARRIVAL, Waiters
from callsheet.jobs.lease.long_poll import LongPoll
from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.jobs.lease.start import Starter
from tests.support.rooms import EveryProvider

GPU = Criteria((1, 2))
OTHER = Criteria((3,))
CLOUD = Criteria((1,), providers=("cloud",))
STAGING = Criteria((1,), stage="staging")


async def wait(waiters: Waiters, criteria: Criteria, seconds: float) -> bool:
    with waiters.waiting(criteria) as arrival:
        return await arrival.within(seconds)


async def waiting(waiters: Waiters, *criteria: Criteria, seconds: float = 600) -> list[asyncio.Task[bool]]:
    tasks = [asyncio.create_task(wait(waiters, one, seconds)) for one in criteria]
    while len(waiters) < len(criteria):
        await asyncio.sleep(0)
    return tasks


async def woken(tasks: list[asyncio.Task[bool]]) -> list[int]:
    """Who was woken, by number; the others are sent home."""
    for _ in range(4):
        await asyncio.sleep(0)
    numbers = [number for number, task in enumerate(tasks) if task.done() and not task.cancelled() and task.result()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return numbers


async def test_one_arrival_wakes_the_two_pollers_that_wait_longest() -> None:
    waiters = Waiters()
    tasks = await waiting(waiters, *[GPU] * 1000)
    waiters.received(Arrival(1, "production", "self_hosted").write())
    assert await woken(tasks) == [0, 1]
    assert len(waiters) == 0


async def test_a_poller_with_the_models_loaded_is_woken_before_pollers_that_wait_longer() -> None:
    waiters, returned = Waiters(), []

    async def poll(number: int, cold: Cold | None) -> None:
        with waiters.waiting(GPU, cold) as arrival:
            if await arrival.within(600):
                returned.append(number)

    colds: list[Cold | None] = [None, {1: 1.0, 2: 0.0}, {1: 0.5, 2: 1.0}, {1: 0.0}]
    tasks = [asyncio.create_task(poll(number, cold)) for number, cold in enumerate(colds)]
    while len(waiters) < len(colds):
        await asyncio.sleep(0)
    waiters.received(Arrival(1, "production", "self_hosted").write())
    for _ in range(4):
        await asyncio.sleep(0)
    assert returned == [2, 0]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_each_arrival_wakes_other_pollers() -> None:
    waiters = Waiters()
    tasks = await waiting(waiters, *[GPU] * 5)
    waiters.received(Arrival(1, "production", "self_hosted").write())
    waiters.received(Arrival(2, "production", "self_hosted").write())
    assert await woken(tasks) == [0, 1, 2, 3]


async def test_only_pollers_that_may_take_the_job_are_woken() -> None:
    for payload, expected in (
        (Arrival(1, "production", "self_hosted").write(), [1]),
        (Arrival(3, "production", "self_hosted").write(), [0]),
        (Arrival(1, "production", "cloud").write(), [2]),
        (Arrival(1, "staging", "self_hosted").write(), [3]),
        (Arrival(2, "staging", "self_hosted").write(), []),
        (Arrival(4, "production", "self_hosted").write(), []),
    ):
        waiters = Waiters()
        tasks = await waiting(waiters, OTHER, GPU, CLOUD, STAGING)
        waiters.received(payload)
        assert await woken(tasks) == expected, payload


async def test_the_limit_of_woken_pollers_applies_across_kinds_of_workers() -> None:
    waiters = Waiters()
    tasks = await waiting(waiters, GPU, Criteria((1,)), Criteria((1, 3)))
    waiters.received(Arrival(1, "production", "self_hosted").write())
    assert len(await woken(tasks)) == WOKEN_PER_ARRIVAL


async def test_every_poller_is_woken_after_a_possible_loss_of_messages() -> None:
    waiters = Waiters()
    tasks = await waiting(waiters, OTHER, GPU, GPU, CLOUD)
    waiters.received(None)
    assert await woken(tasks) == [0, 1, 2, 3]


async def test_a_poller_whose_time_is_over_returns_and_is_forgotten() -> None:
    waiters = Waiters()
    assert await wait(waiters, GPU, 0.001) is False
    assert len(waiters) == 0


async def test_a_poller_that_left_does_not_count_as_woken() -> None:
    waiters = Waiters()
    tasks = await waiting(waiters, *[GPU] * 4)
    tasks[0].cancel()
    tasks[1].cancel()
    waiters.received(Arrival(1, "production", "self_hosted").write())
    assert await woken(tasks) == [2, 3]


async def test_work_that_the_woken_poller_may_not_take_wakes_one_poller_of_every_kind() -> None:
    waiters = Waiters()
    tasks = await waiting(waiters, GPU, GPU, Criteria((2, 3)), OTHER, CLOUD, STAGING)
    waiters.wake_instead(GPU)
    assert await woken(tasks) == [0, 2]


async def test_a_woken_poller_that_leaves_without_looking_wakes_another() -> None:
    waiters = Waiters()
    with waiters.waiting(GPU), waiters.waiting(GPU):
        tasks = await waiting(waiters, GPU, GPU, GPU)
        waiters.received(Arrival(1, "production", "self_hosted").write())
        assert len(waiters) == 3
    assert await woken(tasks) == [0, 1]


async def test_work_that_arrives_between_an_empty_lease_and_the_wait_is_not_missed() -> None:
    waiters = Waiters()

    class RecordingStarter(Starter):
        """Has nothing at first, and is given something the moment after it said so."""

        def __init__(self) -> None:
            self.requests = 0

        async def lease_and_start(
            self, criteria: Criteria, worker_id: str, poll_id: str | None = None, cold: Cold | None = None
        ) -> StartedLease | None:
            self.requests += 1
            if self.requests == 1:
                waiters.received(Arrival(1, "production", "self_hosted").write())
            return None

    jobs_api = RecordingStarter()
    assert await LongPoll(jobs_api, waiters, EveryProvider()).next_job(GPU, "worker", 0.05) is None
    assert jobs_api.requests == 2
    assert len(waiters) == 0


async def test_a_notification_of_the_queue_is_understood_by_the_waiters() -> None:
    waiters = Waiters()
    tasks = await waiting(waiters, Criteria((7,), "staging", ("comfy_cloud",)))
    received: list[str] = []

    def notify(channel: str, payload: str) -> None:
        received.append(channel)
        waiters.received(payload)

    lane = Lane(3, 7, "staging", "comfy_cloud", "with/slash", -1, uuid4(), uuid4())
    announcer(notify)(7, "staging", "comfy_cloud", lane)
    assert received == [CHANNEL]
    assert await woken(tasks) == [0]


def test_a_lane_is_read_as_it_was_written() -> None:
    lane = Lane(3, 7, "staging", "comfy_cloud", "with/slash", -1, uuid4(), uuid4())
    arrival = Arrival(7, "staging", "comfy_cloud", lane)
    assert Arrival.read(arrival.write()) == arrival
    assert Arrival.read(Arrival(7, "staging", "comfy_cloud").write()).lane is None


async def test_a_stopping_server_ends_every_wait() -> None:
    waiters = Waiters()
    with waiters.waiting(Criteria((1,))) as one, waiters.waiting(Criteria((2,))) as two:
        waiters.close()
        assert await one.within(60)
        assert await two.within(60)
    assert waiters.closed
