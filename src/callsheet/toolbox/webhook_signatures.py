"""Secrets and signatures of Standard Webhooks 1.0 (https://www.standardwebhooks.com): for the callbacks of providers,
and for the webhooks that Callsheet sends. Pure.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets

PREFIX = "whsec_"
# The standard says 24 to 64; some services have shorter ones.
MIN_BYTES, NEW_BYTES = 16, 32


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(NEW_BYTES)).decode("ascii")


def key_of(secret: str) -> bytes:
    """The key of a secret. Raises ValueError if the secret has another form."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or len(key) < MIN_BYTES:
        raise ValueError("must be like whsec_ and base64")
    return key


def signature_of(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode("ascii")
