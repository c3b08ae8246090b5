"""What people do with candidates: compare, kill, approve, replay, and take away what was made."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import Answer, Line, UserRequest
from callsheet.wire.pipelines import Candidate, CandidateStatus, Step


class Pair(Answer):
    """Two candidates of one step, to be compared."""

    seed: int = Field(description="Asking with it again, before anybody votes, answers the same pair.")
    candidates: list[Candidate] = Field(description="Two; none where there is nothing left to compare.")


class CastVote(UserRequest):
    winner_id: UUID
    loser_id: UUID


class Vote(Answer):
    id: UUID
    run_id: UUID
    winner_id: UUID
    loser_id: UUID
    elo_change: int = Field(description="What the winner gained and the loser lost.")
    created_at: datetime


class Killed(Answer):
    """What a kill came to. Asking once more changes nothing."""

    candidate: Candidate
    rejected: int = Field(description="How many candidates it rejected: this one and all that descend from it.")
    canceled_jobs: int = Field(description="How many jobs were making more of them; their tokens are back.")


class Restored(Answer):
    """What taking a kill back came to. Asking once more changes nothing."""

    candidate: Candidate
    restored: int = Field(description="How many candidates are back: this one and all that was rejected with it.")


class Approval(Answer):
    run_id: UUID
    step_id: UUID
    approved_at: datetime


class Ancestor(Answer):
    """How one candidate came to be: with this the same can be made again."""

    candidate_id: UUID
    number: int
    status: CandidateStatus
    step: Step
    job_id: UUID
    seed: int
    draw: int | None = Field(None, description="RNG(run seed, draw) chose its parent.")
    workflow: dict[str, Any] = Field(
        description="The graph as the engine got it, for operators only; empty for others and where an actor made it."
    )
    payload: dict[str, Any] | None = Field(None, description="What the actor was asked with, where one made it.")
    lineage: dict[str, Any] = Field(description="What the graph was filled with: prompt, variables, values.")
    cost: int
    elo: int
    file_id: UUID
    created_at: datetime
    seconds: float | None = Field(None, description="How long its job ran.")


class Lineage(Answer):
    candidate_id: UUID
    run_id: UUID
    ancestors: list[Ancestor] = Field(description="From the base to the candidate itself.")


class Replay(UserRequest):
    idempotency_key: Line | None = None
