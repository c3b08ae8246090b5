"""HMAC-SHA256 signatures with one key per purpose, all derived from one master secret."""

from __future__ import annotations

import base64
import hashlib
import hmac

_SALT = b"callsheet.signing.v1"


def derive_key(master: bytes, purpose: str) -> bytes:
    """The key for one purpose (HKDF-SHA256, RFC 5869): knowing it tells nothing about the master or other keys."""
    if not master:
        raise ValueError("the master secret is empty")
    pseudo_random_key = hmac.digest(_SALT, master, "sha256")
    return hmac.digest(pseudo_random_key, _bytes(purpose) + b"\x01", "sha256")


def sign(key: bytes, *parts: str | bytes) -> str:
    """A signature over the parts in this order, as URL-safe base64 without padding (43 characters).

    Every part is preceded by its length: ("ab", "c") and ("a", "bc") have different signatures.
    """
    encoded = [_bytes(part) for part in parts]
    message = b"".join([piece for data in encoded for piece in (len(data).to_bytes(8), data)])
    return base64.urlsafe_b64encode(hmac.digest(key, message, "sha256")).rstrip(b"=").decode("ascii")


def verify(key: bytes, signature: str, *parts: str | bytes) -> bool:
    """Whether `sign` made this signature. In constant time; rubbish is a plain no, never an error."""
    # The text is compared, not the decoded bytes: base64's spare bits would let a signature have several spellings.
    return hmac.compare_digest(sign(key, *parts).encode("ascii"), _bytes(signature))


def sha256_hex(data: str | bytes) -> str:
    return hashlib.sha256(_bytes(data)).hexdigest()


def _bytes(value: str | bytes) -> bytes:
    # Lone surrogates arrive in undecodable URLs and must not raise; surrogatepass keeps different strings different.
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
