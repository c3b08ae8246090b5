"""Bulk actions without HTTP: an operator, and the loop of one control plane.

bulk = BulkHarness.of(core)
await bulk.failed(ann, 3)                                  # three failed jobs
action = await bulk.start("retry", status=["failed"])      # the rest are fields of the filter
await bulk.finish()                                        # tick until nothing is left
assert counts(await bulk.get(action)) == ("completed", 3, 3, 0, 0)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

from callsheet.catalog.effects import Effects
from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import AuditLog
from callsheet.jobs.operate.operations import DispatchOperations
from callsheet.operate.all_jobs.room import AllJobsRoom, open_all_jobs
from callsheet.toolbox.ids import uuid7
from callsheet.wire.identity import Role
from callsheet.wire.operate.all_jobs import BulkAction, StartBulkAction
from tests.support.jobs.core import Core, Member

OPERATOR = Principal(uuid7(), uuid7(), "ours", "pool_1", "boss@example.com", "Boss", Role.OPERATOR, "session")


@dataclass(frozen=True, slots=True)
class BulkHarness:
    core: Core
    room: AllJobsRoom

    @classmethod
    def of(cls, core: Core) -> BulkHarness:
        # Filters by effect read central only.
        effects = Effects(core.databases, cast("Any", None), cast("Any", None), ())
        jobs = core.room
        dispatches = DispatchOperations(
            jobs.dispatch, jobs.leases, jobs.cancellation, jobs.transitions, AuditLog(core.databases)
        )
        return cls(core, open_all_jobs(core.databases, effects, jobs, dispatches))

    async def start(self, action: str, priority: int | None = None, **wanted: Any) -> BulkAction:
        body = StartBulkAction.model_validate({"action": action, "priority": priority, "filter": wanted})
        return (await self.room.bulk_actions.start(OPERATOR, body, None)).shown

    async def get(self, action: BulkAction) -> BulkAction:
        return await self.room.bulk_actions.get(action.id)

    async def stop(self, action: BulkAction) -> BulkAction:
        return await self.room.bulk_actions.stop(OPERATOR, action.id)

    async def tick(self) -> bool:
        return await self.room.bulk_loop.tick(datetime.now(UTC))

    async def finish(self) -> None:
        while await self.tick():
            pass

    async def failed(self, member: Member, count: int = 1, **changes: Any) -> list[UUID]:
        """Failed jobs, oldest first."""
        ids = []
        for _ in range(count):
            ids.append((await self.core.submit(member, **changes)).id)
            await self.core.fail(await self.core.start())
        return ids

    async def expire_lease(self, action: BulkAction) -> None:
        """Simulates that the process that works on the action has been gone for long enough."""
        query = "UPDATE bulk_actions SET lease_expires_at = clock_timestamp() - interval '1 s' WHERE id = $1"
        await self.core.rows(self.core.databases.central, query, action.id)

    async def changes(self, member: Member, job_id: UUID, action: BulkAction) -> list[str]:
        """The changes of the action to the job. A second process that was too late may have left a denied
        transition.
        """
        return [
            event["event"]
            for event in await self.core.events(member, job_id)
            if event["actor"] == f"bulk_action:{action.id}" and event["event"] == "job.transition"
        ]


def counts(action: BulkAction) -> tuple[str, int, int, int, int]:
    return action.state.value, action.total, action.done, action.refused, action.untouched
