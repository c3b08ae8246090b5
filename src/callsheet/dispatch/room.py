"""Builds all parts of the queue."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.dispatch.loops import HistoryRetention, LaneKeeper
from callsheet.dispatch.operate.limits import ConcurrencyLimits
from callsheet.dispatch.operate.lists import DispatchLists
from callsheet.dispatch.operate.priorities import DispatchPriorities
from callsheet.dispatch.operate.tenant_weights import TenantWeights
from callsheet.dispatch.order.affinity import AffinityLimits
from callsheet.dispatch.order.user_queues import Terms
from callsheet.dispatch.positions import Positions
from callsheet.dispatch.queue import Queue
from callsheet.dispatch.queue_notifications import CHANNEL, announcer
from callsheet.dispatch.repair import DispatchRepair
from callsheet.dispatch.waiters import Waiters
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.notify import Listener, Notify
from callsheet.plumbing.room import Room
from callsheet.settings import JobSettings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class DispatchRoom(Room):
    queue: Queue
    positions: Positions
    lists: DispatchLists
    priorities: DispatchPriorities
    limits: ConcurrencyLimits
    repair: DispatchRepair
    tenant_weights: TenantWeights
    waiters: Waiters
    lane_keeper: LaneKeeper
    # None if the settings keep the history forever.
    retention: HistoryRetention | None

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.lane_keeper,) if self.retention is None else (self.lane_keeper, self.retention)

    def listen(self, listener: Listener) -> None:
        """Lets new dispatches wake waiting polls. The queue comes first, because a woken poll asks it."""
        listener.subscribe(CHANNEL, self.queue.received)
        listener.subscribe(CHANNEL, self.waiters.received)


def open_dispatch(central: Database, notify: Notify, settings: JobSettings) -> DispatchRoom:
    queue = Queue(
        central,
        announcer(notify),
        fair=settings.order == "fair",
        terms=Terms(max_running=settings.running_per_tenant, max_running_per_user=settings.running_per_user),
        affinity=AffinityLimits(settings.warm_look_ahead, settings.warm_max_passed),
    )
    lists = DispatchLists(central)
    days = settings.history_days
    return DispatchRoom(
        queue=queue,
        positions=Positions(central, queue.leasing),
        lists=lists,
        priorities=DispatchPriorities(central, queue, lists),
        limits=ConcurrencyLimits(central, queue),
        repair=DispatchRepair(central, queue),
        tenant_weights=TenantWeights(central, queue),
        waiters=Waiters(),
        lane_keeper=LaneKeeper(queue),
        retention=None if days is None else HistoryRetention(central, days),
    )
