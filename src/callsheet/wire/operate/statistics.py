"""Charts of the installation: finished jobs, queues, workers and tokens over time."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from callsheet.wire.base import ResponseModel

TimeRange = Literal["1h", "24h", "30d"]


class StatisticsPoint(ResponseModel):
    """One step of the charts. Counts are 0 if nothing happened; a sampled value is null if there is no sample."""

    at: datetime = Field(description="Start of the step.")
    completed: int
    failed: int
    canceled: int
    expired: int
    wait_p50_seconds: float | None = Field(None, description="Median time in the queue of the jobs that finished.")
    wait_p95_seconds: float | None = None
    run_p50_seconds: float | None = Field(None, description="Median run time of the jobs that completed.")
    run_p95_seconds: float | None = None
    queued: float | None = Field(None, description="Mean number of queued jobs.")
    running: float | None = Field(None, description="Mean number of running jobs.")
    busy_workers: float | None = None
    idle_workers: float | None = None
    draining_workers: float | None = None
    slots: float | None = Field(None, description="Jobs that the live workers can run at once.")
    busy_slots: float | None = None
    tokens_held: float | None = Field(None, description="Tokens that are held for jobs that have not ended.")


class WorkflowTotals(ResponseModel):
    workflow: str
    completed: int
    failed: int
    canceled: int
    expired: int


class Statistics(ResponseModel):
    range: TimeRange
    step_seconds: int
    workflow: str | None = Field(
        None, description="The workflow that jobs and queues are counted for; null: all. Workers are always all."
    )
    now: datetime
    points: list[StatisticsPoint] = Field(description="Oldest first, without gaps. The last step is not over.")
    workflows: list[WorkflowTotals] = Field(
        description="Finished jobs of the range per workflow, at most 100 workflows."
    )


class WorkerHour(ResponseModel):
    at: datetime = Field(description="Start of the hour.")
    busy_share: float = Field(description="Share of the time of the worker's slots that jobs took, from 0 to 1.")
    minutes: int = Field(description="Minutes of the hour in which the worker was online.")


class Utilisation(ResponseModel):
    hours: list[WorkerHour] = Field(description="The last 24 hours, oldest first. Hours offline are left out.")
