"""Authenticates requests of workers: one indexed statement, shared by requests that arrive together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

import structlog
from starlette.requests import Request

from callsheet.fleet.protocol.presence import Presence
from callsheet.fleet.protocol.principal import LeaseOfWorker, WorkerPrincipal
from callsheet.fleet.protocol.tokens import RotatedTokens, hash_token, token_in
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.batching import Batcher
from callsheet.toolbox.signing import Master
from callsheet.wire.errors import NotAuthenticated, RegistrationExpired

SQL = statements("callsheet.fleet.protocol")

# The old token of a rotation becomes invalid with the first use of the new token, or after this time.
ROTATION_SECONDS = 600


class _TokenLookup(NamedTuple):
    token_hash: bytes
    for_poll: bool


class WorkerTokenRow(NamedTuple):
    """A token that a request carries, with its worker. For polls, the row also has what a lease needs."""

    # Position of the token among those that were looked up, from 1.
    place: int
    worker_id: str
    session_id: int
    stage: str
    providers: Sequence[str]
    names_providers: bool
    max_concurrency: int
    is_approved: bool
    registered_concurrency: int
    is_draining: bool
    rotation_id: UUID | None
    next_token_hash: bytes | None
    # Whether the token is the next token of a rotation.
    is_next: bool
    workflow_ids: Sequence[int] | None
    # The worker's leases, one array for each field of `LeaseOfWorker`.
    held_ids: Sequence[int] | None
    held_tokens: Sequence[UUID] | None
    held_polls: Sequence[str | None] | None
    held_seconds: Sequence[float] | None
    held_heartbeated: Sequence[bool] | None
    held_left_seconds: Sequence[float] | None


class _RemovedWorker:
    """The token of a worker that was removed as stale, and may register again."""


REMOVED: Final = _RemovedWorker()


class WorkerAuthentication:
    """Authenticates workers by their tokens."""

    def __init__(self, databases: Databases, secret: Master):
        self._databases = databases
        self._rotated = RotatedTokens(secret)
        self._batcher: Batcher[_TokenLookup, WorkerPrincipal | _RemovedWorker | None] = Batcher(self._find)
        self.presence = Presence(databases)

    async def of(self, authorization_header: str | None, *, for_poll: bool = False) -> WorkerPrincipal:
        """The worker whose token the header carries.

        A poll that has waited calls this again before it hands out its lease. The worker may have been revoked or
        registered again meanwhile, which refuses the poll, or it may be draining now.
        """
        token = token_in(authorization_header)
        if token is None:
            raise NotAuthenticated("Send the token of POST /api/worker/register as `Authorization: Bearer …`.")
        principal = await self._batcher(_TokenLookup(hash_token(token), for_poll))
        if principal is None:
            raise NotAuthenticated("The worker's token is unknown, was replaced or was revoked. Register again.")
        if isinstance(principal, _RemovedWorker):
            raise RegistrationExpired
        self.presence.record(principal.worker_id)
        structlog.contextvars.bind_contextvars(worker_id=principal.worker_id)
        return principal

    async def of_request(self, request: Request) -> WorkerPrincipal:
        return await self.of(request.headers.get("authorization"))

    async def set_concurrency(self, worker: WorkerPrincipal, max_concurrency: int) -> None:
        """Stores the worker's current number of slots, for statements that count slots."""
        async with self._databases.central.connection() as connection:
            await SQL["set_concurrency"].run(
                connection,
                worker_id=worker.worker_id,
                session_id=worker.session_id,
                max_concurrency=max_concurrency,
            )

    async def _find(self, lookups: Sequence[_TokenLookup]) -> list[WorkerPrincipal | _RemovedWorker | None]:
        async with self._databases.central.connection() as connection:
            values = {
                "hashes": [each.token_hash for each in lookups],
                "for_poll": [each.for_poll for each in lookups],
                "rotation_seconds": ROTATION_SECONDS,
            }
            rows = await SQL["authenticate"].rows(connection, WorkerTokenRow, **values)
            used = [row.next_token_hash for row in rows if row.is_next]
            if used:
                await SQL["adopt_rotated_tokens"].run(connection, hashes=used)
                # The token is read again: a worker that was revoked between the two statements no longer has a token.
                rows = await SQL["authenticate"].rows(connection, WorkerTokenRow, **values)
            found = {row.place: self._principal(row) for row in rows}
            unknown = [each.token_hash for place, each in enumerate(lookups, 1) if place not in found]
            removed = await SQL["find_removed_tokens"].column(connection, hashes=unknown) if unknown else []
        return [
            found.get(place, REMOVED if each.token_hash in removed else None) for place, each in enumerate(lookups, 1)
        ]

    def _principal(self, row: WorkerTokenRow) -> WorkerPrincipal:
        return WorkerPrincipal(
            worker_id=row.worker_id,
            session_id=row.session_id,
            stage=row.stage,
            providers=tuple(row.providers),
            max_concurrency=row.max_concurrency,
            is_approved=row.is_approved,
            is_draining=row.is_draining,
            names_providers=row.names_providers,
            registered_concurrency=row.registered_concurrency,
            rotated_token=None
            if row.rotation_id is None or row.next_token_hash is None or row.is_next
            else self._rotated.pending(row.worker_id, row.rotation_id, row.next_token_hash),
            workflow_ids=tuple(row.workflow_ids or ()),
            held=tuple(
                LeaseOfWorker(*lease)
                for lease in zip(
                    row.held_ids or (),
                    row.held_tokens or (),
                    row.held_polls or (),
                    row.held_seconds or (),
                    row.held_heartbeated or (),
                    row.held_left_seconds or (),
                    strict=True,
                )
            ),
        )
