"""`/api/runs/{run_id}/…` and `/api/candidates/{candidate_id}`: actions of users on the candidates of a run."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Query, Response
from starlette.responses import StreamingResponse

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.principal import Principal
from callsheet.jobs.show.presenter import Presenter
from callsheet.media.storage.keys import content_disposition
from callsheet.pipelines.judge.branches import Branches
from callsheet.pipelines.judge.export import Exports
from callsheet.pipelines.judge.gallery import Gallery
from callsheet.pipelines.judge.lineage import Lineages
from callsheet.pipelines.judge.votes import Votes
from callsheet.pipelines.run.views import RunViews
from callsheet.plumbing.database.pages import CURSOR, LIMIT, MAXIMUM_LIMIT
from callsheet.plumbing.http.idempotency import IdempotencyKey, or_earlier, replayed, with_key
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Page
from callsheet.wire.jobs import Job
from callsheet.wire.pipelines.candidates import (
    Approval,
    BranchPreview,
    CastVote,
    Gate,
    Killed,
    Lineage,
    Pair,
    Pairs,
    Replay,
    Restored,
    Spending,
    Vote,
)
from callsheet.wire.pipelines.pipelines import DEFAULT_LEAVES, MAX_SEED, Candidate, CandidateStatus

MAX_SLUG_LENGTH = 100
MAX_IDS = 100
MAX_PAIRS = 20
MAX_PARTS = 200
STEP = Query(None, max_length=MAX_SLUG_LENGTH, description="Only candidates of the step with this slug.")
STATUS = Query(None, description="Only candidates of this status.")
ZIP = "application/zip"
VOTED: dict[int | str, dict[str, Any]] = {
    200: {"model": Vote, "description": "You gave this vote before. It counts once."}
}
ARCHIVE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The archive.", "content": {ZIP: {"schema": {"type": "string", "format": "binary"}}}}
}


def run_candidate_router(gallery: Gallery, exports: Exports, authentication: Authentication) -> Router:
    """The candidates of a run."""
    router = Router(prefix="/api/runs/{run_id}", tags=["pipelines"])

    @router.get("/candidates")
    async def list_candidates(
        run_id: UUID,
        step: str | None = STEP,
        parent_id: UUID | None = Query(None, description="Only candidates that were made from this candidate."),
        status: CandidateStatus | None = STATUS,
        candidate_id: list[UUID] = Query(
            [], max_length=MAX_IDS, description="Only these candidates, in this order, on one page."
        ),
        cursor: int | None = Query(None, ge=1, le=2**31 - 1, description="`next_cursor` of the page before."),
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> Page[Candidate]:
        """The candidates of a run, newest first, each with URLs of its image and its thumbnail."""
        return await gallery.page(
            principal,
            run_id,
            step=step,
            parent_id=parent_id,
            status=status,
            candidate_ids=candidate_id,
            before=cursor,
            limit=limit,
        )

    @router.get("/winners")
    async def list_winners(
        run_id: UUID,
        step: str | None = Query(
            None, max_length=MAX_SLUG_LENGTH, description="Slug of the step. Default: the last step."
        ),
        limit: int = Query(DEFAULT_LEAVES, ge=1, le=MAXIMUM_LIMIT, description="Maximum number of candidates."),
        principal: Principal = Depends(authentication.user),
    ) -> list[Candidate]:
        """The best candidates by ELO that are not rejected. The older of two equals comes first."""
        return await gallery.winners(principal, run_id, step, limit)

    @router.get("/export", response_class=StreamingResponse, responses=ARCHIVE)
    async def export_run(
        run_id: UUID,
        status: CandidateStatus | None = STATUS,
        principal: Principal = Depends(authentication.user),
    ) -> StreamingResponse:
        """All candidates of the run as a zip file, in one folder per step, with `manifest.json` as the last entry."""
        name, content = await exports.open(principal, run_id, status)
        headers = {"content-disposition": content_disposition(name), "cache-control": "no-store"}
        return StreamingResponse(content, media_type=ZIP, headers=headers)

    return router


def guidance_router(votes: Votes, branches: Branches, authentication: Authentication) -> Router:
    """Routes with which users guide a run: votes and approvals."""
    router = Router(prefix="/api/runs/{run_id}", tags=["pipelines"])

    @router.get("/pair")
    async def get_pair(
        run_id: UUID,
        step: str | None = STEP,
        seed: int | None = Query(
            None, ge=0, le=MAX_SEED, description="Random seed. Default: a new seed, which is returned."
        ),
        principal: Principal = Depends(authentication.user),
    ) -> Pair:
        """Two candidates of one step to compare. Candidates with few votes and similar ELO are preferred."""
        return await votes.pair(principal, run_id, step, seed)

    @router.get("/pairs")
    async def list_pairs(
        run_id: UUID,
        step: str | None = STEP,
        seed: int | None = Query(
            None, ge=0, le=MAX_SEED, description="Random seed. Default: a new seed, which is returned."
        ),
        limit: int = Query(5, ge=1, le=MAX_PAIRS, description="Maximum number of pairs."),
        principal: Principal = Depends(authentication.user),
    ) -> Pairs:
        """The next pairs to compare, so that a client can load their images before they are shown. Also the number of
        pairs that you have judged, and of all pairs."""
        return await votes.pairs(principal, run_id, step, seed, limit)

    @router.post("/votes", status_code=201, responses=VOTED)
    async def cast_vote(
        run_id: UUID, body: CastVote, response: Response, principal: Principal = Depends(authentication.user)
    ) -> Vote:
        """Votes for one of two candidates, for both or for neither, which changes their ELO. If you repeat a vote,
        it counts once and returns 200.
        """
        vote, was_there = await votes.vote(principal, run_id, body)
        if was_there:
            response.status_code = 200
        return vote

    @router.get("/votes")
    async def list_votes(
        run_id: UUID,
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> Page[Vote]:
        """The votes of a run that count, newest first."""
        return await votes.page(principal, run_id, cursor, limit)

    @router.delete("/votes/{vote_id}", status_code=204)
    async def undo_vote(run_id: UUID, vote_id: UUID, principal: Principal = Depends(authentication.user)) -> None:
        """Takes a vote back. The points and the number of votes of both candidates are restored."""
        await votes.undo(principal, run_id, vote_id)

    @router.post("/steps/{step}/approve")
    async def approve_step(
        run_id: UUID,
        step: Annotated[str, Path(max_length=MAX_SLUG_LENGTH, description="Slug of the step.")],
        principal: Principal = Depends(authentication.user),
    ) -> Approval:
        """Approves a step, so that its candidates become parents. A second approval returns the first one."""
        return await branches.approve(principal, run_id, step)

    return router


def run_view_router(views: RunViews, authentication: Authentication) -> Router:
    """Views that help a person to decide about a run."""
    router = Router(prefix="/api/runs/{run_id}", tags=["pipelines"])

    @router.get("/gates")
    async def list_gates(run_id: UUID, principal: Principal = Depends(authentication.user)) -> list[Gate]:
        """The steps of a run that need an approval, with the number of children that an approval may start, and their
        cost."""
        return await views.gates(principal, run_id)

    @router.get("/spending")
    async def get_spending(
        run_id: UUID,
        parts: int = Query(60, ge=1, le=MAX_PARTS, description="Number of equal parts of the time of the run."),
        principal: Principal = Depends(authentication.user),
    ) -> Spending:
        """The budget of a run, the tokens that its jobs have used and hold, and the tokens over time and by step."""
        return await views.spending(principal, run_id, parts)

    return router


def candidate_router(
    gallery: Gallery,
    branches: Branches,
    lineages: Lineages,
    views: RunViews,
    presenter: Presenter,
    authentication: Authentication,
) -> Router:
    router = Router(prefix="/api/candidates/{candidate_id}", tags=["pipelines"])

    @router.get("")
    async def get_candidate(candidate_id: UUID, principal: Principal = Depends(authentication.user)) -> Candidate:
        """One candidate, with URLs of its image and its thumbnail."""
        return await gallery.get(principal, candidate_id)

    @router.get("/branch")
    async def preview_branch(candidate_id: UUID, principal: Principal = Depends(authentication.user)) -> BranchPreview:
        """The consequences of a kill or a restore: the number of candidates, the canceled jobs, and the refund."""
        return await views.branch(principal, candidate_id)

    @router.post("/kill")
    async def kill_candidate(candidate_id: UUID, principal: Principal = Depends(authentication.user)) -> Killed:
        """Rejects a candidate and all its descendants. Jobs that make more descendants are canceled and refunded."""
        return await branches.kill(principal, candidate_id)

    @router.post("/restore")
    async def restore_candidate(candidate_id: UUID, principal: Principal = Depends(authentication.user)) -> Restored:
        """Restores a rejected candidate and all candidates that were rejected with it. Canceled jobs are not
        restarted.
        """
        return await branches.restore(principal, candidate_id)

    @router.get("/lineage")
    async def explain_candidate(candidate_id: UUID, principal: Principal = Depends(authentication.user)) -> Lineage:
        """How a candidate was made: graph, values, seed and parent of every candidate from the base to this one."""
        return await lineages.explain(principal, candidate_id)

    @router.post("/replay", status_code=201, responses=or_earlier(Job))
    async def replay_candidate(
        candidate_id: UUID,
        body: Replay,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = Depends(authentication.user),
    ) -> Job:
        """Makes the candidate again as a separate job: the same graph, values, seed and parent. The tree
        of the run does not change. The job counts in the budget of the run.
        """
        submitted = replayed(response, await lineages.replay(principal, candidate_id, with_key(body, idempotency_key)))
        return await presenter.one(principal.tenant_id, submitted.job)

    return router
