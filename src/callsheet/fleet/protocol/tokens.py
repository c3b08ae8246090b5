"""Worker tokens: 64 characters, stored as their SHA-256. A rotated token is derived from a key and never stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from uuid import UUID

from callsheet.toolbox.signing import Master, SigningKeys, sha256_hex

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
