"""HMAC-SHA256 signatures with one key per purpose, all derived from one master secret."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from typing import TypeAlias

_SALT = b"callsheet.signing.v1"


def derive_key(master: bytes, purpose: str) -> bytes:
    """The key for one purpose (HKDF-SHA256, RFC 5869). It reveals nothing about the master or other keys."""
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
    """Whether `sign` made this signature. Runs in constant time; an invalid text returns False and raises nothing."""
    # The text is compared, not the decoded bytes: base64's spare bits would allow several spellings of a signature.
    return hmac.compare_digest(sign(key, *parts).encode("ascii"), _bytes(signature))


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The master secret during a rotation: the first one signs, the second one is also accepted."""

    first: bytes
    second: bytes


# Code that signs or verifies takes either, by way of `SigningKeys`.
Master: TypeAlias = bytes | KeyPair


def masters(master: Master) -> tuple[bytes, ...]:
    """The secret to sign and seal with, then the other accepted ones."""
    return (master,) if isinstance(master, bytes) else (master.first, master.second)


class SigningKeys:
    """The keys of one purpose: signs with the first, accepts all."""

    def __init__(self, master: Master, purpose: str):
        self._keys = tuple(derive_key(each, purpose) for each in masters(master))

    @property
    def first(self) -> bytes:
        return self._keys[0]

    def sign(self, *parts: str | bytes) -> str:
        return sign(self._keys[0], *parts)

    def signatures(self, *parts: str | bytes) -> tuple[str, ...]:
        """The signature of each key, in the order of the keys."""
        return tuple(sign(key, *parts) for key in self._keys)

    def verify(self, signature: str, *parts: str | bytes) -> bool:
        return any(verify(key, signature, *parts) for key in self._keys)


def sha256_hex(data: str | bytes) -> str:
    return hashlib.sha256(_bytes(data)).hexdigest()


def _bytes(value: str | bytes) -> bytes:
    # Undecodable URLs contain lone surrogates, which must not raise; surrogatepass keeps different strings different.
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
