"""What people do with candidates: compare, kill, approve, replay, and take away what was made."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import Answer, Line, UserRequest
from callsheet.wire.pipelines import Candidate, CandidateStatus, Step


class Pair(Answer):
    """Two candidates of one step to compare."""

    seed: int = Field(description="Random seed of the pair. Until someone votes, the same seed returns the same pair.")
    candidates: list[Candidate] = Field(description="Two candidates, or none if nothing is left to compare.")


class CastVote(UserRequest):
    winner_id: UUID
    loser_id: UUID


class Vote(Answer):
    id: UUID
    run_id: UUID
    winner_id: UUID
    loser_id: UUID
    elo_change: int = Field(description="ELO points that the winner gained and the loser lost.")
    created_at: datetime


class Killed(Answer):
    """The outcome of a kill. The same request again changes nothing."""

    candidate: Candidate
    rejected: int = Field(description="Number of rejected candidates: this one and all its descendants.")
    canceled_jobs: int = Field(
        description="Number of canceled jobs that were making descendants. Their tokens are refunded."
    )


class Restored(Answer):
    """The outcome of undoing a kill. The same request again changes nothing."""

    candidate: Candidate
    restored: int = Field(description="Number of restored candidates: this one and all that were rejected with it.")


class Approval(Answer):
    run_id: UUID
    step_id: UUID
    approved_at: datetime


class Ancestor(Answer):
    """How a candidate was made. With these values it can be made again."""

    candidate_id: UUID
    number: int
    status: CandidateStatus
    step: Step
    job_id: UUID
    seed: int
    draw: int | None = Field(None, description="Number of the draw. The run's seed and this number chose the parent.")
    workflow: dict[str, Any] = Field(
        description="The graph as the engine got it. Only operators see it; it is empty for other users and for actors."
    )
    payload: dict[str, Any] | None = Field(
        None, description="The payload that the actor got. Null if a workflow made the candidate."
    )
    lineage: dict[str, Any] = Field(description="The values in the graph: prompt, variables, values.")
    cost: int
    elo: int
    file_id: UUID
    created_at: datetime
    seconds: float | None = Field(None, description="Run time of its job, in seconds.")


class Lineage(Answer):
    candidate_id: UUID
    run_id: UUID
    ancestors: list[Ancestor] = Field(description="From the base to the candidate itself.")


class Replay(UserRequest):
    idempotency_key: Line | None = None
