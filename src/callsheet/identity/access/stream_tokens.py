"""Stream tokens: a page puts one into the URL of an EventSource, which cannot send a header.

A token is signed and not stored. It contains the SHA-256 of the credential that created it, and ends with that
credential: each use looks up the API key or the browser session, as any other request does.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

from callsheet.toolbox.signing import Master, SigningKeys
from callsheet.wire.errors import NotAuthenticated

PREFIX = "cst_"
_KINDS: dict[bytes, Literal["api_key", "session"]] = {b"k": "api_key", b"s": "session"}
# In the place of the kind: a service key that acts for a user. The id of the user comes after the hash.
_FOR_USER = b"u"
# Kind, expiry and hash. A token for one job also has the id of the job.
_LENGTH, _ID_LENGTH = 1 + 8 + 32, 16


@dataclass(frozen=True, slots=True)
class StreamGrant:
    signed_in_with: Literal["api_key", "session"]
    credential_hash: bytes
    expires_at: datetime
    # None: the token is for the streams of all jobs of the user.
    job_id: UUID | None = None
    # The user that a service key acted for when it created the token.
    user_id: UUID | None = None


class StreamTokens:
    def __init__(self, secret: Master) -> None:
        self._keys = SigningKeys(secret, "stream token")

    def issue(self, grant: StreamGrant) -> str:
        kind = next(letter for letter, name in _KINDS.items() if name == grant.signed_in_with)
        seconds = int(grant.expires_at.timestamp()).to_bytes(8)
        kind = kind if grant.user_id is None else _FOR_USER
        ids = (each.bytes for each in (grant.user_id, grant.job_id) if each is not None)
        content = kind + seconds + grant.credential_hash + b"".join(ids)
        return f"{PREFIX}{base64.urlsafe_b64encode(content).rstrip(b'=').decode()}.{self._keys.sign(content)}"

    def read(self, token: str, now: datetime) -> StreamGrant:
        """The grant of a token. Raises NotAuthenticated if the token is not ours, or has expired."""
        encoded, _, signature = token.removeprefix(PREFIX).partition(".")
        content = _decoded(encoded)
        # Only what was signed here has this content: the signature is checked before it is read.
        if not token.startswith(PREFIX) or not self._keys.verify(signature, content) or len(content) < _LENGTH:
            raise NotAuthenticated("The stream token is not valid. Get one from POST /api/stream-tokens.")
        expires_at = datetime.fromtimestamp(int.from_bytes(content[1:9]), UTC)
        if now >= expires_at:
            raise NotAuthenticated("The stream token has expired. Get a new one from POST /api/stream-tokens.")
        ids = [UUID(bytes=content[at : at + _ID_LENGTH]) for at in range(_LENGTH, len(content), _ID_LENGTH)]
        user_id = ids.pop(0) if content[:1] == _FOR_USER else None
        kind = _KINDS.get(content[:1], "api_key")
        return StreamGrant(kind, content[9:_LENGTH], expires_at, ids[0] if ids else None, user_id)


def _decoded(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
