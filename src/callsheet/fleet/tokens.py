"""Worker tokens: 64 characters, stored as their SHA-256. A rotated one is derived, so it is nowhere to be read."""

from __future__ import annotations

import hashlib
import secrets
from uuid import UUID

from callsheet.toolbox.signing import derive_key, sha256_hex, sign

SCHEME = "bearer "


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
    """The same rotation gives the same token in every answer of every control plane, without being stored."""

    def __init__(self, secret: bytes):
        self._key = derive_key(secret, "worker token")

    def token(self, worker_id: str, rotation_id: UUID) -> str:
        return sha256_hex(sign(self._key, worker_id, str(rotation_id)))
