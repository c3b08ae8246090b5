"""How many jobs of one user may be active: effect jobs, tasks, typed jobs and jobs of runs each have a limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from uuid import UUID

from callsheet.settings import Settings
from callsheet.wire.errors import TooManyActiveJobs


class CountedAs(StrEnum):
    """The values of the function `counted_as` of the pools."""

    JOBS = "jobs"
    TASKS = "tasks"
    TYPED = "typed"
    RUNS = "runs"


# The name of each kind in a sentence, and the setting of its limit.
_NAMES: Mapping[CountedAs, tuple[str, str]] = MappingProxyType(
    {
        CountedAs.JOBS: ("jobs of effects", "jobs.active_per_user"),
        CountedAs.TASKS: ("tasks", "tasks.active_per_user"),
        CountedAs.TYPED: ("typed jobs", "tasks.typed_active_per_user"),
        CountedAs.RUNS: ("jobs of runs", "pipelines.jobs_per_user"),
    }
)


@dataclass(frozen=True, slots=True)
class ActiveLimits:
    jobs: int
    tasks: int
    typed: int
    runs: int

    @classmethod
    def same(cls, limit: int) -> ActiveLimits:
        return cls(limit, limit, limit, limit)

    @classmethod
    def from_settings(cls, settings: Settings) -> ActiveLimits:
        return cls(
            jobs=settings.jobs.active_per_user,
            tasks=settings.tasks.active_per_user,
            typed=settings.tasks.typed_active_per_user,
            runs=settings.pipelines.jobs_per_user,
        )

    def of(self, counted: CountedAs) -> int:
        limit: int = getattr(self, counted.value)
        return limit

    def refusal(self, counted: CountedAs, active: int) -> TooManyActiveJobs:
        noun, setting = _NAMES[counted]
        return TooManyActiveJobs(active, self.of(counted), noun, setting)


def counted_as(run_id: UUID | None, actor: str | None, kind: str) -> CountedAs:
    """The kind of a job, by the same rule that the database uses to count."""
    if run_id is not None:
        return CountedAs.RUNS
    if actor is None:
        return CountedAs.JOBS
    return CountedAs.TYPED if actor == kind else CountedAs.TASKS
