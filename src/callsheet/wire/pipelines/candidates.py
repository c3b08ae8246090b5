"""Models of users' actions on candidates: compare, kill, approve, replay and export."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import KeyedRequest, ResponseModel, UserRequest
from callsheet.wire.media import File
from callsheet.wire.pipelines.pipelines import Candidate, CandidateStatus, Step


class Pair(ResponseModel):
    """Two candidates of one step to compare."""

    seed: int = Field(description="Random seed of the pair. Until the next vote, the same seed returns the same pair.")
    candidates: list[Candidate] = Field(description="Two candidates, or none if nothing is left to compare.")


class Pairs(ResponseModel):
    """Pairs to compare, so that a client can show the next pair at once."""

    seed: int = Field(
        description="Random seed of the pairs. Until the next vote, the same seed returns the same pairs."
    )
    pairs: list[list[Candidate]] = Field(description="Each has two candidates of one step. No pair is there twice.")
    judged: int = Field(description="Number of pairs that you have judged, whose candidates are both active.")
    total: int = Field(description="Number of all pairs of active candidates of one step.")


class Verdict(StrEnum):
    """`winner`: one candidate is better. `both`: both are good, and both gain points. `neither`: both lose points."""

    WINNER = "winner"
    BOTH = "both"
    NEITHER = "neither"


class CastVote(UserRequest):
    winner_id: UUID
    loser_id: UUID
    verdict: Verdict = Field(
        Verdict.WINNER, description="With `both` or `neither`, the two candidates are named in any order."
    )


class Vote(ResponseModel):
    id: UUID
    run_id: UUID
    winner_id: UUID
    loser_id: UUID
    verdict: Verdict = Verdict.WINNER
    elo_change: int = Field(description="ELO points that the winner gained and the loser lost.")
    both_change: int = Field(0, description="ELO points that both gained. It is negative if both lost points.")
    created_at: datetime


class Killed(ResponseModel):
    """The outcome of a kill. The same request again changes nothing."""

    candidate: Candidate
    rejected: int = Field(description="Number of rejected candidates: this one and all its descendants.")
    canceled_jobs: int = Field(
        description="Number of canceled jobs that were making descendants. Their tokens are refunded."
    )


class Restored(ResponseModel):
    """The outcome of undoing a kill. The same request again changes nothing."""

    candidate: Candidate
    restored: int = Field(description="Number of restored candidates: this one and all that were rejected with it.")


class BranchPreview(ResponseModel):
    """The consequences of a kill or a restore of a candidate at this moment. Nothing is changed."""

    candidate_id: UUID
    rejects: int = Field(description="Number of active candidates that a kill rejects: this one and its descendants.")
    cancels_jobs: int = Field(description="Number of active jobs that a kill cancels.")
    refund: int = Field(description="Tokens that are refunded for the canceled jobs.")
    restores: int = Field(description="Number of rejected candidates that a restore makes active again.")
    has_more: bool = Field(description="Whether the branch has more candidates than were counted.")


class Approval(ResponseModel):
    run_id: UUID
    step_id: UUID
    approved_at: datetime


class Gate(ResponseModel):
    """A step whose candidates wait for a person, and what its approval may start."""

    step: Step
    next_step: Step
    approved_at: datetime | None = None
    parents: int = Field(description="Number of candidates that may get children. Up to 10,000 are counted.")
    children: int = Field(description="Largest number of children that these candidates may get.")
    price: int | None = Field(None, description="Tokens for one child. Null if the next step cannot be used any more.")
    cost: int | None = Field(None, description="Tokens for all these children, as far as the budget allows.")


class SpendingPart(ResponseModel):
    """Tokens that jobs of a run have used up in one part of its time."""

    at: datetime = Field(description="End of the part.")
    tokens: int = Field(description="Tokens that were used up in the part.")
    total: int = Field(description="Tokens that were used up until its end.")


class StepSpending(ResponseModel):
    position: int
    tokens: int
    jobs: int = Field(description="Number of jobs that made a candidate.")


class Spending(ResponseModel):
    """The budget of a run, and what was spent of it over time."""

    budget: int
    used: int = Field(description="Tokens that were used up.")
    held: int = Field(description="Tokens that active jobs hold.")
    left: int
    since: datetime
    until: datetime
    parts: list[SpendingPart]
    steps: list[StepSpending]


class Ancestor(ResponseModel):
    """The values from which a candidate was made. With these values it can be made again."""

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
    votes: int
    file_id: UUID
    file: File | None = Field(None, description="The file with a fresh signed URL. Null if it was deleted.")
    thumbnail: File | None = None
    created_at: datetime
    seconds: float | None = Field(None, description="Run time of its job, in seconds.")


class Lineage(ResponseModel):
    candidate_id: UUID
    run_id: UUID
    ancestors: list[Ancestor] = Field(description="From the base to the candidate itself.")


class Replay(KeyedRequest):
    pass
