"""The queue of a simulated fleet: jobs wait in lanes, and the queue view of the real dispatch chooses the next job."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from uuid import UUID

from callsheet.dispatch.facts import Criteria, Lane
from callsheet.dispatch.order.queue_view import QueueView
from callsheet.dispatch.order.user_queues import Terms
from callsheet_simulation.trace import QueueTrace, TraceLane

# Every worker of the fleet may run every job of the trace.
WORKFLOW, STAGE, PROVIDER = 1, "production", "self_hosted"
TERMS = Terms()


class Name(UUID):
    """Compared by identity, because each is created once: a UUID's own hash is Python code and took a tenth of a
    replay.
    """

    __slots__ = ()
    __hash__ = object.__hash__


class WaitingJobs:
    """The queue. Jobs are numbered in the order of arrival, like dispatch ids in the order of creation."""

    __slots__ = ("_key_of", "_lanes", "_view", "_waiting", "_workflows", "by_workflow", "length", "workflows")

    def __init__(self, trace: QueueTrace):
        self._view = QueueView(Criteria((WORKFLOW,), STAGE, (PROVIDER,)), lambda tenant_id: TERMS)
        self._key_of = trace.key_of
        self._lanes = _lanes(trace.keys)
        self._waiting: list[deque[int]] = [deque() for _ in trace.keys]
        numbers: dict[str, int] = {}
        self._workflows = [numbers.setdefault(key.workflow, len(numbers)) for key in trace.keys]
        self.workflows = len(numbers)
        self.length = 0
        # Number of waiting jobs per workflow.
        self.by_workflow = [0] * self.workflows

    def add(self, job: int) -> None:
        number = self._key_of[job]
        waiting = self._waiting[number]
        waiting.append(job)
        self.length += 1
        self.by_workflow[self._workflows[number]] += 1
        if len(waiting) == 1:
            self._view.arrive(self._lanes[number], job)

    def take(self) -> int:
        """Takes the next job; the queue must not be empty."""
        [(queue, _)] = self._view.draw(1)
        # A user's jobs of several workflows are taken in the order of arrival.
        number = min(queue.lanes, key=self._head) if len(queue.lanes) > 1 else next(iter(queue.lanes))
        waiting = self._waiting[number]
        job = waiting.popleft()
        self.length -= 1
        self.by_workflow[self._workflows[number]] -= 1
        if waiting:
            queue.oldest = waiting[0] if len(queue.lanes) == 1 else min(map(self._head, queue.lanes))
        else:
            self._view.leave(self._lanes[number])
        return job

    def end(self, job: int) -> None:
        """Records that a taken job is no longer in flight."""
        self._view.end(self._lanes[self._key_of[job]])

    def requeue(self, job: int) -> None:
        """Requeues a taken job before the jobs that arrived after it."""
        number = self._key_of[job]
        waiting = self._waiting[number]
        place = next((place for place, other in enumerate(waiting) if other > job), len(waiting))
        waiting.insert(place, job)
        self.length += 1
        self.by_workflow[self._workflows[number]] += 1
        self._view.end(self._lanes[number])
        if place == 0:
            self._view.arrive(self._lanes[number], job)

    def workflow_of(self, job: int) -> int:
        return self._workflows[self._key_of[job]]

    def _head(self, number: int) -> int:
        return self._waiting[number][0]


def _lanes(keys: Sequence[TraceLane]) -> list[Lane]:
    """A lane for each key, with the key's index as id."""
    tenants: dict[str, UUID] = {}
    users: dict[tuple[str, str], UUID] = {}
    lanes = []
    for number, key in enumerate(keys):
        tenant = tenants.setdefault(key.tenant, Name(int=len(tenants) + 1))
        user = users.setdefault((key.tenant, key.user), Name(int=len(users) + 1))
        lanes.append(Lane(number, WORKFLOW, STAGE, PROVIDER, "", key.priority, tenant, user))
    return lanes
