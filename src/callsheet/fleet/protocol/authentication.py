"""Authenticates requests of workers by their tokens, and records when each worker was last seen.

A token has 64 characters and is stored as its SHA-256. One indexed statement finds the tokens of requests that arrive
together. The worker of a request is found once and passed on as a value. These values are named tuples, because each
poll creates several, and a frozen dataclass takes seven times as long to create.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import structlog
from starlette.requests import Request

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.batching import Batcher
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.signing import Master, SigningKeys, sha256_hex
from callsheet.wire.errors import NotAuthenticated
from callsheet.wire.worker.errors import RegistrationExpired


class LeaseOfWorker(NamedTuple):
    """A lease that the worker holds according to the queue."""

    dispatch_id: int
    lease_token: UUID
    poll_id: str | None
    leased_seconds_ago: float
    # Whether the worker ever sent a heartbeat for the lease.
    heartbeated: bool
    # Time until the lease expires, unless a heartbeat extends it.
    left_seconds: float
    # Time since the last heartbeat; before the first one, since the lease.
    silent_seconds: float


class WorkerPrincipal(NamedTuple):
    worker_id: str
    session_id: int
    stage: str
    providers: tuple[str, ...]
    # Jobs that the worker runs at once, according to its last poll.
    max_concurrency: int
    is_approved: bool
    is_draining: bool
    # The token that replaces the token of the request; every response carries it until the worker uses it.
    rotated_token: str | None = None
    # Only for polls: active workflows of the worker or its active fleet, in ascending order; and the worker's leases.
    workflow_ids: tuple[int, ...] = ()
    held: tuple[LeaseOfWorker, ...] = ()
    # Whether the registration named providers.
    names_providers: bool = True
    # The registered value, which is the upper limit; None: the same as max_concurrency.
    registered_concurrency: int | None = None

    @property
    def actor(self) -> str:
        return f"worker:{self.worker_id}"


SCHEME = "bearer "
# Prefix of the registration tokens of fleets.
FLEET_TOKEN_PREFIX = "csf_"  # noqa: S105


def new_token() -> str:
    return secrets.token_hex(32)


def hash_token(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def token_in(authorization: str | None) -> str | None:
    """The token of an Authorization header."""
    if authorization is None or authorization[: len(SCHEME)].lower() != SCHEME:
        return None
    return authorization[len(SCHEME) :].strip() or None


class RotatedTokens:
    """Rotated tokens. Every response of every control plane contains the same new token, which is derived and not
    stored.
    """

    def __init__(self, secret: Master):
        self._keys = SigningKeys(secret, "worker token")

    def token(self, worker_id: str, rotation_id: UUID) -> str:
        return sha256_hex(self._keys.sign(worker_id, str(rotation_id)))

    def pending(self, worker_id: str, rotation_id: UUID, token_hash: bytes) -> str | None:
        """The token of a started rotation, which may be derived from the previous key. None if no key matches."""
        tokens = [sha256_hex(each) for each in self._keys.signatures(worker_id, str(rotation_id))]
        return next((token for token in tokens if hmac.compare_digest(hash_token(token), token_hash)), None)


log = get_logger(__name__)


class Presence(Loop):
    """Records when workers were last seen: outside the requests, once a second for all workers."""

    name = "worker_presence"
    interval_seconds = 1.0

    def __init__(self, databases: Databases):
        super().__init__()
        self._databases = databases
        # Times of this process's monotonic clock. The database gets their age and uses its own clock.
        self._seen: dict[str, float] = {}

    def record(self, worker_id: str) -> None:
        self._seen[worker_id] = self._clock.monotonic()

    async def tick(self, now: datetime) -> None:
        seen, self._seen = self._seen, {}
        if not seen:
            return
        moment = self._clock.monotonic()
        try:
            async with self._databases.central.connection() as connection:
                await SQL["touch_workers"].run(
                    connection,
                    worker_ids=list(seen),
                    seconds_ago=[moment - at for at in seen.values()],
                )
        except BaseException:
            self._seen = {**seen, **self._seen}
            raise

    async def stop(self) -> None:
        await super().stop()
        try:
            await self.tick(self._clock.now())
        # The rest of the shutdown is more important than the time when a worker was last seen.
        except DATABASE_AWAY as error:
            log.warning("presence.lost", workers=len(self._seen), error=repr(error))


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
    held_silent_seconds: Sequence[float] | None


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
                    row.held_silent_seconds or (),
                    strict=True,
                )
            ),
        )
