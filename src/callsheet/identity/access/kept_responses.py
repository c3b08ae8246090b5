"""Responses of requests with an idempotency key, kept for a day (decision 0067).

A response may have a secret that is shown once, like a new API key. Therefore responses are encrypted with a key that
is made from the secret of the installation and from the idempotency key, of which only a hash is stored. If the key of
the client is random, not even the operator can decrypt its response.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.http.once import KeptResponse, KeyedRequest
from callsheet.plumbing.http.request_fields import differing
from callsheet.plumbing.installation.secrets import seal, unseal
from callsheet.toolbox.signing import Master
from callsheet.wire.errors import IdempotencyKeyReused, RequestInProgress, ResponseNotKept

SQL = statements("callsheet.identity.access", "kept_response_statements.sql")
KEPT = timedelta(hours=24)
# A request renews its claim every 10 seconds (RENEW_SECONDS). Its process has died if it is silent for this time.
ABANDONED = timedelta(seconds=30)
# Limits of one user. The oldest responses are dropped first.
MAX_KEYS = 1000
MAX_BYTES = 8_000_000
# The largest body of a request has 1 MiB, and a response repeats it at most.
MAX_RESPONSE_LENGTH = 1_000_000


class KeptRow(NamedTuple):
    request: bytes
    status: int | None
    response: bytes | None


@dataclass(frozen=True, slots=True)
class KeyClaim:
    databases: Databases
    secret: Master
    purpose: str
    names: Mapping[str, Any]
    claim_id: UUID

    async def renew(self) -> None:
        async with self.databases.central.connection() as connection:
            await SQL["renew_claim"].run(connection, **self.names, claim_id=self.claim_id)

    async def release(self) -> None:
        async with self.databases.central.connection() as connection:
            await SQL["release_claim"].run(connection, **self.names, claim_id=self.claim_id)

    async def keep(self, response: KeptResponse) -> None:
        is_kept = len(response.content) <= MAX_RESPONSE_LENGTH
        sealed = seal(self.secret, self.purpose, response.content) if is_kept else None
        async with self.databases.central.transaction() as connection:
            await SQL["keep_response"].run(
                connection, **self.names, claim_id=self.claim_id, status=response.status, response=sealed
            )
            await SQL["drop_surplus"].run(
                connection, caller_id=self.names["caller_id"], max_keys=MAX_KEYS, max_bytes=MAX_BYTES
            )


class KeptResponses:
    def __init__(self, databases: Databases, secret: Master):
        self._databases = databases
        self._secret = secret

    async def claim(self, request: KeyedRequest) -> KeyClaim | KeptResponse:
        """The response of an earlier request with this key, or the right to carry this one out."""
        key = request.key.encode("utf-8", "surrogatepass")
        purpose = f"kept response of {request.caller_id}: {request.key}"
        names = {"caller_id": request.caller_id, "key_hash": hashlib.sha256(key).digest()}
        claim = KeyClaim(self._databases, self._secret, purpose, names, uuid4())
        described = json.dumps({"action": request.action, "fields": request.fields})
        async with self._databases.central.transaction() as connection:
            claimed = await SQL["claim_key"].value(
                connection,
                **names,
                claim_id=claim.claim_id,
                request=seal(self._secret, purpose, described),
                kept_seconds=KEPT.total_seconds(),
                abandoned_seconds=ABANDONED.total_seconds(),
            )
            if claimed is not None:
                return claim
            row = await SQL["find_kept"].row(connection, KeptRow, **names)
        assert row is not None, "the insert found it, and holds its lock"
        return self._earlier(row, purpose, request)

    def _earlier(self, row: KeptRow, purpose: str, request: KeyedRequest) -> KeptResponse:
        described = unseal(self._secret, purpose, row.request)
        if described is None:
            raise ResponseNotKept(None, "The secret key of the installation was changed since.")
        earlier = json.loads(described)
        if earlier["action"] != request.action:
            raise IdempotencyKeyReused.by_request(earlier["action"])
        if fields := differing(earlier["fields"], request.fields):
            raise IdempotencyKeyReused.by_request(request.action, fields)
        if row.status is None:
            raise RequestInProgress()
        content = None if row.response is None else unseal(self._secret, purpose, row.response)
        if content is None:
            raise ResponseNotKept(request.action, "Its response was too large to keep.")
        return KeptResponse(row.status, content)
