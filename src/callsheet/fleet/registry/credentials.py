"""Credentials of a registration: a token of a fleet, or the shared secret. They decide what the worker may do.

The shared secret is valid for every fleet. If none is set, it is derived for this machine.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final, TypeAlias

from fastapi import Request

from callsheet.fleet.fleets.fleet_tokens import FleetTokens
from callsheet.fleet.protocol.authentication import hash_token
from callsheet.identity.access.attempts import Attempts
from callsheet.plumbing.http.client_address import was_forwarded
from callsheet.settings import FleetSettings, Settings
from callsheet.toolbox.http.addresses import is_loopback, is_loopback_url
from callsheet.toolbox.signing import Master, SigningKeys
from callsheet.wire.errors import NotAuthenticated


def fleet_secret(settings: FleetSettings, secret: Master) -> str:
    """The secret of the settings, or this machine's secret, which is derived from the installation's key."""
    return accepted_secrets(settings, secret)[0]


def accepted_secrets(settings: FleetSettings, secret: Master) -> tuple[str, ...]:
    """The accepted secrets. While the installation's key is rotated, they include the secret of the previous key,
    which workers still use.
    """
    if settings.secret is not None:
        return (settings.secret.get_secret_value(),)
    return SigningKeys(secret, "fleet secret").signatures("register")


def fingerprints(secret: Master, given: str) -> tuple[bytes, ...]:
    """Fingerprints of a secret that a worker registered with. They are keyed, because an operator's own secret may be
    weak enough to be guessed from a plain hash. New rows store the first one; during a rotation of the key any of them
    may be stored."""
    signatures = SigningKeys(secret, "fleet secret fingerprint").signatures(given)
    return tuple(digest(each) for each in signatures)


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


CREATE = "`callsheet fleets tokens create FLEET` on the control plane makes a registration token."


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """A registration token of a fleet, which fixes the stage and the workflows. The transaction of the registration
    checks it again, because it may be revoked in between."""

    token_hash: bytes


@dataclass(frozen=True, slots=True)
class SecretCredential:
    """The shared secret, or this machine's derived secret."""

    # The first fingerprint is stored with the worker.
    fingerprints: tuple[bytes, ...]
    # Whether a program on this machine sent the request.
    is_local: bool


@dataclass(frozen=True, slots=True)
class OwnCredential:
    """An in-process worker of a control plane. It needs no approval, and no limit applies to it."""


Credential: TypeAlias = TokenCredential | SecretCredential | OwnCredential
OWN: Final = OwnCredential()


class Credentials:
    """Checks credentials. Wrong credentials are rate limited per IP address. Correct ones are not, because a fleet
    may share an IP address.
    """

    def __init__(self, tokens: FleetTokens, settings: Settings, secret: Master, attempts: Attempts):
        self._tokens = tokens
        self._secret = secret
        self._shared = [(each, digest(each)) for each in accepted_secrets(settings.fleet, secret)]
        # No operator handed out the derived secret, so it is accepted from this machine only.
        self._only_local = settings.fleet.secret is None
        self._public_url = settings.public_url
        self._limit = settings.fleet.secret_attempts_per_address
        self._attempts = attempts

    async def of(self, given: str | None, request: Request, address: str) -> Credential:
        is_local = comes_from_here(request, self._public_url)
        shared = None if given is None else self._shared_as(given)
        if shared is not None and (is_local or not self._only_local):
            return SecretCredential(fingerprints(self._secret, shared), is_local)
        if shared is not None:
            raise NotAuthenticated(
                f"This secret is accepted from the control plane's own machine only. {CREATE} To use one secret for "
                "all fleets instead, set CALLSHEET_FLEET__SECRET."
            )
        if given is not None and await self._tokens.is_accepted(given):
            return TokenCredential(hash_token(given))
        await self._attempts.count("fleet-secrets", {self._attempts.address(address, "fleet secret"): self._limit})
        raise NotAuthenticated(f"Send a registration token of the fleet as X-Fleet-Secret. {CREATE}")

    def _shared_as(self, given: str) -> str | None:
        # Digests have the same length for every input.
        tried = digest(given)
        matching = [secret for secret, kept in self._shared if hmac.compare_digest(tried, kept)]
        return matching[0] if matching else None


def comes_from_here(request: Request, public_url: str) -> bool:
    """Whether a program on this machine sent the request. With a public URL there may be a proxy on this machine,
    whose requests look the same. Then no request counts as local.
    """
    peer = request.client.host if request.client else ""
    return is_loopback(peer) and not was_forwarded(request.headers) and is_loopback_url(public_url)
