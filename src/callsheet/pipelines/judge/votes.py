"""Chooses pairs of candidates, records votes and undoes votes."""

from __future__ import annotations

import secrets
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.pipelines.judge.gallery import Gallery
from callsheet.pipelines.judge.pairs import Contender, choose_pairs, number_of_pairs
from callsheet.pipelines.judge.ratings import points, points_back, points_back_together, points_together
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.toolbox.ids import uuid7
from callsheet.wire.base import Page
from callsheet.wire.errors import Conflict, InvalidRequest, NotFound, WrongState
from callsheet.wire.pipelines.candidates import CastVote, Pair, Pairs, Verdict, Vote
from callsheet.wire.pipelines.pipelines import MAX_SEED, CandidateStatus

SQL = statements("callsheet.pipelines.judge")

# Maximum number of candidates of each step from which a pair is chosen: as many as a person could compare in an
# afternoon.
CONTENDERS = 40
NO_SUCH_VOTE = "There is no such vote."


# Maximum number of votes of a run that are counted for the progress.
MAX_JUDGED = 20_000


class ActiveOfStep(NamedTuple):
    position: int
    active: int


class ComparedPair(NamedTuple):
    winner_id: UUID
    loser_id: UUID


class LockedCandidate(NamedTuple):
    id: UUID
    position: int
    elo: int
    status: str


