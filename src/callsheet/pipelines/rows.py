"""Rows of this room's tables, as its statements return them. A test compares the fields with the columns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID


class StepRow(NamedTuple):
    id: UUID
    position: int
    name: str
    slug: str
    workflow: str
    effect_id: UUID | None
    # The payload of an actor; None for a workflow of the catalog.
    payload: dict[str, Any] | None
    values: dict[str, Any]
    needs_run_prompt: bool
    needs_parent_image_path: bool
    needs_run_variables: bool
    max_children: int
    top_k: int | None
    requires_approval: bool


class VersionedStep(NamedTuple):
    """A step of any version."""

    version: int
    step: StepRow


class RunRow(NamedTuple):
    """The fields of a run that users read and change."""

    tenant_id: UUID
    id: UUID
    pipeline_id: UUID
    pipeline_version: int
    name: str
    status: str
    reason: str | None
    reason_detail: str | None
    strategy: str
    target_folder: str
    prompt: str | None
    variables: dict[str, Any]
    seed: int
    max_children: int | None
    target_leaves: int
    concurrency: int | None
    budget: int
    spent: int
    draws: int
    candidates: int
    base_failures: int
    dead_branches: int
    idempotency_key: str | None
    request_hash: bytes | None
    request_fields: Mapping[str, str] | None
    client_reference: str | None
    metadata: Mapping[str, str] | None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None


class ClaimedRun(NamedTuple):
    """A run that is due, with the data to choose and start its next job."""

    tenant_id: UUID
    id: UUID
    user_id: UUID
    pipeline_id: UUID
    pipeline_version: int
    # The number of steps of the run.
    steps: int
    strategy: str
    seed: int
    draws: int
    target_leaves: int
    concurrency: int | None
    budget: int
    spent: int
    prompt: str | None
    variables: Mapping[str, Any]
    # The API key that started it.
    key_id: UUID | None
    reason: str | None
    reason_detail: str | None
    # The first is when the scheduler examines the run next, unless a change makes the run due earlier. The second is
    # when the run was due before it was claimed.
    due_at: datetime
    was_due_at: datetime

    @property
    def next_draw(self) -> int:
        return self.draws + 1


class CandidateRow(NamedTuple):
    id: UUID
    run_id: UUID
    number: int
    step_id: UUID
    position: int
    parent_id: UUID | None
    job_id: UUID
    output_index: int
    seed: int
    elo: int
    votes: int
    status: str
    rejected_with: UUID | None
    rejected_by: UUID | None
    child_count: int
    in_flight: int
    max_children: int
    failure_count: int
    file_id: UUID
    thumbnail_file_id: UUID | None
    created_at: datetime


class FailureCounts(NamedTuple):
    """Failures of a run that has just had another failure, and the number of failures that stops it (`strikes`)."""

    base_failures: int
    dead_branches: int
    strikes: int
    status: str


class JobOfCanceledRun(NamedTuple):
    tenant_id: UUID
    job_id: UUID


class JobId(NamedTuple):
    job_id: UUID


class RunId(NamedTuple):
    id: UUID
