"""How many jobs of one user may be active: effect jobs, tasks, typed jobs, jobs of runs and jobs of batches each have a
limit.

Also estimates when the next of the active jobs ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from uuid import UUID

from callsheet.dispatch.facts import JobCycle
from callsheet.dispatch.positions import Positions
from callsheet.jobs.lease.progress import progress_of
from callsheet.jobs.show.outlook import outlook
from callsheet.jobs.show.presenter import facts_in_queue
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.settings import Settings
from callsheet.wire.errors import TooManyActiveJobs

SQL = statements("callsheet.jobs.submit")


class CountedAs(StrEnum):
    """The values of the function `counted_as` of the pools."""

    JOBS = "jobs"
    TASKS = "tasks"
    TYPED = "typed"
    RUNS = "runs"
    BATCHES = "batches"


# The name of each kind in a sentence, and the setting of its limit.
_NAMES: Mapping[CountedAs, tuple[str, str]] = MappingProxyType(
    {
        CountedAs.JOBS: ("jobs of effects", "jobs.active_per_user"),
        CountedAs.TASKS: ("tasks", "tasks.active_per_user"),
        CountedAs.TYPED: ("typed jobs", "tasks.typed_active_per_user"),
        CountedAs.RUNS: ("jobs of runs", "pipelines.jobs_per_user"),
        CountedAs.BATCHES: ("jobs of batches", "jobs.batch_jobs_per_user"),
    }
)


@dataclass(frozen=True, slots=True)
class ActiveLimits:
    jobs: int
    tasks: int
    typed: int
    runs: int
    batches: int

    @classmethod
    def from_settings(cls, settings: Settings) -> ActiveLimits:
        return cls(
            jobs=settings.jobs.active_per_user,
            tasks=settings.tasks.active_per_user,
            typed=settings.tasks.typed_active_per_user,
            runs=settings.pipelines.jobs_per_user,
            batches=settings.jobs.batch_jobs_per_user,
        )

    def of(self, counted: CountedAs) -> int:
        limit: int = getattr(self, counted.value)
        return limit

    def refusal(
        self, counted: CountedAs, active: int, retry_after_seconds: int | None = None, new: int = 1
    ) -> TooManyActiveJobs:
        """`new`: how many jobs would be added."""
        noun, setting = _NAMES[counted]
        return TooManyActiveJobs(active, self.of(counted), noun, setting, retry_after_seconds, new)


class NextEnds:
    """Estimates when the next of a user's active jobs ends, so that a client can wait for it."""

    # A user may have hundreds of running jobs. These are enough for an estimate.
    maximum = 20

    def __init__(self, positions: Positions):
        self._positions = positions

    async def seconds(self, pool: Database, tenant_id: UUID, user_id: UUID, counted: CountedAs) -> int | None:
        """At least one second. None if none of the jobs runs, or if the run time of none of them is known."""
        async with pool.connection() as connection:
            running = await SQL["running_jobs"].rows(
                connection,
                JobCycle,
                tenant_id=tenant_id,
                user_id=user_id,
                counted_as=counted.value,
                limit=self.maximum,
            )
            progress = await progress_of(connection, tenant_id, [cycle.job_id for cycle in running])
        positions = await self._positions.of_jobs(running)
        expected = [
            outlook(facts_in_queue(position, progress.get(cycle.job_id))).eta_seconds
            for cycle, position in positions.items()
        ]
        return min((max(1, seconds) for seconds in expected if seconds is not None), default=None)


def counted_as(run_id: UUID | None, batch_id: UUID | None, actor: str | None, kind: str) -> CountedAs:
    """The kind of a job, by the same rule that the database uses to count."""
    if run_id is not None:
        return CountedAs.RUNS
    if batch_id is not None:
        return CountedAs.BATCHES
    if actor is None:
        return CountedAs.JOBS
    return CountedAs.TYPED if actor == kind else CountedAs.TASKS