class Votes:
    def __init__(self, databases: Databases, gallery: Gallery):
        self._databases = databases
        self._gallery = gallery

    async def pair(self, principal: Principal, run_id: UUID, step: str | None, seed: int | None) -> Pair:
        """Two candidates with few votes and similar ELO. The same seed returns the same pair until a user votes."""
        found = await self.pairs(principal, run_id, step, seed, 1)
        return Pair(seed=found.seed, candidates=found.pairs[0] if found.pairs else [])

    async def pairs(
        self, principal: Principal, run_id: UUID, step: str | None, seed: int | None, max_pairs: int
    ) -> Pairs:
        """The next pairs that a client may load in advance, and the number of all pairs."""
        run = await self._gallery.run(principal, run_id)
        position = await self._gallery.position(principal, run_id, step)
        chosen = secrets.randbelow(MAX_SEED + 1) if seed is None else seed
        pool = await self._databases.pool(principal.pool)
        async with pool.connection() as connection:
            contenders = await SQL["contenders"].rows(
                connection,
                Contender,
                tenant_id=principal.tenant_id,
                run_id=run_id,
                steps=run.steps,
                position=position,
                limit=CONTENDERS,
            )
            compared_rows = await SQL["compared_pairs"].rows(
                connection,
                ComparedPair,
                tenant_id=principal.tenant_id,
                user_id=principal.user_id,
                candidate_ids=[each.id for each in contenders],
            )
        compared = {frozenset(pair) for pair in compared_rows}
        pairs = choose_pairs(contenders, compared, chosen, max_pairs)
        ids = {each.id for pair in pairs for each in pair}
        shown = {each.id: each for each in await self._gallery.of_ids(principal, [*ids])}
        judged, total = await self._progress(principal, run_id, position)
        return Pairs(
            seed=chosen,
            # If a candidate was deleted meanwhile, its pair is left out.
            pairs=[[shown[each.id] for each in pair] for pair in pairs if all(each.id in shown for each in pair)],
            judged=judged,
            total=total,
        )

    async def _progress(self, principal: Principal, run_id: UUID, position: int | None) -> tuple[int, int]:
        names = {"tenant_id": principal.tenant_id, "run_id": run_id}
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            judged = await SQL["judged_pairs"].value(
                connection, **names, user_id=principal.user_id, position=position, max_rows=MAX_JUDGED
            )
            counts = await SQL["active_of_steps"].rows(connection, ActiveOfStep, **names)
        total = sum(number_of_pairs(each.active) for each in counts if position in (None, each.position))
        return judged, total

    async def vote(self, principal: Principal, run_id: UUID, cast: CastVote) -> tuple[Vote, bool]:
        """The vote, and whether the user gave it before. A repeated vote counts once."""
        await self._gallery.run(principal, run_id)
        if cast.winner_id == cast.loser_id:
            raise InvalidRequest.field("loser_id", "Winner and loser must be two different candidates.")
        pool = await self._databases.pool(principal.pool)
        async with pool.transaction() as connection:
            pair = await self._locked(connection, principal, run_id, cast.winner_id, cast.loser_id)
            winner, loser = _comparable(pair, cast)
            change = points(winner.elo, loser.elo) if cast.verdict is Verdict.WINNER else 0
            together = points_together(cast.verdict, winner.elo, loser.elo)
            names = {"winner_id": cast.winner_id, "loser_id": cast.loser_id, "tenant_id": principal.tenant_id}
            moved = {"elo_change": change, "both_change": together}
            vote = await SQL["add_vote"].row(
                connection,
                Vote,
                **names,
                **moved,
                vote_id=uuid7(),
                run_id=run_id,
                user_id=principal.user_id,
                verdict=cast.verdict.value,
            )
            if vote is not None:
                await SQL["move_elo"].run(connection, **names, **moved, votes=1)
                return vote, False
            earlier = await SQL["vote_on_pair"].row(connection, Vote, **names, user_id=principal.user_id)
        assert earlier is not None, "the candidates are locked, so no request has taken the vote back meanwhile"
        if earlier.verdict is not cast.verdict:
            raise Conflict(f"You judged this pair differently. Take that vote back first: {earlier.id}.")
        if cast.verdict is Verdict.WINNER and earlier.winner_id != cast.winner_id:
            raise Conflict(f"You voted the other way round. Take that vote back first: {earlier.id}.")
        return earlier, True

    async def undo(self, principal: Principal, run_id: UUID, vote_id: UUID) -> None:
        """Gives back the points of the vote. Later votes do not change."""
        pool = await self._databases.pool(principal.pool)
        async with pool.transaction() as connection:
            found = await SQL["find_vote"].row(
                connection,
                Vote,
                tenant_id=principal.tenant_id,
                user_id=principal.user_id,
                run_id=run_id,
                vote_id=vote_id,
            )
            if found is None:
                raise NotFound(NO_SUCH_VOTE)
            pair = await self._locked(connection, principal, run_id, found.winner_id, found.loser_id)
            # If two requests undo the vote at once, the second waits for the lock and finds the vote undone.
            undone = await SQL["undo_vote"].row(connection, Vote, tenant_id=principal.tenant_id, vote_id=vote_id)
            if undone is None:
                raise NotFound(NO_SUCH_VOTE)
            await SQL["move_elo"].run(
                connection,
                tenant_id=principal.tenant_id,
                winner_id=undone.winner_id,
                loser_id=undone.loser_id,
                elo_change=points_back(undone.elo_change, pair[undone.winner_id].elo),
                both_change=points_back_together(undone.both_change, *(each.elo for each in pair.values())),
                votes=-1,
            )

    async def page(self, principal: Principal, run_id: UUID, before: UUID | None, limit: int) -> Page[Vote]:
        await self._gallery.run(principal, run_id)
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            found = await SQL["list_votes"].rows(
                connection, Vote, tenant_id=principal.tenant_id, run_id=run_id, before=before, limit=limit + 1
            )
        return page_of(found, limit)

    async def _locked(
        self, connection: Connection, principal: Principal, run_id: UUID, *candidate_ids: UUID
    ) -> dict[UUID, LockedCandidate]:
        rows = await SQL["lock_pair"].rows(
            connection,
            LockedCandidate,
            tenant_id=principal.tenant_id,
            run_id=run_id,
            candidate_ids=list(candidate_ids),
        )
        return {row.id: row for row in rows}


def _comparable(pair: dict[UUID, LockedCandidate], cast: CastVote) -> tuple[LockedCandidate, LockedCandidate]:
    for field, candidate_id in (("winner_id", cast.winner_id), ("loser_id", cast.loser_id)):
        if candidate_id not in pair:
            raise InvalidRequest.field(field, "This run has no such candidate.")
    winner, loser = pair[cast.winner_id], pair[cast.loser_id]
    if winner.position != loser.position:
        raise InvalidRequest.field(
            "loser_id", "The two candidates belong to different steps. Compare candidates of one step."
        )
    for row in (winner, loser):
        if row.status != CandidateStatus.ACTIVE:
            raise WrongState(f"The candidate {row.id} was rejected, so it cannot be compared.")
    return winner, loser
